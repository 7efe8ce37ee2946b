//! Reads of one collection under one view, for the length of one call.
//!
//! A [`Reader`] holds the collection's shared lock, so everything it answers is of one epoch. Rows leave the store only
//! through it, and only rows of its allowed set (I4).

use super::collection::{Collection, Inner, text_of};
use super::plan::Plan;
use super::rec::Rec;
use crate::error::{Error, Result};
use crate::flat::{self, Allow, BitSet, Hit};
use crate::hnsw::Scratch;
use crate::ids::{Micros, NO_ROW, RowId};
use crate::limits;
use crate::text::Query as TextQuery;
use crate::view::{Stamps, View, visible};
use kektordb_compute::{Metric, Query};
use parking_lot::RwLockReadGuard;
use roaring::RoaringBitmap;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Candidates of each arm of a hybrid search: fixed, so that the first hits do not change with k.
const HYBRID_CANDIDATES: usize = 256;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

pub(crate) struct Reader<'a> {
    c: &'a Collection,
    inner: RwLockReadGuard<'a, Inner>,
    view: View,
    now: Micros,
}

/// A found row. `distance` is NaN where only the text arm found it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub row: RowId,
    pub distance: f32,
    pub score: f32,
    /// Scaled score of the vector arm and of the text arm, and the BM25 score.
    pub dense: f32,
    pub lexical: f32,
    pub bm25: f32,
}

/// What is asked of a search.
#[derive(Debug, Clone, Default)]
pub struct Search<'a> {
    pub vector: Option<&'a [f32]>,
    pub text: Option<&'a str>,
    /// Weight of the vector arm, 0…1.
    pub alpha: f32,
    pub k: usize,
    pub ef: usize,
    pub plan: Option<&'a Plan>,
    /// Bound on the vector arm only.
    pub max_distance: Option<f32>,
    pub exact: bool,
}

/// What a row shows.
#[derive(Debug, Clone)]
pub struct RowOut {
    pub id: String,
    pub payload: Option<String>,
    pub vector: Option<Vec<f32>>,
    pub stamps: Stamps,
}

impl Collection {
    /// `pin`: the moment that a reader of several calls stands at; what was recorded later stays unseen.
    pub(crate) fn reader(&self, mut view: View, now: Micros, pin: Option<Micros>) -> Reader<'_> {
        let inner = self.inner.read_recursive();
        let mut now = now.max(inner.last_tx);
        if let Some(p) = pin {
            now = p;
            if inner.last_tx > p {
                view.as_of.get_or_insert(p);
            }
        }
        Reader { c: self, inner, view, now }
    }
}

