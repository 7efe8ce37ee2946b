"""The slow store keeps its promises: one moment per reader, all or nothing per writer."""

from __future__ import annotations

import numpy as np
import pytest

from kektordb.engine.protocol import Maintenance, Reader, Store, Writer
from kektordb.errors import (
    AlreadyExistsError,
    ClosedError,
    DimensionMismatchError,
    InvalidArgumentError,
    NotFoundError,
    VersionConflictError,
)
from kektordb.model.view import Life, Stamps, View
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore


def vec(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> NaiveStore:
    made = NaiveStore(clock=clock)
    made.ensure_collection("c", dim=2, text_fields=("body",), language=None, meta={"a": 1})
    return made


def put(store: NaiveStore, name: str, payload: dict | None = None, **given: object) -> int:
    with store.writer() as w:
        w.put("c", name, payload=payload or {}, vector=given.pop("vector", vec(1, 0)), **given)
    return w.committed_at


def ids(reader: Reader) -> list[str]:
    return [row.id for row in reader.scan().rows]


def test_it_is_a_store(store: NaiveStore) -> None:
    as_store: Store = store
    as_maintenance: Maintenance = store
    with as_store.writer() as w:
        as_writer: Writer = w
    assert as_writer is not None
    assert as_maintenance is store


def test_commit_times_rise_while_the_clock_stands_still_or_goes_back(store: NaiveStore, clock: FakeClock) -> None:
    first = put(store, "a")
    second = put(store, "b")
    clock.advance(days=-1)
    assert first < second < put(store, "c")
    assert store.now() >= second


def test_a_moment_that_was_read_never_gains_rows(store: NaiveStore) -> None:
    put(store, "a")
    moment = store.now()
    put(store, "b")
    assert ids(store.reader("c", View(as_of=moment))) == ["a"]
    assert ids(store.reader("c", View())) == ["a", "b"]


def test_a_reader_stands_at_one_moment(store: NaiveStore) -> None:
    put(store, "a", {"v": 1})
    reader = store.reader("c", View())
    put(store, "a", {"v": 2})
    put(store, "b")
    with store.writer() as w:
        w.close("c", "a", end_life=Life.RETRACTED)
    row = reader.get(["a"])[0]
    assert row is not None
    assert (row.payload, row.life) == ({"v": 1}, Life.ACTIVE)
    assert ids(reader) == ["a"]
    assert ids(store.reader("c", View())) == ["b"]
    assert ids(store.reader("c", View(life=frozenset({Life.RETRACTED})))) == ["a"]


def test_an_exception_in_the_block_drops_every_change(store: NaiveStore) -> None:
    def fails() -> None:
        with store.writer() as w:
            w.put("c", "a", payload={}, vector=vec(1, 0))
            w.kv_set("n", "k", b"1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert store.reader("c", View()).count() == 0
    assert store.kv_get("n", "k") is None


def test_a_failed_expectation_drops_every_change(store: NaiveStore) -> None:
    def expecting(*, absent: str | None = None, opened: str | None = None) -> None:
        with store.writer() as w:
            w.put("c", "b", payload={}, vector=vec(1, 0))
            if absent is not None:
                w.expect_absent("c", absent)
            if opened is not None:
                w.expect_open("c", opened)

    put(store, "a")
    with pytest.raises(AlreadyExistsError):
        expecting(absent="a")
    with pytest.raises(VersionConflictError):
        expecting(opened="zz")
    assert ids(store.reader("c", View())) == ["a"]
    expecting(absent="b", opened="a")  # the control: met expectations let it pass
    assert ids(store.reader("c", View())) == ["a", "b"]


def test_expectations_look_at_the_moment_before_the_commit(store: NaiveStore) -> None:
    with store.writer() as w:
        w.expect_absent("c", "a")
        w.put("c", "a", payload={}, vector=vec(1, 0))
    with store.writer() as w:
        w.expect_open("c", "a")
        w.close("c", "a", end_life=Life.SUPERSEDED)


def test_closing_what_is_not_open_is_refused(store: NaiveStore) -> None:
    def closing() -> None:
        with store.writer() as w:
            w.close("c", "a", end_life=Life.RETRACTED)

    with pytest.raises(NotFoundError):
        closing()


def test_like_copies_the_vector_of_an_open_or_closed_record(store: NaiveStore) -> None:
    put(store, "a", vector=vec(0, 2))
    with store.writer() as w:
        w.close("c", "a", end_life=Life.RETRACTED)
        w.put("c", "b", payload={}, like="a")
    row = store.reader("c", View()).get(["b"], include=("vector",))[0]
    assert row is not None
    assert row.vector is not None
    assert row.vector.tolist() == [0, 1]
    assert row.payload is None


@pytest.mark.parametrize(
    "vector", [vec(1, 2, 3), vec(np.nan, 1), vec(np.inf, 1), vec(0, 0)], ids=["length", "nan", "infinity", "zero"]
)
def test_bad_vectors_are_refused(store: NaiveStore, vector: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError):
        put(store, "a", vector=vector)
    with pytest.raises((InvalidArgumentError, DimensionMismatchError)):
        store.reader("c", View()).search(vector)
    assert store.reader("c", View()).count() == 0


def test_vector_or_like_but_not_both_and_no_empty_window(store: NaiveStore) -> None:
    with store.writer() as w:
        with pytest.raises(InvalidArgumentError):
            w.put("c", "a", payload={})
        with pytest.raises(InvalidArgumentError):
            w.put("c", "a", payload={}, vector=vec(1, 0), like="b")
        with pytest.raises(InvalidArgumentError):
            w.put("c", "a", payload={}, vector=vec(1, 0), stamps=Stamps(valid_from=5, valid_to=5))


def test_what_is_stored_does_not_change_with_the_callers_objects(store: NaiveStore) -> None:
    payload = {"tags": ["x"]}
    put(store, "a", payload)
    payload["tags"].append("y")
    row = store.reader("c", View()).get(["a"])[0]
    assert row is not None
    assert row.payload == {"tags": ["x"]}
    row.payload["tags"].append("z")
    again = store.reader("c", View()).get(["a"])[0]
    assert again is not None
    assert again.payload == {"tags": ["x"]}


def test_pages_put_together_are_the_whole_in_id_order(store: NaiveStore) -> None:
    names = [f"m{i}" for i in range(25)]
    for name in reversed(names):
        put(store, name)
    reader = store.reader("c", View())
    for size in (1, 7, 25, 100):
        seen: list[str] = []
        after = None
        while True:
            page = reader.scan(limit=size, after=after)
            seen += [row.id for row in page.rows]
            after = page.next
            if after is None:
                break
        assert seen == sorted(names)


def test_search_orders_by_nearness_and_then_by_id(store: NaiveStore) -> None:
    put(store, "far", vector=vec(-1, 0))
    put(store, "b", vector=vec(2, 0))
    put(store, "a", vector=vec(3, 0))
    put(store, "mid", vector=vec(1, 1))
    hits = store.reader("c", View()).search(vec(1, 0), k=3)
    assert [hit.id for hit in hits] == ["a", "b", "mid"]
    assert hits[0].distance == pytest.approx(0.0)


def test_hybrid_with_alpha_one_is_the_vector_order_and_with_zero_the_text_order(store: NaiveStore) -> None:
    put(store, "x", {"body": "red bicycle"}, vector=vec(-1, 0))
    put(store, "y", {"body": "red red bicycle bicycle shop of the town"}, vector=vec(1, 0))
    put(store, "z", {"body": "nothing"}, vector=vec(1, 1))
    reader = store.reader("c", View())
    texts = [hit.id for hit in reader.search(text="bicycle", k=9)]
    assert set(texts) == {"x", "y"}
    assert [h.id for h in reader.search(vec(1, 0), text="bicycle", alpha=0.0, k=2)] == texts
    assert [h.id for h in reader.search(vec(1, 0), text="bicycle", alpha=1.0, k=3)] == ["y", "z", "x"]


def test_text_scores_do_not_change_with_hidden_rows(store: NaiveStore) -> None:
    put(store, "x", {"body": "red bicycle"})
    put(store, "y", {"body": "blue car"})
    before = store.reader("c", View()).text_scores("bicycle", ["x", "y"])
    for i in range(5):
        put(store, f"h{i}", {"body": "bicycle bicycle"}, stamps=Stamps(life=Life.PENDING))
    after = store.reader("c", View()).text_scores("bicycle", ["x", "y", "h0"])
    assert after[:2].tolist() == before.tolist()
    assert before[0] > 0 == before[1]
    assert np.isnan(after[2])


def test_chinese_runs_and_names_within_them_are_found(store: NaiveStore) -> None:
    put(store, "a", {"body": "数据库检索系统很快"})
    put(store, "b", {"body": "用docker部署"})
    reader = store.reader("c", View())
    assert [h.id for h in reader.search(text="数据库")] == ["a"]
    assert [h.id for h in reader.search(text="docker")] == ["b"]


def test_facets_count_visible_rows_and_lists_element_by_element(store: NaiveStore) -> None:
    put(store, "a", {"tags": ["x", "y"], "n": {"m": 1}})
    put(store, "b", {"tags": ["x"], "n": {"m": 1.0}})
    put(store, "c", {"tags": ["x"]}, stamps=Stamps(life=Life.PENDING))
    reader = store.reader("c", View())
    assert reader.facets("tags") == [("x", 2), ("y", 1)]
    assert reader.facets("n.m") == [(1, 2)]
    assert reader.facets("missing") == []


def test_a_closed_store_refuses(store: NaiveStore) -> None:
    store.close()
    with pytest.raises(ClosedError):
        store.reader("c", View())
    with pytest.raises(ClosedError):
        store.writer()


def test_kv_scan_is_sorted_and_by_prefix(store: NaiveStore) -> None:
    with store.writer() as w:
        for key in ("b", "a1", "a2"):
            w.kv_set("n", key, key.encode())
    assert list(store.kv_scan("n", prefix="a")) == [("a1", b"a1"), ("a2", b"a2")]
    with store.writer() as w:
        w.kv_delete("n", "a1")
    assert [k for k, _ in store.kv_scan("n")] == ["a2", "b"]


def test_ensure_collection_keeps_the_meta_of_its_making(store: NaiveStore) -> None:
    assert store.ensure_collection("c", dim=9, text_fields=(), language=None, meta={"a": 2}) == {"a": 1}


def test_fake_embedder_is_deterministic_and_names_make_spaces() -> None:
    one, two, other = FakeEmbedder(), FakeEmbedder(), FakeEmbedder(name="other")
    texts = ["Ann moved to Rome", "", "Ann moved to Milan", "quantum"]
    rows = one.embed(texts)
    assert np.array_equal(rows, two.embed(texts))
    assert not np.array_equal(rows, other.embed(texts))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[2] > rows[0] @ rows[3]
    assert one.fingerprint() != other.fingerprint()
