//! Taking deleted rows out of the graph, in bounded steps, beside searches and linkers.
//!
//! Each live node with links to deleted ones chooses its list anew from its live neighbours and from the live nodes
//! that its deleted neighbours lead to (after FreshDiskANN, Singh et al., arXiv 2105.09613, algorithm 4, but through
//! deleted nodes of deleted nodes as well, so that a cluster deleted as a whole is bridged). A second sweep catches
//! links that linkers made meanwhile. Then the entry point moves to a live node and the deleted ones' lists are emptied.

use super::graph::{Entry, Graph};
use super::links::Link;
use super::scratch::Scratch;
use super::search::Place;
use super::select::{order, select};
use crate::flat::{Allow, BitSet, Rows};
use crate::ids::RowId;

/// Deleted nodes that one repair looks through for live ones.
const LOOK_THROUGH: usize = 128;
/// Candidates that suffice for a new list, as a multiple of its width.
const ENOUGH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ground,
    Upper,
    GroundAgain,
    UpperAgain,
    Clear,
    Done,
}

/// How far a repair has come. A fresh one starts a repair; it belongs to one set of deleted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairCursor {
    phase: Phase,
    next: u32,
}

impl RepairCursor {
    pub fn new() -> Self {
        RepairCursor { phase: Phase::Ground, next: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }
}

impl Default for RepairCursor {
    fn default() -> Self {
        Self::new()
    }
}

/// What one step of a repair did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repair {
    /// Nodes looked at.
    pub examined: usize,
    /// Nodes that got a new list.
    pub relinked: usize,
    /// Lists of deleted rows emptied.
    pub cleared: usize,
}

impl Graph {
    /// Repairs on from `cursor` until `budget` nodes were looked at or nothing is left (`cursor.is_done()`).
    ///
    /// Afterwards no live row links to a deleted one and the deleted ones have no links, so their rows may be linked
    /// anew. Rows of `deleted` must be hidden from every search already, and must not be linked before the end.
    pub fn repair(
        &self,
        rows: &Rows<'_>,
        deleted: &BitSet,
        cursor: &mut RepairCursor,
        budget: usize,
        scratch: &mut Scratch,
    ) -> Repair {
        let rows = &rows.stored();
        let mut done = Repair::default();
        while done.examined < budget && cursor.phase != Phase::Done {
            let (upper, following) = match cursor.phase {
                Phase::Ground => (false, Phase::Upper),
                Phase::Upper => (true, Phase::GroundAgain),
                Phase::GroundAgain => (false, Phase::UpperAgain),
                Phase::UpperAgain => (true, Phase::Clear),
                Phase::Clear => (false, Phase::Done),
                Phase::Done => break,
            };
            let node = cursor.next;
            if node as usize >= if upper { self.upper.rows() } else { self.rows() } {
                *cursor = RepairCursor { phase: following, next: 0 };
                if following == Phase::Clear {
                    self.move_entry(deleted);
                }
                continue;
            }
            cursor.next += 1;
            done.examined += 1;
            if cursor.phase == Phase::Clear {
                done.cleared += usize::from(deleted.contains(node) && self.clear_row(rows, node, scratch));
            } else if upper {
                done.relinked += usize::from(self.repair_node::<true>(rows, node, deleted, scratch));
            } else {
                done.relinked += usize::from(self.repair_node::<false>(rows, node, deleted, scratch));
            }
        }
        done
    }

