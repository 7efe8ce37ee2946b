//! The graph against the exact scan, its invariants, and its behaviour under threads; once with links only, once packed.

use super::*;
use crate::arena::{Arena, Piece};
use crate::flat::scan;
use crate::io::{DiskStorage, MemoryStorage, OpenMode, Region, Storage};
use kektordb_compute::{Codec, Dtype, Metric, Query};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// This file is compiled twice.
const PACKED: bool = super::packed_tests_are(module_path!());

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
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// About normal.
    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32 - 0.5).sum::<f32>() * 1.7
    }
    fn vector(&mut self, dim: usize) -> Vec<f32> {
        (0..dim).map(|_| self.normal()).collect()
    }
}

struct World {
    codec: Codec,
    arena: Arena,
}

impl World {
    fn new(metric: Metric, dtype: Dtype, vectors: &[Vec<f32>]) -> Self {
        let codec = Codec::new(metric, dtype, vectors[0].len());
        let bytes = codec.row_bytes();
        let mut arena = Arena::new(bytes.next_multiple_of(4)).unwrap();
        arena.grow_to(vectors.len()).unwrap();
        for (i, v) in vectors.iter().enumerate() {
            codec.encode(v, &mut arena.row_mut(i)[..bytes]);
        }
        World { codec, arena }
    }

    fn random(seed: u64, metric: Metric, dtype: Dtype, n: usize, dim: usize) -> Self {
        let mut r = Random(seed);
        Self::new(metric, dtype, &(0..n).map(|_| r.vector(dim)).collect::<Vec<_>>())
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(&self.arena, &self.codec, self.arena.rows()).unwrap()
    }

    fn empty(&self, params: Params) -> Graph {
        if PACKED { Graph::packed(params, &self.codec) } else { Graph::new(params) }.unwrap()
    }

    fn open(
        &self,
        params: Params,
        state: &State,
        ground: &[Piece],
        upper: &[Piece],
    ) -> crate::error::Result<Graph> {
        if PACKED {
            Graph::open_packed(params, &self.codec, state, ground, upper)
        } else {
            Graph::open(params, state, ground, upper)
        }
    }

    fn graph(&self, params: Params) -> Graph {
        let mut g = self.empty(params);
        g.grow_to(self.arena.rows()).unwrap();
        g.insert_range(&self.rows(), 0, self.arena.rows() as u32, 1);
        assert_sound(self, &g);
        g
    }
}

fn assert_sound(w: &World, g: &Graph) {
    let wrong: Vec<u32> = (0..g.rows() as u32)
        .step_by(1 + g.rows() / 400)
        .filter(|&r| !g.codes_are_right(&w.rows(), r))
        .collect();
    assert!(wrong.is_empty(), "rows with codes of other neighbours: {wrong:?}");
    let c = g.check();
    assert_eq!(c.problem_count, 0, "{:?}", c.problems);
}

fn ids(hits: &[Hit]) -> Vec<u32> {
    hits.iter().map(|h| h.row).collect()
}

fn recall(got: &[Hit], want: &[Hit]) -> f64 {
    if want.is_empty() {
        return 1.0;
    }
    got.iter().filter(|h| want.iter().any(|w| w.row == h.row)).count() as f64 / want.len() as f64
}

/// Mean recall of `search_auto` over queries against the exact scan; checks order, distances and rights on the way.
fn mean_recall(w: &World, g: &Graph, queries: &[Vec<f32>], k: usize, ef: usize, allow: Allow<'_>) -> f64 {
    let (rows, mut scratch) = (w.rows(), Scratch::new());
    let mut sum = 0.0;
    for v in queries {
        let q = w.codec.query(v);
        let got = g.search_auto(&rows, &q, k, ef, allow, &mut scratch);
        let want = scan(&rows, &q, 0..rows.count(), k, allow);
        assert_eq!(got.len(), want.len());
        assert_legal(&rows, &q, &got, allow);
        sum += recall(&got, &want);
    }
    sum / queries.len() as f64
}

fn assert_legal(rows: &Rows<'_>, q: &Query, hits: &[Hit], allow: Allow<'_>) {
    assert!(hits.is_sorted_by(|a, b| (a.distance, a.row) < (b.distance, b.row)), "{hits:?}");
    for h in hits {
        assert!(allow.contains(h.row) && (h.row as usize) < rows.count(), "row {} was not allowed", h.row);
        assert_eq!(direct(rows, q, &[h.row], 1), [*h]);
    }
}

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::L2];
const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::I8];

