//! What a collection is made with; stored as JSON, unknown fields are kept.

use crate::error::{Error, Result};
use crate::limits;
use kektordb_compute::{Codec, Dtype, Metric};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// HNSW with one-bit codes of each node's neighbours beside its links: fastest.
    Packed,
    /// Plain HNSW: smallest.
    Graph,
    /// Exact scan.
    Flat,
}

/// The settings that shape a collection's data; fixed at creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub dim: usize,
    pub metric: String,
    pub dtype: String,
    pub index: IndexKind,
    pub m: usize,
    pub ef_construction: usize,
    #[serde(default)]
    pub text_fields: Vec<String>,
    #[serde(default)]
    pub language: Option<String>,
    /// Closed records stay for as-of views.
    #[serde(default)]
    pub history: bool,
    /// The creator's own words (the embedder that fills it, for one).
    #[serde(default)]
    pub meta: serde_json::Value,
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Spec {
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|e| Error::invalid(format!("collection settings: {e}"), ""))
    }

    /// Refuses what no collection can be made with; returns the codec of its rows.
    pub fn codec(&self) -> Result<Codec> {
        within("dim", self.dim, 1, limits::MAX_DIM)?;
        within("m", self.m, limits::MIN_M, limits::MAX_M)?;
        within("ef_construction", self.ef_construction, 1, limits::MAX_EF)?;
        let metric = match self.metric.as_str() {
            "cosine" => Metric::Cosine,
            "dot" => Metric::Dot,
            "l2" => Metric::L2,
            other => {
                return Err(Error::invalid(
                    format!("metric is {other:?}"),
                    "one of \"cosine\", \"dot\", \"l2\"",
                ));
            }
        };
        let dtype = match self.dtype.as_str() {
            "float32" => Dtype::F32,
            "float16" => Dtype::F16,
            "int8" => Dtype::I8,
            other => {
                return Err(Error::invalid(
                    format!("dtype is {other:?}"),
                    "one of \"float32\", \"float16\", \"int8\"",
                ));
            }
        };
        Ok(Codec::new(metric, dtype, self.dim))
    }
}

fn within(what: &'static str, got: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {got}"), format!("from {min} to {max}")))
}

/// Collection names are `[a-z0-9][a-z0-9._-]*` up to the limit, so that they are safe in any file, path or URL.
pub fn check_name(name: &str) -> Result<()> {
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let legal = name.len() <= 63
        && name.chars().next().is_some_and(ok)
        && name.chars().all(|c| ok(c) || matches!(c, '.' | '_' | '-'));
    if legal {
        return Ok(());
    }
    Err(Error::invalid(
        format!("collection name {name:?}"),
        "1 to 63 of a-z, 0-9, '.', '_', '-', starting with a letter or digit",
    ))
}
