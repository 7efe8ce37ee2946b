use super::*;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

fn rewritten(ix: &PropIndex) -> PropIndex {
    let mut b = vec![];
    ix.write_base(&mut b).unwrap();
    PropIndex::open(Arc::new(b), Path::new("postings")).unwrap()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        (-3i64..4).prop_map(|n| json!(n)),
        (-3i64..4).prop_map(|n| json!(n as f64)),
        Just(json!(0.5)),
        Just(json!(9007199254740993i64)),
        Just(json!(9007199254740992.0)),
        Just(json!(u64::MAX)),
        prop_oneof![
            Just("a"),
            Just("ab"),
            Just("b%"),
            Just(""),
            Just("2024-01-31"),
            Just("Zo\u{eb}"),
            Just("Zoe\u{308}")
        ]
        .prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::btree_map("[xy]", inner, 0..2)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn payload() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[fg]", value(), 0..3)
        .prop_map(|m| Value::Object(m.into_iter().collect()))
}

/// Every value under a path with whether it stands in a list; the plain way.
fn leaves<'a>(v: &'a Value, path: &[&str], element: bool, out: &mut Vec<(&'a Value, bool)>) {
    match (v, path) {
        (Value::Array(a), _) => a.iter().for_each(|e| leaves(e, path, true, out)),
        (Value::Object(o), [name, rest @ ..]) => {
            if let Some(v) = o.get(*name) {
                leaves(v, rest, element, out);
            }
        }
        (v, []) => out.push((v, element)),
        _ => {}
    }
}

fn exact(n: &Value) -> Option<(i128, f64)> {
    match n {
        Value::Number(n) => Some(match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => (i128::from(i), 0.0),
            (_, Some(u)) => (i128::from(u), 0.0),
            _ => {
                let f = n.as_f64().unwrap();
                (f.floor() as i128, f - f.floor())
            }
        }),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn look_ups_agree_with_reading_every_payload(
        steps in proptest::collection::vec((0u32..12, proptest::option::weighted(0.8, payload()), 0u8..6), 0..30),
        probe in value(), path in prop_oneof![Just("f"), Just("f.x"), Just("g.y")],
    ) {
        let mut ix = PropIndex::new();
        let mut rows: BTreeMap<u32, Value> = BTreeMap::new();
        for (row, p, rewrite) in steps {
            if let Some(old) = rows.remove(&row) {
                ix.remove(row, &old);
            }
            if let Some(p) = p {
                ix.insert(row, &p);
                rows.insert(row, p);
            }
            if rewrite == 0 {
                ix = rewritten(&ix);
            }
        }
        let parts: Vec<&str> = path.split('.').collect();
        let want = |f: &dyn Fn(&Value, bool) -> bool| -> Vec<u32> {
            rows.iter().filter(|(_, p)| {
                let mut l = vec![];
                leaves(p, &parts, false, &mut l);
                l.iter().any(|(v, e)| f(v, *e))
            }).map(|(r, _)| *r).collect()
        };
        let got = |b: RoaringBitmap| b.iter().collect::<Vec<u32>>();
        let norm = |v: &Value| v.as_str().map(|s| unicode_normalization::UnicodeNormalization::nfc(s).collect::<String>());
        let same = |a: &Value, b: &Value| match (exact(a), exact(b)) {
            (Some(x), Some(y)) => x == y,
            _ => match (norm(a), norm(b)) { (Some(x), Some(y)) => x == y, _ => a == b },
        };
        prop_assert_eq!(got(ix.nonnull(path).unwrap()), want(&|v, _| !v.is_null()));
        prop_assert_eq!(got(ix.null(path).unwrap()), want(&|v, _| v.is_null()));
        if let Some(s) = Scalar::from_json(&probe) {
            prop_assert_eq!(got(ix.eq(path, &s, Role::Any).unwrap()), want(&|v, _| same(v, &probe)));
            prop_assert_eq!(got(ix.eq(path, &s, Role::Element).unwrap()), want(&|v, e| e && same(v, &probe)));
            prop_assert_eq!(got(ix.eq(path, &s, Role::Scalar).unwrap()), want(&|v, e| !e && same(v, &probe)));
        }
        if let (Some(n), Some(s)) = (exact(&probe), Scalar::from_json(&probe)) {
            let lt = ix.range_number(path, Bound::Unbounded, Bound::Excluded(&s)).unwrap();
            let ge = ix.range_number(path, Bound::Included(&s), Bound::Unbounded).unwrap();
            prop_assert_eq!(got(lt), want(&|v, _| exact(v).is_some_and(|m| m < n)));
            prop_assert_eq!(got(ge), want(&|v, _| exact(v).is_some_and(|m| m >= n)));
        }
        if let Some(t) = norm(&probe) {
            let gt = ix.range_string(path, Bound::Excluded(&t), Bound::Unbounded).unwrap();
            prop_assert_eq!(got(gt), want(&|v, _| norm(v).is_some_and(|s| s > t)));
            prop_assert_eq!(got(ix.prefix(path, &t).unwrap()), want(&|v, _| norm(v).is_some_and(|s| s.starts_with(&t))));
            prop_assert_eq!(got(ix.substring(path, &t, Role::Any).unwrap()), want(&|v, _| norm(v).is_some_and(|s| s.contains(&t))));
        }
        prop_assert_eq!(got(ix.like(path, "a%").unwrap()), want(&|v, _| norm(v).is_some_and(|s| s.starts_with('a'))));
        prop_assert_eq!(got(ix.like(path, "_\\%").unwrap()), want(&|v, _| v.as_str() == Some("b%")));
        let all: RoaringBitmap = rows.keys().copied().collect();
        let facets = ix.facet_counts(path, &all, 100).unwrap();
        for (s, n) in facets {
            let v = s.to_json();
            prop_assert_eq!(n as usize, want(&|x, _| same(x, &v)).len(), "{}", v);
        }
    }
}

