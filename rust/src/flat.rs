//! Exact search: every allowed row is scored.
//!
//! Promise: the `k` allowed rows nearest to the query, sorted by (distance, row). It is the oracle of the graph's tests,
//! the index of small collections and of the un-linked tail, and what a filtered search falls back to.
//! Cost: one distance a row, read as a stream where rows are dense. May import `arena`, `error`, `ids`, the kernels.

mod bitset;

pub use bitset::BitSet;

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::ids::RowId;
use kektordb_compute::{Codec, Query};
use std::marker::PhantomData;
use std::ops::Range;

/// One answer of a search. Smaller distances are nearer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub row: RowId,
    pub distance: f32,
}

/// The rows that a search may return.
#[derive(Debug, Clone, Copy)]
pub enum Allow<'a> {
    All,
    Bits(&'a BitSet),
}

impl Allow<'_> {
    #[inline(always)]
    pub fn contains(&self, row: RowId) -> bool {
        match self {
            Allow::All => true,
            Allow::Bits(b) => b.contains(row),
        }
    }
}

/// The encoded vectors of rows `0..count`, as they lie in their arena.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    base: *const u8,
    stride: usize,
    codec: &'a Codec,
    count: usize,
    stored: usize,
    arena: PhantomData<&'a Arena>,
}

// SAFETY: a `Rows` only reads, and stands for a shared borrow of an `Arena`, which is `Sync`.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    /// A view of the first `count` rows. Refused where the arena has fewer rows or narrower ones than the codec writes.
    pub fn new(arena: &'a Arena, codec: &'a Codec, count: usize) -> Result<Self> {
        if count > arena.rows() || arena.stride() < codec.row_bytes() {
            return Err(Error::Internal(format!(
                "{count} vectors of {} bytes do not lie in an arena of {} × {}",
                codec.row_bytes(),
                arena.rows(),
                arena.stride()
            )));
        }
        let base = if arena.rows() == 0 { std::ptr::NonNull::dangling().as_ptr() } else { arena.row_ptr(0) };
        Ok(Rows { base, stride: arena.stride(), codec, count, stored: arena.rows(), arena: PhantomData })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn codec(&self) -> &'a Codec {
        self.codec
    }

    /// The same rows without those at or past `count`.
    pub fn first(&self, count: usize) -> Self {
        Rows { count: self.count.min(count), ..*self }
    }

    /// All rows of the arena, for walking through those that the caller may not see yet.
    pub(crate) fn stored(&self) -> Self {
        Rows { count: self.stored, ..*self }
    }

    /// Asks the processor for the row's bytes. Any row is fine.
    #[inline(always)]
    pub(crate) fn prefetch(&self, row: RowId) {
        kektordb_compute::prefetch(
            self.base.wrapping_add(row as usize * self.stride),
            self.codec.row_bytes(),
        );
    }

    /// The row's bytes. Panics past the end.
    #[inline]
    pub(crate) fn bytes(&self, row: RowId) -> &'a [u8] {
        // SAFETY: `ptr` checks the row; its bytes are committed and live as long as the borrowed arena.
        unsafe { std::slice::from_raw_parts(self.ptr(row), self.codec.row_bytes()) }
    }

    /// Distances from the query to `ids`. Panics where one is past the end.
    #[inline]
    pub(crate) fn distances(&self, q: &Query, ids: &[RowId], out: &mut [f32]) {
        self.check(ids);
        // SAFETY: every id is below `count`, so each row lies in the arena; `out` is as long as `ids` (sliced here).
        unsafe { self.codec.distances(q, self.base, self.stride, ids, &mut out[..ids.len()]) }
    }

    /// Distances from the stored row `a` to `ids`. Panics where one is past the end.
    #[inline]
    pub(crate) fn distances_from(&self, a: RowId, ids: &[RowId], out: &mut [f32]) {
        self.check(ids);
        let a = self.ptr(a);
        let out = &mut out[..ids.len()];
        for (i, (&b, d)) in ids.iter().zip(out).enumerate() {
            if let Some(&next) = ids.get(i + ROWS_AHEAD) {
                self.prefetch(next);
            }
            // SAFETY: every id is below `count` (checked above), so the row lies in the arena.
            *d = unsafe { self.codec.distance_rows(a, self.base.add(b as usize * self.stride)) };
        }
    }

    /// Distance between two stored rows. Panics where one is past the end.
    #[inline]
    pub(crate) fn distance_between(&self, a: RowId, b: RowId) -> f32 {
        // SAFETY: `ptr` checks both rows.
        unsafe { self.codec.distance_rows(self.ptr(a), self.ptr(b)) }
    }

    #[inline]
    fn distances_range(&self, q: &Query, range: Range<usize>, out: &mut [f32]) {
        assert!(range.end <= self.count, "rows {range:?} of {}", self.count);
        let out = &mut out[..range.len()];
        // SAFETY: the range lies below `count`, so its rows lie in the arena; `out` is as long as the range.
        unsafe { self.codec.distances_range(q, self.base, self.stride, range.start, range.len(), out) }
    }

    #[inline(always)]
    fn ptr(&self, row: RowId) -> *const u8 {
        assert!((row as usize) < self.count, "row {row} of {}", self.count);
        // SAFETY: below `count`, so inside the arena.
        unsafe { self.base.add(row as usize * self.stride) }
    }

    #[inline(always)]
    fn check(&self, ids: &[RowId]) {
        let top = ids.iter().fold(0, |m, &r| m.max(r));
        assert!(ids.is_empty() || (top as usize) < self.count, "row {top} of {}", self.count);
    }
}

