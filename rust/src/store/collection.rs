//! One collection: rows, their records, and the indexes that change together with them.
//!
//! Promise: vectors, payloads, postings, text and visibility of a row change in one exclusive step (I11); a reader holds
//! the shared lock for one call and so sees one epoch (I7). Linking into the graph happens later, under the shared lock;
//! rows that are not linked yet are scanned exactly.

use super::heap::Heap;
use super::id_table::IdTable;
use super::names::Names;
use super::rec::{REC_BYTES, Rec};
use super::record::{PutStamps, VectorSource};
use super::spec::{IndexKind, Spec};
use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::flat::{BitSet, Rows};
use crate::hnsw::{Graph, Params, Scratch};
use crate::ids::{CollectionId, FOREVER, Micros, NO_ROW, RowId};
use crate::limits;
use crate::props::PropIndex;
use crate::text::TextIndex;
use crate::view::{Life, Stamps, ViewIndex};
use kektordb_compute::{Codec, Metric};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Collection {
    pub id: CollectionId,
    pub name: String,
    pub spec: Spec,
    pub codec: Codec,
    pub(super) inner: RwLock<Inner>,
    /// Held by whoever links rows or repairs the graph, so that only one does.
    pub(super) link_gate: Mutex<()>,
    /// Changed since the last checkpoint.
    pub(super) dirty: AtomicBool,
    /// Dropped: readers and linkers stop.
    pub(super) dropped: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub vectors: Arena,
    /// Leading bytes of `vectors` and of the heap that are in published files unchanged.
    pub vectors_clean: AtomicU64,
    pub heap_clean: AtomicU64,
    pub recs: Arena,
    pub heap: Heap,
    pub graph: Option<Graph>,
    pub ids: IdTable,
    pub props: PropIndex,
    pub text: Option<TextIndex>,
    pub view: ViewIndex,
    /// Rows that the graph does not hold yet.
    pub unlinked: RoaringBitmap,
    /// Rows that vacuum gave back.
    pub free: RoaringBitmap,
    /// Rows of closed records that vacuum may give back (collections without history).
    pub dead: RoaringBitmap,
    /// Bytes of the heap that nothing names any more.
    pub heap_garbage: u64,
    /// Vectors of another embedder, on their way in.
    pub stage: Option<super::stage::Stage>,
    /// The last change, for readers that compare moments.
    pub last_tx: Micros,
    /// `view.current()` as a dense set, made when first asked for.
    pub dense: Mutex<Option<Arc<BitSet>>>,
}

/// A vector to store: the bytes of the row and the length that was given.
struct EncodedRow {
    bytes: Vec<u8>,
    norm: f32,
}

impl Inner {
    pub(super) fn rows(&self) -> RowId {
        self.recs.rows() as RowId
    }

    pub(super) fn rec(&self, row: RowId) -> Result<Rec> {
        if row >= self.rows() {
            return Err(Error::corrupt("records", row as u64, format!("row {row} of {}", self.rows())));
        }
        Rec::read(self.recs.row(row as usize)).ok_or_else(|| {
            Error::corrupt(
                "records",
                row as u64 * REC_BYTES as u64,
                format!("record of row {row} has no meaning"),
            )
        })
    }

    pub(super) fn stamps(&self, row: RowId) -> Result<Stamps> {
        Ok(self.rec(row)?.stamps)
    }

    pub(super) fn id_of(&self, rec: &Rec) -> Result<&str> {
        self.heap.text(rec.id_off, rec.id_len, "id")
    }

    pub(super) fn payload_of(&self, rec: &Rec) -> Result<&str> {
        if rec.payload_len == 0 {
            return Ok("");
        }
        self.heap.text(rec.payload_off, rec.payload_len, "payload")
    }

    pub(super) fn has_id(&self, row: RowId, id: &str) -> Result<bool> {
        if row >= self.rows() {
            return Err(Error::corrupt("id table", u64::from(row), "names a row that does not exist"));
        }
        row_has_id(&self.recs, &self.heap, row, id)
    }

    /// The newest record of `id`, open or closed.
    pub(super) fn newest(&self, id: &str) -> Result<Option<RowId>> {
        self.ids.get(id, |r| self.has_id(r, id))
    }

    /// The open record of `id`.
    pub(super) fn open_row(&self, id: &str) -> Result<Option<(RowId, Rec)>> {
        let Some(row) = self.newest(id)? else { return Ok(None) };
        let rec = self.rec(row)?;
        Ok((rec.stamps.tx_to == FOREVER).then_some((row, rec)))
    }

