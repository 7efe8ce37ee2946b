//! Searches that may return only some of the rows.
//!
//! Three ways, chosen by estimated cost ([`Graph::strategy`]):
//! direct: score every allowed row, exact; two-hop: walk over allowed rows only, seeing through hidden neighbours to
//! theirs (ACORN-1, Patel et al., arXiv 2403.04871); plain: the usual walk over all rows, keeping the allowed ones.
//! A walk that runs dry with fewer than `k` rows is followed by an exact scan, so `k` rows come back whenever `k`
//! allowed ones exist.
//!
//! Filters that go with the vectors. The allowed rows may all lie far from the query, or in islands. So the two-hop
//! walk starts from the query's true neighbourhood (a short plain walk, whose hidden rows are seen through as well)
//! and from a sample of the allowed rows.

use super::beam::{Front, SORTED_MAX};
use super::graph::Graph;
use super::scratch::{Batch, Scratch, Visited};
use super::search::Probe;
use crate::flat::{Allow, BitSet, Hit, Rows, hit, key, scan, scan_rows};
use crate::ids::RowId;
use kektordb_compute::Query;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How a filtered search goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    Direct,
    TwoHop,
    Plain,
}

/// Width of the plain walk that finds the query's neighbourhood.
const NEAR: usize = 16;
/// Allowed rows, evenly spread, that a two-hop walk starts from besides.
const SEEDS: usize = 32;

/// The `k` nearest of the given rows, scored one by one.
pub fn direct(rows: &Rows<'_>, q: &Query, ids: &[RowId], k: usize) -> Vec<Hit> {
    scan_rows(rows, q, ids, k)
}

impl Graph {
    /// The search that callers with a filter want: the cheapest way, and `k` rows whenever `k` allowed ones exist
    /// below `rows.count()`. `ef` counts as at least `k`.
    pub fn search_auto(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        ef: usize,
        allow: Allow<'_>,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let there = self.rows().min(rows.count());
        let (allowed, strategy) = match allow {
            Allow::All => (there, Strategy::Plain),
            Allow::Bits(b) => {
                let allowed = b.count_between(0, there);
                (allowed, self.strategy(rows, allowed, k, ef))
            }
        };
        let want = k.min(allowed);
        if want == 0 {
            return Vec::new();
        }
        let exact = || scan(rows, q, 0..there, k, allow);
        let hits = match (strategy, allow) {
            (Strategy::Direct, _) => return exact(),
            (Strategy::TwoHop, Allow::Bits(b)) => self.search_two_hop(rows, q, k, ef, b, scratch),
            _ => self.search(rows, q, k, ef, allow, scratch),
        };
        if hits.len() < want { exact() } else { hits }
    }

    /// The way with the least estimated cost for `allowed` rows of the graph.
    pub fn strategy(&self, rows: &Rows<'_>, allowed: usize, k: usize, ef: usize) -> Strategy {
        let ef = ef.max(k) as f64;
        let share = allowed as f64 / self.rows().min(rows.count()).max(1) as f64;
        let direct = allowed as f64;
        let two_hop = 30.0 * ef;
        let plain = 15.0 * ef / share;
        if direct <= two_hop.min(plain) {
            Strategy::Direct
        } else if two_hop <= plain {
            Strategy::TwoHop
        } else {
            Strategy::Plain
        }
    }

