"""Text search in every script; a query is data."""

from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kektordb
from kektordb.engine.collection import Collection


def filled(db: kektordb.Database, texts: dict[str, str], **options: Any) -> Collection:
    """Ids with texts; every vector is the same, so that only words can tell them apart."""
    docs = db.create_collection("texts", dim=2, text_fields=["body"], **options)
    docs.upsert(list(texts), np.ones((len(texts), 2)), [{"body": t} for t in texts.values()])
    return docs


SCRIPTS = {
    "zh": "今天的外币汇率换算结果",
    "zh-db": "数据库检索系统很快",
    "zh-ascii": "我们用docker部署服务",
    "zh-mixed": "GitHub备份脚本",
    "ja": "東京都の天気予報は晴れです",
    "ja-kana": "データベースのバックアップ",
    "ko": "서울의 날씨가 좋습니다",
    "th": "ฐานข้อมูลทำงานเร็วมาก",
    "el": "ο κόσμος είναι μεγάλος",
    "ru": "возник кассовый разрыв",
    "he": "שלום לכולם",
    "ar": "قاعدة البيانات سريعة",
    "hi": "यह डेटाबेस तेज़ है",
    "it": "non so perché",
    "fr": "l'élève de Zoe\u0301 va au café",
    "de": "die Straße ist schön",
    "tr": "İstanbul'da yağmur",
    "part": "the ZX-81 manual, v1.2.3 of foo_bar by max@example.org",
}


@pytest.mark.parametrize("language", [None, "english", "italian", "russian"])
@pytest.mark.parametrize(
    ("query", "id"),
    [
        ("汇率", "zh"),
        ("外币汇率换算", "zh"),
        ("换算", "zh"),
        ("数据库", "zh-db"),
        ("数据库检索系统很快", "zh-db"),
        ("docker", "zh-ascii"),
        ("部署", "zh-ascii"),
        ("github", "zh-mixed"),
        ("备份", "zh-mixed"),
        ("脚本", "zh-mixed"),
        ("東京", "ja"),
        ("天気予報", "ja"),
        ("バックアップ", "ja-kana"),
        ("データベース", "ja-kana"),
        ("날씨", "ko"),
        ("서울", "ko"),
        ("ข้อมูล", "th"),
        ("เร็ว", "th"),
        ("κόσμος", "el"),
        ("ΚΟΣΜΟΣ", "el"),
        ("кассовый разрыв", "ru"),
        ("РАЗРЫВ", "ru"),
        ("שלום", "he"),
        ("البيانات", "ar"),
        ("डेटाबेस", "hi"),
        ("perche", "it"),
        ("perché", "it"),
        ("PERCHE\u0301", "it"),
        ("Zoé", "fr"),
        ("zoe", "fr"),
        ("cafe", "fr"),
        ("élève", "fr"),
        ("strasse", "de"),
        ("STRASSE", "de"),
        ("schon", "de"),
        ("istanbul", "tr"),
        ("yagmur", "tr"),
        ("ZX-81", "part"),
        ("zx81", "part"),
        ("81", "part"),
        ("v1.2.3", "part"),
        ("foo_bar", "part"),
        ("bar", "part"),
        ("max@example.org", "part"),
        ("example", "part"),
        ("nosuchword", None),
    ],
)
def test_words_of_every_script_are_found_by_text_alone(
    db: kektordb.Database, language: str | None, query: str, id: str | None
) -> None:
    docs = filled(db, SCRIPTS, language=language)
    assert docs.search(text=query, k=1).ids == ([] if id is None else [id])


def test_text_of_every_script_is_found_after_a_checkpoint_and_a_reopening_too(tmp_path: Any) -> None:
    asks = {
        "汇率": "zh",
        "数据库": "zh-db",
        "docker": "zh-ascii",
        "날씨": "ko",
        "κόσμος": "el",
        "разрыв": "ru",
        "שלום": "he",
    }
    with kektordb.open(tmp_path / "a.kdb") as db:
        docs = filled(db, SCRIPTS)
        db.checkpoint()
        assert {q: docs.search(text=q, k=1).ids[0] for q in asks} == asks
        docs.delete(["zh"])
        docs.upsert(["more"], np.ones((1, 2)), [{"body": "新的汇率"}])
        assert docs.search(text="汇率").ids == ["more"], "read your write, and no deleted row"
    with kektordb.open(tmp_path / "a.kdb") as db:
        assert db["texts"].search(text="汇率").ids == ["more"]
        assert db["texts"].search(text="数据库").ids == ["zh-db"]


