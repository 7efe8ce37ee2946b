//! The payload of a log frame: one transaction, byte-exact.
//!
//! ```text
//! record  := version u8 (1) · tx_time i64 · actor str · reason str · count u32 · op*
//! str     := length u32 · UTF-8        bytes := length u32 · raw        all integers little-endian
//! op      := tag u8 · body             (see `Op`)
//! ```
//! Decoding checks every length against the bytes left and every coded byte against its table.

use crate::error::{Error, Result};
use crate::ids::{CollectionId, Micros, RowId};
use crate::view::{Belief, Life, Stamps, Trust};

const VERSION: u8 = 1;

/// What a put takes its vector from.
#[derive(Debug, Clone, PartialEq)]
pub enum VectorSource {
    /// As given by the caller.
    Given(Vec<f32>),
    /// A copy of the stored row of the newest record of this id.
    Like(String),
}

/// What a put says of scope and state; scope parts are names, interned when the record is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct PutStamps {
    pub life: Life,
    pub belief: Belief,
    pub trust: Trust,
    pub stale: bool,
    pub valid_from: Micros,
    pub valid_to: Micros,
    pub user: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
}

impl Default for PutStamps {
    fn default() -> Self {
        let s = Stamps::default();
        PutStamps {
            life: s.life,
            belief: s.belief,
            trust: s.trust,
            stale: s.stale,
            valid_from: s.valid_from,
            valid_to: s.valid_to,
            user: None,
            agent: None,
            session: None,
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// tag 1: cid u32 · spec (JSON bytes)
    CreateCollection { cid: CollectionId, spec: Vec<u8> },
    /// tag 2: cid u32
    DropCollection { cid: CollectionId },
    /// tag 3: cid u32 · id str · source u8 (0: n u32 · f32*; 1: id str) · payload bytes · stamps
    Put { cid: CollectionId, id: String, vector: VectorSource, payload: Vec<u8>, stamps: PutStamps },
    /// tag 4: cid u32 · id str · end_life u8
    Close { cid: CollectionId, id: String, end_life: Life },
    /// tag 5: cid u32 · id str · merge u8 · payload bytes
    SetPayload { cid: CollectionId, id: String, merge: bool, payload: Vec<u8> },
    /// tag 6: namespace str · key str · value bytes
    KvSet { namespace: String, key: String, value: Vec<u8> },
    /// tag 7: namespace str · key str
    KvDelete { namespace: String, key: String },
    /// tag 8: cid u32 · from row u32 · dim u32 · meta bytes · n u32 · f32*; vectors of another embedder, row by row, kept
    /// aside until they are switched to
    StageVectors { cid: CollectionId, from: RowId, dim: u32, meta: Vec<u8>, vectors: Vec<f32> },
    /// tag 9: cid u32; the staged vectors, their dimension and their meta become the collection's
    SwitchVectors { cid: CollectionId },
}

/// One transaction as it stands in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub tx_time: Micros,
    pub actor: String,
    pub reason: String,
    pub ops: Vec<Op>,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Vec::with_capacity(64 + self.ops.iter().map(size_hint).sum::<usize>());
        w.push(VERSION);
        w.extend_from_slice(&self.tx_time.to_le_bytes());
        put_bytes(&mut w, self.actor.as_bytes());
        put_bytes(&mut w, self.reason.as_bytes());
        w.extend_from_slice(&(self.ops.len() as u32).to_le_bytes());
        for op in &self.ops {
            encode_op(&mut w, op);
        }
        w
    }

    pub fn decode(bytes: &[u8]) -> Result<Record> {
        let mut r = Cursor { bytes, at: 0 };
        let version = r.u8()?;
        if version != VERSION {
            return Err(r.bad(format!("record version {version}, this build reads {VERSION}")));
        }
        let tx_time = r.i64()?;
        let (actor, reason) = (r.str()?, r.str()?);
        let n = r.u32()?;
        let mut ops = Vec::new();
        for _ in 0..n {
            ops.push(decode_op(&mut r)?);
        }
        if r.at != bytes.len() {
            return Err(r.bad("bytes after the last operation".into()));
        }
        Ok(Record { tx_time, actor, reason, ops })
    }
}