impl Reader<'_> {
    /// The rows of the view that satisfy the plan.
    fn allowed(&self, plan: Option<&Plan>) -> Result<RoaringBitmap> {
        let inner = &*self.inner;
        let rows = inner.rows();
        let filter = plan.map(|p| p.run(&inner.props, rows)).transpose()?;
        if filter.as_ref().is_some_and(RoaringBitmap::is_empty) {
            return Ok(RoaringBitmap::new());
        }
        if inner.view.is_plain(&self.view) {
            return Ok(match filter {
                Some(f) => f & inner.view.current(),
                None => inner.view.current().clone(),
            });
        }
        let allow = inner.view.allow(&self.view, self.now, rows, &|r| inner.stamps(r))?;
        Ok(match filter {
            Some(f) => f & allow,
            None => allow,
        })
    }

    fn sees(&self, s: &Stamps) -> bool {
        visible(s, &self.view, self.now)
    }

    /// The newest record of `id` that the view sees.
    fn find(&self, id: &str) -> Result<Option<(RowId, Rec)>> {
        let mut at = self.inner.newest(id)?;
        let mut steps = 0;
        while let Some(row) = at {
            let rec = self.inner.rec(row)?;
            if self.sees(&rec.stamps) {
                return Ok(Some((row, rec)));
            }
            steps += 1;
            if steps > self.inner.rows() {
                return Err(Error::corrupt("records", u64::from(row), "older records of an id form a ring"));
            }
            at = (rec.prev != NO_ROW).then_some(rec.prev);
        }
        Ok(None)
    }

    pub(crate) fn get(&self, ids: &[String], payload: bool, vector: bool) -> Result<Vec<Option<RowOut>>> {
        ids.iter()
            .map(|id| self.find(id)?.map(|(row, rec)| self.out(row, &rec, payload, vector)).transpose())
            .collect()
    }

    fn out(&self, row: RowId, rec: &Rec, payload: bool, vector: bool) -> Result<RowOut> {
        Ok(RowOut {
            id: self.inner.id_of(rec)?.to_owned(),
            payload: payload.then(|| self.inner.payload_of(rec).map(str::to_owned)).transpose()?,
            vector: vector.then(|| self.c.vector(&self.inner, row, rec.norm)),
            stamps: rec.stamps,
        })
    }

    pub(crate) fn rows_out(&self, rows: &[RowId], payload: bool, vector: bool) -> Result<Vec<RowOut>> {
        rows.iter().map(|&r| self.out(r, &self.inner.rec(r)?, payload, vector)).collect()
    }

    /// Ids and payloads of found rows.
    pub(crate) fn id_and_payload(&self, row: RowId, payload: bool) -> Result<(&str, Option<&str>)> {
        let rec = self.inner.rec(row)?;
        let p = if payload { Some(self.inner.payload_of(&rec)?) } else { None };
        Ok((self.inner.id_of(&rec)?, p))
    }

    pub(crate) fn count(&self, plan: Option<&Plan>) -> Result<u64> {
        if plan.is_none() && self.inner.view.is_plain(&self.view) {
            return Ok(self.inner.view.current().len());
        }
        Ok(self.allowed(plan)?.len())
    }

    /// Up to `limit` rows in row order behind `after`; the second value continues, `None` = the end.
    pub(crate) fn scan(
        &self,
        plan: Option<&Plan>,
        limit: usize,
        after: Option<RowId>,
        payload: bool,
        vector: bool,
    ) -> Result<(Vec<RowOut>, Option<RowId>)> {
        let allowed = self.allowed(plan)?;
        let from = after.map_or(0, |a| a.saturating_add(1));
        let mut rows: Vec<RowId> = allowed.range(from..).take(limit.saturating_add(1)).collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().copied() } else { None };
        Ok((self.rows_out(&rows, payload, vector)?, next))
    }

    pub(crate) fn facets(
        &self,
        path: &str,
        plan: Option<&Plan>,
        limit: usize,
    ) -> Result<Vec<(serde_json::Value, u64)>> {
        let allowed = self.allowed(plan)?;
        Ok(self
            .inner
            .props
            .facet_counts(path, &allowed, limit)?
            .into_iter()
            .map(|(v, n)| (v.to_json(), n))
            .collect())
    }

    pub(crate) fn fields(&self) -> Result<serde_json::Value> {
        self.inner.props.fields(&self.allowed(None)?)
    }

    fn check_query(&self, v: &[f32]) -> Result<Query> {
        if v.len() != self.c.spec.dim {
            return Err(Error::DimensionMismatch {
                collection: self.c.name.clone(),
                got: v.len(),
                want: self.c.spec.dim,
            });
        }
        self.c
            .codec
            .check(v)
            .map_err(|f| Error::invalid(format!("query vector: {f}"), f.hint().to_owned()))?;
        Ok(self.c.codec.query(v))
    }

    /// The k nearest rows, nearest first; ties by row.
    fn nearest(
        &self,
        q: &Query,
        k: usize,
        ef: usize,
        exact: bool,
        allowed: Option<&RoaringBitmap>,
    ) -> Result<Vec<Hit>> {
        let inner = &*self.inner;
        let rows = inner.vector_rows(&self.c.codec)?;
        let dense;
        let bits: Option<&BitSet> = match allowed {
            Some(a) => {
                if a.is_empty() {
                    return Ok(Vec::new());
                }
                dense = Arc::new(BitSet::from_roaring(rows.count(), a));
                Some(&dense)
            }
            None if inner.view.current().is_empty() => return Ok(Vec::new()),
            None if inner.view.current().len() == rows.count() as u64 => None,
            None => {
                dense = inner.dense_current();
                Some(&dense)
            }
        };
        let allow = bits.map_or(Allow::All, Allow::Bits);
        let graph = match &inner.graph {
            Some(g) if !exact => g,
            _ => return Ok(flat::scan(&rows, q, 0..rows.count(), k, allow)),
        };
        let mut found = SCRATCH.with_borrow_mut(|s| graph.search_auto(&rows, q, k, ef, allow, s));
        if !inner.unlinked.is_empty() {
            let tail: Vec<RowId> = match bits {
                Some(b) => inner.unlinked.iter().filter(|r| b.contains(*r)).collect(),
                None => inner.unlinked.iter().collect(),
            };
            found = flat::merge(&found, &flat::scan_rows(&rows, q, &tail, k), k);
        }
        Ok(found)
    }

    /// Rows and distances alone: the fast path.
    pub(crate) fn search_rows(&self, vector: &[f32], k: usize, ef: usize) -> Result<Vec<Hit>> {
        check_k(k)?;
        check_ef(ef)?;
        let q = self.check_query(vector)?;
        if self.inner.view.is_plain(&self.view) {
            return self.nearest(&q, k, ef, false, None);
        }
        self.nearest(&q, k, ef, false, Some(&self.allowed(None)?))
    }

    /// Vector, text or hybrid search; see the module on fusion below.
    pub(crate) fn search(&self, s: &Search) -> Result<Vec<Found>> {
        check_k(s.k)?;
        check_ef(s.ef)?;
        if !(0.0..=1.0).contains(&s.alpha) {
            return Err(Error::invalid(
                format!("alpha is {}", s.alpha),
                "from 0 (text alone) to 1 (vector alone)",
            ));
        }
        let q = s.vector.map(|v| self.check_query(v)).transpose()?;
        let plain = s.plan.is_none() && s.text.is_none() && self.inner.view.is_plain(&self.view);
        let allowed = if plain { None } else { Some(self.allowed(s.plan)?) };
        match (q, s.text) {
            (None, None) => {
                Err(Error::invalid("neither a vector nor a text to search for", "give one or both"))
            }
            (Some(q), None) => self.vector_search(&q, s, allowed.as_ref()),
            (None, Some(text)) => self.text_search(text, s.k, &allowed.unwrap_or_default()),
            (Some(q), Some(text)) if s.alpha >= 1.0 => {
                let _ = text;
                self.vector_search(&q, s, allowed.as_ref())
            }
            (Some(_), Some(text)) if s.alpha <= 0.0 => {
                self.text_search(text, s.k, &allowed.unwrap_or_default())
            }
            (Some(q), Some(text)) => self.hybrid(&q, text, s, &allowed.unwrap_or_default()),
        }
    }

    fn vector_search(&self, q: &Query, s: &Search, allowed: Option<&RoaringBitmap>) -> Result<Vec<Found>> {
        let found = self.nearest(q, s.k, s.ef, s.exact, allowed)?;
        let within = |d: f32| s.max_distance.is_none_or(|m| d <= m);
        Ok(found
            .into_iter()
            .filter(|h| within(h.distance))
            .map(|Hit { distance, row }| {
                let score = self.similarity(distance);
                Found { row, distance, score, dense: score, lexical: 0.0, bm25: 0.0 }
            })
            .collect())
    }

    /// Larger = nearer: the cosine, the dot product, or 1 / (1 + squared distance).
    fn similarity(&self, d: f32) -> f32 {
        match self.c.codec.metric() {
            Metric::Cosine => 1.0 - d,
            Metric::Dot => -d,
            Metric::L2 => 1.0 / (1.0 + d),
        }
    }

    fn text_index(&self) -> Result<&crate::text::TextIndex> {
        self.inner.text.as_ref().ok_or_else(|| {
            Error::invalid(
                format!("collection {:?} has no text index", self.c.name),
                "create it with text_fields=[...]",
            )
        })
    }

    fn texts(&self, row: RowId) -> Option<String> {
        let rec = self.inner.rec(row).ok()?;
        let value = self.inner.value_of(&rec).ok()?;
        let all: Vec<String> = self.c.spec.text_fields.iter().map(|f| text_of(&value, f)).collect();
        Some(all.join("\n"))
    }

    fn text_search(&self, text: &str, k: usize, allowed: &RoaringBitmap) -> Result<Vec<Found>> {
        let index = self.text_index()?;
        let q = TextQuery::parse(text);
        let found = index.search(&q, allowed, k, &|r| self.texts(r))?;
        Ok(found
            .into_iter()
            .map(|(score, row)| Found {
                row,
                distance: f32::NAN,
                score,
                dense: 0.0,
                lexical: score,
                bm25: score,
            })
            .collect())
    }

    /// Scaled-score fusion: each arm is scaled to 0…1 over its own fixed number of candidates (the best is 1, the last
    /// 0), every candidate gets both scores exactly, and `alpha` weighs them. An arm without a hit passes its weight on.
    fn hybrid(&self, q: &Query, text: &str, s: &Search, allowed: &RoaringBitmap) -> Result<Vec<Found>> {
        let n = HYBRID_CANDIDATES.max(s.k.next_power_of_two());
        let index = self.text_index()?;
        let tq = TextQuery::parse(text);
        let mut near = self.nearest(q, n, s.ef.max(n), s.exact, Some(allowed))?;
        if let Some(m) = s.max_distance {
            near.retain(|h| h.distance <= m);
        }
        let hits = index.search(&tq, allowed, n, &|r| self.texts(r))?;
        if hits.is_empty() {
            let mut out = self.scaled(&near);
            out.truncate(s.k);
            return Ok(out);
        }
        let scale_at = HYBRID_CANDIDATES - 1;
        let best = near.first().map(|h| self.similarity(h.distance));
        let floor = near.get(scale_at).or(near.last()).map(|h| self.similarity(h.distance));
        let top = hits.first().map_or(1.0, |h| h.0).max(f32::MIN_POSITIVE);
        let mut by_row: BTreeMap<RowId, Found> = BTreeMap::new();
        for &Hit { distance, row } in &near {
            by_row.insert(row, Found { row, distance, score: 0.0, dense: 0.0, lexical: 0.0, bm25: 0.0 });
        }
        let bm: HashMap<RowId, f32> = hits.iter().map(|(sc, r)| (*r, *sc)).collect();
        let rows = self.inner.vector_rows(&self.c.codec)?;
        let only_text: Vec<RowId> = bm.keys().copied().filter(|r| !by_row.contains_key(r)).collect();
        for Hit { distance, row } in flat::scan_rows(&rows, q, &only_text, only_text.len()) {
            let outside = s.max_distance.is_some_and(|m| distance > m);
            let distance = if outside { f32::NAN } else { distance };
            by_row.insert(row, Found { row, distance, score: 0.0, dense: 0.0, lexical: 0.0, bm25: 0.0 });
        }
        let missing: Vec<RowId> = by_row.keys().copied().filter(|r| !bm.contains_key(r)).collect();
        let extra = index.scores(&tq, allowed, &missing)?;
        let extra: HashMap<RowId, f32> = missing.into_iter().zip(extra).collect();
        let alpha = if near.is_empty() { 0.0 } else { s.alpha };
        let mut out: Vec<Found> = by_row.into_values().collect();
        for f in &mut out {
            f.bm25 = bm.get(&f.row).or_else(|| extra.get(&f.row)).copied().unwrap_or(0.0);
            f.lexical = (f.bm25 / top).min(1.0);
            if let (Some(best), Some(floor), false) = (best, floor, f.distance.is_nan()) {
                let span = best - floor;
                let sim = self.similarity(f.distance);
                f.dense =
                    if span > 0.0 { ((sim - floor) / span).clamp(0.0, 1.0) } else { f32::from(sim >= best) };
            }
            f.score = alpha * f.dense + (1.0 - alpha) * f.lexical;
        }
        out.sort_by(|a, b| {
            let near = |f: &Found| if f.distance.is_nan() { f32::INFINITY } else { f.distance };
            b.score.total_cmp(&a.score).then(near(a).total_cmp(&near(b))).then(a.row.cmp(&b.row))
        });
        out.truncate(s.k);
        Ok(out)
    }

    fn scaled(&self, near: &[Hit]) -> Vec<Found> {
        let sim = |d: f32| self.similarity(d);
        let best = near.first().map_or(0.0, |n| sim(n.distance));
        let floor = near.get(HYBRID_CANDIDATES - 1).or(near.last()).map_or(0.0, |n| sim(n.distance));
        let span = (best - floor).max(f32::MIN_POSITIVE);
        near.iter()
            .map(|&Hit { distance, row }| {
                let dense = ((sim(distance) - floor) / span).clamp(0.0, 1.0);
                Found { row, distance, score: dense, dense, lexical: 0.0, bm25: 0.0 }
            })
            .collect()
    }

    /// Similarity of each id's row to `vector`; NaN where absent or hidden.
    pub(crate) fn dense_scores(&self, vector: &[f32], ids: &[String]) -> Result<Vec<f32>> {
        let q = self.check_query(vector)?;
        let rows = self.inner.vector_rows(&self.c.codec)?;
        let mut found = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            if let Some((row, _)) = self.find(id)? {
                found.push((i, row));
            }
        }
        let list: Vec<RowId> = found.iter().map(|(_, r)| *r).collect();
        let by_row: HashMap<RowId, f32> =
            flat::scan_rows(&rows, &q, &list, list.len()).into_iter().map(|h| (h.row, h.distance)).collect();
        let mut out = vec![f32::NAN; ids.len()];
        for (i, row) in found {
            if let Some(d) = by_row.get(&row) {
                out[i] = self.similarity(*d);
            }
        }
        Ok(out)
    }

    /// BM25 score of each id's row; 0 where nothing matches, NaN where absent or hidden.
    pub(crate) fn text_scores(&self, text: &str, ids: &[String]) -> Result<Vec<f32>> {
        let index = self.text_index()?;
        let allowed = self.allowed(None)?;
        let mut found = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            if let Some((row, _)) = self.find(id)? {
                found.push((i, row));
            }
        }
        let list: Vec<RowId> = found.iter().map(|(_, r)| *r).collect();
        let scores = index.scores(&TextQuery::parse(text), &allowed, &list)?;
        let mut out = vec![f32::NAN; ids.len()];
        for ((i, _), s) in found.into_iter().zip(scores) {
            out[i] = s;
        }
        Ok(out)
    }

    pub(crate) fn explain_text(&self, text: &str, row: RowId) -> Result<serde_json::Value> {
        let index = self.text_index()?;
        let allowed = self.allowed(None)?;
        serde_json::to_value(index.explain(&TextQuery::parse(text), &allowed, row)?)
            .map_err(|e| Error::Internal(e.to_string()))
    }

    /// External id of every row, in row order; empty where the view does not see the row.
    pub(crate) fn row_ids(&self) -> Result<Vec<String>> {
        let allowed = self.allowed(None)?;
        let mut out = Vec::with_capacity(self.inner.rows() as usize);
        for row in 0..self.inner.rows() {
            out.push(if allowed.contains(row) {
                self.inner.id_of(&self.inner.rec(row)?)?.to_owned()
            } else {
                String::new()
            });
        }
        Ok(out)
    }
}

