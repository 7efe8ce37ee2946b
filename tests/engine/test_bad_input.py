"""Bad input gets an error of its own class that says what was wrong, and nothing that was there changes by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kektordb
from kektordb import F
from kektordb.engine.collection import Collection
from kektordb.errors import (
    AlreadyExistsError,
    ClosedError,
    DimensionMismatchError,
    DtypeError,
    FilterSyntaxError,
    FormatVersionError,
    InvalidArgumentError,
    KektorError,
    LimitExceededError,
    LockedError,
    NotFoundError,
    OutOfSpaceError,
    PoisonedError,
    StorageError,
)

HALF = "\ud83d"
DEEP: list[Any] = []
for _ in range(100):
    DEEP = [DEEP]


def state(docs: Collection) -> list[Any]:
    rows = docs.scan(include=("payload", "vector")).rows
    return [(r.id, r.payload, None if r.vector is None else r.vector.tolist()) for r in rows]


def row(*values: float) -> np.ndarray[Any, Any]:
    return np.array([values], np.float32)


ONE = row(1, 1, 1, 1)

# What is done, the class of the error, and a part of its text.
WRITES: dict[str, tuple[Callable[[Collection], object], type[KektorError], str]] = {
    "too many dimensions": (lambda c: c.upsert(["x"], row(1, 2, 3, 4, 5)), DimensionMismatchError, "5.*has 4"),
    "too few dimensions": (lambda c: c.upsert(["x"], row(1)), DimensionMismatchError, "1.*has 4"),
    "a cube": (lambda c: c.upsert(["x"], np.ones((1, 4, 1))), InvalidArgumentError, "3 dimensions"),
    "NaN": (lambda c: c.upsert(["x"], row(1, 2, np.nan, 4)), InvalidArgumentError, '"x": element 2 is NaN'),
    "infinity": (lambda c: c.upsert(["x"], row(1, np.inf, 3, 4)), InvalidArgumentError, '"x": element 1 is inf'),
    "minus infinity": (lambda c: c.upsert(["x"], row(-np.inf, 2, 3, 4)), InvalidArgumentError, "element 0 is -inf"),
    "NaN in the last of many": (
        lambda c: c.upsert(["a", "x"], np.vstack([ONE, row(1, 2, 3, np.nan)])),
        InvalidArgumentError,
        '"x": element 3',
    ),
    "beyond float32": (lambda c: c.upsert(["x"], np.full((1, 4), 1e39)), InvalidArgumentError, "beyond float32"),
    "no direction": (lambda c: c.upsert(["x"], row(0, 0, 0, 0)), InvalidArgumentError, "zero.*l2"),
    "texts": (lambda c: c.upsert(["x"], np.array([["1", "2", "3", "4"]])), DtypeError, "dtype <U1.*float32"),
    "complex numbers": (lambda c: c.upsert(["x"], ONE * 1j), DtypeError, "complex"),
    "booleans": (lambda c: c.upsert(["x"], ONE > 0), DtypeError, "bool"),
    "objects": (lambda c: c.upsert(["x"], [[None] * 4]), DtypeError, "object"),
    "dates": (lambda c: c.upsert(["x"], np.zeros((1, 4), "datetime64[s]")), DtypeError, "datetime64"),
    "ragged rows": (lambda c: c.upsert(["x", "y"], [[1, 2, 3, 4], [1, 2]]), InvalidArgumentError, "one length"),
    "more ids than vectors": (lambda c: c.upsert(["x", "y"], ONE), InvalidArgumentError, "2 ids and 1 vectors"),
    "an empty id": (lambda c: c.upsert(["x", ""], np.vstack([ONE, ONE])), InvalidArgumentError, "id is empty"),
    "an id twice": (lambda c: c.upsert(["x", "x"], np.vstack([ONE, ONE])), InvalidArgumentError, "'x' stands twice"),
    "an id twice in a deletion": (lambda c: c.delete(["a", "a"]), InvalidArgumentError, "'a' stands twice"),
    "a number as an id": (lambda c: c.upsert([1], ONE), InvalidArgumentError, "id 0 is a int"),  # type: ignore[list-item]
    "a number as ids": (lambda c: c.upsert(1, ONE), InvalidArgumentError, "ids are a int"),  # type: ignore[arg-type]
    "bytes as ids": (lambda c: c.delete(b"ab"), InvalidArgumentError, "ids are a bytes"),  # type: ignore[arg-type]
    "an id past the limit": (lambda c: c.upsert(["x" * 4097], ONE), LimitExceededError, "MAX_ID_BYTES is 4096"),
    "half of a character in an id": (lambda c: c.upsert([HALF], ONE), InvalidArgumentError, "half of a character"),
    "half of one in a payload": (lambda c: c.upsert(["x"], ONE, [{"t": HALF}]), InvalidArgumentError, "half of a"),
    "half of one in a key": (lambda c: c.set_payload("a", {HALF: 1}), InvalidArgumentError, "half of a character"),
    "a payload too many": (lambda c: c.upsert(["x"], ONE, [{}, {}]), InvalidArgumentError, "1 ids and 2 payloads"),
    "a list as a payload": (lambda c: c.upsert(["x"], ONE, [[1]]), InvalidArgumentError, "payload is a list"),  # type: ignore[list-item]
    "a number as payloads": (lambda c: c.upsert(["x"], ONE, 3), InvalidArgumentError, "payloads are a int"),  # type: ignore[arg-type]
    "NaN in a payload": (lambda c: c.set_payload("a", {"x": float("nan")}), InvalidArgumentError, "no JSON form"),
    "a set in a payload": (lambda c: c.set_payload("a", {"x": {1}}), InvalidArgumentError, "set is not JSON"),
    "a number past any double": (lambda c: c.set_payload("a", {"x": 10**400}), InvalidArgumentError, "out of range"),
    "a payload nested too deeply": (lambda c: c.set_payload("a", {"x": DEEP}), LimitExceededError, "MAX_PAYLOAD_DEPTH"),
    "a payload for an absent row": (lambda c: c.set_payload(["a", "zz"], {"x": 1}), NotFoundError, '"zz" in "docs"'),
    "an unknown durability": (lambda c: c.upsert(["x"], ONE, durability="soon"), InvalidArgumentError, "buffered"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRITES)
def test_a_wrong_write_is_refused_and_changes_nothing(docs: Collection, what: str) -> None:
    act, kind, says = WRITES[what]
    before = state(docs)
    with pytest.raises(kind, match=says) as told:
        act(docs)
    assert told.type is kind
    assert state(docs) == before
    docs.upsert(["x"], ONE)  # positive control: the collection still takes rows
    assert "x" in docs


READS: dict[str, tuple[Callable[[Collection], object], type[KektorError], str]] = {
    "a query of another dimension": (lambda c: c.search(np.ones(5)), DimensionMismatchError, "5.*has 4"),
    "of another dimension, fast path": (
        lambda c: c.search_rows(np.ones(5, np.float32), 1, 10),
        DimensionMismatchError,
        "5.*has 4",
    ),
    "queries of another dimension": (lambda c: c.search_batch(np.ones((2, 5))), DimensionMismatchError, "5.*has 4"),
    "a NaN": (lambda c: c.search([1, np.nan, 1, 1]), InvalidArgumentError, "element 1 is NaN"),
    "a NaN, fast path": (lambda c: c.search_rows(row(1, np.nan, 1, 1)[0], 1, 10), InvalidArgumentError, "is NaN"),
    "a query without direction": (lambda c: c.search(np.zeros(4)), InvalidArgumentError, "zero"),
    "float64 on the fast path": (lambda c: c.search_rows(np.ones(4), 1, 10), DtypeError, "float64.*float32"),  # type: ignore[arg-type]
    "every other number, fast path": (
        lambda c: c.search_rows(np.ones(8, np.float32)[::2], 1, 10),
        KektorError,
        "contiguous",
    ),
    "neither vector nor text": (lambda c: c.search(), InvalidArgumentError, "neither a vector nor a text"),
    "a number as text": (lambda c: c.search(text=5), InvalidArgumentError, "text is a int"),  # type: ignore[arg-type]
    "half of a character": (lambda c: c.search(text=HALF), InvalidArgumentError, "half of a character"),
    "half of one to explain": (lambda c: c.explain_text(HALF, "a"), InvalidArgumentError, "half of a character"),
    "half of one as an id": (lambda c: c.get([HALF]), InvalidArgumentError, "half of a character"),
    "half of one in a filter": (lambda c: c.count(filter=f"x = '{HALF}'"), FilterSyntaxError, "half of a character"),
    "half of one in a built filter": (lambda c: c.count(filter=F.x == HALF), InvalidArgumentError, "half of a"),
    "half of one as a field": (lambda c: c.facets(HALF), InvalidArgumentError, "half of a character"),
    "alpha below 0": (lambda c: c.search(ONE[0], text="x", alpha=-0.1), InvalidArgumentError, "alpha is -0.1"),
    "alpha above 1": (lambda c: c.search(ONE[0], text="x", alpha=2), InvalidArgumentError, "alpha is 2"),
    "alpha that is no number": (lambda c: c.search(ONE[0], alpha=float("nan")), InvalidArgumentError, "alpha is NaN"),
    "a text as alpha": (lambda c: c.search(ONE[0], alpha="x"), InvalidArgumentError, "alpha is 'x'"),  # type: ignore[arg-type]
    "a bound that is no number": (
        lambda c: c.search(ONE[0], max_distance=float("nan")),
        InvalidArgumentError,
        "max_distance is nan",
    ),
    "an unknown thing to include": (lambda c: c.get("a", include=["score"]), InvalidArgumentError, "'score'"),
    "a page of none": (lambda c: c.scan(limit=0), InvalidArgumentError, "limit is 0"),
    "facets of less than none": (lambda c: c.facets("n", limit=-1), InvalidArgumentError, "limit is -1"),
    "a page after a word": (lambda c: c.scan(after="x"), InvalidArgumentError, "after is 'x'"),
    "a page after a negative row": (lambda c: c.scan(after="-1"), InvalidArgumentError, "after is '-1'"),
    "a page after no row at all": (lambda c: c.scan(after="9" * 30), InvalidArgumentError, "next"),
    "fewer threads than none": (lambda c: c.search_batch(ONE, threads=-1), InvalidArgumentError, "threads is -1"),
    "an unfinished filter": (lambda c: c.search(ONE[0], filter="n >"), FilterSyntaxError, "expected a value"),
    "an unknown kind of value": (lambda c: c.search(ONE[0], filter="n = colour"), FilterSyntaxError, "colour"),
    "an unknown kind of value, built": (
        lambda c: c.search(ONE[0], filter=F.n == object()),
        InvalidArgumentError,
        "object",
    ),
    "a number as a filter": (lambda c: c.count(filter=5), InvalidArgumentError, "filter is a int"),
    "a mapping as a filter": (lambda c: c.count(filter={"n": 1}), InvalidArgumentError, "n = 1"),
}


@pytest.mark.parametrize("what", READS)
def test_a_wrong_question_is_refused(docs: Collection, what: str) -> None:
    act, kind, says = READS[what]
    with pytest.raises(kind, match=f"(?s){says}"):
        act(docs)
    assert docs.search(ONE[0], k=3, filter="n >= 0").ids  # positive control


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None, 1_000_001, 2**31, 2**64])
def test_a_k_of_none_or_beyond_the_limit_is_refused_on_every_door(docs: Collection, k: Any) -> None:
    for ask in (
        lambda: docs.search(ONE[0], k=k),
        lambda: docs.search(text="common", k=k),
        lambda: docs.search(ONE[0], text="common", k=k, filter="n = 1"),
        lambda: docs.search_batch(ONE, k=k),
    ):
        with pytest.raises(InvalidArgumentError, match="k is"):
            ask()
    if k is not True:  # the fast path takes what Python takes for a whole number
        with pytest.raises(InvalidArgumentError, match="k is"):
            docs.search_rows(ONE[0], k, 10)


@pytest.mark.parametrize("ef", [-1, 1.5, "3", 1_000_001, 2**64])
def test_a_width_beyond_the_limits_is_refused(docs: Collection, ef: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="ef_search is"):
        docs.search(ONE[0], ef_search=ef)
    with pytest.raises(InvalidArgumentError, match="ef_search is"):
        docs.search_rows(ONE[0], 1, ef)
    assert len(docs.search(ONE[0], ef_search=1)) == 3


def test_a_k_of_a_million_gives_what_there_is(docs: Collection) -> None:
    for hits in (
        docs.search(ONE[0], k=1_000_000),
        docs.search(ONE[0], k=1_000_000, exact=True),
        docs.search(text="common", k=1_000_000),
        docs.search(ONE[0], text="common", k=1_000_000),
        docs.search_batch(ONE, k=1_000_000)[0],
    ):
        assert sorted(hits.ids) == ["a", "b", "c"]


@pytest.mark.parametrize("index", ["graph", "flat"])
def test_an_empty_collection_answers_with_nothing(db: kektordb.Database, index: str) -> None:
    docs = db.create_collection("empty", dim=4, text_fields=["body"], index=index)
    for _ in range(2):
        assert len(docs) == 0
        assert docs.search(ONE[0]).ids == docs.search(text="x").ids == docs.search(ONE[0], text="x").ids == []
        assert docs.search(ONE[0], filter="n = 1", exact=True).ids == []
        assert docs.search_batch(ONE)[0].ids == []
        assert docs.search_rows(ONE[0], 3, 10)[0].tolist() == []
        assert docs.scan().rows == ()
        assert docs.facets("n") == []
        assert docs.get(["a"]) == [None]
        assert docs.delete(["a"]) == 0
        docs.upsert([], np.zeros((0, 4)))
        db.checkpoint()
        db.vacuum()


COLLECTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "dim 0": ({"dim": 0}, "dim is 0"),
    "dim -1": ({"dim": -1}, "dim is -1"),
    "dim 65537": ({"dim": 65537}, "65536"),
    "dim 2**59": ({"dim": 2**59}, "65536"),
    "dim 2**63": ({"dim": 2**63}, "65536"),
    "dim 1.5": ({"dim": 1.5}, "dim is 1.5"),
    "metric": ({"metric": "euclid"}, '"euclid".*"cosine"'),
    "dtype": ({"dtype": "float8"}, '"float8".*"float32"'),
    "index": ({"index": "ivf"}, "'ivf'.*graph"),
    "m": ({"hnsw": kektordb.HnswParams(m=10**9)}, "m is 1000000000.*256"),
    "ef": ({"hnsw": kektordb.HnswParams(ef_construction=0)}, "ef_construction is 0"),
    "language": ({"text_fields": "t", "language": "klingon"}, '"klingon".*italian'),
    "text field": ({"text_fields": [1]}, "text field is a int"),
    "meta NaN": ({"meta": {"a": float("nan")}}, "meta holds"),
    "meta set": ({"meta": {"a": {1}}}, "meta holds"),
}


@pytest.mark.parametrize("what", COLLECTIONS)
def test_a_collection_that_cannot_be_is_refused_before_anything_is_made(db: kektordb.Database, what: str) -> None:
    settings, says = COLLECTIONS[what]
    with pytest.raises(InvalidArgumentError, match=says):
        db.create_collection("new", **{"dim": 4, **settings})
    assert db.collections() == []
    assert db.create_collection("new", dim=4).dim == 4


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../up", "A", "a b", "a\n", "a\0", "🎉", "x" * 64, HALF, 5, None]
)
def test_a_collections_name_is_of_a_form_that_every_system_takes_as_a_file(db: kektordb.Database, name: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        db.create_collection(name, dim=4)
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        db.collection(name)
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        db.drop_collection(name)


def test_taken_and_missing_names_are_told_apart(db: kektordb.Database, docs: Collection) -> None:
    with pytest.raises(AlreadyExistsError, match="docs"):
        db.create_collection("docs", dim=4)
    for act in (lambda: db.collection("nope"), lambda: db.drop_collection("nope")):
        with pytest.raises(NotFoundError, match="nope"):
            act()
    assert len(docs) == 3


@pytest.mark.parametrize("value", ["text", 5, None, [1]])
def test_a_value_that_is_not_bytes_is_refused(db: kektordb.Database, value: Any) -> None:
    kv = db.kv("space")
    with pytest.raises(InvalidArgumentError, match="give bytes"):
        kv.set("key", value)
    for act in (
        lambda: kv.set(5, b""),  # type: ignore[arg-type]
        lambda: kv.get(HALF),
        lambda: kv.set(HALF, b""),
        lambda: list(kv.scan(prefix=HALF)),
        lambda: db.kv(HALF).set("a", b""),
    ):
        with pytest.raises(InvalidArgumentError):
            act()
    assert list(kv.scan()) == []


@pytest.mark.parametrize(
    "id",
    [
        "a/b",
        "../../etc/passwd",
        "/",
        "..",
        "'",
        '"',
        "a\"b'c",
        "🎉★外币",
        "a b\n\t",
        "%s{0}",
        "C:\\x",
        "\0",
        "a\0b",
        " ",
        "x" * 4096,
    ],
)
def test_an_id_of_any_text_is_kept_as_it_is(tmp_path: Path, id: str) -> None:
    for again in range(2):
        with kektordb.open(tmp_path / "a.kdb") as db:
            if not again:
                db.create_collection("docs", dim=4, text_fields=["body"])
                db["docs"].upsert(["other", id], np.eye(4)[:2], [{}, {"body": id, "n": 1}])
            docs = db["docs"]
            assert docs.search(np.eye(4)[1], k=1).ids == [id]
            assert id in docs
            [found] = docs.get(id)
            assert found is not None
            assert found.payload == {"body": id, "n": 1}
            assert docs.scan(filter=F.body == id).rows[0].id == id
            assert sorted(docs.row_ids()) == sorted(["other", id])
    with kektordb.open(tmp_path / "a.kdb") as db:
        assert db["docs"].delete(id) == 1
        assert id not in db["docs"]
        assert "other" in db["docs"]


def test_nul_in_text_payload_and_keys_goes_in_and_out_unchanged(docs: Collection) -> None:
    docs.upsert(["n"], ONE, [{"k\0": "v\0w", "body": "before\0after"}])
    [found] = docs.get("n")
    assert found is not None
    assert found.payload == {"k\0": "v\0w", "body": "before\0after"}
    assert docs.scan(filter=F["k\0"] == "v\0w").rows[0].id == "n"
    assert docs.search(text="after").ids == ["n"]
    assert docs.search(text="before\0").ids == ["n"]


def test_ten_megabytes_of_text_go_in_and_are_found_by_first_and_last_word(docs: Collection) -> None:
    body = "firstword " + "lorem ipsum dolor sit amet " * 390_000 + " lastword"
    assert len(body) > 10_000_000
    started = time.monotonic()
    docs.upsert(["big"], ONE, [{"body": body}])
    for word in ("firstword", "lastword", "ipsum"):
        assert docs.search(text=word).ids == ["big"]
    [found] = docs.get("big")
    assert found is not None
    assert found.payload == {"body": body}
    docs.upsert(["one"], ONE, [{"body": "x" * 10_000_000 + " tail"}])
    assert docs.search(text="tail").ids == ["one"]
    assert len(docs.search(text=body, k=5)) == 1, "the text itself is a question, too"
    assert time.monotonic() - started < 120, "linear, not quadratic"


def test_a_text_as_large_as_a_payload_may_be_and_one_byte_more(docs: Collection) -> None:
    with pytest.raises(LimitExceededError, match="MAX_PAYLOAD_BYTES"):
        docs.upsert(["big"], ONE, [{"x": "x" * (128 << 20)}])
    assert len(docs) == 3


# -- paths, formats, locks, space


def test_a_path_that_cannot_be_a_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        kektordb.open(file)
    with pytest.raises(StorageError, match=r"notes\.txt"):
        kektordb.open(file / "below.kdb")
    assert file.read_text() == "mine"
    for bad in ("", "a\0b", f"{tmp_path}/{HALF}", 5, None, b"bytes"):
        with pytest.raises(InvalidArgumentError):
            kektordb.open(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="salvage"):
        kektordb.open(tmp_path / "x", recovery="maybe")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt"]


@pytest.mark.parametrize("create", [True, False])
def test_a_folder_of_something_else_is_refused_and_nothing_is_written_into_it(tmp_path: Path, create: bool) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"jpg")
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        kektordb.open(tmp_path, create=create)
    assert [p.name for p in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_missing_path_is_refused_where_it_may_not_be_made(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}, {"create": False, "read_only": True}):
        with pytest.raises(NotFoundError, match=r"none\.kdb"):
            kektordb.open(tmp_path / "none.kdb", **options)
    with pytest.raises(NotFoundError, match=r"none\.kdb"):
        kektordb.verify(tmp_path / "none.kdb")
    assert list(tmp_path.iterdir()) == []
    with kektordb.open(tmp_path / "none.kdb"):
        pass
    with kektordb.open(tmp_path / "none.kdb", create=False) as db:
        assert db.collections() == []


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_database_of_a_newer_format_is_named_as_that_and_not_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    with kektordb.open(path) as db:
        db.create_collection("docs", dim=4).upsert("a", ONE)
    current = path / "CURRENT"
    old = current.read_bytes()
    assert old[60:64] == crc32c(old[:60]).to_bytes(4, "little"), "positive control: this is how a header is sealed"
    head = bytearray(old[:60])
    head[8:10] = (99).to_bytes(2, "little")
    rest = bytes(head) + crc32c(bytes(head)).to_bytes(4, "little") + old[64:-4]
    current.write_bytes(rest + crc32c(rest).to_bytes(4, "little"))
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    for options in ({}, {"read_only": True}, {"recovery": "salvage"}):
        with pytest.raises(FormatVersionError, match=r"99.*newer"):
            kektordb.open(path, **options)
    after = {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "LOCK"}
    assert after == {p: b for p, b in before.items() if p.name != "LOCK"}, "what cannot be read is not touched"
    current.write_bytes(old)
    with kektordb.open(path) as db:
        assert "a" in db["docs"]


HOLDER = """
import kektordb, sys
with kektordb.open(sys.argv[1]) as db:
    db.create_collection("docs", dim=4).upsert("a", [[1, 2, 3, 4]])
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path / "a.kdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        yield child
        child.kill()


