//! Faults against the whole store: power cuts, errors, damaged bytes; a plain model judges after each reopening.
//!
//! The recovered state must equal the model after the n-th operation for some n between the last one that was promised to
//! be on the disk and the last one that was begun; searches, postings, text and counts must agree with the rows.

use super::record::{Op, PutStamps, VectorSource};
use super::*;
use crate::error::{Error, Result};
use crate::io::{SimStorage, Storage, Survive};
use crate::view::{Life, View};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIM: usize = 4;

/// Name of a collection → id → (vector, payload); and the key-value pairs under the name "".
type State = BTreeMap<String, BTreeMap<String, (Vec<f32>, String)>>;

fn dir() -> PathBuf {
    PathBuf::from("/data/x.kdb")
}

fn options() -> Options {
    Options { background: false, segment_bytes: 4_000, tail_rows_max: 10_000, ..Default::default() }
}

fn open(s: &SimStorage) -> Result<Database> {
    Database::open(Arc::new(s.clone()) as Arc<dyn Storage>, Some(&dir()), options())
}

/// The collection "b" is packed, others are plain graphs.
fn spec(name: &str) -> Spec {
    let mut spec = plain_spec();
    if name == "b" {
        spec.index = IndexKind::Packed;
    }
    spec
}

fn plain_spec() -> Spec {
    Spec::parse(
        br#"{"dim":4,"metric":"l2","dtype":"float32","index":"graph","m":4,"ef_construction":16,"text_fields":["t"],"language":null}"#,
    )
    .unwrap()
}

