//! Indexing and searching.
//!
//! BM25 with k1 = 1.2, b = 0.75 and idf = ln(1 + (N − n + ½) / (n + ½)) (Robertson and Zaragoza, "The Probabilistic
//! Relevance Framework", 2009). N, n and the average length are those of the allowed rows; the average is taken over at
//! most [`SAMPLE`] of them, evenly spread, which is all of them where there are no more.

use super::analyzer::{Analyzer, Token};
use super::base::{Base, Writer};
use super::query::Query;
use crate::error::Result;
use crate::ids::RowId;
use crate::props::Bytes;
use roaring::RoaringBitmap;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::Path;
use std::sync::Arc;

const K1: f32 = 1.2;
const B: f32 = 0.75;
const SAMPLE: u64 = 4_096;
/// Scores lie in one dense array where a query has more postings than this.
const DENSE_AT: usize = 4_096;

/// Fetches the text of a row again, for phrases.
pub(super) type Fetch<'a> = &'a dyn Fn(RowId) -> Option<String>;

/// One term's part of a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TermPart {
    pub term: String,
    /// How often it stands in the row.
    pub tf: u32,
    /// Allowed rows that hold it.
    pub df: u64,
    pub idf: f32,
    pub score: f32,
}

#[derive(Debug)]
pub struct TextIndex {
    analyzer: Analyzer,
    base: Option<Base>,
    delta: BTreeMap<String, Vec<(RowId, u32)>>,
    delta_lengths: HashMap<RowId, u32>,
    /// Base rows that do not hold any more.
    stale: RoaringBitmap,
}

impl TextIndex {
    pub fn new(language: Option<&str>) -> Result<Self> {
        Ok(TextIndex {
            analyzer: Analyzer::new(language)?,
            base: None,
            delta: BTreeMap::new(),
            delta_lengths: HashMap::new(),
            stale: RoaringBitmap::new(),
        })
    }

    /// Over a base that [`write_base`](Self::write_base) wrote; `file` is named in errors. Reads nothing but the head.
    pub fn open(language: Option<&str>, base: Arc<dyn Bytes>, file: &Path) -> Result<Self> {
        Ok(TextIndex { base: Some(Base::open(base, file)?), ..TextIndex::new(language)? })
    }

    fn counted(&self, texts: &[String]) -> (HashMap<String, u32>, u32) {
        let mut counts = HashMap::new();
        let mut length = 0;
        for text in texts {
            for t in self.analyzer.tokens(text, false) {
                length += u32::from(t.counts);
                *counts.entry(t.term).or_default() += 1;
            }
        }
        (counts, length)
    }

    /// Indexes the texts of a row that is not indexed now.
    pub fn insert(&mut self, row: RowId, texts: &[String]) {
        let (counts, length) = self.counted(texts);
        for (term, n) in counts {
            let list = self.delta.entry(term).or_default();
            match list.last() {
                Some((last, _)) if *last >= row => {
                    let at = list.partition_point(|(r, _)| *r < row);
                    list.insert(at, (row, n));
                }
                _ => list.push((row, n)),
            }
        }
        self.delta_lengths.insert(row, length);
    }

    /// Takes a row out; `texts` are what it was indexed with.
    pub fn remove(&mut self, row: RowId, texts: &[String]) {
        if self.delta_lengths.remove(&row).is_none() {
            self.stale.insert(row);
            return;
        }
        for term in self.counted(texts).0.into_keys() {
            if let Some(list) = self.delta.get_mut(&term) {
                if let Ok(at) = list.binary_search_by_key(&row, |(r, _)| *r) {
                    list.remove(at);
                }
                if list.is_empty() {
                    self.delta.remove(&term);
                }
            }
        }
    }

    fn length(&self, row: RowId) -> Option<u32> {
        if let Some(n) = self.delta_lengths.get(&row) {
            return Some(*n);
        }
        let base = self.base.as_ref()?;
        if self.stale.contains(row) { None } else { base.length(row) }
    }

    fn average_length(&self, allowed: &RoaringBitmap) -> f32 {
        let n = allowed.len();
        let (mut sum, mut seen) = (0u64, 0u64);
        let mut add = |row: RowId| {
            sum += u64::from(self.length(row).unwrap_or(0));
            seen += 1;
        };
        if n <= SAMPLE {
            allowed.iter().for_each(&mut add);
        } else {
            (0..SAMPLE).filter_map(|i| allowed.select((i * n / SAMPLE) as u32)).for_each(&mut add);
        }
        (sum as f32 / seen.max(1) as f32).max(1.0)
    }