def test_a_second_process_is_told_who_holds_the_database(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(LockedError, match=f"process {holder.pid}") as told:
        kektordb.open(tmp_path / "a.kdb")
    assert str(holder.pid) in str(told.value.context["holder"])
    for word in ("delete", "remove", "format"):
        assert word not in str(told.value).lower(), "no advice that loses data"
    with kektordb.open(tmp_path / "a.kdb", read_only=True) as db:
        assert "a" in db["docs"], "reading needs no lock"
    holder.kill()
    holder.wait()
    with kektordb.open(tmp_path / "a.kdb") as db:
        assert "a" in db["docs"], "the lock of a dead process is no lock"


def test_a_second_handle_of_one_process_is_told_that_it_is_open_here(tmp_path: Path) -> None:
    with kektordb.open(tmp_path / "a.kdb"), pytest.raises(LockedError, match="this process"):
        kektordb.open(tmp_path / "a.kdb")
    with kektordb.open(tmp_path / "a.kdb"):
        pass


def test_a_closed_database_says_so(db: kektordb.Database, docs: Collection) -> None:
    db.close()
    db.close()
    for act in (lambda: docs.get("a"), lambda: docs.upsert("a", ONE), lambda: docs.search(ONE[0]), db.stats, db.vacuum):
        with pytest.raises(ClosedError):
            act()


def test_a_read_only_database_takes_no_writes(tmp_path: Path) -> None:
    with kektordb.open(tmp_path / "a.kdb") as db:
        db.create_collection("docs", dim=4).upsert("a", ONE)
    with kektordb.open(tmp_path / "a.kdb", read_only=True) as db:
        for act in (
            lambda: db["docs"].upsert("b", ONE),
            lambda: db["docs"].delete("a"),
            lambda: db["docs"].set_payload("a", {"x": 1}),
            lambda: db.create_collection("more", dim=4),
            lambda: db.drop_collection("docs"),
            lambda: db.kv("n").set("k", b""),
        ):
            with pytest.raises(KektorError, match="read-only"):
                act()
        assert db["docs"].search(ONE[0]).ids == ["a"]


FILL = """
import kektordb, numpy as np, sys
from kektordb.errors import KektorError, OutOfSpaceError
path = sys.argv[1] + "/a.kdb"
rng = np.random.default_rng(1)
db = kektordb.open(path)
docs = db.create_collection("docs", dim=64, index=sys.argv[2])
acked, told = [], None
for i in range(100_000):
    try:
        docs.upsert([f"r{i}"], rng.standard_normal((1, 64)), [{"n": i, "filler": "x" * 2000}])
    except KektorError as e:
        told = e
        break
    acked.append(f"r{i}")
assert isinstance(told, OutOfSpaceError), repr(told)
assert len(acked) > 100, len(acked)
assert sorted(docs.row_ids()) == sorted(acked), "reads go on"
unknown = f"r{len(acked)}"  # its call failed: whole or absent
try:
    docs.upsert(["more"], np.ones((1, 64)))
    raise SystemExit("a write after a failed one was taken")
except KektorError as e:
    print(type(e).__name__)
try:
    db.close()
except KektorError as e:
    print(type(e).__name__)
with kektordb.open(path, read_only=True) as db:
    assert sorted(set(db["docs"].row_ids()) - {unknown}) == sorted(acked)
import os
os.remove(sys.argv[1] + "/ballast")
with kektordb.open(path) as db:
    docs = db["docs"]
    assert sorted(set(docs.row_ids()) - {unknown}) == sorted(acked)
    assert len(docs) - len(acked) in (0, 1)
    docs.upsert(["after"], np.ones((1, 64)))
    assert docs.search(np.ones(64), k=1).ids == ["after"]
print("kept", len(acked))
"""


@pytest.mark.parametrize("index", ["graph", "flat"])
def test_a_full_disk_is_named_and_nothing_acknowledged_is_lost(tmp_path: Path, index: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = tmp_path / "fill.py"
    fill.write_text(FILL)
    mount = f"mount -t tmpfs -o size=24m tmpfs {disk} && head -c 18m /dev/zero > {disk}/ballast"
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, check=False).returncode
        ):
            break
    else:
        pytest.skip("NO SMALL DISK CAN BE MOUNTED HERE (no unshare): a full disk is tested by simulation alone")
    done = subprocess.run(
        [*unshare, "sh", "-c", f'{mount} && exec "$0" -P {fill} {disk} {index}', sys.executable],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(PoisonedError.__name__) or done.stdout.startswith(OutOfSpaceError.__name__)
    assert "kept" in done.stdout
