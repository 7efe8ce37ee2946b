//! What a search needs beside the graph, kept from one search to the next.

use super::beam::{Heaps, Sorted};
use super::codes::{Rotated, Tables};
use crate::ids::RowId;
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};

/// Working memory of one search, linker or repair at a time: one byte a row and what the widest `ef` so far needed.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) visited: Visited,
    pub(super) sorted: Sorted,
    pub(super) near: Sorted,
    pub(super) heaps: Heaps,
    pub(super) batch: Batch,
    pub(super) keys: Vec<u64>,
    pub(super) rotated: Rotated,
    pub(super) tables: Tables,
}

impl Scratch {
    pub fn new() -> Self {
        Self::default()
    }
}

/// Neighbours that are about to be scored.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) nodes: Vec<u32>,
    pub(super) rows: Vec<RowId>,
    pub(super) distances: Vec<f32>,
}

impl Batch {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.rows.clear();
    }

    /// Room for the distances of `rows`.
    #[inline(always)]
    pub(super) fn room(&mut self) {
        if self.distances.len() < self.rows.len() {
            self.distances.resize(self.rows.len(), 0.0);
        }
    }
}

/// The rows seen by the present search: a stamp a row, so that starting anew costs nothing but once in 255 times.
#[derive(Debug, Default)]
pub(super) struct Visited {
    stamps: Vec<u8>,
    now: u8,
    /// Rows of the present search; a scratch may have served a larger graph before.
    rows: usize,
}

impl Visited {
    /// Forgets all rows; rows `0..rows` can be marked from now on.
    pub(super) fn start(&mut self, rows: usize) {
        self.rows = rows;
        if self.stamps.len() < rows {
            self.stamps.resize(rows, 0);
        }
        if self.now == u8::MAX {
            self.stamps.fill(0);
            self.now = 0;
        }
        self.now += 1;
    }

    /// Marks a row; false where it was marked before or cannot be.
    #[inline(always)]
    pub(super) fn mark(&mut self, row: RowId) -> bool {
        match self.stamps.get_mut(row as usize) {
            Some(s) if *s != self.now && (row as usize) < self.rows => {
                *s = self.now;
                true
            }
            _ => false,
        }
    }

    #[inline(always)]
    pub(super) fn is_marked(&self, row: RowId) -> bool {
        row as usize >= self.rows || self.stamps.get(row as usize).is_none_or(|s| *s == self.now)
    }
}

/// Most idle scratches that a pool keeps.
const KEEP: usize = 64;

/// Scratches for threads that come and go.
#[derive(Debug, Default)]
pub struct ScratchPool {
    idle: Mutex<Vec<Scratch>>,
}

impl ScratchPool {
    pub fn new() -> Self {
        Self::default()
    }

    /// A scratch that goes back to the pool when dropped.
    pub fn get(&self) -> Pooled<'_> {
        let scratch = self.idle.lock().pop().unwrap_or_default();
        Pooled { pool: self, scratch: Some(scratch) }
    }
}

/// A borrowed [`Scratch`].
#[derive(Debug)]
pub struct Pooled<'a> {
    pool: &'a ScratchPool,
    scratch: Option<Scratch>,
}

impl Deref for Pooled<'_> {
    type Target = Scratch;
    fn deref(&self) -> &Scratch {
        self.scratch.as_ref().expect("held until the drop")
    }
}

impl DerefMut for Pooled<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect("held until the drop")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(s) = self.scratch.take() {
            let mut idle = self.pool.idle.lock();
            if idle.len() < KEEP {
                idle.push(s);
            }
        }
    }
}
