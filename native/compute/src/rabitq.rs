//! One-bit codes of a node's neighbours, and estimates of their distances from a query, 32 at a time.
//!
//! A code holds the signs of the rotated difference neighbour − centre (RaBitQ, arXiv 2405.12497, used for the
//! neighbours of a graph as in SymphonyQG, arXiv 2411.12229). With `P` the rotation, `r` the difference and `s` its
//! rotated signs, `⟨q − c, r⟩ ≈ ‖r‖² / ‖Pr‖₁ · ⟨s, Pq − Pc⟩`, so that
//!
//! > estimate = distance(q, centre) + A − B·⟨s, Pq⟩
//!
//! with two numbers a neighbour that the query has no part in. The error is at most
//! `2‖r‖‖q − c‖ · √(1/w² − 1) · ε/√(D − 1)` but for a share of about `2·exp(−ε²/2)` of the directions (half of it under
//! cosine and dot), where `w = ‖Pr‖₁ / (√D·‖r‖)`, about 0.8, and `D` is the padded dimension; the tables of the query
//! add about `√(D/48)·Δ·B`, `Δ` being their step.
//!
//! Promise: every level gives the same bits, so a code made on one machine serves on any other. Blocks are words that
//! may be rewritten while others scan them: a scan that meets a half-written lane estimates that lane wrongly and no
//! other. Nothing panics or leaves its block whatever the words hold.
//!
//! Cost at 384 dimensions: 1,664 bytes for 32 neighbours. A scan reads all of them once; `write_lane` touches one word
//! in every 16 bytes.

mod rotation;
mod scan;

pub use rotation::Rotation;

use crate::codec::Metric;
use crate::level::{Level, cpu_level};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Neighbours that one block holds.
pub const LANES: usize = 32;
/// Words of a block before its codes: a lane's factors each.
const FACTORS: usize = LANES;
/// Words of one sub-code: four dimensions of all lanes. Byte j holds lane j in its low half and lane j + 16 in its high.
const SUB_WORDS: usize = 4;
/// Accumulators of the sums over dimensions: a fixed order of adding, so
/// that all levels agree.
const ACC: usize = 16;

/// A query's look-up tables: for each four dimensions the 16 possible sums, in steps of `delta`.
#[derive(Debug, Clone, Default)]
pub struct Lut {
    table: Vec<u8>,
    delta: f32,
    /// Sum of the magnitudes: what all tables' zeros stand for, negated.
    low: f32,
}

/// Writes and reads blocks of neighbour codes.
///
/// A block is [`words`](Self::words) 32-bit words: 32 pairs of factors (`A` in the high half, `B` in the low one, both
/// the upper halves of an f32: their rounding is well below what the tables of the query lose), then the codes.
#[derive(Debug, Clone)]
pub struct LaneCodec {
    metric: Metric,
    padded: usize,
    level: Level,
}

impl LaneCodec {
    /// For vectors rotated to `padded` dimensions by [`Rotation`].
    pub fn new(metric: Metric, padded: usize) -> Self {
        Self::at_level(metric, padded, cpu_level())
    }

    pub(crate) fn at_level(metric: Metric, padded: usize, level: Level) -> Self {
        assert!(padded > 0 && padded.is_multiple_of(rotation::STEP), "padded to {padded}");
        LaneCodec { metric, padded, level }
    }

    pub fn padded(&self) -> usize {
        self.padded
    }

    /// 32-bit words of a block, a multiple of 32.
    pub fn words(&self) -> usize {
        FACTORS + self.padded / 4 * SUB_WORDS
    }

    /// Writes the code of a neighbour into a lane and touches no other. Both vectors are rotated ones. Writers of one
    /// block keep each other out; readers need not be kept out.
    pub fn write_lane(&self, block: &[AtomicU32], lane: usize, centre: &[f32], neighbour: &[f32]) {
        assert!(block.len() >= self.words() && lane < LANES);
        assert!(centre.len() == self.padded && neighbour.len() == self.padded);
        block[lane].store(self.factors(centre, neighbour), Relaxed);
        let shift = lane % 4 * 8 + lane / 16 * 4;
        let words = block[FACTORS + lane % 16 / 4..].iter().step_by(SUB_WORDS);
        for ((w, c), n) in words.zip(centre.as_chunks::<4>().0).zip(neighbour.as_chunks::<4>().0) {
            let mut code = 0;
            for j in 0..4 {
                code |= u32::from(n[j] - c[j] >= 0.0) << j;
            }
            let old = w.load(Relaxed);
            let new = old & !(0xF << shift) | code << shift;
            if new != old {
                w.store(new, Relaxed);
            }
        }
    }

