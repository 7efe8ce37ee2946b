//! Searches that may return only some of the rows.
//!
//! Three ways, chosen by estimated cost ([`Graph::strategy`]):
//! direct: score every allowed row, exact; two-hop: walk over allowed rows only, seeing through hidden neighbours to
//! theirs (ACORN-1, Patel et al., arXiv 2403.04871); plain: the usual walk over all rows, keeping the allowed ones.
//! A walk that runs dry with fewer than `k` rows is followed by an exact scan, so `k` rows come back whenever `k`
//! allowed ones exist.
//!
//! Filters that go with the vectors. The allowed rows may all lie far from the query, or in islands. A short plain walk
//! first finds the query's true neighbourhood; its hidden rows are seen through as well, and a sample of the allowed
//! rows is scored, so that the walk starts on both sides. Where the neighbourhood holds far fewer allowed rows than the
//! whole, many local minima are to be expected, and the walk is made wider.

use super::beam::{Front, SORTED_MAX};
use super::graph::Graph;
use super::scratch::{Batch, Scratch, Visited};
use super::search::{Probe, TIES};
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

// The cost model, in nanoseconds, fitted to 100,000 × 384 f32 and int8 rows with m 16 on one core of a Zen 5 server.
// Only ratios matter: the choice is between the three, and near a crossing either will do.
/// Scoring one row: a fixed part and a part a byte.
const ROW_NS: f64 = 8.0;
const BYTE_NS: f64 = 1.0 / 64.0;
/// What an expansion costs a link besides scoring: reading it, marking, queueing.
const LINK_NS: f64 = 13.0;
/// What a visit of a packed walk costs a link, all in all.
const CODE_NS: f64 = 10.0;
/// The same where hidden neighbours are seen through.
const HOP_NS: f64 = 55.0;
/// Expansions of a plain walk beyond the width that it was asked for.
const SETTLE: f64 = 30.0;

/// At the same width a two-hop walk misses about half as many rows again as a plain one; it has to be cheaper by this.
const HANDICAP: f64 = 1.25;

