//! A dense set of rows: one bit a row.
//!
//! Promise: rows at or past [`len`](BitSet::len) are absent. Cost: `contains` is one load; memory is `len / 8` bytes.

use crate::error::{Error, Result};
use crate::ids::RowId;
use roaring::RoaringBitmap;

/// A set of rows below a fixed length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BitSet {
    words: Vec<u64>,
    len: usize,
}

impl BitSet {
    /// The empty set over rows `0..len`.
    pub fn new(len: usize) -> Self {
        BitSet { words: vec![0; len.div_ceil(64)], len }
    }

    /// Every row of `0..len`.
    pub fn full(len: usize) -> Self {
        let mut s = BitSet { words: vec![u64::MAX; len.div_ceil(64)], len };
        s.trim();
        s
    }

    /// The given rows; those at or past `len` are left out.
    pub fn from_rows(len: usize, rows: impl IntoIterator<Item = RowId>) -> Self {
        let mut s = BitSet::new(len);
        for r in rows {
            s.insert(r);
        }
        s
    }

    /// The bitmap's rows below `len`.
    pub fn from_roaring(len: usize, rows: &RoaringBitmap) -> Self {
        BitSet::from_rows(len, rows.iter().take_while(|&r| (r as usize) < len))
    }

    /// The rows below `len` of a bitmap in the portable Roaring format, without building the bitmap: a dense
    /// container is copied word by word.
    /// Format: <https://github.com/RoaringBitmap/RoaringFormatSpec>.
    pub fn from_roaring_bytes(len: usize, bytes: &[u8]) -> Result<Self> {
        portable::read(len, bytes).ok_or_else(|| {
            Error::invalid("the bytes are not a portable Roaring bitmap", "serialise the set anew")
        })
    }

    /// Number of rows that the set ranges over.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where no row is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Number of rows in the set. Cost: a pass over the words.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    #[inline(always)]
    pub fn contains(&self, row: RowId) -> bool {
        match self.words.get(row as usize / 64) {
            Some(w) => w >> (row % 64) & 1 != 0,
            None => false,
        }
    }

    /// Adds a row below `len`; others are ignored.
    pub fn insert(&mut self, row: RowId) {
        if (row as usize) < self.len {
            self.words[row as usize / 64] |= 1 << (row % 64);
        }
    }

    pub fn remove(&mut self, row: RowId) {
        if let Some(w) = self.words.get_mut(row as usize / 64) {
            *w &= !(1 << (row % 64));
        }
    }

    /// Ranges over `0..len` from now on; new rows are absent, rows past it are dropped.
    pub fn resize(&mut self, len: usize) {
        self.words.resize(len.div_ceil(64), 0);
        self.len = len;
        self.trim();
    }

    /// Keeps the rows that are in `other` too.
    pub fn intersect(&mut self, other: &BitSet) {
        for (i, w) in self.words.iter_mut().enumerate() {
            *w &= other.words.get(i).copied().unwrap_or(0);
        }
    }

    /// Drops the rows that are in `other`.
    pub fn subtract(&mut self, other: &BitSet) {
        for (w, o) in self.words.iter_mut().zip(&other.words) {
            *w &= !o;
        }
    }

