use super::*;
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::io::{MemoryStorage, OpenMode, SimStorage, Storage, Survive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const UUID: [u8; 16] = [3; 16];

fn dir() -> PathBuf {
    PathBuf::from("/db/log")
}

fn small() -> LogOptions {
    LogOptions { segment_bytes: 700 }
}

fn payload(lsn: Lsn) -> Vec<u8> {
    format!("record {lsn} {}", "x".repeat(lsn as usize % 17)).into_bytes()
}

/// A store whose log holds records 1 to `n`, synced.
fn filled(n: u64, options: LogOptions) -> Arc<MemoryStorage> {
    let s = Arc::new(MemoryStorage::new());
    s.create_dir(&dir()).unwrap();
    let log = Log::create(s.clone(), &dir(), UUID, 1, options).unwrap();
    for lsn in 1..=n {
        assert_eq!(log.append(&[&payload(lsn)]).unwrap(), lsn);
        log.sync().unwrap();
    }
    s
}

type Recovered = Result<(Option<Log>, RecoveryReport, Vec<Lsn>)>;

fn recover(s: &Arc<MemoryStorage>, after: Lsn, mode: RecoverMode) -> Recovered {
    let mut seen = vec![];
    let (log, report) = Log::recover(s.clone(), &dir(), UUID, after, mode, false, small(), &mut |lsn, b| {
        assert_eq!(b, payload(lsn), "record {lsn}");
        seen.push(lsn);
        Ok(())
    })?;
    Ok((log, report, seen))
}

fn segments(s: &MemoryStorage) -> Vec<PathBuf> {
    s.list(&dir()).unwrap().into_iter().map(|e| dir().join(e.name)).collect()
}

fn bytes(s: &MemoryStorage, p: &Path) -> Vec<u8> {
    let f = s.open(p, OpenMode::Read).unwrap();
    let mut b = vec![0; f.len().unwrap() as usize];
    f.read_at(0, &mut b).unwrap();
    b
}

fn put(s: &MemoryStorage, p: &Path, b: &[u8]) {
    let f = s.open(p, OpenMode::ReadWrite).unwrap();
    f.truncate(0).unwrap();
    f.write_at(0, b).unwrap();
}

#[test]
fn records_come_back_in_order_over_segments_and_restarts() {
    let s = filled(40, small());
    assert!(segments(&s).len() > 3);
    let (log, report, seen) = recover(&s, 0, RecoverMode::Strict).unwrap();
    assert_eq!(seen, (1..=40).collect::<Vec<_>>());
    assert_eq!((report.frames, report.last_lsn, report.torn_tail), (40, 40, None));
    let log = log.unwrap();
    let (a, b) = (payload(41), payload(42));
    assert_eq!(log.append(&[&a, &b]).unwrap(), 42);
    log.sync().unwrap();
    assert_eq!(recover(&s, 38, RecoverMode::Strict).unwrap().2, vec![39, 40, 41, 42]);
}

#[test]
fn segments_go_only_when_a_checkpoint_holds_them() {
    let s = filled(40, small());
    let (log, ..) = recover(&s, 0, RecoverMode::Strict).unwrap();
    let log = log.unwrap();
    let before = segments(&s).len();
    assert_eq!(log.drop_before(1).unwrap(), 0);
    log.rotate().unwrap();
    assert_eq!(log.drop_before(40).unwrap() as usize, before);
    assert_eq!(recover(&s, 40, RecoverMode::Strict).unwrap().2, Vec::<Lsn>::new());
    // What is gone and was in no checkpoint is damage.
    assert!(matches!(recover(&s, 12, RecoverMode::Strict), Err(Error::Corruption { .. })));
}

#[test]
fn every_cut_of_the_last_segment_keeps_the_records_before_it_and_goes_on() {
    let s = filled(30, small());
    let last = segments(&s).pop().unwrap();
    let whole = bytes(&s, &last);
    let used = whole.iter().rposition(|b| *b != 0).unwrap() + 1;
    let before = recover(&s, 0, RecoverMode::Strict).unwrap().2;
    for n in 0..used {
        for garbage in [0usize, 1, 40] {
            let s = filled(30, small());
            let mut b = bytes(&s, &last)[..n].to_vec();
            b.extend((0..garbage).map(|i| (i * 37 + 11) as u8));
            put(&s, &last, &b);
            // Frames say which records were on the disk when they were written: only the last one may be torn.
            match recover(&s, 0, RecoverMode::Strict) {
                Ok((log, report, seen)) => {
                    assert_eq!(seen[..], before[..seen.len()], "cut at {n}");
                    assert!(report.gaps.is_empty());
                    let log = log.unwrap();
                    let next = seen.len() as u64 + 1;
                    assert_eq!(log.append(&[&payload(next)]).unwrap(), next);
                    log.sync().unwrap();
                    drop(log);
                    let again = recover(&s, 0, RecoverMode::Strict).unwrap();
                    assert_eq!(again.2.len() as u64, next, "cut at {n}, garbage {garbage}");
                    assert_eq!(again.1.torn_tail, None);
                }
                Err(e) => assert!(garbage > 0 && n < 96, "cut at {n}, garbage {garbage}: {e}"),
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_with_its_place_or_is_the_torn_end() {
    let s = filled(30, small());
    let files = segments(&s);
    for (i, file) in files.iter().enumerate() {
        let whole = bytes(&s, file);
        let is_last = i + 1 == files.len();
        for at in 0..whole.len().min(900) {
            let mut b = whole.clone();
            b[at] ^= 1 << (at % 8);
            let s = filled_like(&s, &files, file, &b);
            match recover(&s, 0, RecoverMode::Strict) {
                Err(Error::Corruption { file: f, .. } | Error::FormatVersion { file: f, .. }) => {
                    assert!(f.starts_with(dir()));
                    let (_, report, seen) = recover(&s, 0, RecoverMode::Salvage).unwrap();
                    assert!(!report.gaps.is_empty(), "{} byte {at}", file.display());
                    // What lies behind the damage is not lost with it.
                    let whole = if is_last { 22 } else { 30 };
                    assert!(report.last_lsn >= whole, "{} byte {at}: {report:?}", file.display());
                    assert!(seen.windows(2).all(|w| w[0] < w[1]));
                }
                Err(e) => panic!("{e}"),
                Ok((_, report, seen)) => {
                    assert!(is_last, "{} byte {at}", file.display());
                    assert!(seen.len() >= 29 && report.torn_tail.is_some(), "byte {at}: {report:?}");
                }
            }
        }
    }
}

fn filled_like(from: &MemoryStorage, files: &[PathBuf], changed: &Path, b: &[u8]) -> Arc<MemoryStorage> {
    let s = Arc::new(MemoryStorage::new());
    s.create_dir(&dir()).unwrap();
    for f in files {
        s.open(f, OpenMode::CreateNew).unwrap();
        put(&s, f, if f == changed { b } else { &[] });
        if f != changed {
            put(&s, f, &bytes(from, f));
        }
    }
    s
}

#[test]
fn a_missing_segment_is_damage() {
    let s = filled(30, small());
    let middle = segments(&s)[1].clone();
    s.remove(&middle).unwrap();
    let e = recover(&s, 0, RecoverMode::Strict).unwrap_err();
    assert!(e.to_string().contains("missing"), "{e}");
    let (_, report, seen) = recover(&s, 0, RecoverMode::Salvage).unwrap();
    assert_eq!(report.gaps.len(), 1);
    assert!(seen.contains(&1) && seen.contains(&30));
}

#[test]
fn a_record_too_large_is_refused_and_the_log_goes_on() {
    let s = filled(1, small());
    let (log, ..) = recover(&s, 0, RecoverMode::Strict).unwrap();
    let log = log.unwrap();
    let big = vec![0; crate::limits::MAX_FRAME_BYTES + 1];
    assert!(matches!(log.append(&[&big]), Err(Error::LimitExceeded { .. })));
    assert_eq!(log.append(&[&payload(2)]).unwrap(), 2);
}

/// A durable log of 20 records with a torn end, and that end.
fn torn(garbage: u8) -> (SimStorage, Vec<u8>) {
    let s = SimStorage::new(5);
    s.create_dir(&dir()).unwrap();
    let log = Log::create(Arc::new(s.clone()), &dir(), UUID, 1, LogOptions { segment_bytes: 4_000 }).unwrap();
    for lsn in 1..=20 {
        log.append(&[&payload(lsn)]).unwrap();
    }
    log.sync().unwrap();
    for d in ["/", "/db"] {
        s.sync_dir(Path::new(d)).unwrap();
    }
    drop(log);
    tear(&s, garbage);
    (s, vec![garbage; 90])
}

fn tear(s: &SimStorage, garbage: u8) {
    let last = s.files().into_iter().rfind(|(p, _)| p.starts_with(dir())).unwrap().0;
    s.tamper(&last, |b| {
        let end = b.iter().rposition(|b| *b != 0).unwrap() + 1;
        b.truncate(end);
        b.extend_from_slice(&[garbage; 90]);
    });
}

fn kept(s: &SimStorage) -> Vec<Vec<u8>> {
    let d = Path::new("/db/quarantine");
    let entries = s.list(d).unwrap_or_default();
    entries
        .iter()
        .map(|e| {
            let mut b = vec![0; e.len as usize];
            s.open(&d.join(&e.name), OpenMode::Read).unwrap().read_at(0, &mut b).unwrap();
            b
        })
        .collect()
}

fn replay(s: &SimStorage) -> Result<u64> {
    let s = Arc::new(s.clone());
    let (_, r) = Log::recover(s, &dir(), UUID, 0, RecoverMode::Strict, false, small(), &mut |_, _| Ok(()))?;
    Ok(r.frames)
}

#[test]
fn a_torn_end_is_kept_whole_whenever_the_power_goes_in_recovery() {
    let (whole, tail) = torn(0xAB);
    let before = whole.changes();
    let whole_run = whole.copy();
    assert_eq!(replay(&whole_run).unwrap(), 20);
    let changes = whole_run.changes();
    assert!(before > 0 && changes > 5, "{changes}");
    for n in 0..=changes {
        // Not `Torn`: recovery writes the last records again where they are, byte for byte. That is safe where a sector
        // is its old or its new content, and the log relies on that.
        for survive in [Survive::None, Survive::All, Survive::Random, Survive::Stale] {
            let s = whole.copy();
            s.power_off_after(n);
            let _ = replay(&s);
            let s = s.after_crash(survive, n);
            assert_eq!(replay(&s).unwrap(), 20, "cut {n} {survive:?}");
            assert!(kept(&s).contains(&tail), "cut {n} {survive:?}: the torn end is lost");
        }
    }
}

#[test]
fn two_torn_ends_at_one_place_are_both_kept() {
    let (s, first) = torn(0xAB);
    replay(&s).unwrap();
    tear(&s, 0xCD);
    replay(&s).unwrap();
    tear(&s, 0xCD);
    replay(&s).unwrap();
    assert_eq!(kept(&s), vec![first, vec![0xCD; 90]]);
}
