//! The fixed-width record of a row: where its id and payload lie, and what the view rule reads.
//!
//! Layout (little-endian, 96 bytes): tx_from i64 · tx_to i64 · valid_from i64 · valid_to i64 · id_off u64 ·
//! payload_off u64 · id_len u32 · payload_len u32 · prev u32 (older record of the same id) · norm f32 · user u32 ·
//! agent u32 · session u32 · life u8 · end_life u8 · belief u8 · trust u8 · flags u32 (bit 0 stale) · 12 bytes zero.

use crate::ids::{Micros, RowId};
use crate::view::{Belief, Life, Stamps, Trust};

pub(crate) const REC_BYTES: usize = 96;
const FLAG_STALE: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rec {
    pub stamps: Stamps,
    pub id_off: u64,
    pub payload_off: u64,
    pub id_len: u32,
    pub payload_len: u32,
    /// The record of the same id before this one, [`NO_ROW`](crate::ids::NO_ROW) where there is none.
    pub prev: RowId,
    /// Length of the vector as it was given (cosine rows are stored normalised), 1 otherwise.
    pub norm: f32,
}

fn i64_at(b: &[u8; REC_BYTES], at: usize) -> i64 {
    i64::from_le_bytes(std::array::from_fn(|i| b[at + i]))
}

fn u32_at(b: &[u8; REC_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| b[at + i]))
}

impl Rec {
    /// `None` where a coded byte has no meaning: the bytes are damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Rec> {
        let b: &[u8; REC_BYTES] = bytes.try_into().ok()?;
        Some(Rec {
            stamps: Stamps {
                tx_from: i64_at(b, 0),
                tx_to: i64_at(b, 8),
                valid_from: i64_at(b, 16),
                valid_to: i64_at(b, 24),
                user: u32_at(b, 64),
                agent: u32_at(b, 68),
                session: u32_at(b, 72),
                life: Life::from_u8(b[76])?,
                end_life: Life::from_u8(b[77])?,
                belief: Belief::from_u8(b[78])?,
                trust: Trust::from_u8(b[79])?,
                stale: u32_at(b, 80) & FLAG_STALE != 0,
            },
            id_off: i64_at(b, 32) as u64,
            payload_off: i64_at(b, 40) as u64,
            id_len: u32_at(b, 48),
            payload_len: u32_at(b, 52),
            prev: u32_at(b, 56),
            norm: f32::from_bits(u32_at(b, 60)),
        })
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        let s = &self.stamps;
        out[..REC_BYTES].fill(0);
        for (i, v) in [s.tx_from, s.tx_to, s.valid_from, s.valid_to].into_iter().enumerate() {
            out[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes());
        }
        out[32..40].copy_from_slice(&self.id_off.to_le_bytes());
        out[40..48].copy_from_slice(&self.payload_off.to_le_bytes());
        let words =
            [self.id_len, self.payload_len, self.prev, self.norm.to_bits(), s.user, s.agent, s.session];
        for (i, v) in words.into_iter().enumerate() {
            out[48 + i * 4..52 + i * 4].copy_from_slice(&v.to_le_bytes());
        }
        out[76] = s.life as u8;
        out[77] = s.end_life as u8;
        out[78] = s.belief as u8;
        out[79] = s.trust as u8;
        out[80..84].copy_from_slice(&(if s.stale { FLAG_STALE } else { 0 }).to_le_bytes());
    }

    pub(crate) fn end_at(&mut self, tx: Micros, end_life: Life) {
        self.stamps.tx_to = tx;
        self.stamps.end_life = end_life;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let r = Rec {
            stamps: Stamps {
                tx_from: 5,
                tx_to: 9,
                valid_from: -3,
                valid_to: 77,
                user: 1,
                agent: 2,
                session: 3,
                life: Life::Pending,
                end_life: Life::Retracted,
                belief: Belief::Contested,
                trust: Trust::Tool,
                stale: true,
            },
            id_off: 1 << 40,
            payload_off: 99,
            id_len: 7,
            payload_len: 8,
            prev: 12,
            norm: 0.25,
        };
        let mut b = vec![0xff; REC_BYTES];
        r.write(&mut b);
        assert_eq!(Rec::read(&b), Some(r));
        b[76] = 200;
        assert_eq!(Rec::read(&b), None);
    }
}
