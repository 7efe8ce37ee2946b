use super::*;
use crate::level::available;
use proptest::prelude::*;

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::L2];
const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::I8];

fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// The distance of a vector to a stored row in f64, and the size of what is summed, for the bound.
fn exact(c: &Codec, x: &[f32], b: &[u8]) -> (f64, f64) {
    let mut y = vec![0.0; c.dim()];
    c.decode(b, &mut y);
    let dot: f64 = x.iter().zip(&y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum();
    let size: f64 = x.iter().zip(&y).map(|(p, q)| (f64::from(*p) * f64::from(*q)).abs()).sum();
    let l2: f64 = x.iter().zip(&y).map(|(p, q)| (f64::from(*p) - f64::from(*q)).powi(2)).sum();
    let n2: f64 = x.iter().chain(y.iter()).map(|p| f64::from(*p).powi(2)).sum();
    match c.metric() {
        Metric::Cosine => (1.0 - dot, size + 1.0),
        Metric::Dot => (-dot, size + 1e-6),
        Metric::L2 => (l2, if c.dtype() == Dtype::I8 { n2 + l2 } else { l2 } + 1e-6),
    }
}

#[test]
fn every_shape_start_and_level_agrees_with_f64() {
    for level in available() {
        for metric in METRICS {
            for dtype in DTYPES {
                for dim in (1..=257).chain([384, 768, 1536]) {
                    let c = Codec::at_level(metric, dtype, dim, level);
                    let (va, vb) = (numbers(dim as u64, dim), numbers(dim as u64 + 7, dim));
                    let shift = dim % 16;
                    let mut room = vec![0u8; 2 * c.row_bytes() + 64];
                    let (a, b) = room.split_at_mut(c.row_bytes() + shift);
                    let (a, b) = (&mut a[shift..], &mut b[1..=c.row_bytes()]);
                    c.encode(&va, a);
                    c.encode(&vb, b);
                    let mut stored = vec![0.0; dim];
                    c.decode(a, &mut stored);
                    let (want, size) = exact(&c, &stored, b);
                    // SAFETY: both rows were written by this codec and are whole.
                    let got = unsafe { c.distance_rows(a.as_ptr(), b.as_ptr()) };
                    let bound = size * (dim as f64 / 64.0 + 16.0) * f64::from(f32::EPSILON);
                    assert!(
                        (f64::from(got) - want).abs() <= bound,
                        "{level} {metric:?} {dtype:?} {dim}: {got} {want}"
                    );
                    // A query is as exact as its vector, but for int8 rows it is quantised like one of them.
                    let q = c.query(&va);
                    let (want, size) = exact(&c, if dtype == Dtype::I8 { &stored } else { &q.v }, b);
                    // SAFETY: as above.
                    let got = unsafe { c.distance(&q, b.as_ptr()) };
                    let bound = size * (dim as f64 / 64.0 + 16.0) * f64::from(f32::EPSILON);
                    assert!(
                        (f64::from(got) - want).abs() <= bound,
                        "query {level} {metric:?} {dtype:?} {dim}: {got} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn many_rows_at_once_equal_one_by_one() {
    for dtype in DTYPES {
        let c = Codec::new(Metric::L2, dtype, 37);
        let stride = c.row_bytes();
        let mut rows = vec![0u8; stride * 50];
        for (i, r) in rows.chunks_exact_mut(stride).enumerate() {
            c.encode(&numbers(i as u64, 37), r);
        }
        let q = c.query(&numbers(99, 37));
        let ids = [3, 49, 0, 7, 7];
        let (mut some, mut all) = ([0.0; 5], [0.0; 50]);
        // SAFETY: 50 whole rows lie in `rows`.
        unsafe {
            c.distances(&q, rows.as_ptr(), stride, &ids, &mut some);
            c.distances_range(&q, rows.as_ptr(), stride, 0, 50, &mut all);
        }
        for (d, i) in some.iter().zip(ids) {
            assert_eq!(*d, all[i as usize]);
        }
    }
}

#[test]
fn extreme_lengths_keep_their_direction() {
    for scale in [1e-30f32, 1e30, f32::MIN_POSITIVE, 3e38] {
        let c = Codec::new(Metric::Cosine, Dtype::F32, 4);
        let v: Vec<f32> = [1.0, -1.0, 0.5, 0.25].iter().map(|x| x * scale).collect();
        c.check(&v).unwrap();
        let mut row = vec![0; 16];
        c.encode(&v, &mut row);
        let q = c.query(&[1.0, -1.0, 0.5, 0.25]);
        // SAFETY: a whole row of this codec.
        assert!(unsafe { c.distance(&q, row.as_ptr()) }.abs() < 1e-6, "{scale}");
    }
}

#[test]
fn int8_sums_do_not_overflow_at_the_largest_dimension() {
    for level in available() {
        let c = Codec::at_level(Metric::Dot, Dtype::I8, 65_536, level);
        let v = vec![1.0f32; 65_536];
        let mut row = vec![0; c.row_bytes()];
        c.encode(&v, &mut row);
        // SAFETY: a whole row of this codec.
        let d = unsafe { c.distance_rows(row.as_ptr(), row.as_ptr()) };
        assert!((d + 65_536.0).abs() < 8.0, "{level} {d}");
    }
}

#[test]
fn faults_name_the_element() {
    let c = Codec::new(Metric::Cosine, Dtype::F32, 3);
    assert_eq!(
        c.check(&[1.0, f32::INFINITY, 0.0]),
        Err(VectorFault::NotFinite { position: 1, value: f32::INFINITY })
    );
    assert!(matches!(c.check(&[1.0, 0.0, f32::NAN]), Err(VectorFault::NotFinite { position: 2, .. })));
    assert_eq!(c.check(&[0.0, -0.0, 0.0]), Err(VectorFault::ZeroUnderCosine));
    assert_eq!(c.check(&[1.0]), Err(VectorFault::Dimension { got: 1, want: 3 }));
    assert_eq!(c.check(&[f32::MAX, f32::MAX, 0.0]), Ok(()));
    assert_eq!(Codec::new(Metric::L2, Dtype::F32, 1).check(&[0.0]), Ok(()));
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(v in proptest::collection::vec(-1e3f32..1e3, 1..40)) {
        for dtype in DTYPES {
            let c = Codec::new(Metric::L2, dtype, v.len());
            let mut row = vec![0; c.row_bytes()];
            c.encode(&v, &mut row);
            let mut back = vec![0.0; v.len()];
            c.decode(&row, &mut back);
            let top = v.iter().fold(0f32, |m, x| m.max(x.abs()));
            for (x, y) in v.iter().zip(&back) {
                let bound = match dtype { Dtype::F32 => 0.0, Dtype::F16 => x.abs() / 1024.0 + 1e-6, Dtype::I8 => top / 253.0 + 1e-6 };
                prop_assert!((x - y).abs() <= bound, "{dtype:?} {x} {y}");
            }
        }
    }
}
