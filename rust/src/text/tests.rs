use super::*;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn index(language: Option<&str>, docs: &[&str]) -> TextIndex {
    let mut ix = TextIndex::new(language).unwrap();
    for (i, d) in docs.iter().enumerate() {
        ix.insert(i as u32, &[(*d).to_owned()]);
    }
    ix
}

fn rewritten(ix: &TextIndex, language: Option<&str>) -> TextIndex {
    let mut b = vec![];
    ix.write_base(&mut b).unwrap();
    TextIndex::open(language, Arc::new(b), Path::new("text")).unwrap()
}

fn all(n: u32) -> RoaringBitmap {
    (0..n).collect()
}

fn found(ix: &TextIndex, docs: &[&str], q: &str) -> Vec<u32> {
    let fetch = |r: u32| docs.get(r as usize).map(|s| (*s).to_owned());
    let mut rows: Vec<u32> = ix
        .search(&Query::parse(q), &all(docs.len() as u32), 100, &fetch)
        .unwrap()
        .into_iter()
        .map(|(_, r)| r)
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn words_of_every_script_are_found() {
    let docs = [
        "外币汇率换算",
        "数据库检索系统很快",
        "GitHub备份脚本 用docker部署",
        "Ο κόσμος είναι μεγάλος",
        "Кассовый разрыв в бюджете",
        "שָׁלוֹם עולם",
        "東京タワーへ行きました",
        "한국어 검색은 어렵다",
        "ภาษาไทยค้นหายาก",
        "السَّلَامُ عليكم",
        "हिन्दी में खोज",
        "Zoe\u{308} met Zo\u{eb} at the café, perché no?",
        "ＦＵＬＬ ｗｉｄｔｈ",
        "Straße nach İstanbul",
    ];
    for ix in [index(None, &docs), rewritten(&index(None, &docs), None)] {
        for (q, want) in [
            ("汇率", 0),
            ("外币汇率换算", 0),
            ("换", 0),
            ("数据库", 1),
            ("github", 2),
            ("备份", 2),
            ("docker", 2),
            ("κόσμος", 3),
            ("ΚΟΣΜΟΣ", 3),
            ("кассовый разрыв", 4),
            ("שלום", 5),
            ("東京", 6),
            ("タワー", 6),
            ("검색", 7),
            ("ค้นหา", 8),
            ("السلام", 9),
            ("हिन्दी", 10),
            ("zoë", 11),
            ("cafe", 11),
            ("perche", 11),
            ("full", 12),
            ("strasse", 13),
            ("istanbul", 13),
        ] {
            assert_eq!(found(&ix, &docs, q), vec![want], "{q}");
        }
        assert_eq!(found(&ix, &docs, "खजर"), Vec::<u32>::new(), "vowel signs are part of the word");
    }
}

#[test]
fn names_and_numbers_stand_whole_and_in_parts() {
    let docs = [
        "call foo_bar now",
        "class FooBar",
        "version v1.2.3 of ZX-81",
        "mail ann@corvo.example",
        "HTTPServer x86",
    ];
    let ix = index(Some("english"), &docs);
    for (q, want) in [
        ("foo_bar", vec![0, 1]),
        ("bar", vec![0, 1]),
        ("foobar", vec![1]),
        ("v1.2.3", vec![2]),
        ("zx-81", vec![2]),
        ("ZX", vec![2]),
        ("81", vec![2]),
        ("ann@corvo.example", vec![3]),
        ("corvo", vec![3]),
        ("server", vec![4]),
        ("httpserver", vec![4]),
        ("x86", vec![4]),
    ] {
        assert_eq!(found(&ix, &docs, q), want, "{q}");
    }
}

#[test]
fn stems_meet_and_stop_words_step_back_unless_alone() {
    let docs = ["She was running with dogs", "the who", "Le ragazze correvano dall'amico"];
    let ix = index(Some("english"), &docs);
    assert_eq!(found(&ix, &docs, "run dog"), vec![0]);
    assert_eq!(found(&ix, &docs, "the who"), vec![1]);
    assert_eq!(found(&ix, &docs, "the running"), vec![0]);
    let it = index(Some("italian"), &docs);
    assert_eq!(found(&it, &docs, "ragazza"), vec![2]);
    assert_eq!(found(&it, &docs, "amici"), vec![2]);
    assert!(TextIndex::new(Some("klingon")).unwrap_err().to_string().contains("klingon"));
}

#[test]
fn phrases_stand_together_and_required_words_occur() {
    let docs = ["the red big bike", "a big red bike", "red bike", "币汇率外", "外币汇率"];
    let ix = index(Some("english"), &docs);
    assert_eq!(found(&ix, &docs, "\"big red\""), vec![1]);
    assert_eq!(found(&ix, &docs, "\"red bike\""), vec![1, 2]);
    assert_eq!(found(&ix, &docs, "+big bike"), vec![0, 1]);
    assert_eq!(found(&ix, &docs, "big \"red bike"), vec![0, 1, 2], "an open quote is text");
    assert_eq!(found(&ix, &docs, "\"外币汇率\""), vec![4]);
    assert_eq!(found(&ix, &docs, "+nothing bike"), Vec::<u32>::new());
}

#[test]
fn four_texts_give_the_same_answer_in_every_order() {
    let docs = ["a neutral puppy", "puppy love", "good puppy", "no dog here"];
    let orders: Vec<Vec<usize>> = (0..24)
        .map(|mut n| {
            let mut left = vec![0, 1, 2, 3];
            (0..4)
                .map(|i| {
                    left.remove({
                        let at = n % (4 - i);
                        n /= 4 - i;
                        at
                    })
                })
                .collect()
        })
        .collect();
    for order in orders {
        let shuffled: Vec<&str> = order.iter().map(|i| docs[*i]).collect();
        let ix = index(Some("english"), &shuffled);
        let mut got: Vec<&str> =
            found(&ix, &shuffled, "puppy").iter().map(|r| shuffled[*r as usize]).collect();
        got.sort_unstable();
        assert_eq!(got, ["a neutral puppy", "good puppy", "puppy love"]);
    }
}

#[test]
fn statistics_come_from_allowed_rows_alone() {
    let docs = ["fox red", "fox blue", "fox green", "hen"];
    let ix = index(None, &docs);
    let few = RoaringBitmap::from_iter([0, 3]);
    let q = Query::parse("fox");
    let seen = ix.search(&q, &few, 9, &|_| None).unwrap();
    let alone = index(None, &["fox red", "x", "x", "hen"]);
    let mut want = alone;
    want.remove(1, &["x".into()]);
    want.remove(2, &["x".into()]);
    assert_eq!(seen, want.search(&q, &few, 9, &|_| None).unwrap());
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_long_text_and_odd_signs_are_data() {
    let long = "word ".repeat(2_000_000);
    let ix = index(Some("english"), &[&long, "x"]);
    assert_eq!(found(&ix, &["", "x"], "word"), vec![0]);
    for q in ["", " ", "\"", "((", "a AND OR", "+++", "\u{0}", "*:*", "\\", "🎉", "-", "~2^3"] {
        found(&ix, &["", "x"], q);
    }
    let endless = "a".repeat(1_000_000);
    assert_eq!(found(&index(None, &[&endless]), &[""], &endless), vec![0]);
}

fn naive(docs: &BTreeMap<u32, String>, allowed: &[u32], q: &str) -> BTreeMap<u32, f64> {
    let seen: Vec<(u32, Vec<&str>)> = allowed
        .iter()
        .filter_map(|r| Some((*r, docs.get(r)?.split(' ').filter(|w| !w.is_empty()).collect())))
        .collect();
    let n = allowed.len() as f64;
    let average = (seen.iter().map(|(_, w)| w.len() as f64).sum::<f64>() / n).max(1.0);
    let mut terms: Vec<&str> = q.split(' ').filter(|w| !w.is_empty()).collect();
    terms.sort_unstable();
    terms.dedup();
    let mut out = BTreeMap::new();
    for t in terms {
        let df = seen.iter().filter(|(_, w)| w.contains(&t)).count() as f64;
        let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
        for (r, w) in &seen {
            let tf = w.iter().filter(|x| **x == t).count() as f64;
            if tf > 0.0 {
                *out.entry(*r).or_default() +=
                    idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * w.len() as f64 / average));
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn scores_agree_with_reading_every_text(
        steps in proptest::collection::vec((0u32..10, proptest::option::weighted(0.8, "([abc]{1,2} ){0,5}"), 0u8..6), 0..30),
        q in "([abc]{1,2} ){1,3}", allowed in proptest::collection::btree_set(0u32..10, 1..10),
    ) {
        let mut ix = TextIndex::new(None).unwrap();
        let mut docs: BTreeMap<u32, String> = BTreeMap::new();
        for (row, text, rewrite) in steps {
            if let Some(old) = docs.remove(&row) { ix.remove(row, &[old]); }
            if let Some(t) = text { ix.insert(row, std::slice::from_ref(&t)); docs.insert(row, t); }
            if rewrite == 0 { ix = rewritten(&ix, None); }
        }
        let rows: Vec<u32> = allowed.iter().copied().filter(|r| docs.contains_key(r)).collect();
        if rows.is_empty() { return Ok(()); }
        let set = RoaringBitmap::from_iter(rows.iter().copied());
        let want = naive(&docs, &rows, &q);
        let got = ix.search(&Query::parse(&q), &set, 100, &|_| None).unwrap();
        prop_assert_eq!(got.len(), want.len());
        for (s, r) in &got {
            prop_assert!((f64::from(*s) - want[r]).abs() < 1e-4, "{} {}", s, want[r]);
        }
        prop_assert!(got.windows(2).all(|w| w[0].0 > w[1].0 || (w[0].0 == w[1].0 && w[0].1 < w[1].1)));
        let some = ix.scores(&Query::parse(&q), &set, &rows).unwrap();
        for (r, s) in rows.iter().zip(&some) {
            prop_assert!((f64::from(*s) - want.get(r).copied().unwrap_or(0.0)).abs() < 1e-4);
            let parts: f32 = ix.explain(&Query::parse(&q), &set, *r).unwrap().iter().map(|p| p.score).sum();
            prop_assert!((parts - s).abs() < 1e-4);
        }
        let top = ix.search(&Query::parse(&q), &set, 2, &|_| None).unwrap();
        prop_assert_eq!(&top[..], &got[..got.len().min(2)]);
    }
}

#[test]
fn a_damaged_base_is_an_error_or_another_answer_but_never_a_panic() {
    let docs: Vec<String> = (0..30).map(|i| format!("word{} common {}", i % 7, "x ".repeat(i))).collect();
    let refs: Vec<&str> = docs.iter().map(String::as_str).collect();
    let mut b = vec![];
    index(None, &refs).write_base(&mut b).unwrap();
    for at in 0..b.len() {
        for bit in [0, 3, 7] {
            let mut c = b.clone();
            c[at] ^= 1 << bit;
            let Ok(ix) = TextIndex::open(None, Arc::new(c), Path::new("t")) else { continue };
            let _ = ix.search(&Query::parse("common word3 x"), &all(30), 5, &|_| None);
            let _ = ix.write_base(&mut vec![]);
        }
    }
    for n in 0..b.len() {
        assert!(TextIndex::open(None, Arc::new(b[..n].to_vec()), Path::new("t")).is_err());
    }
}
