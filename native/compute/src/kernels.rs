//! The loops. One scalar source, compiled once a level; half precision has its own conversion per level.
//!
//! Sums run in 64 lanes (f32) so that the compiler keeps four vector accumulators; the error against an exact sum is at
//! most about n/64 + 6 roundings of the sum of magnitudes. Products of int8 are summed in i32: 127² · n overflows only
//! beyond n = 133,000, above the largest dimension.

use crate::level::Level;

const LANES: usize = 64;

macro_rules! float_body {
    ($a:expr, $b:expr, $n:expr, |$x:ident, $y:ident, $s:ident| $step:expr, $fma:expr) => {{
        let (a, b, n) = ($a, $b, $n);
        let mut acc = [0f32; LANES];
        let whole = n / LANES * LANES;
        let mut i = 0;
        while i < whole {
            for l in 0..LANES {
                // SAFETY: i + l < n, and the caller promised n readable elements.
                let ($x, $y) = unsafe { (a.add(i + l).read_unaligned(), b.add(i + l).read_unaligned()) };
                let $s = acc[l];
                acc[l] = $step;
            }
            i += LANES;
        }
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                acc[l] += acc[l + width];
            }
            width /= 2;
        }
        let mut sum = acc[0];
        while i < n {
            // SAFETY: i < n.
            let ($x, $y) = unsafe { (a.add(i).read_unaligned(), b.add(i).read_unaligned()) };
            let $s = sum;
            sum = $step;
            i += 1;
        }
        sum
    }};
}

