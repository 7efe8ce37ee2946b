//! Linking a row (algorithm 1 of the paper), beside searches and other linkers.
//!
//! All layers are searched first, then linked from the ground up, so that whoever meets the row on a layer can go on
//! below. One lock is held at a time, for one list.

use super::beam::{Front, SORTED_MAX};
use super::graph::{Entry, Graph};
use super::links::Link;
use super::scratch::Scratch;
use super::search::{Place, TIES};
use super::select::{admit, order, select};
use crate::flat::{Rows, key};
use crate::ids::RowId;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows that one thread links before others join in: walks need something to walk on.
const ALONE: RowId = 64;

impl Graph {
    /// Links a row that [`grow_to`](Self::grow_to) has seen and whose vector lies in `rows`. Panics on another row.
    /// A row that is linked already is linked anew beside its old links.
    pub fn insert(&self, rows: &Rows<'_>, row: RowId, scratch: &mut Scratch) {
        let rows = &rows.stored();
        assert!(
            (row as usize) < self.rows() && (row as usize) < rows.count(),
            "row {row} has not been grown to"
        );
        scratch.rotated.clear();
        self.link(rows, row, scratch);
        self.done(row);
    }

    /// Links rows `from..to` on up to `threads` threads; returns when all are linked.
    pub fn insert_range(&self, rows: &Rows<'_>, from: RowId, to: RowId, threads: usize) {
        let mut scratch = self.pool.get();
        let mut from = from;
        while from < to && (from < ALONE || threads < 2 || to - from < 2) {
            self.insert(rows, from, &mut scratch);
            from += 1;
        }
        if from >= to {
            return;
        }
        let next = AtomicU32::new(from);
        let work = |scratch: &mut Scratch| {
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                if row >= to {
                    break;
                }
                self.insert(rows, row, scratch);
            }
        };
        std::thread::scope(|s| {
            for _ in 1..threads.min((to - from) as usize) {
                s.spawn(|| work(&mut self.pool.get()));
            }
            work(&mut scratch);
        });
    }

    fn link(&self, rows: &Rows<'_>, row: RowId, scratch: &mut Scratch) {
        let slots = self.slots_of(row);
        let own = Entry { row, slot: slots.clone().last() };
        let level = slots.len() as u32;
        let mut entry = self.entry();
        // Rare: a node that rises above the entry point keeps others of its kind waiting.
        let rises = |e: Option<Entry>| e.is_none_or(|e| self.level_of_entry(e) < level);
        let mut rising = None;
        if rises(entry) {
            let guard = self.entry_lock.lock();
            entry = self.entry();
            if rises(entry) {
                rising = Some(guard);
            }
        }
        let Some(entry) = entry else {
            self.set_entry(Some(own));
            return;
        };
        if entry.row != row {
            let top = self.level_of_entry(entry).min(level);
            let mut chosen: Vec<Vec<Place>> = Vec::with_capacity(top as usize + 1);
            let mut at = self.descend(rows, &row, top, &mut scratch.batch);
            for l in (1..=top).rev() {
                let Some(start) = at else { break };
                let found = self.around::<true>(rows, row, slots.start + l - 1, start, scratch);
                at = found.first().map(|p| Place { node: if l == 1 { p.row } else { p.node - 1 }, ..*p });
                chosen.push(found);
            }
            if let Some(start) = at {
                let found = self.around::<false>(rows, row, row, start, scratch);
                self.connect::<false>(rows, row, row, &found, scratch);
            }
            for (found, l) in chosen.iter().rev().zip(1..) {
                self.connect::<true>(rows, row, slots.start + l - 1, found, scratch);
            }
        }
        if rising.is_some() {
            self.set_entry(Some(own));
        } else if self.entry().is_none() {
            // A repair has taken the last other row out meanwhile.
            let _held = self.entry_lock.lock();
            if self.entry().is_none() {
                self.set_entry(Some(own));
            }
        }
    }

    fn level_of_entry(&self, e: Entry) -> u32 {
        e.slot.map_or(0, |s| self.slot_header(s).1)
    }

    /// The row's nearest nodes on a layer, at most `ef_construction`, without itself.
    fn around<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        row: RowId,
        node: u32,
        start: Place,
        scratch: &mut Scratch,
    ) -> Vec<Place> {
        let ef = self.params.ef_construction;
        scratch.keys.clear();
        if let (false, Some(codes)) = (UPPER, &self.codes) {
            self.around_packed(rows, codes, row, start, scratch);
        }
        let Scratch { visited, sorted, heaps, batch, keys, .. } = scratch;
        if !keys.is_empty() {
            // The packed walk has been there.
        } else if ef <= SORTED_MAX {
            sorted.start(ef, TIES);
            self.walk::<UPPER>(rows, &row, start, node, sorted, visited, batch, |_, _| ());
            sorted.drain_into(keys);
        } else {
            heaps.start(ef, TIES);
            self.walk::<UPPER>(rows, &row, start, node, heaps, visited, batch, |_, _| ());
            heaps.drain_into(keys);
        }
        let mut found = Vec::with_capacity(keys.len());
        self.places::<UPPER>(keys, node, &mut found);
        found.retain(|p| p.row != row && (p.row as usize) < rows.count());
        found
    }

    /// Links `node` to the best of `found`, and those back to it.
    fn connect<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        row: RowId,
        node: u32,
        found: &[Place],
        scratch: &mut Scratch,
    ) {
        let me = Place { node, row, distance: 0.0 };
        let mut links = Vec::new();
        select(rows, me, found, self.width::<UPPER>(), &mut links);
        let back: Vec<Place> =
            links.iter().filter_map(|l| found.iter().find(|p| p.node == l.node)).copied().collect();
        {
            let _held = self.lock(node);
            let mut early: Vec<Place> = Vec::new();
            self.each_link::<UPPER>(node, |l| early.push(Place { node: l.node, row: l.row, distance: 0.0 }));
            early.retain(|p| (p.row as usize) < rows.count());
            if !early.is_empty() {
                // Another linker has found the row already and linked it: weigh its links with ours.
                early.retain(|p| back.iter().all(|b| b.node != p.node));
                for p in &mut early {
                    p.distance = rows.distance_between(row, p.row);
                }
                early.extend_from_slice(&back);
                early.sort_unstable_by(|a, b| order(me, a, b));
                select(rows, me, &early, self.width::<UPPER>(), &mut links);
            }
            self.store_links::<UPPER>(rows, node, &links, &mut scratch.rotated);
        }
        let mut known = false;
        for &p in &back {
            known |= self.link_back::<UPPER>(rows, p, me, scratch);
        }
        if !known && let Some(nearest) = back.first() {
            self.force_back::<UPPER>(rows, *nearest, me, scratch);
        }
    }

    /// Puts a link to `new` in place of the farthest one of `at`: a node that no neighbour took would be out of reach.
    fn force_back<const UPPER: bool>(&self, rows: &Rows<'_>, at: Place, new: Place, scratch: &mut Scratch) {
        let _held = self.lock(at.node);
        let mut list: Vec<Link> = Vec::new();
        self.each_link::<UPPER>(at.node, |l| list.push(l));
        if list.iter().all(|l| l.node != new.node) {
            list.retain(|l| (l.row as usize) < rows.count());
            if list.len() == self.width::<UPPER>() {
                let far = |l: &Link| (l.fill, key(rows.distance_between(at.row, l.row), l.row));
                let last = (0..list.len()).max_by_key(|&i| far(&list[i]));
                last.map(|i| list.remove(i));
            }
            list.insert(0, Link { node: new.node, row: new.row, fill: false });
            self.store_links::<UPPER>(rows, at.node, &list, &mut scratch.rotated);
        }
    }

    /// Adds a link from `at` to `new`; `at.distance` is the distance between them. False where the list has better ones.
    ///
    /// While the list has room the link is appended as it is. The one that fills it has the whole list judged; from
    /// then on its flags are exact and a newcomer is weighed alone.
    pub(super) fn link_back<const UPPER: bool>(
        &self,
        rows: &Rows<'_>,
        at: Place,
        new: Place,
        scratch: &mut Scratch,
    ) -> bool {
        let width = self.width::<UPPER>();
        let new = Place { distance: at.distance, ..new };
        let _held = self.lock(at.node);
        let mut list: Vec<Link> = Vec::with_capacity(width + 1);
        self.each_link::<UPPER>(at.node, |l| list.push(l));
        if list.iter().any(|l| l.node == new.node) {
            return true;
        }
        if list.len() + 1 < width {
            list.push(Link { node: new.node, row: new.row, fill: false });
            self.store_links::<UPPER>(rows, at.node, &list, &mut scratch.rotated);
            return true;
        }
        list.retain(|l| (l.row as usize) < rows.count());
        let batch = &mut scratch.batch;
        batch.clear();
        batch.rows.extend(list.iter().map(|l| l.row));
        batch.room();
        rows.distances_from(at.row, &batch.rows, &mut batch.distances);
        let mut out = Vec::with_capacity(width);
        if list.len() == width {
            let mut known: Vec<(Link, f32)> = list.into_iter().zip(batch.distances.iter().copied()).collect();
            // A packed graph's links lie in no order.
            let place = |&(l, distance): &(Link, f32)| Place { node: l.node, row: l.row, distance };
            known.sort_unstable_by(|a, b| a.0.fill.cmp(&b.0.fill).then(order(at, &place(a), &place(b))));
            if !admit(rows, at, &known, new, &mut out) {
                return false;
            }
        } else {
            let mut all: Vec<Place> = list
                .iter()
                .zip(&batch.distances)
                .map(|(l, &distance)| Place { node: l.node, row: l.row, distance })
                .collect();
            all.push(new);
            all.sort_unstable_by(|a, b| order(at, a, b));
            select(rows, at, &all, width, &mut out);
        }
        self.store_links::<UPPER>(rows, at.node, &out, &mut scratch.rotated);
        out.iter().any(|l| l.node == new.node)
    }
}
