//! `Store`, `Tx` and `Hits`.

use super::errors::{detached, to_py};
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::io::{DiskStorage, MemoryStorage, Storage};
use crate::store::record::{Op, PutStamps, VectorSource};
use crate::store::{
    self, Database, Durability, Expect, Found, Options, Plan, RowOut, Search, Spec, Transaction,
};
use crate::view::{Belief, Life, LifeSet, Principal, Trust, View};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::path::Path;
use std::sync::Arc;

/// An open database.
#[pyclass(frozen, module = "kektordb._core")]
pub(super) struct Store {
    db: Database,
}

type RowsAndDistances<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>);

/// A view as Python gives it: (principal or None, as_of, valid_at, ever, life states, refuted, stale, min_trust, pin).
/// `pin` is the moment a reader of several calls stands at.
type ViewArg = (
    Option<(Option<String>, Option<String>, Option<String>)>,
    Option<i64>,
    Option<i64>,
    bool,
    Vec<u8>,
    bool,
    bool,
    u8,
    Option<i64>,
);

impl Store {
    fn view(&self, arg: Option<ViewArg>) -> (View, Option<i64>) {
        let Some((principal, as_of, valid_at, ever, life, refuted, stale, trust, pin)) = arg else {
            return (View::OWNER, None);
        };
        let view = View {
            principal: principal.map(|(u, a, s)| Principal {
                user: self.db.name_id(u.as_deref()),
                agent: self.db.name_id(a.as_deref()),
                session: self.db.name_id(s.as_deref()),
            }),
            as_of,
            valid_at,
            ever,
            life: LifeSet::of(life.into_iter().filter_map(Life::from_u8)),
            refuted,
            stale,
            min_trust: Trust::from_u8(trust).unwrap_or(Trust::User),
        };
        (view, pin)
    }

    /// Runs a read under a view without the GIL.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        f: impl FnOnce(&store::Reader<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        detached(py, || {
            let c = self.db.collection(collection)?;
            let (view, pin) = self.view(view);
            let r = c.reader(view, self.db.now(), pin);
            f(&r)
        })
    }
}

fn plan(json: Option<&str>) -> Result<Option<Plan>> {
    json.map(Plan::parse).transpose()
}

