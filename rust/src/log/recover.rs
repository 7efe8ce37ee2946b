//! Reading a log back after any end: what is whole is replayed, what is torn is cut, what is damaged is named.
//!
//! The first frame that does not verify ends the log as a *torn tail* only if nothing behind it verifies, it lies in the
//! last segment, and no whole frame says that a later record was on the disk already. Anything else is *damage*: the
//! default refuses to open with file, offset and what is lost; salvage steps over it and reports every gap.

use super::frame;
use super::segment;
use super::writer::{Log, LogOptions, State};
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::io::{OpenMode, Storage, StorageFile};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do where records are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverMode {
    /// Refuse to open.
    Strict,
    /// Step over it and report it.
    Salvage,
}

/// Bytes behind the last whole record that were cut: of a write that was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TornTail {
    pub file: PathBuf,
    pub offset: u64,
    pub bytes: u64,
}

/// Records that are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub file: PathBuf,
    pub from_offset: u64,
    pub to_offset: u64,
    pub from_lsn: Lsn,
    pub to_lsn: Lsn,
}

/// What recovery found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// Records replayed.
    pub frames: u64,
    pub first_lsn: Option<Lsn>,
    pub last_lsn: Lsn,
    pub torn_tail: Option<TornTail>,
    pub gaps: Vec<Gap>,
    pub micros: u64,
}

struct Recovery<'a> {
    after: Lsn,
    mode: RecoverMode,
    report: RecoveryReport,
    /// The record that must come next.
    expected: Lsn,
    /// Closing checksum of the last frame; `None` behind a gap or before the first frame read.
    chain: Option<u32>,
    /// The highest record that a whole frame knows to be on the disk.
    synced: Lsn,
    apply: &'a mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
}

struct Segment {
    first: Lsn,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
}

/// Where a segment's whole frames end.
struct End {
    head: segment::Head,
    at: u64,
    len: u64,
    /// The first frame that no later one knows to be on the disk.
    unsure_from: u64,
}