fn size_hint(op: &Op) -> usize {
    match op {
        Op::Put { id, vector, payload, .. } => {
            let v = if let VectorSource::Given(v) = vector { v.len() * 4 } else { 64 };
            id.len() + v + payload.len() + 80
        }
        Op::SetPayload { payload, .. } => payload.len() + 64,
        Op::CreateCollection { spec, .. } => spec.len() + 16,
        Op::KvSet { value, .. } => value.len() + 64,
        Op::StageVectors { vectors, meta, .. } => vectors.len() * 4 + meta.len() + 64,
        _ => 64,
    }
}

fn put_bytes(w: &mut Vec<u8>, b: &[u8]) {
    w.extend_from_slice(&(b.len() as u32).to_le_bytes());
    w.extend_from_slice(b);
}

fn put_floats(w: &mut Vec<u8>, v: &[f32]) {
    w.extend_from_slice(&(v.len() as u32).to_le_bytes());
    for x in v {
        w.extend_from_slice(&x.to_le_bytes());
    }
}

fn put_opt(w: &mut Vec<u8>, s: &Option<String>) {
    w.push(s.is_some() as u8);
    if let Some(s) = s {
        put_bytes(w, s.as_bytes());
    }
}

fn encode_op(w: &mut Vec<u8>, op: &Op) {
    match op {
        Op::CreateCollection { cid, spec } => {
            w.push(1);
            w.extend_from_slice(&cid.to_le_bytes());
            put_bytes(w, spec);
        }
        Op::DropCollection { cid } => {
            w.push(2);
            w.extend_from_slice(&cid.to_le_bytes());
        }
        Op::Put { cid, id, vector, payload, stamps: s } => {
            w.push(3);
            w.extend_from_slice(&cid.to_le_bytes());
            put_bytes(w, id.as_bytes());
            match vector {
                VectorSource::Given(v) => {
                    w.push(0);
                    put_floats(w, v);
                }
                VectorSource::Like(id) => {
                    w.push(1);
                    put_bytes(w, id.as_bytes());
                }
            }
            put_bytes(w, payload);
            w.extend_from_slice(&[s.life as u8, s.belief as u8, s.trust as u8, s.stale as u8]);
            w.extend_from_slice(&s.valid_from.to_le_bytes());
            w.extend_from_slice(&s.valid_to.to_le_bytes());
            for part in [&s.user, &s.agent, &s.session] {
                put_opt(w, part);
            }
        }
        Op::Close { cid, id, end_life } => {
            w.push(4);
            w.extend_from_slice(&cid.to_le_bytes());
            put_bytes(w, id.as_bytes());
            w.push(*end_life as u8);
        }
        Op::SetPayload { cid, id, merge, payload } => {
            w.push(5);
            w.extend_from_slice(&cid.to_le_bytes());
            put_bytes(w, id.as_bytes());
            w.push(*merge as u8);
            put_bytes(w, payload);
        }
        Op::KvSet { namespace, key, value } => {
            w.push(6);
            put_bytes(w, namespace.as_bytes());
            put_bytes(w, key.as_bytes());
            put_bytes(w, value);
        }
        Op::KvDelete { namespace, key } => {
            w.push(7);
            put_bytes(w, namespace.as_bytes());
            put_bytes(w, key.as_bytes());
        }
        Op::StageVectors { cid, from, dim, meta, vectors } => {
            w.push(8);
            w.extend_from_slice(&cid.to_le_bytes());
            w.extend_from_slice(&from.to_le_bytes());
            w.extend_from_slice(&dim.to_le_bytes());
            put_bytes(w, meta);
            put_floats(w, vectors);
        }
        Op::SwitchVectors { cid } => {
            w.push(9);
            w.extend_from_slice(&cid.to_le_bytes());
        }
    }
}

