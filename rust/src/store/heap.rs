//! Bytes of variable length (ids, payloads): an append-only arena; what is replaced becomes garbage until vacuum.

use crate::arena::{Arena, Piece};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct Heap {
    bytes: Arena,
}

impl Heap {
    pub(crate) fn new() -> Result<Self> {
        Ok(Heap { bytes: Arena::new(1)? })
    }

    pub(crate) fn open(len: u64, pieces: &[Piece]) -> Result<Self> {
        Ok(Heap { bytes: Arena::open(1, len as usize, pieces)? })
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.rows() as u64
    }

    /// Appends and returns the offset.
    pub(crate) fn push(&mut self, b: &[u8]) -> Result<u64> {
        let at = self.bytes.rows();
        self.bytes.grow_to(at + b.len())?;
        self.bytes.bytes_mut()[at..].copy_from_slice(b);
        Ok(at as u64)
    }

    /// `None` where the range is not inside: the record that names it is damaged.
    pub(crate) fn get(&self, off: u64, len: u32) -> Option<&[u8]> {
        let off = usize::try_from(off).ok()?;
        self.bytes.bytes().get(off..off.checked_add(len as usize)?)
    }

    pub(crate) fn text(&self, off: u64, len: u32, what: &str) -> Result<&str> {
        let b = self.get(off, len).ok_or_else(|| {
            Error::corrupt("heap", off, format!("{what} of {len} bytes lies outside {}", self.len()))
        })?;
        std::str::from_utf8(b).map_err(|_| Error::corrupt("heap", off, format!("{what} is not UTF-8")))
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.bytes
    }
}
