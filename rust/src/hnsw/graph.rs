//! The graph's state: two arenas of links, the entry point, the locks of linkers, how far linking has come.

use super::codes::{Codes, Rotated};
use super::links::{Link, List, ground_stride, slot_header, upper_stride};
use super::params::{Params, State};
use super::scratch::ScratchPool;
use crate::arena::{Arena, Piece};
use crate::error::{Error, Result};
use crate::flat::Rows;
use crate::ids::RowId;
use crate::limits::{MAX_GRAPH_ROWS, MAX_LEVEL};
use kektordb_compute::Codec;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Locks that nodes share by their number.
const STRIPES: usize = 1024;

/// An HNSW graph over the rows of one collection.
#[derive(Debug)]
pub struct Graph {
    pub(super) params: Params,
    /// `None`: links only.
    pub(super) codes: Option<Codes>,
    pub(super) ground: Arena,
    pub(super) upper: Arena,
    entry: AtomicU64,
    /// Held while a node that rises above the entry point is linked, and while the entry point changes.
    pub(super) entry_lock: Mutex<()>,
    locks: Box<[Mutex<()>]>,
    progress: Mutex<BTreeSet<RowId>>,
    linked: AtomicU32,
    pub(super) pool: ScratchPool,
}

/// Where every walk starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) row: RowId,
    /// The row's slot on its highest level; `None` where it stands on the ground only.
    pub(super) slot: Option<u32>,
}

impl Graph {
    /// An empty graph.
    pub fn new(params: Params) -> Result<Self> {
        params.check()?;
        Self::empty(params, None)
    }

    /// An empty packed graph over vectors that `codec` encodes.
    pub fn packed(params: Params, codec: &Codec) -> Result<Self> {
        params.check()?;
        Self::empty(params, Some(Codes::new(codec, params.m0, params.seed)))
    }

    fn empty(params: Params, codes: Option<Codes>) -> Result<Self> {
        let ground = Arena::new(stride(&params, codes.as_ref()))?;
        let upper = Arena::new(upper_stride(params.m))?;
        Ok(Self::over(params, codes, ground, upper, 0, 0))
    }

    /// True for a graph with neighbour codes.
    pub fn is_packed(&self) -> bool {
        self.codes.is_some()
    }

    /// A graph over what a checkpoint stored: maps the pieces, reads nothing of them.
    /// The files' bytes are vouched for by whoever holds their checksums; what a link says is checked when followed.
    pub fn open(params: Params, state: &State, ground: &[Piece], upper: &[Piece]) -> Result<Self> {
        params.check()?;
        Self::open_with(params, None, state, ground, upper)
    }

    /// The same for a packed graph over vectors that `codec` encodes.
    pub fn open_packed(
        params: Params,
        codec: &Codec,
        state: &State,
        ground: &[Piece],
        upper: &[Piece],
    ) -> Result<Self> {
        params.check()?;
        Self::open_with(params, Some(Codes::new(codec, params.m0, params.seed)), state, ground, upper)
    }

    fn open_with(
        params: Params,
        codes: Option<Codes>,
        state: &State,
        ground: &[Piece],
        upper: &[Piece],
    ) -> Result<Self> {
        let differs = |what: &str, got: u64, want: u64| {
            Err(Error::invalid(
                format!("the graph was built with {what} {got}, asked for {want}"),
                "open it with the values it was built with, or build it anew",
            ))
        };
        if state.m as usize != params.m {
            return differs("m", state.m as u64, params.m as u64);
        }
        if state.m0 as usize != params.m0 {
            return differs("m0", state.m0 as u64, params.m0 as u64);
        }
        if state.seed != params.seed {
            return differs("seed", state.seed, params.seed);
        }
        let (row, slot) = (state.entry as u32, (state.entry >> 32) as u32);
        if state.rows as usize > MAX_GRAPH_ROWS
            || state.linked > state.rows
            || row > state.rows
            || slot > state.slots
        {
            return Err(Error::Internal(format!(
                "the graph's stored state is not a possible one: {state:?}"
            )));
        }
        let ground = Arena::open(stride(&params, codes.as_ref()), state.rows as usize, ground)?;
        let upper = Arena::open(upper_stride(params.m), state.slots as usize, upper)?;
        Ok(Self::over(params, codes, ground, upper, state.entry, state.linked))
    }

