//! What is asked of a commit and what it answers.

use super::record::Op;
use crate::ids::{CollectionId, Lsn, Micros};

/// When a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After its bytes are on the disk.
    Sync,
    /// After the operating system has them; on the disk within `sync_interval_ms`.
    Buffered,
}

/// What must hold just before a transaction is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    Open(CollectionId, String),
    /// As `Open`, for changes that name a row without having read it: `NotFound` instead of a conflict.
    Exists(CollectionId, String),
    Absent(CollectionId, String),
    CollectionAbsent(String),
    /// Every row has a staged vector.
    Staged(CollectionId),
    /// The key holds exactly this value; `None`: it is absent.
    Kv(String, String, Option<Vec<u8>>),
}

/// Changes that are applied together or not at all.
#[derive(Debug, Default, Clone)]
pub struct Transaction {
    pub actor: String,
    pub reason: String,
    pub ops: Vec<Op>,
    pub expects: Vec<Expect>,
}

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub lsn: Lsn,
    pub tx_time: Micros,
    /// Records that `Close` operations ended.
    pub closed: u64,
    /// True where it is on the disk, false where the operating system has it.
    pub synced: bool,
}
