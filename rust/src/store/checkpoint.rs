//! Checkpoint and opening: memory to files to map, and back.
//!
//! A checkpoint writes new files, syncs them and their directory, publishes a new manifest, and only then removes what
//! the manifest no longer names and drops the log before it. A crash at any step leaves the old or the new state.
//! Vectors and heap are written in pieces: what has not changed since the last checkpoint stays in its file.

use super::collection::{Collection, Inner, graph_params};
use super::database::{Leader, Shared};
use super::files::{self, DataFile, FileDesc, PieceDesc, Section};
use super::heap::Heap;
use super::id_table::IdTable;
use super::manifest::{CollectionFiles, Manifest};
use super::rec::REC_BYTES;
use super::record::{Op, Record};
use super::restage::Stage;
use super::spec::IndexKind;
use crate::arena::{Arena, Piece};
use crate::error::{Error, Result};
use crate::hnsw::{Graph, State};
use crate::io::{EntryKind, FileHeader, Region, Storage, publish, read_published};
use crate::log::{Log, LogOptions};
use crate::props::PropIndex;
use crate::text::TextIndex;
use crate::view::ViewIndex;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Kinds of files, as their headers name them.
pub(super) mod kind {
    pub(crate) const CURRENT: u8 = b'C';
    pub(crate) const MANIFEST: u8 = b'M';
    pub(crate) const VECTORS: u8 = b'V';
    pub(crate) const HEAP: u8 = b'H';
    pub(crate) const RECS: u8 = b'R';
    pub(crate) const GROUND: u8 = b'G';
    pub(crate) const UPPER: u8 = b'U';
    pub(crate) const INDEX: u8 = b'I';
    pub(crate) const KV: u8 = b'K';
}

/// How many parents of a new database are synced: as many as opening is likely to have made.
const SYNCED_PARENTS: usize = 3;

/// What opening reads.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub collections: Vec<Arc<Collection>>,
    pub names: Vec<String>,
    pub kv: BTreeMap<(String, String), Vec<u8>>,
}

fn header(kind: u8, uuid: [u8; 16], generation: u64) -> FileHeader {
    FileHeader::new(kind, uuid, generation)
}

/// The manifest in force and the store's identity; `None` where no database was ever completed here.
pub(super) fn current(storage: &dyn Storage, dir: &Path) -> Result<Option<([u8; 16], Manifest)>> {
    let path = dir.join("CURRENT");
    if !storage.exists(&path)? {
        return Ok(None);
    }
    let (h, body) = read_published(storage, &path, kind::CURRENT)?;
    let name = String::from_utf8(body).map_err(|_| Error::corrupt(&path, 64, "name is not UTF-8"))?;
    if name != manifest_name(h.generation) {
        return Err(Error::corrupt(&path, 64, format!("names {name:?}, its generation is {}", h.generation)));
    }
    let path = dir.join(&name);
    let (mh, body) = read_published(storage, &path, kind::MANIFEST)?;
    if mh.store_uuid != h.store_uuid || mh.generation != h.generation {
        return Err(Error::corrupt(&path, 0, "manifest of another store or generation"));
    }
    let m: Manifest = serde_json::from_slice(&body)
        .map_err(|e| Error::corrupt(&path, 64, format!("manifest does not parse: {e}")))?;
    if m.generation != h.generation {
        return Err(Error::corrupt(&path, 64, "manifest names another generation"));
    }
    Ok(Some((h.store_uuid, m)))
}

fn manifest_name(generation: u64) -> String {
    format!("MANIFEST-{generation:010}")
}

/// Refuses a directory of something else before anything is written into it.
pub(super) fn refuse_foreign(storage: &dyn Storage, dir: &Path) -> Result<()> {
    if !storage.exists(dir)? || storage.exists(&dir.join("CURRENT"))? {
        return Ok(());
    }
    for e in storage.list(dir)? {
        let ours = e.name == "LOCK"
            || e.name == "log"
            || e.name == "col"
            || e.name == "quarantine"
            || e.name.starts_with("MANIFEST-")
            || e.name.ends_with(".tmp");
        if !ours {
            return Err(Error::invalid(
                format!("{} is not a database: it holds {:?} and no CURRENT", dir.display(), e.name),
                "name an empty or a new directory",
            ));
        }
    }
    Ok(())
}