impl Log {
    /// Replays records after `after_lsn` in order, and opens the log for writing behind the last (unless `read_only`).
    #[allow(clippy::too_many_arguments)]
    pub fn recover(
        storage: Arc<dyn Storage>,
        dir: &Path,
        uuid: [u8; 16],
        after_lsn: Lsn,
        mode: RecoverMode,
        read_only: bool,
        options: LogOptions,
        apply: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<(Option<Log>, RecoveryReport)> {
        let started = storage.monotonic_us();
        let mut segments = Vec::new();
        for e in storage.list(dir)? {
            if let Some(first) = segment::first_of(&e.name) {
                let path = dir.join(&e.name);
                let how = if read_only { OpenMode::Read } else { OpenMode::ReadWrite };
                segments.push(Segment { first, file: storage.open(&path, how)?, path });
            }
        }
        let mut r = Recovery {
            after: after_lsn,
            mode,
            report: RecoveryReport { last_lsn: after_lsn, ..Default::default() },
            expected: after_lsn + 1,
            chain: None,
            synced: after_lsn,
            apply,
        };
        let mut last: Option<(&Segment, End)> = None;
        let n = segments.len();
        for (i, s) in segments.iter().enumerate() {
            // All of it is in the checkpoint.
            if segments.get(i + 1).is_some_and(|next| next.first <= after_lsn + 1) {
                continue;
            }
            if let Some(end) = r.segment(s, &uuid, i + 1 == n)? {
                last = Some((s, end));
            }
        }
        if last.is_none() && !segments.iter().any(|s| s.first == r.expected) {
            let what =
                format!("record {} and those behind it are missing: no segment holds them", r.expected);
            if mode == RecoverMode::Strict {
                return Err(Error::corrupt(dir.join(segment::name(r.expected)), 0, what));
            }
            r.gap(dir, 0, 0, r.expected);
        }
        r.report.last_lsn = r.expected - 1;
        r.report.micros = storage.monotonic_us().saturating_sub(started);
        let (report, expected, chain) = (r.report, r.expected, r.chain);
        if read_only {
            return Ok((None, report));
        }
        let firsts: Vec<Lsn> = segments.iter().map(|s| s.first).collect();
        let reuse = last.filter(|(s, _)| Some(&s.first) == firsts.last() && chain.is_some());
        if let Some((s, end)) = &reuse
            && end.unsure_from < end.at
        {
            // An earlier sync of these may have failed in this boot of the system: then the kernel shows them and the
            // disk does not have them. Written again, they are written for sure before anything behind them.
            let mut bytes = vec![0; (end.at - end.unsure_from) as usize];
            s.file.read_at(end.unsure_from, &mut bytes)?;
            s.file.write_at(end.unsure_from, &bytes)?;
            s.file.sync_data()?;
        }
        let state = match reuse {
            Some((s, end)) => State {
                file: s.file.clone(),
                head: end.head,
                end: end.at,
                allocated: end.len,
                last: expected - 1,
                chain: chain.unwrap_or(end.head.chain),
                segments: firsts,
            },
            None => {
                // The last segment has no whole head (a crash while it was made), or ends in a gap.
                let mut firsts = firsts;
                if let Some(s) = segments.iter().find(|s| s.first == expected) {
                    quarantine(&*storage, dir, &s.path, &*s.file, 0)?;
                    storage.remove(&s.path)?;
                    firsts.retain(|f| *f != expected);
                }
                let (file, head) = segment::create(&*storage, dir, uuid, expected, chain.unwrap_or(0))?;
                firsts.push(expected);
                let (last, chain) = (expected - 1, head.chain);
                State {
                    file,
                    head,
                    end: segment::HEAD,
                    allocated: segment::HEAD,
                    last,
                    chain,
                    segments: firsts,
                }
            }
        };
        let damaged: BTreeSet<&PathBuf> = report.gaps.iter().map(|g| &g.file).collect();
        for s in segments.iter().filter(|s| damaged.contains(&s.path)) {
            quarantine(&*storage, dir, &s.path, &*s.file, 0)?;
        }
        if let Some(t) = &report.torn_tail
            && state.file.path() == t.file
        {
            quarantine(&*storage, dir, &t.file, &*state.file, t.offset)?;
            state.file.truncate(t.offset)?;
            state.file.sync_data()?;
        }
        let mut state = state;
        state.allocated = state.file.len()?;
        Ok((Some(Log::of(storage, dir, uuid, options, state)), report))
    }
}

/// Keeps bytes that are about to be cut: the copy is whole and durable when this returns. Other bytes from the same
/// place that were kept before stay beside it.
fn quarantine(
    storage: &dyn Storage,
    dir: &Path,
    path: &Path,
    file: &dyn StorageFile,
    from: u64,
) -> Result<()> {
    let len = file.len()?.saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(len).map_err(|e| Error::Internal(e.to_string()))?];
    file.read_at(from, &mut bytes)?;
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    if end == 0 {
        return Ok(());
    }
    let keep = dir.parent().unwrap_or(dir).join("quarantine");
    storage.create_dir(&keep)?;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let bytes = bytes.get(..end).unwrap_or_default();
    let mut to = keep.join(format!("{name}-{from}"));
    let mut copies = 0;
    while storage.exists(&to)? {
        let old = storage.open(&to, OpenMode::Read)?;
        if old.len()? == end as u64 {
            let mut b = vec![0; end];
            old.read_at(0, &mut b)?;
            if b == bytes {
                // It may be there by name only, from a recovery that did not end.
                return durable(storage, &keep, &storage.open(&to, OpenMode::ReadWrite)?);
            }
        }
        copies += 1;
        to = keep.join(format!("{name}-{from}-{copies}"));
    }
    let tmp = keep.join(format!("{name}-{from}.tmp"));
    if storage.exists(&tmp)? {
        storage.remove(&tmp)?;
    }
    let file = storage.open(&tmp, OpenMode::CreateNew)?;
    file.write_at(0, bytes)?;
    file.sync_data()?;
    storage.rename(&tmp, &to)?;
    durable(storage, &keep, &file)
}

fn durable(storage: &dyn Storage, dir: &Path, file: &Arc<dyn StorageFile>) -> Result<()> {
    file.sync_data()?;
    storage.sync_dir(dir)?;
    dir.parent().map_or(Ok(()), |d| storage.sync_dir(d))
}

