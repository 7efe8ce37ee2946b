//! What all parts of an open database share.

use super::collection::Collection;
use super::manifest::Manifest;
use super::names::NameTable;
use super::options::Options;
use super::transaction::{Committed, Durability, Transaction};
use crate::error::{Error, Result};
use crate::ids::{CollectionId, Lsn, Micros};
use crate::io::Storage;
use crate::log::Log;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State that only the leader touches.
#[derive(Debug, Default)]
pub(super) struct Leader {
    pub next_cid: CollectionId,
    pub last_tx: Micros,
    pub applied_lsn: Lsn,
    pub manifest: Manifest,
    pub log_bytes_since_checkpoint: u64,
}

/// A transaction that waits for a leader.
#[derive(Debug)]
pub(super) struct Ticket {
    pub tx: Mutex<Option<Transaction>>,
    pub durability: Durability,
    pub done: Mutex<Option<Result<Committed>>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub storage: Arc<dyn Storage>,
    /// None for a database that lives in memory only.
    pub dir: Option<PathBuf>,
    pub uuid: [u8; 16],
    pub options: Options,
    pub log: Option<Log>,
    pub leader: Mutex<Leader>,
    pub queue: Mutex<VecDeque<Arc<Ticket>>>,
    pub catalog: RwLock<BTreeMap<String, Arc<Collection>>>,
    pub by_id: RwLock<HashMap<CollectionId, Arc<Collection>>>,
    pub names: RwLock<NameTable>,
    pub kv: RwLock<BTreeMap<(String, String), Vec<u8>>>,
    pub kv_dirty: AtomicBool,
    /// The newest belief time that was applied.
    pub last_tx: AtomicU64,
    pub poisoned: Mutex<Option<String>>,
    pub closed: AtomicBool,
    pub wake: (Mutex<bool>, Condvar),
}

impl Shared {
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        match &*self.poisoned.lock() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn threads(&self) -> usize {
        match self.options.link_threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }

    pub(super) fn poison(&self, e: &Error) {
        self.poisoned.lock().get_or_insert_with(|| e.to_string());
    }

    pub(super) fn sync_log(&self, log: &Log) -> Result<()> {
        if log.synced_lsn() >= log.last_lsn() {
            return Ok(());
        }
        log.sync().inspect_err(|e| self.poison(e))
    }
}

pub(super) fn not_found(name: &str) -> Error {
    Error::NotFound { what: format!("collection {name:?}") }
}
