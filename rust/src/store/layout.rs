//! The directory of a database: which file is of which kind, the manifest in force, a new database.

use super::manifest::Manifest;
use crate::error::{Error, Result};
use crate::io::{FileHeader, Storage, publish, read_published};
use crate::log::{Log, LogOptions};
use std::path::Path;
use std::sync::Arc;

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

pub(super) fn header(kind: u8, uuid: [u8; 16], generation: u64) -> FileHeader {
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

pub(super) fn manifest_name(generation: u64) -> String {
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

pub(super) fn publish_manifest(
    storage: &dyn Storage,
    dir: &Path,
    uuid: [u8; 16],
    m: &Manifest,
) -> Result<()> {
    let body = serde_json::to_vec_pretty(m).map_err(|e| Error::Internal(e.to_string()))?;
    let name = manifest_name(m.generation);
    publish(storage, dir, &name, &header(kind::MANIFEST, uuid, m.generation), &body)?;
    publish(storage, dir, "CURRENT", &header(kind::CURRENT, uuid, m.generation), name.as_bytes())
}
