//! Base, delta and look-ups.

use super::base::{Base, Writer};
use super::key::{self, Role, Scalar, behind, kind, moment, nfc, prefix, term};
use super::{Bytes, terms};
use crate::error::Result;
use crate::ids::RowId;
use roaring::RoaringBitmap;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Rows of a term in the delta; most terms of unique values have one.
#[derive(Debug, Clone)]
enum Rows {
    One(RowId),
    Many(Box<RoaringBitmap>),
}

/// Postings of one collection's payloads.
#[derive(Debug, Default)]
pub struct PropIndex {
    base: Option<Base>,
    delta: BTreeMap<Vec<u8>, Rows>,
    delta_rows: RoaringBitmap,
    /// Rows whose terms in the base do not hold any more.
    stale: RoaringBitmap,
}

impl PropIndex {
    pub fn new() -> Self {
        Self::default()
    }

    /// Over a base that [`write_base`](Self::write_base) wrote; `file` is named in errors. Reads nothing but the head.
    pub fn open(base: Arc<dyn Bytes>, file: &Path) -> Result<Self> {
        Ok(PropIndex { base: Some(Base::open(base, file)?), ..Default::default() })
    }

    /// Indexes a row that is not indexed now.
    pub fn insert(&mut self, row: RowId, payload: &Value) {
        for t in terms::of(payload) {
            match self.delta.entry(t) {
                std::collections::btree_map::Entry::Vacant(e) => {
                    e.insert(Rows::One(row));
                }
                std::collections::btree_map::Entry::Occupied(mut e) => match e.get_mut() {
                    Rows::One(r) if *r == row => {}
                    Rows::One(r) => {
                        let b = RoaringBitmap::from_iter([*r, row]);
                        e.insert(Rows::Many(Box::new(b)));
                    }
                    Rows::Many(b) => {
                        b.insert(row);
                    }
                },
            }
        }
        self.delta_rows.insert(row);
    }

    /// Takes a row out; `payload` is what it was indexed with.
    pub fn remove(&mut self, row: RowId, payload: &Value) {
        if !self.delta_rows.remove(row) {
            self.stale.insert(row);
            return;
        }
        for t in terms::of(payload) {
            let gone = match self.delta.get_mut(&t) {
                None => false,
                Some(Rows::One(r)) => *r == row,
                Some(Rows::Many(b)) => {
                    b.remove(row);
                    b.is_empty()
                }
            };
            if gone {
                self.delta.remove(&t);
            }
        }
    }

