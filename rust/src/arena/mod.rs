//! Rows of one fixed width in one contiguous range: `address = base + row * stride`.
//!
//! Promise: rows keep their bytes and, while no `&mut` call grows the arena, their address. Growing takes `&mut`,
//! so no reader holds a pointer across it. May import `io`, `error`, `limits`.
//! Cost: nothing per read; a growth step commits memory; passing the reservation copies once (×4).

use crate::error::{Error, Result};
use crate::io::{Region, StorageFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where a run of an arena's bytes lies on disk: `[start, start + len)` of the arena is `[offset, …)` of the file.
#[derive(Debug, Clone)]
pub struct Piece {
    pub file: Arc<dyn StorageFile>,
    /// Multiple of [`Region::ALIGN`].
    pub offset: u64,
    /// Byte position in the arena, multiple of [`Region::ALIGN`].
    pub start: u64,
    pub len: u64,
}

const FIRST_RESERVE: usize = 256 << 20;

#[derive(Debug)]
pub struct Arena {
    region: Region,
    stride: usize,
    rows: usize,
}

impl Arena {
    /// An empty arena. `stride` in bytes, > 0.
    pub fn new(stride: usize) -> Result<Self> {
        assert!(stride > 0);
        Ok(Arena { region: Region::reserve(FIRST_RESERVE.max(stride))?, stride, rows: 0 })
    }

    /// An arena over mapped pieces in rising order that cover `rows` rows; maps, reads nothing.
    pub fn open(stride: usize, rows: usize, pieces: &[Piece]) -> Result<Self> {
        assert!(stride > 0);
        let total = rows
            .checked_mul(stride)
            .ok_or_else(|| Error::Internal(format!("arena of {rows} rows × {stride} bytes")))?;
        let mut region = Region::reserve(reserve_for(total))?;
        for p in pieces {
            let (len, at) = (p.len as usize, p.start as usize);
            if at + len > total || at > region.committed() {
                return Err(Error::corrupt(p.file.path(), p.offset, "piece outside the arena it belongs to"));
            }
            let file_len = p.file.len()?;
            if p.offset.checked_add(p.len).is_none_or(|end| end > file_len) {
                return Err(Error::corrupt(
                    p.file.path(),
                    file_len,
                    format!("file ends before {} bytes at {}", p.len, p.offset),
                ));
            }
            p.file.map_into(p.offset, len, &mut region, at)?;
        }
        if region.committed() < total {
            return Err(Error::Internal(format!("pieces cover {} of {total} bytes", region.committed())));
        }
        Ok(Arena { region, stride, rows })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Grows to `rows` rows; new ones are zeros. Fewer rows than now: nothing happens.
    pub fn grow_to(&mut self, rows: usize) -> Result<()> {
        if rows <= self.rows {
            return Ok(());
        }
        let bytes = rows * self.stride;
        if bytes > self.region.reserved() {
            let mut bigger = Region::reserve(reserve_for(bytes))?;
            let used = self.rows * self.stride;
            bigger.commit(bytes)?;
            bigger.bytes_mut(used).copy_from_slice(self.region.bytes(used));
            self.region = bigger;
        }
        self.region.commit(bytes)?;
        self.rows = rows;
        Ok(())
    }

    /// Address of a row. Valid until the arena grows or drops.
    #[inline(always)]
    pub fn row_ptr(&self, row: usize) -> *const u8 {
        debug_assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: row < rows, so the address lies inside the committed range.
        unsafe { self.region.base().add(row * self.stride) }
    }

    /// Address of row 0. Valid until the arena grows or drops.
    pub fn base_ptr(&self) -> *const u8 {
        self.region.base()
    }

    /// One row's bytes. Panics past the end.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: checked above; the range is committed and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.row_ptr(row), self.stride) }
    }

    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: checked above; `&mut self` excludes other access.
        unsafe { std::slice::from_raw_parts_mut(self.region.base().add(row * self.stride), self.stride) }
    }

    /// The row as atomic words, for structures that are changed while others read. `stride` is a multiple of 4.
    #[inline]
    pub fn row_u32(&self, row: usize) -> &[AtomicU32] {
        assert!(row < self.rows && self.stride.is_multiple_of(4));
        // SAFETY: in range; regions are page-aligned and the stride is a multiple of 4, so words are aligned;
        // every shared access to such an arena goes through atomics.
        unsafe { std::slice::from_raw_parts(self.row_ptr(row).cast(), self.stride / 4) }
    }

    /// The row as atomic double words. `stride` is a multiple of 8.
    #[inline]
    pub fn row_u64(&self, row: usize) -> &[AtomicU64] {
        assert!(row < self.rows && self.stride.is_multiple_of(8));
        // SAFETY: as for `row_u32`, with 8.
        unsafe { std::slice::from_raw_parts(self.row_ptr(row).cast(), self.stride / 8) }
    }

    /// All rows' bytes, in row order.
    pub fn bytes(&self) -> &[u8] {
        self.region.bytes(self.rows * self.stride)
    }

    /// Bytes from `at`, for heaps (stride 1). Panics past the end.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let n = self.rows * self.stride;
        self.region.bytes_mut(n)
    }
}

fn reserve_for(bytes: usize) -> usize {
    let mut r = FIRST_RESERVE;
    while r < bytes.saturating_add(bytes / 4) {
        r = r.saturating_mul(4);
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_zeros_and_keeps_what_was_written() {
        let mut a = Arena::new(12).unwrap();
        a.grow_to(3).unwrap();
        a.row_mut(2).copy_from_slice(&[7; 12]);
        a.grow_to(100_000).unwrap();
        assert_eq!(a.row(2), &[7; 12]);
        assert_eq!(a.row(99_999), &[0; 12]);
    }

    #[test]
    fn passing_the_reservation_keeps_the_rows() {
        let mut a = Arena::new(1 << 20).unwrap();
        a.grow_to(2).unwrap();
        a.row_mut(1)[5] = 9;
        a.grow_to(FIRST_RESERVE / (1 << 20) + 1).unwrap();
        assert_eq!(a.row(1)[5], 9);
    }
}
