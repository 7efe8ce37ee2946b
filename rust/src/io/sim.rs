//! A simulated disk that forgets what a real one may forget. Deterministic: one seed, one outcome.
//!
//! What may be true after the power is cut: of data written and not covered by a successful sync of that file, each
//! 512-byte sector is old or new, in any order, and the last sector of the last write may hold a part of the new bytes
//! and garbage; a file's length is old, new or between until a sync; names made, moved or removed since the directory's last
//! sync are there or not, independently, but in an order that could have happened. A failed sync drops what it should
//! have written, and the next one succeeds without it, as real kernels do. The call in which the power goes may have been
//! carried out in part; none behind it has an effect.

use super::{DirLock, Entry, EntryKind, LockMode, OpenMode, Region, Storage, StorageFile};
use crate::error::{Error, Result};
use crate::ids::Micros;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECTOR: usize = 512;

/// What un-synced data and names become in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survive {
    None,
    All,
    /// Each sector, length and name by itself.
    Random,
    /// Everything, but the last write of each file ends in garbage.
    Torn,
    /// Names and lengths; the new sectors hold what another file once had in these blocks.
    Stale,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<usize>,
    /// Last byte range written.
    last: (usize, usize),
}

impl Inode {
    fn resize(&mut self, len: usize) {
        let old = self.live.len();
        self.live.resize(len, 0);
        // Zeros that come after a cut are news: the disk may still have the old content there.
        if len > old {
            self.dirty.extend(old / SECTOR..len.min(self.durable.len()).div_ceil(SECTOR));
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.live.len() < end {
            self.resize(end);
        }
        self.live[at..end].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR..end.div_ceil(SECTOR));
        self.last = (at, end);
    }
}