#[test]
fn recall_is_high_for_every_metric_and_element_type() {
    for metric in METRICS {
        for dtype in DTYPES {
            let w = World::random(1, metric, dtype, 3000, 24);
            let g = w.graph(Params::new(12, 100));
            let mut r = Random(2);
            let queries: Vec<_> = (0..50).map(|_| r.vector(24)).collect();
            let got = mean_recall(&w, &g, &queries, 10, 100, Allow::All);
            // One bit for each of 24 dimensions says little; a packed graph is for hundreds.
            assert!(got >= if PACKED { 0.92 } else { 0.95 }, "{metric:?} {dtype:?}: recall {got}");
        }
    }
}

#[test]
fn a_width_of_all_rows_gives_the_exact_answer() {
    for metric in METRICS {
        for dtype in DTYPES {
            let w = World::random(3, metric, dtype, 500, 16);
            let g = w.graph(Params::new(8, 60));
            let mut r = Random(4);
            for _ in 0..20 {
                let q = w.codec.query(&r.vector(16));
                let want = scan(&w.rows(), &q, 0..500, 500, Allow::All);
                let got = g.search_auto(&w.rows(), &q, 500, 500, Allow::All, &mut Scratch::new());
                assert!(got == want, "{metric:?} {dtype:?}");
                // Under dot nothing is near a short vector, so a walk by itself may miss some.
                let walked = g.search(&w.rows(), &q, 500, 500, Allow::All, &mut Scratch::new());
                assert!(walked == want || metric == Metric::Dot, "{metric:?} {dtype:?}");
                assert!(walked.len() >= 480);
            }
        }
    }
}

#[test]
fn both_fronts_find_the_same() {
    let w = World::random(5, Metric::L2, Dtype::F32, 4000, 12);
    let g = w.graph(Params::new(8, 60));
    let q = w.codec.query(&Random(6).vector(12));
    let wide = g.search(&w.rows(), &q, 2500, 2500, Allow::All, &mut Scratch::new());
    let narrow = g.search(&w.rows(), &q, 2000, 2000, Allow::All, &mut Scratch::new());
    assert_eq!(wide[..100], narrow[..100]);
    let bits = BitSet::from_rows(4000, (0..4000).filter(|r| r % 50 != 0));
    let wide = g.search(&w.rows(), &q, 2500, 2500, Allow::Bits(&bits), &mut Scratch::new());
    assert_eq!(wide, scan(&w.rows(), &q, 0..4000, 2500, Allow::Bits(&bits)));
}

#[test]
fn filters_of_every_share_give_k_allowed_rows_at_high_recall() {
    let n = 6000;
    let w = World::random(7, Metric::Cosine, Dtype::F32, n, 16);
    let g = w.graph(Params::new(12, 100));
    let mut r = Random(8);
    let queries: Vec<_> = (0..40).map(|_| r.vector(16)).collect();
    for (share, of) in [(0, 1), (1, 6000), (1, 100), (1, 10), (1, 2), (9, 10), (1, 1)] {
        let mut bits = BitSet::from_rows(n, (0..n as u32).filter(|_| r.below(of) < share));
        if of == n {
            bits = BitSet::from_rows(n, [4321]);
        }
        let got = mean_recall(&w, &g, &queries, 10, 80, Allow::Bits(&bits));
        assert!(got >= 0.98, "{share}/{of}: recall {got}");
        // Each way by itself returns allowed rows only, whichever the model would choose.
        let q = w.codec.query(&queries[0]);
        let allow = Allow::Bits(&bits);
        let hops = g.search_two_hop(&w.rows(), &q, 10, 80, &bits, &mut Scratch::new());
        assert_legal(&w.rows(), &q, &hops, allow);
        let plain = g.search(&w.rows(), &q, 10, 80, allow, &mut Scratch::new());
        assert_legal(&w.rows(), &q, &plain, allow);
        assert!(plain.len() == 10.min(bits.count()), "the plain walk goes on until it has k");
    }
}

