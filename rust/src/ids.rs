//! Newtypes for the numbers that name things. No I/O.

/// Sequence number of a log record (one record = one transaction); 1 is the first, gaps never occur.
pub type Lsn = u64;

/// Position of a row in a collection's arenas, dense from 0. A row is never moved; vacuum renumbers by rewriting.
pub type RowId = u32;

/// Identity of a collection inside a database; never reused.
pub type CollectionId = u32;

/// Microseconds since 1970-01-01T00:00:00Z.
pub type Micros = i64;

/// "No row" in link lists and tables.
pub const NO_ROW: RowId = RowId::MAX;

/// The open end of a time interval.
pub const FOREVER: Micros = i64::MAX;

/// The open start of a time interval.
pub const EVER: Micros = i64::MIN;