    pub(super) fn value_of(&self, rec: &Rec) -> Result<serde_json::Value> {
        parse_payload(self.payload_of(rec)?.as_bytes())
    }

    pub(super) fn vector_rows<'a>(&'a self, codec: &'a Codec) -> Result<Rows<'a>> {
        Rows::new(&self.vectors, codec, self.vectors.rows())
    }

    /// `view.current()` as a dense set.
    pub(super) fn dense_current(&self) -> Arc<BitSet> {
        let mut slot = self.dense.lock();
        slot.get_or_insert_with(|| Arc::new(BitSet::from_roaring(self.rows() as usize, self.view.current())))
            .clone()
    }

    fn forget_dense(&mut self) {
        *self.dense.get_mut() = None;
    }
}

pub(super) fn parse_payload(json: &[u8]) -> Result<serde_json::Value> {
    if json.is_empty() {
        return Ok(serde_json::Value::Object(Default::default()));
    }
    serde_json::from_slice(json).map_err(|e| Error::invalid(format!("payload is not JSON: {e}"), ""))
}

impl Collection {
    pub(crate) fn new(id: CollectionId, name: &str, spec: Spec, seed: u64) -> Result<Self> {
        let codec = spec.codec()?;
        let graph = new_graph(&spec, &codec)?;
        let text = text_index(&spec)?;
        let inner = Inner {
            vectors_clean: AtomicU64::new(0),
            heap_clean: AtomicU64::new(0),
            vectors: Arena::new(codec.row_bytes())?,
            recs: Arena::new(REC_BYTES)?,
            heap: Heap::new()?,
            graph,
            ids: IdTable::new(seed ^ u64::from(id)),
            props: PropIndex::new(),
            text,
            view: ViewIndex::default(),
            unlinked: RoaringBitmap::new(),
            free: RoaringBitmap::new(),
            dead: RoaringBitmap::new(),
            heap_garbage: 0,
            stage: None,
            last_tx: 0,
            dense: Mutex::new(None),
        };
        Ok(Collection::from_inner(id, name, spec, codec, inner))
    }

    pub(super) fn from_inner(id: CollectionId, name: &str, spec: Spec, codec: Codec, inner: Inner) -> Self {
        Collection {
            id,
            name: name.into(),
            spec,
            codec,
            inner: RwLock::new(inner),
            link_gate: Mutex::new(()),
            dirty: AtomicBool::new(true),
            dropped: AtomicBool::new(false),
        }
    }

