//! How a database is opened.

use crate::log::LogOptions;
use serde::Deserialize;

/// How a database is opened; times in milliseconds, sizes in bytes.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub create: bool,
    pub read_only: bool,
    /// Resync over damage and report it, instead of refusing to open.
    pub salvage: bool,
    /// Longest time a buffered write stays unsynced.
    pub sync_interval_ms: u64,
    pub segment_bytes: u64,
    /// A checkpoint is made when the log has grown by this much since the last.
    pub checkpoint_log_bytes: u64,
    /// Rows that may wait for linking before writers help.
    pub tail_rows_max: usize,
    /// 0 = all cores.
    pub link_threads: usize,
    /// Contents of files up to this total are checked at open; larger ones by `verify`.
    pub verify_open_bytes: u64,
    /// Without it no thread is started: linking, syncing and checkpoints happen when called for.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            read_only: false,
            salvage: false,
            sync_interval_ms: 100,
            segment_bytes: LogOptions::default().segment_bytes,
            checkpoint_log_bytes: 256 << 20,
            tail_rows_max: 8192,
            link_threads: 0,
            verify_open_bytes: 64 << 20,
            background: true,
        }
    }
}

impl Options {
    pub(super) fn log(&self) -> LogOptions {
        LogOptions { segment_bytes: self.segment_bytes }
    }
}
