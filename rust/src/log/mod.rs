//! The log: an append-only sequence of records in segments, which is the truth until a checkpoint holds it.
//!
//! Promise: a record that [`Log::sync`] returned for survives any crash; recovery gives back a prefix of what was
//! appended, in order, and says what it cut. After a failed write or sync nothing more is written ([`Error::Poisoned`]).
//! May import `io`, `error`, `ids`, `limits`. Cost: one write an append, one fdatasync a sync.
//!
//! [`Error::Poisoned`]: crate::error::Error::Poisoned

mod frame;
mod recover;
mod segment;
mod writer;

pub use recover::{Gap, RecoverMode, RecoveryReport, TornTail};
pub use writer::{Log, LogOptions};

/// Length of a segment that holds no record yet.
pub const EMPTY_SEGMENT_BYTES: u64 = segment::HEAD;

#[cfg(test)]
mod tests;
