//! A reserved range of address space that is filled piece by piece: by zeroed memory or by private file maps.
//!
//! Promise: the base address never changes; bytes in committed pieces are readable and writable; a store never
//! reaches a file. Cost: one system call a commit or map, none a read. Reserving costs address space only.

use crate::error::{Error, Result};

/// Address space with a fixed base.
#[derive(Debug)]
pub struct Region {
    base: *mut u8,
    reserved: usize,
    committed: usize,
}

// SAFETY: the region owns its range; shared access is reads and atomics only (callers of `base` keep that).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Offsets of maps are multiples of this on every platform (largest page size in use).
    pub const ALIGN: usize = 16 << 10;

    /// Reserves `bytes` of address space (rounded up), nothing committed.
    pub fn reserve(bytes: usize) -> Result<Self> {
        let reserved = round_up(bytes.max(1), 2 << 20);
        // SAFETY: an anonymous PROT_NONE map at an address of the kernel's choice touches no existing memory.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(Error::io("reserve address space", "", &std::io::Error::last_os_error()));
        }
        Ok(Region { base: p.cast(), reserved, committed: 0 })
    }

    /// Makes `[0, bytes)` readable and writable; what was not mapped or committed before reads as zeros.
    pub fn commit(&mut self, bytes: usize) -> Result<()> {
        let end = round_up(bytes, Self::ALIGN);
        if end <= self.committed {
            return Ok(());
        }
        // Grow in steps so that a row at a time does not cost a call each; at most 1/8 ahead, capped.
        let step = (self.committed / 8).clamp(64 << 10, 64 << 20);
        let end = round_up(end.max(self.committed + step), Self::ALIGN).min(self.reserved);
        if round_up(bytes, Self::ALIGN) > self.reserved {
            return Err(Error::Internal(format!("region of {} bytes cannot hold {bytes}", self.reserved)));
        }
        // SAFETY: [committed, end) lies inside our reservation and holds nothing yet.
        let r = unsafe {
            libc::mprotect(
                self.base.add(self.committed).cast(),
                end - self.committed,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if r != 0 {
            return Err(Error::io("commit memory", "", &std::io::Error::last_os_error()));
        }
        #[cfg(target_os = "linux")]
        if end - self.committed >= 2 << 20 {
            // SAFETY: advice on our own range; failure changes nothing.
            unsafe {
                libc::madvise(
                    self.base.add(self.committed).cast(),
                    end - self.committed,
                    libc::MADV_HUGEPAGE,
                );
            }
        }
        self.committed = end;
        Ok(())
    }

    /// Maps `len` bytes of `fd` from `offset` privately at `at`. The caller has checked the file's length.
    /// `at` is the first byte not yet committed, or inside; pieces are placed in rising order.
    pub(super) fn map_fd(&mut self, fd: i32, offset: u64, len: usize, at: usize) -> std::io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let end = at.checked_add(len).map(|e| round_up(e, Self::ALIGN));
        if !at.is_multiple_of(Self::ALIGN)
            || !offset.is_multiple_of(Self::ALIGN as u64)
            || end.is_none_or(|e| e > self.reserved)
            || at > self.committed
        {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "map outside the region"));
        }
        // SAFETY: [at, at+len) lies inside our reservation, so MAP_FIXED replaces only our own pages.
        let p = unsafe {
            libc::mmap(
                self.base.add(at).cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
                fd,
                offset as libc::off_t,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // The last page of the map may end before the next ALIGN boundary; make the rest usable too.
        let page_end = at + round_up(len, page_size());
        let end = at + round_up(len, Self::ALIGN);
        if end > page_end {
            // SAFETY: inside our reservation, behind the map that was just made.
            let r = unsafe {
                libc::mprotect(
                    self.base.add(page_end).cast(),
                    end - page_end,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if r != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        self.committed = self.committed.max(end);
        Ok(())
    }

    /// First byte; valid for reads and writes up to [`committed`](Self::committed).
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn committed(&self) -> usize {
        self.committed
    }

    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The first `len` bytes. `len` ≤ committed.
    pub fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.committed, "region read past its end");
        // SAFETY: committed bytes are readable for as long as the region lives.
        unsafe { std::slice::from_raw_parts(self.base, len) }
    }

    /// The first `len` bytes, exclusively. `len` ≤ committed.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.committed, "region write past its end");
        // SAFETY: committed bytes are writable and `&mut self` excludes other access.
        unsafe { std::slice::from_raw_parts_mut(self.base, len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly our own reservation, whose pieces nobody else owns.
        unsafe {
            libc::munmap(self.base.cast(), self.reserved);
        }
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

pub(crate) fn round_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}