    /// Allowed rows of a term with their counts.
    fn postings(&self, term: &str, allowed: &Allowed) -> Result<Vec<(RowId, u32)>> {
        let mut out = Vec::new();
        if let Some(base) = &self.base
            && let Some(i) = base.find(term)?
        {
            let check = !self.stale.is_empty();
            base.postings(i, |row, n| {
                if allowed.contains(row) && !(check && self.stale.contains(row)) {
                    out.push((row, n));
                }
            })?;
        }
        if let Some(list) = self.delta.get(term) {
            out.extend(list.iter().filter(|(r, _)| allowed.contains(*r)));
        }
        Ok(out)
    }

    /// Terms of the query, each once: without stop words, unless there is nothing else.
    fn terms(&self, text: &str) -> Vec<String> {
        let tokens = self.analyzer.tokens(text, true);
        let all_stop = tokens.iter().all(|t| t.stop);
        let mut out: Vec<String> = Vec::new();
        for t in tokens {
            if (all_stop || !t.stop) && !out.contains(&t.term) {
                out.push(t.term);
            }
        }
        out
    }

    /// Rows that hold every required word and (by their words) could hold every phrase; `None`: no such demand.
    fn demanded(&self, q: &Query, allowed: &Allowed) -> Result<Option<RoaringBitmap>> {
        let mut out: Option<RoaringBitmap> = None;
        for text in q.required.iter().chain(&q.phrases) {
            for t in self.analyzer.tokens(text, true).iter().filter(|t| t.counts) {
                let mut rows: Vec<RowId> = self.postings(&t.term, allowed)?.iter().map(|(r, _)| *r).collect();
                rows.sort_unstable();
                let rows = RoaringBitmap::from_iter(rows);
                out = Some(match out {
                    Some(o) => o & rows,
                    None => rows,
                });
            }
        }
        Ok(out)
    }

    fn holds_phrases(&self, q: &Query, row: RowId, fetch: Fetch<'_>) -> bool {
        if q.phrases.is_empty() {
            return true;
        }
        let Some(text) = fetch(row) else { return false };
        let mut places: HashMap<String, Vec<u32>> = HashMap::new();
        for t in self.analyzer.tokens(&text, false) {
            places.entry(t.term).or_default().push(t.position);
        }
        q.phrases.iter().all(|p| {
            let want: Vec<Token> = self.analyzer.tokens(p, true).into_iter().filter(|t| t.counts).collect();
            let Some(first) = want.first() else { return true };
            let starts = places.get(&first.term).map(Vec::as_slice).unwrap_or_default();
            starts.iter().any(|s| {
                want.iter().all(|t| {
                    let at = s + (t.position - first.position);
                    places.get(&t.term).is_some_and(|l| l.contains(&at))
                })
            })
        })
    }

    fn idf(n: usize, of: u64) -> f32 {
        (1.0 + (of as f32 - n as f32 + 0.5) / (n as f32 + 0.5)).ln()
    }

    fn part(&self, idf: f32, tf: u32, row: RowId, average: f32) -> f32 {
        let length = self.length(row).unwrap_or(0) as f32;
        let tf = tf as f32;
        idf * tf * (K1 + 1.0) / (tf + K1 * (1.0 - B + B * length / average))
    }

    /// The best k allowed rows, best first, ties by row. Phrases are checked on the text that `fetch` gives.
    pub fn search(
        &self,
        q: &Query,
        allowed: &RoaringBitmap,
        k: usize,
        fetch: Fetch<'_>,
    ) -> Result<Vec<(f32, RowId)>> {
        let set = Allowed::of(allowed);
        let terms = self.terms(&q.text);
        let mut lists = Vec::with_capacity(terms.len());
        for t in &terms {
            lists.push(self.postings(t, &set)?);
        }
        let demanded = self.demanded(q, &set)?;
        let total: usize = lists.iter().map(Vec::len).sum();
        if total == 0 || k == 0 {
            return Ok(Vec::new());
        }
        let average = self.average_length(allowed);
        let mut scores = Scores::new(total, allowed.max().unwrap_or(0));
        for list in &lists {
            let idf = Self::idf(list.len(), allowed.len());
            for &(row, tf) in list {
                scores.add(row, self.part(idf, tf, row, average));
            }
        }
        let mut heap: BinaryHeap<Worst> = BinaryHeap::new();
        scores.each(|row, score| {
            if demanded.as_ref().is_some_and(|d| !d.contains(row)) {
                return;
            }
            let w = Worst(score, row);
            let better = heap.len() < k || heap.peek().is_some_and(|top| w < *top);
            if better && self.holds_phrases(q, row, fetch) {
                heap.push(w);
                if heap.len() > k {
                    heap.pop();
                }
            }
        });
        Ok(heap.into_sorted_vec().into_iter().map(|Worst(s, r)| (s, r)).collect())
    }