#[test]
fn a_two_hop_walk_alone_finds_nearly_what_a_scan_does() {
    let n = 20_000;
    let w = World::random(9, Metric::L2, Dtype::F32, n, 16);
    let g = w.graph(Params::new(12, 100));
    let mut r = Random(10);
    for of in [2, 5, 10, 20] {
        let bits = BitSet::from_rows(n, (0..n as u32).filter(|_| r.below(of) == 0));
        let mut sum = 0.0;
        for _ in 0..40 {
            let q = w.codec.query(&r.vector(16));
            let got = g.search_two_hop(&w.rows(), &q, 10, 80, &bits, &mut Scratch::new());
            sum += recall(&got, &scan(&w.rows(), &q, 0..n, 10, Allow::Bits(&bits)));
        }
        assert!(sum / 40.0 >= 0.98, "1/{of}: recall {}", sum / 40.0);
    }
}

#[test]
fn allowed_rows_far_from_the_query_are_found() {
    let n = 8000;
    let mut r = Random(11);
    let vectors: Vec<_> = (0..n).map(|_| r.vector(12)).collect();
    let w = World::new(Metric::L2, Dtype::F32, &vectors);
    let g = w.graph(Params::new(12, 100));
    let (mut sum, mut hops, mut cases) = (0.0, 0.0, 0.0);
    for _ in 0..20 {
        let v = r.vector(12);
        let q = w.codec.query(&v);
        let all = scan(&w.rows(), &q, 0..n, n, Allow::All);
        for keep in [&all[..n / 5], &all[n / 2..], &all[n * 4 / 5..], &all[n * 19 / 20..]] {
            let bits = BitSet::from_rows(n, ids(keep));
            sum += mean_recall(&w, &g, std::slice::from_ref(&v), 10, 80, Allow::Bits(&bits));
            let got = g.search_two_hop(&w.rows(), &q, 10, 80, &bits, &mut Scratch::new());
            hops += recall(&got, &keep[..10]);
            cases += 1.0;
        }
    }
    assert!(sum / cases >= 0.98, "recall {}", sum / cases);
    assert!(hops / cases >= 0.9, "recall of the two-hop walk {}", hops / cases);
}

fn two_clusters(seed: u64) -> (World, Vec<Vec<f32>>) {
    let mut r = Random(seed);
    let mut vectors = Vec::new();
    for side in [-4.0, 4.0] {
        for _ in 0..5000 {
            let mut v = r.vector(16);
            v[0] += side;
            vectors.push(v);
        }
    }
    // Interleaved, as rows of different kinds come in.
    let mixed = (0..10_000).map(|i| vectors[i % 2 * 5000 + i / 2].clone()).collect::<Vec<_>>();
    let queries = (0..40)
        .map(|_| {
            let mut v = r.vector(16);
            v.iter_mut().for_each(|x| *x *= 0.3);
            v[0] -= 4.0;
            v
        })
        .collect();
    (World::new(Metric::L2, Dtype::F32, &mixed), queries)
}

#[test]
fn with_one_of_two_clusters_deleted_queries_from_its_middle_find_the_other() {
    let (w, queries) = two_clusters(12);
    let g = w.graph(Params::new(16, 100));
    let deleted = BitSet::from_rows(10_000, (0..10_000).step_by(2));
    let mut live = BitSet::full(10_000);
    live.subtract(&deleted);
    let hidden = mean_recall(&w, &g, &queries, 10, 64, Allow::Bits(&live));
    assert!(hidden >= 0.98, "hidden: recall {hidden}");
    for v in &queries {
        let q = w.codec.query(v);
        let hops = g.search_two_hop(&w.rows(), &q, 10, 64, &live, &mut Scratch::new());
        assert_eq!(hops.len(), 10);
    }
    repair_all(&w, &g, &deleted, 500);
    let repaired = mean_recall(&w, &g, &queries, 10, 64, Allow::Bits(&live));
    assert!(repaired >= 0.98, "repaired: recall {repaired}");
    let (rows, mut scratch) = (w.rows(), Scratch::new());
    for v in &queries {
        // No filter is needed any more: nothing deleted can be reached.
        let hits = g.search(&rows, &w.codec.query(v), 10, 64, Allow::All, &mut scratch);
        assert!(hits.len() == 10 && hits.iter().all(|h| live.contains(h.row)));
    }
}

