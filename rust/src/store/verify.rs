//! Checking every byte of a database that is not open.

use super::files::{DataFile, FileDesc};
use super::layout::{current, kind};
use super::load::load;
use crate::error::{Error, Result};
use crate::io::Storage;
use std::path::Path;

/// Checks every byte of every file that the manifest names; the first fault of each file is reported.
pub fn verify(storage: &dyn Storage, dir: &Path) -> Result<Vec<Error>> {
    let Some((uuid, m)) = current(storage, dir)? else {
        return Err(Error::NotFound { what: format!("database {}", dir.display()) });
    };
    let col = dir.join("col");
    let mut faults = Vec::new();
    let mut check = |d: &FileDesc, k: u8| {
        let r = DataFile::open(storage, &col, d, &uuid, k).and_then(|f| f.verify_padding().and(f.verify()));
        if let Err(e) = r {
            faults.push(e);
        }
    };
    for c in &m.collections {
        for p in &c.vectors {
            check(&p.file, kind::VECTORS);
        }
        for p in &c.heap {
            check(&p.file, kind::HEAP);
        }
        let one = [
            (&c.recs, kind::RECS),
            (&c.ground, kind::GROUND),
            (&c.upper, kind::UPPER),
            (&c.index, kind::INDEX),
        ];
        for (d, k) in one {
            if let Some(d) = d {
                check(d, k);
            }
        }
    }
    if let Some(d) = &m.kv {
        check(d, kind::KV);
    }
    if faults.is_empty()
        && let Err(e) = load(storage, dir, &uuid, &m, 0)
    {
        faults.push(e);
    }
    Ok(faults)
}