/// How many rows ahead a loop over scattered rows prefetches.
const ROWS_AHEAD: usize = 2;
/// Rows scored at once by a scan.
const BLOCK: usize = 256;
/// A block with at least this share (1/n) of its rows allowed is streamed whole, otherwise row by row.
const STREAM_FROM: usize = 2;

/// A distance and a row as one number that sorts by (distance, row); −0 counts as 0.
#[inline(always)]
pub(crate) fn key(distance: f32, row: RowId) -> u64 {
    let b = (distance + 0.0).to_bits();
    let ordered = b ^ (((b as i32 >> 31) as u32) | 0x8000_0000);
    (ordered as u64) << 32 | row as u64
}

#[inline(always)]
pub(crate) fn distance_of(key: u64) -> f32 {
    let o = (key >> 32) as u32;
    f32::from_bits(if o & 0x8000_0000 != 0 { o ^ 0x8000_0000 } else { !o })
}

/// The hit of a key whose low half is the row.
#[inline(always)]
pub(crate) fn hit(key: u64) -> Hit {
    Hit { row: key as RowId, distance: distance_of(key) }
}

/// The `k` smallest keys of a stream: a buffer that is halved when full, so a push costs a comparison on average.
#[derive(Debug)]
pub(crate) struct TopK {
    k: usize,
    keys: Vec<u64>,
    bound: u64,
}

impl TopK {
    /// `most` bounds how many keys will come.
    pub(crate) fn new(k: usize, most: usize) -> Self {
        TopK {
            k,
            keys: Vec::with_capacity((2 * k).max(64).min(most)),
            bound: if k == 0 { 0 } else { u64::MAX },
        }
    }

    /// Keys at or above this one are not wanted.
    #[inline(always)]
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64) {
        if key < self.bound {
            if self.keys.len() >= (2 * self.k).max(64) {
                self.shrink();
            }
            self.keys.push(key);
        }
    }

    #[cold]
    fn shrink(&mut self) {
        let (_, kth, _) = self.keys.select_nth_unstable(self.k - 1);
        self.bound = *kth;
        self.keys.truncate(self.k);
    }

    pub(crate) fn into_hits(mut self) -> Vec<Hit> {
        self.keys.sort_unstable();
        self.keys.truncate(self.k);
        self.keys.into_iter().map(hit).collect()
    }
}

