//! A checkpoint: memory to files to map.
//!
//! It writes new files, syncs them and their directory, publishes a new manifest, and only then removes what
//! the manifest no longer names and drops the log before it. A crash at any step leaves the old or the new state.
//! Vectors and heap are written in pieces: what has not changed since the last checkpoint stays in its file.

use super::collection::Collection;
use super::files::{self, PieceDesc};
use super::layout::{header, kind, manifest_name, publish_manifest};
use super::manifest::{CollectionFiles, Manifest};
use super::record::{Op, Record};
use super::shared::{Leader, Shared};
use crate::error::{Error, Result};
use crate::io::{EntryKind, FileHeader, Region, Storage};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Writes all that changed; a failure poisons the store. The caller holds the leader's lock, so no commit runs.
    pub(super) fn checkpoint(&self, leader: &mut Leader) -> Result<()> {
        write(self, leader).inspect_err(|e| self.poison(e))
    }
}

fn write(s: &Shared, leader: &mut Leader) -> Result<()> {
    let (Some(dir), Some(log)) = (&s.dir, &s.log) else { return Ok(()) };
    let catalog: Vec<Arc<Collection>> = s.catalog.read().values().cloned().collect();
    let changed = leader.applied_lsn != leader.manifest.last_lsn
        || catalog.iter().any(|c| c.dirty.load(Ordering::Acquire));
    if !changed {
        return Ok(());
    }
    // What the files will hold must not outlive the log's own end.
    log.sync()?;
    let storage = &*s.storage;
    let col = dir.join("col");
    let generation = leader.manifest.generation + 1;
    remove_strangers(storage, dir, &leader.manifest)?;
    let mut next = Manifest {
        generation,
        last_lsn: leader.applied_lsn,
        last_tx: leader.last_tx,
        next_collection_id: leader.next_cid,
        names: s.names.read().list().to_vec(),
        collections: Vec::new(),
        kv: leader.manifest.kv.clone(),
        written_by: env!("CARGO_PKG_VERSION").into(),
        extra: leader.manifest.extra.clone(),
    };
    let mut written = Vec::new();
    for c in &catalog {
        let before = leader.manifest.collections.iter().find(|f| f.id == c.id);
        match before {
            Some(f) if !c.dirty.load(Ordering::Acquire) => next.collections.push(f.clone()),
            _ => {
                let (f, marks) = write_collection(storage, &col, s.uuid, generation, c, before)?;
                next.collections.push(f);
                written.push((c, marks));
            }
        }
    }
    if s.kv_dirty.swap(false, Ordering::AcqRel) {
        let kv = s.kv.read();
        let set = |((n, k), v): (&(String, String), &Vec<u8>)| Op::KvSet {
            namespace: n.clone(),
            key: k.clone(),
            value: v.clone(),
        };
        let ops = kv.iter().map(set).collect();
        let r = Record { tx_time: 0, actor: String::new(), reason: String::new(), ops };
        let name = format!("kv-{generation:010}");
        next.kv =
            Some(files::write(storage, &col, &name, &header(kind::KV, s.uuid, generation), &r.encode())?);
    }
    storage.sync_dir(&col)?;
    publish_manifest(storage, dir, s.uuid, &next)?;
    for (c, marks) in written {
        marks.settle(c);
    }
    leader.manifest = next;
    leader.log_bytes_since_checkpoint = 0;
    log.rotate()?;
    log.drop_before(leader.applied_lsn)?;
    remove_strangers(storage, dir, &leader.manifest)
}

/// What to note in a collection once its files are published.
#[derive(Debug)]
struct Marks {
    vectors: u64,
    heap: u64,
}

impl Marks {
    fn settle(self, c: &Collection) {
        let inner = c.inner.read();
        inner.vectors_clean.store(self.vectors, Ordering::Release);
        inner.heap_clean.store(self.heap, Ordering::Release);
        // Links made after the files were written make it dirty again by themselves.
    }
}

/// Removes files that the manifest does not name: an interrupted checkpoint's, or the last one's.
fn remove_strangers(storage: &dyn Storage, dir: &Path, m: &Manifest) -> Result<()> {
    let col = dir.join("col");
    let known: HashSet<&str> = m.files().map(|f| f.name.as_str()).collect();
    for e in storage.list(&col)? {
        if e.kind == EntryKind::File && !known.contains(e.name.as_str()) {
            storage.remove(&col.join(&e.name))?;
        }
    }
    // The manifest before the current one stays: a reader may stand between CURRENT and the file.
    let keep = [manifest_name(m.generation), manifest_name(m.generation.saturating_sub(1))];
    for e in storage.list(dir)? {
        if (e.name.starts_with("MANIFEST-") && !keep.contains(&e.name)) || e.name.ends_with(".tmp") {
            storage.remove(&dir.join(&e.name))?;
        }
    }
    Ok(())
}

