//! The front of a walk: the `ef` nearest nodes so far and which of them are still to be expanded.
//!
//! A key sorts by (distance, node). Up to [`SORTED_MAX`] a sorted array with a mask of open entries is faster than
//! two heaps; beyond, moving its tail at each insertion costs more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Widest sorted array.
pub(super) const SORTED_MAX: usize = 2048;

pub(super) trait Front {
    /// Empties the front and sets its width. Of nodes at one distance about `ties` are taken in, the first by number.
    fn start(&mut self, ef: usize, ties: usize);
    /// Takes a key in if it is among the nearest `ef`.
    fn push(&mut self, key: u64) -> bool;
    /// A key at or above this one would not be taken in.
    fn bound(&self) -> u64;
    /// The nearest open key, closed by this; `None` where no open key is among the nearest `ef`.
    fn pop(&mut self) -> Option<u64>;
    /// Calls `f` with the keys likely to be popped next, at most two.
    fn coming(&self, f: impl FnMut(u64));
    /// The keys held, in rising order.
    fn drain_into(&mut self, out: &mut Vec<u64>);
}

#[derive(Debug, Default)]
pub(super) struct Sorted {
    ef: usize,
    ties: usize,
    len: usize,
    keys: Vec<u64>,
    /// Bit i: entry i is open.
    open: Vec<u64>,
    /// No open bit lies in a word before this one.
    first: usize,
}

impl Front for Sorted {
    fn start(&mut self, ef: usize, ties: usize) {
        self.ef = ef;
        self.ties = ties;
        self.len = 0;
        self.first = 0;
        if self.keys.len() < ef {
            self.keys.resize(ef, 0);
        }
        self.open.clear();
        self.open.resize(ef.div_ceil(64), 0);
    }

    #[inline(always)]
    fn push(&mut self, key: u64) -> bool {
        let keys = &mut self.keys[..self.ef];
        if self.len == self.ef && key >= keys[self.ef - 1] {
            return false;
        }
        let at = keys[..self.len].partition_point(|&k| k < key);
        if at >= self.ties && keys[at - self.ties] >> 32 == key >> 32 {
            return false;
        }
        self.len = self.ef.min(self.len + 1);
        keys.copy_within(at..self.len - 1, at + 1);
        keys[at] = key;
        // The mask shifts with the keys.
        let (word, bit) = (at / 64, at % 64);
        let w = self.open[word];
        let below = w & !(u64::MAX << bit);
        self.open[word] = below | 1 << bit | (w & u64::MAX << bit) << 1;
        let mut carry = w >> 63;
        for w in &mut self.open[word + 1..] {
            let out = *w >> 63;
            *w = *w << 1 | carry;
            carry = out;
        }
        if !self.ef.is_multiple_of(64)
            && let Some(w) = self.open.last_mut()
        {
            *w &= u64::MAX >> (64 - self.ef % 64);
        }
        self.first = self.first.min(word);
        true
    }

    #[inline(always)]
    fn bound(&self) -> u64 {
        if self.len < self.ef { u64::MAX } else { self.keys[self.ef - 1] }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        while let Some(w) = self.open.get_mut(self.first) {
            if *w != 0 {
                let at = self.first * 64 + w.trailing_zeros() as usize;
                *w &= *w - 1;
                return Some(self.keys[at]);
            }
            self.first += 1;
        }
        None
    }

    #[inline(always)]
    fn coming(&self, mut f: impl FnMut(u64)) {
        let mut w = self.open.get(self.first).copied().unwrap_or(0);
        for _ in 0..2 {
            if w != 0 {
                f(self.keys[self.first * 64 + w.trailing_zeros() as usize]);
                w &= w - 1;
            }
        }
    }

    fn drain_into(&mut self, out: &mut Vec<u64>) {
        out.extend_from_slice(&self.keys[..self.len]);
        self.len = 0;
    }
}

#[derive(Debug, Default)]
pub(super) struct Heaps {
    ef: usize,
    open: BinaryHeap<Reverse<u64>>,
    best: BinaryHeap<u64>,
}

impl Front for Heaps {
    /// Takes every tie in: at such a width they crowd nothing out.
    fn start(&mut self, ef: usize, _ties: usize) {
        self.ef = ef;
        self.open.clear();
        self.best.clear();
    }

    #[inline]
    fn push(&mut self, key: u64) -> bool {
        if self.best.len() == self.ef {
            match self.best.peek_mut() {
                Some(mut top) if key < *top => *top = key,
                _ => return false,
            }
        } else {
            self.best.push(key);
        }
        self.open.push(Reverse(key));
        true
    }

    #[inline]
    fn bound(&self) -> u64 {
        if self.best.len() < self.ef { u64::MAX } else { self.best.peek().copied().unwrap_or(u64::MAX) }
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        let Reverse(key) = self.open.pop()?;
        let within = self.best.len() < self.ef || self.best.peek().is_some_and(|b| key <= *b);
        within.then_some(key)
    }

    #[inline]
    fn coming(&self, mut f: impl FnMut(u64)) {
        if let Some(Reverse(k)) = self.open.peek() {
            f(*k);
        }
    }

    fn drain_into(&mut self, out: &mut Vec<u64>) {
        let at = out.len();
        out.extend(self.best.drain());
        out[at..].sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain meaning: all keys in a list, the nearest `ef` count.
    #[derive(Default)]
    struct Naive {
        ef: usize,
        keys: Vec<(u64, bool)>,
    }

    impl Naive {
        fn push(&mut self, key: u64) {
            self.keys.push((key, true));
            self.keys.sort();
            self.keys.truncate(self.ef);
        }
        fn pop(&mut self) -> Option<u64> {
            let e = self.keys.iter_mut().find(|e| e.1)?;
            e.1 = false;
            Some(e.0)
        }
    }

    fn agrees(front: &mut impl Front, ef: usize, steps: &[Option<u64>]) {
        front.start(ef, usize::MAX);
        let mut naive = Naive { ef, ..Default::default() };
        let mut seen = std::collections::HashSet::new();
        for s in steps {
            match *s {
                Some(k) if seen.insert(k) => {
                    front.push(k);
                    naive.push(k);
                }
                Some(_) => {}
                None => assert_eq!(front.pop(), naive.pop()),
            }
        }
        let mut left = Vec::new();
        front.drain_into(&mut left);
        assert_eq!(left, naive.keys.iter().map(|e| e.0).collect::<Vec<_>>());
    }

    #[test]
    fn a_crowd_at_one_distance_leaves_room_for_others() {
        let mut front = Sorted::default();
        front.start(10, 3);
        let at = |distance: u64, node: u64| distance << 32 | node;
        for node in 0..50 {
            front.push(at(7, node));
        }
        for key in [at(6, 1), at(8, 1), at(8, 2), at(7, 60)] {
            front.push(key);
        }
        let mut left = Vec::new();
        front.drain_into(&mut left);
        assert_eq!(left, [at(6, 1), at(7, 0), at(7, 1), at(7, 2), at(8, 1), at(8, 2)]);
    }

    proptest! {
        #[test]
        fn both_fronts_pop_and_keep_what_a_sorted_list_would(
            ef in 1usize..150,
            steps in prop::collection::vec(prop::option::weighted(0.8, 0u64..1000), 0..400),
        ) {
            let mut sorted = Sorted::default();
            sorted.start(200, 1);
            sorted.push(1);
            agrees(&mut sorted, ef, &steps);
            agrees(&mut Heaps::default(), ef, &steps);
        }
    }
}
