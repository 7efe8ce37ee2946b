//! One frame = one record. Pure: bytes in, bytes out.
//!
//! ```text
//! magic "KLF1" · payload length u32 · flags u32 (0) · lsn u64 · chain u32 · synced lsn u64 · CRC-32C u32 of what stands
//! before · payload · CRC-32C u32 of head and payload
//! ```
//! Both checksums start from the segment's random salt and the frame's offset, so bytes of another place, another
//! segment, or of a caller who stores a forged frame in a payload never verify. `chain` is the closing checksum of the
//! frame before. `synced lsn`: the highest record known to be on the disk when this one was written.

use crate::ids::Lsn;

pub(super) const HEAD: usize = 36;
pub(super) const OVERHEAD: usize = HEAD + 4;
pub(super) const MAGIC: [u8; 4] = *b"KLF1";

fn seed(salt: u64, offset: u64) -> u32 {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&salt.to_le_bytes());
    b[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c(&b)
}

/// Appends a frame to `out`, which will be written so that the frame starts at `offset`. Returns its closing checksum.
pub(super) fn encode(
    out: &mut Vec<u8>,
    salt: u64,
    offset: u64,
    lsn: Lsn,
    chain: u32,
    synced: Lsn,
    payload: &[u8],
) -> u32 {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&lsn.to_le_bytes());
    out.extend_from_slice(&chain.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    let seed = seed(salt, offset);
    let head = crc32c::crc32c_append(seed, &out[start..]);
    out.extend_from_slice(&head.to_le_bytes());
    out.extend_from_slice(payload);
    let crc = crc32c::crc32c_append(seed, &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

/// A frame that verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub lsn: Lsn,
    pub chain: u32,
    pub synced: Lsn,
    pub payload: &'a [u8],
    pub crc: u32,
}

impl Frame<'_> {
    pub(super) fn len(&self) -> usize {
        OVERHEAD + self.payload.len()
    }
}

/// The frame at the start of `bytes`, which lie at `offset` of the segment; `None` where it does not verify.
pub(super) fn decode(bytes: &[u8], salt: u64, offset: u64) -> Option<Frame<'_>> {
    let head = bytes.get(..HEAD)?;
    if head[..4] != MAGIC {
        return None;
    }
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let seed = seed(salt, offset);
    if u32_at(8)? != 0 || crc32c::crc32c_append(seed, &head[..HEAD - 4]) != u32_at(HEAD - 4)? {
        return None;
    }
    let n = u32_at(4)? as usize;
    let end = HEAD.checked_add(n)?;
    let crc = u32::from_le_bytes(bytes.get(end..end.checked_add(4)?)?.try_into().ok()?);
    if crc32c::crc32c_append(seed, &bytes[..end]) != crc {
        return None;
    }
    Some(Frame { lsn: u64_at(12)?, chain: u32_at(20)?, synced: u64_at(24)?, payload: &bytes[HEAD..end], crc })
}

/// The next position at or behind `from` where a frame verifies.
pub(super) fn resync(bytes: &[u8], salt: u64, base: u64, from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(i) = bytes.get(at..)?.windows(4).position(|w| w == MAGIC) {
        at += i;
        if decode(&bytes[at..], salt, base + at as u64).is_some() {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_verifies_only_whole_in_its_place_and_its_segment() {
        let mut b = vec![];
        let crc = encode(&mut b, 7, 96, 5, 11, 3, b"hello");
        let f = decode(&b, 7, 96).unwrap();
        assert_eq!((f.lsn, f.chain, f.synced, f.payload, f.crc), (5, 11, 3, &b"hello"[..], crc));
        assert_eq!(decode(&b, 8, 96), None);
        assert_eq!(decode(&b, 7, 97), None);
        for i in 0..b.len() {
            assert_eq!(decode(&b[..i], 7, 96), None);
            for bit in 0..8 {
                let mut c = b.clone();
                c[i] ^= 1 << bit;
                assert_eq!(decode(&c, 7, 96), None, "byte {i} bit {bit}");
            }
        }
    }

    #[test]
    fn resync_finds_the_next_frame_and_no_forged_one() {
        let mut forged = vec![];
        encode(&mut forged, 0, 0, 9, 0, 0, b"forged");
        let mut b = b"garbage KLF1 more".to_vec();
        b.extend_from_slice(&forged);
        let at = b.len();
        encode(&mut b, 7, 100 + at as u64, 6, 0, 0, b"real");
        assert_eq!(resync(&b, 7, 100, 0), Some(at));
        assert_eq!(resync(&b, 7, 100, at + 1), None);
    }
}