#[test]
fn a_damaged_base_is_an_error_or_another_answer_but_never_a_panic() {
    let mut ix = PropIndex::new();
    for row in 0..40 {
        ix.insert(
            row,
            &json!({"n": row % 3, "id": format!("x{row}"), "tags": ["a", "b"], "at": "2024-01-31"}),
        );
    }
    let mut b = vec![];
    ix.write_base(&mut b).unwrap();
    let all: RoaringBitmap = (0..40).collect();
    for at in 0..b.len() {
        for bit in [0, 3, 7] {
            let mut c = b.clone();
            c[at] ^= 1 << bit;
            let Ok(ix) = PropIndex::open(Arc::new(c), Path::new("p")) else { continue };
            let one = Scalar::Number(1.into());
            let _ = ix.eq("n", &one, Role::Any);
            let _ = ix.range_number("n", Bound::Included(&one), Bound::Unbounded);
            let _ = ix.prefix("id", "x");
            let _ = ix.facet_counts("tags", &all, 5);
            let _ = ix.fields(&all);
            let _ = ix.write_base(&mut vec![]);
        }
    }
    for n in 0..b.len() {
        let _ = PropIndex::open(Arc::new(b[..n].to_vec()), Path::new("p"));
    }
}

#[test]
fn fields_are_listed_with_their_types() {
    let mut ix = PropIndex::new();
    ix.insert(0, &json!({"a.b": 1, "a": {"b": "x"}, "n": null}));
    let want = json!({
        "a": {"rows": 1, "types": []}, "a.b": {"rows": 1, "types": ["text"]},
        "a\\.b": {"rows": 1, "types": ["number"]}, "n": {"rows": 1, "types": []},
    });
    let all = RoaringBitmap::from_iter([0]);
    assert_eq!(ix.fields(&all).unwrap(), want);
    assert_eq!(rewritten(&ix).fields(&all).unwrap(), want);
}
