//! The loops over a block: table look-ups by byte shuffles (FastScan: André, Kermarrec and Le Scouarnec, 2017).
//!
//! Sums run in 16 bits for up to 256 sub-codes (1,024 dimensions): 256 × 255 < 2^16; longer codes are summed in parts.
//! Blocks are read with loads written in assembly: others may store to them meanwhile, and such a load is one of
//! relaxed atomic bytes, which no intrinsic offers.

use super::{FACTORS, LANES, Lut, SUB_WORDS};
use crate::level::Level;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Sub-codes whose sums fit 16 bits.
#[cfg(target_arch = "x86_64")]
const PART: usize = 256;

pub(super) fn sums(level: Level, codes: &[AtomicU32], table: &[u8]) -> [u32; LANES] {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is one that this processor has.
        Level::Avx512 => unsafe { avx512::sums(codes, table) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2::sums(codes, table) },
        _ => scalar_sums(codes, table),
    }
}

#[inline]
pub(super) fn estimates(level: Level, block: &[AtomicU32], lut: &Lut, distance: f32) -> [f32; LANES] {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is one that this processor has.
        Level::Avx512 => unsafe { avx512::estimates(block, lut, distance) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2::estimates(block, lut, distance) },
        _ => {
            let mut words = [0; LANES];
            for (o, w) in words.iter_mut().zip(block) {
                *o = w.load(Relaxed);
            }
            combine(&scalar_sums(&block[FACTORS..], &lut.table), &words, lut, distance)
        }
    }
}

pub(super) fn lut(level: Level, rotated: &[f32], out: &mut Lut) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is one that this processor has.
        Level::Avx512 => unsafe { avx512::lut(rotated, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2::lut(rotated, out) },
        _ => fill_lut(rotated, out),
    }
}

fn scalar_sums(codes: &[AtomicU32], table: &[u8]) -> [u32; LANES] {
    let mut sums = [0; LANES];
    for (sub, table) in codes.as_chunks::<SUB_WORDS>().0.iter().zip(table.as_chunks::<16>().0) {
        for (w, word) in sub.iter().enumerate() {
            for (j, byte) in word.load(Relaxed).to_le_bytes().into_iter().enumerate() {
                sums[w * 4 + j] += u32::from(table[usize::from(byte & 15)]);
                sums[w * 4 + j + 16] += u32::from(table[usize::from(byte >> 4)]);
            }
        }
    }
    sums
}

#[inline(always)]
fn combine(sums: &[u32; LANES], factors: &[u32; LANES], lut: &Lut, distance: f32) -> [f32; LANES] {
    let mut out = [0f32; LANES];
    for ((o, s), f) in out.iter_mut().zip(sums).zip(factors) {
        let (a, b) = (f32::from_bits(f & 0xFFFF_0000), f32::from_bits(f << 16));
        // At most 2^24, so the conversion is exact.
        let dot = *s as i32 as f32 * lut.delta - lut.low;
        *o = distance + a - b * dot;
    }
    out
}

/// Bit j of the 16 codes, as a choice between two numbers.
const BIT: [[f32; 16]; 4] = {
    let mut b = [[0.0; 16]; 4];
    let mut c = 0;
    while c < 16 {
        let mut j = 0;
        while j < 4 {
            b[j][c] = (c >> j & 1) as f32;
            j += 1;
        }
        c += 1;
    }
    b
};

