//! A payload as terms. Pure.

use super::key::{MAX_PATH_BYTES, Role, Scalar, kind, moment, nfc, term};
use super::time;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every term of a payload, each once.
pub(super) fn of(payload: &Value) -> BTreeSet<Vec<u8>> {
    let mut out = BTreeSet::new();
    if let Value::Object(fields) = payload {
        for (name, v) in fields {
            let mut path = String::new();
            push_name(&mut path, name);
            field(&path, v, Role::Scalar, &mut out);
        }
    }
    out
}

fn push_name(path: &mut String, name: &str) {
    for c in nfc(name).chars() {
        if c == '.' || c == '\\' {
            path.push('\\');
        }
        path.push(c);
    }
}

fn field(path: &str, v: &Value, role: Role, out: &mut BTreeSet<Vec<u8>>) {
    if path.len() > MAX_PATH_BYTES {
        return;
    }
    out.insert(term(path, kind::EXISTS, &[]));
    value(path, v, role, out);
}

fn value(path: &str, v: &Value, role: Role, out: &mut BTreeSet<Vec<u8>>) {
    match v {
        Value::Null => {
            out.insert(term(path, kind::NULL, &[]));
        }
        Value::Array(list) => {
            for e in list {
                value(path, e, Role::Element, out);
            }
        }
        Value::Object(fields) => {
            // An object is no null, though it equals nothing.
            out.insert(term(path, kind::NON_NULL, &[]));
            for (name, v) in fields {
                let mut inner = format!("{path}.");
                push_name(&mut inner, name);
                field(&inner, v, role, out);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if let Some(s) = Scalar::from_json(v) {
                let (k, bytes) = s.term();
                let k = if role == Role::Element { k + kind::ELEMENT } else { k };
                out.insert(term(path, k, &bytes));
                out.insert(term(path, kind::NON_NULL, &[]));
            }
            if let Value::String(s) = v
                && let Some(us) = time::parse(s)
            {
                out.insert(term(path, kind::TIME, &moment(us)));
            }
        }
    }
}