    /// Adds a record; an open one of the same id is closed.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn put(
        &self,
        inner: &mut Inner,
        id: &str,
        vector: &VectorSource,
        payload: &[u8],
        stamps: &PutStamps,
        tx: Micros,
        names: &mut dyn Names,
    ) -> Result<()> {
        let row_bytes = self.encode(inner, vector)?;
        let value = parse_payload(payload)?;
        let old = inner.newest(id)?;
        let mut id_at = None;
        if let Some(old) = old {
            let rec = inner.rec(old)?;
            id_at = Some((rec.id_off, rec.id_len));
            if rec.stamps.tx_to == FOREVER {
                self.end(inner, old, rec, tx, Life::Gone)?;
            }
        }
        let row = match inner.free.min() {
            Some(r) => {
                inner.free.remove(r);
                r
            }
            None => inner.rows(),
        };
        if row as usize >= limits::MAX_ROWS {
            return Err(Error::LimitExceeded {
                limit: "MAX_ROWS",
                what: format!("rows of collection {:?}", self.name),
                got: u64::from(row) + 1,
                max: limits::MAX_ROWS as u64,
            });
        }
        let rows = (row as usize + 1).max(inner.recs.rows());
        inner.vectors.grow_to(rows)?;
        inner.recs.grow_to(rows)?;
        if let Some(g) = &mut inner.graph {
            g.grow_to(rows)?;
        }
        let (id_off, id_len) = match id_at {
            Some(at) => at,
            None => (inner.heap.push(id.as_bytes())?, id.len() as u32),
        };
        let payload_off = inner.heap.push(payload)?;
        let mut part = |p: &Option<String>| p.as_deref().map_or(0, |n| names.intern(n));
        let s = Stamps {
            tx_from: tx,
            tx_to: FOREVER,
            valid_from: stamps.valid_from,
            valid_to: stamps.valid_to,
            user: part(&stamps.user),
            agent: part(&stamps.agent),
            session: part(&stamps.session),
            life: stamps.life,
            end_life: Life::Gone,
            belief: stamps.belief,
            trust: stamps.trust,
            stale: stamps.stale,
        };
        let rec = Rec {
            stamps: s,
            id_off,
            payload_off,
            id_len,
            payload_len: payload.len() as u32,
            prev: if self.spec.history { old.unwrap_or(NO_ROW) } else { NO_ROW },
            norm: row_bytes.norm,
        };
        if let Some(s) = &mut inner.stage {
            s.vectors.truncate(row as usize * s.dim);
        }
        let at = row as u64 * row_bytes.bytes.len() as u64;
        inner.vectors_clean.fetch_min(at, Ordering::AcqRel);
        inner.vectors.row_mut(row as usize).copy_from_slice(&row_bytes.bytes);
        rec.write(inner.recs.row_mut(row as usize));
        self.index_payload(inner, row, &value);
        inner.view.add(row, &s);
        let Inner { ids, recs, heap, .. } = &mut *inner;
        ids.set(id, row, |r| row_has_id(recs, heap, r, id))?;
        if inner.graph.is_some() {
            inner.unlinked.insert(row);
        }
        self.touch(inner, tx);
        Ok(())
    }

    /// Ends the open record of `id`; `false` where there is none.
    pub(super) fn close(&self, inner: &mut Inner, id: &str, end_life: Life, tx: Micros) -> Result<bool> {
        let Some((row, rec)) = inner.open_row(id)? else { return Ok(false) };
        self.end(inner, row, rec, tx, end_life)?;
        self.touch(inner, tx);
        Ok(true)
    }

    fn end(&self, inner: &mut Inner, row: RowId, mut rec: Rec, tx: Micros, end_life: Life) -> Result<()> {
        inner.view.remove(row, &rec.stamps);
        rec.end_at(tx, end_life);
        rec.write(inner.recs.row_mut(row as usize));
        if !self.spec.history {
            self.forget_payload(inner, row, &rec)?;
            inner.heap_garbage += u64::from(rec.payload_len);
            inner.dead.insert(row);
        }
        Ok(())
    }

    /// Replaces or merges the payload of the open record of `id` in place; `false` where there is none.
    pub(super) fn set_payload(
        &self,
        inner: &mut Inner,
        id: &str,
        payload: &[u8],
        merge: bool,
        tx: Micros,
    ) -> Result<bool> {
        let Some((row, mut rec)) = inner.open_row(id)? else { return Ok(false) };
        let mut value = parse_payload(payload)?;
        let merged;
        let bytes: &[u8] = if merge {
            let mut old = inner.value_of(&rec)?;
            if let (Some(o), serde_json::Value::Object(new)) = (old.as_object_mut(), value) {
                o.extend(new);
            }
            value = old;
            merged = serde_json::to_vec(&value).map_err(|e| Error::Internal(e.to_string()))?;
            &merged
        } else {
            payload
        };
        self.forget_payload(inner, row, &rec)?;
        inner.heap_garbage += u64::from(rec.payload_len);
        rec.payload_off = inner.heap.push(bytes)?;
        rec.payload_len = bytes.len() as u32;
        rec.write(inner.recs.row_mut(row as usize));
        self.index_payload(inner, row, &value);
        self.touch(inner, tx);
        Ok(true)
    }

    fn touch(&self, inner: &mut Inner, tx: Micros) {
        inner.last_tx = tx;
        inner.forget_dense();
        self.dirty.store(true, Ordering::Release);
    }

    fn texts(&self, value: &serde_json::Value) -> Vec<String> {
        self.spec.text_fields.iter().map(|f| text_of(value, f)).collect()
    }

    fn index_payload(&self, inner: &mut Inner, row: RowId, value: &serde_json::Value) {
        inner.props.insert(row, value);
        if let Some(t) = &mut inner.text {
            t.insert(row, &self.texts(value));
        }
    }

    fn forget_payload(&self, inner: &mut Inner, row: RowId, rec: &Rec) -> Result<()> {
        let value = inner.value_of(rec)?;
        inner.props.remove(row, &value);
        if let Some(t) = &mut inner.text {
            t.remove(row, &self.texts(&value));
        }
        Ok(())
    }

    fn encode(&self, inner: &Inner, vector: &VectorSource) -> Result<EncodedRow> {
        match vector {
            VectorSource::Given(v) => {
                if v.len() != self.spec.dim {
                    return Err(Error::DimensionMismatch {
                        collection: self.name.clone(),
                        got: v.len(),
                        want: self.spec.dim,
                    });
                }
                let mut bytes = vec![0; self.codec.row_bytes()];
                let norm = self.codec.encode(v, &mut bytes);
                Ok(EncodedRow { bytes, norm })
            }
            VectorSource::Like(id) => {
                let row = inner.newest(id)?.ok_or_else(|| Error::NotFound { what: format!("{id:?}") })?;
                Ok(EncodedRow { bytes: inner.vectors.row(row as usize).to_vec(), norm: inner.rec(row)?.norm })
            }
        }
    }

    /// The stored vector in the units it was given in.
    pub(super) fn vector(&self, inner: &Inner, row: RowId, norm: f32) -> Vec<f32> {
        let mut out = vec![0.0; self.spec.dim];
        self.codec.decode(inner.vectors.row(row as usize), &mut out);
        if self.codec.metric() == Metric::Cosine {
            for x in &mut out {
                *x *= norm;
            }
        }
        out
    }

    /// Rows that wait to be linked.
    pub(crate) fn unlinked(&self) -> u64 {
        self.inner.read().unlinked.len()
    }

    /// Links up to `most` waiting rows on `threads` threads. Searches go on meanwhile; writers wait for one row at most.
    /// Returns how many were linked; 0 = none is left.
    pub(crate) fn link(&self, most: usize, threads: usize) -> Result<usize> {
        let _one = self.link_gate.lock();
        let batch: Vec<RowId> = {
            let inner = self.inner.read();
            if inner.graph.is_none() {
                return Ok(0);
            }
            inner.unlinked.iter().take(most).collect()
        };
        if batch.is_empty() {
            return Ok(0);
        }
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            let mut scratch = Scratch::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(&row) = batch.get(i) else { return Ok(()) };
                if self.dropped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let inner = self.inner.read();
                if let Some(g) = &inner.graph {
                    g.insert(&inner.vector_rows(&self.codec)?, row, &mut scratch);
                }
            }
        };
        // A few rows are not worth a thread.
        let threads = threads.clamp(1, batch.len().div_ceil(16));
        std::thread::scope(|s| {
            let others: Vec<_> = (1..threads).map(|_| s.spawn(work)).collect();
            work()?;
            others.into_iter().try_for_each(|t| {
                t.join().map_err(|_| Error::Internal("a linking thread panicked".into()))?
            })
        })?;
        let mut inner = self.inner.write();
        for row in &batch {
            inner.unlinked.remove(*row);
        }
        self.dirty.store(true, Ordering::Release);
        Ok(batch.len())
    }
}

