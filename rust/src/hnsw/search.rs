//! Walking the graph towards a query (algorithms 2 and 5 of the paper).
//!
//! A neighbour is marked when it is queued, so none enters the front twice; its vector is asked for when it is
//! gathered, and the link rows of the next two candidates as soon as the front is known.

use super::beam::{Front, SORTED_MAX};
use super::graph::Graph;
use super::scratch::{Batch, Scratch, Visited};
use crate::flat::{Allow, Hit, Rows, distance_of, hit, key};
use crate::ids::RowId;
use kektordb_compute::Query;

/// Vectors asked for while the neighbours are gathered; the kernel asks for the rest as it goes along.
const ROWS_AT_ONCE: usize = 4;
/// A walk takes in about this many nodes at one distance, or `k` if that is more: a crowd of equal vectors would fill
/// the front and hide what lies around it.
pub(super) const TIES: usize = 16;

/// What distances are measured from.
pub(super) trait Probe {
    fn distances(&self, rows: &Rows<'_>, ids: &[RowId], out: &mut [f32]);
}

impl Probe for &Query {
    #[inline(always)]
    fn distances(&self, rows: &Rows<'_>, ids: &[RowId], out: &mut [f32]) {
        rows.distances(self, ids, out);
    }
}

/// A stored row as the query, for linking.
impl Probe for RowId {
    #[inline(always)]
    fn distances(&self, rows: &Rows<'_>, ids: &[RowId], out: &mut [f32]) {
        rows.distances_from(*self, ids, out);
    }
}

/// A node and how far it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) node: u32,
    pub(super) row: RowId,
    pub(super) distance: f32,
}

impl Graph {
    /// The nearest rows that the walk meets, at most `k`, sorted by (distance, row). `ef` counts as at least `k`.
    ///
    /// Rows at or past `rows.count()` and rows that `allow` hides are walked through but never returned; with a
    /// narrow `allow`, [`search_auto`](Self::search_auto) is the faster and the complete one.
    pub fn search(
        &self,
        rows: &Rows<'_>,
        q: &Query,
        k: usize,
        ef: usize,
        allow: Allow<'_>,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let ef = ef.max(k);
        if k == 0 {
            return Vec::new();
        }
        let all = rows.stored();
        let hides = !matches!(allow, Allow::All) || rows.count() < self.rows().min(all.count());
        if hides {
            return self.search_hiding(rows, &q, k, ef, allow, usize::MAX, scratch).unwrap_or_default();
        }
        let Some(start) = self.descend(&all, &q, 0, &mut scratch.batch) else { return Vec::new() };
        if let Some(codes) = &self.codes {
            return self.search_packed(&all, codes, q, start, k, ef, scratch);
        }
        let Scratch { visited, sorted, heaps, batch, keys, .. } = scratch;
        keys.clear();
        if ef <= SORTED_MAX {
            sorted.start(ef, k.max(TIES));
            self.walk::<false>(&all, &q, start, 0, sorted, visited, batch, |_, _| ());
            sorted.drain_into(keys);
        } else {
            heaps.start(ef, k.max(TIES));
            self.walk::<false>(&all, &q, start, 0, heaps, visited, batch, |_, _| ());
            heaps.drain_into(keys);
        }
        keys.truncate(k);
        keys.iter().map(|&key| hit(key)).collect()
    }

    /// Greedy descent from the entry point to the layer above which nothing is left to do: the nearest node found on
    /// `level` (0: the ground). `None` for an empty graph.
    pub(super) fn descend(
        &self,
        rows: &Rows<'_>,
        probe: &impl Probe,
        level: u32,
        batch: &mut Batch,
    ) -> Option<Place> {
        let entry = self.entry()?;
        let mut d = [0f32];
        if entry.row as usize >= rows.count() {
            return None;
        }
        probe.distances(rows, &[entry.row], &mut d);
        let mut at = Place { node: entry.slot.unwrap_or(entry.row), row: entry.row, distance: d[0] };
        if entry.slot.is_none() {
            return (level == 0).then_some(at);
        }
        loop {
            let (row, now) = self.slot_header(at.node);
            if now < level {
                return None;
            }
            if now == level {
                return Some(at);
            }
            // Only a damaged file has slots that do not belong together; the row itself is still a fair start.
            let damaged = Place { node: at.row, ..at };
            if row != at.row {
                return (level == 0).then_some(damaged);
            }
            self.step_down::<true>(rows, probe, &mut at, batch);
            let (row, now) = self.slot_header(at.node);
            if now == 1 {
                at.node = at.row;
                return (level == 0).then_some(at);
            }
            let below = at.node.checked_sub(1).filter(|&s| now > 1 && self.slot_header(s) == (row, now - 1));
            match below {
                Some(slot) => at.node = slot,
                None => return (level == 0).then_some(Place { node: at.row, ..at }),
            }
        }
    }

    /// Moves to the nearest neighbour until none is nearer.
    fn step_down<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        probe: &impl Probe,
        at: &mut Place,
        batch: &mut Batch,
    ) {
        loop {
            batch.clear();
            let limit = rows.count() as RowId;
            self.each_link::<UPPER>(at.node, |l| {
                if l.row < limit {
                    batch.nodes.push(l.node);
                    batch.rows.push(l.row);
                }
            });
            batch.room();
            let Batch { nodes, rows: ids, distances } = batch;
            probe.distances(rows, ids, distances);
            let mut best = *at;
            for ((&node, &row), &distance) in nodes.iter().zip(&*ids).zip(&*distances) {
                if distance < best.distance {
                    best = Place { node, row, distance };
                }
            }
            if best.node == at.node {
                return;
            }
            *at = best;
        }
    }

    /// Best-first walk of one layer with a front that was started; it ends with the nearest nodes met. Keys carry `node ^ salt`: ties in
    /// distance are broken by closeness of node numbers to `salt` (see `select` on equal vectors). `scored` sees every
    /// row met and its distance, the start excepted.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn walk<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        probe: &impl Probe,
        start: Place,
        salt: u32,
        front: &mut impl Front,
        visited: &mut Visited,
        batch: &mut Batch,
        mut scored: impl FnMut(&[RowId], &[f32]),
    ) {
        visited.start(rows.count());
        visited.mark(start.row);
        front.push(key(start.distance, start.node ^ salt));
        while let Some(k) = front.pop() {
            batch.clear();
            self.each_link::<UPPER>(k as u32 ^ salt, |l| {
                if visited.mark(l.row) {
                    if UPPER {
                        batch.nodes.push(l.node);
                    }
                    if batch.rows.len() < ROWS_AT_ONCE {
                        rows.prefetch(l.row);
                    }
                    batch.rows.push(l.row);
                }
            });
            batch.room();
            let Batch { nodes, rows: ids, distances } = batch;
            probe.distances(rows, ids, distances);
            scored(ids, &distances[..ids.len()]);
            let nodes = if UPPER { &*nodes } else { &*ids };
            for (&node, &d) in nodes.iter().zip(&*distances) {
                front.push(key(d, node ^ salt));
            }
            front.coming(|k| self.prefetch_links::<UPPER>(k as u32 ^ salt));
        }
    }

    /// The nodes of a front's keys, nearest first.
    pub(super) fn places<const UPPER: bool>(&self, keys: &[u64], salt: u32, out: &mut Vec<Place>) {
        out.clear();
        out.extend(keys.iter().map(|&k| {
            let node = k as u32 ^ salt;
            let row = if UPPER { self.slot_header(node).0 } else { node };
            Place { node, row, distance: distance_of(k) }
        }));
    }
}
