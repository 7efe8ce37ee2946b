//! The navigable graph: HNSW (Malkov and Yashunin, arXiv 1603.09320), changed while it is read.
//!
//! Promise: searches, linkers and repairs run at the same time under one shared borrow; only growing is exclusive.
//! Links name rows of the graph, never their own row, none twice, at most `m0` on the ground and `m` above (I8).
//! A search returns rows it was allowed to, sorted by (distance, row), each with its exact distance; a filtered one
//! returns `k` of them whenever `k` allowed rows are linked.
//!
//! Readers take no lock: a link is one atomic word, and any mixture of an old and a new list is a list of true
//! neighbours. Linkers take a striped lock a node, one at a time, so no order of locks can close a circle.
//! Nothing read from a link is trusted: a row past the end is skipped.
//!
//! A packed graph ([`Graph::packed`]) keeps one-bit codes of each node's neighbours beside its links: a walk reads one
//! vector a visit and estimates its neighbours' distances from one stream of bytes, instead of reading 32 vectors.
//!
//! May import `arena`, `flat`, `error`, `ids`, `limits`, the kernels.
//! Cost: ground layer `4·m0` bytes a row (packed, of 32 links: `4·dim + 256` where `dim` is a multiple of 64), upper layers about `8·(m + 1)/(m − 1)`; scratch one byte a row and searcher.

mod beam;
mod check;
mod codes;
mod filtered;
mod graph;
mod insert;
mod links;
mod packed;
#[cfg(test)]
#[path = "tests.rs"]
#[allow(clippy::duplicate_mod)]
mod packed_tests;
mod params;
mod repair;
mod scratch;
mod search;
mod select;
#[cfg(test)]
#[allow(clippy::duplicate_mod)]
mod tests;

pub use crate::flat::{Allow, BitSet, Hit, Rows};
pub use check::Check;
pub use filtered::{Strategy, direct};
pub use graph::Graph;
pub use params::{Params, State};
pub use repair::{Repair, RepairCursor};
pub use scratch::{Pooled, Scratch, ScratchPool};

/// True for the module path of the tests that run on packed graphs.
#[cfg(test)]
const fn packed_tests_are(path: &str) -> bool {
    let (path, end) = (path.as_bytes(), b"::packed_tests");
    let mut i = 0;
    while i < end.len() && path.len() >= end.len() && path[path.len() - end.len() + i] == end[i] {
        i += 1;
    }
    i == end.len()
}
