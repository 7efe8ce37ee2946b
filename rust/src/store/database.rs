//! A database: opening, the catalog, key-value pairs, upkeep, closing.

use super::collection::Collection;
use super::layout;
use super::load::{Loaded, load};
use super::names::NameTable;
use super::options::Options;
use super::record::Op;
use super::shared::{Leader, Shared, not_found};
use super::spec::{Spec, check_name};
use super::transaction::{Committed, Durability, Expect, Transaction};
use crate::error::{Error, Result};
use crate::ids::{CollectionId, Micros};
use crate::io::{DirLock, LockMode, Storage};
use crate::log::{Log, RecoverMode, RecoveryReport};
use crate::view::rule::{NameId, UNKNOWN_NAME};
use parking_lot::{Condvar, Mutex, RwLock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An open database. Dropping it closes it without a checkpoint; what was acknowledged is in the log.
#[derive(Debug)]
pub struct Database {
    shared: Arc<Shared>,
    lock: Mutex<Option<Box<dyn DirLock>>>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
    report: Option<RecoveryReport>,
}

impl Database {
    /// Opens or creates the database in `dir`; `None` = in memory, gone when closed.
    pub fn open(storage: Arc<dyn Storage>, dir: Option<&Path>, options: Options) -> Result<Self> {
        let mut lock = None;
        let mut report = None;
        let mut leader = Leader { next_cid: 1, ..Default::default() };
        let mut loaded = Loaded::default();
        let mut uuid = [0; 16];
        let mut log = None;
        if let Some(dir) = dir {
            if (options.read_only || !options.create) && !storage.exists(&dir.join("CURRENT"))? {
                return Err(Error::NotFound { what: format!("database {}", dir.display()) });
            }
            if !options.read_only {
                if options.create {
                    layout::refuse_foreign(&*storage, dir)?;
                    storage.create_dir(dir)?;
                } else if !storage.exists(&dir.join("CURRENT"))? {
                    return Err(Error::NotFound { what: format!("database {}", dir.display()) });
                }
                lock = Some(storage.lock_dir(dir, LockMode::Exclusive)?);
            }
            match layout::current(&*storage, dir)? {
                Some((id, manifest)) => {
                    let log_dir = dir.join("log");
                    let empty = crate::log::EMPTY_SEGMENT_BYTES;
                    // After an orderly end the log is empty and every name is on the disk.
                    if !options.read_only && storage.list(&log_dir)?.iter().any(|e| e.len > empty) {
                        // What is seen is made durable before anything builds on it: a sync of names may have failed.
                        for d in [dir, &dir.join("col"), &log_dir] {
                            storage.sync_dir(d)?;
                        }
                    }
                    uuid = id;
                    loaded = load(&*storage, dir, &uuid, &manifest, options.verify_open_bytes)?;
                    leader.next_cid = manifest.next_collection_id;
                    leader.last_tx = manifest.last_tx;
                    leader.applied_lsn = manifest.last_lsn;
                    leader.manifest = manifest;
                }
                None if options.create && !options.read_only => {
                    storage.entropy(&mut uuid)?;
                    log = Some(layout::create(&storage, dir, uuid, options.log(), &mut leader.manifest)?);
                }
                None => {
                    return Err(Error::NotFound { what: format!("database {}", dir.display()) });
                }
            }
        } else {
            storage.entropy(&mut uuid)?;
        }
        let fresh = log.is_some();
        let mut shared = Shared {
            storage,
            dir: dir.map(Into::into),
            uuid,
            options,
            log,
            leader: Mutex::new(leader),
            queue: Mutex::default(),
            by_id: RwLock::new(loaded.collections.iter().map(|c| (c.id, c.clone())).collect()),
            catalog: RwLock::new(loaded.collections.into_iter().map(|c| (c.name.clone(), c)).collect()),
            names: RwLock::new(NameTable::from_list(loaded.names)),
            kv: RwLock::new(loaded.kv),
            kv_dirty: AtomicBool::new(false),
            last_tx: AtomicU64::new(0),
            poisoned: Mutex::default(),
            closed: AtomicBool::new(false),
            wake: (Mutex::new(false), Condvar::new()),
        };
        shared.last_tx.store(shared.leader.lock().last_tx as u64, Ordering::Release);
        if let (Some(dir), false) = (dir, fresh) {
            let after = shared.leader.lock().applied_lsn;
            let mode = if shared.options.salvage { RecoverMode::Salvage } else { RecoverMode::Strict };
            let (log, r) = Log::recover(
                shared.storage.clone(),
                &dir.join("log"),
                uuid,
                after,
                mode,
                shared.options.read_only,
                shared.options.log(),
                &mut |lsn, bytes| shared.replay(lsn, bytes),
            )?;
            shared.log = log;
            if !r.gaps.is_empty() && !shared.options.read_only {
                // What was salvaged goes into files, and the damaged segments with the log before them.
                shared.checkpoint(&mut shared.leader.lock())?;
            }
            report = Some(r);
        }
        let shared = Arc::new(shared);
        let worker = (shared.options.background && !shared.options.read_only).then(|| {
            let s = shared.clone();
            std::thread::Builder::new().name("kektordb".into()).spawn(move || s.work())
        });
        let worker = worker.transpose().map_err(|e| Error::io("start thread", "", &e))?;
        Ok(Database { shared, lock: Mutex::new(lock), worker: Mutex::new(worker), report })
    }

    /// What recovery found; `None` for a new or an in-memory database.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.report.as_ref()
    }

    pub(crate) fn collection(&self, name: &str) -> Result<Arc<Collection>> {
        self.shared.check_open()?;
        self.shared.catalog.read().get(name).cloned().ok_or_else(|| not_found(name))
    }

    /// Identity of a collection, for building operations.
    pub fn collection_id(&self, name: &str) -> Result<CollectionId> {
        Ok(self.collection(name)?.id)
    }

    pub fn spec(&self, name: &str) -> Result<Spec> {
        Ok(self.collection(name)?.spec.clone())
    }

    pub fn collections(&self) -> Result<Vec<String>> {
        self.shared.check_open()?;
        Ok(self.shared.catalog.read().keys().cloned().collect())
    }

    pub fn create_collection(&self, name: &str, spec: &Spec) -> Result<Committed> {
        check_name(name)?;
        spec.codec()?;
        super::collection::text_index(spec)?;
        let mut json = serde_json::to_value(spec).map_err(|e| Error::Internal(e.to_string()))?;
        json["name"] = name.into();
        let tx = Transaction {
            reason: "create collection".into(),
            ops: vec![Op::CreateCollection { cid: 0, spec: json.to_string().into_bytes() }],
            expects: vec![Expect::CollectionAbsent(name.into())],
            ..Default::default()
        };
        self.commit(tx, Durability::Sync)
    }

    pub fn drop_collection(&self, name: &str) -> Result<Committed> {
        let cid = self.collection_id(name)?;
        let tx = Transaction {
            reason: "drop collection".into(),
            ops: vec![Op::DropCollection { cid }],
            ..Default::default()
        };
        self.commit(tx, Durability::Sync)
    }

    /// Applies a transaction; see [`Durability`] for what holds when it returns. Cost: one append, and one sync shared
    /// with whoever commits at the same moment.
    pub fn commit(&self, tx: Transaction, durability: Durability) -> Result<Committed> {
        self.shared.check_writable()?;
        if let Some(lock) = self.lock.lock().as_ref() {
            lock.check_owner()?;
        }
        self.shared.commit(tx, durability)
    }

    /// Interned id of a name; [`UNKNOWN_NAME`] where no row carries it.
    pub fn name_id(&self, name: Option<&str>) -> NameId {
        match name {
            None => 0,
            Some(n) => self.shared.names.read().id(n).unwrap_or(UNKNOWN_NAME),
        }
    }

    pub fn name_of(&self, id: NameId) -> Option<String> {
        self.shared.names.read().name(id).map(Into::into)
    }

    pub fn kv_get(&self, namespace: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.shared.check_open()?;
        Ok(self.shared.kv.read().get(&(namespace.into(), key.into())).cloned())
    }

    /// Keys of a namespace that start with `prefix`, in order, at most `limit`, after `after`.
    pub fn kv_scan(
        &self,
        namespace: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        self.shared.check_open()?;
        let kv = self.shared.kv.read();
        let from = match after {
            Some(a) if a >= prefix => Excluded((namespace.to_owned(), a.to_owned())),
            _ => Included((namespace.to_owned(), prefix.to_owned())),
        };
        Ok(kv
            .range((from, Unbounded))
            .take_while(|((n, k), _)| n == namespace && k.starts_with(prefix))
            .take(limit)
            .map(|((_, k), v)| (k.clone(), v.clone()))
            .collect())
    }

    /// Belief time now: the wall clock, but never before what was recorded.
    pub fn now(&self) -> Micros {
        self.shared.storage.wall_time_us().max(self.shared.last_tx.load(Ordering::Acquire) as Micros)
    }

    /// Waits until buffered writes are on the disk and every row is linked.
    pub fn flush(&self) -> Result<()> {
        self.shared.check_open()?;
        if let Some(log) = &self.shared.log {
            self.shared.sync_log(log)?;
        }
        let all: Vec<_> = self.shared.catalog.read().values().cloned().collect();
        for c in all {
            while c.link(4096, self.shared.threads())? > 0 {}
        }
        Ok(())
    }

    /// Writes what changed as files to map and drops the log before them. Searches go on; commits wait.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.check_writable()?;
        let mut leader = self.shared.leader.lock();
        self.shared.checkpoint(&mut leader)
    }

    /// Gives back what deleted and replaced rows hold (collections without history). Returns rows given back.
    pub fn vacuum(&self) -> Result<u64> {
        self.shared.check_writable()?;
        let leader = self.shared.leader.lock();
        let all: Vec<_> = self.shared.catalog.read().values().cloned().collect();
        let mut n = 0;
        for c in all {
            n += c.vacuum()?;
        }
        drop(leader);
        Ok(n)
    }

    /// Counts and sizes, as JSON.
    pub fn stats(&self) -> Result<serde_json::Value> {
        self.shared.check_open()?;
        let s = &self.shared;
        let collections: serde_json::Map<_, _> =
            s.catalog.read().iter().map(|(n, c)| (n.clone(), c.stats())).collect();
        let manifest_generation = s.leader.lock().manifest.generation;
        Ok(serde_json::json!({
            "collections": collections,
            "kv_entries": s.kv.read().len(),
            "last_lsn": s.log.as_ref().map(|l| l.last_lsn()),
            "synced_lsn": s.log.as_ref().map(|l| l.synced_lsn()),
            "generation": manifest_generation,
            "poisoned": *s.poisoned.lock(),
            "path": s.dir.as_ref().map(|d| d.display().to_string()),
        }))
    }

    /// Syncs, makes a checkpoint if anything changed, stops the thread, gives the lock back. Later calls: `Closed`.
    pub fn close(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.stop_worker();
        let mut r = Ok(());
        let foreign = self.lock.lock().as_ref().is_some_and(|l| l.check_owner().is_err());
        if !self.shared.options.read_only && self.shared.dir.is_some() && !foreign {
            let mut leader = self.shared.leader.lock();
            if self.shared.poisoned.lock().is_none() {
                r = self.shared.checkpoint(&mut leader);
            }
        }
        *self.lock.lock() = None;
        r
    }

    fn stop_worker(&self) {
        *self.shared.wake.0.lock() = true;
        self.shared.wake.1.notify_all();
        if let Some(w) = self.worker.lock().take() {
            let _ = w.join();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.stop_worker();
    }
}
