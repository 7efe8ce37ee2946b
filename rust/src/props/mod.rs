//! Postings of payload fields: which rows hold which value under which path.
//!
//! Promise: a look-up gives exactly the rows whose payload satisfies it, whatever was checkpointed in between. Liveness is
//! not its matter: results are ANDed with what the reader may see. May import `error`, `ids`, `limits`. No I/O.
//! Shape: an immutable base (mapped) and a delta in memory; `stale` hides base rows that were indexed again.
//!
//! A path is the field names from the root, joined by `.`; a `.` or `\` inside a name is escaped by `\`. Lists count
//! element by element, also the fields of objects in lists.

mod base;
mod index;
mod key;
mod terms;
pub mod time;

pub use index::PropIndex;
pub use key::{Role, Scalar};

/// Bytes that outlive whoever reads them: a mapped section of a file.
pub trait Bytes: AsRef<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + Send + Sync> Bytes for T {}

#[cfg(test)]
mod tests;
