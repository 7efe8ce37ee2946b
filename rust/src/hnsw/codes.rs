//! Neighbour codes behind the ground links: what makes a graph a packed one.
//!
//! A ground row then holds its `m0` links and, for each 32 of them, a block of one-bit codes of the neighbours relative
//! to the row, lane i for link i (SymphonyQG, arXiv 2411.12229; see `kektordb_compute::rabitq`). A link keeps its lane
//! for as long as it stays in the list, so that a change of the list rewrites the lanes of newcomers only.
//!
//! Links and codes are not written at one instant: a reader may estimate a neighbour by its predecessor's code. That
//! misplaces one candidate in one walk; distances that are returned never come from codes.

use super::links::{Link, List, ground_stride};
use crate::flat::Rows;
use crate::ids::RowId;
use kektordb_compute::Codec;
use kektordb_compute::rabitq::{LANES, LaneCodec, Lut, Rotation};
use std::sync::atomic::AtomicU32;
#[cfg(test)]
use std::sync::atomic::Ordering;

/// Rotated rows that one linking step keeps; the least that can work is one list and its node.
const KEEP: usize = 256;

/// Writes codes and reads estimates.
#[derive(Debug)]
pub(super) struct Codes {
    rotation: Rotation,
    lanes: LaneCodec,
    /// Words of a ground row before its codes.
    links: usize,
}

/// Rotated rows of the present linking step: its node and neighbours are needed many times.
#[derive(Debug, Default)]
pub(super) struct Rotated {
    rows: Vec<RowId>,
    vectors: Vec<f32>,
    plain: Vec<f32>,
    scratch: Vec<f32>,
}

impl Rotated {
    /// Forgets all: rows may hold other vectors by the next step.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.vectors.clear();
    }
}

/// A query's tables and what making them needs.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) lut: Lut,
    rotated: Vec<f32>,
    scratch: Vec<f32>,
}

impl Codes {
    pub(super) fn new(codec: &Codec, m0: usize, seed: u64) -> Self {
        let rotation = Rotation::new(codec.dim(), seed);
        let lanes = LaneCodec::new(codec.metric(), rotation.padded());
        Codes { rotation, lanes, links: ground_stride(m0) / 4 }
    }

    /// Bytes of a ground row, whole cache lines.
    pub(super) fn stride(&self, m0: usize) -> usize {
        (self.links * 4 + m0.div_ceil(LANES) * self.lanes.words() * 4).next_multiple_of(64)
    }

    pub(super) fn tables(&self, vector: &[f32], out: &mut Tables) {
        out.rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.rotate(vector, &mut out.rotated, &mut out.scratch);
        self.lanes.lut(&out.rotated, &mut out.lut);
    }

    /// Tables of a stored row, which is to be linked.
    pub(super) fn tables_of_row(&self, rows: &Rows<'_>, row: RowId, rotated: &mut Rotated, out: &mut Tables) {
        let at = self.rotate(rows, row, rotated) * self.rotation.padded();
        self.lanes.lut(&rotated.vectors[at..at + self.rotation.padded()], &mut out.lut);
    }

    /// Estimated distances of links `32·block ..`; `words` is the ground row, `distance` the query's from it.
    #[inline(always)]
    pub(super) fn estimates(
        &self,
        words: &[AtomicU32],
        block: usize,
        lut: &Lut,
        distance: f32,
    ) -> [f32; LANES] {
        self.lanes.estimates(&words[self.links + block * self.lanes.words()..], lut, distance)
    }

    /// Replaces the links of a ground row and writes the codes of those that are new; holds the node's lock.
    pub(super) fn store(
        &self,
        rows: &Rows<'_>,
        row: RowId,
        words: &[AtomicU32],
        m0: usize,
        links: &[Link],
        rotated: &mut Rotated,
    ) {
        let (list, blocks) = (&words[..m0], &words[self.links..]);
        let mut old = Vec::with_capacity(m0);
        list.each(|l| old.push(l.row));
        let mut placed: Vec<Option<Link>> = vec![None; links.len()];
        let mut moved = Vec::new();
        for &l in links {
            match old.iter().position(|&r| r == l.row) {
                Some(at) if at < links.len() && placed[at].is_none() => placed[at] = Some(l),
                from => moved.push((l, from)),
            }
        }
        if rotated.rows.len() + moved.len() >= KEEP {
            rotated.clear();
        }
        let block = |lane: usize| &blocks[lane / LANES * self.lanes.words()..];
        let free = (0..links.len()).filter(|&i| placed[i].is_none()).collect::<Vec<_>>();
        for ((l, from), to) in moved.into_iter().zip(free) {
            placed[to] = Some(l);
            match from {
                Some(from) => self.lanes.copy_lane(block(from), from % LANES, block(to), to % LANES),
                None => self.write(rows, row, l.row, block(to), to % LANES, rotated),
            }
        }
        let placed: Vec<Link> = placed.into_iter().flatten().collect();
        list.store(&placed);
    }

    /// Writes every lane anew elsewhere and compares.
    #[cfg(test)]
    pub(super) fn are_right(&self, rows: &Rows<'_>, row: RowId, words: &[AtomicU32], m0: usize) -> bool {
        let n = self.lanes.words();
        let new = |_| (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let (mut rotated, mut lane, mut right) = (Rotated::default(), 0, true);
        words[..m0].each(|l| {
            let [fresh, kept] = [0, 1].map(new);
            let block = &words[self.links + lane / LANES * n..];
            self.write(rows, row, l.row, &fresh, lane % LANES, &mut rotated);
            self.lanes.copy_lane(block, lane % LANES, &kept, lane % LANES);
            let plain = |b: &[AtomicU32]| b.iter().map(|w| w.load(Ordering::Relaxed)).collect::<Vec<_>>();
            right &= plain(&fresh) == plain(&kept);
            lane += 1;
        });
        right
    }

    fn write(
        &self,
        rows: &Rows<'_>,
        centre: RowId,
        neighbour: RowId,
        block: &[AtomicU32],
        lane: usize,
        rotated: &mut Rotated,
    ) {
        // A damaged list may name rows that are not there.
        if centre.max(neighbour) as usize >= rows.count() {
            return;
        }
        let (c, n) = (self.rotate(rows, centre, rotated), self.rotate(rows, neighbour, rotated));
        let padded = self.rotation.padded();
        let vector = |i: usize| &rotated.vectors[i * padded..(i + 1) * padded];
        self.lanes.write_lane(block, lane, vector(c), vector(n));
    }

    /// Place of the row among the rotated ones.
    fn rotate(&self, rows: &Rows<'_>, row: RowId, rotated: &mut Rotated) -> usize {
        if let Some(at) = rotated.rows.iter().position(|&r| r == row) {
            return at;
        }
        let at = rotated.rows.len();
        let padded = self.rotation.padded();
        rotated.plain.resize(self.rotation.dim(), 0.0);
        rows.codec().decode(rows.bytes(row), &mut rotated.plain);
        rotated.vectors.resize((at + 1) * padded, 0.0);
        self.rotation.rotate(&rotated.plain, &mut rotated.vectors[at * padded..], &mut rotated.scratch);
        rotated.rows.push(row);
        at
    }
}
