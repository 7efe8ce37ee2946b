//! How links lie in the arenas.
//!
//! Ground layer, one row of `m0` words a row: a word is 0 (the list ends) or `row + 1`, with the top bit set where
//! the link only fills the list up (the neighbour rule had pruned it). Zeroed memory is an empty list.
//! Upper layers, one slot a row and level, the slots of a row together, level 1 first, rows rising: a header word
//! `level << 32 | row`, then `m` words: 0 or `(slot + 1) << 32 | fill << 31 | row` of the neighbour on that level.

use crate::arena::Arena;
use crate::ids::RowId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Set in a link that fills the list.
pub(super) const FILL: u32 = 1 << 31;

/// One end of a link on some layer. On the ground `node` is the row, above it is the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) node: u32,
    pub(super) row: RowId,
    pub(super) fill: bool,
}

/// A link list that readers may walk while its locked writer changes it.
pub(super) trait List {
    /// The links up to the list's end.
    fn each(&self, f: impl FnMut(Link));
    /// Replaces the list; holds the node's lock. Words that stay the same are not written.
    fn store(&self, links: &[Link]);
}

impl List for [AtomicU32] {
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(Link)) {
        for w in self {
            let v = w.load(Ordering::Relaxed);
            if v == 0 {
                break;
            }
            let row = (v & !FILL).wrapping_sub(1);
            f(Link { node: row, row, fill: v & FILL != 0 });
        }
    }

    fn store(&self, links: &[Link]) {
        for (w, l) in self.iter().zip(links) {
            let v = (l.row + 1) | if l.fill { FILL } else { 0 };
            if w.load(Ordering::Relaxed) != v {
                w.store(v, Ordering::Release);
            }
        }
        clear_rest(self.get(links.len()..), |w| w.swap(0, Ordering::Release) != 0);
    }
}

impl List for [AtomicU64] {
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(Link)) {
        for w in self {
            let v = w.load(Ordering::Relaxed);
            if v == 0 {
                break;
            }
            f(Link {
                node: ((v >> 32) as u32).wrapping_sub(1),
                row: v as u32 & !FILL,
                fill: v as u32 & FILL != 0,
            });
        }
    }

    fn store(&self, links: &[Link]) {
        for (w, l) in self.iter().zip(links) {
            let v = (l.node as u64 + 1) << 32 | l.row as u64 | if l.fill { FILL as u64 } else { 0 };
            if w.load(Ordering::Relaxed) != v {
                w.store(v, Ordering::Release);
            }
        }
        clear_rest(self.get(links.len()..), |w| w.swap(0, Ordering::Release) != 0);
    }
}

/// Zeroes words until one was zero already.
fn clear_rest<W>(rest: Option<&[W]>, clear: impl Fn(&W) -> bool) {
    for w in rest.unwrap_or(&[]) {
        if !clear(w) {
            break;
        }
    }
}

/// Width of a ground row in bytes: whole cache lines from 16 links on.
pub(super) fn ground_stride(m0: usize) -> usize {
    if m0 >= 16 { (m0 * 4).next_multiple_of(64) } else { m0 * 4 }
}

pub(super) fn upper_stride(m: usize) -> usize {
    (m + 1) * 8
}

/// Row and level of a slot.
pub(super) fn slot_header(upper: &Arena, slot: u32) -> (RowId, u32) {
    let h = upper.row_u64(slot as usize)[0].load(Ordering::Relaxed);
    (h as u32, (h >> 32) as u32)
}