/// An entry is Σ ±v + Σ |v| over four dimensions: for each 2v where the bit agrees with v's sign, else nothing.
#[inline(always)]
fn fill_lut(rotated: &[f32], out: &mut Lut) {
    let mut low = [0f32; 4];
    let mut top = 0f32;
    for v in rotated.as_chunks::<4>().0 {
        let mut range = 0.0;
        for j in 0..4 {
            let m = v[j].abs();
            low[j] += m;
            range += m;
        }
        top = top.max(range);
    }
    let low = low.iter().sum::<f32>();
    let delta = top * (2.0 / 255.0);
    let inverse = delta.recip();
    if !low.is_finite() || !delta.is_finite() || !inverse.is_finite() {
        // All zero, or beyond f32: estimates go by the factors alone.
        out.table.fill(0);
        (out.delta, out.low) = (0.0, 0.0);
        return;
    }
    (out.delta, out.low) = (delta, low);
    for (t, v) in out.table.as_chunks_mut::<16>().0.iter_mut().zip(rotated.as_chunks::<4>().0) {
        let mut sum = [0.5f32; 16];
        for j in 0..4 {
            let (yes, no) = (2.0 * v[j].max(0.0) * inverse, 2.0 * (-v[j]).max(0.0) * inverse);
            for c in 0..16 {
                sum[c] += BIT[j][c] * yes + (1.0 - BIT[j][c]) * no;
            }
        }
        for c in 0..16 {
            debug_assert!(sum[c] < 256.0);
            // SAFETY: at least 0.5, and at most 255.5 but for rounding: inside i32.
            t[c] = unsafe { sum[c].to_int_unchecked::<i32>() } as u8;
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! level_scans {
    ($name:ident, $features:literal, $reg:ident, $vec:ident, $mov:literal, $width:literal,
     $load:ident, $zero:ident, $set:ident, $and:ident, $srl:ident, $sll:ident, $shuffle:ident, $add:ident, $sub:ident, $fold:path) => {
        mod $name {
            use super::*;
            use std::arch::x86_64::*;

            /// A load that may race with stores of others (each byte then is an old or a new one).
            ///
            /// # Safety
            /// The bytes of one vector behind `p` lie in one block.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn shared(p: *const AtomicU32) -> $vec {
                let v: $vec;
                // SAFETY: reads bytes that the caller vouches for, and nothing else.
                unsafe {
                    std::arch::asm!(concat!($mov, " {v}, [{p}]"), p = in(reg) p, v = out($reg) v,
                        options(readonly, nostack, preserves_flags));
                }
                v
            }

            #[target_feature(enable = $features)]
            pub(super) fn sums(codes: &[AtomicU32], table: &[u8]) -> [u32; LANES] {
                let mut out = [0u32; LANES];
                let nibble = $set(0x0F);
                for (codes, table) in codes.chunks(PART * SUB_WORDS).zip(table.chunks(PART * 16)) {
                    let [mut a0, mut a1, mut b0, mut b1] = [$zero(); 4];
                    for (c, t) in codes.as_chunks::<{ $width / 4 }>().0.iter().zip(table.as_chunks::<$width>().0) {
                        // SAFETY: one vector is what the chunks hold.
                        let (c, t) = unsafe { (shared(c.as_ptr()), $load(t.as_ptr().cast())) };
                        let low = $shuffle(t, $and(c, nibble));
                        let high = $shuffle(t, $and($srl::<4>(c), nibble));
                        // Even lanes with odd ones above them, and odd lanes alone.
                        a0 = $add(a0, low);
                        a1 = $add(a1, $srl::<8>(low));
                        b0 = $add(b0, high);
                        b1 = $add(b1, $srl::<8>(high));
                    }
                    a0 = $sub(a0, $sll::<8>(a1));
                    b0 = $sub(b0, $sll::<8>(b1));
                    let quads = [(a0, a1), (b0, b1)].map(|(even, odd)| ($fold(even), $fold(odd)));
                    for (out, (even, odd)) in out.as_chunks_mut::<16>().0.iter_mut().zip(quads) {
                        let (first, second) = (_mm_unpacklo_epi16(even, odd), _mm_unpackhi_epi16(even, odd));
                        for (out, v) in out.as_chunks_mut::<8>().0.iter_mut().zip([first, second]) {
                            let mut now = [0u32; 8];
                            // SAFETY: eight numbers of four bytes.
                            unsafe { _mm256_storeu_si256(now.as_mut_ptr().cast(), _mm256_cvtepu16_epi32(v)) };
                            for (o, n) in out.iter_mut().zip(now) {
                                *o += n;
                            }
                        }
                    }
                }
                out
            }

            #[target_feature(enable = $features)]
            pub(super) fn estimates(block: &[AtomicU32], lut: &Lut, distance: f32) -> [f32; LANES] {
                let (factors, codes) = block.split_at(FACTORS);
                let mut words = [0u32; LANES];
                let from = factors.as_chunks::<{ $width / 4 }>().0;
                for (o, w) in words.as_chunks_mut::<{ $width / 4 }>().0.iter_mut().zip(from) {
                    // SAFETY: one vector is what the chunks hold.
                    *o = unsafe { std::mem::transmute::<$vec, [u32; $width / 4]>(shared(w.as_ptr())) };
                }
                combine(&sums(codes, &lut.table), &words, lut, distance)
            }

            #[target_feature(enable = $features)]
            pub(super) fn lut(rotated: &[f32], out: &mut Lut) {
                fill_lut(rotated, out);
            }
        }
    };
}

/// Sums of the 128-bit parts, in 16 bits.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn fold256(v: std::arch::x86_64::__m256i) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::*;
    _mm_add_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn fold512(v: std::arch::x86_64::__m512i) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::*;
    fold256(_mm256_add_epi16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v)))
}

#[cfg(target_arch = "x86_64")]
level_scans!(
    avx2,
    "avx2",
    ymm_reg,
    __m256i,
    "vmovdqu",
    32,
    _mm256_loadu_si256,
    _mm256_setzero_si256,
    _mm256_set1_epi8,
    _mm256_and_si256,
    _mm256_srli_epi16,
    _mm256_slli_epi16,
    _mm256_shuffle_epi8,
    _mm256_add_epi16,
    _mm256_sub_epi16,
    super::fold256
);
#[cfg(target_arch = "x86_64")]
level_scans!(
    avx512,
    "avx512f,avx512bw,avx512vl,avx512dq,avx2",
    zmm_reg,
    __m512i,
    "vmovdqu64",
    64,
    _mm512_loadu_si512,
    _mm512_setzero_si512,
    _mm512_set1_epi8,
    _mm512_and_si512,
    _mm512_srli_epi16,
    _mm512_slli_epi16,
    _mm512_shuffle_epi8,
    _mm512_add_epi16,
    _mm512_sub_epi16,
    super::fold512
);