fn check_ef(ef: usize) -> Result<()> {
    if ef > limits::MAX_EF {
        return Err(Error::LimitExceeded {
            limit: "MAX_EF",
            what: "ef_search".into(),
            got: ef as u64,
            max: limits::MAX_EF as u64,
        });
    }
    Ok(())
}

fn check_k(k: usize) -> Result<()> {
    if k == 0 {
        return Err(Error::invalid("k is 0", "ask for at least one hit"));
    }
    if k > limits::MAX_K {
        return Err(Error::LimitExceeded {
            limit: "MAX_K",
            what: "k".into(),
            got: k as u64,
            max: limits::MAX_K as u64,
        });
    }
    Ok(())
}

impl Collection {
    /// One search per query on scoped threads; each thread is one reader, so each query sees one epoch.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn search_batch<T: Send>(
        &self,
        view: View,
        now: Micros,
        pin: Option<Micros>,
        queries: &[f32],
        n: usize,
        dim: usize,
        k: usize,
        ef: usize,
        plan: Option<&Plan>,
        threads: usize,
        finish: impl Fn(&Reader<'_>, Vec<Found>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if threads == 0 { cores } else { threads }.clamp(1, n.max(1));
        let run = |from: usize, to: usize| -> Result<Vec<T>> {
            let r = self.reader(view, now, pin);
            (from..to)
                .map(|i| {
                    let vector = Some(&queries[i * dim..(i + 1) * dim]);
                    let found =
                        r.search(&Search { vector, alpha: 1.0, k, ef, plan, ..Default::default() })?;
                    finish(&r, found)
                })
                .collect()
        };
        if threads == 1 {
            return run(0, n);
        }
        let per = n.div_ceil(threads);
        let run = &run;
        std::thread::scope(|s| {
            let jobs: Vec<_> =
                (0..n).step_by(per).map(|from| s.spawn(move || run(from, (from + per).min(n)))).collect();
            let mut out = Vec::with_capacity(n);
            for j in jobs {
                out.extend(j.join().map_err(|_| Error::Internal("a search thread panicked".into()))??);
            }
            Ok(out)
        })
    }
}