pub(super) fn row_has_id(recs: &Arena, heap: &Heap, row: RowId, id: &str) -> Result<bool> {
    let rec = Rec::read(recs.row(row as usize))
        .ok_or_else(|| Error::corrupt("records", u64::from(row), "record has no meaning"))?;
    Ok(heap.text(rec.id_off, rec.id_len, "id")? == id)
}

/// An empty graph of the collection's kind; none for exact scans.
pub(super) fn new_graph(spec: &Spec, codec: &Codec) -> Result<Option<Graph>> {
    Ok(match spec.index {
        IndexKind::Packed => Some(Graph::packed(graph_params(spec), codec)?),
        IndexKind::Graph => Some(Graph::new(graph_params(spec))?),
        IndexKind::Flat => None,
    })
}

pub(super) fn graph_params(spec: &Spec) -> Params {
    Params::new(spec.m, spec.ef_construction)
}

pub(super) fn text_index(spec: &Spec) -> Result<Option<TextIndex>> {
    if spec.text_fields.is_empty() {
        return Ok(None);
    }
    Ok(Some(TextIndex::new(spec.language.as_deref())?))
}

/// The text at a dotted path of a payload; a list's texts are joined by a line end.
pub(super) fn text_of(value: &serde_json::Value, path: &str) -> String {
    fn collect(v: &serde_json::Value, out: &mut String) {
        match v {
            serde_json::Value::String(s) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(s);
            }
            serde_json::Value::Array(a) => a.iter().for_each(|v| collect(v, out)),
            _ => {}
        }
    }
    let mut at = Some(value);
    for part in path.split('.') {
        at = at.and_then(|v| v.get(part));
    }
    let mut out = String::new();
    if let Some(v) = at {
        collect(v, &mut out);
    }
    out
}
