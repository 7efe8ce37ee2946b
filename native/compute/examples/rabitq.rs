//! Times of the pieces of a packed search at 384 dimensions, in the first cache and streaming:
//! `cargo run --release -p kektordb-compute --example rabitq` (`KEKTORDB_CPU` chooses the kernels).
#![allow(clippy::print_stdout)]

use kektordb_compute::rabitq::{LaneCodec, Lut, Rotation};
use kektordb_compute::{Codec, Dtype, Metric, cpu_level};
use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

fn time(name: &str, rounds: usize, mut f: impl FnMut(usize)) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        (0..rounds).for_each(&mut f);
        best = best.min(start.elapsed().as_nanos() as f64 / rounds as f64);
    }
    println!("{name:34} {best:8.1} ns");
}

fn main() {
    const DIM: usize = 384;
    const BLOCKS: usize = 40_000;
    println!("level {}", cpu_level());
    let rotation = Rotation::new(DIM, 1);
    let codec = LaneCodec::new(Metric::L2, rotation.padded());
    let words = codec.words();
    let mut state = 1u32;
    let blocks: Vec<AtomicU32> = (0..words * BLOCKS)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            AtomicU32::new(state & 0x3FFF_3FFF)
        })
        .collect();
    let v: Vec<f32> = (0..DIM).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
    let w: Vec<f32> = (0..DIM).map(|i| ((i * 59) % 103) as f32 / 103.0 - 0.5).collect();
    let (mut pv, mut pw, mut scratch, mut lut) =
        (vec![0.0; rotation.padded()], vec![0.0; rotation.padded()], Vec::new(), Lut::default());
    rotation.rotate(&w, &mut pw, &mut scratch);
    time("rotate", 100_000, |_| rotation.rotate(black_box(&v), &mut pv, &mut scratch));
    time("lut", 100_000, |_| codec.lut(black_box(&pv), &mut lut));
    time("write_lane", 100_000, |i| codec.write_lane(&blocks[..words], i % 32, &pv, black_box(&pw)));
    time("scan32 cached", 1_000_000, |_| _ = black_box(codec.scan32(black_box(&blocks[..words]), &lut)));
    time("estimates cached", 1_000_000, |_| {
        black_box(codec.estimates(black_box(&blocks[..words]), &lut, 1.0));
    });
    time("estimates streaming", BLOCKS, |i| {
        black_box(codec.estimates(&blocks[i * words..(i + 1) * words], &lut, 1.0));
    });
    let rows = Codec::new(Metric::L2, Dtype::F32, DIM);
    let mut row = vec![0; rows.row_bytes()];
    rows.encode(&w, &mut row);
    let q = rows.query(&v);
    time("f32 distance cached, for comparison", 1_000_000, |_| {
        // SAFETY: one whole row of this codec.
        black_box(unsafe { rows.distance(&q, black_box(row.as_ptr())) });
    });
}
