//! Vectors of another embedder, on their way in.

use crate::ids::RowId;

/// Vectors of rows `0..rows()`, not yet in force.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stage {
    pub dim: usize,
    /// The new `meta` of the collection, JSON.
    pub meta: Vec<u8>,
    pub vectors: Vec<f32>,
}

impl Stage {
    pub(super) fn rows(&self) -> RowId {
        (self.vectors.len() / self.dim.max(1)) as RowId
    }

    /// dim u32 · meta length u32 · meta · f32*
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.dim as u32).to_le_bytes());
        out.extend_from_slice(&(self.meta.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.meta);
        for x in &self.vectors {
            out.extend_from_slice(&x.to_le_bytes());
        }
    }

    pub(super) fn read(b: &[u8]) -> Option<Self> {
        let (dim, rest) = b.split_first_chunk::<4>()?;
        let (n, rest) = rest.split_first_chunk::<4>()?;
        let (meta, rest) = rest.split_at_checked(u32::from_le_bytes(*n) as usize)?;
        let dim = u32::from_le_bytes(*dim) as usize;
        if dim == 0 || !rest.len().is_multiple_of(dim * 4) {
            return None;
        }
        let vectors = rest.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        Some(Stage { dim, meta: meta.to_vec(), vectors })
    }
}
