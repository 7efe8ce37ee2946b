//! Terms as bytes whose order is the order of their values.
//!
//! ```text
//! term := path length u16 big-endian · path · kind u8 · value
//! ```
//! Values: strings as UTF-8 (NFC), so byte order is code point order; numbers as 16 bytes (see [`number`]); booleans as one
//! byte; moments as 8 bytes.

use unicode_normalization::UnicodeNormalization;

/// Longest path that is indexed, bytes.
pub(super) const MAX_PATH_BYTES: usize = 4_096;

/// Where a value stands: alone under its path, or as an element of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Any,
    Scalar,
    Element,
}

/// Kinds of terms. The numbers are on disk.
pub(super) mod kind {
    /// The key is present, whatever its value.
    pub(crate) const EXISTS: u8 = 0;
    pub(crate) const NULL: u8 = 1;
    /// At least one value that is not null.
    pub(crate) const NON_NULL: u8 = 2;
    pub(crate) const TEXT: u8 = 3;
    pub(crate) const NUMBER: u8 = 5;
    pub(crate) const BOOL: u8 = 7;
    /// A text that reads as a moment.
    pub(crate) const TIME: u8 = 9;
    /// Added to TEXT, NUMBER, BOOL for elements of lists.
    pub(crate) const ELEMENT: u8 = 1;
}

/// A value that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
}

impl Scalar {
    /// `None` for null, lists and objects.
    pub fn from_json(v: &serde_json::Value) -> Option<Self> {
        match v {
            serde_json::Value::Bool(b) => Some(Scalar::Bool(*b)),
            serde_json::Value::Number(n) => Some(Scalar::Number(n.clone())),
            serde_json::Value::String(s) => Some(Scalar::Text(s.clone())),
            _ => None,
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Scalar::Bool(b) => (*b).into(),
            Scalar::Number(n) => serde_json::Value::Number(n.clone()),
            Scalar::Text(s) => s.as_str().into(),
        }
    }

    /// Kind and bytes of the value's term.
    pub(super) fn term(&self) -> (u8, Vec<u8>) {
        match self {
            Scalar::Bool(b) => (kind::BOOL, vec![u8::from(*b)]),
            Scalar::Number(n) => (kind::NUMBER, number(n).to_vec()),
            Scalar::Text(s) => (kind::TEXT, nfc(s).into_bytes()),
        }
    }

    /// The value of a term; `None` where the bytes have no such meaning.
    pub(super) fn of_term(kind: u8, value: &[u8]) -> Option<Self> {
        match kind {
            kind::BOOL => Some(Scalar::Bool(*value.first()? != 0)),
            kind::TEXT => Some(Scalar::Text(std::str::from_utf8(value).ok()?.to_owned())),
            kind::NUMBER => Some(Scalar::Number(from_number(value)?)),
            _ => None,
        }
    }
}

pub(super) fn nfc(s: &str) -> String {
    if s.is_ascii() { s.to_owned() } else { s.nfc().collect() }
}

/// A number on one line: the nearest double in sortable form, then what an integer is off from it.
/// Rounding never reverses an order, so comparing (double, remainder) compares the exact values.
pub(super) fn number(n: &serde_json::Number) -> [u8; 16] {
    let (f, rest): (f64, i64) = match (n.as_i64(), n.as_u64()) {
        (Some(i), _) => (i as f64, (i128::from(i) - i as f64 as i128) as i64),
        (None, Some(u)) => (u as f64, (i128::from(u) - u as f64 as i128) as i64),
        (None, None) => (n.as_f64().unwrap_or(0.0), 0),
    };
    // -0.0 is 0.
    let bits = (f + 0.0).to_bits();
    let sortable = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    let mut out = [0; 16];
    out[..8].copy_from_slice(&sortable.to_be_bytes());
    out[8..].copy_from_slice(&((rest as u64) ^ (1 << 63)).to_be_bytes());
    out
}

fn from_number(b: &[u8]) -> Option<serde_json::Number> {
    let (f, rest) = b.split_first_chunk::<8>()?;
    let sortable = u64::from_be_bytes(*f);
    let bits = if sortable >> 63 == 1 { sortable & !(1 << 63) } else { !sortable };
    let f = f64::from_bits(bits);
    let rest = (u64::from_be_bytes(rest.try_into().ok()?) ^ (1 << 63)) as i64;
    if f.fract() == 0.0 && f.abs() < 2e19 {
        let exact = f as i128 + i128::from(rest);
        if let Ok(i) = i64::try_from(exact) {
            return Some(i.into());
        }
        if let Ok(u) = u64::try_from(exact) {
            return Some(u.into());
        }
    }
    serde_json::Number::from_f64(f)
}

/// A moment in microseconds, sortable.
pub(super) fn moment(us: i64) -> [u8; 8] {
    ((us as u64) ^ (1 << 63)).to_be_bytes()
}

/// What all terms of a path and kind start with.
pub(super) fn prefix(path: &str, kind: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 24);
    out.extend_from_slice(&(path.len() as u16).to_be_bytes());
    out.extend_from_slice(path.as_bytes());
    out.push(kind);
    out
}

pub(super) fn term(path: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut out = prefix(path, kind);
    out.extend_from_slice(value);
    out
}

/// Path, kind and value of a term.
pub(super) fn split(term: &[u8]) -> Option<(&str, u8, &[u8])> {
    let (n, rest) = term.split_first_chunk::<2>()?;
    let (path, rest) = rest.split_at_checked(u16::from_be_bytes(*n) as usize)?;
    let (kind, value) = rest.split_first()?;
    Some((std::str::from_utf8(path).ok()?, *kind, value))
}

/// The first byte text behind every term that starts with `prefix`.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    while let Some(last) = out.last_mut() {
        if *last < 0xff {
            *last += 1;
            return out;
        }
        out.pop();
    }
    // Only a prefix of 0xff bytes has none; a term's first two bytes are a length below the limit.
    vec![0xff; 8]
}
