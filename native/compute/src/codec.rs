//! Rows and queries: how vectors are kept, and how far apart they are.

use crate::kernels::Kernels;
use crate::level::{Level, cpu_level};
use half::f16;
use std::fmt;

/// How distance is measured. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Metric {
    /// 1 − cosine; rows are kept at unit length.
    Cosine = 0,
    /// The negative dot product.
    Dot = 1,
    /// Squared Euclidean distance.
    L2 = 2,
}

/// How rows are kept. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    F32 = 0,
    F16 = 1,
    /// One signed byte a dimension with one scale a row (largest magnitude = 127).
    I8 = 2,
}

impl Metric {
    pub fn from_u8(n: u8) -> Option<Self> {
        [Metric::Cosine, Metric::Dot, Metric::L2].into_iter().find(|m| *m as u8 == n)
    }
}

impl Dtype {
    pub fn from_u8(n: u8) -> Option<Self> {
        [Dtype::F32, Dtype::F16, Dtype::I8].into_iter().find(|d| *d as u8 == n)
    }
}

/// Why a vector cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VectorFault {
    Dimension {
        got: usize,
        want: usize,
    },
    NotFinite {
        position: usize,
        value: f32,
    },
    /// A vector of length zero has no direction.
    ZeroUnderCosine,
}

impl fmt::Display for VectorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorFault::Dimension { got, want } => write!(f, "dimension is {got}, wanted {want}"),
            VectorFault::NotFinite { position, value } => write!(f, "element {position} is {value}"),
            VectorFault::ZeroUnderCosine => f.write_str("all elements are zero"),
        }
    }
}

impl std::error::Error for VectorFault {}

impl VectorFault {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            VectorFault::Dimension { .. } => "use the embedder that the collection was made for",
            VectorFault::NotFinite { .. } => "vectors hold finite numbers only",
            VectorFault::ZeroUnderCosine => {
                "a zero vector has no direction; leave the row out, or use metric=\"l2\""
            }
        }
    }
}

/// A prepared query.
#[derive(Debug, Clone)]
pub struct Query {
    v: Vec<f32>,
    bytes: Vec<i8>,
    scale: f32,
    /// Squared length of the quantised query.
    norm2: f32,
}

impl Query {
    /// The vector that distances are measured from (of unit length under cosine).
    pub fn vector(&self) -> &[f32] {
        &self.v
    }
}

/// Encodes rows of one collection and measures distances between them. Distances: smaller = nearer.
#[derive(Debug, Clone)]
pub struct Codec {
    metric: Metric,
    dtype: Dtype,
    dim: usize,
    k: Kernels,
}

/// Bytes behind an int8 row's elements: scale f32, squared length f32.
const I8_TAIL: usize = 8;

impl Codec {
    pub fn new(metric: Metric, dtype: Dtype, dim: usize) -> Self {
        Codec::at_level(metric, dtype, dim, cpu_level())
    }

