//! The only mutable truth beside the log: which files are in force.
//!
//! `CURRENT` holds the name of a `MANIFEST-<generation>`; both are small checksummed files, replaced by
//! write, sync, rename, directory sync. The body is JSON; unknown fields are kept.

use super::files::{FileDesc, PieceDesc};
use super::spec::Spec;
use crate::ids::{CollectionId, Lsn, Micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub generation: u64,
    /// Everything up to and including this record is in the files.
    pub last_lsn: Lsn,
    pub last_tx: Micros,
    pub next_collection_id: CollectionId,
    /// Interned names of users, agents and sessions; the position is the id, from 1.
    pub names: Vec<String>,
    pub collections: Vec<CollectionFiles>,
    pub kv: Option<FileDesc>,
    /// Version of the program that wrote it.
    pub written_by: String,
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollectionFiles {
    pub id: CollectionId,
    pub name: String,
    pub spec: Spec,
    pub rows: u32,
    pub heap_len: u64,
    pub heap_garbage: u64,
    pub last_tx: Micros,
    pub vectors: Vec<PieceDesc>,
    pub heap: Vec<PieceDesc>,
    pub recs: Option<FileDesc>,
    pub ground: Option<FileDesc>,
    pub upper: Option<FileDesc>,
    /// Id table, graph state, postings, text and sets, one after another; name → (start, length).
    pub index: Option<FileDesc>,
    pub sections: BTreeMap<String, (u64, u64)>,
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl CollectionFiles {
    /// Every data file, each once.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileDesc> {
        let pieces = self.vectors.iter().chain(&self.heap).map(|p| &p.file);
        pieces.chain([&self.recs, &self.ground, &self.upper, &self.index].into_iter().flatten())
    }
}

impl Manifest {
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileDesc> {
        self.collections.iter().flat_map(|c| c.files()).chain(&self.kv)
    }
}