/// The `k` nearest allowed rows of `range`, cut to the rows there are.
pub fn scan(rows: &Rows<'_>, q: &Query, range: Range<usize>, k: usize, allow: Allow<'_>) -> Vec<Hit> {
    let end = range.end.min(rows.count);
    let mut at = range.start.min(end);
    let mut top = TopK::new(k, end - at);
    let mut d = [0f32; BLOCK];
    let mut ids = Vec::with_capacity(BLOCK);
    while at < end {
        let to = end.min(at + BLOCK);
        let wanted = match allow {
            Allow::All => to - at,
            Allow::Bits(b) => b.count_between(at, to),
        };
        if wanted * STREAM_FROM >= to - at {
            rows.distances_range(q, at..to, &mut d);
            for (row, &x) in (at as RowId..).zip(&d[..to - at]) {
                if key(x, row) < top.bound() && allow.contains(row) {
                    top.push(key(x, row));
                }
            }
        } else if wanted > 0
            && let Allow::Bits(b) = allow
        {
            ids.clear();
            b.rows_between(at, to, &mut ids);
            push_scored(rows, q, &ids, &mut d, &mut top);
        }
        at = to;
    }
    top.into_hits()
}

/// The `k` nearest of the given rows; rows at or past `rows.count()` are skipped. `ids` holds no row twice.
pub fn scan_rows(rows: &Rows<'_>, q: &Query, ids: &[RowId], k: usize) -> Vec<Hit> {
    let mut top = TopK::new(k, ids.len());
    let mut d = [0f32; BLOCK];
    let mut some = Vec::with_capacity(BLOCK);
    for part in ids.chunks(BLOCK) {
        some.clear();
        some.extend(part.iter().copied().filter(|&r| (r as usize) < rows.count));
        push_scored(rows, q, &some, &mut d, &mut top);
    }
    top.into_hits()
}

fn push_scored(rows: &Rows<'_>, q: &Query, ids: &[RowId], d: &mut [f32; BLOCK], top: &mut TopK) {
    rows.distances(q, ids, d);
    for (&row, &x) in ids.iter().zip(&d[..]) {
        top.push(key(x, row));
    }
}