    /// Words of 64 rows, lowest row in the lowest bit.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The rows in rising order.
    pub fn iter(&self) -> impl Iterator<Item = RowId> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut w = word;
            std::iter::from_fn(move || {
                (w != 0).then(|| {
                    let bit = w.trailing_zeros();
                    w &= w - 1;
                    i as RowId * 64 + bit
                })
            })
        })
    }

    /// Appends the rows of `[start, end)` to `out`, in rising order.
    pub fn rows_between(&self, start: usize, end: usize, out: &mut Vec<RowId>) {
        let end = end.min(self.len);
        let mut at = start;
        while at < end {
            let Some(&word) = self.words.get(at / 64) else { return };
            let mut w = word & (u64::MAX << (at % 64));
            let next = (at / 64 + 1) * 64;
            if next > end {
                w &= u64::MAX >> (next - end);
            }
            while w != 0 {
                out.push((at / 64 * 64) as RowId + w.trailing_zeros());
                w &= w - 1;
            }
            at = next;
        }
    }

    /// Number of rows in `[start, end)`.
    pub fn count_between(&self, start: usize, end: usize) -> usize {
        let end = end.min(self.len);
        let (mut at, mut n) = (start, 0);
        while at < end {
            let Some(&word) = self.words.get(at / 64) else { break };
            let mut w = word & (u64::MAX << (at % 64));
            let next = (at / 64 + 1) * 64;
            if next > end {
                w &= u64::MAX >> (next - end);
            }
            n += w.count_ones() as usize;
            at = next;
        }
        n
    }

    /// `n` rows of the set at even ranks, all of them where it has no more. Cost: two passes over the words.
    pub fn sample(&self, n: usize, out: &mut Vec<RowId>) {
        let count = self.count();
        let n = n.min(count);
        let (mut seen, mut taken) = (0, 0);
        for (i, &word) in self.words.iter().enumerate() {
            let ones = word.count_ones() as usize;
            while taken < n && taken * count / n < seen + ones {
                let mut w = word;
                for _ in 0..taken * count / n - seen {
                    w &= w - 1;
                }
                out.push(i as RowId * 64 + w.trailing_zeros());
                taken += 1;
            }
            seen += ones;
        }
    }

    fn trim(&mut self) {
        if !self.len.is_multiple_of(64)
            && let Some(w) = self.words.last_mut()
        {
            *w &= u64::MAX >> (64 - self.len % 64);
        }
    }
}

mod portable {
    use super::BitSet;

    const WITH_RUNS: u32 = 12_347;
    const WITHOUT_RUNS: u32 = 12_346;
    /// A container holds 65,536 rows; with more members than this it is a bitmap.
    const ARRAY_MAX: usize = 4_096;
    const WORDS: usize = 1_024;
    /// With runs, offsets are written only from this many containers on.
    const OFFSETS_FROM: usize = 4;