@pytest.mark.parametrize("stored", ["Zo\u00e9", "Zoe\u0301"])
@pytest.mark.parametrize("asked", ["Zo\u00e9", "Zoe\u0301", "ZOÉ", "zoe"])
def test_a_name_is_found_however_it_was_typed_and_comes_back_as_it_was_stored(
    db: kektordb.Database, stored: str, asked: str
) -> None:
    docs = filled(db, {"z": f"{stored} perche\u0301", "other": "nobody"})
    assert docs.search(text=asked).ids == ["z"]
    assert docs.search(text="perch\u00e9").ids == ["z"]
    [row] = docs.get("z")
    assert row is not None
    assert row.payload == {"body": f"{stored} perche\u0301"}
    for form in ("NFC", "NFD"):
        wanted = unicodedata.normalize(form, f"{stored} perche\u0301")
        assert docs.count(filter=kektordb.F.body == wanted) == 1
        assert docs.count(filter=f"body = '{wanted}'") == 1
    assert docs.count(filter="body = 'Zoe perche'") == 0, "a filter folds no accents"


PUPPIES = [
    ("a", "neutral", "a puppy"),
    ("b", "positive", "what a puppy"),
    ("c", "positive", "puppy love"),
    ("d", "neutral", "a cat"),
]


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_text_and_filter_together_give_the_same_rows_in_every_order_of_insertion(
    db: kektordb.Database, checkpoints: int
) -> None:
    seen = set()
    for n, order in enumerate(itertools.permutations(PUPPIES)):
        docs = db.create_collection(f"order{n}", dim=2, text_fields="body")
        for i, (id, feeling, body) in enumerate(order):
            docs.upsert(id, np.ones((1, 2)), [{"sentiment": feeling, "body": body}])
            if i < checkpoints:
                db.checkpoint()
        hits = docs.search(text="puppy", filter="sentiment = 'positive'")
        assert sorted(hits.ids) == ["b", "c"]
        assert sorted(docs.search(text="puppy").ids) == ["a", "b", "c"]
        seen.add(tuple(sorted(zip(hits.ids, hits.scores.tolist(), strict=True))))
        db.drop_collection(f"order{n}")
    assert len(seen) == 1


def test_quotes_ask_for_words_that_stand_together_and_a_plus_for_a_word_that_must_occur(db: kektordb.Database) -> None:
    docs = filled(
        db,
        {
            "a": "the red bicycle of my neighbour",
            "b": "a bicycle, painted red",
            "c": "red roses",
            "zh": "外币汇率换算",
            "zh2": "汇外币率",
        },
    )
    assert docs.search(text='"red bicycle"').ids == ["a"]
    assert docs.search(text="“red bicycle”").ids == ["a"]
    assert set(docs.search(text="red bicycle").ids) == {"a", "b", "c"}
    assert set(docs.search(text="red +bicycle").ids) == {"a", "b"}
    assert docs.search(text='"外币汇率"').ids == ["zh"]
    assert docs.search(text='"red the"').ids == []


SIGNS = [
    '"',
    '"red',
    'red"',
    "+",
    "-",
    "+red",
    "AND",
    "NOT red",
    "(",
    ")",
    "*",
    "red*",
    "red?",
    "body:red",
    "^2",
    "~",
    "\\",
    "/",
    "'",
    "' OR 1=1 --",
    "{}",
    "[",
    "%",
    "_",
    "\0",
    "red\0",
    "\n\t",
    "",
    " ",
    "the",
    "of the",
    "🎉",
    "\u200d",
    "\u0301",
    "\ufeff",
    "“",
    "””",
    '""',
    '"" ""',
    "+++",
    '+"red roses"',
    "c++",
    "C#",
    ".NET",
    "a" * 100_000,
    "﷽",
    "\U0010ffff",
]


@pytest.mark.parametrize("query", SIGNS)
def test_no_sign_in_a_question_is_ever_an_error(docs: Collection, query: str) -> None:
    for hits in (
        docs.search(text=query),
        docs.search([1, 2, 3, 4], text=query),
        docs.search(text=query, filter="n >= 0"),
    ):
        assert all(np.isfinite(hits.scores))
    assert len(docs.search([1, 2, 3, 4], text=query)) == 3, "the vector arm is there whatever the words"


def test_a_question_of_stop_words_alone_finds_them(db: kektordb.Database) -> None:
    docs = filled(db, {"a": "to be or not to be", "b": "something else"})
    assert docs.search(text="to be or not to be").ids == ["a"]
    assert docs.search(text="the").ids == []


