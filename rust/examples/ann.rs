//! Recall, speed and build time of the graph on a data set given by path.
//!
//! usage: ann BASE QUERIES TRUTH|- [name=value ...]
//!   BASE, QUERIES  vectors, .npy (float32, C order) or .fvecs;  TRUTH  exact row ids, .npy (int32), or - to scan
//!   m=16 efc=200 threads=2 rows=0 (all) metric=cosine|dot|l2 dtype=f32|f16|i8 ef=16,32,64,128,256 k=10
//!   index=graph|packed
//!   filters=0.01,0.1,0.5 (shares kept at random)  delete=0.5 (share deleted and repaired)

use kektordb_compute::{Codec, Dtype, Metric};
use kektordb_core::arena::Arena;
use kektordb_core::flat::{Allow, BitSet, Hit, Rows, scan};
use kektordb_core::hnsw::{Graph, Params, RepairCursor, Scratch};
use std::collections::HashMap;
use std::io::Write;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

struct Matrix {
    dim: usize,
    data: Vec<[u8; 4]>,
}

impl Matrix {
    fn len(&self) -> usize {
        self.data.len() / self.dim
    }
    fn floats(&self, i: usize) -> Vec<f32> {
        self.data[i * self.dim..(i + 1) * self.dim].iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
    fn ids(&self, i: usize) -> Vec<u32> {
        self.data[i * self.dim..(i + 1) * self.dim].iter().map(|b| u32::from_le_bytes(*b)).collect()
    }
}

fn read(path: &str) -> Result<Matrix, Failure> {
    let bytes = std::fs::read(path)?;
    let words = |b: &[u8]| b.chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]).collect::<Vec<_>>();
    if path.ends_with(".fvecs") || path.ends_with(".ivecs") {
        let all = words(&bytes);
        let dim = u32::from_le_bytes(*all.first().ok_or("empty file")?) as usize;
        let data = all.chunks_exact(dim + 1).flat_map(|r| r[1..].to_vec()).collect();
        return Ok(Matrix { dim, data });
    }
    let head = u16::from_le_bytes([*bytes.get(8).ok_or("short file")?, bytes[9]]) as usize;
    let text = String::from_utf8_lossy(bytes.get(10..10 + head).ok_or("short file")?).into_owned();
    if !(text.contains("<f4") || text.contains("<i4")) || !text.contains("'fortran_order': False") {
        return Err(format!("{path}: wanted float32 or int32 in C order, header is {text}").into());
    }
    let shape = text.split("'shape': (").nth(1).and_then(|s| s.split(')').next()).ok_or("no shape")?;
    let dim = shape.split(',').nth(1).ok_or("wanted a matrix")?.trim().parse()?;
    Ok(Matrix { dim, data: words(&bytes[10 + head..]) })
}

fn recall(got: &[Vec<Hit>], want: &[Vec<u32>]) -> f64 {
    let (mut found, mut of) = (0, 0);
    for (g, w) in got.iter().zip(want) {
        found += g.iter().filter(|h| w.contains(&h.row)).count();
        of += w.len();
    }
    found as f64 / of.max(1) as f64
}

