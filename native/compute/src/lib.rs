//! Distance kernels and quantizers: no I/O, no threads, no dependency on the engine.
//!
//! [`Codec`] is the door: it encodes vectors as rows, prepares queries, and measures distances (smaller = nearer).
//! [`rabitq`] keeps one-bit codes of a node's neighbours and estimates 32 distances at a time.
//! Kernels exist as one scalar source that is compiled once a CPU level; the level is chosen once at load.

mod codec;
mod kernels;
mod level;
pub mod rabitq;

pub use codec::{Codec, Dtype, Metric, Query, VectorFault, prefetch};
pub use level::{Level, cpu_level};