macro_rules! level_kernels {
    ($name:ident, $fma:expr, $(#[$attr:meta])*) => {
        pub(crate) mod $name {
            use super::LANES;

            $(#[$attr])*
            pub(crate) unsafe fn dot_f32(a: *const f32, b: *const f32, n: usize) -> f32 {
                float_body!(a, b, n, |x, y, s| if $fma { x.mul_add(y, s) } else { s + x * y }, $fma)
            }

            $(#[$attr])*
            pub(crate) unsafe fn l2_f32(a: *const f32, b: *const f32, n: usize) -> f32 {
                float_body!(a, b, n, |x, y, s| { let d = x - y; if $fma { d.mul_add(d, s) } else { s + d * d } }, $fma)
            }

            $(#[$attr])*
            pub(crate) unsafe fn dot_i8(a: *const i8, b: *const i8, n: usize) -> i32 {
                let mut sum = 0i32;
                for i in 0..n {
                    // SAFETY: i < n, and the caller promised n readable elements.
                    let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
                    sum += i32::from(x) * i32::from(y);
                }
                sum
            }
        }
    };
}

level_kernels!(scalar, false,);
#[cfg(target_arch = "x86_64")]
level_kernels!(avx2, true, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
level_kernels!(avx512, true, #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]);
#[cfg(target_arch = "aarch64")]
level_kernels!(neon, true, #[target_feature(enable = "neon")]);

type F32 = unsafe fn(*const f32, *const f32, usize) -> f32;

/// The kernels of one level. Every function reads `n` elements behind each pointer; alignment does not matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernels {
    pub dot_f32: F32,
    pub l2_f32: F32,
    pub dot_i8: unsafe fn(*const i8, *const i8, usize) -> i32,
    pub dot_f16: unsafe fn(*const f32, *const u16, usize) -> f32,
    pub l2_f16: unsafe fn(*const f32, *const u16, usize) -> f32,
    pub dot_f16_rows: unsafe fn(*const u16, *const u16, usize) -> f32,
    pub l2_f16_rows: unsafe fn(*const u16, *const u16, usize) -> f32,
}

/// Half precision without vector instructions.
mod half_scalar {
    use half::f16;

    pub(super) unsafe fn widen(a: *const u16, out: *mut f32, n: usize) {
        for i in 0..n {
            // SAFETY: the caller promised n elements behind both pointers.
            unsafe { out.add(i).write_unaligned(f16::from_bits(a.add(i).read_unaligned()).to_f32()) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! half_x86 {
    ($name:ident, $features:literal, $width:literal, $load:ident, $raw:ident, $cvt:ident, $store:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn widen(a: *const u16, out: *mut f32, n: usize) {
                let whole = n / $width * $width;
                let mut i = 0;
                while i < whole {
                    // SAFETY: i + width <= n, and the caller promised n elements behind both pointers.
                    unsafe { $store(out.add(i), $cvt($load(a.add(i).cast::<$raw>()))) };
                    i += $width;
                }
                // SAFETY: the rest lies behind `whole`.
                unsafe { super::half_scalar::widen(a.add(whole), out.add(whole), n - whole) };
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
half_x86!(half_avx2, "avx2,fma,f16c", 8, _mm_loadu_si128, __m128i, _mm256_cvtph_ps, _mm256_storeu_ps);
#[cfg(target_arch = "x86_64")]
half_x86!(
    half_avx512,
    "avx512f,avx512bw,avx512vl,fma,f16c",
    16,
    _mm256_loadu_si256,
    __m256i,
    _mm512_cvtph_ps,
    _mm512_storeu_ps
);

/// Half-precision rows are widened block by block into a buffer that stays in the first cache, then measured as f32.
const BLOCK: usize = 256;

macro_rules! half_kernels {
    ($dot:ident, $l2:ident, $dot_rows:ident, $l2_rows:ident, $widen:path, $dot32:path, $l232:path) => {
        unsafe fn $dot(q: *const f32, r: *const u16, n: usize) -> f32 {
            // SAFETY: every block lies inside the n elements that the caller promised.
            unsafe { by_blocks(r, n, $widen, |at, b, m| $dot32(q.add(at), b, m)) }
        }
        unsafe fn $l2(q: *const f32, r: *const u16, n: usize) -> f32 {
            // SAFETY: as above.
            unsafe { by_blocks(r, n, $widen, |at, b, m| $l232(q.add(at), b, m)) }
        }
        unsafe fn $dot_rows(a: *const u16, b: *const u16, n: usize) -> f32 {
            // SAFETY: as above.
            unsafe { by_two_blocks(a, b, n, $widen, $dot32) }
        }
        unsafe fn $l2_rows(a: *const u16, b: *const u16, n: usize) -> f32 {
            // SAFETY: as above.
            unsafe { by_two_blocks(a, b, n, $widen, $l232) }
        }
    };
}

type Widen = unsafe fn(*const u16, *mut f32, usize);

/// # Safety
/// `r` has n readable elements; `f` reads what it is given.
unsafe fn by_blocks(
    r: *const u16,
    n: usize,
    widen: Widen,
    f: impl Fn(usize, *const f32, usize) -> f32,
) -> f32 {
    let mut buf = [0f32; BLOCK];
    let (mut at, mut sum) = (0, 0.0);
    while at < n {
        let m = BLOCK.min(n - at);
        // SAFETY: at + m <= n, and the buffer holds BLOCK elements.
        unsafe { widen(r.add(at), buf.as_mut_ptr(), m) };
        sum += f(at, buf.as_ptr(), m);
        at += m;
    }
    sum
}

/// # Safety
/// Both pointers have n readable elements.
unsafe fn by_two_blocks(a: *const u16, b: *const u16, n: usize, widen: Widen, f: F32) -> f32 {
    let buf = [0f32; BLOCK];
    // SAFETY: as for `by_blocks`; the second row is widened the same way.
    unsafe {
        by_blocks(a, n, widen, |at, x, m| {
            let mut y = buf;
            widen(b.add(at), y.as_mut_ptr(), m);
            f(x, y.as_ptr(), m)
        })
    }
}

half_kernels!(dot_h0, l2_h0, dot_hh0, l2_hh0, half_scalar::widen, scalar::dot_f32, scalar::l2_f32);
#[cfg(target_arch = "x86_64")]
half_kernels!(dot_h2, l2_h2, dot_hh2, l2_hh2, half_avx2::widen, avx2::dot_f32, avx2::l2_f32);
#[cfg(target_arch = "x86_64")]
half_kernels!(dot_h5, l2_h5, dot_hh5, l2_hh5, half_avx512::widen, avx512::dot_f32, avx512::l2_f32);

impl Kernels {
    /// The kernels of a level. The caller has checked that the processor has it (`level::available`).
    pub(crate) fn of(level: Level) -> Self {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Kernels {
                dot_f32: avx512::dot_f32,
                l2_f32: avx512::l2_f32,
                dot_i8: avx512::dot_i8,
                dot_f16: dot_h5,
                l2_f16: l2_h5,
                dot_f16_rows: dot_hh5,
                l2_f16_rows: l2_hh5,
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Kernels {
                dot_f32: avx2::dot_f32,
                l2_f32: avx2::l2_f32,
                dot_i8: avx2::dot_i8,
                dot_f16: dot_h2,
                l2_f16: l2_h2,
                dot_f16_rows: dot_hh2,
                l2_f16_rows: l2_hh2,
            },
            #[cfg(target_arch = "aarch64")]
            Level::Neon => Kernels {
                dot_f32: neon::dot_f32,
                l2_f32: neon::l2_f32,
                dot_i8: neon::dot_i8,
                ..Kernels::of(Level::Scalar)
            },
            _ => Kernels {
                dot_f32: scalar::dot_f32,
                l2_f32: scalar::l2_f32,
                dot_i8: scalar::dot_i8,
                dot_f16: dot_h0,
                l2_f16: l2_h0,
                dot_f16_rows: dot_hh0,
                l2_f16_rows: l2_hh0,
            },
        }
    }
}
