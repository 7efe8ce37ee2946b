//! Carrying out a record in memory: the same at commit and at replay.

use super::collection::Collection;
use super::record::{Op, Record};
use super::shared::{Shared, not_found};
use super::spec::Spec;
use crate::error::{Error, Result};
use crate::ids::{CollectionId, Lsn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    pub(super) fn replay(&self, lsn: Lsn, bytes: &[u8]) -> Result<()> {
        let record = Record::decode(bytes)?;
        self.apply(&record)?;
        let mut leader = self.leader.lock();
        leader.last_tx = leader.last_tx.max(record.tx_time);
        leader.applied_lsn = lsn;
        leader.log_bytes_since_checkpoint += bytes.len() as u64;
        for op in &record.ops {
            if let Op::CreateCollection { cid, .. } = op {
                leader.next_cid = leader.next_cid.max(cid + 1);
            }
        }
        Ok(())
    }

    /// Carries out a record in memory. Returns how many records its closes ended.
    pub(super) fn apply(&self, record: &Record) -> Result<u64> {
        let tx = record.tx_time;
        let mut closed = 0;
        let mut i = 0;
        while let Some(op) = record.ops.get(i) {
            let cid = match op {
                Op::CreateCollection { cid, spec } => {
                    self.apply_create(*cid, spec)?;
                    i += 1;
                    continue;
                }
                Op::DropCollection { cid } => {
                    self.apply_drop(*cid);
                    i += 1;
                    continue;
                }
                Op::SwitchVectors { cid } => {
                    self.apply_switch(*cid)?;
                    i += 1;
                    continue;
                }
                Op::KvSet { namespace, key, value } => {
                    self.kv.write().insert((namespace.clone(), key.clone()), value.clone());
                    self.kv_dirty.store(true, Ordering::Release);
                    i += 1;
                    continue;
                }
                Op::KvDelete { namespace, key } => {
                    self.kv.write().remove(&(namespace.clone(), key.clone()));
                    self.kv_dirty.store(true, Ordering::Release);
                    i += 1;
                    continue;
                }
                Op::Put { cid, .. }
                | Op::Close { cid, .. }
                | Op::SetPayload { cid, .. }
                | Op::StageVectors { cid, .. } => *cid,
            };
            let Some(c) = self.by_id.read().get(&cid).cloned() else {
                return Err(Error::Internal(format!("record names collection {cid}, which does not exist")));
            };
            // All neighbouring operations on one collection in one exclusive step.
            let mut inner = c.inner.write();
            let mut names = self.names.write();
            // Whatever the operations are: a checkpoint must not take the old files for this record.
            c.dirty.store(true, Ordering::Release);
            while let Some(op) = record.ops.get(i) {
                match op {
                    Op::Put { cid: to, id, vector, payload, stamps } if *to == cid => {
                        c.put(&mut inner, id, vector, payload, stamps, tx, &mut *names)?;
                    }
                    Op::Close { cid: to, id, end_life } if *to == cid => {
                        closed += u64::from(c.close(&mut inner, id, *end_life, tx)?);
                    }
                    Op::SetPayload { cid: to, id, merge, payload } if *to == cid => {
                        c.set_payload(&mut inner, id, payload, *merge, tx)?;
                    }
                    Op::StageVectors { cid: to, .. } if *to == cid => c.stage(&mut inner, op)?,
                    _ => break,
                }
                i += 1;
            }
        }
        self.last_tx.fetch_max(tx as u64, Ordering::AcqRel);
        Ok(closed)
    }

    fn apply_create(&self, cid: CollectionId, json: &[u8]) -> Result<()> {
        let mut spec = Spec::parse(json)?;
        let name = match spec.extra.remove("name") {
            Some(serde_json::Value::String(n)) => n,
            _ => return Err(Error::corrupt("log record", 0, "collection without a name")),
        };
        let seed = u64::from_le_bytes(std::array::from_fn(|i| self.uuid[i]));
        let c = Arc::new(Collection::new(cid, &name, spec, seed)?);
        self.by_id.write().insert(cid, c.clone());
        self.catalog.write().insert(name, c);
        Ok(())
    }

    fn apply_switch(&self, cid: CollectionId) -> Result<()> {
        let old = self.by_id.read().get(&cid).cloned().ok_or_else(|| not_found("dropped"))?;
        let _no_linker = old.link_gate.lock();
        let mut inner = old.inner.write();
        let next = Arc::new(old.switched(&mut inner)?);
        old.dropped.store(true, Ordering::Release);
        self.by_id.write().insert(cid, next.clone());
        self.catalog.write().insert(next.name.clone(), next);
        Ok(())
    }

    fn apply_drop(&self, cid: CollectionId) {
        if let Some(c) = self.by_id.write().remove(&cid) {
            c.dropped.store(true, Ordering::Release);
            self.catalog.write().remove(&c.name);
        }
    }
}