#[derive(Debug, Clone)]
enum NameOp {
    File(PathBuf, u64),
    Dir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameOp {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameOp::File(p, _) | NameOp::Dir(p) | NameOp::Rename(_, p) | NameOp::Remove(p) => p.parent(),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, u64>,
    dirs: BTreeSet<PathBuf>,
}

impl Names {
    /// Carries out what its preconditions allow.
    fn apply(&mut self, op: &NameOp) {
        match op {
            NameOp::File(p, inode) => {
                self.files.insert(p.clone(), *inode);
            }
            NameOp::Dir(p) => {
                self.dirs.insert(p.clone());
            }
            NameOp::Rename(from, to) => {
                if let Some(i) = self.files.remove(from) {
                    self.files.insert(to.clone(), i);
                }
            }
            NameOp::Remove(p) => {
                self.files.remove(p);
                self.dirs.remove(p);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Disk {
    inodes: BTreeMap<u64, Inode>,
    live: Names,
    durable: Names,
    pending: Vec<NameOp>,
    next_inode: u64,
    locks: BTreeSet<PathBuf>,
    random: u64,
    clock_us: Micros,
    /// Calls that change something; and all calls.
    changes: u64,
    calls: u64,
    off_after: Option<u64>,
    off: bool,
    fail: Option<(u64, ErrorKind, bool)>,
}

/// Clones share the disk.
#[derive(Debug, Clone)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn fault(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, &std::io::Error::from(kind))
}

impl Disk {
    /// Counts a call and lets it fail where it must.
    fn step(&mut self, op: &'static str, path: &Path, change: bool) -> Result<()> {
        self.calls += 1;
        self.changes += u64::from(change);
        if self.off_after.is_some_and(|n| self.changes > n) {
            self.off = true;
            return Err(fault(op, path, ErrorKind::BrokenPipe));
        }
        match self.fail {
            Some((n, kind, forever)) if self.calls == n || (forever && self.calls > n) => {
                Err(fault(op, path, kind))
            }
            _ => Ok(()),
        }
    }

    fn rename_op(&mut self, op: NameOp) {
        self.live.apply(&op);
        self.pending.push(op);
    }
}

impl SimStorage {
    /// An empty disk; `seed` decides what its entropy gives.
    pub fn new(seed: u64) -> Self {
        let mut d = Disk { random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, ..Default::default() };
        d.live.dirs.insert("/".into());
        d.durable.dirs.insert("/".into());
        d.clock_us = 1_700_000_000_000_000;
        SimStorage { disk: Arc::new(Mutex::new(d)) }
    }

    /// Calls so far that changed something.
    pub fn changes(&self) -> u64 {
        self.disk.lock().changes
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.disk.lock().calls
    }

    /// The power goes after `n` more changing calls: every later call fails.
    pub fn power_off_after(&self, n: u64) {
        let mut d = self.disk.lock();
        d.off_after = Some(d.changes + n);
    }

    /// The `n`-th call from now fails with `kind`; with `forever` all behind it too.
    pub fn fail_at(&self, n: u64, kind: ErrorKind, forever: bool) {
        let mut d = self.disk.lock();
        d.fail = Some((d.calls + n, kind, forever));
    }

    /// Calls succeed again (space was freed).
    pub fn heal(&self) {
        self.disk.lock().fail = None;
    }

    pub fn set_clock(&self, us: Micros) {
        self.disk.lock().clock_us = us;
    }

    /// The disk as it is found when the power is back.
    pub fn after_crash(&self, survive: Survive, seed: u64) -> SimStorage {
        let d = self.disk.lock();
        let mut rng = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1;
        let mut garbage = rng ^ 0x5555;
        let mut coin = |sector: bool| match survive {
            Survive::None => false,
            Survive::All | Survive::Torn => true,
            Survive::Stale if !sector => true,
            Survive::Random | Survive::Stale => next(&mut rng) >> 33 & 1 == 1,
        };
        let mut names = d.durable.clone();
        for op in &d.pending {
            if coin(false) {
                names.apply(op);
            }
        }
        // A file in a directory that is gone is gone with it.
        let dirs = names.dirs.clone();
        names.files.retain(|p, _| p.parent().is_some_and(|q| dirs.contains(q)));
        let mut inodes = BTreeMap::new();
        for (id, n) in &d.inodes {
            let mut bytes = n.durable.clone();
            if coin(false) {
                let old = bytes.len();
                bytes.resize(n.live.len(), 0);
                if survive == Survive::Stale {
                    let former = d.inodes.range(..id).rev().map(|(_, o)| &o.durable).find(|b| b.len() > old);
                    for (at, b) in bytes.iter_mut().enumerate().skip(old.next_multiple_of(SECTOR)) {
                        *b = former.and_then(|f| f.get(at)).copied().unwrap_or(0);
                    }
                } else if survive == Survive::Random && next(&mut garbage) >> 33 & 1 == 1 {
                    let (low, high) = (old.min(n.live.len()), old.max(n.live.len()));
                    let len = low + (next(&mut garbage) % (high - low + 1) as u64) as usize;
                    bytes = n.durable.clone();
                    bytes.resize(len, 0);
                }
            }
            for &s in &n.dirty {
                let (from, to) = (s * SECTOR, ((s + 1) * SECTOR).min(n.live.len()).min(bytes.len()));
                if from < to && coin(true) {
                    bytes[from..to].copy_from_slice(&n.live[from..to]);
                }
            }
            let (start, end) = n.last;
            if survive == Survive::Torn && !n.dirty.is_empty() && end <= bytes.len() && end > start {
                let from = (start.max((end - 1) / SECTOR * SECTOR) + end) / 2;
                for b in &mut bytes[from..end] {
                    *b = next(&mut garbage) as u8;
                }
            }
            inodes.insert(*id, Inode { live: bytes.clone(), durable: bytes, ..Default::default() });
        }
        let clock_us = d.clock_us;
        let disk = Disk {
            inodes,
            live: names.clone(),
            durable: names,
            next_inode: d.next_inode,
            random: d.random,
            clock_us,
            ..Default::default()
        };
        SimStorage { disk: Arc::new(Mutex::new(disk)) }
    }

    /// All files with their lengths.
    pub fn files(&self) -> Vec<(PathBuf, usize)> {
        let d = self.disk.lock();
        d.live.files.iter().map(|(p, i)| (p.clone(), d.inodes.get(i).map_or(0, |n| n.live.len()))).collect()
    }

    /// Changes a file's content behind everybody's back, durably.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut d = self.disk.lock();
        if let Some(id) = d.live.files.get(path).copied()
            && let Some(n) = d.inodes.get_mut(&id)
        {
            change(&mut n.live);
            n.durable = n.live.clone();
            n.dirty.clear();
        }
    }

    /// An independent disk of the same content, all of it durable.
    pub fn copy(&self) -> SimStorage {
        self.after_crash(Survive::All, 1)
    }
}

#[derive(Debug)]
struct SimLock {
    dir: PathBuf,
    disk: Arc<Mutex<Disk>>,
}

impl DirLock for SimLock {
    fn check_owner(&self) -> Result<()> {
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().locks.remove(&self.dir);
    }
}

impl Storage for SimStorage {
    fn create_dir(&self, dir: &Path) -> Result<()> {
        let mut d = self.disk.lock();
        let missing: Vec<PathBuf> =
            dir.ancestors().filter(|p| !d.live.dirs.contains(*p)).map(Path::to_path_buf).collect();
        for p in missing.into_iter().rev().filter(|p| !p.as_os_str().is_empty()) {
            d.step("create directory", &p, true)?;
            d.rename_op(NameOp::Dir(p));
        }
        Ok(())
    }

    fn lock_dir(&self, dir: &Path, _mode: LockMode) -> Result<Box<dyn DirLock>> {
        let mut d = self.disk.lock();
        d.step("lock", dir, false)?;
        if !d.locks.insert(dir.into()) {
            return Err(Error::Locked { path: dir.into(), holder: "this process".into() });
        }
        Ok(Box::new(SimLock { dir: dir.into(), disk: self.disk.clone() }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let mut d = self.disk.lock();
        d.step("list", dir, false)?;
        if !d.live.dirs.contains(dir) {
            return Err(fault("list", dir, ErrorKind::NotFound));
        }
        let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let files = d.live.files.iter().filter(|(p, _)| p.parent() == Some(dir));
        let mut out: Vec<Entry> = files
            .map(|(p, i)| Entry {
                name: name(p),
                len: d.inodes.get(i).map_or(0, |n| n.live.len() as u64),
                kind: EntryKind::File,
            })
            .collect();
        out.extend(d.live.dirs.iter().filter(|p| p.parent() == Some(dir)).map(|p| Entry {
            name: name(p),
            len: 0,
            kind: EntryKind::Dir,
        }));
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut d = self.disk.lock();
        d.step("stat", path, false)?;
        Ok(d.live.files.contains_key(path) || d.live.dirs.contains(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let mut d = self.disk.lock();
        let create = mode == OpenMode::CreateNew;
        d.step("open", path, create)?;
        let inode = match (d.live.files.get(path).copied(), create) {
            (Some(_), true) => return Err(fault("open", path, ErrorKind::AlreadyExists)),
            (Some(i), false) => i,
            (None, false) => return Err(fault("open", path, ErrorKind::NotFound)),
            (None, true) => {
                if !path.parent().is_some_and(|p| d.live.dirs.contains(p)) {
                    return Err(fault("open", path, ErrorKind::NotFound));
                }
                let i = d.next_inode;
                d.next_inode += 1;
                d.inodes.insert(i, Inode::default());
                d.rename_op(NameOp::File(path.into(), i));
                i
            }
        };
        Ok(Arc::new(SimFile { path: path.into(), inode, mode, disk: self.disk.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut d = self.disk.lock();
        d.step("rename", from, true)?;
        if !d.live.files.contains_key(from) {
            return Err(fault("rename", from, ErrorKind::NotFound));
        }
        d.rename_op(NameOp::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut d = self.disk.lock();
        d.step("remove", path, true)?;
        if !d.live.files.contains_key(path) {
            return Err(fault("remove", path, ErrorKind::NotFound));
        }
        d.rename_op(NameOp::Remove(path.into()));
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let mut d = self.disk.lock();
        d.step("remove", dir, true)?;
        if !d.live.dirs.contains(dir) {
            return Err(fault("remove", dir, ErrorKind::NotFound));
        }
        if d.live.files.keys().chain(&d.live.dirs).any(|p| p.parent() == Some(dir)) {
            return Err(fault("remove", dir, ErrorKind::DirectoryNotEmpty));
        }
        d.rename_op(NameOp::Remove(dir.into()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut d = self.disk.lock();
        d.step("sync", dir, true)?;
        if !d.live.dirs.contains(dir) {
            return Err(fault("sync", dir, ErrorKind::NotFound));
        }
        let (mine, others) =
            std::mem::take(&mut d.pending).into_iter().partition(|o: &NameOp| o.dir() == Some(dir));
        d.pending = others;
        let mine: Vec<NameOp> = mine;
        for op in &mine {
            d.durable.apply(op);
        }
        Ok(())
    }

    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn wall_time_us(&self) -> Micros {
        let mut d = self.disk.lock();
        d.clock_us += 7;
        d.clock_us
    }

    fn monotonic_us(&self) -> u64 {
        self.disk.lock().calls
    }

    fn entropy(&self, out: &mut [u8]) -> Result<()> {
        let mut d = self.disk.lock();
        for b in out {
            *b = (next(&mut d.random) >> 24) as u8;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    path: PathBuf,
    inode: u64,
    mode: OpenMode,
    disk: Arc<Mutex<Disk>>,
}

impl SimFile {
    fn writable(&self, op: &'static str) -> Result<()> {
        if self.mode == OpenMode::Read {
            return Err(fault(op, &self.path, ErrorKind::PermissionDenied));
        }
        Ok(())
    }

    fn with<T>(&self, op: &'static str, change: bool, f: impl FnOnce(&mut Inode) -> Result<T>) -> Result<T> {
        let mut d = self.disk.lock();
        d.step(op, &self.path, change)?;
        match d.inodes.get_mut(&self.inode) {
            Some(n) => f(n),
            None => Err(fault(op, &self.path, ErrorKind::NotFound)),
        }
    }
}

impl StorageFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.with("stat", false, |n| Ok(n.live.len() as u64))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with("read", false, |n| {
            let part = usize::try_from(offset).ok().and_then(|o| n.live.get(o..o.checked_add(out.len())?));
            out.copy_from_slice(part.ok_or_else(|| fault("read", &self.path, ErrorKind::UnexpectedEof))?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.writable("write")?;
        let mut d = self.disk.lock();
        let (was_off, r) = (d.off, d.step("write", &self.path, true));
        let Some(n) = d.inodes.get_mut(&self.inode) else {
            return Err(fault("write", &self.path, ErrorKind::NotFound));
        };
        if r.is_ok() {
            n.write(offset as usize, bytes);
        } else if !was_off {
            // A failed write may have written a part.
            n.write(offset as usize, &bytes[..bytes.len() / 2]);
        }
        r
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.writable("allocate")?;
        self.with("allocate", true, |n| {
            if n.live.len() < len as usize {
                n.resize(len as usize);
            }
            Ok(())
        })
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.writable("truncate")?;
        self.with("truncate", true, |n| {
            n.resize(len as usize);
            Ok(())
        })
    }

    fn sync_data(&self) -> Result<()> {
        let r = self.with("sync", true, |n| {
            // Sectors that an earlier failed sync dropped are not dirty any more: they stay as the disk has them.
            let mut next = n.durable.clone();
            next.resize(n.live.len(), 0);
            for &s in &n.dirty {
                let (from, to) = (s * SECTOR, ((s + 1) * SECTOR).min(n.live.len()));
                if from < to {
                    next[from..to].copy_from_slice(&n.live[from..to]);
                }
            }
            n.durable = next;
            n.dirty.clear();
            n.last = (0, 0);
            Ok(())
        });
        if r.is_err() {
            let mut d = self.disk.lock();
            // In a power cut any part may still have reached the disk.
            if !d.off
                && let Some(n) = d.inodes.get_mut(&self.inode)
            {
                n.dirty.clear();
            }
        }
        r
    }

    fn map_into(&self, offset: u64, len: usize, region: &mut Region, at: usize) -> Result<()> {
        region.commit(at + len)?;
        self.read_at(offset, &mut region.bytes_mut(at + len)[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(s: &SimStorage, p: &str) -> Option<Vec<u8>> {
        let f = s.open(Path::new(p), OpenMode::Read).ok()?;
        let mut b = vec![0; f.len().unwrap() as usize];
        f.read_at(0, &mut b).unwrap();
        Some(b)
    }

    fn one(sync: bool, sync_dir: bool) -> SimStorage {
        let s = SimStorage::new(1);
        s.create_dir(Path::new("/d")).unwrap();
        s.sync_dir(Path::new("/")).unwrap();
        let f = s.open(Path::new("/d/f"), OpenMode::CreateNew).unwrap();
        f.write_at(0, &[7; 2000]).unwrap();
        if sync {
            f.sync_data().unwrap();
        }
        if sync_dir {
            s.sync_dir(Path::new("/d")).unwrap();
        }
        s
    }

    #[test]
    fn what_was_synced_survives_and_nothing_else_must() {
        assert_eq!(content(&one(true, true).after_crash(Survive::None, 1), "/d/f"), Some(vec![7; 2000]));
        assert_eq!(content(&one(false, true).after_crash(Survive::None, 1), "/d/f"), Some(vec![]));
        assert_eq!(content(&one(true, false).after_crash(Survive::None, 1), "/d/f"), None);
        assert_eq!(content(&one(false, false).after_crash(Survive::All, 1), "/d/f"), Some(vec![7; 2000]));
        let torn = content(&one(false, false).after_crash(Survive::Torn, 1), "/d/f").unwrap();
        assert!(torn[..1536].iter().all(|b| *b == 7) && torn[1536..].iter().any(|b| *b != 7));
        let random: BTreeSet<_> =
            (0..40).map(|i| content(&one(false, true).after_crash(Survive::Random, i), "/d/f")).collect();
        assert!(random.len() > 5, "sectors and length fall by themselves");
    }

    #[test]
    fn a_rename_without_a_directory_sync_can_be_undone() {
        let s = one(true, true);
        s.rename(Path::new("/d/f"), Path::new("/d/g")).unwrap();
        assert!(content(&s.after_crash(Survive::None, 1), "/d/g").is_none());
        s.sync_dir(Path::new("/d")).unwrap();
        assert!(content(&s.after_crash(Survive::None, 1), "/d/g").is_some());
    }

    #[test]
    fn a_failed_sync_loses_its_data_for_good() {
        let s = one(true, true);
        let f = s.open(Path::new("/d/f"), OpenMode::ReadWrite).unwrap();
        f.write_at(0, &[9; 100]).unwrap();
        s.fail_at(1, ErrorKind::Other, false);
        assert!(f.sync_data().is_err());
        f.sync_data().unwrap();
        assert_eq!(content(&s.after_crash(Survive::All, 1), "/d/f"), Some(vec![7; 2000]));
    }

    #[test]
    fn what_was_cut_off_and_synced_never_comes_back() {
        let s = one(true, true);
        let f = s.open(Path::new("/d/f"), OpenMode::ReadWrite).unwrap();
        f.truncate(100).unwrap();
        f.allocate(2000).unwrap();
        let old = content(&s.after_crash(Survive::None, 1), "/d/f").unwrap();
        assert_eq!(old, vec![7; 2000], "not before the sync");
        f.sync_data().unwrap();
        let new = content(&s.after_crash(Survive::None, 1), "/d/f").unwrap();
        assert!(new[..100].iter().all(|b| *b == 7) && new[100..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_sync_that_the_power_cut_meets_may_have_worked_and_later_calls_have_no_effect() {
        let s = one(false, true);
        let f = s.open(Path::new("/d/f"), OpenMode::ReadWrite).unwrap();
        s.power_off_after(0);
        assert!(f.sync_data().is_err());
        assert!(f.write_at(0, &[9; 100]).is_err());
        assert!(f.len().is_err(), "nothing answers without power");
        assert_eq!(content(&s.after_crash(Survive::All, 1), "/d/f"), Some(vec![7; 2000]));
        assert_eq!(content(&s.after_crash(Survive::None, 1), "/d/f"), Some(vec![]));
    }

    #[test]
    fn blocks_that_were_never_written_can_hold_what_another_file_had_there() {
        let s = one(true, true);
        let g = s.open(Path::new("/d/g"), OpenMode::CreateNew).unwrap();
        g.allocate(1024).unwrap();
        assert_eq!(content(&s.after_crash(Survive::All, 1), "/d/g"), Some(vec![0; 1024]));
        assert_eq!(content(&s.after_crash(Survive::Stale, 1), "/d/g"), Some(vec![7; 1024]));
        g.sync_data().unwrap();
        assert_eq!(content(&s.after_crash(Survive::Stale, 1), "/d/g"), Some(vec![0; 1024]));
    }

    #[test]
    fn the_same_seed_gives_the_same_disk_and_the_same_entropy() {
        let draw = |seed| {
            let mut b = [0; 32];
            SimStorage::new(seed).entropy(&mut b).unwrap();
            b
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        let s = one(false, false);
        let fall = |seed| content(&s.after_crash(Survive::Random, seed), "/d/f");
        assert!((0..20).all(|i| fall(i) == fall(i)));
    }

    #[test]
    fn every_store_refuses_the_same_misuse() {
        let dir = tempfile::tempdir().unwrap();
        let stores: [(Arc<dyn Storage>, PathBuf); 3] = [
            (Arc::new(SimStorage::new(1)), "/t".into()),
            (Arc::new(crate::io::MemoryStorage::new()), "/t".into()),
            (Arc::new(crate::io::DiskStorage::new()), dir.path().join("t")),
        ];
        for (s, d) in stores {
            s.create_dir(&d).unwrap();
            let p = d.join("f");
            let f = s.open(&p, OpenMode::CreateNew).unwrap();
            f.write_at(2, b"ab").unwrap();
            assert!(s.open(&p, OpenMode::CreateNew).is_err(), "{s:?}");
            assert!(s.open(&d.join("none"), OpenMode::Read).is_err());
            assert!(s.open(&d.join("none/f"), OpenMode::CreateNew).is_err());
            let r = s.open(&p, OpenMode::Read).unwrap();
            assert!(r.write_at(0, b"x").is_err(), "a file opened to read: {s:?}");
            assert!(r.read_at(3, &mut [0; 2]).is_err(), "past the end");
            assert!(s.remove_dir(&d).is_err(), "not empty: {s:?}");
            assert!(s.rename(&d.join("none"), &p).is_err());
            assert!(s.remove(&d.join("none")).is_err());
            assert!(s.sync_dir(&d.join("none")).is_err(), "{s:?}");
            s.rename(&p, &d.join("g")).unwrap();
            assert_eq!(s.list(&d).unwrap()[0], Entry { name: "g".into(), len: 4, kind: EntryKind::File });
            s.remove(&d.join("g")).unwrap();
            let mut b = [9; 4];
            f.read_at(0, &mut b).unwrap();
            assert_eq!(&b, b"\0\0ab", "an open file lives on");
            s.remove_dir(&d).unwrap();
            assert!(s.list(&d).is_err());
        }
    }
}