    pub(crate) fn at_level(metric: Metric, dtype: Dtype, dim: usize, level: Level) -> Self {
        Codec { metric, dtype, dim, k: Kernels::of(level) }
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Bytes of one row, a multiple of 4.
    pub fn row_bytes(&self) -> usize {
        match self.dtype {
            Dtype::F32 => self.dim * 4,
            Dtype::F16 => (self.dim * 2).next_multiple_of(4),
            Dtype::I8 => self.dim.next_multiple_of(4) + I8_TAIL,
        }
    }

    /// Refuses what cannot be kept, naming the element.
    pub fn check(&self, vector: &[f32]) -> Result<(), VectorFault> {
        if vector.len() != self.dim {
            return Err(VectorFault::Dimension { got: vector.len(), want: self.dim });
        }
        // A sum is finite only if every element is (or nearly: then the exact look decides).
        let sum: f32 = vector.iter().map(|x| x * 0.0).sum();
        if sum != 0.0
            && let Some(position) = vector.iter().position(|x| !x.is_finite())
        {
            return Err(VectorFault::NotFinite { position, value: vector[position] });
        }
        if self.metric == Metric::Cosine && vector.iter().all(|x| *x == 0.0) {
            return Err(VectorFault::ZeroUnderCosine);
        }
        Ok(())
    }

    /// The vector at unit length, and the length it had. Huge and tiny vectors are scaled first, so nothing overflows.
    fn unit(&self, v: &[f32]) -> (Vec<f32>, f32) {
        let norm2: f64 = v.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let norm = norm2.sqrt();
        let inv = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        (v.iter().map(|x| (f64::from(*x) * inv) as f32).collect(), norm as f32)
    }

    /// Writes a row. Returns the vector's length under cosine, 1 otherwise. `out` has `row_bytes` bytes.
    pub fn encode(&self, vector: &[f32], out: &mut [u8]) -> f32 {
        assert!(vector.len() == self.dim && out.len() == self.row_bytes());
        let unit;
        let (v, norm): (&[f32], f32) = if self.metric == Metric::Cosine {
            unit = self.unit(vector);
            (&unit.0, unit.1)
        } else {
            (vector, 1.0)
        };
        match self.dtype {
            Dtype::F32 => {
                for (o, x) in out.chunks_exact_mut(4).zip(v) {
                    o.copy_from_slice(&x.to_le_bytes());
                }
            }
            Dtype::F16 => {
                out.fill(0);
                for (o, x) in out.chunks_exact_mut(2).zip(v) {
                    let x = x.clamp(-f16::MAX.to_f32(), f16::MAX.to_f32());
                    o.copy_from_slice(&f16::from_f32(x).to_bits().to_le_bytes());
                }
            }
            Dtype::I8 => {
                out.fill(0);
                let mut bytes = vec![0; self.dim];
                let (scale, norm2) = quantise(v, &mut bytes);
                for (o, b) in out.iter_mut().zip(&bytes) {
                    *o = *b as u8;
                }
                let at = self.dim.next_multiple_of(4);
                out[at..at + 4].copy_from_slice(&scale.to_le_bytes());
                out[at + 4..at + 8].copy_from_slice(&norm2.to_le_bytes());
            }
        }
        norm
    }

    /// The stored vector (unit length under cosine). `row` has `row_bytes` bytes, `out` has `dim` elements.
    pub fn decode(&self, row: &[u8], out: &mut [f32]) {
        assert!(out.len() == self.dim && row.len() == self.row_bytes());
        match self.dtype {
            Dtype::F32 => {
                for (o, c) in out.iter_mut().zip(row.chunks_exact(4)) {
                    *o = f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
                }
            }
            Dtype::F16 => {
                for (o, c) in out.iter_mut().zip(row.chunks_exact(2)) {
                    *o = f16::from_bits(u16::from_le_bytes([c[0], c[1]])).to_f32();
                }
            }
            Dtype::I8 => {
                let at = self.dim.next_multiple_of(4);
                let scale = f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
                for (o, b) in out.iter_mut().zip(row) {
                    *o = f32::from(*b as i8) * scale;
                }
            }
        }
    }

    /// A query for `distance`; normalised under cosine, quantised for int8 rows.
    pub fn query(&self, vector: &[f32]) -> Query {
        assert!(vector.len() == self.dim);
        let v = if self.metric == Metric::Cosine { self.unit(vector).0 } else { vector.to_vec() };
        let mut bytes = Vec::new();
        let (mut scale, mut norm2) = (0.0, 0.0);
        if self.dtype == Dtype::I8 {
            bytes = vec![0; self.dim];
            (scale, norm2) = quantise(&v, &mut bytes);
        }
        Query { v, bytes, scale, norm2 }
    }

    #[inline(always)]
    fn of_dot(&self, dot: f32) -> f32 {
        if self.metric == Metric::Cosine { 1.0 - dot } else { -dot }
    }

    #[inline(always)]
    unsafe fn i8_distance(&self, a: *const i8, (sa, na): (f32, f32), row: *const u8) -> f32 {
        // SAFETY: the caller gave a row of `row_bytes` bytes and `dim` elements behind `a`.
        unsafe {
            let dot = (self.k.dot_i8)(a, row.cast(), self.dim) as f32;
            let tail = row.add(self.dim.next_multiple_of(4)).cast::<f32>();
            let (sb, nb) = (tail.read_unaligned(), tail.add(1).read_unaligned());
            // In this order a and b may change places without a change in the last bit.
            let dot = dot * (sa * sb);
            if self.metric == Metric::L2 { (na + nb - 2.0 * dot).max(0.0) } else { self.of_dot(dot) }
        }
    }

    /// Distance of the query to a row.
    ///
    /// # Safety
    /// `row` points to `row_bytes` readable bytes that this codec (or one of the same settings) wrote; `q` is of this codec.
    #[inline]
    pub unsafe fn distance(&self, q: &Query, row: *const u8) -> f32 {
        debug_assert!(q.v.len() == self.dim);
        let (v, n) = (q.v.as_ptr(), self.dim);
        // SAFETY: the caller promised the row; the query has `dim` elements.
        unsafe {
            match (self.dtype, self.metric) {
                (Dtype::F32, Metric::L2) => (self.k.l2_f32)(v, row.cast(), n),
                (Dtype::F32, _) => self.of_dot((self.k.dot_f32)(v, row.cast(), n)),
                (Dtype::F16, Metric::L2) => (self.k.l2_f16)(v, row.cast(), n),
                (Dtype::F16, _) => self.of_dot((self.k.dot_f16)(v, row.cast(), n)),
                (Dtype::I8, _) => self.i8_distance(q.bytes.as_ptr(), (q.scale, q.norm2), row),
            }
        }
    }

    /// Distance between two stored rows.
    ///
    /// # Safety
    /// As for [`distance`](Self::distance), for both rows.
    #[inline]
    pub unsafe fn distance_rows(&self, a: *const u8, b: *const u8) -> f32 {
        let n = self.dim;
        // SAFETY: the caller promised both rows.
        unsafe {
            match (self.dtype, self.metric) {
                (Dtype::F32, Metric::L2) => (self.k.l2_f32)(a.cast(), b.cast(), n),
                (Dtype::F32, _) => self.of_dot((self.k.dot_f32)(a.cast(), b.cast(), n)),
                (Dtype::F16, Metric::L2) => (self.k.l2_f16_rows)(a.cast(), b.cast(), n),
                (Dtype::F16, _) => self.of_dot((self.k.dot_f16_rows)(a.cast(), b.cast(), n)),
                (Dtype::I8, _) => {
                    let tail = a.add(n.next_multiple_of(4)).cast::<f32>();
                    let own = (tail.read_unaligned(), tail.add(1).read_unaligned());
                    self.i8_distance(a.cast(), own, b)
                }
            }
        }
    }

    /// Distances of the query to rows by number; the rows after the next are fetched ahead.
    ///
    /// # Safety
    /// Row `r` lies at `base + r × stride`, for every `r` in `rows`, as for [`distance`](Self::distance).
    pub unsafe fn distances(&self, q: &Query, base: *const u8, stride: usize, rows: &[u32], out: &mut [f32]) {
        assert!(rows.len() == out.len());
        let bytes = self.row_bytes();
        for (i, r) in rows.iter().enumerate() {
            if let Some(ahead) = rows.get(i + 2) {
                prefetch(base.wrapping_add(*ahead as usize * stride), bytes);
            }
            // SAFETY: the caller promised every row.
            out[i] = unsafe { self.distance(q, base.add(*r as usize * stride)) };
        }
    }

    /// Distances of the query to `n` rows that lie one after another, from row `start`.
    ///
    /// # Safety
    /// As for [`distances`](Self::distances), for rows `start..start + n`.
    pub unsafe fn distances_range(
        &self,
        q: &Query,
        base: *const u8,
        stride: usize,
        start: usize,
        n: usize,
        out: &mut [f32],
    ) {
        assert!(out.len() >= n);
        for (i, o) in out.iter_mut().enumerate().take(n) {
            // SAFETY: the caller promised every row.
            *o = unsafe { self.distance(q, base.add((start + i) * stride)) };
        }
    }
}

/// Symmetric, largest magnitude to 127. Returns the scale and the squared length of what was kept.
fn quantise(v: &[f32], out: &mut [i8]) -> (f32, f32) {
    let top = v.iter().fold(0f32, |m, x| m.max(x.abs()));
    if top == 0.0 {
        out.fill(0);
        return (0.0, 0.0);
    }
    let scale = (top / 127.0).max(f32::MIN_POSITIVE);
    let mut sum = 0i64;
    for (o, x) in out.iter_mut().zip(v) {
        let b = (x / scale).round().clamp(-127.0, 127.0) as i8;
        sum += i64::from(b) * i64::from(b);
        *o = b;
    }
    (scale, (sum as f64 * f64::from(scale) * f64::from(scale)) as f32)
}

/// Asks for the cache lines of a row. Any address is fine; nothing is read.
#[inline(always)]
pub fn prefetch(p: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let mut at = 0;
        while at < bytes {
            // SAFETY: a prefetch of any address has no effect but on the cache.
            unsafe { _mm_prefetch(p.wrapping_add(at).cast(), _MM_HINT_T0) };
            at += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (p, bytes);
}

#[cfg(test)]
mod tests;