    fn u16_at(b: &[u8], at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(b.get(at..at.checked_add(2)?)?.try_into().ok()?))
    }

    fn u32_at(b: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(b.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }

    /// `None` where the bytes do not follow the format.
    pub(super) fn read(len: usize, b: &[u8]) -> Option<BitSet> {
        let mut set = BitSet::new(len);
        let cookie = u32_at(b, 0)?;
        let (containers, run_flags, mut at) = if cookie & 0xFFFF == WITH_RUNS {
            let n = (cookie >> 16) as usize + 1;
            (n, Some(b.get(4..4 + n.div_ceil(8))?), 4 + n.div_ceil(8))
        } else if cookie == WITHOUT_RUNS {
            (u32_at(b, 4)? as usize, None, 8)
        } else {
            return None;
        };
        if containers > 1 << 16 {
            return None;
        }
        let head = at;
        at += containers * 4;
        if run_flags.is_none() || containers >= OFFSETS_FROM {
            at += containers * 4;
        }
        let mut last = None;
        for i in 0..containers {
            let high = u16_at(b, head + i * 4)? as usize;
            let members = u16_at(b, head + i * 4 + 2)? as usize + 1;
            if last.replace(high).is_some_and(|l| l >= high) {
                return None;
            }
            let first = high * WORDS;
            if run_flags.is_some_and(|f| f[i / 8] >> (i % 8) & 1 != 0) {
                let runs = u16_at(b, at)? as usize;
                let bytes = b.get(at + 2..at + 2 + runs * 4)?;
                for run in bytes.chunks_exact(4) {
                    let start = u16::from_le_bytes([run[0], run[1]]) as usize;
                    let end = start + u16::from_le_bytes([run[2], run[3]]) as usize;
                    if end > 0xFFFF {
                        return None;
                    }
                    for word in start / 64..=end / 64 {
                        let mut w = u64::MAX;
                        if word == start / 64 {
                            w &= u64::MAX << (start % 64);
                        }
                        if word == end / 64 {
                            w &= u64::MAX >> (63 - end % 64);
                        }
                        if let Some(to) = set.words.get_mut(first + word) {
                            *to |= w;
                        }
                    }
                }
                at += 2 + runs * 4;
            } else if members > ARRAY_MAX {
                let bytes = b.get(at..at + WORDS * 8)?;
                let to = set.words.get_mut(first..).unwrap_or(&mut []);
                for (w, v) in to.iter_mut().zip(bytes.chunks_exact(8)) {
                    *w = u64::from_le_bytes(v.try_into().ok()?);
                }
                at += WORDS * 8;
            } else {
                let bytes = b.get(at..at + members * 2)?;
                for v in bytes.chunks_exact(2) {
                    let low = u16::from_le_bytes([v[0], v[1]]) as usize;
                    if let Some(to) = set.words.get_mut(first + low / 64) {
                        *to |= 1 << (low % 64);
                    }
                }
                at += members * 2;
            }
        }
        set.trim();
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn portable_bytes(b: &RoaringBitmap) -> Vec<u8> {
        let mut bytes = Vec::new();
        b.serialize_into(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn dense_sparse_and_run_containers_are_read_from_portable_bytes() {
        let mut b = RoaringBitmap::new();
        b.insert_range(10..70_000);
        b.extend((131_072..196_608).step_by(2));
        b.extend([196_608, 196_700, 400_000, 4_000_000]);
        for runs in [false, true] {
            if runs {
                b.optimize();
            }
            for len in [0, 1, 63, 64, 100, 65_536, 150_001, 196_700, 500_000] {
                let want = BitSet::from_roaring(len, &b);
                assert_eq!(BitSet::from_roaring_bytes(len, &portable_bytes(&b)).unwrap(), want, "len {len}");
                assert_eq!(want.count() as u64, b.range_cardinality(0..len as u32));
            }
        }
    }

    #[test]
    fn cut_or_foreign_bytes_are_refused() {
        let mut b = RoaringBitmap::from_iter((0..100_000).step_by(3));
        b.insert_range(200_000..300_000);
        b.optimize();
        let bytes = portable_bytes(&b);
        assert!(BitSet::from_roaring_bytes(300_000, &bytes).is_ok());
        for cut in (0..bytes.len()).step_by(97) {
            assert!(BitSet::from_roaring_bytes(300_000, &bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(BitSet::from_roaring_bytes(10, b"hello world").is_err());
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(
            len in 0usize..700,
            rows in prop::collection::btree_set(0u32..800, 0..200),
            (a, b) in (0usize..800, 0usize..800),
        ) {
            let s = BitSet::from_rows(len, rows.iter().copied());
            let inside: Vec<u32> = rows.iter().copied().filter(|&r| (r as usize) < len).collect();
            prop_assert_eq!(s.iter().collect::<Vec<_>>(), inside.clone());
            prop_assert_eq!(s.count(), inside.len());
            let between: Vec<u32> =
                inside.iter().copied().filter(|&r| (r as usize) >= a && (r as usize) < b).collect();
            let mut got = Vec::new();
            s.rows_between(a, b, &mut got);
            prop_assert_eq!(&got, &between);
            prop_assert_eq!(s.count_between(a, b), between.len());
            let bitmap = RoaringBitmap::from_iter(rows.iter().copied());
            prop_assert_eq!(&BitSet::from_roaring_bytes(len, &portable_bytes(&bitmap)).unwrap(), &s);
            let mut sample = Vec::new();
            s.sample(8, &mut sample);
            prop_assert_eq!(sample.len(), inside.len().min(8));
            prop_assert!(sample.iter().all(|r| s.contains(*r)) && sample.is_sorted_by(|a, b| a < b));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cookie in any::<bool>()) {
            let mut b = bytes;
            if cookie && b.len() > 4 {
                b[..4].copy_from_slice(&12_346u32.to_le_bytes());
            }
            if let Ok(s) = BitSet::from_roaring_bytes(1000, &b) {
                prop_assert!(s.iter().all(|r| r < 1000));
            }
        }
    }
}