#[pymethods]
impl Store {
    /// Opens or creates; `path` None = in memory. `options` is JSON.
    #[staticmethod]
    fn open(py: Python<'_>, path: Option<&str>, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options)
            .map_err(|e| to_py(py, &Error::invalid(format!("options: {e}"), "")))?;
        let db = detached(py, || {
            let storage: Arc<dyn Storage> = match path {
                Some(_) => Arc::new(DiskStorage::new()),
                None => Arc::new(MemoryStorage::new()),
            };
            Database::open(storage, path.map(Path::new), options)
        })?;
        Ok(Store { db })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.db.close())
    }

    /// Recovery report as JSON, None for a new or in-memory database.
    fn recovery(&self) -> Option<String> {
        self.db.recovery().and_then(|r| serde_json::to_string(r).ok())
    }

    fn collections(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.db.collections())
    }

    fn create_collection(&self, py: Python<'_>, name: &str, spec: &str) -> PyResult<()> {
        detached(py, || self.db.create_collection(name, &Spec::parse(spec.as_bytes())?).map(|_| ()))
    }

    fn drop_collection(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || self.db.drop_collection(name).map(|_| ()))
    }

    /// The collection's settings as JSON.
    fn spec(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        detached(py, || {
            serde_json::to_string(&self.db.spec(name)?).map_err(|e| Error::Internal(e.to_string()))
        })
    }

    #[pyo3(signature = (actor, reason))]
    fn transaction(&self, actor: String, reason: String) -> Tx {
        Tx { tx: std::sync::Mutex::new(Transaction { actor, reason, ..Default::default() }) }
    }

    /// Returns (lsn, tx_time, closed, synced).
    fn commit(&self, py: Python<'_>, tx: &Tx, sync: bool) -> PyResult<(u64, i64, u64, bool)> {
        let t = std::mem::take(&mut *tx.lock());
        let d = if sync { Durability::Sync } else { Durability::Buffered };
        let c = detached(py, || self.db.commit(t, d))?;
        Ok((c.lsn, c.tx_time, c.closed, c.synced))
    }

    /// Adds a put of many rows to a transaction: ids, an (n, dim) float32 array, JSON payloads.
    fn put_many(
        &self,
        py: Python<'_>,
        tx: &Tx,
        collection: &str,
        ids: Vec<String>,
        vectors: PyReadonlyArray2<'_, f32>,
        payloads: Option<Vec<String>>,
    ) -> PyResult<()> {
        let cid = self.db.collection_id(collection).map_err(|e| to_py(py, &e))?;
        let (n, dim) = (vectors.shape()[0], vectors.shape()[1]);
        let all = vectors.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?;
        if n != ids.len() || payloads.as_ref().is_some_and(|p| p.len() != n) {
            return Err(PyTypeError::new_err("ids, vectors and payloads differ in length"));
        }
        let mut payloads = payloads.map(|p| p.into_iter());
        let ops = ids.into_iter().enumerate().map(|(i, id)| Op::Put {
            cid,
            id,
            vector: VectorSource::Given(all[i * dim..(i + 1) * dim].to_vec()),
            payload: payloads.as_mut().and_then(Iterator::next).unwrap_or_default().into_bytes(),
            stamps: PutStamps::default(),
        });
        tx.lock().ops.extend(ops);
        Ok(())
    }

    /// Adds one stamped put: the vector is an array or, with `like`, a copy of another id's.
    #[allow(clippy::too_many_arguments)]
    fn put(
        &self,
        py: Python<'_>,
        tx: &Tx,
        collection: &str,
        id: String,
        vector: Option<PyReadonlyArray1<'_, f32>>,
        like: Option<String>,
        payload: String,
        states: (u8, u8, u8, bool),
        valid: (i64, i64),
        scope: (Option<String>, Option<String>, Option<String>),
    ) -> PyResult<()> {
        let cid = self.db.collection_id(collection).map_err(|e| to_py(py, &e))?;
        let vector = match (vector, like) {
            (Some(v), None) => {
                VectorSource::Given(v.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?.to_vec())
            }
            (None, Some(id)) => VectorSource::Like(id),
            _ => return Err(PyTypeError::new_err("give exactly one of vector and like")),
        };
        let coded = |ok: bool, what: &str| {
            if ok { Ok(()) } else { Err(PyTypeError::new_err(format!("unknown {what}"))) }
        };
        let (life, belief, trust) =
            (Life::from_u8(states.0), Belief::from_u8(states.1), Trust::from_u8(states.2));
        coded(life.is_some(), "life state")?;
        coded(belief.is_some(), "belief state")?;
        coded(trust.is_some(), "trust class")?;
        let d = PutStamps::default();
        let stamps = PutStamps {
            life: life.unwrap_or(d.life),
            belief: belief.unwrap_or(d.belief),
            trust: trust.unwrap_or(d.trust),
            stale: states.3,
            valid_from: valid.0,
            valid_to: valid.1,
            user: scope.0,
            agent: scope.1,
            session: scope.2,
        };
        tx.lock().ops.push(Op::Put { cid, id, vector, payload: payload.into_bytes(), stamps });
        Ok(())
    }

    /// Ends open records; with `must_exist` the commit fails with NotFound where there is none.
    fn close_rows(
        &self,
        py: Python<'_>,
        tx: &Tx,
        collection: &str,
        ids: Vec<String>,
        end_life: u8,
        must_exist: bool,
    ) -> PyResult<()> {
        let cid = self.db.collection_id(collection).map_err(|e| to_py(py, &e))?;
        let end_life = Life::from_u8(end_life).ok_or_else(|| PyTypeError::new_err("unknown life state"))?;
        let mut t = tx.lock();
        if must_exist {
            t.expects.extend(ids.iter().map(|id| Expect::Exists(cid, id.clone())));
        }
        t.ops.extend(ids.into_iter().map(|id| Op::Close { cid, id, end_life }));
        Ok(())
    }

    fn set_payload(
        &self,
        py: Python<'_>,
        tx: &Tx,
        collection: &str,
        ids: Vec<String>,
        payload: &str,
        merge: bool,
    ) -> PyResult<()> {
        let cid = self.db.collection_id(collection).map_err(|e| to_py(py, &e))?;
        let mut t = tx.lock();
        for id in ids {
            t.expects.push(Expect::Exists(cid, id.clone()));
            t.ops.push(Op::SetPayload { cid, id, merge, payload: payload.as_bytes().to_vec() });
        }
        Ok(())
    }

    fn expect(&self, py: Python<'_>, tx: &Tx, collection: &str, id: String, open: bool) -> PyResult<()> {
        let cid = self.db.collection_id(collection).map_err(|e| to_py(py, &e))?;
        tx.lock().expects.push(if open { Expect::Open(cid, id) } else { Expect::Absent(cid, id) });
        Ok(())
    }

    /// The commit fails unless the key holds exactly `value` (None: is absent) just before it.
    fn expect_kv(&self, tx: &Tx, namespace: String, key: String, value: Option<Vec<u8>>) {
        tx.lock().expects.push(Expect::Kv(namespace, key, value));
    }

    /// Payloads of rows from `start` on in any state, JSON texts: for embedding them anew.
    fn payloads(&self, py: Python<'_>, collection: &str, start: u32, limit: usize) -> PyResult<Vec<String>> {
        detached(py, || self.db.collection(collection)?.payloads(start, limit))
    }

    /// (rows, rows staged under this meta, records per life state).
    fn staged(&self, py: Python<'_>, collection: &str, meta: &str) -> PyResult<(u32, u32, Vec<u64>)> {
        let (rows, staged, counts) =
            detached(py, || self.db.collection(collection)?.staged(meta.as_bytes()))?;
        Ok((rows, staged, counts.to_vec()))
    }

    /// Stages vectors of rows from `start` on; durable when it returns.
    fn stage_vectors(
        &self,
        py: Python<'_>,
        collection: &str,
        start: u32,
        meta: &str,
        vectors: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<()> {
        let dim = vectors.shape()[1] as u32;
        let all = vectors.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?.to_vec();
        detached(py, || {
            let cid = self.db.collection_id(collection)?;
            let meta = meta.as_bytes().to_vec();
            let op = Op::StageVectors { cid, from: start, dim, meta, vectors: all };
            let tx = Transaction { reason: "stage vectors".into(), ops: vec![op], ..Default::default() };
            self.db.commit(tx, Durability::Sync).map(|_| ())
        })
    }

    /// Puts the staged vectors in force; a conflict where rows were added meanwhile.
    fn switch_vectors(&self, py: Python<'_>, collection: &str) -> PyResult<()> {
        detached(py, || {
            let cid = self.db.collection_id(collection)?;
            let tx = Transaction {
                reason: "switch vectors".into(),
                ops: vec![Op::SwitchVectors { cid }],
                expects: vec![Expect::Staged(cid)],
                ..Default::default()
            };
            self.db.commit(tx, Durability::Sync).map(|_| ())
        })
    }

    fn kv_get(&self, py: Python<'_>, namespace: &str, key: &str) -> PyResult<Option<Vec<u8>>> {
        detached(py, || self.db.kv_get(namespace, key))
    }

    fn kv_scan(
        &self,
        py: Python<'_>,
        namespace: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<Vec<(String, Vec<u8>)>> {
        detached(py, || self.db.kv_scan(namespace, prefix, after, limit))
    }

    fn now(&self) -> i64 {
        self.db.now()
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.db.flush())
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.db.checkpoint())
    }

    fn vacuum(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.db.vacuum())
    }

    /// Counts and sizes as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || self.db.stats().map(|v| v.to_string()))
    }

    fn count(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        filter: Option<&str>,
    ) -> PyResult<u64> {
        self.read(py, collection, view, |r| r.count(plan(filter)?.as_ref()))
    }

    /// Facets as JSON: [[value, count], …].
    fn facets(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        path: &str,
        filter: Option<&str>,
        limit: usize,
    ) -> PyResult<String> {
        self.read(py, collection, view, |r| {
            let f = r.facets(path, plan(filter)?.as_ref(), limit)?;
            serde_json::to_string(&f).map_err(|e| Error::Internal(e.to_string()))
        })
    }

    /// Fields of the payloads with their types and counts, as JSON.
    fn fields(&self, py: Python<'_>, collection: &str) -> PyResult<String> {
        self.read(py, collection, None, |r| Ok(r.fields()?.to_string()))
    }

    /// One entry per id: None, or (id, payload JSON or None, vector or None, stamps).
    fn get<'py>(
        &self,
        py: Python<'py>,
        collection: &str,
        view: Option<ViewArg>,
        ids: Vec<String>,
        payload: bool,
        vector: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let rows = self.read(py, collection, view, |r| r.get(&ids, payload, vector))?;
        let out =
            rows.into_iter().map(|r| r.map(|r| self.row(py, r)).transpose()).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, out)
    }

    /// (rows, cursor or None); rows as in `get`.
    #[allow(clippy::too_many_arguments)]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        collection: &str,
        view: Option<ViewArg>,
        filter: Option<&str>,
        limit: usize,
        after: Option<u32>,
        payload: bool,
        vector: bool,
    ) -> PyResult<(Bound<'py, PyList>, Option<u32>)> {
        let (rows, next) = self
            .read(py, collection, view, |r| r.scan(plan(filter)?.as_ref(), limit, after, payload, vector))?;
        let out = rows.into_iter().map(|r| self.row(py, r)).collect::<PyResult<Vec<_>>>()?;
        Ok((PyList::new(py, out)?, next))
    }

    /// Vector, text or hybrid search.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (collection, view, vector, text, alpha, k, ef, filter, max_distance, exact, payload))]
    fn search(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        vector: Option<PyReadonlyArray1<'_, f32>>,
        text: Option<&str>,
        alpha: f32,
        k: usize,
        ef: usize,
        filter: Option<&str>,
        max_distance: Option<f32>,
        exact: bool,
        payload: bool,
    ) -> PyResult<Hits> {
        let v = vector
            .as_ref()
            .map(|v| v.as_slice())
            .transpose()
            .map_err(|e| PyTypeError::new_err(e.to_string()))?;
        self.read(py, collection, view, |r| {
            let plan = plan(filter)?;
            let s = Search { vector: v, text, alpha, k, ef, plan: plan.as_ref(), max_distance, exact };
            Hits::of(r, r.search(&s)?, payload)
        })
    }

    /// One search per row of `vectors`, on `threads` threads (0 = all cores).
    #[allow(clippy::too_many_arguments)]
    fn search_batch(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        vectors: PyReadonlyArray2<'_, f32>,
        k: usize,
        ef: usize,
        filter: Option<&str>,
        threads: usize,
        payload: bool,
    ) -> PyResult<Vec<Hits>> {
        let (n, dim) = (vectors.shape()[0], vectors.shape()[1]);
        let all = vectors.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?;
        detached(py, || {
            let c = self.db.collection(collection)?;
            let (view, pin) = self.view(view);
            let now = self.db.now();
            let plan = plan(filter)?;
            c.search_batch(view, now, pin, all, n, dim, k, ef, plan.as_ref(), threads, |r, found| {
                Hits::of(r, found, payload)
            })
        })
    }

    /// The fast path: (rows, distances).
    fn search_rows<'py>(
        &self,
        py: Python<'py>,
        collection: &str,
        vector: PyReadonlyArray1<'py, f32>,
        k: usize,
        ef: usize,
    ) -> PyResult<RowsAndDistances<'py>> {
        let v = vector.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?;
        let found = self.read(py, collection, None, |r| r.search_rows(v, k, ef))?;
        let (d, r): (Vec<f32>, Vec<RowId>) = found.into_iter().map(|h| (h.distance, h.row)).unzip();
        Ok((r.into_pyarray(py), d.into_pyarray(py)))
    }

    fn row_ids(&self, py: Python<'_>, collection: &str) -> PyResult<Vec<String>> {
        self.read(py, collection, None, |r| r.row_ids())
    }

    fn dense_scores<'py>(
        &self,
        py: Python<'py>,
        collection: &str,
        view: Option<ViewArg>,
        vector: PyReadonlyArray1<'py, f32>,
        ids: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let v = vector.as_slice().map_err(|e| PyTypeError::new_err(e.to_string()))?;
        Ok(self.read(py, collection, view, |r| r.dense_scores(v, &ids))?.into_pyarray(py))
    }

    fn text_scores<'py>(
        &self,
        py: Python<'py>,
        collection: &str,
        view: Option<ViewArg>,
        text: &str,
        ids: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        Ok(self.read(py, collection, view, |r| r.text_scores(text, &ids))?.into_pyarray(py))
    }

    /// Per-term parts of a BM25 score, as JSON.
    fn explain_text(
        &self,
        py: Python<'_>,
        collection: &str,
        view: Option<ViewArg>,
        text: &str,
        row: u32,
    ) -> PyResult<String> {
        self.read(py, collection, view, |r| Ok(r.explain_text(text, row)?.to_string()))
    }
}