    fn repair_node<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        node: u32,
        deleted: &BitSet,
        scratch: &mut Scratch,
    ) -> bool {
        let row = if UPPER { self.slot_header(node).0 } else { node };
        if deleted.contains(row) || row as usize >= rows.count() {
            return false;
        }
        let gone = |l: &Link| deleted.contains(l.row) || l.row as usize >= rows.count();
        let mut hit = false;
        self.each_link::<UPPER>(node, |l| hit |= gone(&l));
        if !hit {
            return false;
        }
        let me = Place { node, row, distance: 0.0 };
        let width = self.width::<UPPER>();
        let mut found = self.beyond::<UPPER>(rows, me, deleted, scratch);
        if found.is_empty() && !UPPER {
            // Nothing alive nearby: ask the graph.
            let mut live = BitSet::full(self.rows());
            live.subtract(deleted);
            live.remove(row);
            let ef = self.params.ef_construction;
            let hits = self.search_hiding(rows, &row, ef, ef, Allow::Bits(&live), usize::MAX, scratch);
            found = hits
                .iter()
                .flatten()
                .map(|h| Place { node: h.row, row: h.row, distance: h.distance })
                .collect();
        }
        let mut links = Vec::new();
        let old = {
            let _held = self.lock(node);
            // What linkers added since `beyond` read the list stays a candidate.
            let mut old: Vec<Link> = Vec::with_capacity(width);
            self.each_link::<UPPER>(node, |l| old.push(l));
            for l in old.iter().filter(|l| !gone(l)) {
                if found.iter().all(|p| p.node != l.node) {
                    found.push(Place {
                        node: l.node,
                        row: l.row,
                        distance: rows.distance_between(row, l.row),
                    });
                }
            }
            found.sort_unstable_by(|a, b| order(me, a, b));
            select(rows, me, &found, width, &mut links);
            scratch.rotated.clear();
            self.store_links::<UPPER>(rows, node, &links, &mut scratch.rotated);
            old
        };
        // The new neighbours learn of the node, as they would of a newcomer.
        for l in links.iter().filter(|l| !l.fill && old.iter().all(|o| o.node != l.node)) {
            if let Some(p) = found.iter().find(|p| p.node == l.node) {
                self.link_back::<UPPER>(rows, *p, me, scratch);
            }
        }
        true
    }

    /// The live nodes that `at` links to or reaches through deleted ones only, with their distances.
    fn beyond<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        at: Place,
        deleted: &BitSet,
        scratch: &mut Scratch,
    ) -> Vec<Place> {
        let Scratch { visited, batch, .. } = scratch;
        visited.start(rows.count());
        visited.mark(at.row);
        batch.clear();
        let mut through = vec![at.node];
        let mut next = 0;
        let enough = self.width::<UPPER>() * ENOUGH;
        while let Some(&node) = through.get(next) {
            if next > LOOK_THROUGH || batch.rows.len() >= enough {
                break;
            }
            next += 1;
            self.each_link::<UPPER>(node, |l| {
                if visited.mark(l.row) {
                    if deleted.contains(l.row) {
                        through.push(l.node);
                    } else {
                        batch.nodes.push(l.node);
                        batch.rows.push(l.row);
                    }
                }
            });
        }
        batch.room();
        rows.distances_from(at.row, &batch.rows, &mut batch.distances);
        let each = batch.nodes.iter().zip(&batch.rows).zip(&batch.distances);
        each.map(|((&node, &row), &distance)| Place { node, row, distance }).collect()
    }

    /// A live entry point of the highest level, where the present one is deleted.
    fn move_entry(&self, deleted: &BitSet) {
        let _held = self.entry_lock.lock();
        if !self.entry().is_some_and(|e| deleted.contains(e.row)) {
            return;
        }
        let fit = |row: RowId| {
            let mut linked = false;
            self.each_link::<false>(row, |_| linked = true);
            linked && !deleted.contains(row)
        };
        let above = (0..self.upper.rows() as u32)
            .map(|slot| (self.slot_header(slot), slot))
            .filter(|((row, _), _)| fit(*row))
            .max_by_key(|((_, level), slot)| (*level, std::cmp::Reverse(*slot)));
        let ground = |row| Entry { row, slot: None };
        let entry = match above {
            Some(((row, _), slot)) => Some(Entry { row, slot: Some(slot) }),
            // A last live row has no links.
            None => (0..self.rows() as RowId)
                .find(|&row| fit(row))
                .or_else(|| (0..self.linked()).find(|&row| !deleted.contains(row)))
                .map(ground),
        };
        self.set_entry(entry);
    }

    /// Empties all lists of a row; false where they were empty.
    fn clear_row(&self, rows: &Rows<'_>, row: RowId, scratch: &mut Scratch) -> bool {
        let mut any = false;
        self.each_link::<false>(row, |_| any = true);
        {
            let _held = self.lock(row);
            self.store_links::<false>(rows, row, &[], &mut scratch.rotated);
        }
        for slot in self.slots_of(row) {
            self.each_link::<true>(slot, |_| any = true);
            let _held = self.lock(slot);
            self.store_links::<true>(rows, slot, &[], &mut scratch.rotated);
        }
        any
    }
}
