//! Walking a packed graph: candidates are ordered by estimates, visits are measured exactly.
//!
//! A visit reads the node's vector once and its block of codes as one stream; neighbours' vectors are read only when
//! they are visited themselves. All of the front's nodes are visited in the end, so the answer is the best of `ef`
//! exact distances and needs no other reranking.

use super::beam::{Front, SORTED_MAX};
use super::codes::Codes;
use super::graph::Graph;
use super::scratch::{Scratch, Visited};
use super::search::{Place, Probe, TIES};
use crate::flat::{Hit, Rows, TopK, distance_of, key};
use crate::ids::RowId;
use kektordb_compute::Query;
use kektordb_compute::rabitq::{LANES, Lut};
use std::sync::atomic::Ordering;

impl Graph {
    /// The nearest `k` of the ground nodes that a walk of width `ef` from `start` visits.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn search_packed(
        &self,
        all: &Rows<'_>,
        codes: &Codes,
        q: &Query,
        start: Place,
        k: usize,
        ef: usize,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let Scratch { visited, sorted, heaps, tables, .. } = scratch;
        codes.tables(q.vector(), tables);
        let mut best = TopK::new(k, all.count());
        let visit = |d: f32, row: RowId| best.push(key(d, row));
        if ef <= SORTED_MAX {
            sorted.start(ef, k.max(TIES));
            self.walk_packed(all, codes, &q, &tables.lut, start, 0, sorted, visited, visit);
        } else {
            heaps.start(ef, k.max(TIES));
            self.walk_packed(all, codes, &q, &tables.lut, start, 0, heaps, visited, visit);
        }
        best.into_hits()
    }

    /// The ground nodes nearest to a row that is to be linked, as keys in rising order; see `walk` on the salt.
    pub(super) fn around_packed(
        &self,
        rows: &Rows<'_>,
        codes: &Codes,
        row: RowId,
        start: Place,
        scratch: &mut Scratch,
    ) {
        let ef = self.params.ef_construction;
        let Scratch { visited, sorted, heaps, keys, rotated, tables, .. } = scratch;
        codes.tables_of_row(rows, row, rotated, tables);
        let visit = |d: f32, found: RowId| keys.push(key(d, found ^ row));
        if ef <= SORTED_MAX {
            sorted.start(ef, TIES);
            self.walk_packed(rows, codes, &row, &tables.lut, start, row, sorted, visited, visit);
        } else {
            heaps.start(ef, TIES);
            self.walk_packed(rows, codes, &row, &tables.lut, start, row, heaps, visited, visit);
        }
        keys.sort_unstable();
    }

    /// Visits the front's nodes, nearest first; see `walk` on the salt.
    #[allow(clippy::too_many_arguments)]
    fn walk_packed(
        &self,
        all: &Rows<'_>,
        codes: &Codes,
        probe: &impl Probe,
        lut: &Lut,
        start: Place,
        salt: RowId,
        front: &mut impl Front,
        visited: &mut Visited,
        mut visit: impl FnMut(f32, RowId),
    ) {
        let there = self.rows().min(all.count());
        visited.start(there);
        visited.mark(start.row);
        front.push(key(start.distance, start.row ^ salt));
        let mut d = [0f32];
        while let Some(k) = front.pop() {
            let row = k as RowId ^ salt;
            // Only marked rows are in the front, and only rows that are there can be marked.
            let words = self.ground.row_u32(row as usize);
            probe.distances(all, &[row], &mut d);
            visit(d[0], row);
            for (block, links) in words[..self.params.m0].chunks(LANES).enumerate() {
                if links[0].load(Ordering::Relaxed) == 0 {
                    break;
                }
                let estimates = codes.estimates(words, block, lut, d[0]);
                let mut bound = bound_of(front);
                for (link, &estimate) in links.iter().zip(&estimates) {
                    if estimate > bound {
                        continue;
                    }
                    let link = link.load(Ordering::Relaxed);
                    if link == 0 {
                        break;
                    }
                    let row = (link & !super::links::FILL).wrapping_sub(1);
                    // Marked when queued, not when met: another node may estimate it better.
                    if visited.mark(row) {
                        front.push(key(estimate, row ^ salt));
                        bound = bound_of(front);
                    }
                }
            }
            front.coming(|k| {
                let row = k as RowId ^ salt;
                kektordb_compute::prefetch(self.ground.row_ptr(row as usize), self.ground.stride());
                all.prefetch(row);
            });
        }
    }
}

#[cfg(test)]
impl Graph {
    /// True where every lane of a row holds the code of its link (or there are no codes).
    pub(super) fn codes_are_right(&self, rows: &Rows<'_>, row: RowId) -> bool {
        let words = self.ground.row_u32(row as usize);
        self.codes.as_ref().is_none_or(|c| c.are_right(rows, row, words, self.params.m0))
    }
}

/// Estimates above this are not taken in.
#[inline(always)]
fn bound_of(front: &impl Front) -> f32 {
    match front.bound() {
        u64::MAX => f32::INFINITY,
        key => distance_of(key),
    }
}