/// A new, empty database: the log first, then the manifest, so that a manifest without a log is damage.
pub(super) fn create(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    uuid: [u8; 16],
    options: LogOptions,
    manifest: &mut Manifest,
) -> Result<Log> {
    let (log_dir, col) = (dir.join("log"), dir.join("col"));
    storage.create_dir(&log_dir)?;
    storage.create_dir(&col)?;
    // An interrupted creation leaves a first manifest and an empty segment at most; more was a database once.
    let mut was_one = storage.list(&col)?.into_iter().next().map(|e| e.name);
    for e in storage.list(dir)? {
        if e.name.starts_with("MANIFEST-") && !e.name.ends_with(".tmp") && e.name != manifest_name(1) {
            was_one = Some(e.name);
        }
    }
    for e in storage.list(&log_dir)? {
        if e.len > crate::log::EMPTY_SEGMENT_BYTES {
            was_one = Some(e.name);
        }
    }
    if let Some(name) = was_one {
        return Err(Error::corrupt(
            dir.join("CURRENT"),
            0,
            format!("the file is missing, though {name:?} shows that a database is here"),
        ));
    }
    // Nothing was acknowledged before CURRENT was there.
    for e in storage.list(&log_dir)? {
        storage.remove(&log_dir.join(&e.name))?;
    }
    for e in storage.list(dir)? {
        if e.name.starts_with("MANIFEST-") || e.name.ends_with(".tmp") {
            storage.remove(&dir.join(&e.name))?;
        }
    }
    let log = Log::create(storage.clone(), &log_dir, uuid, 1, options)?;
    storage.sync_dir(&log_dir)?;
    *manifest = Manifest {
        generation: 1,
        next_collection_id: 1,
        written_by: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    publish_manifest(&**storage, dir, uuid, manifest)?;
    // The directory's own name, and those of parents that were made with it. A parent that may not be read cannot be
    // synced, and was not made with it.
    for parent in dir.ancestors().skip(1).take(SYNCED_PARENTS) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match storage.sync_dir(parent) {
            Err(Error::Permission { .. }) => {}
            r => r?,
        }
    }
    Ok(log)
}

fn publish_manifest(storage: &dyn Storage, dir: &Path, uuid: [u8; 16], m: &Manifest) -> Result<()> {
    let body = serde_json::to_vec_pretty(m).map_err(|e| Error::Internal(e.to_string()))?;
    let name = manifest_name(m.generation);
    publish(storage, dir, &name, &header(kind::MANIFEST, uuid, m.generation), &body)?;
    publish(storage, dir, "CURRENT", &header(kind::CURRENT, uuid, m.generation), name.as_bytes())
}

/// Writes all that changed; see the module's promise. The caller holds the leader's lock, so no commit runs.
pub(super) fn write(s: &Shared, leader: &mut Leader) -> Result<()> {
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

/// Maps the files of a manifest. Contents are checked here where all of them together are at most `verify_bytes`.
pub(super) fn load(
    storage: &dyn Storage,
    dir: &Path,
    uuid: &[u8; 16],
    m: &Manifest,
    verify_bytes: u64,
) -> Result<Loaded> {
    let col = dir.join("col");
    let total: u64 = m.files().map(|f| f.data_len).sum();
    let verify = total <= verify_bytes;
    let open = |d: &FileDesc, k: u8| -> Result<DataFile> {
        let f = DataFile::open(storage, &col, d, uuid, k)?;
        if verify {
            f.verify_padding()?;
            f.verify()?;
        }
        Ok(f)
    };
    let mut loaded = Loaded { names: m.names.clone(), ..Default::default() };
    if let Some(d) = &m.kv {
        let f = open(d, kind::KV)?;
        if !verify {
            f.verify()?;
        }
        for op in Record::decode((f.map()?).as_ref())?.ops {
            if let Op::KvSet { namespace, key, value } = op {
                loaded.kv.insert((namespace, key), value);
            }
        }
    }
    for f in &m.collections {
        loaded.collections.push(Arc::new(load_collection(&col, f, &open)?));
    }
    Ok(loaded)
}

type Open<'a> = dyn Fn(&FileDesc, u8) -> Result<DataFile> + 'a;

fn pieces(list: &[PieceDesc], k: u8, open: &Open) -> Result<Vec<Piece>> {
    list.iter().map(|p| open(&p.file, k)?.piece(p.start, p.len)).collect()
}

fn whole(d: &Option<FileDesc>, k: u8, open: &Open) -> Result<Vec<Piece>> {
    let Some(d) = d else { return Ok(Vec::new()) };
    let f = open(d, k)?;
    if f.len() == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![f.piece(0, f.len())?])
}

