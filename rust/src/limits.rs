//! Every bound of the engine, by name. An error that a bound causes names it.

/// Largest vector dimension.
pub const MAX_DIM: usize = 65_536;
/// Longest external id, UTF-8 bytes.
pub const MAX_ID_BYTES: usize = 4_096;
/// Largest payload of one row, bytes of JSON text.
pub const MAX_PAYLOAD_BYTES: usize = 128 << 20;
/// Deepest nesting of a payload.
pub const MAX_PAYLOAD_DEPTH: usize = 64;
/// Longest collection name, bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Most rows in one collection (row ids are u32; the last value means "no row").
pub const MAX_ROWS: usize = (u32::MAX - 1) as usize;
/// Largest log frame's payload, bytes. A transaction is one frame.
pub const MAX_FRAME_BYTES: usize = 1 << 30;
/// Largest k of a search.
pub const MAX_K: usize = 1_000_000;
/// Largest ef of a search or of building.
pub const MAX_EF: usize = 1_000_000;
/// Smallest and largest M of HNSW.
pub const MIN_M: usize = 2;
pub const MAX_M: usize = 256;
/// Most rows in one HNSW graph: a link is 31 bits of row and one flag.
pub const MAX_GRAPH_ROWS: usize = (1 << 31) - 2;
/// Highest level of an HNSW graph.
pub const MAX_LEVEL: u8 = 31;
