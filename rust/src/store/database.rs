//! A database: catalog, commit, background work.
//!
//! Commit: transactions queue; whoever gets the leader's lock takes all that wait, frames them in one append, syncs once
//! (where one of them asked for it), applies them in order and answers them. A failure after the first byte poisons the
//! store: reads go on, writes are refused until it is reopened.

use super::checkpoint;
use super::collection::{Collection, Names, parse_payload};
use super::manifest::Manifest;
use super::record::{Op, PutStamps, Record, VectorSource};
use super::spec::{Spec, check_name};
use crate::error::{Error, Result};
use crate::ids::{CollectionId, Lsn, Micros};
use crate::io::{DirLock, LockMode, Storage};
use crate::limits;
use crate::log::{Log, LogOptions, RecoverMode, RecoveryReport};
use crate::view::Life;
use crate::view::rule::{NameId, UNKNOWN_NAME};
use parking_lot::{Condvar, Mutex, RwLock};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

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

#[derive(Debug, Default)]
pub(super) struct NameTable {
    list: Vec<String>,
    by_name: HashMap<String, NameId>,
}

impl NameTable {
    pub(super) fn from_list(list: Vec<String>) -> Self {
        let by_name = list.iter().enumerate().map(|(i, n)| (n.clone(), i as NameId + 1)).collect();
        NameTable { list, by_name }
    }

    pub(super) fn list(&self) -> &[String] {
        &self.list
    }

    fn name(&self, id: NameId) -> Option<&str> {
        self.list.get((id as usize).checked_sub(1)?).map(String::as_str)
    }
}

impl Names for NameTable {
    fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        self.list.push(name.into());
        let id = self.list.len() as NameId;
        self.by_name.insert(name.into(), id);
        id
    }
}

/// State that only the leader touches.
#[derive(Debug, Default)]
pub(super) struct Leader {
    pub next_cid: CollectionId,
    pub last_tx: Micros,
    pub applied_lsn: Lsn,
    pub manifest: Manifest,
    pub log_bytes_since_checkpoint: u64,
}

