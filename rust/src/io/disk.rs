//! The real disk.
//!
//! Every file is opened close-on-exec and never through a symlink; what is created is for its owner only. Reads and
//! writes are whole: interruptions and short transfers are handled here. A failed sync poisons its file for ever, since
//! the kernel may have dropped the data and would call the next sync a success.

use super::{DirLock, Entry, EntryKind, LockMode, OpenMode, Region, Storage, StorageFile};
use crate::error::{Error, Result};
use crate::ids::Micros;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub struct DiskStorage;

impl DiskStorage {
    pub fn new() -> Self {
        DiskStorage
    }
}

fn io<T>(op: &'static str, path: &Path, r: std::io::Result<T>) -> Result<T> {
    r.map_err(|e| Error::io(op, path, &e))
}

pub(super) fn wall_time_us() -> Micros {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(d) => d.as_micros() as Micros,
        Err(before) => -(before.duration().as_micros() as Micros),
    }
}

pub(super) fn monotonic_us() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_micros() as u64
}

pub(super) fn entropy(out: &mut [u8]) -> Result<()> {
    let p = Path::new("/dev/urandom");
    io("read", p, File::open(p).and_then(|mut f| f.read_exact(out)))
}

/// Directories that this process holds, by device and inode: `flock` alone would let one process hold a lock twice.
/// The value is the process that took it: what a forked child inherits here is not its own.
static HELD: Mutex<BTreeMap<(u64, u64), u32>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct DiskLock {
    _file: File,
    key: (u64, u64),
    pid: u32,
    dir: PathBuf,
}

impl DirLock for DiskLock {
    fn check_owner(&self) -> Result<()> {
        if std::process::id() == self.pid {
            return Ok(());
        }
        Err(Error::Locked {
            path: self.dir.clone(),
            holder: format!(
                "process {}, which this one was forked from; open it again in this process",
                self.pid
            ),
        })
    }
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        if std::process::id() == self.pid {
            HELD.lock().remove(&self.key);
        }
    }
}

/// The names of file systems on which an advisory lock may not hold across machines.
#[cfg(target_os = "linux")]
fn network_file_system(dir: &Path) -> Result<Option<&'static str>> {
    use std::os::unix::ffi::OsStrExt;
    let c = std::ffi::CString::new(dir.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("path {dir:?} holds a NUL"), "name another path"))?;
    let mut s = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `c` is a C string, `s` is room for one statfs.
    if unsafe { libc::statfs(c.as_ptr(), s.as_mut_ptr()) } != 0 {
        return io("statfs", dir, Err(std::io::Error::last_os_error()));
    }
    // SAFETY: the call succeeded, so it filled `s`.
    let kind = unsafe { s.assume_init() }.f_type as u64;
    Ok(match kind & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b => Some("SMB"),
        0xff53_4d42 => Some("CIFS"),
        0xfe53_4d42 => Some("SMB2"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        _ => None,
    })
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_dir: &Path) -> Result<Option<&'static str>> {
    Ok(None)
}

fn host() -> String {
    let mut b = [0u8; 256];
    // SAFETY: room for 255 bytes and a NUL.
    let r = unsafe { libc::gethostname(b.as_mut_ptr().cast(), 255) };
    if r != 0 {
        return "?".into();
    }
    let end = b.iter().position(|c| *c == 0).unwrap_or(255);
    String::from_utf8_lossy(&b[..end]).into_owned()
}