fn load_collection(col: &Path, f: &CollectionFiles, open: &Open) -> Result<Collection> {
    let bad = |what: &str| {
        let name = f.index.as_ref().map_or("manifest", |i| &i.name);
        Error::corrupt(col.join(name), 0, format!("{what} of collection {:?} does not read back", f.name))
    };
    let codec = f.spec.codec()?;
    let rows = f.rows as usize;
    let index = open(f.index.as_ref().ok_or_else(|| bad("index file"))?, kind::INDEX)?;
    let path = index.file.path().to_path_buf();
    let map = Arc::new(index.map()?);
    let section = |name: &str| -> Result<Section> {
        let &(start, len) = f.sections.get(name).ok_or_else(|| bad(name))?;
        if start.checked_add(len).is_none_or(|e| e > index.len()) {
            return Err(bad(name));
        }
        Ok(Section { whole: map.clone(), start: start as usize, len: len as usize })
    };
    let graph = match f.spec.index {
        IndexKind::Flat => None,
        IndexKind::Packed | IndexKind::Graph => {
            let state = State::from_bytes(section("graph")?.as_ref()).ok_or_else(|| bad("graph"))?;
            if state.rows != f.rows {
                return Err(bad("graph"));
            }
            let ground = whole(&f.ground, kind::GROUND, open)?;
            let upper = whole(&f.upper, kind::UPPER, open)?;
            let params = graph_params(&f.spec);
            Some(match f.spec.index {
                IndexKind::Packed => Graph::open_packed(params, &codec, &state, &ground, &upper)?,
                _ => Graph::open(params, &state, &ground, &upper)?,
            })
        }
    };
    let set = |name: &str| -> Result<RoaringBitmap> {
        let s = section(name)?;
        let b = RoaringBitmap::deserialize_from(s.as_ref()).map_err(|_| bad(name))?;
        if b.max().is_some_and(|r| r >= f.rows) { Err(bad(name)) } else { Ok(b) }
    };
    let view = ViewIndex::read(section("view")?.as_ref()).ok_or_else(|| bad("view"))?;
    if view.max_row().is_some_and(|r| r >= f.rows) {
        return Err(bad("view"));
    }
    let text = match f.spec.text_fields.is_empty() {
        true => None,
        false => Some(TextIndex::open(f.spec.language.as_deref(), Arc::new(section("text")?), &path)?),
    };
    let vectors = Arena::open(codec.row_bytes(), rows, &pieces(&f.vectors, kind::VECTORS, open)?)?;
    let heap = Heap::open(f.heap_len, &pieces(&f.heap, kind::HEAP, open)?)?;
    let inner = Inner {
        vectors_clean: ((rows * codec.row_bytes()) as u64).into(),
        heap_clean: f.heap_len.into(),
        vectors,
        recs: Arena::open(REC_BYTES, rows, &whole(&f.recs, kind::RECS, open)?)?,
        heap,
        graph,
        ids: IdTable::read(section("ids")?.as_ref(), f.rows).ok_or_else(|| bad("ids"))?,
        props: PropIndex::open(Arc::new(section("props")?), &path)?,
        text,
        view,
        unlinked: set("unlinked")?,
        free: set("free")?,
        dead: set("dead")?,
        heap_garbage: f.heap_garbage,
        stage: match f.sections.contains_key("stage") {
            true => Some(Stage::read(section("stage")?.as_ref()).ok_or_else(|| bad("stage"))?),
            false => None,
        },
        last_tx: f.last_tx,
        dense: Mutex::new(None),
    };
    let c = Collection::from_inner(f.id, &f.name, f.spec.clone(), codec, inner);
    c.dirty.store(false, Ordering::Release);
    Ok(c)
}

/// Checks every byte of every file that the manifest names; the first fault of each file is reported.
pub fn verify(storage: &dyn Storage, dir: &Path) -> Result<Vec<Error>> {
    let Some((uuid, m)) = current(storage, dir)? else {
        return Err(Error::NotFound { what: format!("database {}", dir.display()) });
    };
    let col = dir.join("col");
    let mut faults = Vec::new();
    let mut check = |d: &FileDesc, k: u8| {
        let r = DataFile::open(storage, &col, d, &uuid, k).and_then(|f| f.verify_padding().and(f.verify()));
        if let Err(e) = r {
            faults.push(e);
        }
    };
    for c in &m.collections {
        for p in &c.vectors {
            check(&p.file, kind::VECTORS);
        }
        for p in &c.heap {
            check(&p.file, kind::HEAP);
        }
        let one = [
            (&c.recs, kind::RECS),
            (&c.ground, kind::GROUND),
            (&c.upper, kind::UPPER),
            (&c.index, kind::INDEX),
        ];
        for (d, k) in one {
            if let Some(d) = d {
                check(d, k);
            }
        }
    }
    if let Some(d) = &m.kv {
        check(d, kind::KV);
    }
    if faults.is_empty()
        && let Err(e) = load(storage, dir, &uuid, &m, 0)
    {
        faults.push(e);
    }
    Ok(faults)
}
