//! Appending: frames in one write, syncs apart, poison after a failure.

use super::frame;
use super::segment::{self, Head};
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::io::{Storage, StorageFile};
use crate::limits::MAX_FRAME_BYTES;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Zeros are written this far ahead of small frames: a sync then has no length to write beside the data.
const AHEAD: u64 = 256 << 10;
/// Larger appends are not worth it.
const SMALL: usize = 64 << 10;

#[derive(Debug, Clone)]
pub struct LogOptions {
    /// A segment is sealed when it has grown past this.
    pub segment_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { segment_bytes: 64 << 20 }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub file: Arc<dyn StorageFile>,
    pub head: Head,
    /// Where the next frame goes.
    pub end: u64,
    /// Bytes that the file has.
    pub allocated: u64,
    pub last: Lsn,
    pub chain: u32,
    /// First lsns of all segments, this one last.
    pub segments: Vec<Lsn>,
}

/// The writing end of a log.
#[derive(Debug)]
pub struct Log {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    uuid: [u8; 16],
    options: LogOptions,
    state: Mutex<State>,
    synced: AtomicU64,
    poisoned: Mutex<Option<String>>,
}

impl Log {
    /// A new log whose first record will be `first_lsn`. The directory exists.
    pub fn create(
        storage: Arc<dyn Storage>,
        dir: &Path,
        uuid: [u8; 16],
        first_lsn: Lsn,
        options: LogOptions,
    ) -> Result<Log> {
        let (file, head) = segment::create(&*storage, dir, uuid, first_lsn, 0)?;
        let state = State {
            file,
            head,
            end: segment::HEAD,
            allocated: segment::HEAD,
            last: first_lsn - 1,
            chain: 0,
            segments: vec![first_lsn],
        };
        Ok(Log::of(storage, dir, uuid, options, state))
    }

    pub(super) fn of(
        storage: Arc<dyn Storage>,
        dir: &Path,
        uuid: [u8; 16],
        options: LogOptions,
        state: State,
    ) -> Log {
        let synced = AtomicU64::new(state.last);
        Log {
            storage,
            dir: dir.into(),
            uuid,
            options,
            state: Mutex::new(state),
            synced,
            poisoned: Mutex::default(),
        }
    }

    fn guard<T>(&self, r: Result<T>) -> Result<T> {
        r.inspect_err(|e| {
            self.poisoned.lock().get_or_insert_with(|| e.to_string());
        })
    }

    fn check(&self) -> Result<()> {
        match &*self.poisoned.lock() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Why nothing more is written, if so.
    pub fn poisoned(&self) -> Option<String> {
        self.poisoned.lock().clone()
    }

    /// Writes one frame a payload in one call, not yet synced. Returns the lsn of the last.
    /// A payload beyond [`MAX_FRAME_BYTES`] is refused before anything is written.
    pub fn append(&self, payloads: &[&[u8]]) -> Result<Lsn> {
        self.check()?;
        if let Some(p) = payloads.iter().find(|p| p.len() > MAX_FRAME_BYTES) {
            return Err(Error::LimitExceeded {
                limit: "MAX_FRAME_BYTES",
                what: "a transaction".into(),
                got: p.len() as u64,
                max: MAX_FRAME_BYTES as u64,
            });
        }
        let mut s = self.state.lock();
        if s.end >= self.options.segment_bytes && s.end > segment::HEAD {
            self.guard(self.next_segment(&mut s))?;
        }
        let synced = self.synced.load(Ordering::Acquire);
        let mut out = Vec::with_capacity(payloads.iter().map(|p| p.len() + frame::OVERHEAD).sum());
        let (mut lsn, mut chain) = (s.last, s.chain);
        for p in payloads {
            lsn += 1;
            let at = s.end + out.len() as u64;
            chain = frame::encode(&mut out, s.head.salt, at, lsn, chain, synced, p);
        }
        let end = s.end + out.len() as u64;
        if end > s.allocated && out.len() <= SMALL {
            // Behind the frame: zeros, in the same write.
            out.resize(out.len() + AHEAD as usize, 0);
        }
        let written = s.end + out.len() as u64;
        self.guard(s.file.write_at(s.end, &out))?;
        s.allocated = s.allocated.max(written);
        (s.end, s.last, s.chain) = (end, lsn, chain);
        Ok(lsn)
    }

    /// Everything appended before is on the disk when it returns.
    pub fn sync(&self) -> Result<()> {
        self.check()?;
        let (file, last) = {
            let s = self.state.lock();
            (s.file.clone(), s.last)
        };
        if self.synced.load(Ordering::Acquire) >= last {
            return Ok(());
        }
        self.guard(file.sync_data())?;
        self.synced.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    /// The last record appended.
    pub fn last_lsn(&self) -> Lsn {
        self.state.lock().last
    }

    /// The last record known to be on the disk.
    pub fn synced_lsn(&self) -> Lsn {
        self.synced.load(Ordering::Acquire)
    }

    /// Seals the segment and starts the next; an empty one stays.
    pub fn rotate(&self) -> Result<()> {
        self.check()?;
        let mut s = self.state.lock();
        if s.end == segment::HEAD {
            return Ok(());
        }
        self.guard(self.next_segment(&mut s))
    }

    fn next_segment(&self, s: &mut State) -> Result<()> {
        // What follows is damage if this is not whole, so it must be on the disk first.
        if s.allocated > s.end {
            s.file.truncate(s.end)?;
        }
        s.file.sync_data()?;
        self.synced.fetch_max(s.last, Ordering::AcqRel);
        let first = s.last + 1;
        let (file, head) = segment::create(&*self.storage, &self.dir, self.uuid, first, s.chain)?;
        (s.file, s.head, s.end, s.allocated) = (file, head, segment::HEAD, segment::HEAD);
        s.segments.push(first);
        Ok(())
    }

    /// Removes sealed segments whose every record is at most `lsn`. Returns how many.
    pub fn drop_before(&self, lsn: Lsn) -> Result<u64> {
        self.check()?;
        let mut s = self.state.lock();
        let mut n = 0;
        while s.segments.len() > 1 && s.segments[1] <= lsn + 1 {
            let first = s.segments[0];
            self.guard(self.storage.remove(&self.dir.join(segment::name(first))))?;
            s.segments.remove(0);
            n += 1;
        }
        if n > 0 {
            self.guard(self.storage.sync_dir(&self.dir))?;
        }
        Ok(n)
    }
}
