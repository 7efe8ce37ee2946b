//! BM25 over the text fields of a collection, for every script.
//!
//! Promise: an inserted row is found at once; statistics (how many rows, in how many a term stands, how long they are)
//! come from the rows that the reader may see and from nothing else; no query text is an error. May import `error`,
//! `ids`, `props` (for `Bytes`). No I/O. Shape: an immutable base (mapped), a delta in memory, a set of stale base rows.

mod analyzer;
mod base;
mod index;
mod query;
mod stop;

pub use analyzer::{Analyzer, Token};
pub use index::{TermPart, TextIndex};
pub use query::Query;

#[cfg(test)]
mod tests;