fn repair_all(w: &World, g: &Graph, deleted: &BitSet, budget: usize) {
    let (mut cursor, mut scratch) = (RepairCursor::new(), Scratch::new());
    while !cursor.is_done() {
        let step = g.repair(&w.rows(), deleted, &mut cursor, budget, &mut scratch);
        assert!(step.examined <= budget, "a step looked at {} nodes, allowed were {budget}", step.examined);
    }
    assert_sound(w, g);
    for row in 0..g.rows() as u32 {
        let gone = deleted.contains(row);
        g.each_link::<false>(row, |l| assert!(!gone && !deleted.contains(l.row), "{row} links to {}", l.row));
        for slot in g.slots_of(row) {
            g.each_link::<true>(slot, |l| assert!(!gone && !deleted.contains(l.row)));
        }
    }
}

#[test]
fn half_deleted_and_repaired_recall_stays_and_rows_can_be_linked_again() {
    let n = 6000;
    let w = World::random(13, Metric::Cosine, Dtype::F32, n, 16);
    let g = w.graph(Params::new(12, 100));
    let mut r = Random(14);
    let queries: Vec<_> = (0..60).map(|_| r.vector(16)).collect();
    let before = mean_recall(&w, &g, &queries, 10, 64, Allow::All);
    let deleted = BitSet::from_rows(n, (0..n as u32).filter(|_| r.below(2) == 0));
    let mut live = BitSet::full(n);
    live.subtract(&deleted);
    repair_all(&w, &g, &deleted, 97);
    assert_eq!(g.check().reachable, live.count(), "every live row is reachable");
    let (rows, mut scratch, mut sum) = (w.rows(), Scratch::new(), 0.0);
    for v in &queries {
        let q = w.codec.query(v);
        let got = g.search(&rows, &q, 10, 64, Allow::All, &mut scratch);
        sum += recall(&got, &scan(&rows, &q, 0..n, 10, Allow::Bits(&live)));
    }
    let half = sum / queries.len() as f64;
    let slack = if PACKED { 0.015 } else { 0.005 };
    assert!(half >= before - slack, "recall {half}, before the deletion {before}");
    for row in deleted.iter() {
        g.insert(&rows, row, &mut scratch);
    }
    assert_sound(&w, &g);
    let again = mean_recall(&w, &g, &queries, 10, 64, Allow::All);
    assert!(again >= before - slack, "recall {again}, before the deletion {before}");
}

#[test]
fn repairing_down_to_one_row_and_to_none_leaves_a_usable_graph() {
    let w = World::random(15, Metric::L2, Dtype::F32, 300, 8);
    for left in [0usize, 1, 2] {
        let g = w.graph(Params::new(4, 40));
        let deleted = BitSet::from_rows(300, left as u32..300);
        repair_all(&w, &g, &deleted, 10);
        let (rows, mut s) = (w.rows(), Scratch::new());
        let q = w.codec.query(&[0.1; 8]);
        assert_eq!(g.search(&rows, &q, 10, 64, Allow::All, &mut s).len(), left);
        for row in 0..300 {
            g.insert(&rows, row, &mut s);
        }
        assert_sound(&w, &g);
        assert_eq!(g.search(&rows, &q, 300, 300, Allow::All, &mut s).len(), 300);
    }
}

#[test]
fn a_thousand_equal_vectors_among_others_stay_connected() {
    let mut r = Random(16);
    let twin = r.vector(16);
    for (others, early) in [(0, true), (3000, true), (3000, false)] {
        let mut vectors: Vec<_> = (0..others).map(|_| r.vector(16)).collect();
        let at = if early { 0 } else { others / 2 };
        vectors.splice(at..at, std::iter::repeat_n(twin.clone(), 1000));
        for dtype in [Dtype::F32, Dtype::I8] {
            let w = World::new(Metric::Cosine, dtype, &vectors);
            let g = w.graph(Params::new(16, 100));
            assert_eq!(g.check().reachable, vectors.len(), "{others} others, twins first: {early}");
            let (rows, mut s) = (w.rows(), Scratch::new());
            let twins = g.search(&rows, &w.codec.query(&twin), 1000, 1000, Allow::All, &mut s);
            let expected: Vec<u32> = (at as u32..at as u32 + 1000).collect();
            assert_eq!(ids(&twins), expected);
            let queries: Vec<_> = (0..30).map(|_| r.vector(16)).collect();
            let got = mean_recall(&w, &g, &queries, 10, 100, Allow::All);
            assert!(got >= 0.95, "{others} others, twins first: {early}: recall {got}");
        }
    }
}