@pytest.fixture(scope="module")
def one() -> Any:
    with kektordb.open(":memory:") as db:
        yield db.create_collection("one", dim=2, text_fields="body")


@given(text=st.text(max_size=60))
def test_any_text_goes_in_comes_back_unchanged_and_is_a_legal_question(one: Collection, text: str) -> None:
    one.upsert("x", np.ones((1, 2)), [{"body": text}])
    [row] = one.get("x")
    assert row is not None
    assert row.payload == {"body": text}
    one.search(text=text)
    quoted = one.search(text=f'"{text}"').ids
    words = [w for w in text.split() if w.isalnum() and w.isascii()]
    for word in words:
        assert one.search(text=word).ids == ["x"]
    assert quoted in ([], ["x"])


def test_lists_and_nested_fields_are_searched_and_odd_rows_do_no_harm(db: kektordb.Database) -> None:
    docs = db.create_collection("nested", dim=2, text_fields=["title", "meta.notes"])
    odd: list[Any] = [
        {"title": 5},
        {"title": None},
        {"title": []},
        {"meta": "x"},
        {"meta": {"notes": {"deep": 1}}},
        {},
        None,
    ]
    docs.upsert([f"odd{i}" for i in range(len(odd))], np.ones((len(odd), 2)), odd)
    docs.upsert(
        ["a", "b"],
        np.ones((2, 2)),
        [{"title": "alpha"}, {"title": "beta", "meta": {"notes": ["first note", "second alpha"]}}],
    )
    assert sorted(docs.search(text="alpha").ids) == ["a", "b"]
    assert docs.search(text="second").ids == ["b"]
    assert len(docs.search([1, 1], text="alpha", k=20)) == 2 + len(odd)


def test_where_the_words_find_nothing_the_vectors_have_the_whole_weight(docs: Collection) -> None:
    v = [1, 0.5, 0.2, 0.1]
    alone, both = docs.search(v), docs.search(v, text="nosuchword", alpha=0.3)
    assert both.ids == alone.ids
    assert both.scores[0] == pytest.approx(1.0)


def test_exact_words_are_found_whatever_the_bound_on_the_distance_and_marked_as_found_by_text(
    db: kektordb.Database,
) -> None:
    docs = db.create_collection("manuals", dim=2, metric="l2", text_fields="body")
    docs.upsert(["manual", "near"], np.array([[100, 100], [0, 0]]), [{"body": "ZX-81 manual"}, {"body": "radio"}])
    hits = docs.search([0.0, 0.1], text="ZX-81", max_distance=0.0)
    assert hits.ids == ["manual"]
    assert np.isnan(hits.distances[0])
    assert docs.search([0.0, 0.1], max_distance=0.0).ids == []
    assert docs.search([0.0, 0.1], max_distance=1.0).ids == ["near"]


def test_alpha_0_is_the_order_of_the_text_and_alpha_1_that_of_the_vectors(db: kektordb.Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    docs = db.create_collection("many", dim=8, text_fields="body")
    vectors = rng.standard_normal((200, 8))
    bodies = [" ".join(rng.choice(["red", "blue", "green", "old", "new"], 5)) for _ in range(200)]
    docs.upsert([f"r{i:03}" for i in range(200)], vectors, [{"body": b} for b in bodies])
    q, words = rng.standard_normal(8), "red old"
    text, near = docs.search(text=words, k=30), docs.search(q, k=30)
    assert docs.search(q, text=words, alpha=0.0, k=30).ids[:20] == text.ids[:20]
    assert docs.search(q, text=words, alpha=1.0, k=30).ids[:20] == near.ids[:20]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_the_first_hits_are_the_same_whatever_the_limit(db: kektordb.Database, seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    docs = db.create_collection("many", dim=8, text_fields="body")
    bodies = [" ".join(rng.choice(["red", "blue", "green", "old", "new"], 5)) for _ in range(300)]
    docs.upsert([f"r{i:03}" for i in range(300)], rng.standard_normal((300, 8)), [{"body": b} for b in bodies])
    for _ in range(5):
        q = rng.standard_normal(8)
        whole = docs.search(q, text="red old", alpha=alpha, k=100, ef_search=200)
        for k in (1, 5, 10, 11, 50):
            some = docs.search(q, text="red old", alpha=alpha, k=k, ef_search=200)
            assert some.ids == whole.ids[:k]
            np.testing.assert_allclose(some.scores, whole.scores[:k], rtol=1e-6)