/// One step of the workload; `Ok(true)`: its effect is promised to be on the disk.
#[derive(Debug, Clone)]
enum Step {
    Create(&'static str),
    Drop(&'static str),
    Put(&'static str, Vec<(String, u32)>, Durability),
    Delete(&'static str, String),
    Patch(&'static str, String, u32),
    Kv(String, Option<u32>),
    Flush,
    Checkpoint,
    Vacuum,
    Reopen,
}

fn vector(n: u32) -> Vec<f32> {
    (0..DIM as u32).map(|i| (n * 31 + i * 17) as f32 * 0.25).collect()
}

fn payload(n: u32) -> String {
    format!(r#"{{"n":{n},"t":"word{n} common"}}"#)
}

fn workload() -> Vec<Step> {
    use Durability::{Buffered, Sync};
    let put = |c, ids: std::ops::Range<u32>, add: u32, d| {
        Step::Put(c, ids.map(|i| (format!("id{i}"), i + add)).collect(), d)
    };
    vec![
        Step::Create("a"),
        put("a", 0..3, 0, Sync),
        Step::Kv("k".into(), Some(1)),
        put("a", 3..9, 0, Buffered),
        Step::Create("b"),
        Step::Delete("a", "id1".into()),
        put("b", 0..2, 50, Sync),
        Step::Checkpoint,
        put("a", 2..5, 100, Sync),
        Step::Patch("a", "id2".into(), 7),
        Step::Kv("k".into(), Some(2)),
        Step::Flush,
        Step::Vacuum,
        put("a", 20..23, 200, Sync),
        Step::Checkpoint,
        Step::Drop("b"),
        Step::Kv("k".into(), None),
        Step::Reopen,
        put("a", 30..60, 300, Buffered),
        Step::Delete("a", "id30".into()),
        Step::Create("b"),
        put("b", 7..9, 400, Sync),
        Step::Checkpoint,
        Step::Kv("z".into(), Some(9)),
        Step::Reopen,
        Step::Patch("b", "id7".into(), 8),
    ]
}

fn run(db: &Database, step: &Step) -> Result<bool> {
    let commit = |ops: Vec<Op>, d| {
        db.commit(Transaction { ops, ..Default::default() }, d).map(|_| d == Durability::Sync)
    };
    match step {
        Step::Create(c) => db.create_collection(c, &spec(c)).map(|_| true),
        Step::Drop(c) => db.drop_collection(c).map(|_| true),
        Step::Put(c, rows, d) => {
            let cid = db.collection_id(c)?;
            let ops = rows.iter().map(|(id, n)| Op::Put {
                cid,
                id: id.clone(),
                vector: VectorSource::Given(vector(*n)),
                payload: payload(*n).into_bytes(),
                stamps: PutStamps::default(),
            });
            commit(ops.collect(), *d)
        }
        Step::Delete(c, id) => {
            let cid = db.collection_id(c)?;
            commit(vec![Op::Close { cid, id: id.clone(), end_life: Life::Gone }], Durability::Sync)
        }
        Step::Patch(c, id, n) => {
            let cid = db.collection_id(c)?;
            let payload = payload(*n).into_bytes();
            commit(vec![Op::SetPayload { cid, id: id.clone(), merge: true, payload }], Durability::Sync)
        }
        Step::Kv(key, value) => {
            let (namespace, key) = ("ns".to_owned(), key.clone());
            let op = match value {
                Some(n) => Op::KvSet { namespace, key, value: n.to_le_bytes().to_vec() },
                None => Op::KvDelete { namespace, key },
            };
            commit(vec![op], Durability::Sync)
        }
        Step::Flush => db.flush().map(|()| true),
        Step::Checkpoint => db.checkpoint().map(|()| true),
        Step::Vacuum => db.vacuum().map(|_| false),
        Step::Reopen => Ok(false),
    }
}

fn model(state: &mut State, step: &Step) {
    match step {
        Step::Create(c) => {
            state.insert((*c).into(), BTreeMap::new());
        }
        Step::Drop(c) => {
            state.remove(*c);
        }
        Step::Put(c, rows, _) => {
            for (id, n) in rows {
                state.get_mut(*c).unwrap().insert(id.clone(), (vector(*n), payload(*n)));
            }
        }
        Step::Delete(c, id) => {
            state.get_mut(*c).unwrap().remove(id);
        }
        Step::Patch(c, id, n) => state.get_mut(*c).unwrap().get_mut(id).unwrap().1 = payload(*n),
        Step::Kv(key, value) => {
            let kv = state.entry(String::new()).or_default();
            match value {
                Some(n) => kv.insert(key.clone(), (vec![], n.to_string())),
                None => kv.remove(key),
            };
        }
        _ => {}
    }
}

/// Everything that the database answers, checked against itself on the way.
fn read(db: &Database) -> Result<State> {
    let mut out = State::new();
    for name in db.collections()? {
        let c = db.collection(&name)?;
        let r = c.reader(View::OWNER, db.now(), None);
        let (rows, more) = r.scan(None, 1_000, None, true, true)?;
        assert!(more.is_none());
        assert_eq!(r.count(None)?, rows.len() as u64);
        let facets: u64 = r.facets("n", None, 1_000)?.iter().map(|(_, n)| n).sum();
        assert_eq!(facets, rows.len() as u64, "postings and rows of {name}");
        let words = r.search(&Search { text: Some("common"), k: 1_000, ..Default::default() })?;
        assert_eq!(words.len(), rows.len(), "text and rows of {name}");
        let mut all = BTreeMap::new();
        for row in rows {
            let v = row.vector.unwrap_or_default();
            for exact in [true, false] {
                let s = Search { vector: Some(&v), alpha: 1.0, k: 1, ef: 200, exact, ..Default::default() };
                let hit = r.search(&s)?[0];
                assert_eq!(hit.distance, 0.0, "{name} {} is not found by its own vector", row.id);
            }
            assert_eq!(
                r.get(std::slice::from_ref(&row.id), true, false)?[0].as_ref().unwrap().payload,
                row.payload
            );
            let value: serde_json::Value = serde_json::from_str(&row.payload.unwrap_or_default()).unwrap();
            all.insert(row.id, (v, payload(value["n"].as_u64().unwrap() as u32)));
        }
        out.insert(name, all);
    }
    let kv = db.kv_scan("ns", "", None, 100)?;
    if !kv.is_empty() {
        let number = |v: &[u8]| u32::from_le_bytes(v.try_into().unwrap()).to_string();
        out.insert(String::new(), kv.into_iter().map(|(k, v)| (k, (vec![], number(&v)))).collect());
    }
    Ok(out)
}

/// States after 0, 1, 2 … steps.
fn states() -> Vec<State> {
    let mut out = vec![State::new()];
    for step in workload() {
        let mut s = out.last().unwrap().clone();
        model(&mut s, &step);
        out.push(s);
    }
    for s in &mut out {
        if s.get("").is_some_and(BTreeMap::is_empty) {
            s.remove("");
        }
    }
    out
}

/// Plays the workload until something fails. Returns (promised, begun) as numbers of steps.
fn play(s: &SimStorage, stop_at_error: bool) -> (usize, usize) {
    let (mut promised, mut begun) = (0, 0);
    let mut db = None;
    for (i, step) in workload().iter().enumerate() {
        if matches!(step, Step::Reopen) {
            if let Some(db) = db.take() {
                let closed = Database::close(&db);
                if closed.is_ok() {
                    promised = i + 1;
                }
            }
            begun = i + 1;
        }
        let opened = match db.take() {
            Some(d) => Ok(d),
            None => open(s),
        };
        let Ok(d) = opened else { return (promised, begun.max(i)) };
        begun = i + 1;
        match run(&d, step) {
            Ok(true) => promised = i + 1,
            Ok(false) => {}
            Err(_) if stop_at_error => return (promised, begun),
            Err(_) => return (promised, begun),
        }
        db = Some(d);
    }
    (promised, begun)
}

/// Reopens and judges; then writes once more and reopens again.
fn judge(s: &SimStorage, states: &[State], promised: usize, begun: usize, what: &str) {
    let db = open(s).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
    let got = read(&db).unwrap_or_else(|e| panic!("{what}: does not read: {e}"));
    let fits = (promised..=begun.min(states.len() - 1)).any(|n| states[n] == got);
    assert!(fits, "{what}: promised {promised}, begun {begun}, got {:?}", got.keys());
    db.commit(
        Transaction {
            ops: vec![Op::KvSet { namespace: "ns2".into(), key: "after".into(), value: vec![1] }],
            ..Default::default()
        },
        Durability::Sync,
    )
    .unwrap_or_else(|e| panic!("{what}: does not write after recovery: {e}"));
    drop(db);
    let db = open(&s.after_crash(Survive::None, 1)).unwrap_or_else(|e| panic!("{what}: second opening: {e}"));
    assert_eq!(db.kv_get("ns2", "after").unwrap(), Some(vec![1]), "{what}");
    assert_eq!(read(&db).unwrap(), got, "{what}: changed by the second opening");
}

fn fresh() -> SimStorage {
    let s = SimStorage::new(7);
    s.create_dir(Path::new("/data")).unwrap();
    s.sync_dir(Path::new("/")).unwrap();
    s
}

const VARIANTS: [Survive; 5] = [Survive::None, Survive::All, Survive::Random, Survive::Torn, Survive::Stale];

#[test]
fn a_power_cut_at_every_change_loses_nothing_promised_and_invents_nothing() {
    let states = states();
    let whole = fresh();
    let (promised, begun) = play(&whole, true);
    assert_eq!((promised, begun), (states.len() - 1, states.len() - 1), "the workload itself runs");
    judge(&whole.copy(), &states, promised, begun, "no cut");
    let changes = whole.changes();
    let mut cuts = 0;
    for n in 0..changes {
        let s = fresh();
        s.power_off_after(n);
        let (promised, begun) = play(&s, true);
        for (i, variant) in VARIANTS.into_iter().enumerate() {
            let after = s.after_crash(variant, n * 5 + i as u64);
            judge(&after, &states, promised, begun, &format!("cut {n} {variant:?}"));
            cuts += 1;
        }
    }
    assert!(cuts >= 500, "{cuts} states");
}

#[test]
fn a_second_cut_during_recovery_changes_nothing() {
    let states = states();
    let changes = {
        let s = fresh();
        play(&s, true);
        s.changes()
    };
    for n in (3..changes).step_by(9) {
        let s = fresh();
        s.power_off_after(n);
        let (promised, begun) = play(&s, true);
        let first = s.after_crash(Survive::Random, n);
        for m in 0..6 {
            let again = first.copy();
            again.power_off_after(m);
            drop(open(&again));
            let after = again.after_crash(Survive::Random, m);
            judge(&after, &states, promised, begun, &format!("cut {n}, then {m} in recovery"));
        }
    }
}

#[test]
fn an_error_at_every_call_is_told_and_loses_nothing() {
    let states = states();
    let calls = {
        let s = fresh();
        play(&s, true);
        s.calls()
    };
    let mut runs = 0;
    for n in 1..=calls {
        for (kind, forever) in [
            (ErrorKind::Other, false),
            (ErrorKind::StorageFull, false),
            (ErrorKind::Other, true),
            (ErrorKind::StorageFull, true),
        ] {
            // Every call once, and each kind in turn where there are many.
            if (n + u64::from(forever)) % 2 == 0 && kind == ErrorKind::StorageFull {
                continue;
            }
            let s = fresh();
            s.fail_at(n, kind, forever);
            let (promised, begun) = play(&s, false);
            s.heal();
            for survive in [Survive::All, Survive::None] {
                judge(
                    &s.after_crash(survive, n),
                    &states,
                    promised,
                    begun,
                    &format!("{kind:?} at call {n}, {survive:?}"),
                );
            }
            runs += 1;
        }
    }
    assert!(runs >= 500, "{runs} errors");
}

#[test]
fn a_parent_that_may_not_be_read_does_not_stop_a_new_database() {
    let calls = {
        let s = fresh();
        let before = s.calls();
        open(&s).unwrap();
        s.calls() - before
    };
    let opens = |n, kind| {
        let s = fresh();
        s.fail_at(n, kind, false);
        open(&s).is_ok()
    };
    let only_denied =
        (1..=calls).filter(|n| opens(*n, ErrorKind::PermissionDenied) && !opens(*n, ErrorKind::Other));
    assert_eq!(only_denied.count(), 2, "/data and /");
}

/// A small store of every kind of file with one record in the log, what it holds, and what it held before that record.
fn stored() -> (SimStorage, State, State) {
    let s = fresh();
    let db = open(&s).unwrap();
    for step in workload().iter().take(12) {
        run(&db, step).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = open(&s).unwrap();
    let before = read(&db).unwrap();
    for step in &workload()[13..14] {
        run(&db, step).unwrap();
    }
    let state = read(&db).unwrap();
    drop(db);
    (s, state, before)
}

/// Opens a damaged store: a typed error that names a file, or every answer as before. Damage to the very last record of
/// a log that was not closed cannot be told from a write that was torn: then it is reported as that.
fn found(s: &SimStorage, want: &State, before: &State, what: &str) -> bool {
    match open(s).and_then(|db| Ok((read(&db)?, db.recovery().is_some_and(|r| r.torn_tail.is_some())))) {
        Ok((got, torn)) => {
            assert!(got == *want || (got == *before && torn), "{what}: a wrong answer");
            torn
        }
        Err(Error::Corruption { .. } | Error::FormatVersion { .. } | Error::NotFound { .. }) => true,
        Err(
            Error::Io { kind: ErrorKind::NotFound | ErrorKind::UnexpectedEof, .. }
            | Error::InvalidArgument { .. },
        ) => true,
        Err(e) => panic!("{what}: {e:?}"),
    }
}

#[test]
fn every_flipped_byte_is_found_or_harmless() {
    let (s, want, before) = stored();
    let mut seen = 0;
    for (path, len) in s.files() {
        if path.ends_with("LOCK") {
            continue;
        }
        // Zeros ahead of the log's end and padding are long; every byte of the rest, and a part of those.
        for at in (0..len).filter(|at| *at < 6_000 || at % 61 == 0 || len - at < 600) {
            let c = s.copy();
            c.tamper(&path, |b| b[at] ^= 1 << (at % 8));
            seen += u64::from(found(&c, &want, &before, &format!("{} byte {at}", path.display())));
        }
    }
    assert!(seen > 1_000, "{seen} found");
}

#[test]
fn every_cut_length_and_every_missing_file_is_found_or_harmless() {
    let (s, want, before) = stored();
    for (path, len) in s.files() {
        for at in (0..len).filter(|at| at % 64 == 0 || *at < 300 || len - at < 40) {
            let c = s.copy();
            c.tamper(&path, |b| b.truncate(at));
            let what = format!("{} cut at {at}", path.display());
            let is_log = path.extension().is_some_and(|e| e == "klog");
            match open(&c).and_then(|db| read(&db)) {
                // A log that ends before its last record is a shorter log.
                Ok(got) => assert!(got == want || (is_log && got == before), "{what}"),
                Err(Error::Corruption { .. } | Error::FormatVersion { .. } | Error::Io { .. }) => {}
                Err(e) => panic!("{what}: {e:?}"),
            }
        }
        let c = s.copy();
        c.remove(&path).unwrap();
        if !path.ends_with("LOCK") && !path.to_string_lossy().contains("MANIFEST-") {
            assert!(found(&c, &want, &before, &format!("{} missing", path.display())));
        }
    }
}
