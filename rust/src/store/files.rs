//! Data files of a checkpoint: written once, mapped at open, never changed.
//!
//! ```text
//! header (64 bytes, `io::FileHeader`) · zeros up to 16 KiB · data · one CRC-32C u32 per 64 KiB of data ·
//! data length u64 · CRC-32C u32 of the table and the length · magic "KDBF"
//! ```
//! The CRC of a block covers its index and the file's generation first, so that a block of another place or time
//! never verifies. All integers little-endian.

use crate::arena::Piece;
use crate::error::{Error, Result};
use crate::io::{FileHeader, OpenMode, Region, Storage, StorageFile};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

const DATA_AT: u64 = Region::ALIGN as u64;
const BLOCK: usize = 64 << 10;
const FOOTER: usize = 16;
const MAGIC: &[u8; 4] = b"KDBF";

/// What the manifest knows of a data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileDesc {
    /// Name inside the database directory.
    pub name: String,
    pub data_len: u64,
    /// CRC-32C of the table of block checksums: ties the file's whole content to the manifest.
    pub table_crc: u32,
    pub generation: u64,
}

/// A run of a file that holds `[start, start + len)` of an arena.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PieceDesc {
    pub file: FileDesc,
    pub start: u64,
    pub len: u64,
}

fn block_crc(generation: u64, index: u64, block: &[u8]) -> u32 {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&generation.to_le_bytes());
    seed[8..].copy_from_slice(&index.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&seed), block)
}

/// Writes `data` as a new file and syncs it; the caller syncs the directory.
pub(crate) fn write(
    storage: &dyn Storage,
    dir: &Path,
    name: &str,
    header: &FileHeader,
    data: &[u8],
) -> Result<FileDesc> {
    let generation = header.generation;
    let file = storage.open(&dir.join(name), OpenMode::CreateNew)?;
    let mut tail = Vec::with_capacity(data.len().div_ceil(BLOCK) * 4 + FOOTER);
    for (i, b) in data.chunks(BLOCK).enumerate() {
        tail.extend_from_slice(&block_crc(generation, i as u64, b).to_le_bytes());
    }
    tail.extend_from_slice(&(data.len() as u64).to_le_bytes());
    let table_crc = crc32c::crc32c(&tail);
    tail.extend_from_slice(&table_crc.to_le_bytes());
    tail.extend_from_slice(MAGIC);
    let mut head = vec![0; DATA_AT as usize];
    head[..FileHeader::BYTES].copy_from_slice(&header.encode());
    file.allocate(DATA_AT + data.len() as u64 + tail.len() as u64)?;
    file.write_at(0, &head)?;
    for (i, b) in data.chunks(8 << 20).enumerate() {
        file.write_at(DATA_AT + (i * (8 << 20)) as u64, b)?;
    }
    file.write_at(DATA_AT + data.len() as u64, &tail)?;
    file.sync_data()?;
    Ok(FileDesc { name: name.into(), data_len: data.len() as u64, table_crc, generation })
}

/// An opened data file whose header, length and table agree with the manifest.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub file: Arc<dyn StorageFile>,
    desc: FileDesc,
    table: Vec<u8>,
}

impl DataFile {
    pub(crate) fn open(
        storage: &dyn Storage,
        dir: &Path,
        desc: &FileDesc,
        uuid: &[u8; 16],
        kind: u8,
    ) -> Result<Self> {
        let path = dir.join(&desc.name);
        let file = storage.open(&path, OpenMode::Read)?;
        let blocks = (desc.data_len as usize).div_ceil(BLOCK);
        let want = DATA_AT + desc.data_len + (blocks * 4 + FOOTER) as u64;
        let len = file.len()?;
        if len != want {
            return Err(Error::corrupt(
                &path,
                len.min(want),
                format!("length is {len}, the manifest says {want}"),
            ));
        }
        let mut head = [0; FileHeader::BYTES];
        file.read_at(0, &mut head)?;
        let h = FileHeader::decode(&path, &head)?;
        if h.kind != kind || h.store_uuid != *uuid || h.generation != desc.generation {
            return Err(Error::corrupt(&path, 0, "header is of another file, store or generation"));
        }
        let mut tail = vec![0; blocks * 4 + FOOTER];
        file.read_at(DATA_AT + desc.data_len, &mut tail)?;
        let (body, foot) = tail.split_at(blocks * 4 + 8);
        let ok = foot[4..] == *MAGIC
            && crc32c::crc32c(body) == desc.table_crc
            && foot[..4] == desc.table_crc.to_le_bytes()
            && body[blocks * 4..] == desc.data_len.to_le_bytes();
        if !ok {
            return Err(Error::corrupt(&path, DATA_AT + desc.data_len, "table of checksums does not verify"));
        }
        tail.truncate(blocks * 4);
        Ok(DataFile { file, desc: desc.clone(), table: tail })
    }

    /// Reads everything and checks every block. Cost: the file's length at memory or disk speed.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut buf = vec![0; BLOCK];
        let mut left = self.desc.data_len;
        for (i, want) in self.table.chunks_exact(4).enumerate() {
            let n = left.min(BLOCK as u64) as usize;
            let at = DATA_AT + (i * BLOCK) as u64;
            self.file.read_at(at, &mut buf[..n])?;
            if block_crc(self.desc.generation, i as u64, &buf[..n]).to_le_bytes() != *want {
                return Err(Error::corrupt(
                    self.file.path(),
                    at,
                    format!("{n} bytes do not match their checksum"),
                ));
            }
            left -= n as u64;
        }
        Ok(())
    }

    /// Every byte outside the data that the format fixes: the padding after the header.
    pub(crate) fn verify_padding(&self) -> Result<()> {
        let mut pad = vec![0; DATA_AT as usize - FileHeader::BYTES];
        self.file.read_at(FileHeader::BYTES as u64, &mut pad)?;
        match pad.iter().position(|b| *b != 0) {
            None => Ok(()),
            Some(i) => {
                Err(Error::corrupt(self.file.path(), (FileHeader::BYTES + i) as u64, "padding is not zero"))
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.desc.data_len
    }

    /// As a piece of an arena, `[start, start + len)`.
    pub(crate) fn piece(&self, start: u64, len: u64) -> Result<Piece> {
        if len > self.desc.data_len {
            return Err(Error::corrupt(self.file.path(), 0, "manifest names more than the file holds"));
        }
        Ok(Piece { file: self.file.clone(), offset: DATA_AT, start, len })
    }

    /// The whole data, mapped privately.
    pub(crate) fn map(&self) -> Result<Mapped> {
        let len = self.desc.data_len as usize;
        let mut region = Region::reserve(len.max(1))?;
        if len > 0 {
            self.file.map_into(DATA_AT, len, &mut region, 0)?;
        }
        Ok(Mapped { region, start: 0, len })
    }
}

/// Mapped bytes of a data file.
#[derive(Debug)]
pub(crate) struct Mapped {
    region: Region,
    start: usize,
    len: usize,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.region.bytes(self.start + self.len)[self.start..]
    }
}

/// A part of mapped bytes that keeps the whole alive.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub whole: Arc<Mapped>,
    pub start: usize,
    pub len: usize,
}

impl AsRef<[u8]> for Section {
    fn as_ref(&self) -> &[u8] {
        (*self.whole).as_ref().get(self.start..self.start + self.len).unwrap_or(&[])
    }
}