impl Storage for DiskStorage {
    fn create_dir(&self, dir: &Path) -> Result<()> {
        io("create directory", dir, std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir))
    }

    fn lock_dir(&self, dir: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        if let Some(name) = network_file_system(dir)? {
            return Err(Error::invalid(
                format!("{} lies on {name}, where locks do not hold across machines", dir.display()),
                "keep the database on a local disk",
            ));
        }
        let meta = io("stat", dir, std::fs::metadata(dir))?;
        let key = (meta.dev(), meta.ino());
        let pid = std::process::id();
        if HELD.lock().insert(key, pid) == Some(pid) {
            return Err(Error::Locked {
                path: dir.into(),
                holder: "this process: it is open here already".into(),
            });
        }
        let taken = take_lock(dir, mode, key);
        if taken.is_err() {
            HELD.lock().remove(&key);
        }
        taken
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        for e in io("list", dir, std::fs::read_dir(dir))? {
            let e = io("list", dir, e)?;
            let kind = io("stat", dir, e.file_type())?;
            let len = e.metadata().map(|m| m.len()).unwrap_or(0);
            let kind = if kind.is_file() {
                EntryKind::File
            } else if kind.is_dir() {
                EntryKind::Dir
            } else {
                EntryKind::Other
            };
            out.push(Entry { name: e.file_name().to_string_lossy().into_owned(), len, kind });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        io("stat", path, path.try_exists())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let mut o = OpenOptions::new();
        o.read(true).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
        match mode {
            OpenMode::Read => &mut o,
            OpenMode::ReadWrite => o.write(true),
            OpenMode::CreateNew => o.write(true).create_new(true).mode(0o600),
        };
        let file = io("open", path, o.open(path))?;
        Ok(Arc::new(DiskFile { file, path: path.into(), poisoned: AtomicBool::new(false) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        io("rename", from, std::fs::rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        io("remove", path, std::fs::remove_file(path))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        io("remove", dir, std::fs::remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let f = io("open", dir, File::open(dir))?;
        // Not fdatasync: ext4 counts a new name in an existing block as no change of data, and may skip the commit.
        io("sync", dir, sync_everything(&f))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        use std::os::unix::ffi::OsStrExt;
        let c = std::ffi::CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| Error::invalid(format!("path {dir:?} holds a NUL"), "name another path"))?;
        let mut s = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `c` is a C string, `s` is room for one statvfs.
        if unsafe { libc::statvfs(c.as_ptr(), s.as_mut_ptr()) } != 0 {
            return io("statvfs", dir, Err(std::io::Error::last_os_error()));
        }
        // SAFETY: the call succeeded, so it filled `s`.
        let s = unsafe { s.assume_init() };
        #[allow(clippy::unnecessary_cast)]
        Ok((s.f_bavail as u64).saturating_mul(s.f_frsize as u64))
    }

    fn wall_time_us(&self) -> Micros {
        wall_time_us()
    }

    fn monotonic_us(&self) -> u64 {
        monotonic_us()
    }

    fn entropy(&self, out: &mut [u8]) -> Result<()> {
        entropy(out)
    }
}

fn take_lock(dir: &Path, mode: LockMode, key: (u64, u64)) -> Result<Box<dyn DirLock>> {
    let path = dir.join("LOCK");
    let mut o = OpenOptions::new();
    o.read(true).write(true).create(true).truncate(false).mode(0o600);
    o.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
    let mut file = io("open", &path, o.open(&path))?;
    let how = match mode {
        LockMode::Exclusive => libc::LOCK_EX,
        LockMode::Shared => libc::LOCK_SH,
    };
    // SAFETY: flock on a descriptor that we own.
    if unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } != 0 {
        let e = std::io::Error::last_os_error();
        if e.kind() != std::io::ErrorKind::WouldBlock {
            return io("lock", &path, Err(e));
        }
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let holder = if text.trim().is_empty() { "another process".into() } else { text.trim().to_owned() };
        return Err(Error::Locked { path: dir.into(), holder });
    }
    // The text is for people; the lock is the kernel's, so what a dead process left here does not matter.
    let text =
        format!("process {} on {}, since {} µs (Unix time)\n", std::process::id(), host(), wall_time_us());
    io(
        "write",
        &path,
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes())),
    )?;
    Ok(Box::new(DiskLock { _file: file, key, pid: std::process::id(), dir: dir.into() }))
}

#[cfg(target_os = "macos")]
fn full_sync(f: &File) -> std::io::Result<()> {
    // SAFETY: fcntl on a descriptor that we own; F_FULLFSYNC takes no argument.
    if unsafe { libc::fcntl(f.as_raw_fd(), libc::F_FULLFSYNC) } == -1 {
        return f.sync_all();
    }
    Ok(())
}

#[cfg(not(target_os = "macos"))]
fn full_sync(f: &File) -> std::io::Result<()> {
    f.sync_data()
}

#[cfg(target_os = "macos")]
fn sync_everything(f: &File) -> std::io::Result<()> {
    full_sync(f)
}

#[cfg(not(target_os = "macos"))]
fn sync_everything(f: &File) -> std::io::Result<()> {
    f.sync_all()
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    path: PathBuf,
    poisoned: AtomicBool,
}

impl DiskFile {
    fn check(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned {
                cause: format!("{}: an earlier sync failed", self.path.display()),
            });
        }
        Ok(())
    }
}

