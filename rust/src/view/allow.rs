//! Bitmaps kept at commit, so that the usual view costs a few ANDs.
//!
//! Promise: [`ViewIndex::allow`] equals `{row | visible(row, view, now)}` for every view. Cost: the usual view is one copy
//! of the current set and an AND per set scope part; windowed rows are checked one by one; any other view is a scan.

use super::rule::{Belief, Life, NameId, Stamps, View, visible};
use crate::error::{Error, Result};
use crate::ids::{EVER, FOREVER, Micros, RowId};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// Per-collection sets of rows by what the rule reads.
#[derive(Debug, Default, Clone)]
pub struct ViewIndex {
    /// Open, active, not refuted, not stale.
    current: RoaringBitmap,
    /// Of `current`: rows with a bounded valid window.
    windowed: RoaringBitmap,
    /// Of `current`: rows by set scope part; a row with an unset part is in none of that part's sets.
    parts: [BTreeMap<NameId, RoaringBitmap>; 3],
    /// Of `current`: rows whose part is set, per part.
    scoped: [RoaringBitmap; 3],
    /// Of `current`: rows below the highest trust, by class.
    trust: [RoaringBitmap; 4],
}

fn is_current(s: &Stamps) -> bool {
    s.tx_to == FOREVER && s.life == Life::Active && s.belief != Belief::Refuted && !s.stale
}

impl ViewIndex {
    /// A record was added.
    pub fn add(&mut self, row: RowId, s: &Stamps) {
        if !is_current(s) {
            return;
        }
        self.current.insert(row);
        if s.valid_from != EVER || s.valid_to != FOREVER {
            self.windowed.insert(row);
        }
        for (i, part) in [s.user, s.agent, s.session].into_iter().enumerate() {
            if part != 0 {
                self.parts[i].entry(part).or_default().insert(row);
                self.scoped[i].insert(row);
            }
        }
        if let Some(t) = self.trust.get_mut(s.trust as usize) {
            t.insert(row);
        }
    }

    /// A record was closed, or is about to be changed; `s` is what it was added with.
    pub fn remove(&mut self, row: RowId, s: &Stamps) {
        if !self.current.remove(row) {
            return;
        }
        self.windowed.remove(row);
        for (i, part) in [s.user, s.agent, s.session].into_iter().enumerate() {
            if part != 0 {
                if let Some(b) = self.parts[i].get_mut(&part) {
                    b.remove(row);
                    if b.is_empty() {
                        self.parts[i].remove(&part);
                    }
                }
                self.scoped[i].remove(row);
            }
        }
        if let Some(t) = self.trust.get_mut(s.trust as usize) {
            t.remove(row);
        }
    }

    /// Rows of the current state, all scopes, valid or not.
    pub fn current(&self) -> &RoaringBitmap {
        &self.current
    }

    /// True where `allow` of this view is exactly [`current`](Self::current).
    pub fn is_plain(&self, view: &View) -> bool {
        view.is_current()
            && (view.ever || self.windowed.is_empty())
            && (view.principal.is_none() || self.scoped.iter().all(|s| s.is_empty()))
            && self.trust[..view.min_trust as usize].iter().all(|t| t.is_empty())
    }

    /// The rows that `view` may see at `now`. `rows` is the number of records, `stamps` reads one.
    pub fn allow(
        &self,
        view: &View,
        now: Micros,
        rows: RowId,
        stamps: &dyn Fn(RowId) -> Result<Stamps>,
    ) -> Result<RoaringBitmap> {
        if !view.is_current() {
            let mut out = RoaringBitmap::new();
            for row in 0..rows {
                if visible(&stamps(row)?, view, now) {
                    out.insert(row);
                }
            }
            return Ok(out);
        }
        let mut out = self.current.clone();
        if let Some(p) = view.principal {
            for (i, own) in [p.user, p.agent, p.session].into_iter().enumerate() {
                if self.scoped[i].is_empty() {
                    continue;
                }
                let mut foreign = self.scoped[i].clone();
                if let Some(mine) = self.parts[i].get(&own).filter(|_| own != 0) {
                    foreign -= mine;
                }
                out -= foreign;
            }
        }
        for t in &self.trust[..view.min_trust as usize] {
            out -= t;
        }
        if !view.ever && !self.windowed.is_empty() {
            let w = view.valid_at.unwrap_or(now);
            let mut outside = RoaringBitmap::new();
            for row in &(&out & &self.windowed) {
                let s = stamps(row)?;
                if !(s.valid_from <= w && w < s.valid_to) {
                    outside.insert(row);
                }
            }
            out -= outside;
        }
        Ok(out)
    }