#[test]
fn more_asked_for_than_there_is_gives_all_there_is() {
    let w = World::random(17, Metric::Dot, Dtype::F32, 37, 8);
    let g = w.graph(Params::new(4, 20));
    let (rows, mut s) = (w.rows(), Scratch::new());
    let q = w.codec.query(&[0.5; 8]);
    assert_eq!(g.search_auto(&rows, &q, 1000, 1, Allow::All, &mut s).len(), 37);
    let odd = BitSet::from_rows(37, (1..37).step_by(2));
    assert_eq!(g.search_auto(&rows, &q, 1000, 1, Allow::Bits(&odd), &mut s).len(), 18);
    assert!(g.search_auto(&rows, &q, 0, 10, Allow::All, &mut s).is_empty());
    let empty = w.empty(Params::new(4, 20));
    assert!(empty.search_auto(&rows, &q, 10, 10, Allow::All, &mut s).is_empty());
    assert!(empty.search(&rows, &q, 10, 10, Allow::All, &mut s).is_empty());
}

#[test]
fn a_reader_of_fewer_rows_sees_none_of_the_later_ones() {
    let w = World::random(18, Metric::Cosine, Dtype::F32, 3000, 12);
    let g = w.graph(Params::new(8, 60));
    let mut r = Random(19);
    for count in [1, 10, 1000, 2999] {
        let early = w.rows().first(count);
        for _ in 0..10 {
            let q = w.codec.query(&r.vector(12));
            let hits = g.search_auto(&early, &q, 10, 64, Allow::All, &mut Scratch::new());
            assert_eq!(hits.len(), 10.min(count));
            assert!(hits.iter().all(|h| (h.row as usize) < count));
            let bits = BitSet::full(3000);
            let hits = g.search_auto(&early, &q, 10, 64, Allow::Bits(&bits), &mut Scratch::new());
            assert_eq!(hits.len(), 10.min(count));
            assert!(hits.iter().all(|h| (h.row as usize) < count));
        }
    }
}

#[test]
fn searches_beside_linkers_and_a_repair_return_legal_rows() {
    let (n, first) = (5000u32, 1000u32);
    let w = World::random(20, Metric::Cosine, Dtype::F32, n as usize, 16);
    let mut g = w.empty(Params::new(8, 60));
    g.grow_to(n as usize).unwrap();
    let (g, rows) = (&g, w.rows());
    g.insert_range(&rows, 0, first, 2);
    let deleted = BitSet::from_rows(n as usize, (0..first).step_by(2));
    let mut live = BitSet::full(n as usize);
    live.subtract(&deleted);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let searchers: Vec<_> = (0..2)
            .map(|t| {
                let (w, live, stop) = (&w, &live, &stop);
                s.spawn(move || {
                    let (mut r, mut scratch, mut done) = (Random(30 + t), Scratch::new(), 0);
                    while !stop.load(Ordering::Relaxed) || done == 0 {
                        let q = w.codec.query(&r.vector(16));
                        for allow in [Allow::All, Allow::Bits(live)] {
                            let hits = g.search_auto(&rows, &q, 10, 64, allow, &mut scratch);
                            assert_eq!(hits.len(), 10);
                            assert_legal(&rows, &q, &hits, allow);
                        }
                        done += 1;
                    }
                })
            })
            .collect();
        let repair = s.spawn(|| {
            let (mut cursor, mut scratch) = (RepairCursor::new(), Scratch::new());
            while !cursor.is_done() {
                g.repair(&rows, &deleted, &mut cursor, 50, &mut scratch);
            }
        });
        g.insert_range(&rows, first, n, 3);
        repair.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        for t in searchers {
            t.join().unwrap();
        }
    });
    assert_eq!(g.linked(), n);
    assert_sound(&w, g);
    let mut r = Random(40);
    let queries: Vec<_> = (0..50).map(|_| r.vector(16)).collect();
    let got = mean_recall(&w, g, &queries, 10, 100, Allow::Bits(&live));
    assert!(got >= 0.97, "recall {got}");
}