fn decode_op(r: &mut Cursor) -> Result<Op> {
    Ok(match r.u8()? {
        1 => Op::CreateCollection { cid: r.u32()?, spec: r.bytes()?.to_vec() },
        2 => Op::DropCollection { cid: r.u32()? },
        3 => {
            let (cid, id) = (r.u32()?, r.str()?);
            let vector = match r.u8()? {
                0 => VectorSource::Given(r.floats()?),
                1 => VectorSource::Like(r.str()?),
                n => return Err(r.bad(format!("vector source {n}"))),
            };
            let payload = r.bytes()?.to_vec();
            let stamps = PutStamps {
                life: r.coded(Life::from_u8, "life")?,
                belief: r.coded(Belief::from_u8, "belief")?,
                trust: r.coded(Trust::from_u8, "trust")?,
                stale: r.bool()?,
                valid_from: r.i64()?,
                valid_to: r.i64()?,
                user: r.opt()?,
                agent: r.opt()?,
                session: r.opt()?,
            };
            Op::Put { cid, id, vector, payload, stamps }
        }
        4 => Op::Close { cid: r.u32()?, id: r.str()?, end_life: r.coded(Life::from_u8, "life")? },
        5 => Op::SetPayload { cid: r.u32()?, id: r.str()?, merge: r.bool()?, payload: r.bytes()?.to_vec() },
        6 => Op::KvSet { namespace: r.str()?, key: r.str()?, value: r.bytes()?.to_vec() },
        7 => Op::KvDelete { namespace: r.str()?, key: r.str()? },
        8 => Op::StageVectors {
            cid: r.u32()?,
            from: r.u32()?,
            dim: r.u32()?,
            meta: r.bytes()?.to_vec(),
            vectors: r.floats()?,
        },
        9 => Op::SwitchVectors { cid: r.u32()? },
        n => return Err(r.bad(format!("operation tag {n}"))),
    })
}

/// Bounds-checked reading; every failure names the position inside the record.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bad(&self, detail: String) -> Error {
        Error::corrupt("log record", self.at as u64, detail)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n).filter(|&e| e <= self.bytes.len());
        let end =
            end.ok_or_else(|| self.bad(format!("{n} bytes wanted, {} left", self.bytes.len() - self.at)))?;
        let s = &self.bytes[self.at..end];
        self.at = end;
        Ok(s)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut a = [0; N];
        a.copy_from_slice(self.take(N)?);
        Ok(a)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            n => Err(self.bad(format!("boolean {n}"))),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    fn floats(&mut self) -> Result<Vec<f32>> {
        let n = self.u32()? as usize;
        let raw = self.take(n.checked_mul(4).ok_or_else(|| self.bad("vector length".into()))?)?;
        Ok(raw.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
    }

    fn str(&mut self) -> Result<String> {
        let b = self.bytes()?;
        String::from_utf8(b.to_vec()).map_err(|_| self.bad("text is not UTF-8".into()))
    }

    fn opt(&mut self) -> Result<Option<String>> {
        Ok(if self.bool()? { Some(self.str()?) } else { None })
    }

    fn coded<T>(&mut self, decode: impl Fn(u8) -> Option<T>, what: &str) -> Result<T> {
        let n = self.u8()?;
        decode(n).ok_or_else(|| self.bad(format!("{what} {n} has no meaning")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            tx_time: 17,
            actor: "ann".into(),
            reason: "told so".into(),
            ops: vec![
                Op::CreateCollection { cid: 3, spec: b"{}".to_vec() },
                Op::Put {
                    cid: 3,
                    id: "a/\"é".into(),
                    vector: VectorSource::Given(vec![1.5, f32::MIN_POSITIVE]),
                    payload: b"{\"a\":1}".to_vec(),
                    stamps: PutStamps { user: Some("ann".into()), valid_to: 5, ..Default::default() },
                },
                Op::Put {
                    cid: 3,
                    id: "b".into(),
                    vector: VectorSource::Like("a".into()),
                    payload: vec![],
                    stamps: Default::default(),
                },
                Op::Close { cid: 3, id: "b".into(), end_life: Life::Retracted },
                Op::SetPayload { cid: 3, id: "b".into(), merge: true, payload: b"{}".to_vec() },
                Op::KvSet { namespace: "n".into(), key: "k".into(), value: vec![0, 255] },
                Op::KvDelete { namespace: "n".into(), key: "k".into() },
                Op::StageVectors { cid: 3, from: 2, dim: 2, meta: b"{}".to_vec(), vectors: vec![1.0, -0.5] },
                Op::SwitchVectors { cid: 3 },
                Op::DropCollection { cid: 3 },
            ],
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let r = sample();
        assert_eq!(Record::decode(&r.encode()).unwrap(), r);
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_an_error_or_another_record_but_never_a_panic() {
        let b = sample().encode();
        for n in 0..b.len() {
            assert!(Record::decode(&b[..n]).is_err(), "cut at {n}");
            for bit in 0..8 {
                let mut c = b.clone();
                c[n] ^= 1 << bit;
                let _ = Record::decode(&c);
            }
        }
    }
}