    /// Portable bytes of all sets.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut put = |b: &RoaringBitmap| -> Result<()> {
            out.extend_from_slice(&(b.serialized_size() as u64).to_le_bytes());
            b.serialize_into(&mut *out).map_err(|e| Error::Internal(e.to_string()))
        };
        put(&self.current)?;
        put(&self.windowed)?;
        for b in self.scoped.iter().chain(&self.trust) {
            put(b)?;
        }
        for part in &self.parts {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            for (name, b) in part {
                out.extend_from_slice(&name.to_le_bytes());
                out.extend_from_slice(&(b.serialized_size() as u64).to_le_bytes());
                b.serialize_into(&mut *out).map_err(|e| Error::Internal(e.to_string()))?;
            }
        }
        Ok(())
    }

    /// What [`write`](Self::write) wrote. `None` where the bytes are not of that form.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut at = bytes;
        let mut v =
            ViewIndex { current: take_set(&mut at)?, windowed: take_set(&mut at)?, ..Default::default() };
        for b in v.scoped.iter_mut().chain(&mut v.trust) {
            *b = take_set(&mut at)?;
        }
        for part in &mut v.parts {
            for _ in 0..take_u64(&mut at)? {
                let (name, rest) = at.split_first_chunk::<4>()?;
                at = rest;
                part.insert(u32::from_le_bytes(*name), take_set(&mut at)?);
            }
        }
        at.is_empty().then_some(v)
    }

    /// The largest row in any set, for checking what was read.
    pub fn max_row(&self) -> Option<RowId> {
        self.current.max()
    }
}

fn take_u64(at: &mut &[u8]) -> Option<u64> {
    let (n, rest) = at.split_first_chunk::<8>()?;
    *at = rest;
    Some(u64::from_le_bytes(*n))
}

fn take_set(at: &mut &[u8]) -> Option<RoaringBitmap> {
    let n = usize::try_from(take_u64(at)?).ok()?;
    let (b, rest) = at.split_at_checked(n)?;
    *at = rest;
    RoaringBitmap::deserialize_from(b).ok()
}

#[cfg(test)]
mod tests {
    use super::super::rule::{LifeSet, Principal, Trust};
    use super::*;
    use proptest::prelude::*;

    fn stamps() -> impl Strategy<Value = Stamps> {
        (
            (0i64..50, prop_oneof![Just(FOREVER), 0i64..55]),
            (prop_oneof![Just(EVER), 0i64..50], prop_oneof![Just(FOREVER), 0i64..60]),
            (0u32..3, 0u32..3, 0u32..3),
            (1u8..9, 0u8..9, 0u8..4, 0u8..5, proptest::bool::weighted(0.1)),
        )
            .prop_map(
                |((tx_from, tx_to), (valid_from, valid_to), (user, agent, session), (l, e, b, t, stale))| {
                    Stamps {
                        tx_from,
                        tx_to,
                        valid_from,
                        valid_to,
                        user,
                        agent,
                        session,
                        life: if l > 4 { Life::Active } else { Life::from_u8(l).unwrap() },
                        // A record never ends as active.
                        end_life: Life::from_u8(if e == 1 { 0 } else { e }).unwrap(),
                        belief: Belief::from_u8(b).unwrap(),
                        trust: Trust::from_u8(t).unwrap(),
                        stale,
                    }
                },
            )
    }

    fn view() -> impl Strategy<Value = View> {
        (
            proptest::option::of((0u32..4, 0u32..4, 0u32..4)),
            proptest::option::weighted(0.3, 0i64..70),
            proptest::option::weighted(0.3, 0i64..70),
            any::<bool>(),
            proptest::option::weighted(0.3, proptest::collection::vec(0u8..9, 0..4)),
            (proptest::bool::weighted(0.2), proptest::bool::weighted(0.2), 0u8..5),
        )
            .prop_map(|(p, as_of, valid_at, ever, life, (refuted, stale, t))| View {
                principal: p.map(|(user, agent, session)| Principal { user, agent, session }),
                as_of,
                valid_at,
                ever,
                life: life.map_or(LifeSet::ACTIVE, |l| LifeSet::of(l.into_iter().filter_map(Life::from_u8))),
                refuted,
                stale,
                min_trust: Trust::from_u8(t).unwrap(),
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn bitmaps_agree_with_the_rule(rows in proptest::collection::vec(stamps(), 0..40), v in view(), now in 55i64..80,
                                       closed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5)) {
            // `now` is behind every tx_from, as in the engine.
            let mut rows = rows;
            let mut ix = ViewIndex::default();
            for (i, s) in rows.iter().enumerate() { ix.add(i as u32, s); }
            for c in closed {
                if rows.is_empty() { break; }
                let i = c.index(rows.len());
                if rows[i].tx_to == FOREVER {
                    ix.remove(i as u32, &rows[i]);
                    rows[i].tx_to = 52;
                }
            }
            let back = { let mut b = vec![]; ix.write(&mut b).unwrap(); ViewIndex::read(&b).unwrap() };
            let want: Vec<u32> = (0..rows.len()).filter(|&i| visible(&rows[i], &v, now)).map(|i| i as u32).collect();
            let got: Vec<u32> = back.allow(&v, now, rows.len() as u32, &|r| Ok(rows[r as usize])).unwrap().iter().collect();
            prop_assert_eq!(&got, &want);
            if back.is_plain(&v) {
                prop_assert_eq!(back.current().iter().collect::<Vec<_>>(), want);
            }
        }
    }
}