impl StorageFile for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(io("stat", &self.path, self.file.metadata())?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        io("read", &self.path, self.file.read_exact_at(out, offset))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        io("write", &self.path, self.file.write_all_at(bytes, offset))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.check()?;
        if self.len()? >= len {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        {
            loop {
                // SAFETY: on a descriptor that we own.
                match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, len as libc::off_t) } {
                    0 => return Ok(()),
                    libc::EINTR => continue,
                    libc::EOPNOTSUPP | libc::EINVAL => break,
                    e => return io("allocate", &self.path, Err(std::io::Error::from_raw_os_error(e))),
                }
            }
        }
        io("allocate", &self.path, self.file.set_len(len))
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.check()?;
        io("truncate", &self.path, self.file.set_len(len))
    }

    fn sync_data(&self) -> Result<()> {
        self.check()?;
        let r = full_sync(&self.file);
        if r.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        io("sync", &self.path, r)
    }

    fn map_into(&self, offset: u64, len: usize, region: &mut Region, at: usize) -> Result<()> {
        let have = self.len()?;
        if offset.checked_add(len as u64).is_none_or(|end| end > have) {
            return Err(Error::corrupt(
                &self.path,
                have,
                format!("file ends before {len} bytes at {offset}"),
            ));
        }
        io("map", &self.path, region.map_fd(self.file.as_raw_fd(), offset, len, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_lock_is_refused_and_names_the_holder() {
        let d = tempfile::tempdir().unwrap();
        let s = DiskStorage::new();
        let held = s.lock_dir(d.path(), LockMode::Exclusive).unwrap();
        let again = s.lock_dir(d.path(), LockMode::Exclusive).unwrap_err();
        assert!(matches!(&again, Error::Locked { holder, .. } if holder.contains("this process")), "{again}");
        let link = d.path().with_extension("alias");
        std::os::unix::fs::symlink(d.path(), &link).unwrap();
        assert!(s.lock_dir(&link, LockMode::Exclusive).is_err(), "an alias is the same directory");
        std::fs::remove_file(&link).unwrap();
        drop(held);
        s.lock_dir(d.path(), LockMode::Exclusive).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_in_the_lock_file_does_not_matter() {
        let d = tempfile::tempdir().unwrap();
        std::fs::write(d.path().join("LOCK"), "process 1 on elsewhere").unwrap();
        drop(DiskStorage::new().lock_dir(d.path(), LockMode::Exclusive).unwrap());
        let text = std::fs::read_to_string(d.path().join("LOCK")).unwrap();
        assert!(text.starts_with(&format!("process {} ", std::process::id())), "{text}");
    }

    #[test]
    fn another_holder_is_named_by_the_text_of_the_lock_file() {
        let d = tempfile::tempdir().unwrap();
        let other = File::create(d.path().join("LOCK")).unwrap();
        std::fs::write(d.path().join("LOCK"), "process 4711 on elsewhere").unwrap();
        // SAFETY: flock on a descriptor that we own; another open file stands for another process.
        assert_eq!(unsafe { libc::flock(other.as_raw_fd(), libc::LOCK_EX) }, 0);
        let s = DiskStorage::new();
        let e = s.lock_dir(d.path(), LockMode::Exclusive).unwrap_err();
        assert!(matches!(&e, Error::Locked { holder, .. } if holder.contains("4711")), "{e}");
        drop(other);
        s.lock_dir(d.path(), LockMode::Exclusive).unwrap();
    }

    #[test]
    fn a_forked_child_is_refused_and_told_of_its_parent() {
        let d = tempfile::tempdir().unwrap();
        let s = DiskStorage::new();
        let held = s.lock_dir(d.path(), LockMode::Exclusive).unwrap();
        held.check_owner().unwrap();
        let meta = std::fs::metadata(d.path()).unwrap();
        let key = (meta.dev(), meta.ino());
        // As a child sees it: the lock and the table name another process.
        let inherited = DiskLock {
            _file: File::open(d.path().join("LOCK")).unwrap(),
            key,
            pid: std::process::id() + 1,
            dir: d.path().into(),
        };
        assert!(matches!(inherited.check_owner(), Err(Error::Locked { .. })));
        drop(inherited);
        assert!(s.lock_dir(d.path(), LockMode::Exclusive).is_err(), "the owner's own entry stays");
        HELD.lock().insert(key, std::process::id() + 1);
        let e = s.lock_dir(d.path(), LockMode::Exclusive).unwrap_err();
        assert!(!e.to_string().contains("this process"), "{e}");
    }

    #[test]
    fn a_file_whose_sync_failed_is_never_written_again() {
        // A pipe can be written and cannot be synced.
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which are then ours alone.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        use std::os::fd::FromRawFd;
        // SAFETY: as above; each is owned once.
        let (_r, w) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        let f = DiskFile { file: w, path: "pipe".into(), poisoned: AtomicBool::new(false) };
        assert!(matches!(f.sync_data(), Err(Error::Io { .. })));
        assert!(matches!(f.sync_data(), Err(Error::Poisoned { .. })));
        assert!(matches!(f.write_at(0, b"x"), Err(Error::Poisoned { .. })));
        assert!(matches!(f.allocate(1), Err(Error::Poisoned { .. })));
        assert!(matches!(f.truncate(0), Err(Error::Poisoned { .. })));
    }

    #[test]
    fn space_is_reserved_without_touching_content() {
        let d = tempfile::tempdir().unwrap();
        let f = DiskStorage::new().open(&d.path().join("f"), OpenMode::CreateNew).unwrap();
        f.write_at(0, b"abc").unwrap();
        f.allocate(100_000).unwrap();
        let meta = std::fs::metadata(d.path().join("f")).unwrap();
        assert_eq!(meta.len(), 100_000);
        assert!(meta.blocks() * 512 >= 100_000, "real blocks");
        f.allocate(10).unwrap();
        assert_eq!(f.len().unwrap(), 100_000);
        let mut b = [9; 4];
        f.read_at(0, &mut b).unwrap();
        assert_eq!(&b, b"abc\0");
    }

    #[test]
    fn files_are_for_their_owner_and_never_symlinks() {
        use std::os::unix::fs::PermissionsExt;
        let d = tempfile::tempdir().unwrap();
        let s = DiskStorage::new();
        let p = d.path().join("f");
        let f = s.open(&p, OpenMode::CreateNew).unwrap();
        f.write_at(3, b"abc").unwrap();
        f.sync_data().unwrap();
        assert_eq!(f.len().unwrap(), 6);
        assert_eq!(std::fs::metadata(&p).unwrap().permissions().mode() & 0o777, 0o600);
        std::os::unix::fs::symlink(&p, d.path().join("l")).unwrap();
        assert!(s.open(&d.path().join("l"), OpenMode::Read).is_err());
        assert!(s.open(&p, OpenMode::CreateNew).is_err());
        let mut b = [0; 3];
        assert!(f.read_at(4, &mut b).is_err(), "past the end");
    }

    #[test]
    fn a_private_map_never_reaches_the_file() {
        let d = tempfile::tempdir().unwrap();
        let s = DiskStorage::new();
        let f = s.open(&d.path().join("f"), OpenMode::CreateNew).unwrap();
        f.write_at(0, &vec![7; 2 * Region::ALIGN]).unwrap();
        let mut r = Region::reserve(1 << 20).unwrap();
        f.map_into(Region::ALIGN as u64, Region::ALIGN, &mut r, 0).unwrap();
        r.bytes_mut(10)[3] = 9;
        r.commit(100_000).unwrap();
        assert_eq!((r.bytes(100_000)[4], r.bytes(100_000)[99_999]), (7, 0));
        let mut b = [0; 1];
        f.read_at(Region::ALIGN as u64 + 3, &mut b).unwrap();
        assert_eq!(b, [7]);
        assert!(f.map_into(Region::ALIGN as u64, 2 * Region::ALIGN, &mut r, 0).is_err(), "past the end");
    }
}