    /// The score of each of `rows` (0 where nothing matches), with the statistics of `allowed`.
    pub fn scores(&self, q: &Query, allowed: &RoaringBitmap, rows: &[RowId]) -> Result<Vec<f32>> {
        let set = Allowed::of(allowed);
        let mut place: HashMap<RowId, Vec<usize>> = HashMap::with_capacity(rows.len());
        for (i, r) in rows.iter().enumerate() {
            place.entry(*r).or_default().push(i);
        }
        let average = self.average_length(allowed);
        let mut out = vec![0.0; rows.len()];
        for t in self.terms(&q.text) {
            let list = self.postings(&t, &set)?;
            let idf = Self::idf(list.len(), allowed.len());
            for (row, tf) in list {
                for &i in place.get(&row).map(Vec::as_slice).unwrap_or_default() {
                    out[i] += self.part(idf, tf, row, average);
                }
            }
        }
        Ok(out)
    }

    /// The parts of one row's score.
    pub fn explain(&self, q: &Query, allowed: &RoaringBitmap, row: RowId) -> Result<Vec<TermPart>> {
        let set = Allowed::of(allowed);
        let average = self.average_length(allowed);
        let mut out = Vec::new();
        for term in self.terms(&q.text) {
            let list = self.postings(&term, &set)?;
            let idf = Self::idf(list.len(), allowed.len());
            let df = list.len() as u64;
            if let Some((_, tf)) = list.into_iter().find(|(r, _)| *r == row) {
                out.push(TermPart { term, tf, df, idf, score: self.part(idf, tf, row, average) });
            }
        }
        Ok(out)
    }

    /// Base and delta as a new base.
    pub fn write_base(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut lengths: BTreeMap<RowId, u32> = BTreeMap::new();
        if let Some(b) = &self.base {
            let rows = (0..b.rows() as RowId).filter(|r| !self.stale.contains(*r));
            lengths.extend(rows.filter_map(|r| Some((r, b.length(r)?))));
        }
        lengths.extend(&self.delta_lengths);
        let mut w = Writer::default();
        let mut delta = self.delta.iter().peekable();
        let n = self.base.as_ref().map_or(0, Base::len);
        let mut i = 0;
        loop {
            let of_base = match &self.base {
                Some(b) if i < n => Some((b, b.key(i)?)),
                _ => None,
            };
            let take_base = match (&of_base, delta.peek()) {
                (None, None) => break,
                (Some((_, k)), Some((d, _))) => *k <= d.as_bytes(),
                (b, _) => b.is_some(),
            };
            if let (true, Some((b, k))) = (take_base, of_base) {
                let mut rows = Vec::new();
                b.postings(i, |r, c| {
                    if !self.stale.contains(r) {
                        rows.push((r, c));
                    }
                })?;
                if let Some((_, more)) = delta.next_if(|(d, _)| d.as_bytes() == k) {
                    rows.extend(more);
                    rows.sort_unstable();
                }
                w.push(k, rows.into_iter());
                i += 1;
            } else if let Some((d, rows)) = delta.next() {
                w.push(d.as_bytes(), rows.iter().copied());
            }
        }
        w.finish(&lengths, out);
        Ok(())
    }
}

/// The allowed rows as a dense set: postings ask for each of their rows.
struct Allowed {
    words: Vec<u64>,
}

impl Allowed {
    fn of(rows: &RoaringBitmap) -> Self {
        let mut words = vec![0u64; rows.max().map_or(0, |m| m as usize / 64 + 1)];
        for r in rows {
            words[r as usize / 64] |= 1 << (r % 64);
        }
        Allowed { words }
    }

    #[inline]
    fn contains(&self, row: RowId) -> bool {
        self.words.get(row as usize / 64).is_some_and(|w| w >> (row % 64) & 1 == 1)
    }
}

/// Sums by row: dense for many, a map for few.
enum Scores {
    Dense(Vec<f32>),
    Few(BTreeMap<RowId, f32>),
}

impl Scores {
    fn new(postings: usize, max: RowId) -> Self {
        if postings > DENSE_AT {
            Scores::Dense(vec![0.0; max as usize + 1])
        } else {
            Scores::Few(BTreeMap::new())
        }
    }

    #[inline]
    fn add(&mut self, row: RowId, part: f32) {
        match self {
            Scores::Dense(v) => v[row as usize] += part,
            Scores::Few(m) => *m.entry(row).or_default() += part,
        }
    }

    fn each(&self, mut f: impl FnMut(RowId, f32)) {
        match self {
            Scores::Dense(v) => {
                for (row, s) in v.iter().enumerate().filter(|(_, s)| **s > 0.0) {
                    f(row as RowId, *s);
                }
            }
            Scores::Few(m) => m.iter().for_each(|(r, s)| f(*r, *s)),
        }
    }
}

/// Ordered so that a heap's top is the hit to drop first: the smallest score, then the largest row.
#[derive(PartialEq)]
struct Worst(f32, RowId);

impl Eq for Worst {}

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
