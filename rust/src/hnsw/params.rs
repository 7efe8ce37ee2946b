//! What shapes a graph, and what a checkpoint must keep of it beside its arenas.

use crate::error::{Error, Result};
use crate::limits::{MAX_EF, MAX_M, MIN_M};

/// Shape of a graph. `m`, `m0` and `seed` are fixed for its life; `ef_construction` may differ from opening to opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Most links of a node on an upper layer.
    pub m: usize,
    /// Most links of a node on the ground layer.
    pub m0: usize,
    /// Candidates that linking keeps while it searches a new node's neighbours.
    pub ef_construction: usize,
    /// Levels are drawn from this and the row, so a rebuilt graph has the same ones.
    pub seed: u64,
}

impl Params {
    /// The usual shape: `m0 = 2·m`.
    pub fn new(m: usize, ef_construction: usize) -> Self {
        Params { m, m0: 2 * m, ef_construction, seed: 0 }
    }

    /// Refuses values that no graph can have.
    pub fn check(&self) -> Result<()> {
        let limit = |limit, what: &str, got: usize, max: usize| Error::LimitExceeded {
            limit,
            what: what.into(),
            got: got as u64,
            max: max as u64,
        };
        if self.m < MIN_M {
            return Err(Error::invalid(
                format!("m is {}, the least is {MIN_M}", self.m),
                "16 suits most collections",
            ));
        }
        if self.m > MAX_M {
            return Err(limit("MAX_M", "m", self.m, MAX_M));
        }
        if self.m0 < self.m || self.m0 > 2 * MAX_M {
            return Err(Error::invalid(
                format!("m0 is {}, wanted m ({}) to {}", self.m0, self.m, 2 * MAX_M),
                "2·m is usual",
            ));
        }
        if self.ef_construction == 0 {
            return Err(Error::invalid("ef_construction is 0, the least is 1", "200 suits most collections"));
        }
        if self.ef_construction > MAX_EF {
            return Err(limit("MAX_EF", "ef_construction", self.ef_construction, MAX_EF));
        }
        Ok(())
    }
}

/// What a checkpoint keeps of a graph beside its two arenas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub m: u32,
    pub m0: u32,
    pub seed: u64,
    /// Rows of the ground arena.
    pub rows: u32,
    /// Rows of the upper arena.
    pub slots: u32,
    /// Rows `0..linked` are linked or were skipped.
    pub linked: u32,
    /// The entry point: its highest upper slot + 1 (0: none) in the high half, its row + 1 (0: empty) in the low one.
    pub entry: u64,
}

impl State {
    /// Length of the stored form.
    pub const BYTES: usize = 48;
    const MAGIC: [u8; 4] = *b"KGR1";

    /// Little-endian: magic, m, m0, rows, seed, slots, linked, entry, zeros.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[0..4].copy_from_slice(&Self::MAGIC);
        b[4..8].copy_from_slice(&self.m.to_le_bytes());
        b[8..12].copy_from_slice(&self.m0.to_le_bytes());
        b[12..16].copy_from_slice(&self.rows.to_le_bytes());
        b[16..24].copy_from_slice(&self.seed.to_le_bytes());
        b[24..28].copy_from_slice(&self.slots.to_le_bytes());
        b[28..32].copy_from_slice(&self.linked.to_le_bytes());
        b[32..40].copy_from_slice(&self.entry.to_le_bytes());
        b
    }

    /// `None` where the bytes are not a stored state of this version.
    pub fn from_bytes(b: &[u8]) -> Option<Self> {
        let b: &[u8; Self::BYTES] = b.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let u64_at = |at: usize| u32_at(at) as u64 | (u32_at(at + 4) as u64) << 32;
        if b[0..4] != Self::MAGIC || u64_at(40) != 0 {
            return None;
        }
        Some(State {
            m: u32_at(4),
            m0: u32_at(8),
            rows: u32_at(12),
            seed: u64_at(16),
            slots: u32_at(24),
            linked: u32_at(28),
            entry: u64_at(32),
        })
    }
}