/// Width of the plain walk that finds the query's neighbourhood.
const NEAR: usize = 16;
/// Allowed rows, evenly spread, that a two-hop walk starts from besides.
const SEEDS: usize = 32;
/// The neighbourhood is poor in allowed rows where it has less than this share (1/n) of what the whole would suggest.
const POOR: usize = 4;
/// A plain walk that expands more than this multiple of what an even spread of allowed rows would need is given up.
const PATIENCE: usize = 4;
/// In a poor neighbourhood `ef` and the sample are multiplied by this.
const WIDER: usize = 4;

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
        let hits = match (strategy, allow) {
            (Strategy::Direct, _) => None,
            (Strategy::TwoHop, Allow::Bits(b)) => self.two_hop(rows, q, k, ef, b, allowed, false, scratch),
            (Strategy::Plain, Allow::Bits(b)) => {
                let width = ef.max(k) as f64 * there as f64 / allowed as f64;
                let sifted = self.search_sifted(rows, q, k, width.ceil() as usize, allow, scratch);
                // Fewer than k: the neighbourhood is poorer than the whole. Walk on until there are enough.
                Some(sifted).filter(|h| h.len() >= want).or_else(|| {
                    let budget = PATIENCE * width as usize;
                    self.search_hiding(rows, &q, k, ef.max(k), allow, budget, scratch)
                        .or_else(|| self.two_hop(rows, q, k, ef, b, allowed, false, scratch))
                })
            }
            (_, Allow::All) => Some(self.search(rows, q, k, ef, allow, scratch)),
        };
        match hits {
            Some(hits) if hits.len() >= want => hits,
            _ => scan(rows, q, 0..there, k, allow),
        }
    }

    /// The way with the least estimated cost for `allowed` rows of the graph.
    pub fn strategy(&self, rows: &Rows<'_>, allowed: usize, k: usize, ef: usize) -> Strategy {
        let ef = ef.max(k) as f64;
        let share = (allowed as f64 / self.rows().min(rows.count()).max(1) as f64).max(f64::MIN_POSITIVE);
        let row = ROW_NS + BYTE_NS * rows.codec().row_bytes() as f64;
        let m0 = self.params.m0 as f64;
        let visit = m0 * (LINK_NS + row);
        let direct = allowed as f64 * row;
        let two_hop = NEAR as f64 * visit + SEEDS as f64 * row + ef * m0 * (HOP_NS + row);
        let plain = (ef / share + SETTLE) * if self.is_packed() { row + m0 * CODE_NS } else { visit };
        if direct <= (two_hop * HANDICAP).min(plain) {
            Strategy::Direct
        } else if two_hop * HANDICAP <= plain {
            Strategy::TwoHop
        } else {
            Strategy::Plain
        }
    }

    /// A walk over all rows, wide enough for the allowed share of what it finds; what is not allowed is left out.
    fn search_sifted(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        width: usize,
        allow: Allow<'_>,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let mut hits = self.search(&rows.stored(), q, width, width, Allow::All, scratch);
        hits.retain(|h| (h.row as usize) < rows.count() && allow.contains(h.row));
        hits.truncate(k);
        hits
    }

    /// The plain walk that keeps only what `allow` and `rows.count()` let through; `None` where it would expand more
    /// than `budget` nodes.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn search_hiding(
        &self,
        rows: &Rows<'_>,
        probe: &impl Probe,
        k: usize,
        ef: usize,
        allow: Allow<'_>,
        budget: usize,
        scratch: &mut Scratch,
    ) -> Option<Vec<Hit>> {
        let all = rows.stored();
        let Some(start) = self.descend(&all, probe, 0, &mut scratch.batch) else { return Some(Vec::new()) };
        let Scratch { visited, sorted, heaps, batch, keys, .. } = scratch;
        keys.clear();
        let may = |row: RowId| (row as usize) < rows.count() && allow.contains(row);
        visited.start(all.count());
        visited.mark(start.row);
        let first = key(start.distance, start.node);
        if ef <= SORTED_MAX {
            sorted.start(ef, k.max(TIES));
            self.walk_hiding(&all, probe, first, may, budget, sorted, visited, batch)?;
            sorted.drain_into(keys);
        } else {
            heaps.start(ef, k.max(TIES));
            self.walk_hiding(&all, probe, first, may, budget, heaps, visited, batch)?;
            heaps.drain_into(keys);
        }
        keys.truncate(k);
        Some(keys.iter().map(|&key| hit(key)).collect())
    }

    #[allow(clippy::too_many_arguments)]
    fn walk_hiding(
        &self,
        all: &Rows<'_>,
        probe: &impl Probe,
        first: u64,
        may: impl Fn(RowId) -> bool,
        mut budget: usize,
        best: &mut impl Front,
        visited: &mut Visited,
        batch: &mut Batch,
    ) -> Option<()> {
        let mut open = BinaryHeap::from([Reverse(first)]);
        if may(first as RowId) {
            best.push(first);
        }
        while let Some(Reverse(k)) = open.pop() {
            if k > best.bound() {
                break;
            }
            budget = budget.checked_sub(1)?;
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
        Some(())
    }

    /// The walk over allowed rows that sees through hidden ones, whatever it costs.
    pub fn search_two_hop(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        ef: usize,
        allow: &BitSet,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let allowed = allow.count_between(0, self.rows().min(rows.count()));
        self.two_hop(rows, q, k, ef, allow, allowed, true, scratch).unwrap_or_default()
    }

    /// `None` where the neighbourhood turns out so poor that scoring all `allowed` rows costs less, unless `whatever`.
    #[allow(clippy::too_many_arguments)]
    fn two_hop(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        ef: usize,
        allow: &BitSet,
        allowed: usize,
        whatever: bool,
        scratch: &mut Scratch,
    ) -> Option<Vec<Hit>> {
        let all = rows.stored();
        let may = |row: RowId| (row as usize) < rows.count() && allow.contains(row);
        let Some(start) = self.descend(&all, &q, 0, &mut scratch.batch) else { return Some(Vec::new()) };
        let Scratch { visited, sorted, near, heaps, batch, keys, .. } = scratch;
        // Allowed rows of the neighbourhood are scored once, here.
        let (mut seen, mut count) = (Vec::new(), 1);
        if may(start.row) {
            seen.push(key(start.distance, start.row));
        }
        near.start(NEAR, TIES);
        self.walk::<false>(&all, &q, start, 0, near, visited, batch, |ids, distances| {
            count += ids.len();
            seen.extend(ids.iter().zip(distances).filter(|(r, _)| may(**r)).map(|(&r, &d)| key(d, r)));
        });
        keys.clear();
        near.drain_into(keys);
        let there = self.rows().min(rows.count()).max(1);
        let poor =
            (seen.len() as f64) < allowed.min(there) as f64 / there as f64 * count as f64 / POOR as f64;
        let (ef, seeds) = if poor { (ef.max(k) * WIDER, SEEDS * WIDER) } else { (ef.max(k), SEEDS) };
        if poor && !whatever && self.strategy(rows, allowed, k, ef) == Strategy::Direct {
            return None;
        }
        visited.start(all.count());
        batch.clear();
        allow.sample(seeds, &mut batch.rows);
        let end = rows.count().min(self.rows());
        for &k in &seen {
            visited.mark(k as RowId);
        }
        batch.rows.retain(|&r| (r as usize) < end && visited.mark(r));
        for &hidden in keys.iter().filter(|&&k| !may(k as RowId)) {
            visited.mark(hidden as RowId);
            let want = batch.rows.len() + self.params.m;
            self.gather_two_hop(hidden as RowId, want, may, visited, batch);
        }
        keys.clear();
        if ef <= SORTED_MAX {
            sorted.start(ef, k.max(TIES));
            self.walk_two_hop(rows, q, &seen, may, sorted, visited, batch);
            sorted.drain_into(keys);
        } else {
            heaps.start(ef, k.max(TIES));
            self.walk_two_hop(rows, q, &seen, may, heaps, visited, batch);
            heaps.drain_into(keys);
        }
        keys.truncate(k);
        Some(keys.iter().map(|&key| hit(key)).collect())
    }

    /// Walks on from `seen`, which are scored, and from the rows of the batch, which are not.
    #[allow(clippy::too_many_arguments)]
    fn walk_two_hop(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        seen: &[u64],
        may: impl Fn(RowId) -> bool,
        front: &mut impl Front,
        visited: &mut Visited,
        batch: &mut Batch,
    ) {
        for &k in seen {
            front.push(k);
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
            self.gather_two_hop(k as RowId, self.params.m, &may, visited, batch);
        }
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
