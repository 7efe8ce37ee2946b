//! Giving back what deleted and replaced rows hold.
//!
//! Dead rows are first cut out of the graph, their neighbours reconnected, in bounded steps beside searches; then their
//! rows become free for the next puts, and the heap is rewritten where most of it is garbage. Collections with history
//! keep every record.

use super::collection::{Collection, Inner};
use super::heap::Heap;
use super::rec::Rec;
use crate::error::Result;
use crate::flat::BitSet;
use crate::hnsw::{RepairCursor, Scratch};
use std::sync::atomic::Ordering;

/// Rows whose links are repaired before searches and writers may pass again.
const STEP: usize = 256;
/// The heap is rewritten when it has more garbage than this, and more garbage than content.
const HEAP_GARBAGE_MIN: u64 = 64 << 10;

impl Collection {
    /// Returns how many rows became free. The caller holds the leader's lock, so no commit runs.
    pub(super) fn vacuum(&self) -> Result<u64> {
        let _no_linker = self.link_gate.lock();
        let dead = {
            let mut inner = self.inner.write();
            let dead = inner.dead.clone();
            inner.unlinked -= &dead;
            dead
        };
        if !dead.is_empty() {
            let bits = BitSet::from_roaring(self.inner.read().rows() as usize, &dead);
            let mut cursor = RepairCursor::new();
            let mut scratch = Scratch::new();
            while !cursor.is_done() {
                let inner = self.inner.read();
                let Some(g) = &inner.graph else { break };
                g.repair(&inner.vector_rows(&self.codec)?, &bits, &mut cursor, STEP, &mut scratch);
            }
            let mut inner = self.inner.write();
            for row in &dead {
                self.release(&mut inner, row)?;
            }
            inner.dead -= &dead;
            inner.free |= &dead;
            self.dirty.store(true, Ordering::Release);
        }
        self.compact_heap()?;
        Ok(dead.len())
    }

    /// Forgets the id of a dead row where no newer record carries it.
    fn release(&self, inner: &mut Inner, row: u32) -> Result<()> {
        let rec = inner.rec(row)?;
        let id = inner.id_of(&rec)?.to_owned();
        if inner.newest(&id)? == Some(row) {
            let Inner { ids, recs, heap, .. } = &mut *inner;
            ids.remove(&id, |r| super::collection::row_has_id(recs, heap, r, &id))?;
            inner.heap_garbage += u64::from(rec.id_len);
        }
        let gone = Rec { id_off: 0, id_len: 0, payload_off: 0, payload_len: 0, ..rec };
        gone.write(inner.recs.row_mut(row as usize));
        Ok(())
    }

    fn compact_heap(&self) -> Result<()> {
        let mut inner = self.inner.write();
        let (garbage, len) = (inner.heap_garbage, inner.heap.len());
        if garbage < HEAP_GARBAGE_MIN || garbage * 2 < len {
            return Ok(());
        }
        let mut heap = Heap::new()?;
        let mut moved = Vec::with_capacity(inner.rows() as usize);
        for row in 0..inner.rows() {
            let mut rec = inner.rec(row)?;
            if rec.id_len == 0 {
                continue;
            }
            let id = inner.id_of(&rec)?.as_bytes();
            let payload = inner.payload_of(&rec)?.as_bytes();
            rec.id_off = heap.push(id)?;
            rec.payload_off = heap.push(payload)?;
            moved.push((row, rec));
        }
        for (row, rec) in moved {
            rec.write(inner.recs.row_mut(row as usize));
        }
        inner.heap = heap;
        inner.heap_garbage = 0;
        inner.heap_clean.store(0, Ordering::Release);
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn stats(&self) -> serde_json::Value {
        let inner = self.inner.read();
        serde_json::json!({
            "rows": inner.rows(),
            "live": inner.view.current().len(),
            "dead": inner.dead.len(),
            "free": inner.free.len(),
            "unlinked": inner.unlinked.len(),
            "dim": self.spec.dim,
            "metric": self.spec.metric,
            "dtype": self.spec.dtype,
            "index": self.spec.index,
            "heap_bytes": inner.heap.len(),
            "heap_garbage_bytes": inner.heap_garbage,
            "vector_bytes": inner.vectors.bytes().len(),
            "graph_bytes": inner.graph.as_ref().map_or(0, |g| g.ground().bytes().len() + g.upper().bytes().len()),
        })
    }
}
