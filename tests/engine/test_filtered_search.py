"""A filter narrows and loses nothing: exactly the rows that pass, all of the k, on every way to ask."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kektordb
from kektordb import F
from kektordb.engine.collection import Collection

WAYS = [(i, d) for i in ("graph", "flat") for d in ("float32", "float16", "int8")]


def brute(vectors: np.ndarray[Any, Any], q: np.ndarray[Any, Any], passing: list[int], k: int) -> list[int]:
    return sorted(passing, key=lambda i: float(((vectors[i] - q) ** 2).sum()))[:k]


@pytest.mark.parametrize(("index", "dtype"), WAYS)
def test_fewer_rows_than_k_pass_and_exactly_those_come(db: kektordb.Database, index: str, dtype: str) -> None:
    docs = db.create_collection("ten", dim=2, metric="l2", index=index, dtype=dtype)
    docs.upsert([str(i) for i in range(10)], np.arange(20).reshape(10, 2), [{"n": i} for i in range(10)])
    for k in (2, 5, 100):
        assert sorted(docs.search([0, 0], k=k, filter="n IN (3, 7)").ids) == ["3", "7"]
    docs.delete("3")
    assert docs.search([0, 0], k=2, filter="n IN (3, 7)").ids == ["7"]
    assert docs.search([0, 0], k=2, filter="n IN (99)").ids == []
    assert docs.search([0, 0], k=2, filter="n = 3").ids == []


@pytest.mark.parametrize("split", [0, 500, 1000, 1500, 2000])
def test_the_filter_holds_for_linked_rows_and_for_those_just_appended(db: kektordb.Database, split: int) -> None:
    rng = np.random.default_rng(3)
    docs = db.create_collection("rows", dim=8, text_fields="body")
    vectors = rng.standard_normal((2000, 8))
    made = [(f"r{i}", vectors[i], {"a": i, "body": "word"}) for i in range(2000)]
    for part in (made[:split], made[split:]):
        if part:
            ids, rows, payloads = zip(*part, strict=True)
            docs.upsert(ids, np.array(rows), payloads)
        if part is not made[split:]:
            db.flush()
            db.checkpoint()
    for ask in ({"vector": vectors[5]}, {"text": "word"}, {"vector": vectors[5], "text": "word"}):
        assert docs.search(**ask, k=10, filter="a < 0").ids == []
        assert docs.search(**ask, k=10, filter="a = 1500").ids == ["r1500"]
        assert sorted(docs.search(**ask, k=10, filter="a IN (3, 1999)").ids) == ["r1999", "r3"]


def test_a_filter_means_the_same_on_the_vector_text_and_hybrid_way(db: kektordb.Database) -> None:
    docs = db.create_collection("zero", dim=8, metric="l2", text_fields="body")
    vectors = np.zeros((20, 8))
    vectors[1] = 100
    docs.upsert([str(i) for i in range(20)], vectors, [{"id": i, "body": "same words"} for i in range(20)])
    zero = np.zeros(8)
    assert docs.search(zero, k=3, filter="id = 1").ids == ["1"]
    assert docs.search(text="words", k=3, filter="id = 1").ids == ["1"]
    for alpha in (0.0, 0.5, 1.0):
        assert docs.search(zero, text="words", alpha=alpha, k=3, filter="id = 1").ids == ["1"]
        # alpha 0 asks the text alone, which finds nothing
        unknown = docs.search(zero, text="nosuch", alpha=alpha, k=3, filter="id = 1").ids
        assert unknown == (["1"] if alpha else [])
    assert docs.search_batch(np.zeros((2, 8)), k=3, filter="id = 1")[1].ids == ["1"]
    assert [r.id for r in docs.scan(filter="id = 1").rows] == ["1"]
    assert docs.count(filter="id = 1") == 1


def test_more_hits_than_the_width_of_the_walk_come_when_asked_for(db: kektordb.Database) -> None:
    docs = db.create_collection("rows", dim=16)
    docs.upsert([str(i) for i in range(1000)], np.random.default_rng(1).standard_normal((1000, 16)))
    db.flush()
    for hits in (docs.search(np.ones(16), k=500), docs.search(np.ones(16), k=500, ef_search=1)):
        assert len(set(hits.ids)) == 500
        assert np.all(np.diff(hits.distances) >= 0)
    assert len(set(docs.search(np.ones(16), k=1000).ids)) == 1000


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_a_filter_that_ten_of_many_pass_gives_all_ten(db: kektordb.Database, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    docs = db.create_collection("rows", dim=16, hnsw=kektordb.HnswParams(ef_construction=60))
    chosen = [set(rng.choice(n, 10, replace=False).tolist()) for _ in range(5)]
    payloads = [{"sets": [c for c in range(5) if i in chosen[c]], "even": i % 2 == 0} for i in range(n)]
    docs.upsert([str(i) for i in range(n)], rng.standard_normal((n, 16)), payloads)
    db.flush()
    for c, want in enumerate(chosen):
        for _ in range(10):
            hits = docs.search(rng.standard_normal(16), k=10, filter=f"sets CONTAINS {c}")
            assert set(hits.ids) == {str(i) for i in want}
        joined = docs.search(rng.standard_normal(16), k=10, filter=f"sets CONTAINS {c} AND even = TRUE")
        assert set(joined.ids) == {str(i) for i in want if i % 2 == 0}


def test_in_and_not_in_part_the_rows_that_have_a_value(db: kektordb.Database) -> None:
    docs = db.create_collection("feelings", dim=2)
    docs.upsert(["1", "2", "3"], np.ones((3, 2)), [{"feeling": "good"}, {"feeling": "bad"}, {}])

    def found(filter: object) -> list[str]:
        ids = sorted(docs.search([1, 1], filter=filter).ids)
        assert ids == sorted(r.id for r in docs.scan(filter=filter).rows)
        return ids

    assert found("feeling NOT IN ('good')") == ["2"]
    assert found("feeling IN ('good')") == ["1"]
    assert found("feeling IN ()") == []
    assert found("feeling NOT IN ()") == ["1", "2"], "all that have a value"
    assert found("NOT feeling IN ()") == ["1", "2", "3"]
    assert found(F.feeling.not_in(["good"])) == ["2"]


def test_values_of_mixed_types_are_unequal_and_none_is_lost(db: kektordb.Database) -> None:
    docs = db.create_collection("mixed", dim=2)
    payloads: list[Any] = [{"chunk": "yes"}, {"chunk": "no"}, {"chunk": 0}, {}, {"chunk": None}]
    docs.upsert(["yes", "no", "zero", "missing", "null"], np.ones((5, 2)), payloads)
    for ask in (lambda f: docs.search([1, 1], filter=f).ids, lambda f: [r.id for r in docs.scan(filter=f).rows]):
        assert sorted(ask("chunk != 'no'")) == ["yes", "zero"]
        assert sorted(ask("NOT chunk = 'no'")) == ["missing", "null", "yes", "zero"]
        assert sorted(ask("chunk IS NULL")) == ["missing", "null"]
        assert sorted(ask("EXISTS chunk")) == ["no", "null", "yes", "zero"]


@pytest.mark.parametrize(("index", "dtype"), WAYS)
@pytest.mark.parametrize("ef", [1, 2, 64, 1000])
@pytest.mark.parametrize("k", [1, 2, 10])
@pytest.mark.parametrize("exact", [False, True])
def test_a_filter_that_allows_one_row_gives_that_row_with_its_distance(
    db: kektordb.Database, index: str, dtype: str, ef: int, k: int, exact: bool
) -> None:
    docs = db.create_collection("line", dim=2, metric="l2", index=index, dtype=dtype)
    docs.upsert(["0", "1", "2", "3"], np.array([[0, 0], [10, 0], [20, 0], [30, 0]]), [{"n": i} for i in range(4)])
    hits = docs.search([0, 0], k=k, ef_search=ef, exact=exact, filter="n = 1")
    assert hits.ids == ["1"]
    assert hits.distances.tolist() == pytest.approx([100], rel=0.02 if dtype == "int8" else 1e-3)


def test_numbers_lie_on_one_exact_line(db: kektordb.Database, docs: Collection) -> None:
    numbers = db.create_collection("numbers", dim=2)
    values = {
        "int": 42,
        "float": 42.0,
        "p53": 2**53,
        "p53+1": 2**53 + 1,
        "zero": 0,
        "minus zero": -0.0,
        "max": 2**63 - 1,
        "over": 2**64 - 1,
        "min": -(2**63),
        "tenth": 0.1,
        "text": "42",
        "true": True,
    }
    numbers.upsert(list(values), np.ones((len(values), 2)), [{"n": v} for v in values.values()])
    for _ in range(2):

        def found(filter: object) -> set[str]:
            return set(numbers.search([1, 1], k=50, filter=filter).ids)

        assert found("n = 42") == found("n = 42.0") == found("n = 4.2e1") == {"int", "float"}
        assert found(f"n = {2**53 + 1}") == {"p53+1"}
        assert found(f"n = {2**53}") == {"p53"}
        assert found(f"n > {2**53}") == {"p53+1", "max", "over"}
        assert found("n = 0") == found("n = -0.0") == {"zero", "minus zero"}
        assert found(f"n = {2**63 - 1}") == {"max"}
        assert found(f"n >= {2**64 - 1}") == {"over"}
        assert found(f"n <= {-(2**63)}") == {"min"}
        assert found("n = '42'") == {"text"}
        assert found("n = TRUE") == {"true"}
        assert found("n BETWEEN 0 AND 1") == {"zero", "minus zero", "tenth"}
        assert found(F.n == 2**53 + 1) == {"p53+1"}
        db.checkpoint()


def test_nothing_of_an_excluded_part_is_found_and_a_double_negation_changes_nothing(db: kektordb.Database) -> None:
    rng = np.random.default_rng(2)
    docs = db.create_collection("parts", dim=8)
    for p in ("p1", "p2", "p3"):
        docs.upsert([f"{p}-{i}" for i in range(100)], rng.standard_normal((100, 8)), [{"partition": p}] * 100)
    db.flush()
    q = rng.standard_normal(8)
    others = docs.search(q, k=200, filter="partition != 'p1'").ids
    assert len(set(others)) == 200
    assert not [i for i in others if i.startswith("p1")]
    last = docs.search(q, k=300, filter="NOT (partition = 'p1' OR partition = 'p2')").ids
    assert len(last) == 100
    assert all(i.startswith("p3") for i in last)
    for f in ("partition = 'p1'", "partition != 'p1'"):
        assert docs.search(q, k=300, filter=f"NOT NOT ({f})").ids == docs.search(q, k=300, filter=f).ids
        assert docs.search(q, k=300, filter=~~F.partition.in_(["p1"])).ids


def test_a_deleted_row_takes_no_place_from_the_ones_left(db: kektordb.Database) -> None:
    docs = db.create_collection("alike", dim=4, text_fields="body")
    near = np.ones((100, 4)) + np.arange(100)[:, None] * 1e-4
    docs.upsert([f"r{i:02}" for i in range(100)], near, [{"body": "the same words"}] * 100)
    db.flush()
    ways: list[dict[str, Any]] = [
        {"vector": np.ones(4)},
        {"text": "words"},
        {"vector": np.ones(4), "text": "words"},
    ]
    docs.delete("r00")
    for way in ways:
        assert docs.search(**way, k=1).ids != ["r00"]
        assert len(docs.search(**way, k=1)) == 1
    docs.delete([f"r{i:02}" for i in range(99)])
    for step in (lambda: None, db.checkpoint, db.vacuum):
        step()
        for way in ways:
            for k in (1, 10):
                assert docs.search(**way, k=k).ids == ["r99"]


@pytest.mark.parametrize("between", ["nothing", "checkpoint", "vacuum", "reopen"])
def test_an_id_that_is_deleted_and_added_again_is_there_once_with_the_new_row(tmp_path: Path, between: str) -> None:
    db = kektordb.open(tmp_path / "a.kdb")
    db.create_collection("docs", dim=2, metric="l2")

    def step() -> None:
        nonlocal db
        if between == "checkpoint":
            db.checkpoint()
        elif between == "vacuum":
            db.vacuum()
        elif between == "reopen":
            db.close()
            db = kektordb.open(tmp_path / "a.kdb")

    db["docs"].upsert("3", [[1, 1]], [{"v": "old"}])
    step()
    db["docs"].delete("3")
    step()
    assert len(db["docs"]) == 0
    db["docs"].upsert("3", [[5, 5]], [{"v": "new"}])
    step()
    docs = db["docs"]
    [row] = docs.get("3", include=("payload", "vector"))
    assert row is not None
    assert row.payload == {"v": "new"}
    assert row.vector is not None
    assert row.vector.tolist() == [5, 5]
    assert docs.search([5, 5], k=5).ids == ["3"]
    assert docs.search([5, 5], k=5).distances.tolist() == [0]
    assert len(docs) == 1
    assert [r.id for r in docs.scan().rows] == ["3"]
    assert [i for i in docs.row_ids() if i] == ["3"]
    assert docs.count(filter="v = 'old'") == 0
    db.close()


def test_after_a_whole_cluster_is_deleted_a_question_from_its_middle_finds_the_other(db: kektordb.Database) -> None:
    rng = np.random.default_rng(4)
    n = 2_000
    docs = db.create_collection("clusters", dim=16, metric="l2", hnsw=kektordb.HnswParams(ef_construction=80))
    left = rng.standard_normal((n, 16)).astype(np.float32)
    right = (rng.standard_normal((n, 16)) + 30).astype(np.float32)
    docs.upsert([f"l{i}" for i in range(n)], left)
    docs.upsert([f"r{i}" for i in range(n)], right)
    db.flush()
    asked = rng.standard_normal((20, 16)).astype(np.float32)

    def quick() -> float:
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for q in asked:
                docs.search(q, k=10)
            best = min(best, time.perf_counter() - start)
        return best

    before = quick()
    docs.delete([f"l{i}" for i in range(n)])
    for step in ("deleted", "vacuum"):
        if step == "vacuum":
            db.vacuum()
            db.flush()
        hit = 0
        for q in asked:
            found = docs.search(q, k=10)
            assert len(found) == 10
            assert all(i.startswith("r") for i in found.ids)
            hit += len({int(i[1:]) for i in found.ids} & set(brute(right, q, list(range(n)), 10)))
        assert hit / (10 * len(asked)) >= 0.98, step
        if step == "vacuum":
            assert quick() < 10 * before, "nowhere near an exhaustive walk"


def test_a_filter_that_no_row_passes_is_answered_at_once(db: kektordb.Database) -> None:
    rng = np.random.default_rng(5)
    docs = db.create_collection("many", dim=8, index="flat")
    n = 50_000
    docs.upsert([str(i) for i in range(n)], rng.standard_normal((n, 8)), [{"a": i} for i in range(n)])
    q = rng.standard_normal(8).astype(np.float32)

    def best(filter: str | None) -> float:
        out = float("inf")
        for _ in range(30):
            start = time.perf_counter()
            docs.search(q, k=10, filter=filter)
            out = min(out, time.perf_counter() - start)
        return out

    whole = best(None)
    assert docs.search(q, filter="a < 0").ids == []
    assert docs.search(q, filter="a = 777").ids == ["777"]
    assert best("a < 0") < whole, "cheaper than looking at the rows"
    assert best("a = 777") < whole


def test_pages_of_any_size_put_together_are_the_whole(db: kektordb.Database) -> None:
    docs = db.create_collection("pages", dim=2)
    docs.upsert([f"r{i}" for i in range(100)], np.ones((100, 2)), [{"n": i} for i in range(100)])
    docs.delete([f"r{i}" for i in range(0, 100, 7)])
    whole = [r.id for r in docs.scan(limit=1000).rows]
    assert len(set(whole)) == 85
    for size in (1, 3, 5, 84, 85, 86):
        got: list[str] = []
        after = None
        while True:
            page = docs.scan(limit=size, after=after)
            got += [r.id for r in page.rows]
            after = page.next
            if after is None:
                break
        assert got == whole


def test_equal_distances_come_in_one_order_for_every_k(db: kektordb.Database) -> None:
    docs = db.create_collection("equal", dim=2, text_fields="body")
    docs.upsert([f"r{i:02}" for i in range(50)], np.ones((50, 2)), [{"body": "same"}] * 50)
    for way in ({"vector": [1, 1]}, {"text": "same"}, {"vector": [1, 1], "text": "same"}):
        whole = docs.search(**way, k=50).ids
        assert len(set(whole)) == 50
        for k in (1, 7, 20, 49):
            assert docs.search(**way, k=k).ids == whole[:k]
