//! From files to memory: mapping what a manifest names.

use super::collection::{Collection, Inner, graph_params};
use super::files::{DataFile, FileDesc, PieceDesc, Section};
use super::heap::Heap;
use super::id_table::IdTable;
use super::layout::kind;
use super::manifest::{CollectionFiles, Manifest};
use super::rec::REC_BYTES;
use super::record::{Op, Record};
use super::spec::IndexKind;
use super::stage::Stage;
use crate::arena::{Arena, Piece};
use crate::error::{Error, Result};
use crate::hnsw::{Graph, State};
use crate::io::Storage;
use crate::props::PropIndex;
use crate::text::TextIndex;
use crate::view::ViewIndex;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What opening reads.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub collections: Vec<Arc<Collection>>,
    pub names: Vec<String>,
    pub kv: BTreeMap<(String, String), Vec<u8>>,
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
