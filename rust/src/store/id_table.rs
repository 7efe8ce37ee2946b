//! External id → newest row: an open-addressing table of (hash, row), loaded with one copy at open.
//!
//! The ids themselves stay in the heap; the `same` argument compares them. Cost: 8 bytes a slot, at most 3/4 full.

use crate::error::{Error, Result};
use crate::ids::{NO_ROW, RowId};

const EMPTY: (u32, RowId) = (0, NO_ROW);

#[derive(Debug, Clone)]
pub(crate) struct IdTable {
    /// (hash, row), linear probing from `hash & mask`; the length is a power of two.
    slots: Vec<(u32, RowId)>,
    used: usize,
    seed: u64,
}

impl IdTable {
    /// `seed` keeps chosen ids from colliding on purpose.
    pub(crate) fn new(seed: u64) -> Self {
        IdTable { slots: vec![EMPTY; 16], used: 0, seed }
    }

    fn hash(&self, id: &str) -> u32 {
        xxhash_rust::xxh3::xxh3_64_with_seed(id.as_bytes(), self.seed) as u32
    }

    fn find(&self, id: &str, same: impl Fn(RowId) -> Result<bool>) -> Result<(usize, u32)> {
        let h = self.hash(id);
        let mask = self.slots.len() - 1;
        let mut i = h as usize & mask;
        for _ in 0..self.slots.len() {
            let (t, row) = self.slots[i];
            if row == NO_ROW || (t == h && same(row)?) {
                return Ok((i, h));
            }
            i = (i + 1) & mask;
        }
        Err(Error::Internal("id table is full".into()))
    }

    /// The newest row of `id`.
    pub(crate) fn get(&self, id: &str, same: impl Fn(RowId) -> Result<bool>) -> Result<Option<RowId>> {
        let row = self.slots[self.find(id, same)?.0].1;
        Ok((row != NO_ROW).then_some(row))
    }

    /// Sets the newest row of `id`; returns the one before.
    pub(crate) fn set(
        &mut self,
        id: &str,
        row: RowId,
        same: impl Fn(RowId) -> Result<bool>,
    ) -> Result<Option<RowId>> {
        let (i, h) = self.find(id, same)?;
        let old = std::mem::replace(&mut self.slots[i], (h, row)).1;
        if old != NO_ROW {
            return Ok(Some(old));
        }
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            let bigger = vec![EMPTY; self.slots.len() * 2];
            for (h, row) in std::mem::replace(&mut self.slots, bigger) {
                if row != NO_ROW {
                    self.place(h, row);
                }
            }
        }
        Ok(None)
    }

    fn place(&mut self, h: u32, row: RowId) {
        let mask = self.slots.len() - 1;
        let mut i = h as usize & mask;
        while self.slots[i].1 != NO_ROW {
            i = (i + 1) & mask;
        }
        self.slots[i] = (h, row);
    }

    /// Forgets `id`; later entries of its run move up.
    pub(crate) fn remove(&mut self, id: &str, same: impl Fn(RowId) -> Result<bool>) -> Result<()> {
        let (mut hole, _) = self.find(id, same)?;
        if self.slots[hole].1 == NO_ROW {
            return Ok(());
        }
        let mask = self.slots.len() - 1;
        self.used -= 1;
        let mut i = hole;
        loop {
            i = (i + 1) & mask;
            let (h, row) = self.slots[i];
            if row == NO_ROW {
                break;
            }
            let home = h as usize & mask;
            // The entry may fill the hole unless its home lies cyclically in (hole, i].
            if (i.wrapping_sub(home) & mask) >= (i.wrapping_sub(hole) & mask) {
                self.slots[hole] = (h, row);
                hole = i;
            }
        }
        self.slots[hole] = EMPTY;
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(16 + self.slots.len() * 8);
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&(self.slots.len() as u64).to_le_bytes());
        for (h, row) in &self.slots {
            out.extend_from_slice(&h.to_le_bytes());
            out.extend_from_slice(&row.to_le_bytes());
        }
    }

    /// What [`write`](Self::write) wrote; `None` where the bytes are not of that form or name a row ≥ `rows`.
    pub(crate) fn read(bytes: &[u8], rows: RowId) -> Option<Self> {
        let (seed, rest) = bytes.split_first_chunk::<8>()?;
        let (n, rest) = rest.split_first_chunk::<8>()?;
        let n = usize::try_from(u64::from_le_bytes(*n)).ok()?;
        if !n.is_power_of_two() || rest.len() != n.checked_mul(8)? {
            return None;
        }
        let mut used = 0;
        let mut slots = Vec::with_capacity(n);
        for c in rest.chunks_exact(8) {
            let h = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            let row = u32::from_le_bytes([c[4], c[5], c[6], c[7]]);
            if row != NO_ROW {
                used += 1;
                if row >= rows {
                    return None;
                }
            }
            slots.push((h, row));
        }
        (used < n).then_some(IdTable { slots, used, seed: u64::from_le_bytes(*seed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in proptest::collection::vec((0u8..3, 0u32..60), 0..400)) {
            let mut ids: Vec<String> = vec![];
            let mut t = IdTable::new(7);
            let mut m: HashMap<String, u32> = HashMap::new();
            for (op, n) in ops {
                let id = format!("id{n}");
                let names = ids.clone();
                let same = |r: RowId| Ok(names[r as usize] == id);
                match op {
                    0 => {
                        let row = ids.len() as u32;
                        ids.push(id.clone());
                        let old = t.set(&id, row, same).unwrap();
                        prop_assert_eq!(old, m.insert(id, row));
                    }
                    1 => { t.remove(&id, same).unwrap(); m.remove(&id); }
                    _ => prop_assert_eq!(t.get(&id, same).unwrap(), m.get(&id).copied()),
                }
                let mut b = vec![];
                t.write(&mut b);
                t = IdTable::read(&b, u32::MAX - 1).unwrap();
            }
        }
    }
}
