//! What a transaction must satisfy before it is logged: what would fail only when applied is refused here.

use super::collection::parse_payload;
use super::record::{Op, PutStamps, VectorSource};
use super::shared::{Shared, not_found};
use super::transaction::{Expect, Transaction};
use crate::error::{Error, Result};
use crate::limits;
use crate::view::Life;

impl Shared {
    /// Refuses what would fail only after it was logged.
    pub(super) fn check_ops(&self, ops: &[Op]) -> Result<()> {
        let by_id = self.by_id.read();
        for op in ops {
            match op {
                Op::Put { cid, id, vector, payload, stamps } => {
                    let c = by_id.get(cid).ok_or_else(|| not_found("dropped"))?;
                    check_id(id)?;
                    check_payload(payload)?;
                    check_stamps(stamps)?;
                    if let VectorSource::Given(v) = vector {
                        if v.len() != c.spec.dim {
                            return Err(Error::DimensionMismatch {
                                collection: c.name.clone(),
                                got: v.len(),
                                want: c.spec.dim,
                            });
                        }
                        c.codec.check(v).map_err(|f| {
                            Error::invalid(format!("vector of id {id:?}: {f}"), f.hint().to_owned())
                        })?;
                    }
                }
                Op::SetPayload { id, payload, .. } => {
                    check_id(id)?;
                    check_payload(payload)?;
                }
                Op::StageVectors { cid, dim, meta, vectors, .. } => {
                    let c = by_id.get(cid).ok_or_else(|| not_found("dropped"))?;
                    super::restage::check(c, *dim, meta, vectors)?;
                }
                Op::Close { end_life: Life::Active, .. } => {
                    return Err(Error::invalid("a closed record cannot be active", ""));
                }
                Op::KvSet { namespace, key, .. } | Op::KvDelete { namespace, key } => {
                    check_id(namespace)?;
                    check_id(key)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn check_expects(&self, tx: &Transaction) -> Result<()> {
        for e in &tx.expects {
            match e {
                Expect::CollectionAbsent(name) => {
                    if self.catalog.read().contains_key(name) {
                        return Err(Error::AlreadyExists { what: format!("collection {name:?}") });
                    }
                }
                Expect::Staged(cid) => {
                    let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                    let inner = c.inner.read();
                    if inner.stage.as_ref().is_none_or(|s| s.rows() != inner.rows()) {
                        return Err(Error::VersionConflict {
                            message: "rows were added that have no staged vector yet".into(),
                        });
                    }
                }
                Expect::Kv(namespace, key, want) => {
                    let kv = self.kv.read();
                    if kv.get(&(namespace.clone(), key.clone())) != want.as_ref() {
                        return Err(Error::VersionConflict {
                            message: format!(
                                "key {key:?} of {namespace:?} holds another value than expected"
                            ),
                        });
                    }
                }
                Expect::Open(cid, id) | Expect::Exists(cid, id) | Expect::Absent(cid, id) => {
                    let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                    let open = c.inner.read().open_row(id)?.is_some();
                    match (e, open) {
                        (Expect::Open(..), false) => {
                            return Err(Error::VersionConflict {
                                message: format!("{id:?} is not open any more in {:?}", c.name),
                            });
                        }
                        (Expect::Exists(..), false) => {
                            return Err(Error::NotFound { what: format!("{id:?} in {:?}", c.name) });
                        }
                        (Expect::Absent(..), true) => {
                            return Err(Error::AlreadyExists { what: format!("{id:?} in {:?}", c.name) });
                        }
                        _ => {}
                    }
                }
            }
        }
        for op in &tx.ops {
            let cid = match op {
                Op::Put { cid, .. }
                | Op::Close { cid, .. }
                | Op::SetPayload { cid, .. }
                | Op::StageVectors { cid, .. }
                | Op::SwitchVectors { cid }
                | Op::DropCollection { cid } => cid,
                _ => continue,
            };
            if !self.by_id.read().contains_key(cid) {
                return Err(not_found("dropped meanwhile"));
            }
            if let Op::Put { cid, vector: VectorSource::Like(like), .. } = op {
                let c = self.by_id.read().get(cid).cloned().ok_or_else(|| not_found("dropped"))?;
                if c.inner.read().newest(like)?.is_none() {
                    return Err(Error::NotFound { what: format!("{like:?} in {:?}", c.name) });
                }
            }
        }
        Ok(())
    }
}

fn check_id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid("an id is empty", "ids are 1 to 4,096 bytes of UTF-8"));
    }
    if id.len() > limits::MAX_ID_BYTES {
        return Err(Error::LimitExceeded {
            limit: "MAX_ID_BYTES",
            what: "id".into(),
            got: id.len() as u64,
            max: limits::MAX_ID_BYTES as u64,
        });
    }
    Ok(())
}

fn check_payload(json: &[u8]) -> Result<()> {
    if json.len() > limits::MAX_PAYLOAD_BYTES {
        return Err(Error::LimitExceeded {
            limit: "MAX_PAYLOAD_BYTES",
            what: "payload".into(),
            got: json.len() as u64,
            max: limits::MAX_PAYLOAD_BYTES as u64,
        });
    }
    let v = parse_payload(json)?;
    if !v.is_object() {
        return Err(Error::invalid("a payload is not an object", "give a mapping of field names to values"));
    }
    if depth(&v) > limits::MAX_PAYLOAD_DEPTH {
        return Err(Error::LimitExceeded {
            limit: "MAX_PAYLOAD_DEPTH",
            what: "nesting of a payload".into(),
            got: depth(&v) as u64,
            max: limits::MAX_PAYLOAD_DEPTH as u64,
        });
    }
    Ok(())
}

fn depth(v: &serde_json::Value) -> usize {
    match v {
        serde_json::Value::Array(a) => 1 + a.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(o) => 1 + o.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_stamps(s: &PutStamps) -> Result<()> {
    if s.valid_to <= s.valid_from {
        return Err(Error::invalid(
            format!("validity ends at {} µs, not after its start at {} µs", s.valid_to, s.valid_from),
            "intervals are half-open [from, to) and hold at least one moment",
        ));
    }
    if s.life == Life::Gone {
        return Err(Error::invalid("a record cannot start as gone", ""));
    }
    Ok(())
}