/// Splits off what an append-only arena has beyond its clean bytes as a new piece; small pieces are merged into it.
fn write_pieces(
    storage: &dyn Storage,
    col: &Path,
    head: &FileHeader,
    name: String,
    bytes: &[u8],
    clean: u64,
    before: &[PieceDesc],
) -> Result<Vec<PieceDesc>> {
    const ALIGN: u64 = Region::ALIGN as u64;
    let total = bytes.len() as u64;
    let mut from = clean.min(total) / ALIGN * ALIGN;
    if from == total && !before.is_empty() && before.iter().map(|p| p.len).sum::<u64>() == total {
        return Ok(before.to_vec());
    }
    let mut keep: Vec<PieceDesc> = before.iter().filter(|p| p.start < from).cloned().collect();
    // A piece that is not much larger than what comes behind it is written again with it: few files, few rewrites.
    while let Some(p) = keep.last() {
        let len = p.len.min(from - p.start);
        if len < 2 * (total - from) {
            from = p.start;
            keep.pop();
        } else {
            break;
        }
    }
    if let Some(p) = keep.last_mut() {
        p.len = from - p.start;
    } else {
        from = 0;
    }
    if from < total {
        let file = files::write(storage, col, &name, head, &bytes[from as usize..])?;
        keep.push(PieceDesc { start: from, len: file.data_len, file });
    }
    Ok(keep)
}

fn write_collection(
    storage: &dyn Storage,
    col: &Path,
    uuid: [u8; 16],
    generation: u64,
    c: &Collection,
    before: Option<&CollectionFiles>,
) -> Result<(CollectionFiles, Marks)> {
    // No linker runs, no commit runs: the shared lock is enough for a picture that does not change.
    let _no_linker = c.link_gate.lock();
    let inner = c.inner.read();
    c.dirty.store(false, Ordering::Release);
    let name = |k: &str| format!("{:08}-{generation:010}.{k}", c.id);
    let head = |k: u8| header(k, uuid, generation);
    let none = Vec::new();
    let vectors = write_pieces(
        storage,
        col,
        &head(kind::VECTORS),
        name("vectors"),
        inner.vectors.bytes(),
        inner.vectors_clean.load(Ordering::Acquire),
        before.map_or(&none, |b| &b.vectors),
    )?;
    let heap = write_pieces(
        storage,
        col,
        &head(kind::HEAP),
        name("heap"),
        inner.heap.arena().bytes(),
        inner.heap_clean.load(Ordering::Acquire),
        before.map_or(&none, |b| &b.heap),
    )?;
    let recs = files::write(storage, col, &name("recs"), &head(kind::RECS), inner.recs.bytes())?;
    let (mut ground, mut upper) = (None, None);
    if let Some(g) = &inner.graph {
        ground = Some(files::write(storage, col, &name("ground"), &head(kind::GROUND), g.ground().bytes())?);
        upper = Some(files::write(storage, col, &name("upper"), &head(kind::UPPER), g.upper().bytes())?);
    }
    let mut blob = Vec::new();
    let mut sections = BTreeMap::new();
    let mut section =
        |blob: &mut Vec<u8>, name: &str, write: &dyn Fn(&mut Vec<u8>) -> Result<()>| -> Result<()> {
            let pad = blob.len().next_multiple_of(64);
            blob.resize(pad, 0);
            write(blob)?;
            sections.insert(name.to_owned(), (pad as u64, (blob.len() - pad) as u64));
            Ok(())
        };
    section(&mut blob, "ids", &|o| {
        inner.ids.write(o);
        Ok(())
    })?;
    section(&mut blob, "view", &|o| inner.view.write(o))?;
    for (n, set) in [("unlinked", &inner.unlinked), ("free", &inner.free), ("dead", &inner.dead)] {
        section(&mut blob, n, &|o| set.serialize_into(o).map_err(|e| Error::Internal(e.to_string())))?;
    }
    if let Some(stage) = &inner.stage {
        section(&mut blob, "stage", &|o| {
            stage.write(o);
            Ok(())
        })?;
    }
    if let Some(g) = &inner.graph {
        section(&mut blob, "graph", &|o| {
            o.extend_from_slice(&g.state().to_bytes());
            Ok(())
        })?;
    }
    section(&mut blob, "props", &|o| write_section(o, |b| inner.props.write_base(b)))?;
    if let Some(t) = &inner.text {
        section(&mut blob, "text", &|o| write_section(o, |b| t.write_base(b)))?;
    }
    let index = files::write(storage, col, &name("index"), &head(kind::INDEX), &blob)?;
    let marks = Marks { vectors: inner.vectors.bytes().len() as u64, heap: inner.heap.len() };
    let f = CollectionFiles {
        id: c.id,
        name: c.name.clone(),
        spec: c.spec.clone(),
        rows: inner.rows(),
        heap_len: inner.heap.len(),
        heap_garbage: inner.heap_garbage,
        last_tx: inner.last_tx,
        vectors,
        heap,
        recs: Some(recs),
        ground,
        upper,
        index: Some(index),
        sections,
        extra: before.map(|b| b.extra.clone()).unwrap_or_default(),
    };
    Ok((f, marks))
}

fn write_section(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let mut b = Vec::new();
    write(&mut b)?;
    out.extend_from_slice(&b);
    Ok(())
}