/// The `k` first of two sorted answers; a row in both counts once.
pub fn merge(a: &[Hit], b: &[Hit], k: usize) -> Vec<Hit> {
    let mut out: Vec<Hit> = Vec::with_capacity(k.min(a.len() + b.len()));
    let (mut i, mut j) = (0, 0);
    while out.len() < k {
        let take_a = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => key(x.distance, x.row) <= key(y.distance, y.row),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        let next = if take_a { a[i] } else { b[j] };
        *(if take_a { &mut i } else { &mut j }) += 1;
        // One row has one distance, so its two mentions meet as neighbours.
        if out.last().is_none_or(|l| l.row != next.row) {
            out.push(next);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use kektordb_compute::{Dtype, Metric};
    use proptest::prelude::*;

    fn stored(codec: &Codec, vectors: &[Vec<f32>]) -> Arena {
        let bytes = codec.row_bytes();
        let mut arena = Arena::new(bytes.next_multiple_of(4)).unwrap();
        arena.grow_to(vectors.len()).unwrap();
        for (i, v) in vectors.iter().enumerate() {
            codec.encode(v, &mut arena.row_mut(i)[..bytes]);
        }
        arena
    }

    /// Every row by itself, then a sort.
    fn naive(rows: &Rows<'_>, q: &Query, range: Range<usize>, k: usize, allow: Allow<'_>) -> Vec<Hit> {
        let mut all: Vec<Hit> = (range.start..range.end.min(rows.count()))
            .map(|r| r as RowId)
            .filter(|&r| allow.contains(r))
            .map(|row| {
                let mut d = [0f32];
                rows.distances(q, &[row], &mut d);
                Hit { row, distance: d[0] }
            })
            .collect();
        all.sort_by(|a, b| a.distance.partial_cmp(&b.distance).unwrap().then(a.row.cmp(&b.row)));
        all.truncate(k);
        all
    }

    fn vector(dim: usize) -> impl Strategy<Value = Vec<f32>> {
        // Few distinct values, so that ties are common.
        prop::collection::vec((-3i32..=3).prop_map(|x| x as f32), dim)
            .prop_filter("not zero", |v| v.iter().any(|x| *x != 0.0))
    }

    proptest! {
        #[test]
        fn a_scan_is_the_sorted_list_of_all_allowed_rows(
            vectors in (1usize..600).prop_flat_map(|n| prop::collection::vec(vector(5), n)),
            query in vector(5),
            metric in prop::sample::select(vec![Metric::Cosine, Metric::Dot, Metric::L2]),
            dtype in prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::I8]),
            (start, end, k) in (0usize..620, 0usize..620, 0usize..700),
            of in 1u32..40,
            count in 0usize..600,
        ) {
            let codec = Codec::new(metric, dtype, 5);
            let arena = stored(&codec, &vectors);
            let rows = Rows::new(&arena, &codec, count.min(vectors.len())).unwrap();
            let q = codec.query(&query);
            let bits = BitSet::from_rows(vectors.len(), (0..vectors.len() as u32).filter(|r| r.wrapping_mul(2_654_435_761) >> 16 & 0xFF < 256 / of));
            for allow in [Allow::All, Allow::Bits(&bits)] {
                let want = naive(&rows, &q, start..end.max(start), k, allow);
                prop_assert_eq!(scan(&rows, &q, start..end.max(start), k, allow), want);
            }
            let ids: Vec<RowId> = bits.iter().chain([700, RowId::MAX]).collect();
            prop_assert_eq!(scan_rows(&rows, &q, &ids, k), naive(&rows, &q, 0..600, k, Allow::Bits(&bits)));
        }

        #[test]
        fn parts_merged_are_the_whole(
            vectors in (1usize..200).prop_flat_map(|n| prop::collection::vec(vector(4), n)),
            query in vector(4),
            (a_end, b_start, k) in (0usize..200, 0usize..200, 0usize..50),
        ) {
            let codec = Codec::new(Metric::L2, Dtype::F32, 4);
            let arena = stored(&codec, &vectors);
            let rows = Rows::new(&arena, &codec, vectors.len()).unwrap();
            let q = codec.query(&query);
            // The parts overlap where b starts before a ends.
            let (a_end, b_start) = (a_end.max(b_start), b_start);
            let a = scan(&rows, &q, 0..a_end, k, Allow::All);
            let b = scan(&rows, &q, b_start..200, k, Allow::All);
            prop_assert_eq!(merge(&a, &b, k), scan(&rows, &q, 0..200, k, Allow::All));
        }

        #[test]
        fn keys_sort_as_distances_do_and_give_them_back(a in any::<f32>(), b in any::<f32>(), r in any::<u32>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(key(a, r).cmp(&key(b, r)), a.partial_cmp(&b).unwrap());
            prop_assert_eq!(distance_of(key(a, r)), a);
            prop_assert_eq!(key(a, r) as u32, r);
        }
    }

    #[test]
    fn a_view_of_more_rows_than_there_are_is_refused() {
        let codec = Codec::new(Metric::L2, Dtype::F32, 4);
        let arena = stored(&codec, &[vec![1.0; 4], vec![2.0; 4]]);
        assert!(Rows::new(&arena, &codec, 2).is_ok());
        assert!(Rows::new(&arena, &codec, 3).is_err());
        let wider = Codec::new(Metric::L2, Dtype::F32, 5);
        assert!(Rows::new(&arena, &wider, 2).is_err());
    }
}
