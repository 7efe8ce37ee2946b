//! The immutable part: a sorted dictionary of terms and their rows, read where it lies.
//!
//! ```text
//! magic "KPB1" · terms u32 · keys length u64 · postings length u64 · entry* · keys · postings
//! entry := key offset u64 · key length u32 · rows u32 · where u64
//! ```
//! `rows` = 1: `where` is the row itself; otherwise `where` is the offset of a portable Roaring set, whose length is the
//! u32 before it. All little-endian. Every access is checked against the bounds.

use super::Bytes;
use crate::error::{Error, Result};
use crate::ids::RowId;
use roaring::RoaringBitmap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"KPB1";
const HEAD: usize = 24;
const ENTRY: usize = 24;

#[derive(Clone)]
pub(super) struct Base {
    bytes: Arc<dyn Bytes>,
    file: PathBuf,
    terms: usize,
    keys: usize,
    postings: usize,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Base {
    pub(super) fn open(bytes: Arc<dyn Bytes>, file: &Path) -> Result<Self> {
        let b = (*bytes).as_ref();
        let bad = |what: &str| Error::corrupt(file, 0, format!("postings: {what}"));
        if b.get(..4) != Some(MAGIC) || b.len() < HEAD {
            return Err(bad("not a dictionary of terms"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let terms = u32::from_le_bytes([b[4], b[5], b[6], b[7]]) as usize;
        let (keys_len, postings_len) = (u64_at(8), u64_at(16));
        let keys = HEAD + terms * ENTRY;
        let total = (keys as u64).checked_add(keys_len).and_then(|n| n.checked_add(postings_len));
        if total != Some(b.len() as u64) {
            return Err(bad("lengths do not add up"));
        }
        let postings = keys + keys_len as usize;
        Ok(Base { bytes, file: file.into(), terms, keys, postings })
    }

    fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    fn bad(&self, at: usize) -> Error {
        Error::corrupt(&self.file, at as u64, "a term or its rows lie outside the dictionary")
    }

    pub(super) fn len(&self) -> usize {
        self.terms
    }

    fn entry(&self, i: usize) -> Result<(u64, u32, u32, u64)> {
        let at = HEAD + i * ENTRY;
        let e = self.bytes().get(at..at + ENTRY).filter(|_| i < self.terms).ok_or_else(|| self.bad(at))?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| e[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| e[at + i]));
        Ok((u64_at(0), u32_at(8), u32_at(12), u64_at(16)))
    }

    pub(super) fn key(&self, i: usize) -> Result<&[u8]> {
        let (off, len, ..) = self.entry(i)?;
        let from = usize::try_from(off).ok().and_then(|o| self.keys.checked_add(o));
        let end = from.and_then(|f| f.checked_add(len as usize)).filter(|e| *e <= self.postings);
        match (from, end) {
            (Some(f), Some(e)) => self.bytes().get(f..e).ok_or_else(|| self.bad(f)),
            _ => Err(self.bad(HEAD + i * ENTRY)),
        }
    }

    /// Adds the rows of term `i` to `one` (single rows) or `many`.
    pub(super) fn rows(&self, i: usize, one: &mut Vec<RowId>, many: &mut RoaringBitmap) -> Result<()> {
        let (_, _, n, place) = self.entry(i)?;
        if n == 1 {
            one.push(place as RowId);
            return Ok(());
        }
        let at = usize::try_from(place).ok().and_then(|p| self.postings.checked_add(p));
        let at = at.ok_or_else(|| self.bad(self.postings))?;
        let b = self.bytes();
        let len = b.get(at..at.saturating_add(4)).ok_or_else(|| self.bad(at))?;
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let set = b.get(at + 4..).and_then(|b| b.get(..len)).ok_or_else(|| self.bad(at))?;
        let set = RoaringBitmap::deserialize_from(set).map_err(|_| self.bad(at))?;
        if many.is_empty() {
            *many = set;
        } else {
            *many |= set;
        }
        Ok(())
    }

    /// The first term not before `key`.
    pub(super) fn lower_bound(&self, key: &[u8]) -> Result<usize> {
        let (mut lo, mut hi) = (0, self.terms);
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            if self.key(mid)? < key {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        Ok(lo)
    }
}

/// Writes terms, which come in order, as a base.
#[derive(Debug, Default)]
pub(super) struct Writer {
    entries: Vec<u8>,
    keys: Vec<u8>,
    postings: Vec<u8>,
    terms: u32,
}

impl Writer {
    pub(super) fn push(&mut self, key: &[u8], rows: &RoaringBitmap) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let n = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let place = match (n, rows.min()) {
            (1, Some(row)) => u64::from(row),
            _ => {
                let at = self.postings.len() as u64;
                self.postings.extend_from_slice(&(rows.serialized_size() as u32).to_le_bytes());
                rows.serialize_into(&mut self.postings).map_err(|e| Error::Internal(e.to_string()))?;
                at
            }
        };
        self.entries.extend_from_slice(&(self.keys.len() as u64).to_le_bytes());
        self.entries.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.entries.extend_from_slice(&n.to_le_bytes());
        self.entries.extend_from_slice(&place.to_le_bytes());
        self.keys.extend_from_slice(key);
        self.terms += 1;
        Ok(())
    }

    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.terms.to_le_bytes());
        out.extend_from_slice(&(self.keys.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.postings.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.entries);
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.postings);
    }
}