impl Store {
    fn row<'py>(&self, py: Python<'py>, r: RowOut) -> PyResult<Bound<'py, PyTuple>> {
        let s = &r.stamps;
        let name = |id| self.db.name_of(id);
        let stamps = (
            (s.life as u8, s.belief as u8, s.trust as u8, s.stale),
            (s.valid_from, s.valid_to),
            (name(s.user), name(s.agent), name(s.session)),
            (s.tx_from, s.tx_to, s.end_life as u8),
        );
        let vector = r.vector.map(|v| v.into_pyarray(py));
        (r.id, r.payload, vector, stamps).into_pyobject(py)
    }
}

/// Changes that wait for a commit.
#[pyclass(frozen, module = "kektordb._core")]
pub(super) struct Tx {
    tx: std::sync::Mutex<Transaction>,
}

impl Tx {
    fn lock(&self) -> std::sync::MutexGuard<'_, Transaction> {
        self.tx.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Tx {
    fn kv_set(&self, namespace: String, key: String, value: Vec<u8>) {
        self.lock().ops.push(Op::KvSet { namespace, key, value });
    }

    fn kv_delete(&self, namespace: String, key: String) {
        self.lock().ops.push(Op::KvDelete { namespace, key });
    }

    fn __len__(&self) -> usize {
        self.lock().ops.len()
    }
}

/// Answers of one search.
#[pyclass(frozen, module = "kektordb._core")]
pub(super) struct Hits {
    found: Vec<Found>,
    ids: Vec<String>,
    payloads: Option<Vec<String>>,
}

impl Hits {
    fn of(r: &store::Reader<'_>, found: Vec<Found>, payload: bool) -> Result<Hits> {
        let mut ids = Vec::with_capacity(found.len());
        let mut payloads = payload.then(|| Vec::with_capacity(found.len()));
        for f in &found {
            let (id, p) = r.id_and_payload(f.row, payload)?;
            ids.push(id.to_owned());
            if let Some(list) = &mut payloads {
                list.push(p.unwrap_or_default().to_owned());
            }
        }
        Ok(Hits { found, ids, payloads })
    }
}

#[pymethods]
impl Hits {
    fn __len__(&self) -> usize {
        self.found.len()
    }

    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.ids.iter().map(|i| PyString::new(py, i)))
    }

    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.found.iter().map(|f| f.row).collect::<Vec<_>>().into_pyarray(py)
    }

    fn distances<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.found.iter().map(|f| f.distance).collect::<Vec<_>>().into_pyarray(py)
    }

    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.found.iter().map(|f| f.score).collect::<Vec<_>>().into_pyarray(py)
    }

    /// JSON texts, or None where they were not asked for.
    fn payloads(&self) -> Option<Vec<String>> {
        self.payloads.clone()
    }

    /// One dict per hit: the scaled score of each arm and the BM25 score.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for f in &self.found {
            let d = PyDict::new(py);
            d.set_item("dense", f.dense)?;
            d.set_item("text", f.lexical)?;
            d.set_item("bm25", f.bm25)?;
            list.append(d)?;
        }
        Ok(list)
    }
}

/// Checks every byte of a closed database; returns what is wrong, one text a fault.
#[pyfunction]
pub(super) fn verify(py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
    detached(py, || {
        Ok(store::verify(&DiskStorage::new(), Path::new(path))?.iter().map(ToString::to_string).collect())
    })
}
