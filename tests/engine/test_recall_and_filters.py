"""What users of comparable stores ran into when they searched with filters, deletes, limits and hybrids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import kektordb
from kektordb import F


@pytest.fixture
def db() -> Iterator[kektordb.Database]:
    with kektordb.open(":memory:") as opened:
        yield opened


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_fewer_matches_than_k_are_all_returned_without_an_error(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=4, metric="l2")
    c.upsert([str(i) for i in range(10)], rng().standard_normal((10, 4)), [{"n": i} for i in range(10)])
    q = np.zeros(4)
    assert sorted(c.search(q, k=2, filter="n IN (3, 7)").ids) == ["3", "7"]
    c.delete("3")
    assert c.search(q, k=2, filter="n IN (3, 7)").ids == ["7"]
    assert c.search(q, k=2, filter="n = 99").ids == []


@pytest.mark.parametrize("linked", [True, False])
def test_a_filter_holds_for_rows_in_the_graph_and_for_rows_that_wait(db: kektordb.Database, linked: bool) -> None:
    c = db.create_collection("c", dim=8)
    x = rng().standard_normal((2000, 8))
    c.upsert([str(i) for i in range(1000)], x[:1000], [{"a": i} for i in range(1000)])
    db.flush()
    c.upsert([str(i) for i in range(1000, 2000)], x[1000:], [{"a": i} for i in range(1000, 2000)])
    if linked:
        db.flush()
    assert c.search(x[0], k=10, filter="a < 0").ids == []
    assert c.search(x[0], k=10, filter="a = 1500").ids == ["1500"]


def test_a_filter_means_the_same_for_vector_text_and_hybrid(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=4, metric="l2", text_fields=["body"])
    x = np.zeros((20, 4), np.float32)
    x[1] = 100
    c.upsert([str(i) for i in range(20)], x, [{"n": i, "body": "same words"} for i in range(20)])
    for search in ({"vector": np.zeros(4)}, {"text": "words"}, {"vector": np.zeros(4), "text": "words"}):
        assert c.search(**search, k=3, filter="n = 1").ids == ["1"]
        assert len(c.search(**search, k=3)) == 3


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_text_with_a_filter_does_not_depend_on_the_order_of_writing(
    db: kektordb.Database, order: tuple[int, ...]
) -> None:
    docs = [("a puppy", "neutral"), ("my puppy", "positive"), ("good puppy", "positive"), ("a dog", "neutral")]
    c = db.create_collection("c", dim=2, text_fields="body")
    for i in order:
        c.upsert(str(i), [1.0, i + 1.0], [{"body": docs[i][0], "sentiment": docs[i][1]}])
    assert sorted(c.search(text="puppy", k=9, filter="sentiment = 'positive'").ids) == ["1", "2"]


def test_k_beyond_the_search_width_gives_k_rows(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=8)
    c.upsert([str(i) for i in range(1000)], rng().standard_normal((1000, 8)))
    db.flush()
    for ef in (None, 16, 1):
        hits = c.search(np.ones(8), k=500, ef_search=ef)
        assert len(set(hits.ids)) == 500


@pytest.mark.parametrize("rows", [1_000, 10_000])
def test_ten_random_matches_are_all_found_however_large_the_table(db: kektordb.Database, rows: int) -> None:
    c = db.create_collection("c", dim=8)
    marked = {int(i) for i in rng(rows).permutation(rows)[:10]}
    c.upsert([str(i) for i in range(rows)], rng().standard_normal((rows, 8)), [{"m": i in marked} for i in range(rows)])
    db.flush()
    hits = c.search(rng(3).standard_normal(8), k=10, filter=F.m == True)  # noqa: E712
    assert {int(i) for i in hits.ids} == marked


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("ef", [1, 2, 64])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_only_allowed_row_is_the_answer_though_it_is_not_the_nearest(
    db: kektordb.Database, dtype: str, ef: int, exact: bool
) -> None:
    c = db.create_collection("c", dim=2, metric="l2", dtype=dtype)
    c.upsert(["0", "1", "2", "3"], [[0, 0], [10, 0], [20, 0], [30, 0]], [{"n": i} for i in range(4)])
    hits = c.search([0, 0], k=1, filter="n = 1", ef_search=ef, exact=exact)
    assert hits.ids == ["1"]
    assert hits.distances[0] == pytest.approx(100, rel=2e-2)


def test_not_in_and_not_equal_keep_rows_of_other_types_and_leave_out_rows_without_the_field(
    db: kektordb.Database,
) -> None:
    c = db.create_collection("c", dim=2)
    payloads: list[dict[str, object]] = [{"chunk": "yes"}, {"chunk": "no"}, {"chunk": 0}, {}]
    c.upsert(["yes", "no", "0", "none"], np.eye(2).repeat(2, 0), payloads)

    def ids(f: object) -> set[str]:
        return {r.id for r in c.scan(filter=f).rows}

    assert ids("chunk != 'no'") == {"yes", "0"}
    assert ids("chunk NOT IN ('no')") == {"yes", "0"}
    assert ids("chunk IN ('no')") | ids("chunk NOT IN ('no')") == {"yes", "no", "0"}
    assert ids("chunk IN ()") == set()
    assert ids("NOT (chunk = 'yes' OR chunk = 'no')") == {"0", "none"}
    assert ids("NOT NOT chunk = 'yes'") == {"yes"}
    assert ids(None) == {"yes", "no", "0", "none"}


def test_numbers_lie_on_one_line(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=2)
    values = [42, 42.0, 2**53 + 1, 2**53, -0.0]
    c.upsert([str(i) for i in range(5)], np.ones((5, 2)), [{"n": v} for v in values])

    def ids(f: str) -> list[str]:
        return sorted(r.id for r in c.scan(filter=f).rows)

    assert ids("n = 42") == ids("n = 42.0") == ["0", "1"]
    assert ids(f"n = {2**53 + 1}") == ["2"]
    assert ids(f"n = {2**53}") == ["3"]
    assert ids("n = 0") == ["4"]


def test_three_partitions_without_one_of_them(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=8)
    x = rng().standard_normal((300, 8))
    c.upsert([str(i) for i in range(300)], x, [{"partition": f"p{i % 3 + 1}"} for i in range(300)])
    db.flush()
    hits = c.search(x[0], k=200, filter="partition != 'p1'")
    assert len(hits) == 200
    assert {p["partition"] for p in hits.payloads} == {"p2", "p3"}
    only = c.search(x[0], k=200, filter="NOT (partition = 'p1' OR partition = 'p2')")
    assert {p["partition"] for p in only.payloads} == {"p3"}


def test_a_bound_on_the_vector_arm_leaves_exact_words_in(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=2, text_fields="body")
    c.upsert(
        ["manual", "near", "far"],
        [[-1, 0], [1, 0], [0.5, 1]],
        [{"body": "ZX-81 manual"}, {"body": "other"}, {"body": "thing"}],
    )
    hits = c.search([1, 0], text="ZX-81", k=3, max_distance=0.01, explain=True)
    assert "manual" in hits.ids
    text_only = next(h for h in hits if h.id == "manual")
    assert np.isnan(text_only.distance)
    assert c.search([1, 0], text="ZX-81", alpha=0, k=3).ids == c.search(text="ZX-81", k=3).ids == ["manual"]
    assert c.search([1, 0], text="ZX-81", alpha=1, k=3).ids == c.search([1, 0], k=3).ids


def test_the_head_of_a_hybrid_does_not_change_with_k(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=8, text_fields="body")
    r = rng(9)
    words = ["fox", "hen", "red", "blue", "cat", "dog"]
    texts = [" ".join(r.choice(words, 5)) for _ in range(400)]
    c.upsert([str(i) for i in range(400)], r.standard_normal((400, 8)), [{"body": t} for t in texts])
    db.flush()
    q = r.standard_normal(8)
    whole = c.search(q, text="red fox", k=100)
    for k in (1, 5, 10, 11, 50):
        part = c.search(q, text="red fox", k=k)
        assert part.ids == whole.ids[:k]
        assert np.array_equal(part.scores, whole.scores[:k])


def test_a_silent_text_arm_passes_its_weight_on(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=2, text_fields="body")
    c.upsert(["a", "b"], [[1, 0], [0, 1]], [{"body": "x"}, {"body": "y"}])
    assert c.search([1, 0], text="nothing of it", k=2).ids == ["a", "b"]


def test_a_deleted_row_holds_no_place(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=4, text_fields="body")
    x = np.ones((100, 4)) + 0.001 * rng().standard_normal((100, 4))
    c.upsert([str(i) for i in range(100)], x, [{"body": "alike words"} for _ in range(100)])
    db.flush()
    c.delete([str(i) for i in range(99)])
    for search in ({"vector": np.ones(4)}, {"text": "alike"}, {"vector": np.ones(4), "text": "alike"}):
        assert c.search(**search, k=10).ids == ["99"]
    db.vacuum()
    for search in ({"vector": np.ones(4)}, {"text": "alike"}, {"vector": np.ones(4), "text": "alike"}):
        assert c.search(**search, k=10).ids == ["99"]


@pytest.mark.parametrize("between", ["nothing", "reopen", "vacuum", "both"])
def test_an_id_that_was_deleted_can_be_added_again(tmp_path: Path, between: str) -> None:
    v, w = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])

    def step(db: kektordb.Database) -> kektordb.Database:
        if between in ("vacuum", "both"):
            db.vacuum()
        if between in ("reopen", "both"):
            db.close()
            return kektordb.open(tmp_path / "x.kdb")
        return db

    db = kektordb.open(tmp_path / "x.kdb")
    db.create_collection("c", dim=3).upsert("3", v)
    db = step(db)
    db["c"].delete("3")
    db = step(db)
    db["c"].upsert("3", w)
    db = step(db)
    c = db["c"]
    row = c.get("3", include=("vector",))[0]
    assert row is not None and row.vector is not None
    assert np.allclose(row.vector, w)
    assert c.search(w, k=5).ids == ["3"]
    assert (len(c), [r.id for r in c]) == (1, ["3"])
    db.close()


def test_with_a_whole_cluster_deleted_a_query_from_its_middle_finds_the_other(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=16, metric="l2")
    r = rng(4)
    near, far = r.standard_normal((2000, 16)), r.standard_normal((2000, 16)) + 50
    c.upsert([f"n{i}" for i in range(2000)], near)
    c.upsert([f"f{i}" for i in range(2000)], far)
    db.flush()
    c.delete([f"n{i}" for i in range(2000)])
    q = np.zeros(16)
    want = {f"f{i}" for i in np.argsort(((far - q) ** 2).sum(1))[:10]}
    for _ in range(2):
        hits = c.search(q, k=10)
        assert len(hits) == 10
        assert len(want & set(hits.ids)) >= 9
        db.vacuum()


def test_an_empty_filter_and_an_empty_collection_answer_at_once(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=4, text_fields="body")
    for search in ({"vector": np.ones(4)}, {"text": "x"}, {"vector": np.ones(4), "text": "x"}):
        assert list(c.search(**search, k=5)) == []
    assert c.facets("n") == []
    assert c.scan().rows == ()


def test_names_and_values_compare_by_their_composed_form(db: kektordb.Database) -> None:
    c = db.create_collection("c", dim=2, text_fields="body")
    c.upsert("1", [1, 0], [{"who": "Zoe\u0308", "body": "Zoe\u0308 sees perch\u00e9"}])
    for name in ("Zo\u00eb", "Zoe\u0308"):
        assert c.count(filter=F.who == name) == 1
        assert c.search(text=name, k=1).ids == ["1"]
    assert c.search(text="perche\u0301", k=1).ids == ["1"]
    row = c.get("1")[0]
    assert row is not None and row.payload is not None
    assert row.payload["who"] == "Zoe\u0308", "kept as it was given"
