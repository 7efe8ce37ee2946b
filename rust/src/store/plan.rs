//! A filter as the engine runs it: a tree of set operations over the postings.
//!
//! It arrives as JSON arrays, `[name, argument…]`, made from the parsed filter. Every leaf is one look-up of
//! [`PropIndex`]; NOT is the complement in all rows. The result is ANDed with what the reader may see, so a plan can
//! only narrow.

use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::props::{PropIndex, Role, Scalar};
use roaring::RoaringBitmap;
use serde_json::Value;
use std::ops::Bound;

/// Deepest nesting of a plan.
const MAX_DEPTH: usize = 256;

#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    All,
    None,
    And(Vec<Plan>),
    Or(Vec<Plan>),
    Not(Box<Plan>),
    Eq(String, Role, Scalar),
    Number(String, Bound<Scalar>, Bound<Scalar>),
    Text(String, Bound<String>, Bound<String>),
    /// Moments in microseconds.
    Time(String, Bound<i64>, Bound<i64>),
    Prefix(String, String),
    Like(String, String),
    Substring(String, String),
    Exists(String),
    Null(String),
    NonNull(String),
}

fn bad(v: &Value) -> Error {
    Error::Internal(format!("filter plan {v} has no meaning"))
}

impl Plan {
    pub fn parse(json: &str) -> Result<Plan> {
        let v: Value =
            serde_json::from_str(json).map_err(|e| Error::Internal(format!("filter plan: {e}")))?;
        node(&v, 0)
    }

    /// Rows that satisfy it, out of `[0, rows)`.
    pub fn run(&self, props: &PropIndex, rows: RowId) -> Result<RoaringBitmap> {
        let all = || {
            let mut b = RoaringBitmap::new();
            b.insert_range(0..rows);
            b
        };
        Ok(match self {
            Plan::All => all(),
            Plan::None => RoaringBitmap::new(),
            Plan::And(list) => {
                let mut sets = Vec::with_capacity(list.len());
                for p in list {
                    let s = p.run(props, rows)?;
                    if s.is_empty() {
                        return Ok(s);
                    }
                    sets.push(s);
                }
                sets.sort_by_key(RoaringBitmap::len);
                let mut it = sets.into_iter();
                let first = it.next().unwrap_or_else(all);
                it.fold(first, |a, b| a & b)
            }
            Plan::Or(list) => {
                let mut out = RoaringBitmap::new();
                for p in list {
                    out |= p.run(props, rows)?;
                }
                out
            }
            Plan::Not(p) => all() - p.run(props, rows)?,
            Plan::Eq(path, role, v) => props.eq(path, v, *role)?,
            Plan::Number(path, lo, hi) => props.range_number(path, lo.as_ref(), hi.as_ref())?,
            Plan::Text(path, lo, hi) => {
                props.range_string(path, lo.as_ref().map(String::as_str), hi.as_ref().map(String::as_str))?
            }
            Plan::Time(path, lo, hi) => props.range_time(path, *lo, *hi)?,
            Plan::Prefix(path, s) => props.prefix(path, s)?,
            Plan::Like(path, s) => props.like(path, s)?,
            Plan::Substring(path, s) => props.substring(path, s, Role::Scalar)?,
            Plan::Exists(path) => props.exists(path)?,
            Plan::Null(path) => props.null(path)?,
            Plan::NonNull(path) => props.nonnull(path)?,
        })
    }
}

fn node(v: &Value, depth: usize) -> Result<Plan> {
    let (name, args) = match v.as_array().map(Vec::as_slice) {
        Some([Value::String(name), args @ ..]) if depth <= MAX_DEPTH => (name.as_str(), args),
        _ => return Err(bad(v)),
    };
    let text = |i: usize| -> Result<String> {
        args.get(i).and_then(Value::as_str).map(Into::into).ok_or_else(|| bad(v))
    };
    let list = || args.iter().map(|a| node(a, depth + 1)).collect::<Result<Vec<_>>>();
    let scalar =
        |i: usize| -> Result<Scalar> { args.get(i).and_then(Scalar::from_json).ok_or_else(|| bad(v)) };
    let flag = |i: usize| args.get(i).and_then(Value::as_bool).ok_or_else(|| bad(v));
    // A bound stands as value, inclusive; a null value is "no bound".
    let bound_at = |i: usize| -> Result<Option<bool>> {
        match args.get(i) {
            Some(Value::Null) => Ok(None),
            Some(_) => Ok(Some(flag(i + 1)?)),
            None => Err(bad(v)),
        }
    };
    fn bound<T>(inclusive: Option<bool>, value: impl FnOnce() -> Result<T>) -> Result<Bound<T>> {
        Ok(match inclusive {
            None => Bound::Unbounded,
            Some(true) => Bound::Included(value()?),
            Some(false) => Bound::Excluded(value()?),
        })
    }
    Ok(match name {
        "all" => Plan::All,
        "none" => Plan::None,
        "and" => Plan::And(list()?),
        "or" => Plan::Or(list()?),
        "not" => Plan::Not(Box::new(node(args.first().ok_or_else(|| bad(v))?, depth + 1)?)),
        "eq" => {
            let role = match text(1)?.as_str() {
                "any" => Role::Any,
                "scalar" => Role::Scalar,
                "element" => Role::Element,
                _ => return Err(bad(v)),
            };
            Plan::Eq(text(0)?, role, scalar(2)?)
        }
        "number" => {
            Plan::Number(text(0)?, bound(bound_at(1)?, || scalar(1))?, bound(bound_at(3)?, || scalar(3))?)
        }
        "string" => Plan::Text(text(0)?, bound(bound_at(1)?, || text(1))?, bound(bound_at(3)?, || text(3))?),
        "time" => {
            let us = |i: usize| args.get(i).and_then(Value::as_i64).ok_or_else(|| bad(v));
            Plan::Time(text(0)?, bound(bound_at(1)?, || us(1))?, bound(bound_at(3)?, || us(3))?)
        }
        "prefix" => Plan::Prefix(text(0)?, text(1)?),
        "like" => Plan::Like(text(0)?, text(1)?),
        "substring" => Plan::Substring(text(0)?, text(1)?),
        "exists" => Plan::Exists(text(0)?),
        "null" => Plan::Null(text(0)?),
        "nonnull" => Plan::NonNull(text(0)?),
        _ => return Err(bad(v)),
    })
}
