//! A store in memory: for `:memory:`, and for tests. Nothing survives the value.

use super::{DirLock, Entry, EntryKind, LockMode, OpenMode, Region, Storage, StorageFile};
use crate::error::{Error, Result};
use crate::ids::Micros;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Bytes = Arc<RwLock<Vec<u8>>>;

#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, Bytes>,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
pub struct MemoryStorage {
    tree: Arc<Mutex<Tree>>,
}

#[derive(Debug)]
struct MemoryFile {
    path: PathBuf,
    mode: OpenMode,
    bytes: Bytes,
}

#[derive(Debug)]
struct MemoryLock {
    dir: PathBuf,
    tree: Arc<Mutex<Tree>>,
}

impl DirLock for MemoryLock {
    fn check_owner(&self) -> Result<()> {
        Ok(())
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.tree.lock().locks.remove(&self.dir);
    }
}

fn fault(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, &std::io::Error::from(kind))
}

impl MemoryStorage {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Storage for MemoryStorage {
    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.tree.lock().dirs.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn lock_dir(&self, dir: &Path, _mode: LockMode) -> Result<Box<dyn DirLock>> {
        if !self.tree.lock().locks.insert(dir.into()) {
            return Err(Error::Locked { path: dir.into(), holder: "this process".into() });
        }
        Ok(Box::new(MemoryLock { dir: dir.into(), tree: self.tree.clone() }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let t = self.tree.lock();
        if !t.dirs.contains(dir) {
            return Err(fault("list", dir, ErrorKind::NotFound));
        }
        let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let files = t.files.iter().filter(|(p, _)| p.parent() == Some(dir));
        let mut out: Vec<Entry> = files
            .map(|(p, b)| Entry { name: name(p), len: b.read().len() as u64, kind: EntryKind::File })
            .chain(t.dirs.iter().filter(|d| d.parent() == Some(dir)).map(|d| Entry {
                name: name(d),
                len: 0,
                kind: EntryKind::Dir,
            }))
            .collect();
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let t = self.tree.lock();
        Ok(t.files.contains_key(path) || t.dirs.contains(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let mut t = self.tree.lock();
        let bytes = match (t.files.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(fault("create", path, ErrorKind::AlreadyExists)),
            (Some(b), _) => b.clone(),
            (None, OpenMode::CreateNew) => {
                if !path.parent().is_some_and(|p| t.dirs.contains(p)) {
                    return Err(fault("create", path, ErrorKind::NotFound));
                }
                let b = Bytes::default();
                t.files.insert(path.into(), b.clone());
                b
            }
            (None, _) => return Err(fault("open", path, ErrorKind::NotFound)),
        };
        Ok(Arc::new(MemoryFile { path: path.into(), mode, bytes }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut t = self.tree.lock();
        let b = t.files.remove(from).ok_or_else(|| fault("rename", from, ErrorKind::NotFound))?;
        t.files.insert(to.into(), b);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let gone = self.tree.lock().files.remove(path);
        gone.map(|_| ()).ok_or_else(|| fault("remove", path, ErrorKind::NotFound))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let mut t = self.tree.lock();
        if t.files.keys().chain(&t.dirs).any(|p| p.parent() == Some(dir)) {
            return Err(fault("remove", dir, ErrorKind::DirectoryNotEmpty));
        }
        if !t.dirs.remove(dir) {
            return Err(fault("remove", dir, ErrorKind::NotFound));
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if !self.tree.lock().dirs.contains(dir) {
            return Err(fault("sync", dir, ErrorKind::NotFound));
        }
        Ok(())
    }

    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn wall_time_us(&self) -> Micros {
        super::disk::wall_time_us()
    }

    fn monotonic_us(&self) -> u64 {
        super::disk::monotonic_us()
    }

    fn entropy(&self, out: &mut [u8]) -> Result<()> {
        super::disk::entropy(out)
    }
}

impl MemoryFile {
    fn writable(&self, op: &'static str) -> Result<()> {
        if self.mode == OpenMode::Read {
            return Err(fault(op, &self.path, ErrorKind::PermissionDenied));
        }
        Ok(())
    }
}

impl StorageFile for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let b = self.bytes.read();
        let part = usize::try_from(offset).ok().and_then(|o| b.get(o..o.checked_add(out.len())?));
        out.copy_from_slice(part.ok_or_else(|| fault("read", &self.path, ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.writable("write")?;
        let mut b = self.bytes.write();
        let (at, end) = (offset as usize, offset as usize + bytes.len());
        if b.len() < end {
            b.resize(end, 0);
        }
        b[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.writable("allocate")?;
        let mut b = self.bytes.write();
        if b.len() < len as usize {
            b.resize(len as usize, 0);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.writable("truncate")?;
        self.bytes.write().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn map_into(&self, offset: u64, len: usize, region: &mut Region, at: usize) -> Result<()> {
        region.commit(at + len)?;
        self.read_at(offset, &mut region.bytes_mut(at + len)[at..])
    }
}
