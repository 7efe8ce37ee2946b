//! The neighbour rule (algorithm 4 of the paper, with pruned candidates filling the list).
//!
//! A candidate is kept where no kept one is nearer to it than the node is. Space left over is filled with the
//! nearest pruned ones, flagged, so that a later newcomer is weighed against the kept ones alone.
//!
//! Equal vectors. Between them every distance ties, and the plain rule would keep a node's nearest twin and prune all
//! else: a crowd of twins would link to itself only. So a tie prunes nothing, except among twins, where the
//! exclusive-or of node numbers stands in for the distance. Under it the rule keeps the nearest twin of each
//! subtree of the numbers, as Kademlia's buckets do (Maymounkov and Mazières, 2002): about log2(twins) links, through
//! which all twins stay reachable, and the rest of the list for the world outside.

use super::links::Link;
use super::search::Place;
use crate::flat::Rows;
use std::cmp::Ordering;

/// True where `kept` speaks against linking the node to `e`.
#[inline(always)]
fn occludes(rows: &Rows<'_>, node: Place, kept: Place, e: Place) -> bool {
    occludes_at(rows, node, kept, e, rows.distance_between(kept.row, e.row))
}

/// The same with the distance between `kept` and `e` known. `node.distance` is not read.
#[inline(always)]
fn occludes_at(rows: &Rows<'_>, node: Place, kept: Place, e: Place, between: f32) -> bool {
    between < e.distance
        || (between == e.distance
            && rows.bytes(e.row) == rows.bytes(node.row)
            && (e.node ^ kept.node) < (e.node ^ node.node))
}

/// Chooses at most `width` links of `node` from candidates in rising order; kept ones first, then the filling.
pub(super) fn select(rows: &Rows<'_>, node: Place, candidates: &[Place], width: usize, out: &mut Vec<Link>) {
    let mut kept: Vec<Place> = Vec::with_capacity(width);
    let mut pruned: Vec<Place> = Vec::with_capacity(width);
    for &e in candidates {
        if kept.len() == width {
            break;
        }
        if e.row == node.row {
            continue;
        }
        if kept.iter().any(|&r| occludes(rows, node, r, e)) {
            if pruned.len() < width {
                pruned.push(e);
            }
        } else {
            kept.push(e);
        }
    }
    out.clear();
    out.extend(kept.iter().map(|p| Link { node: p.node, row: p.row, fill: false }));
    let room = width - kept.len();
    out.extend(pruned.iter().take(room).map(|p| Link { node: p.node, row: p.row, fill: true }));
}

/// Weighs a newcomer against a full list whose flags are exact, at the price of at most two distances a link instead
/// of one for each pair. `list` has the links' distances from `node`. False where the list stays as it is.
pub(super) fn admit(
    rows: &Rows<'_>,
    node: Place,
    list: &[(Link, f32)],
    new: Place,
    out: &mut Vec<Link>,
) -> bool {
    let width = list.len();
    let place = |(l, distance): (Link, f32)| Place { node: l.node, row: l.row, distance };
    let mut kept: Vec<Place> = Vec::with_capacity(width + 1);
    let mut fill: Vec<Place> = list.iter().filter(|e| e.0.fill).map(|&e| place(e)).collect();
    let mut occluded = false;
    for &e in list.iter().filter(|e| !e.0.fill) {
        let e = place(e);
        if occluded {
            kept.push(e);
            continue;
        }
        let between = rows.distance_between(e.row, new.row);
        if order(node, &e, &new).is_lt() {
            occluded = occludes_at(rows, node, e, new, between);
            kept.push(e);
        } else if occludes_at(rows, node, new, e, between) {
            fill.push(e);
        } else {
            kept.push(e);
        }
    }
    if occluded {
        let last = fill.iter().max_by(|a, b| order(node, a, b));
        if last.is_none_or(|l| order(node, l, &new).is_lt()) {
            return false;
        }
        fill.push(new);
    } else {
        kept.push(new);
    }
    kept.sort_unstable_by(|a, b| order(node, a, b));
    kept.truncate(width);
    fill.sort_unstable_by(|a, b| order(node, a, b));
    out.clear();
    out.extend(kept.iter().map(|p| Link { node: p.node, row: p.row, fill: false }));
    out.extend(fill.iter().take(width - kept.len()).map(|p| Link { node: p.node, row: p.row, fill: true }));
    true
}

/// The order of candidates: by distance, ties by closeness of numbers to the node's.
pub(super) fn order(node: Place, a: &Place, b: &Place) -> Ordering {
    a.distance.total_cmp(&b.distance).then((a.node ^ node.node).cmp(&(b.node ^ node.node)))
}
