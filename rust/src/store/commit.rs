//! Commit: transactions queue; whoever gets the leader's lock takes all that wait, frames them in one append, syncs once
//! (where one of them asked for it), applies them in order and answers them. A failure after the first byte poisons the
//! store: reads go on, writes are refused until it is reopened.

use super::record::{Op, Record};
use super::shared::{Leader, Shared, Ticket};
use super::transaction::{Committed, Durability, Expect, Transaction};
use crate::error::{Error, Result};
use crate::ids::{CollectionId, Lsn};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

impl Shared {
    /// Queues a transaction and leads until it is answered. The caller has seen that the store is writable.
    pub(super) fn commit(&self, tx: Transaction, durability: Durability) -> Result<Committed> {
        self.check_ops(&tx.ops)?;
        let ticket = Arc::new(Ticket { tx: Mutex::new(Some(tx)), durability, done: Mutex::default() });
        self.queue.lock().push_back(ticket.clone());
        loop {
            let mut leader = self.leader.lock();
            if let Some(done) = ticket.done.lock().take() {
                drop(leader);
                let done = done?;
                self.after_commit(durability)?;
                return Ok(done);
            }
            self.lead(&mut leader);
        }
    }

    /// Takes what waits and carries it out. Every ticket taken is answered.
    fn lead(&self, leader: &mut Leader) {
        let mut group: Vec<(Arc<Ticket>, Record)> = Vec::new();
        let mut touched: HashSet<(CollectionId, String)> = HashSet::new();
        let mut bytes = 0;
        loop {
            let Some(ticket) = self.queue.lock().pop_front() else { break };
            let Some(mut tx) = ticket.tx.lock().take() else { continue };
            let ddl = tx.ops.iter().any(is_ddl);
            let clash = ddl
                || tx.expects.iter().any(|e| match e {
                    Expect::Open(c, id) | Expect::Exists(c, id) | Expect::Absent(c, id) => {
                        touched.contains(&(*c, id.clone()))
                    }
                    Expect::CollectionAbsent(_) | Expect::Staged(_) | Expect::Kv(..) => true,
                });
            if (clash || bytes > 8 << 20) && !group.is_empty() {
                *ticket.tx.lock() = Some(tx);
                self.queue.lock().push_front(ticket);
                break;
            }
            if let Err(e) = self.check_expects(&tx) {
                *ticket.done.lock() = Some(Err(e));
                continue;
            }
            for op in &mut tx.ops {
                match op {
                    Op::CreateCollection { cid, .. } => {
                        *cid = leader.next_cid;
                        leader.next_cid += 1;
                    }
                    Op::Put { cid, id, payload, .. } => {
                        bytes += payload.len();
                        touched.insert((*cid, id.clone()));
                    }
                    Op::Close { cid, id, .. } | Op::SetPayload { cid, id, .. } => {
                        touched.insert((*cid, id.clone()));
                    }
                    _ => {}
                }
            }
            leader.last_tx = self.storage.wall_time_us().max(leader.last_tx + 1);
            let record = Record { tx_time: leader.last_tx, actor: tx.actor, reason: tx.reason, ops: tx.ops };
            group.push((ticket, record));
            if ddl {
                break;
            }
        }
        if group.is_empty() {
            return;
        }
        let outcome = self.write_group(leader, &group);
        for (i, (ticket, record)) in group.iter().enumerate() {
            let r = match &outcome {
                Err(e) => Err(e.clone()),
                Ok((first, synced)) => {
                    let lsn = first + i as Lsn;
                    self.apply(record).map(|closed| {
                        leader.applied_lsn = lsn;
                        Committed { lsn, tx_time: record.tx_time, closed, synced: *synced }
                    })
                }
            };
            if let Err(e) = &r {
                // A refused append changed nothing; anything else leaves memory and log apart.
                if !matches!(e, Error::LimitExceeded { .. }) || outcome.is_ok() {
                    self.poison(e);
                }
            }
            *ticket.done.lock() = Some(r);
        }
    }

    /// The group's frames in one append, and one sync if anyone wants it. Returns the first LSN.
    fn write_group(&self, leader: &mut Leader, group: &[(Arc<Ticket>, Record)]) -> Result<(Lsn, bool)> {
        let Some(log) = &self.log else {
            return Ok((leader.applied_lsn + 1, false));
        };
        let frames: Vec<Vec<u8>> = group.iter().map(|(_, r)| r.encode()).collect();
        let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let last = log.append(&slices)?;
        leader.log_bytes_since_checkpoint += frames.iter().map(|f| f.len() as u64).sum::<u64>();
        let sync = group.iter().any(|(t, _)| t.durability == Durability::Sync);
        if sync {
            log.sync()?;
        }
        Ok((last + 1 - group.len() as Lsn, sync))
    }

    /// Keeps the un-indexed tail bounded, and the thread awake.
    fn after_commit(&self, durability: Durability) -> Result<()> {
        let behind: Vec<_> = self
            .catalog
            .read()
            .values()
            .filter(|c| c.unlinked() > self.options.tail_rows_max as u64)
            .cloned()
            .collect();
        for c in behind {
            while c.unlinked() > self.options.tail_rows_max as u64 {
                c.link(1024, self.threads())?;
            }
        }
        if durability == Durability::Sync || self.options.background {
            self.wake.1.notify_one();
        }
        Ok(())
    }
}

/// Operations that change which collections there are, or their shape: a group of their own.
fn is_ddl(op: &Op) -> bool {
    matches!(op, Op::CreateCollection { .. } | Op::DropCollection { .. } | Op::SwitchVectors { .. })
}
