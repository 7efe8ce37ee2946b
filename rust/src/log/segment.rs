//! A segment file: its head, its name.
//!
//! ```text
//! io::FileHeader (64 bytes, kind 'L', generation = first lsn) · salt u64 · first lsn u64 · chain u32 · zero u32 ·
//! CRC-32C u32 of these and the header · zero u32 · frames · zeros
//! ```

use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::io::{FileHeader, OpenMode, Storage, StorageFile};
use std::path::Path;
use std::sync::Arc;

pub(super) const KIND: u8 = b'L';
pub(super) const HEAD: u64 = FileHeader::BYTES as u64 + 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub salt: u64,
    pub first: Lsn,
    /// Closing checksum of the last frame of the segment before; 0 for the first.
    pub chain: u32,
}

pub(super) fn name(first: Lsn) -> String {
    format!("{first:020}.klog")
}

/// The first lsn that a file's name states; `None` for a file that is no segment.
pub(super) fn first_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(".klog")?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

fn encode(uuid: [u8; 16], h: &Head) -> Vec<u8> {
    let mut b = FileHeader::new(KIND, uuid, h.first).encode().to_vec();
    b.extend_from_slice(&h.salt.to_le_bytes());
    b.extend_from_slice(&h.first.to_le_bytes());
    b.extend_from_slice(&h.chain.to_le_bytes());
    b.extend_from_slice(&0u32.to_le_bytes());
    let crc = crc32c::crc32c(&b);
    b.extend_from_slice(&crc.to_le_bytes());
    b.extend_from_slice(&0u32.to_le_bytes());
    b
}

/// Reads and checks the head.
pub(super) fn decode(path: &Path, bytes: &[u8], uuid: &[u8; 16], first: Lsn) -> Result<Head> {
    let bad = |at: u64, what: &str| Error::corrupt(path, at, what);
    let b =
        bytes.get(..HEAD as usize).ok_or_else(|| bad(bytes.len() as u64, "segment ends inside its head"))?;
    let (h, rest) = b.split_at(FileHeader::BYTES);
    let header = FileHeader::decode(path, h.try_into().map_err(|_| bad(0, "segment head"))?)?;
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| rest[at + i]));
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| rest[at + i]));
    if crc32c::crc32c(&b[..FileHeader::BYTES + 24]) != u32_at(24) || u32_at(28) != 0 || u32_at(20) != 0 {
        return Err(bad(FileHeader::BYTES as u64, "segment head does not verify"));
    }
    if header.kind != KIND || header.store_uuid != *uuid || header.generation != first || u64_at(8) != first {
        return Err(bad(0, "segment of another store or place"));
    }
    Ok(Head { salt: u64_at(0), first, chain: u32_at(16) })
}

/// Makes a new segment, durable with its name when it returns.
pub(super) fn create(
    storage: &dyn Storage,
    dir: &Path,
    uuid: [u8; 16],
    first: Lsn,
    chain: u32,
) -> Result<(Arc<dyn StorageFile>, Head)> {
    let mut salt = [0; 8];
    storage.entropy(&mut salt)?;
    let head = Head { salt: u64::from_le_bytes(salt), first, chain };
    let file = storage.open(&dir.join(name(first)), OpenMode::CreateNew)?;
    file.write_at(0, &encode(uuid, &head))?;
    file.sync_data()?;
    storage.sync_dir(dir)?;
    Ok((file, head))
}
