//! The only module that touches files, maps, locks, clocks and entropy.
//!
//! [`Storage`] is the seam: the real disk, a memory store and a simulated disk with faults implement it, so that
//! every crash and every error can be played through the same engine code.
//! After a failed `sync_data` the file is poisoned for ever: no retry exists.

mod disk;
mod header;
mod memory;
mod region;
#[cfg(any(test, feature = "faults"))]
mod sim;

pub use disk::DiskStorage;
pub use header::{FileHeader, publish, read_published};
pub use memory::MemoryStorage;
pub use region::Region;
#[cfg(any(test, feature = "faults"))]
pub use sim::{SimStorage, Survive};

use crate::error::Result;
use crate::ids::Micros;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; reads only.
    Read,
    /// Must exist; reads and writes.
    ReadWrite,
    /// Must not exist; created with owner-only permissions.
    CreateNew,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Dir,
    /// Symlinks, sockets, devices: never ours.
    Other,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub len: u64,
    pub kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    Exclusive,
    Shared,
}

/// A held directory lock; dropping it unlocks.
pub trait DirLock: Send + Sync + Debug {
    /// Refuses a process that inherited the lock by a fork.
    fn check_owner(&self) -> Result<()>;
}

/// A file system as the engine needs it. Paths are absolute or relative to the process, never interpreted.
///
/// A name change (`create`, `rename`, `remove`) is durable only after `sync_dir` of its directory.
pub trait Storage: Send + Sync + Debug {
    /// Creates a directory (owner-only) and its missing parents; existing ones are fine.
    fn create_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the directory's lock without waiting; [`Locked`](crate::error::Error::Locked) names the holder.
    fn lock_dir(&self, dir: &Path, mode: LockMode) -> Result<Box<dyn DirLock>>;
    /// Names in `dir`, sorted. A missing directory is an `Io` error of kind `NotFound`.
    fn list(&self, dir: &Path) -> Result<Vec<Entry>>;
    fn exists(&self, path: &Path) -> Result<bool>;
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn StorageFile>>;
    /// Atomic replacement of `to` by `from`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file; an open or mapped one lives on until closed.
    fn remove(&self, path: &Path) -> Result<()>;
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    fn free_space(&self, dir: &Path) -> Result<u64>;
    /// Wall clock; may jump either way.
    fn wall_time_us(&self) -> Micros;
    /// Monotonic clock since an arbitrary start.
    fn monotonic_us(&self) -> u64;
    fn entropy(&self, out: &mut [u8]) -> Result<()>;
}

/// An open file. Reads and writes are whole or an error; EINTR and short transfers are handled below this trait.
pub trait StorageFile: Send + Sync + Debug {
    fn path(&self) -> &Path;
    fn len(&self) -> Result<u64>;
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// On error the range is undefined.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Reserves real blocks up to `len` without changing content; the length grows to at least `len`.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Shrinks or grows (with zeros) to `len`; never under a live map.
    fn truncate(&self, len: u64) -> Result<()>;
    /// Data and length durable when it returns (fdatasync, F_FULLFSYNC, FlushFileBuffers).
    fn sync_data(&self) -> Result<()>;
    /// Places `len` bytes from `offset` of the file at `at` of the region, privately: later stores to the region
    /// never reach the file. `offset` and `at` are multiples of [`Region::ALIGN`]. The range lies within the file.
    fn map_into(&self, offset: u64, len: usize, region: &mut Region, at: usize) -> Result<()>;
}