    fn over(
        params: Params,
        codes: Option<Codes>,
        ground: Arena,
        upper: Arena,
        entry: u64,
        linked: u32,
    ) -> Self {
        Graph {
            params,
            codes,
            ground,
            upper,
            entry: AtomicU64::new(entry),
            entry_lock: Mutex::new(()),
            locks: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            progress: Mutex::new(BTreeSet::new()),
            linked: AtomicU32::new(linked),
            pool: ScratchPool::new(),
        }
    }

    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Rows that may be linked: those that [`grow_to`](Self::grow_to) has seen.
    pub fn rows(&self) -> usize {
        self.ground.rows()
    }

    /// Every row below this is linked or was skipped.
    pub fn linked(&self) -> RowId {
        self.linked.load(Ordering::Acquire)
    }

    /// What a checkpoint keeps beside the arenas. Consistent with them while no linker runs.
    pub fn state(&self) -> State {
        State {
            m: self.params.m as u32,
            m0: self.params.m0 as u32,
            seed: self.params.seed,
            rows: self.ground.rows() as u32,
            slots: self.upper.rows() as u32,
            linked: self.linked(),
            entry: self.entry.load(Ordering::Acquire),
        }
    }

    /// Ground links, a row each; for the checkpoint.
    pub fn ground(&self) -> &Arena {
        &self.ground
    }

    /// Upper links, a slot for each row and level above the ground; for the checkpoint.
    pub fn upper(&self) -> &Arena {
        &self.upper
    }

