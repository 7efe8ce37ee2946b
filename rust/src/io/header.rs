//! The 64 bytes that every file starts with, and small files that are replaced whole.
//!
//! ```text
//! magic "KDB\x93" · kind u8 · 3 bytes zero · major u16 · minor u16 · compat u32 · ro_compat u32 · incompat u32 ·
//! store uuid 16 bytes · generation u64 · zeros up to 60 · CRC-32C u32 of the 60 bytes
//! ```

use super::{OpenMode, Storage};
use crate::error::{Error, Result};
use std::path::Path;

const MAGIC: [u8; 4] = *b"KDB\x93";
const MAJOR: u16 = 1;
const MINOR: u16 = 0;
/// Largest body of a published file.
const BODY_MAX: u64 = 1 << 30;

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    pub kind: u8,
    pub store_uuid: [u8; 16],
    pub generation: u64,
}

impl FileHeader {
    pub const BYTES: usize = 64;

    pub fn new(kind: u8, store_uuid: [u8; 16], generation: u64) -> Self {
        FileHeader { kind, store_uuid, generation }
    }

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[..4].copy_from_slice(&MAGIC);
        b[4] = self.kind;
        b[8..10].copy_from_slice(&MAJOR.to_le_bytes());
        b[10..12].copy_from_slice(&MINOR.to_le_bytes());
        b[24..40].copy_from_slice(&self.store_uuid);
        b[40..48].copy_from_slice(&self.generation.to_le_bytes());
        let crc = crc32c::crc32c(&b[..60]);
        b[60..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Checks everything. A newer major version, or a feature bit that this build does not know, is a version error.
    pub fn decode(path: &Path, b: &[u8; Self::BYTES]) -> Result<Self> {
        let bad = |at: u64, what: &str| Error::corrupt(path, at, what);
        if b[..4] != MAGIC {
            return Err(bad(0, "not a file of this kind: the magic number is another"));
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        if crc32c::crc32c(&b[..60]) != u32_at(60) {
            return Err(bad(60, "header does not match its checksum"));
        }
        let major = u16::from_le_bytes([b[8], b[9]]);
        let incompat = u32_at(20);
        if major > MAJOR || incompat != 0 {
            return Err(Error::FormatVersion {
                file: path.into(),
                found: format!("{major}.{}, features {incompat:#x}", u16::from_le_bytes([b[10], b[11]])),
                supported: format!("up to {MAJOR}"),
            });
        }
        if b[5..8] != [0; 3] || b[48..60] != [0; 12] || u32_at(12) != 0 || u32_at(16) != 0 {
            return Err(bad(5, "header has bytes that must be zero"));
        }
        Ok(FileHeader {
            kind: b[4],
            store_uuid: std::array::from_fn(|i| b[24 + i]),
            generation: u64::from_le_bytes(std::array::from_fn(|i| b[40 + i])),
        })
    }
}

/// Replaces `name` by a file of header, body length, body and checksum: the old one or the new one survives any crash.
pub fn publish(
    storage: &dyn Storage,
    dir: &Path,
    name: &str,
    header: &FileHeader,
    body: &[u8],
) -> Result<()> {
    let tmp = dir.join(format!("{name}.tmp"));
    if storage.exists(&tmp)? {
        storage.remove(&tmp)?;
    }
    let mut b = header.encode().to_vec();
    b.extend_from_slice(&(body.len() as u64).to_le_bytes());
    b.extend_from_slice(body);
    let crc = crc32c::crc32c(&b);
    b.extend_from_slice(&crc.to_le_bytes());
    let file = storage.open(&tmp, OpenMode::CreateNew)?;
    file.write_at(0, &b)?;
    file.sync_data()?;
    storage.rename(&tmp, &dir.join(name))?;
    storage.sync_dir(dir)
}

/// Reads what [`publish`] wrote, checking every byte.
pub fn read_published(storage: &dyn Storage, path: &Path, kind: u8) -> Result<(FileHeader, Vec<u8>)> {
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let fixed = FileHeader::BYTES as u64 + 12;
    if len < fixed || len > BODY_MAX {
        return Err(Error::corrupt(path, 0, format!("length is {len}, wanted {fixed} to {BODY_MAX}")));
    }
    let mut b = vec![0; len as usize];
    file.read_at(0, &mut b)?;
    let head: [u8; FileHeader::BYTES] = std::array::from_fn(|i| b[i]);
    let header = FileHeader::decode(path, &head)?;
    let body = u64::from_le_bytes(std::array::from_fn(|i| b[FileHeader::BYTES + i]));
    if header.kind != kind || body != len - fixed {
        return Err(Error::corrupt(path, 4, "kind or length is another than wanted"));
    }
    let (content, crc) = b.split_at(b.len() - 4);
    if crc32c::crc32c(content).to_le_bytes() != crc {
        return Err(Error::corrupt(path, FileHeader::BYTES as u64, "content does not match its checksum"));
    }
    Ok((header, content[FileHeader::BYTES + 8..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::MemoryStorage;

    #[test]
    fn every_flipped_byte_and_every_cut_of_a_published_file_is_an_error() {
        let s = MemoryStorage::new();
        let dir = Path::new("/d");
        s.create_dir(dir).unwrap();
        let h = FileHeader::new(b'T', [7; 16], 3);
        publish(&s, dir, "f", &h, b"old").unwrap();
        publish(&s, dir, "f", &h, b"body of it").unwrap();
        let p = dir.join("f");
        assert_eq!(read_published(&s, &p, b'T').unwrap(), (h, b"body of it".to_vec()));
        let f = s.open(&p, OpenMode::ReadWrite).unwrap();
        let mut all = vec![0; f.len().unwrap() as usize];
        f.read_at(0, &mut all).unwrap();
        for (i, byte) in all.iter().enumerate() {
            for bit in 0..8 {
                f.write_at(i as u64, &[byte ^ (1 << bit)]).unwrap();
                assert!(read_published(&s, &p, b'T').is_err(), "byte {i} bit {bit}");
            }
            f.write_at(i as u64, &[*byte]).unwrap();
        }
        assert!(read_published(&s, &p, b'T').is_ok());
        for n in 0..all.len() {
            f.truncate(n as u64).unwrap();
            assert!(read_published(&s, &p, b'T').is_err(), "cut at {n}");
            f.write_at(0, &all).unwrap();
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut b = FileHeader::new(1, [0; 16], 1).encode();
        b[8] = 9;
        let crc = crc32c::crc32c(&b[..60]);
        b[60..].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(FileHeader::decode(Path::new("x"), &b), Err(Error::FormatVersion { .. })));
    }
}