/// Answers of all queries and the best rate of a few passes in about a second.
fn measure(n: usize, mut one: impl FnMut(usize) -> Vec<Hit>) -> (Vec<Vec<Hit>>, f64) {
    let (started, mut best, mut out) = (Instant::now(), 0f64, Vec::new());
    for pass in 0.. {
        let t = Instant::now();
        let answers: Vec<Vec<Hit>> = (0..n).map(&mut one).collect();
        best = best.max(n as f64 / t.elapsed().as_secs_f64());
        out = answers;
        if started.elapsed().as_secs_f64() > 1.0 && pass > 0 {
            break;
        }
    }
    (out, best)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, queries, truth, options @ ..] = args.as_slice() else {
        return Err("usage: ann BASE QUERIES TRUTH|- [name=value ...]".into());
    };
    let opt: HashMap<&str, &str> = options.iter().filter_map(|a| a.split_once('=')).collect();
    let number = |name: &str, default: usize| opt.get(name).map_or(Ok(default), |v| v.parse::<usize>());
    let list = |name: &str, default: &str| -> Result<Vec<f64>, Failure> {
        let text = opt.get(name).copied().unwrap_or(default);
        text.split(',').filter(|t| !t.is_empty()).map(|t| Ok(t.parse::<f64>()?)).collect()
    };
    let metric = match opt.get("metric").copied().unwrap_or("cosine") {
        "cosine" => Metric::Cosine,
        "dot" => Metric::Dot,
        "l2" => Metric::L2,
        other => return Err(format!("metric {other}: wanted cosine, dot or l2").into()),
    };
    let dtype = match opt.get("dtype").copied().unwrap_or("f32") {
        "f32" => Dtype::F32,
        "f16" => Dtype::F16,
        "i8" => Dtype::I8,
        other => return Err(format!("dtype {other}: wanted f32, f16 or i8").into()),
    };
    let (k, threads) = (number("k", 10)?, number("threads", 2)?);
    let mut out = std::io::stdout();

    let (base, queries) = (read(base)?, read(queries)?);
    let n = match number("rows", 0)? {
        0 => base.len(),
        some => some.min(base.len()),
    };
    let codec = Codec::new(metric, dtype, base.dim);
    let mut arena = Arena::new(codec.row_bytes().next_multiple_of(64))?;
    arena.grow_to(n)?;
    for i in 0..n {
        codec.encode(&base.floats(i), &mut arena.row_mut(i)[..codec.row_bytes()]);
    }
    let rows = Rows::new(&arena, &codec, n)?;
    let prepared: Vec<_> = (0..queries.len()).map(|i| codec.query(&queries.floats(i))).collect();
    let nq = prepared.len();
    let exact = |allow: Allow<'_>| -> Vec<Vec<u32>> {
        prepared.iter().map(|q| scan(&rows, q, 0..n, k, allow).iter().map(|h| h.row).collect()).collect()
    };
    let want: Vec<Vec<u32>> = if truth == "-" || n < base.len() {
        exact(Allow::All)
    } else {
        let t = read(truth)?;
        (0..nq).map(|i| t.ids(i)[..k].to_vec()).collect()
    };

    let params = Params::new(number("m", 16)?, number("efc", 200)?);
    let mut graph = match opt.get("index").copied().unwrap_or("graph") {
        "graph" => Graph::new(params)?,
        "packed" => Graph::packed(params, &codec)?,
        other => return Err(format!("index {other}: wanted graph or packed").into()),
    };
    graph.grow_to(n)?;
    let t = Instant::now();
    graph.insert_range(&rows, 0, n as u32, threads);
    let check = graph.check();
    writeln!(
        out,
        "build {:.2} s on {threads}; {:.1} links a row, {} of {n} reachable, {} problems",
        t.elapsed().as_secs_f64(),
        check.links as f64 / n as f64,
        check.reachable,
        check.problem_count
    )?;

    let mut scratch = Scratch::new();
    for ef in list("ef", "16,32,64,128,256")? {
        let (got, qps) =
            measure(nq, |i| graph.search(&rows, &prepared[i], k, ef as usize, Allow::All, &mut scratch));
        writeln!(out, "ef {ef:4}  recall {:.4}  {qps:8.0} QPS", recall(&got, &want))?;
    }
    for share in list("filters", "")? {
        let allowed = BitSet::from_rows(n, (0..n as u32).filter(|&r| coin(r) < share));
        let allow = Allow::Bits(&allowed);
        let want = exact(allow);
        for ef in [64, 128] {
            let way = graph.strategy(&rows, allowed.count(), k, ef);
            let mut line = format!("keep {share:5} ef {ef:3}");
            let mut row = |name: &str, one: &mut dyn FnMut(usize) -> Vec<Hit>| {
                let (got, qps) = measure(nq, one);
                line += &format!("  {name} {:.4} {qps:.0}", recall(&got, &want));
            };
            let q = &prepared;
            row("direct", &mut |i| scan(&rows, &q[i], 0..n, k, allow));
            row("two-hop", &mut |i| graph.search_two_hop(&rows, &q[i], k, ef, &allowed, &mut scratch));
            row("plain", &mut |i| graph.search(&rows, &q[i], k, ef, allow, &mut scratch));
            row("auto", &mut |i| graph.search_auto(&rows, &q[i], k, ef, allow, &mut scratch));
            writeln!(out, "{line} ({way:?})")?;
        }
    }
    for share in list("delete", "")? {
        let deleted = BitSet::from_rows(n, (0..n as u32).filter(|&r| coin(r) < share));
        let mut live = BitSet::full(n);
        live.subtract(&deleted);
        let want = exact(Allow::Bits(&live));
        let (t, mut cursor) = (Instant::now(), RepairCursor::new());
        while !cursor.is_done() {
            graph.repair(&rows, &deleted, &mut cursor, 1000, &mut scratch);
        }
        let took = t.elapsed().as_secs_f64();
        writeln!(
            out,
            "deleted {share}: repaired in {took:.2} s, {} of {} reachable",
            graph.check().reachable,
            live.count()
        )?;
        for ef in list("ef", "64")? {
            let (got, qps) =
                measure(nq, |i| graph.search(&rows, &prepared[i], k, ef as usize, Allow::All, &mut scratch));
            writeln!(out, "  ef {ef:4}  recall {:.4}  {qps:8.0} QPS", recall(&got, &want))?;
        }
        let t = Instant::now();
        for row in deleted.iter() {
            graph.insert(&rows, row, &mut scratch);
        }
        writeln!(out, "  linked again in {:.2} s on one thread", t.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// A number in [0, 1) that goes with a row.
fn coin(row: u32) -> f64 {
    let mut x = (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 31).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 11) as f64 / (1u64 << 53) as f64
}
