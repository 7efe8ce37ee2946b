//! The immutable part: terms in order, each with its rows and counts; lengths of rows.
//!
//! ```text
//! magic "KTB1" · terms u32 · rows u64 · keys length u64 · postings length u64 · entry* · length u32 × rows · keys ·
//! postings       entry := key offset u64 · posting offset u64 · key length u32 · rows u32 · postings bytes u64
//! posting := (row − row before) varint · count varint, row by row; the first row counts from 0
//! ```
//! A length of 0 means that the row is not indexed; stored lengths are one more than the text's. Little-endian.

use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::props::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"KTB1";
const HEAD: usize = 32;
const ENTRY: usize = 32;

#[derive(Clone)]
pub(super) struct Base {
    bytes: Arc<dyn Bytes>,
    file: PathBuf,
    terms: usize,
    rows: usize,
    lengths: usize,
    keys: usize,
    postings: usize,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").field("terms", &self.terms).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Base {
    pub(super) fn open(bytes: Arc<dyn Bytes>, file: &Path) -> Result<Self> {
        let b = (*bytes).as_ref();
        let bad = |what: &str| Error::corrupt(file, 0, format!("text index: {what}"));
        if b.len() < HEAD || b[..4] != *MAGIC {
            return Err(bad("not a dictionary of words"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let terms = u32::from_le_bytes([b[4], b[5], b[6], b[7]]) as u64;
        let (rows, keys_len, postings_len) = (u64_at(8), u64_at(16), u64_at(24));
        let lengths = HEAD as u64 + terms * ENTRY as u64;
        let keys = rows.checked_mul(4).and_then(|n| n.checked_add(lengths));
        let postings = keys.and_then(|k| k.checked_add(keys_len));
        if postings.and_then(|p| p.checked_add(postings_len)) != Some(b.len() as u64) {
            return Err(bad("lengths do not add up"));
        }
        let (keys, postings) = (keys.unwrap_or(0) as usize, postings.unwrap_or(0) as usize);
        let (terms, rows, lengths) = (terms as usize, rows as usize, lengths as usize);
        Ok(Base { bytes, file: file.into(), terms, rows, lengths, keys, postings })
    }

    fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    fn bad(&self, at: usize) -> Error {
        Error::corrupt(&self.file, at as u64, "a word or its rows lie outside the dictionary")
    }

    pub(super) fn len(&self) -> usize {
        self.terms
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Length of a row's text; `None` where the row is not here.
    pub(super) fn length(&self, row: RowId) -> Option<u32> {
        let at = self.lengths + row as usize * 4;
        if row as usize >= self.rows {
            return None;
        }
        let b = self.bytes().get(at..at + 4)?;
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]).checked_sub(1)
    }

    fn entry(&self, i: usize) -> Result<(u64, u64, u32, u32, u64)> {
        let at = HEAD + i * ENTRY;
        let e = self.bytes().get(at..at + ENTRY).filter(|_| i < self.terms).ok_or_else(|| self.bad(at))?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| e[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| e[at + i]));
        Ok((u64_at(0), u64_at(8), u32_at(16), u32_at(20), u64_at(24)))
    }

    fn slice(&self, start: usize, off: u64, len: u64, end: usize) -> Result<&[u8]> {
        let from = usize::try_from(off).ok().and_then(|o| start.checked_add(o));
        let to = from.and_then(|f| f.checked_add(usize::try_from(len).ok()?)).filter(|t| *t <= end);
        match (from, to) {
            (Some(f), Some(t)) => self.bytes().get(f..t).ok_or_else(|| self.bad(f)),
            _ => Err(self.bad(start)),
        }
    }

    pub(super) fn key(&self, i: usize) -> Result<&[u8]> {
        let (key, _, len, ..) = self.entry(i)?;
        self.slice(self.keys, key, u64::from(len), self.postings)
    }

    /// Position of a term.
    pub(super) fn find(&self, term: &str) -> Result<Option<usize>> {
        let (mut lo, mut hi) = (0, self.terms);
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            if self.key(mid)? < term.as_bytes() {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        Ok((lo < self.terms && self.key(lo)? == term.as_bytes()).then_some(lo))
    }

    /// Calls `f` with each row of term `i` and how often the term stands in it, rows rising.
    pub(super) fn postings(&self, i: usize, mut f: impl FnMut(RowId, u32)) -> Result<()> {
        let (_, off, _, n, len) = self.entry(i)?;
        let mut b = self.slice(self.postings, off, len, self.bytes().len())?;
        let mut row = 0u64;
        for _ in 0..n {
            let (gap, count) = match (varint(&mut b), varint(&mut b)) {
                (Some(g), Some(c)) => (g, c),
                _ => return Err(self.bad(self.postings)),
            };
            row += gap;
            if row >= self.rows as u64 {
                return Err(self.bad(self.postings));
            }
            f(row as RowId, count as u32);
        }
        Ok(())
    }
}

fn varint(b: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..35).step_by(7) {
        let (first, rest) = b.split_first()?;
        *b = rest;
        n |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
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
    /// `rows` in rising order.
    pub(super) fn push(&mut self, key: &[u8], rows: impl Iterator<Item = (RowId, u32)>) {
        let start = self.postings.len();
        let (mut before, mut n) = (0, 0u32);
        for (row, count) in rows {
            put_varint(&mut self.postings, row - before);
            put_varint(&mut self.postings, count);
            before = row;
            n += 1;
        }
        if n == 0 {
            return;
        }
        self.entries.extend_from_slice(&(self.keys.len() as u64).to_le_bytes());
        self.entries.extend_from_slice(&(start as u64).to_le_bytes());
        self.entries.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.entries.extend_from_slice(&n.to_le_bytes());
        self.entries.extend_from_slice(&((self.postings.len() - start) as u64).to_le_bytes());
        self.keys.extend_from_slice(key);
        self.terms += 1;
    }

    pub(super) fn finish(self, lengths: &BTreeMap<RowId, u32>, out: &mut Vec<u8>) {
        let rows = lengths.keys().next_back().map_or(0, |r| *r as usize + 1);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.terms.to_le_bytes());
        for n in [rows, self.keys.len(), self.postings.len()] {
            out.extend_from_slice(&(n as u64).to_le_bytes());
        }
        out.extend_from_slice(&self.entries);
        let at = out.len();
        out.resize(at + rows * 4, 0);
        for (row, n) in lengths {
            let i = at + *row as usize * 4;
            out[i..i + 4].copy_from_slice(&n.saturating_add(1).to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.postings);
    }
}