    /// Makes room for rows up to `rows` and draws the new ones' levels. They are not linked by this.
    pub fn grow_to(&mut self, rows: usize) -> Result<()> {
        if rows > MAX_GRAPH_ROWS {
            return Err(Error::LimitExceeded {
                limit: "MAX_GRAPH_ROWS",
                what: "rows of the graph".into(),
                got: rows as u64,
                max: MAX_GRAPH_ROWS as u64,
            });
        }
        let first = self.ground.rows();
        // A failure between two steps leaves rows without slots, never slots without rows.
        self.ground.grow_to(rows)?;
        for row in first..rows {
            let levels = level_of(self.params.seed, row as RowId, self.params.m);
            let slot = self.upper.rows();
            self.upper.grow_to(slot + levels as usize)?;
            for level in 1..=levels {
                let header = (level as u64) << 32 | row as u64;
                self.upper.row_u64(slot + level as usize - 1)[0].store(header, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The slots of a row, level 1 first. Slots lie in rising order of rows, so this is a binary search.
    pub(super) fn slots_of(&self, row: RowId) -> Range<u32> {
        let below = |bound: RowId| {
            let (mut low, mut high) = (0, self.upper.rows() as u32);
            while low < high {
                let mid = low + (high - low) / 2;
                if slot_header(&self.upper, mid).0 < bound { low = mid + 1 } else { high = mid }
            }
            low
        };
        below(row)..below(row + 1)
    }

    pub(super) fn entry(&self) -> Option<Entry> {
        let e = self.entry.load(Ordering::Acquire);
        let (row, slot) = (e as u32, (e >> 32) as u32);
        (row != 0).then(|| Entry { row: row - 1, slot: slot.checked_sub(1) })
    }

    /// Holds `entry_lock`.
    pub(super) fn set_entry(&self, e: Option<Entry>) {
        let word = match e {
            Some(e) => (e.slot.map_or(0, |s| s + 1) as u64) << 32 | (e.row + 1) as u64,
            None => 0,
        };
        self.entry.store(word, Ordering::Release);
    }

    pub(super) fn lock(&self, node: u32) -> MutexGuard<'_, ()> {
        self.locks[node as usize % STRIPES].lock()
    }

    /// The links of a node; none where there is no such node.
    #[inline(always)]
    pub(super) fn each_link<const UPPER: bool>(&self, node: u32, f: impl FnMut(Link)) {
        if UPPER {
            if (node as usize) < self.upper.rows() {
                self.upper.row_u64(node as usize)[1..].each(f);
            }
        } else if (node as usize) < self.ground.rows() {
            self.ground.row_u32(node as usize)[..self.params.m0].each(f);
        }
    }

    /// Replaces the links of a node, at most as many as its layer allows; holds the node's lock. Nothing where there is
    /// no such node (a damaged link named it).
    pub(super) fn store_links<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        node: u32,
        links: &[Link],
        rotated: &mut Rotated,
    ) {
        debug_assert!(links.len() <= self.width::<UPPER>());
        if node as usize >= if UPPER { self.upper.rows() } else { self.ground.rows() } {
            return;
        }
        if UPPER {
            self.upper.row_u64(node as usize)[1..].store(links);
        } else if let Some(codes) = &self.codes {
            codes.store(rows, node, self.ground.row_u32(node as usize), self.params.m0, links, rotated);
        } else {
            self.ground.row_u32(node as usize)[..self.params.m0].store(links);
        }
    }

    /// Row and level of a slot; level 0 where there is no such slot.
    #[inline(always)]
    pub(super) fn slot_header(&self, slot: u32) -> (RowId, u32) {
        if (slot as usize) < self.upper.rows() { slot_header(&self.upper, slot) } else { (0, 0) }
    }

    /// Most links of a node.
    pub(super) fn width<const UPPER: bool>(&self) -> usize {
        if UPPER { self.params.m } else { self.params.m0 }
    }

    #[inline(always)]
    pub(super) fn prefetch_links<const UPPER: bool>(&self, node: u32) {
        let (arena, bytes) = if UPPER { (&self.upper, 64) } else { (&self.ground, self.params.m0 * 4) };
        if (node as usize) < arena.rows() {
            kektordb_compute::prefetch(arena.row_ptr(node as usize), bytes);
        }
    }

    /// Counts a row as done: linked or skipped.
    pub(super) fn done(&self, row: RowId) {
        let mut ahead = self.progress.lock();
        let mut next = self.linked.load(Ordering::Relaxed);
        if row < next {
            return;
        }
        ahead.insert(row);
        while ahead.remove(&next) {
            next += 1;
        }
        self.linked.store(next, Ordering::Release);
    }

    /// Counts a row as done without linking it, for rows that were deleted before their turn came.
    pub fn skip(&self, row: RowId) {
        if (row as usize) < self.rows() {
            self.done(row);
        }
    }
}

/// Width of a ground row in bytes.
fn stride(params: &Params, codes: Option<&Codes>) -> usize {
    codes.map_or(ground_stride(params.m0), |c| c.stride(params.m0))
}

/// Level of a row: at least `l` with probability `m^-l`, drawn from the seed and the row alone.
fn level_of(seed: u64, row: RowId, m: usize) -> u32 {
    // SplitMix64's finaliser (Steele, Lea and Flood, 2014).
    let mut h = seed.wrapping_add((row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    h = (h ^ h >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ h >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    h ^= h >> 31;
    let (mut level, mut below) = (0, u64::MAX / m as u64);
    while h < below && level < MAX_LEVEL as u32 {
        level += 1;
        below /= m as u64;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_fall_off_by_m() {
        for m in [2usize, 16] {
            let n = 200_000u32;
            let mut at_least = [0usize; 5];
            for row in 0..n {
                let l = level_of(7, row, m) as usize;
                at_least.iter_mut().take(l + 1).for_each(|c| *c += 1);
            }
            for (l, &got) in at_least.iter().enumerate().take(3) {
                let want = n as f64 / (m as f64).powi(l as i32);
                let got = got as f64;
                assert!(
                    (got - want).abs() <= 6.0 * want.sqrt(),
                    "m {m} level {l}: {got}, wanted about {want}"
                );
            }
        }
    }

    #[test]
    fn slots_are_found_by_row() {
        let mut g = Graph::new(Params::new(4, 10)).unwrap();
        g.grow_to(10).unwrap();
        g.grow_to(1000).unwrap();
        let mut next = 0;
        for row in 0..1000 {
            let s = g.slots_of(row);
            assert_eq!(s.start, next);
            assert_eq!(s.len() as u32, level_of(0, row, 4));
            for (i, slot) in s.clone().enumerate() {
                assert_eq!(slot_header(&g.upper, slot), (row, i as u32 + 1));
            }
            next = s.end;
        }
        assert_eq!(next as usize, g.upper.rows());
    }

    #[test]
    fn a_row_counts_as_linked_once_all_before_it_do() {
        let mut g = Graph::new(Params::new(4, 10)).unwrap();
        g.grow_to(5).unwrap();
        g.skip(1);
        g.skip(2);
        assert_eq!(g.linked(), 0);
        g.skip(0);
        assert_eq!(g.linked(), 3);
        g.skip(7);
        g.skip(3);
        assert_eq!(g.linked(), 4);
    }
}