impl Recovery<'_> {
    fn gap(&mut self, file: &Path, from_offset: u64, to_offset: u64, to_lsn: Lsn) {
        self.report.gaps.push(Gap {
            file: file.into(),
            from_offset,
            to_offset,
            from_lsn: self.expected,
            to_lsn,
        });
        self.chain = None;
    }

    /// Refuses, or (salvage) notes the gap.
    fn damage(&mut self, file: &Path, from: u64, to: u64, to_lsn: Lsn, what: &str) -> Result<()> {
        if self.mode == RecoverMode::Strict {
            let lost = match to_lsn.checked_sub(self.expected) {
                None | Some(0) => format!("record {}", self.expected),
                Some(_) => format!("records {} to {to_lsn}", self.expected),
            };
            return Err(Error::corrupt(file, from, format!("{what}: {lost} would be lost")));
        }
        self.gap(file, from, to, to_lsn);
        Ok(())
    }

    /// Replays one segment; `None` where it has no whole head.
    fn segment(&mut self, s: &Segment, uuid: &[u8; 16], is_last: bool) -> Result<Option<End>> {
        let len = s.file.len()?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|e| Error::Internal(e.to_string()))?];
        s.file.read_at(0, &mut bytes)?;
        let head = match segment::decode(&s.path, &bytes, uuid, s.first) {
            Ok(h) => h,
            // A crash while the segment was made: nothing behind the head was ever acknowledged.
            Err(_)
                if is_last
                    && s.first == self.expected
                    && bytes.iter().skip(segment::HEAD as usize).all(|b| *b == 0) =>
            {
                return Ok(None);
            }
            Err(e) => {
                if self.mode == RecoverMode::Strict {
                    return Err(e);
                }
                self.gap(&s.path, 0, len, s.first);
                return Ok(None);
            }
        };
        if s.first > self.expected {
            self.damage(&s.path, 0, 0, s.first - 1, "a segment is missing before this one")?;
            self.expected = s.first;
        }
        if let Some(c) = self.chain
            && c != head.chain
        {
            self.damage(&s.path, 0, 0, s.first, "the segment does not continue the one before")?;
        }
        let mut next = s.first;
        self.chain = Some(head.chain);
        let mut at = segment::HEAD as usize;
        let mut places: Vec<(Lsn, u64)> = Vec::new();
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let f = match frame::decode(rest, head.salt, at as u64) {
                Some(f) if f.lsn == next && self.chain.is_none_or(|c| c == f.chain) => f,
                other => {
                    let empty = rest.iter().all(|b| *b == 0);
                    let from = if other.is_some() { at } else { at + 1 };
                    let later = if empty { None } else { frame::resync(&bytes, head.salt, 0, from) };
                    let later =
                        later.and_then(|p| Some((p, frame::decode(bytes.get(p..)?, head.salt, p as u64)?)));
                    // Frames that were never synced reach the disk in any order: one behind a lost one is damage only
                    // where some frame from here on says that the lost one was on the disk.
                    let mut proof = self.synced.max(later.as_ref().map_or(0, |(_, f)| f.synced));
                    let mut place = later.as_ref().map(|(p, _)| *p);
                    while let Some(p) = place.filter(|_| is_last && proof < next) {
                        let f = bytes.get(p..).and_then(|b| frame::decode(b, head.salt, p as u64));
                        proof = proof.max(f.map_or(0, |f| f.synced));
                        place = frame::resync(&bytes, head.salt, 0, p + 1);
                    }
                    let later = later.filter(|(_, f)| !is_last || proof >= next || f.lsn < next);
                    match later {
                        Some((p, f)) if f.lsn >= next => {
                            self.expected = self.expected.max(next);
                            let to = f.lsn.saturating_sub(1).max(next);
                            self.damage(&s.path, at as u64, p as u64, to, "damaged in the middle")?;
                            next = f.lsn;
                            at = p;
                            self.chain = Some(f.chain);
                            continue;
                        }
                        Some((p, _)) => {
                            self.damage(
                                &s.path,
                                at as u64,
                                p as u64,
                                next,
                                "a frame stands in the wrong place",
                            )?;
                            break;
                        }
                        None => {}
                    }
                    let fine = if is_last { next > self.synced } else { empty };
                    if !fine {
                        self.expected = self.expected.max(next);
                        let to = self.synced.max(next);
                        self.damage(
                            &s.path,
                            at as u64,
                            len,
                            to,
                            "damaged at the end, though it was on the disk",
                        )?;
                        next = to + 1;
                    } else if !empty {
                        let bytes = len - at as u64;
                        self.report.torn_tail =
                            Some(TornTail { file: s.path.clone(), offset: at as u64, bytes });
                    }
                    break;
                }
            };
            self.synced = self.synced.max(f.synced);
            places.push((f.lsn, at as u64));
            if f.lsn > self.after {
                (self.apply)(f.lsn, f.payload)?;
                self.report.frames += 1;
                self.report.first_lsn.get_or_insert(f.lsn);
            }
            at += f.len();
            next += 1;
            self.chain = Some(f.crc);
        }
        self.expected = self.expected.max(next);
        let unsure = places.partition_point(|(lsn, _)| *lsn <= self.synced);
        let unsure_from = places.get(unsure).map_or(at as u64, |(_, place)| *place);
        Ok(Some(End { head, at: at as u64, len, unsure_from }))
    }
}