#[test]
fn a_build_on_four_threads_is_as_good_as_one_on_one() {
    let w = World::random(21, Metric::L2, Dtype::F32, 4000, 16);
    let one = w.graph(Params::new(8, 80));
    let mut four = w.empty(Params::new(8, 80));
    four.grow_to(4000).unwrap();
    four.insert_range(&w.rows(), 0, 4000, 4);
    assert_sound(&w, &four);
    assert_eq!(four.linked(), 4000);
    let mut r = Random(22);
    let queries: Vec<_> = (0..60).map(|_| r.vector(16)).collect();
    let (a, b) = (
        mean_recall(&w, &one, &queries, 10, 50, Allow::All),
        mean_recall(&w, &four, &queries, 10, 50, Allow::All),
    );
    assert!(b >= a - 0.02, "{b} on four threads, {a} on one");
}

#[test]
fn the_same_rows_and_seed_give_the_same_graph() {
    let w = World::random(23, Metric::Cosine, Dtype::F32, 1500, 12);
    let (a, b) = (w.graph(Params::new(8, 40)), w.graph(Params::new(8, 40)));
    assert_eq!(a.ground().bytes(), b.ground().bytes());
    assert_eq!(a.upper().bytes(), b.upper().bytes());
    assert_eq!(a.state(), b.state());
    let c = w.graph(Params { seed: 1, ..Params::new(8, 40) });
    assert_ne!(a.upper().bytes(), c.upper().bytes());
}

/// Writes the arenas into one file as a checkpoint does: each at a multiple of the alignment, cut into pieces.
fn stored(
    storage: &dyn Storage,
    path: &Path,
    g: &Graph,
    damage: &[(usize, u8)],
) -> (State, Vec<Piece>, Vec<Piece>) {
    storage.create_dir(path.parent().unwrap()).unwrap();
    let file = storage.open(path, OpenMode::CreateNew).unwrap();
    let (mut at, mut out) = (0u64, [Vec::new(), Vec::new()]);
    for (arena, pieces) in [g.ground(), g.upper()].into_iter().zip(&mut out) {
        let mut bytes = arena.bytes().to_vec();
        let n = bytes.len().max(1);
        for &(i, b) in damage {
            bytes.get_mut(i % n).into_iter().for_each(|x| *x ^= b);
        }
        let mut start = 0;
        for part in bytes.chunks(Region::ALIGN * 3) {
            file.write_at(at, part).unwrap();
            pieces.push(Piece { file: file.clone(), offset: at, start, len: part.len() as u64 });
            start += part.len() as u64;
            at = (at + part.len() as u64).next_multiple_of(Region::ALIGN as u64);
        }
    }
    let [ground, upper] = out;
    (State::from_bytes(&g.state().to_bytes()).unwrap(), ground, upper)
}

#[test]
fn reopened_from_its_bytes_it_gives_the_same_answers_and_grows_on() {
    let w = World::random(24, Metric::Cosine, Dtype::F32, 3000, 12);
    let (rows, mut s) = (w.rows(), Scratch::new());
    let mut g = w.empty(Params::new(8, 60));
    g.grow_to(2000).unwrap();
    g.insert_range(&rows, 0, 2000, 2);
    let dir = tempfile::tempdir().unwrap();
    let stores: [(&dyn Storage, PathBuf); 2] = [
        (&MemoryStorage::new(), PathBuf::from("/db/graph")),
        (&DiskStorage::new(), dir.path().join("graph")),
    ];
    for (storage, path) in stores {
        let (state, ground, upper) = stored(storage, &path, &g, &[]);
        assert_eq!(state, g.state());
        let mut again = w.open(*g.params(), &state, &ground, &upper).unwrap();
        assert_eq!(again.linked(), 2000);
        let mut r = Random(25);
        for _ in 0..30 {
            let q = w.codec.query(&r.vector(12));
            let (a, b) = (
                g.search(&rows.first(2000), &q, 10, 50, Allow::All, &mut s),
                again.search(&rows.first(2000), &q, 10, 50, Allow::All, &mut s),
            );
            assert_eq!(a, b);
        }
        again.grow_to(3000).unwrap();
        again.insert_range(&rows, 2000, 3000, 2);
        assert_sound(&w, &again);
        let queries: Vec<_> = (0..30).map(|_| r.vector(12)).collect();
        assert!(mean_recall(&w, &again, &queries, 10, 80, Allow::All) >= 0.97);
        let wrong = w.open(Params::new(12, 60), &state, &ground, &upper);
        assert!(wrong.unwrap_err().to_string().contains("built with m 8"));
        assert!(w.open(*g.params(), &state, &ground[1..], &upper).is_err());
        for bad in [State { entry: u64::MAX, ..state }, State { linked: 2001, ..state }] {
            assert!(w.open(*g.params(), &bad, &ground, &upper).is_err());
        }
    }
    assert!(State::from_bytes(&[0; State::BYTES]).is_none());
    assert!(State::from_bytes(b"short").is_none());
}