    /// Copies a lane from one block, or another place in it, to a lane. Its centre must be the same.
    pub fn copy_lane(&self, from: &[AtomicU32], lane: usize, to: &[AtomicU32], to_lane: usize) {
        assert!(from.len() >= self.words() && to.len() >= self.words() && lane < LANES && to_lane < LANES);
        to[to_lane].store(from[lane].load(Relaxed), Relaxed);
        let place = |l: usize| (FACTORS + l % 16 / 4, l % 4 * 8 + l / 16 * 4);
        let ((a, sa), (b, sb)) = (place(lane), place(to_lane));
        for m in 0..self.padded / 4 {
            let code = from[a + m * SUB_WORDS].load(Relaxed) >> sa & 0xF;
            let w = &to[b + m * SUB_WORDS];
            w.store(w.load(Relaxed) & !(0xF << sb) | code << sb, Relaxed);
        }
    }

    /// Both factors in one word. A pair that no f32 can hold becomes zeros: the estimate is then the centre's distance.
    fn factors(&self, centre: &[f32], neighbour: &[f32]) -> u32 {
        let (mut rr, mut l1, mut sc, mut cr) = ([0f32; ACC], [0f32; ACC], [0f32; ACC], [0f32; ACC]);
        for (c, n) in centre.as_chunks::<ACC>().0.iter().zip(neighbour.as_chunks::<ACC>().0) {
            for l in 0..ACC {
                let r = n[l] - c[l];
                rr[l] += r * r;
                l1[l] += r.abs();
                sc[l] += if r >= 0.0 { c[l] } else { -c[l] };
                cr[l] += c[l] * r;
            }
        }
        let [rr, l1, sc, cr] = [rr, l1, sc, cr].map(|v| v.iter().sum::<f32>());
        if l1 <= 0.0 || !l1.is_finite() {
            return 0;
        }
        let (b, own) = if self.metric == Metric::L2 { (2.0 * rr / l1, rr) } else { (rr / l1, -cr) };
        // `A` is made with the `B` that will be read, so that rounding does not part what belongs together.
        let b = upper_half(b);
        let a = upper_half(own + f32::from_bits(b << 16) * sc);
        let finite = |half: u32| f32::from_bits(half << 16).is_finite();
        if finite(a) && finite(b) { a << 16 | b } else { 0 }
    }

    /// Fills a query's tables from the rotated query.
    pub fn lut(&self, rotated: &[f32], out: &mut Lut) {
        assert!(rotated.len() == self.padded);
        out.table.resize(self.padded / 4 * 16, 0);
        scan::lut(self.level, rotated, out);
    }

    /// Sums of the tables' entries for each lane's code; never more than `padded / 4 × 255`.
    pub fn scan32(&self, block: &[AtomicU32], lut: &Lut) -> [u32; LANES] {
        assert!(block.len() >= self.words() && lut.table.len() == self.padded / 4 * 16);
        scan::sums(self.level, &block[FACTORS..self.words()], &lut.table)
    }

    /// Estimates of the 32 neighbours' distances from the query; `distance` is the query's distance from the centre.
    #[inline]
    pub fn estimates(&self, block: &[AtomicU32], lut: &Lut, distance: f32) -> [f32; LANES] {
        assert!(block.len() >= self.words() && lut.table.len() == self.padded / 4 * 16);
        scan::estimates(self.level, &block[..self.words()], lut, distance)
    }
}

/// The upper half of an f32, rounded to nearest (ties to even).
fn upper_half(x: f32) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() {
        return 0x7FC0;
    }
    (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
}

#[cfg(test)]
mod tests;