    /// The plain walk that keeps only what `allow` and `rows.count()` let through.
    pub(super) fn search_hiding(
        &self,
        rows: &Rows<'_>,
        probe: &impl Probe,
        k: usize,
        ef: usize,
        allow: Allow<'_>,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let all = rows.stored();
        let Some(start) = self.descend(&all, probe, 0, &mut scratch.batch) else { return Vec::new() };
        let Scratch { visited, sorted, heaps, batch, keys } = scratch;
        keys.clear();
        let may = |row: RowId| (row as usize) < rows.count() && allow.contains(row);
        visited.start(all.count());
        visited.mark(start.row);
        let first = key(start.distance, start.node);
        if ef <= SORTED_MAX {
            sorted.start(ef);
            self.walk_hiding(&all, probe, first, may, sorted, visited, batch);
            sorted.drain_into(keys);
        } else {
            heaps.start(ef);
            self.walk_hiding(&all, probe, first, may, heaps, visited, batch);
            heaps.drain_into(keys);
        }
        keys.truncate(k);
        keys.iter().map(|&key| hit(key)).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn walk_hiding(
        &self,
        all: &Rows<'_>,
        probe: &impl Probe,
        first: u64,
        may: impl Fn(RowId) -> bool,
        best: &mut impl Front,
        visited: &mut Visited,
        batch: &mut Batch,
    ) {
        let mut open = BinaryHeap::from([Reverse(first)]);
        if may(first as RowId) {
            best.push(first);
        }
        while let Some(Reverse(k)) = open.pop() {
            if k > best.bound() {
                break;
            }
            batch.clear();
            self.each_link::<false>(k as RowId, |l| {
                if visited.mark(l.row) {
                    batch.rows.push(l.row);
                }
            });
            batch.room();
            probe.distances(all, &batch.rows, &mut batch.distances);
            for (&row, &d) in batch.rows.iter().zip(&batch.distances) {
                let key = key(d, row);
                if key < best.bound() {
                    open.push(Reverse(key));
                    if may(row) {
                        best.push(key);
                    }
                }
            }
            if let Some(Reverse(k)) = open.peek() {
                self.prefetch_links::<false>(*k as RowId);
            }
        }
    }

    /// The walk over allowed rows that sees through hidden ones.
    pub fn search_two_hop(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        ef: usize,
        allow: &BitSet,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let ef = ef.max(k);
        let all = rows.stored();
        let Some(start) = self.descend(&all, &q, 0, &mut scratch.batch) else { return Vec::new() };
        let Scratch { visited, sorted, heaps, batch, keys } = scratch;
        self.walk::<false>(&all, &q, start, NEAR, 0, sorted, visited, batch);
        keys.clear();
        sorted.drain_into(keys);
        if ef <= SORTED_MAX {
            self.walk_two_hop(rows, q, ef, allow, sorted, visited, batch, keys);
        } else {
            self.walk_two_hop(rows, q, ef, allow, heaps, visited, batch, keys);
        }
        keys.truncate(k);
        keys.iter().map(|&key| hit(key)).collect()
    }

    /// `keys` holds the query's neighbourhood and receives the answer.
    #[allow(clippy::too_many_arguments)]
    fn walk_two_hop(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        ef: usize,
        allow: &BitSet,
        front: &mut impl Front,
        visited: &mut Visited,
        batch: &mut Batch,
        keys: &mut Vec<u64>,
    ) {
        let all = rows.stored();
        let may = |row: RowId| (row as usize) < rows.count() && allow.contains(row);
        visited.start(all.count());
        front.start(ef);
        batch.clear();
        allow.sample(SEEDS, &mut batch.rows);
        batch.rows.retain(|&r| (r as usize) < rows.count().min(self.rows()) && visited.mark(r));
        for &near in &*keys {
            if may(near as RowId) && visited.mark(near as RowId) {
                front.push(near);
            }
        }
        for &near in &*keys {
            if !may(near as RowId) && visited.mark(near as RowId) {
                let want = batch.rows.len() + self.params.m0;
                self.gather_two_hop(near as RowId, want, may, visited, batch);
            }
        }
        loop {
            batch.room();
            rows.distances(q, &batch.rows, &mut batch.distances);
            for (&row, &d) in batch.rows.iter().zip(&batch.distances) {
                front.push(key(d, row));
            }
            front.coming(|k| self.prefetch_links::<false>(k as RowId));
            let Some(k) = front.pop() else { break };
            batch.clear();
            self.gather_two_hop(k as RowId, self.params.m0, may, visited, batch);
        }
        keys.clear();
        front.drain_into(keys);
    }

    /// Puts the unseen allowed neighbours of `node` into the batch, then those of its hidden neighbours until the
    /// batch holds `want`.
    #[inline(always)]
    fn gather_two_hop(
        &self,
        node: RowId,
        want: usize,
        may: impl Fn(RowId) -> bool,
        visited: &mut Visited,
        batch: &mut Batch,
    ) {
        batch.nodes.clear();
        self.each_link::<false>(node, |l| {
            if may(l.row) {
                if visited.mark(l.row) {
                    batch.rows.push(l.row);
                }
            } else if !visited.is_marked(l.row) {
                self.prefetch_links::<false>(l.row);
                batch.nodes.push(l.row);
            }
        });
        let Batch { nodes, rows, .. } = batch;
        for &hidden in &*nodes {
            if rows.len() >= want {
                break;
            }
            visited.mark(hidden);
            self.each_link::<false>(hidden, |l| {
                if may(l.row) && visited.mark(l.row) {
                    rows.push(l.row);
                }
            });
        }
    }
}
