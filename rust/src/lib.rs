//! The KektorDB engine.
//!
//! Layers, lowest first, arrows point down only (a test reads the `use` lines):
//! `ids, limits, error ← io ← arena, log ← hnsw, flat, text, props ← view ← store ← py`.

pub mod arena;
pub mod error;
pub mod flat;
pub mod hnsw;
pub mod ids;
pub mod io;
pub mod limits;
pub mod log;
pub mod props;
#[cfg(feature = "python")]
mod py;
pub mod store;
pub mod text;
pub mod view;