    /// Union of the rows of all terms in `[from, to)` that `keep` wants.
    fn union(&self, from: &[u8], to: &[u8], keep: impl Fn(&[u8]) -> bool) -> Result<RoaringBitmap> {
        let mut one = Vec::new();
        let mut many = RoaringBitmap::new();
        if let Some(base) = &self.base {
            let mut i = base.lower_bound(from)?;
            while i < base.len() {
                let k = base.key(i)?;
                if k >= to {
                    break;
                }
                if keep(k) {
                    base.rows(i, &mut one, &mut many)?;
                }
                i += 1;
            }
        }
        fold_in(&mut many, &mut one);
        many -= &self.stale;
        if from < to {
            for (k, rows) in self.delta.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
                if keep(k) {
                    match rows {
                        Rows::One(r) => one.push(*r),
                        Rows::Many(b) => many |= &**b,
                    }
                }
            }
        }
        fold_in(&mut many, &mut one);
        Ok(many)
    }

    fn exactly(&self, term: &[u8]) -> Result<RoaringBitmap> {
        let mut to = term.to_vec();
        to.push(0);
        self.union(term, &to, |_| true)
    }

    /// Rows with a value equal to `value` under the path.
    pub fn eq(&self, path: &str, value: &Scalar, role: Role) -> Result<RoaringBitmap> {
        let (k, bytes) = value.term();
        let mut out = RoaringBitmap::new();
        if role != Role::Element {
            out |= self.exactly(&term(path, k, &bytes))?;
        }
        if role != Role::Scalar {
            out |= self.exactly(&term(path, k + kind::ELEMENT, &bytes))?;
        }
        Ok(out)
    }

    fn range(&self, path: &str, k: u8, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Result<RoaringBitmap> {
        let edge = |v: &[u8], after: bool| {
            let mut t = term(path, k, v);
            if after {
                // The next term behind this very value.
                t.push(0);
            }
            t
        };
        let from = match lo {
            Bound::Included(v) => edge(v, false),
            Bound::Excluded(v) => edge(v, true),
            Bound::Unbounded => prefix(path, k),
        };
        let to = match hi {
            Bound::Included(v) => edge(v, true),
            Bound::Excluded(v) => edge(v, false),
            Bound::Unbounded => behind(&prefix(path, k)),
        };
        self.union(&from, &to, |_| true)
    }

    fn both(&self, path: &str, k: u8, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Result<RoaringBitmap> {
        Ok(self.range(path, k, lo, hi)? | self.range(path, k + kind::ELEMENT, lo, hi)?)
    }

    /// Rows with a number in the range; bounds that are no numbers match nothing.
    pub fn range_number(&self, path: &str, lo: Bound<&Scalar>, hi: Bound<&Scalar>) -> Result<RoaringBitmap> {
        fn bytes(b: Bound<&Scalar>) -> Option<Bound<[u8; 16]>> {
            Some(match b {
                Bound::Included(Scalar::Number(n)) => Bound::Included(key::number(n)),
                Bound::Excluded(Scalar::Number(n)) => Bound::Excluded(key::number(n)),
                Bound::Unbounded => Bound::Unbounded,
                _ => return None,
            })
        }
        let (Some(lo), Some(hi)) = (bytes(lo), bytes(hi)) else { return Ok(RoaringBitmap::new()) };
        self.both(path, kind::NUMBER, as_slice(&lo), as_slice(&hi))
    }

    /// Rows with a text in the range, by code points of its NFC form.
    pub fn range_string(&self, path: &str, lo: Bound<&str>, hi: Bound<&str>) -> Result<RoaringBitmap> {
        let (lo, hi) = (lo.map(|s| nfc(s).into_bytes()), hi.map(|s| nfc(s).into_bytes()));
        let slice = |b: &Bound<Vec<u8>>| -> Bound<Vec<u8>> { b.clone() };
        let (lo, hi) = (slice(&lo), slice(&hi));
        self.both(path, kind::TEXT, lo.as_ref().map(Vec::as_slice), hi.as_ref().map(Vec::as_slice))
    }

    /// Rows with a text that reads as a moment in the range, microseconds.
    pub fn range_time(&self, path: &str, lo: Bound<i64>, hi: Bound<i64>) -> Result<RoaringBitmap> {
        let (lo, hi) = (lo.map(moment), hi.map(moment));
        self.range(path, kind::TIME, as_slice(&lo), as_slice(&hi))
    }

    fn texts(
        &self,
        path: &str,
        start: &str,
        role: Role,
        keep: impl Fn(&str) -> bool,
    ) -> Result<RoaringBitmap> {
        let mut out = RoaringBitmap::new();
        for k in [kind::TEXT, kind::TEXT + kind::ELEMENT] {
            if (k == kind::TEXT && role == Role::Element) || (k != kind::TEXT && role == Role::Scalar) {
                continue;
            }
            let from = term(path, k, start.as_bytes());
            let skip = prefix(path, k).len();
            let wanted =
                |t: &[u8]| t.get(skip..).and_then(|b| std::str::from_utf8(b).ok()).is_some_and(&keep);
            out |= self.union(&from, &behind(&from), wanted)?;
        }
        Ok(out)
    }

    /// Rows with a text that starts with `start`.
    pub fn prefix(&self, path: &str, start: &str) -> Result<RoaringBitmap> {
        self.texts(path, &nfc(start), Role::Any, |_| true)
    }

    /// Rows with a text that matches an SQL LIKE pattern: `%` any run, `_` one character, `\` escapes.
    /// Cost: the texts of the path that start as the pattern does.
    pub fn like(&self, path: &str, pattern: &str) -> Result<RoaringBitmap> {
        let p = like_tokens(&nfc(pattern));
        let start: String =
            p.iter().map_while(|t| if let Token::Char(c) = t { Some(*c) } else { None }).collect();
        self.texts(path, &start, Role::Any, |s| like_matches(&p, s))
    }

    /// Rows with a text that holds `needle`. Cost: all texts of the path.
    pub fn substring(&self, path: &str, needle: &str, role: Role) -> Result<RoaringBitmap> {
        let needle = nfc(needle);
        self.texts(path, "", role, |s| s.contains(&needle))
    }

    /// Rows that have the key, whatever its value.
    pub fn exists(&self, path: &str) -> Result<RoaringBitmap> {
        self.exactly(&prefix(path, kind::EXISTS))
    }

    /// Rows with a null under the path, alone or in a list.
    pub fn null(&self, path: &str) -> Result<RoaringBitmap> {
        self.exactly(&prefix(path, kind::NULL))
    }

    /// Rows with a value that is not null under the path.
    pub fn nonnull(&self, path: &str) -> Result<RoaringBitmap> {
        self.exactly(&prefix(path, kind::NON_NULL))
    }

    /// Values of a path with how many of `allowed` hold them, most frequent first, ties by value.
    pub fn facet_counts(
        &self,
        path: &str,
        allowed: &RoaringBitmap,
        limit: usize,
    ) -> Result<Vec<(Scalar, u64)>> {
        let mut counts: BTreeMap<(u8, Vec<u8>), u64> = BTreeMap::new();
        let of_base = allowed - &self.stale;
        for k in [kind::TEXT, kind::NUMBER, kind::BOOL] {
            for k2 in [k, k + kind::ELEMENT] {
                let from = prefix(path, k2);
                let to = behind(&from);
                let mut add = |term: &[u8], n: u64| {
                    if n > 0 {
                        *counts
                            .entry((k, term.get(from.len()..).unwrap_or_default().to_vec()))
                            .or_default() += n;
                    }
                };
                if let Some(base) = &self.base {
                    let mut i = base.lower_bound(&from)?;
                    while i < base.len() && base.key(i)? < &to[..] {
                        let (mut one, mut many) = (Vec::new(), RoaringBitmap::new());
                        base.rows(i, &mut one, &mut many)?;
                        let single = one.iter().filter(|r| of_base.contains(**r)).count() as u64;
                        add(base.key(i)?, single + many.intersection_len(&of_base));
                        i += 1;
                    }
                }
                for (t, rows) in self.delta.range(from.clone()..to.clone()) {
                    let n = match rows {
                        Rows::One(r) => u64::from(allowed.contains(*r)),
                        Rows::Many(b) => b.intersection_len(allowed),
                    };
                    add(t, n);
                }
            }
        }
        let mut out: Vec<((u8, Vec<u8>), u64)> = counts.into_iter().collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        out.truncate(limit);
        Ok(out.into_iter().filter_map(|((k, v), n)| Some((Scalar::of_term(k, &v)?, n))).collect())
    }

    /// Paths that occur, each with the number of rows that have it and the types of its values.
    pub fn fields(&self, allowed: &RoaringBitmap) -> Result<Value> {
        let mut paths: HashMap<String, ()> = HashMap::new();
        if let Some(base) = &self.base {
            let mut i = 0;
            while i < base.len() {
                let Some((path, ..)) = key::split(base.key(i)?) else { break };
                paths.insert(path.to_owned(), ());
                i = base.lower_bound(&prefix(path, u8::MAX))?;
            }
        }
        let mut from = Vec::new();
        while let Some((t, _)) = self.delta.range(from..).next() {
            let Some((path, ..)) = key::split(t) else { break };
            paths.insert(path.to_owned(), ());
            from = prefix(path, u8::MAX);
        }
        let mut out = serde_json::Map::new();
        let mut names: Vec<String> = paths.into_keys().collect();
        names.sort();
        for path in names {
            let rows = self.exists(&path)?.intersection_len(allowed);
            if rows == 0 {
                continue;
            }
            let mut types = Vec::new();
            for (name, k) in [("text", kind::TEXT), ("number", kind::NUMBER), ("bool", kind::BOOL)] {
                if !self.both(&path, k, Bound::Unbounded, Bound::Unbounded)?.is_disjoint(allowed) {
                    types.push(name);
                }
            }
            out.insert(path, serde_json::json!({"rows": rows, "types": types}));
        }
        Ok(Value::Object(out))
    }

    /// Base and delta as a new base.
    pub fn write_base(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut w = Writer::default();
        let mut delta = self.delta.iter().peekable();
        let n = self.base.as_ref().map_or(0, Base::len);
        let mut i = 0;
        loop {
            let of_base = match &self.base {
                Some(b) if i < n => Some((b, b.key(i)?)),
                _ => None,
            };
            let (mut one, mut rows) = (Vec::new(), RoaringBitmap::new());
            let take_base = match (&of_base, delta.peek()) {
                (None, None) => break,
                (Some((_, k)), Some((d, _))) => *k <= d.as_slice(),
                (b, _) => b.is_some(),
            };
            if let (true, Some((b, k))) = (take_base, of_base) {
                b.rows(i, &mut one, &mut rows)?;
                fold_in(&mut rows, &mut one);
                rows -= &self.stale;
                if let Some((_, more)) = delta.next_if(|(d, _)| d.as_slice() == k) {
                    add(&mut rows, more);
                }
                w.push(k, &rows)?;
                i += 1;
            } else if let Some((d, more)) = delta.next() {
                add(&mut rows, more);
                w.push(d, &rows)?;
            }
        }
        w.finish(out);
        Ok(())
    }
}

fn add(to: &mut RoaringBitmap, rows: &Rows) {
    match rows {
        Rows::One(r) => {
            to.insert(*r);
        }
        Rows::Many(b) => *to |= &**b,
    }
}

fn fold_in(many: &mut RoaringBitmap, one: &mut Vec<RowId>) {
    if !one.is_empty() {
        one.sort_unstable();
        one.dedup();
        many.extend(one.drain(..));
    }
}

fn as_slice<const N: usize>(b: &Bound<[u8; N]>) -> Bound<&[u8]> {
    b.as_ref().map(|a| a.as_slice())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Char(char),
    One,
    Run,
}

fn like_tokens(pattern: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut it = pattern.chars();
    while let Some(c) = it.next() {
        out.push(match c {
            '%' if out.last() == Some(&Token::Run) => continue,
            '%' => Token::Run,
            '_' => Token::One,
            '\\' => Token::Char(it.next().unwrap_or('\\')),
            c => Token::Char(c),
        });
    }
    out
}

/// Greedy with one point of return: linear in text × runs.
fn like_matches(p: &[Token], s: &str) -> bool {
    let text: Vec<char> = s.chars().collect();
    let (mut i, mut j) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while j < text.len() {
        match p.get(i) {
            Some(Token::Run) => {
                back = Some((i + 1, j));
                i += 1;
            }
            Some(Token::One) => {
                i += 1;
                j += 1;
            }
            Some(Token::Char(c)) if *c == text[j] => {
                i += 1;
                j += 1;
            }
            _ => match back {
                Some((bi, bj)) => {
                    (i, j) = (bi, bj + 1);
                    back = Some((bi, bj + 1));
                }
                None => return false,
            },
        }
    }
    p[i..].iter().all(|t| *t == Token::Run)
}