#[test]
fn damaged_links_never_lead_to_a_row_that_is_not_there() {
    let w = World::random(26, Metric::L2, Dtype::F32, 600, 8);
    let g = w.graph(Params::new(4, 40));
    let (rows, mut s) = (w.rows(), Scratch::new());
    let storage = MemoryStorage::new();
    let mut r = Random(27);
    for round in 0..60 {
        let hits = 1 << (round % 14);
        let damage: Vec<_> = (0..hits).map(|_| (r.next() as usize, r.next() as u8)).collect();
        let path = PathBuf::from(format!("/db/graph{round}"));
        let (state, ground, upper) = stored(&storage, &path, &g, &damage);
        let bad = w.open(*g.params(), &state, &ground, &upper).unwrap();
        let bits = BitSet::from_rows(600, (0..600).step_by(3));
        for allow in [Allow::All, Allow::Bits(&bits)] {
            let q = w.codec.query(&r.vector(8));
            let found = bad.search_auto(&rows, &q, 10, 40, allow, &mut s);
            assert_eq!(found.len(), 10);
            assert_legal(&rows, &q, &found, allow);
            bad.search(&rows, &q, 10, 40, allow, &mut s);
            bad.search_two_hop(&rows, &q, 10, 40, &bits, &mut s);
        }
        bad.check();
        bad.insert(&rows, 5, &mut s);
        let mut cursor = RepairCursor::new();
        while !cursor.is_done() {
            bad.repair(&rows, &bits, &mut cursor, 1000, &mut s);
        }
    }
}

#[test]
fn equal_vectors_hide_no_row_from_a_walk_of_full_width() {
    proptest!(ProptestConfig::with_cases(40), |(
        seed in any::<u64>(),
        n in 1usize..300,
        distinct in 1usize..40,
        // Not dot: there a twin may be far from its twin, and nothing is near a short vector.
        metric in prop::sample::select(&[Metric::Cosine, Metric::L2][..]),
        dtype in prop::sample::select(&DTYPES[..]),
    )| {
        let mut r = Random(seed);
        let kinds: Vec<_> = (0..distinct).map(|_| r.vector(8)).collect();
        let vectors: Vec<_> = (0..n).map(|_| kinds[r.below(distinct)].clone()).collect();
        let w = World::new(metric, dtype, &vectors);
        let g = w.graph(Params::new(8, 40));
        let q = w.codec.query(&r.vector(8));
        let got = g.search(&w.rows(), &q, n, n, Allow::All, &mut Scratch::new());
        let want = scan(&w.rows(), &q, 0..n, n, Allow::All);
        prop_assert!(got == want, "{} of {}", got.len(), n);
    });
}

#[test]
fn bad_shapes_are_refused_by_name() {
    assert!(Graph::new(Params::new(16, 200)).is_ok());
    for (params, word) in [
        (Params::new(1, 200), "m is 1"),
        (Params::new(257, 200), "MAX_M"),
        (Params { m0: 8, ..Params::new(16, 200) }, "m0 is 8"),
        (Params::new(16, 0), "ef_construction is 0"),
        (Params::new(16, 2_000_000), "MAX_EF"),
    ] {
        let e = Graph::new(params).unwrap_err().to_string();
        assert!(e.contains(word), "{e}");
    }
    let mut g = Graph::new(Params::new(16, 200)).unwrap();
    assert!(g.grow_to(1 << 31).is_err());
}