#[derive(Debug)]
struct Ticket {
    tx: Mutex<Option<Transaction>>,
    durability: Durability,
    done: Mutex<Option<Result<Committed>>>,
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
    queue: Mutex<VecDeque<Arc<Ticket>>>,
    pub catalog: RwLock<BTreeMap<String, Arc<Collection>>>,
    by_id: RwLock<HashMap<CollectionId, Arc<Collection>>>,
    pub names: RwLock<NameTable>,
    pub kv: RwLock<BTreeMap<(String, String), Vec<u8>>>,
    pub kv_dirty: AtomicBool,
    /// The newest belief time that was applied.
    last_tx: AtomicU64,
    poisoned: Mutex<Option<String>>,
    closed: AtomicBool,
    wake: (Mutex<bool>, Condvar),
}

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
        let mut loaded = checkpoint::Loaded::default();
        let mut uuid = [0; 16];
        let mut log = None;
        if let Some(dir) = dir {
            if (options.read_only || !options.create) && !storage.exists(&dir.join("CURRENT"))? {
                return Err(Error::NotFound { what: format!("database {}", dir.display()) });
            }
            if !options.read_only {
                if options.create {
                    checkpoint::refuse_foreign(&*storage, dir)?;
                    storage.create_dir(dir)?;
                } else if !storage.exists(&dir.join("CURRENT"))? {
                    return Err(Error::NotFound { what: format!("database {}", dir.display()) });
                }
                lock = Some(storage.lock_dir(dir, LockMode::Exclusive)?);
            }
            match checkpoint::current(&*storage, dir)? {
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
                    loaded = checkpoint::load(&*storage, dir, &uuid, &manifest, options.verify_open_bytes)?;
                    leader.next_cid = manifest.next_collection_id;
                    leader.last_tx = manifest.last_tx;
                    leader.applied_lsn = manifest.last_lsn;
                    leader.manifest = manifest;
                }
                None if options.create && !options.read_only => {
                    storage.entropy(&mut uuid)?;
                    log = Some(checkpoint::create(
                        &storage,
                        dir,
                        uuid,
                        log_options(&options),
                        &mut leader.manifest,
                    )?);
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
                log_options(&shared.options),
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
        let s = &self.shared;
        s.check_writable()?;
        if let Some(lock) = self.lock.lock().as_ref() {
            lock.check_owner()?;
        }
        s.check_ops(&tx.ops)?;
        let ticket = Arc::new(Ticket { tx: Mutex::new(Some(tx)), durability, done: Mutex::default() });
        s.queue.lock().push_back(ticket.clone());
        loop {
            let mut leader = s.leader.lock();
            if let Some(done) = ticket.done.lock().take() {
                drop(leader);
                let done = done?;
                s.after_commit(durability)?;
                return Ok(done);
            }
            s.lead(&mut leader);
        }
    }

    /// Interned id of a name; [`UNKNOWN_NAME`] where no row carries it.
    pub fn name_id(&self, name: Option<&str>) -> NameId {
        match name {
            None => 0,
            Some(n) => self.shared.names.read().by_name.get(n).copied().unwrap_or(UNKNOWN_NAME),
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

/// Operations that change which collections there are, or their shape: a group of their own.
fn is_ddl(op: &Op) -> bool {
    matches!(op, Op::CreateCollection { .. } | Op::DropCollection { .. } | Op::SwitchVectors { .. })
}

fn not_found(name: &str) -> Error {
    Error::NotFound { what: format!("collection {name:?}") }
}

fn log_options(o: &Options) -> LogOptions {
    LogOptions { segment_bytes: o.segment_bytes }
}

impl Shared {
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_writable(&self) -> Result<()> {
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

    /// Refuses what would fail only after it was logged.
    fn check_ops(&self, ops: &[Op]) -> Result<()> {
        let by_id = self.by_id.read();
        for op in ops {
            match op {
                Op::Put { cid, id, vector, payload, stamps } => {
                    let c = by_id.get(cid).ok_or_else(|| not_found("dropped"))?;
                    check_id(id)?;
                    check_payload(payload)?;
                    check_stamps(stamps)?;
                    if let VectorSource::Given(v) = vector {
                        if v.len() != c.spec.dim {
                            return Err(Error::DimensionMismatch {
                                collection: c.name.clone(),
                                got: v.len(),
                                want: c.spec.dim,
                            });
                        }
                        c.codec.check(v).map_err(|f| {
                            Error::invalid(format!("vector of id {id:?}: {f}"), f.hint().to_owned())
                        })?;
                    }
                }
                Op::SetPayload { id, payload, .. } => {
                    check_id(id)?;
                    check_payload(payload)?;
                }
                Op::StageVectors { cid, dim, meta, vectors, .. } => {
                    let c = by_id.get(cid).ok_or_else(|| not_found("dropped"))?;
                    super::restage::check(c, *dim, meta, vectors)?;
                }
                Op::Close { end_life: Life::Active, .. } => {
                    return Err(Error::invalid("a closed record cannot be active", ""));
                }
                Op::KvSet { namespace, key, .. } | Op::KvDelete { namespace, key } => {
                    check_id(namespace)?;
                    check_id(key)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes what waits and carries it out. Every ticket taken is answered.
    fn lead(&self, leader: &mut Leader) {
        let mut group: Vec<(Arc<Ticket>, Record)> = Vec::new();
        let mut touched: HashSet<(CollectionId, String)> = HashSet::new();
        let mut bytes = 0;
        loop {
            let Some(ticket) = self.queue.lock().pop_front() else { break };
            let Some(mut tx) = ticket.tx.lock().take() else { continue };
            let ddl = tx.ops.iter().any(is_ddl);
            let clash = ddl
                || tx.expects.iter().any(|e| match e {
                    Expect::Open(c, id) | Expect::Exists(c, id) | Expect::Absent(c, id) => {
                        touched.contains(&(*c, id.clone()))
                    }
                    Expect::CollectionAbsent(_) | Expect::Staged(_) | Expect::Kv(..) => true,
                });
            if (clash || bytes > 8 << 20) && !group.is_empty() {
                *ticket.tx.lock() = Some(tx);
                self.queue.lock().push_front(ticket);
                break;
            }
            if let Err(e) = self.check_expects(&tx) {
                *ticket.done.lock() = Some(Err(e));
                continue;
            }
            for op in &mut tx.ops {
                match op {
                    Op::CreateCollection { cid, .. } => {
                        *cid = leader.next_cid;
                        leader.next_cid += 1;
                    }
                    Op::Put { cid, id, payload, .. } => {
                        bytes += payload.len();
                        touched.insert((*cid, id.clone()));
                    }
                    Op::Close { cid, id, .. } | Op::SetPayload { cid, id, .. } => {
                        touched.insert((*cid, id.clone()));
                    }
                    _ => {}
                }
            }
            leader.last_tx = self.storage.wall_time_us().max(leader.last_tx + 1);
            let record = Record { tx_time: leader.last_tx, actor: tx.actor, reason: tx.reason, ops: tx.ops };
            group.push((ticket, record));
            if ddl {
                break;
            }
        }
        if group.is_empty() {
            return;
        }
        let outcome = self.write_group(leader, &group);
        for (i, (ticket, record)) in group.iter().enumerate() {
            let r = match &outcome {
                Err(e) => Err(e.clone()),
                Ok((first, synced)) => {
                    let lsn = first + i as Lsn;
                    self.apply(record).map(|closed| {
                        leader.applied_lsn = lsn;
                        Committed { lsn, tx_time: record.tx_time, closed, synced: *synced }
                    })
                }
            };
            if let Err(e) = &r {
                // A refused append changed nothing; anything else leaves memory and log apart.
                if !matches!(e, Error::LimitExceeded { .. }) || outcome.is_ok() {
                    self.poison(e);
                }
            }
            *ticket.done.lock() = Some(r);
        }
    }

    /// The group's frames in one append, and one sync if anyone wants it. Returns the first LSN.
    fn write_group(&self, leader: &mut Leader, group: &[(Arc<Ticket>, Record)]) -> Result<(Lsn, bool)> {
        let Some(log) = &self.log else {
            return Ok((leader.applied_lsn + 1, false));
        };
        let frames: Vec<Vec<u8>> = group.iter().map(|(_, r)| r.encode()).collect();
        let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let last = log.append(&slices)?;
        leader.log_bytes_since_checkpoint += frames.iter().map(|f| f.len() as u64).sum::<u64>();
        let sync = group.iter().any(|(t, _)| t.durability == Durability::Sync);
        if sync {
            log.sync()?;
        }
        Ok((last + 1 - group.len() as Lsn, sync))
    }

    pub(super) fn poison(&self, e: &Error) {
        self.poisoned.lock().get_or_insert_with(|| e.to_string());
    }

    fn check_expects(&self, tx: &Transaction) -> Result<()> {
        for e in &tx.expects {
            match e {
                Expect::CollectionAbsent(name) => {
                    if self.catalog.read().contains_key(name) {
                        return Err(Error::AlreadyExists { what: format!("collection {name:?}") });
                    }
                }
                Expect::Staged(cid) => {
                    let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                    let inner = c.inner.read();
                    if inner.stage.as_ref().is_none_or(|s| s.rows() != inner.rows()) {
                        return Err(Error::VersionConflict {
                            message: "rows were added that have no staged vector yet".into(),
                        });
                    }
                }
                Expect::Kv(namespace, key, want) => {
                    let kv = self.kv.read();
                    if kv.get(&(namespace.clone(), key.clone())) != want.as_ref() {
                        return Err(Error::VersionConflict {
                            message: format!(
                                "key {key:?} of {namespace:?} holds another value than expected"
                            ),
                        });
                    }
                }
                Expect::Open(cid, id) | Expect::Exists(cid, id) | Expect::Absent(cid, id) => {
                    let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                    let open = c.inner.read().open_row(id)?.is_some();
                    match (e, open) {
                        (Expect::Open(..), false) => {
                            return Err(Error::VersionConflict {
                                message: format!("{id:?} is not open any more in {:?}", c.name),
                            });
                        }
                        (Expect::Exists(..), false) => {
                            return Err(Error::NotFound { what: format!("{id:?} in {:?}", c.name) });
                        }
                        (Expect::Absent(..), true) => {
                            return Err(Error::AlreadyExists { what: format!("{id:?} in {:?}", c.name) });
                        }
                        _ => {}
                    }
                }
            }
        }
        for op in &tx.ops {
            let cid = match op {
                Op::Put { cid, .. }
                | Op::Close { cid, .. }
                | Op::SetPayload { cid, .. }
                | Op::StageVectors { cid, .. }
                | Op::SwitchVectors { cid }
                | Op::DropCollection { cid } => cid,
                _ => continue,
            };
            if !self.by_id.read().contains_key(cid) {
                return Err(not_found("dropped meanwhile"));
            }
            if let Op::Put { cid, vector: VectorSource::Like(like), .. } = op {
                let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                if c.inner.read().newest(like)?.is_none() {
                    return Err(Error::NotFound { what: format!("{like:?} in {:?}", c.name) });
                }
            }
        }
        Ok(())
    }

    fn replay(&self, lsn: Lsn, bytes: &[u8]) -> Result<()> {
        let record = Record::decode(bytes)?;
        self.apply(&record)?;
        let mut leader = self.leader.lock();
        leader.last_tx = leader.last_tx.max(record.tx_time);
        leader.applied_lsn = lsn;
        leader.log_bytes_since_checkpoint += bytes.len() as u64;
        for op in &record.ops {
            if let Op::CreateCollection { cid, .. } = op {
                leader.next_cid = leader.next_cid.max(cid + 1);
            }
        }
        Ok(())
    }

    /// Carries out a record in memory. Returns how many records its closes ended.
    fn apply(&self, record: &Record) -> Result<u64> {
        let tx = record.tx_time;
        let mut closed = 0;
        let mut i = 0;
        while let Some(op) = record.ops.get(i) {
            let cid = match op {
                Op::CreateCollection { cid, spec } => {
                    self.apply_create(*cid, spec)?;
                    i += 1;
                    continue;
                }
                Op::DropCollection { cid } => {
                    self.apply_drop(*cid);
                    i += 1;
                    continue;
                }
                Op::SwitchVectors { cid } => {
                    self.apply_switch(*cid)?;
                    i += 1;
                    continue;
                }
                Op::KvSet { namespace, key, value } => {
                    self.kv.write().insert((namespace.clone(), key.clone()), value.clone());
                    self.kv_dirty.store(true, Ordering::Release);
                    i += 1;
                    continue;
                }
                Op::KvDelete { namespace, key } => {
                    self.kv.write().remove(&(namespace.clone(), key.clone()));
                    self.kv_dirty.store(true, Ordering::Release);
                    i += 1;
                    continue;
                }
                Op::Put { cid, .. }
                | Op::Close { cid, .. }
                | Op::SetPayload { cid, .. }
                | Op::StageVectors { cid, .. } => *cid,
            };
            let Some(c) = self.by_id.read().get(&cid).cloned() else {
                return Err(Error::Internal(format!("record names collection {cid}, which does not exist")));
            };
            // All neighbouring operations on one collection in one exclusive step.
            let mut inner = c.inner.write();
            let mut names = self.names.write();
            // Whatever the operations are: a checkpoint must not take the old files for this record.
            c.dirty.store(true, Ordering::Release);
            while let Some(op) = record.ops.get(i) {
                match op {
                    Op::Put { cid: to, id, vector, payload, stamps } if *to == cid => {
                        c.put(&mut inner, id, vector, payload, stamps, tx, &mut *names)?;
                    }
                    Op::Close { cid: to, id, end_life } if *to == cid => {
                        closed += u64::from(c.close(&mut inner, id, *end_life, tx)?);
                    }
                    Op::SetPayload { cid: to, id, merge, payload } if *to == cid => {
                        c.set_payload(&mut inner, id, payload, *merge, tx)?;
                    }
                    Op::StageVectors { cid: to, .. } if *to == cid => c.stage(&mut inner, op)?,
                    _ => break,
                }
                i += 1;
            }
        }
        self.last_tx.fetch_max(tx as u64, Ordering::AcqRel);
        Ok(closed)
    }

    fn apply_create(&self, cid: CollectionId, json: &[u8]) -> Result<()> {
        let mut spec = Spec::parse(json)?;
        let name = match spec.extra.remove("name") {
            Some(serde_json::Value::String(n)) => n,
            _ => return Err(Error::corrupt("log record", 0, "collection without a name")),
        };
        let seed = u64::from_le_bytes(std::array::from_fn(|i| self.uuid[i]));
        let c = Arc::new(Collection::new(cid, &name, spec, seed)?);
        self.by_id.write().insert(cid, c.clone());
        self.catalog.write().insert(name, c);
        Ok(())
    }

    fn apply_switch(&self, cid: CollectionId) -> Result<()> {
        let old = self.by_id.read().get(&cid).cloned().ok_or_else(|| not_found("dropped"))?;
        let _no_linker = old.link_gate.lock();
        let mut inner = old.inner.write();
        let next = Arc::new(old.switched(&mut inner)?);
        old.dropped.store(true, Ordering::Release);
        self.by_id.write().insert(cid, next.clone());
        self.catalog.write().insert(next.name.clone(), next);
        Ok(())
    }

    fn apply_drop(&self, cid: CollectionId) {
        if let Some(c) = self.by_id.write().remove(&cid) {
            c.dropped.store(true, Ordering::Release);
            self.catalog.write().remove(&c.name);
        }
    }

    fn sync_log(&self, log: &Log) -> Result<()> {
        if log.synced_lsn() >= log.last_lsn() {
            return Ok(());
        }
        log.sync().inspect_err(|e| self.poison(e))
    }

    fn checkpoint(&self, leader: &mut Leader) -> Result<()> {
        checkpoint::write(self, leader).inspect_err(|e| self.poison(e))
    }

    /// Keeps the un-indexed tail bounded, and the thread awake.
    fn after_commit(&self, durability: Durability) -> Result<()> {
        let behind: Vec<_> = self
            .catalog
            .read()
            .values()
            .filter(|c| c.unlinked() > self.options.tail_rows_max as u64)
            .cloned()
            .collect();
        for c in behind {
            while c.unlinked() > self.options.tail_rows_max as u64 {
                c.link(1024, self.threads())?;
            }
        }
        if durability == Durability::Sync || self.options.background {
            self.wake.1.notify_one();
        }
        Ok(())
    }

    /// The background thread: syncs buffered writes, links rows, makes checkpoints.
    fn work(&self) {
        let pause = Duration::from_millis(self.options.sync_interval_ms.max(1));
        loop {
            {
                let mut stop = self.wake.0.lock();
                if !*stop {
                    self.wake.1.wait_for(&mut stop, pause);
                }
                if *stop {
                    return;
                }
            }
            if self.poisoned.lock().is_some() {
                continue;
            }
            if let Some(log) = &self.log {
                let _ = self.sync_log(log);
            }
            let all: Vec<_> = self.catalog.read().values().cloned().collect();
            for c in all {
                if let Err(e) = c.link(256, self.threads()) {
                    self.poison(&e);
                }
            }
            if self.log.is_some()
                && self.leader.lock().log_bytes_since_checkpoint > self.options.checkpoint_log_bytes
            {
                let _ = self.checkpoint(&mut self.leader.lock());
            }
        }
    }
}

fn check_id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid("an id is empty", "ids are 1 to 4,096 bytes of UTF-8"));
    }
    if id.len() > limits::MAX_ID_BYTES {
        return Err(Error::LimitExceeded {
            limit: "MAX_ID_BYTES",
            what: "id".into(),
            got: id.len() as u64,
            max: limits::MAX_ID_BYTES as u64,
        });
    }
    Ok(())
}

fn check_payload(json: &[u8]) -> Result<()> {
    if json.len() > limits::MAX_PAYLOAD_BYTES {
        return Err(Error::LimitExceeded {
            limit: "MAX_PAYLOAD_BYTES",
            what: "payload".into(),
            got: json.len() as u64,
            max: limits::MAX_PAYLOAD_BYTES as u64,
        });
    }
    let v = parse_payload(json)?;
    if !v.is_object() {
        return Err(Error::invalid("a payload is not an object", "give a mapping of field names to values"));
    }
    if depth(&v) > limits::MAX_PAYLOAD_DEPTH {
        return Err(Error::LimitExceeded {
            limit: "MAX_PAYLOAD_DEPTH",
            what: "nesting of a payload".into(),
            got: depth(&v) as u64,
            max: limits::MAX_PAYLOAD_DEPTH as u64,
        });
    }
    Ok(())
}

fn depth(v: &serde_json::Value) -> usize {
    match v {
        serde_json::Value::Array(a) => 1 + a.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(o) => 1 + o.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_stamps(s: &PutStamps) -> Result<()> {
    if s.valid_to <= s.valid_from {
        return Err(Error::invalid(
            format!("validity ends at {} µs, not after its start at {} µs", s.valid_to, s.valid_from),
            "intervals are half-open [from, to) and hold at least one moment",
        ));
    }
    if s.life == Life::Gone {
        return Err(Error::invalid("a record cannot start as gone", ""));
    }
    Ok(())
}
