//! Another embedder for a whole collection: vectors are staged beside the old ones, then switched to in one record.
//!
//! Staged vectors are logged and part of checkpoints, so an interrupted run goes on where it stopped. Until the switch every
//! reader sees the old vectors. Every record is covered, closed ones too, so past views can be searched afterwards.

use super::collection::{Collection, Inner, new_graph};
use super::record::Op;
use super::spec::Spec;
use super::stage::Stage;
use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::ids::RowId;

/// Refuses vectors that the switched collection could not hold; the caller logs them only afterwards.
pub(super) fn check(c: &Collection, dim: u32, meta: &[u8], vectors: &[f32]) -> Result<()> {
    let codec = spec_with(&c.spec, dim as usize, meta)?.codec()?;
    if dim == 0 || !vectors.len().is_multiple_of(dim as usize) {
        return Err(Error::invalid(format!("{} numbers are no vectors of {dim}", vectors.len()), ""));
    }
    for v in vectors.chunks_exact(dim as usize) {
        codec.check(v).map_err(|f| Error::invalid(format!("vector: {f}"), f.hint().to_owned()))?;
    }
    Ok(())
}

fn spec_with(spec: &Spec, dim: usize, meta: &[u8]) -> Result<Spec> {
    let meta =
        serde_json::from_slice(meta).map_err(|e| Error::invalid(format!("meta is not JSON: {e}"), ""))?;
    Ok(Spec { dim, meta, ..spec.clone() })
}

impl Collection {
    /// Keeps vectors of rows from `from` on. Another `meta` or `dim` than before starts over.
    pub(super) fn stage(&self, inner: &mut Inner, op: &Op) -> Result<()> {
        let Op::StageVectors { from, dim, meta, vectors, .. } = op else { return Ok(()) };
        let dim = *dim as usize;
        if inner.stage.as_ref().is_none_or(|s| s.dim != dim || s.meta != *meta) {
            inner.stage = Some(Stage { dim, meta: meta.clone(), vectors: Vec::new() });
        }
        if let Some(s) = &mut inner.stage {
            if *from > s.rows() {
                return Err(Error::Internal(format!("vectors of row {from} staged behind {}", s.rows())));
            }
            s.vectors.truncate(*from as usize * dim);
            s.vectors.extend_from_slice(vectors);
        }
        Ok(())
    }

    /// The collection with its staged vectors in force; this one stays empty behind. Everything is linked anew.
    pub(super) fn switched(&self, inner: &mut Inner) -> Result<Collection> {
        let Some(stage) = inner.stage.take().filter(|s| s.rows() == inner.rows()) else {
            return Err(Error::Internal("not every row has a staged vector".into()));
        };
        let spec = spec_with(&self.spec, stage.dim, &stage.meta)?;
        let codec = spec.codec()?;
        let mut vectors = Arena::new(codec.row_bytes())?;
        vectors.grow_to(inner.rows() as usize)?;
        for (row, v) in stage.vectors.chunks_exact(stage.dim).enumerate() {
            let norm = codec.encode(v, vectors.row_mut(row));
            let mut rec = inner.rec(row as RowId)?;
            rec.norm = norm;
            rec.write(inner.recs.row_mut(row));
        }
        let empty = Collection::new(self.id, &self.name, self.spec.clone(), 0)?.inner.into_inner();
        let mut next = std::mem::replace(inner, empty);
        next.vectors = vectors;
        next.vectors_clean = 0.into();
        if let Some(mut g) = new_graph(&spec, &codec)? {
            g.grow_to(next.rows() as usize)?;
            next.graph = Some(g);
            next.unlinked.insert_range(0..next.rows());
            next.unlinked -= &next.free;
            next.unlinked -= &next.dead;
        }
        Ok(Collection::from_inner(self.id, &self.name, spec, codec, next))
    }

    /// Payloads of rows from `from` on, whatever their state: for embedding them anew, and for nothing that answers.
    pub(crate) fn payloads(&self, from: RowId, limit: usize) -> Result<Vec<String>> {
        let inner = self.inner.read();
        let to = inner.rows().min(from.saturating_add(limit as RowId));
        (from..to).map(|r| Ok(inner.payload_of(&inner.rec(r)?)?.to_owned())).collect()
    }

    /// Rows, rows staged under this `meta`, and how many records are in each life state now.
    pub(crate) fn staged(&self, meta: &[u8]) -> Result<(RowId, RowId, [u64; 9])> {
        let inner = self.inner.read();
        let staged = inner.stage.as_ref().filter(|s| s.meta == meta).map_or(0, Stage::rows);
        let mut counts = [0; 9];
        for r in 0..inner.rows() {
            counts[inner.stamps(r)?.life_at(inner.last_tx) as usize] += 1;
        }
        Ok((inner.rows(), staged, counts))
    }
}
