//! A random rotation that costs n·log n: random signs, fast Hadamard transforms, half-swap steps.

use crate::level::{Level, cpu_level};

/// Dimensions are padded to a multiple of this: whole cache lines of codes.
pub(super) const STEP: usize = 64;
/// Fewest dimensions of the result: estimates err by 1/√dimensions, so a short vector is worth more bits than elements.
const LEAST: usize = 128;
/// Rounds; with four, what is left of the original axes can no longer be measured.
const ROUNDS: usize = 4;

/// An orthogonal map from `dim` to [`padded`](Self::padded) dimensions, drawn from a seed: the same on every machine,
/// bit for bit. Lengths and distances are kept but for f32 rounding.
///
/// A round flips random signs and transforms the largest power of two of the dimensions, at the front and at the end in
/// turn; where that is not all of them, every dimension is then mixed with the one half the width away (a step of Kac's
/// walk).
#[derive(Debug, Clone)]
pub struct Rotation {
    dim: usize,
    padded: usize,
    power: usize,
    /// A sign and the scale of what comes next, for each round and dimension.
    factors: Vec<f32>,
    level: Level,
}

impl Rotation {
    pub fn new(dim: usize, seed: u64) -> Self {
        Self::at_level(dim, seed, cpu_level())
    }

    pub(crate) fn at_level(dim: usize, seed: u64, level: Level) -> Self {
        assert!(dim > 0, "a vector has a dimension");
        let padded = dim.next_multiple_of(STEP).max(LEAST);
        let power = 1 << padded.ilog2();
        let (transform, mix) = ((power as f32).sqrt().recip(), std::f32::consts::FRAC_1_SQRT_2);
        let mut random = Random(seed);
        let mut factors = Vec::with_capacity(ROUNDS * padded);
        for round in 0..ROUNDS {
            let from = start(round, padded, power);
            let mut bits = 0;
            for i in 0..padded {
                if i % 64 == 0 {
                    bits = random.next();
                }
                let sign = if bits >> (i % 64) & 1 == 0 { 1.0 } else { -1.0 };
                let scale = if (from..from + power).contains(&i) { transform } else { 1.0 };
                factors.push(if power < padded { sign * scale * mix } else { sign * scale });
            }
        }
        Rotation { dim, padded, power, factors, level }
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Dimensions of the result.
    pub fn padded(&self) -> usize {
        self.padded
    }

    /// Rotates `v` (`dim` elements) into `out` (`padded` elements). `scratch` is any vector, best the same every time.
    pub fn rotate(&self, v: &[f32], out: &mut [f32], scratch: &mut Vec<f32>) {
        assert!(v.len() == self.dim && out.len() == self.padded);
        out[..self.dim].copy_from_slice(v);
        out[self.dim..].fill(0.0);
        scratch.resize(self.power, 0.0);
        match self.level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level is one that this processor has.
            Level::Avx512 => unsafe { avx512(&self.factors, self.power, out, scratch) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { avx2(&self.factors, self.power, out, scratch) },
            _ => rounds(&self.factors, self.power, out, scratch),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(factors: &[f32], power: usize, x: &mut [f32], scratch: &mut [f32]) {
    rounds(factors, power, x, scratch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn avx512(factors: &[f32], power: usize, x: &mut [f32], scratch: &mut [f32]) {
    rounds(factors, power, x, scratch);
}

/// First dimension of the part that a round transforms.
fn start(round: usize, padded: usize, power: usize) -> usize {
    if round.is_multiple_of(2) { 0 } else { padded - power }
}

#[inline(always)]
fn rounds(factors: &[f32], power: usize, x: &mut [f32], scratch: &mut [f32]) {
    let padded = x.len();
    for (round, f) in factors.chunks_exact(padded).enumerate() {
        for (x, f) in x.iter_mut().zip(f) {
            *x *= f;
        }
        let from = start(round, padded, power);
        hadamard(&mut x[from..from + power], scratch);
        if power < padded {
            let (a, b) = x.split_at_mut(padded / 2);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
    }
}

/// The unscaled transform with every stage of the same shape (Pease 1968), which vector instructions like.
#[inline(always)]
fn hadamard(x: &mut [f32], scratch: &mut [f32]) {
    let stages = x.len().ilog2();
    for _ in 0..stages / 2 {
        stage(x, scratch);
        stage(scratch, x);
    }
    if stages % 2 == 1 {
        stage(x, scratch);
        x.copy_from_slice(scratch);
    }
}

#[inline(always)]
fn stage(from: &[f32], to: &mut [f32]) {
    let (a, b) = from.split_at(from.len() / 2);
    for ((o, a), b) in to.as_chunks_mut::<2>().0.iter_mut().zip(a).zip(b) {
        *o = [a + b, a - b];
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}
