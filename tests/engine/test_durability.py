"""What returned is on the disk: cut logs, dead processes, many starts and stops, deleted bytes."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kektordb
from kektordb.embed.fake import HashEmbedder
from kektordb.errors import CorruptionError


def crashed(tmp_path: Path, *, rows: int) -> Path:
    """The files of a database whose process died: copied while it was open, after `rows` single writes."""
    live, dead = tmp_path / "live.kdb", tmp_path / "dead.kdb"
    with kektordb.open(live) as db:
        docs = db.create_collection("docs", dim=2, text_fields="body")
        for i in range(rows):
            docs.upsert(f"r{i}", [[1, i + 1]], [{"n": i, "body": f"word{i}"}])
        shutil.copytree(live, dead)
    return dead


def log_of(path: Path) -> Path:
    return max((path / "log").iterdir())


def used(log: bytes) -> int:
    """Where the zeros ahead of the log begin."""
    return len(log.rstrip(b"\0"))


def test_two_records_never_merge_wherever_the_last_one_was_cut(tmp_path: Path) -> None:
    short, whole = crashed(tmp_path / "a", rows=3), crashed(tmp_path / "b", rows=4)
    end = used(log_of(whole).read_bytes())
    start = used(log_of(short).read_bytes()) + 8  # the third record may end in zeros
    full = log_of(whole).read_bytes()
    cut_ones = 0
    for cut in range(start, end + 1):
        path = tmp_path / f"cut{cut}.kdb"
        shutil.copytree(whole, path)
        log_of(path).write_bytes(full[:cut])
        with kektordb.open(path) as db:
            docs = db["docs"]
            assert len(docs) in (3, 4)
            assert {f"r{i}" for i in range(3)} <= {r.id for r in docs.scan().rows}
            cut_ones += len(docs) == 3
            docs.upsert("new", [[3, 3]], [{"body": "fresh"}])
            shutil.copytree(path, tmp_path / "again.kdb")
        for again in (tmp_path / "again.kdb", path):
            with kektordb.open(again) as db:
                assert "new" in db["docs"]
                assert {f"r{i}" for i in range(3)} <= {r.id for r in db["docs"].scan().rows}
                assert db["docs"].search(text="fresh").ids == ["new"]
        shutil.rmtree(tmp_path / "again.kdb")
        shutil.rmtree(path)
    assert cut_ones > 20, "positive control: the last record was really cut"


@pytest.mark.parametrize("tail", [b"", b"\0" * 100, b"\0" * 100_000, b"\xff" * 100, b"KDB\x93" * 50, b"garbage"])
def test_a_torn_zeroed_or_stale_tail_of_the_log_is_no_hindrance(tmp_path: Path, tail: bytes) -> None:
    dead = crashed(tmp_path, rows=5)
    log = log_of(dead)
    data = log.read_bytes()
    log.write_bytes(data[: used(data) + 8] + tail)
    with kektordb.open(dead) as db:
        assert len(db["docs"]) == 5
        db["docs"].upsert("more", [[1, 1]])
    with kektordb.open(dead) as db:
        assert len(db["docs"]) == 6


def test_a_zero_length_last_segment_is_legal(tmp_path: Path) -> None:
    dead = crashed(tmp_path, rows=5)
    first = log_of(dead)
    number = int(first.name.split(".")[0])
    with kektordb.open(dead, read_only=True) as db:
        report = db.recovery()
        assert report is not None
        last = report["last_lsn"]
    assert last > number
    data = first.read_bytes()
    first.write_bytes(data[: used(data)])
    (first.parent / f"{last + 1:020}{first.suffix}").touch()
    with kektordb.open(dead) as db:
        assert len(db["docs"]) == 5


def test_damage_in_the_middle_is_refused_with_file_and_offset_and_salvaged_on_request(tmp_path: Path) -> None:
    dead = crashed(tmp_path, rows=50)
    log = log_of(dead)
    data = bytearray(log.read_bytes())
    middle = used(bytes(data)) // 2
    data[middle] ^= 0x55
    log.write_bytes(bytes(data))
    with pytest.raises(CorruptionError) as told:
        kektordb.open(dead)
    assert told.value.context["file"] == str(log)
    assert int(str(told.value.context["offset"])) <= middle
    assert log.read_bytes() == bytes(data), "a refusal changes nothing"
    assert "delete" not in str(told.value).lower()
    with kektordb.open(dead, recovery="salvage") as db:
        assert 40 < len(db["docs"]) < 50
        report = db.recovery()
        assert report is not None
        assert len(report["gaps"]) == 1


WRITE = """
import kektordb, os, signal, sys
import numpy as np
db = kektordb.open(sys.argv[1])
if "docs" not in db:
    db.create_collection("docs", dim=2, text_fields="body", language=None)
    db["docs"].upsert(["old", "gone"], np.eye(2), [{"n": 1, "body": "old"}, {"n": 2, "body": "gone"}])
    db.kv("s").set("gone", b"1")
docs = db["docs"]
def batch():
    with db.batch(reason="r") as b:
        b.upsert("docs", "batched", [[1, 1]], [{"body": "batched"}])
        b.kv_set("s", "batched", b"1")
def memory():
    from kektordb.embed.fake import HashEmbedder
    db.memory("m", embedder=HashEmbedder(8)).save("a fact worth keeping")
{
    "upsert": lambda: docs.upsert("new", [[1, 1]], [{"body": "fresh"}]),
    "replace": lambda: docs.upsert("old", [[2, 1]], [{"body": "replaced"}]),
    "delete": lambda: docs.delete("gone"),
    "set_payload": lambda: docs.set_payload("old", {"n": 9}),
    "batch": batch,
    "kv_set": lambda: db.kv("s").set("k", b"v"),
    "kv_delete": lambda: db.kv("s").delete("gone"),
    "compare_and_set": lambda: db.kv("s").compare_and_set("gone", b"1", b"2"),
    "create": lambda: db.create_collection("second", dim=3),
    "drop": lambda: db.drop_collection("docs"),
    "flush": lambda: (docs.upsert("new", [[1, 1]], durability="buffered"), db.flush()),
    "checkpoint": lambda: (docs.upsert("new", [[1, 1]], durability="buffered"), db.checkpoint()),
    "memory": memory,
}[sys.argv[2]]()
os.kill(os.getpid(), signal.SIGKILL)
"""

EFFECTS = {
    "upsert": lambda db: db["docs"].search(text="fresh").ids == ["new"],
    "replace": lambda db: db["docs"].search(text="replaced").ids == ["old"] and not db["docs"].search(text="old").ids,
    "delete": lambda db: "gone" not in db["docs"] and not db["docs"].search(text="gone").ids,
    "set_payload": lambda db: [r.id for r in db["docs"].scan(filter="n = 9").rows] == ["old"],
    "batch": lambda db: "batched" in db["docs"] and db.kv("s").get("batched") == b"1",
    "kv_set": lambda db: db.kv("s").get("k") == b"v",
    "kv_delete": lambda db: db.kv("s").get("gone") is None,
    "compare_and_set": lambda db: db.kv("s").get("gone") == b"2",
    "create": lambda db: db["second"].dim == 3,
    "drop": lambda db: db.collections() == [],
    "flush": lambda db: "new" in db["docs"],
    "checkpoint": lambda db: "new" in db["docs"],
    "memory": lambda db: len(db.memory("m", embedder=HashEmbedder(8)).recall("fact worth keeping", k=1)) == 1,
}


@pytest.mark.parametrize("call", EFFECTS)
def test_every_changing_call_is_durable_when_it_returns(tmp_path: Path, call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", WRITE, str(tmp_path / "a.kdb"), call],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    for _ in range(2):
        with kektordb.open(tmp_path / "a.kdb") as db:
            assert EFFECTS[call](db)


def test_a_hundred_starts_and_stops_leave_whole_files_and_few_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    with kektordb.open(path) as db:
        db.create_collection("docs", dim=4, text_fields="body")
    for i in range(100):
        with kektordb.open(path) as db:
            docs = db["docs"]
            assert len(docs) == (i + 1) // 2
            if i % 2 == 0:
                docs.upsert(f"r{i}", [[1, 2, 3, i + 1]], [{"body": f"word{i}"}])
    files = [p for p in path.rglob("*") if p.is_file()]
    assert len(files) < 60, sorted(p.name for p in files)
    assert not [p for p in files if p.stat().st_size == 0]
    assert kektordb.verify(path) == []


def test_cycles_of_adding_and_deleting_do_not_grow_the_files_and_a_dropped_collection_leaves(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"

    def size() -> int:
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())

    sizes = []
    with kektordb.open(path) as db:
        docs = db.create_collection("docs", dim=16, text_fields="body")
        ids = [f"r{i}" for i in range(500)]
        for n in range(10):
            docs.upsert(ids, np.random.default_rng(n).standard_normal((500, 16)), [{"body": "some words"}] * 500)
            docs.delete(ids)
            db.vacuum()
            db.checkpoint()
            sizes.append(size())
        assert sizes[-1] <= 1.2 * sizes[0], sizes
        docs.upsert(ids, np.ones((500, 16)), [{"body": "x" * 1000}] * 500)
        db.checkpoint()
        full = size()
        db.drop_collection("docs")
        db.checkpoint()
        assert size() < full / 4


def test_hundreds_of_edits_leave_every_memory_readable_and_found_by_its_new_words(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    letters = "bcdfghjkmnpqrtvx"

    def word() -> str:
        return "w" + "".join(rng.choices(letters, k=9))

    path, embedder = tmp_path / "a.kdb", HashEmbedder(32)
    held: dict[str, str] = {}
    db = kektordb.open(path)
    mem = db.memory("m", embedder=embedder)
    for i in range(30):
        w = word()
        held[mem.save(f"note {i} {w}").id] = w
    for step in range(300):
        i, old = rng.choice(list(held.items()))
        kind = rng.choice(["text", "tags", "layer", "pin"])
        if kind == "text":
            w = word()
            del held[i]
            i = mem.evolve(i, f"edited {w}").id
            held[i] = w
            assert old not in " ".join(h.text for h in mem.recall(old, k=5))
        elif kind == "tags":
            del held[i]
            i = mem.evolve(i, tags=[f"t{step}"]).id
            held[i] = old
        elif kind == "layer":
            del held[i]
            i = mem.evolve(i, layer=rng.choice(["semantic", "episodic"])).id
            held[i] = old
        else:
            mem.pin(i)
        assert held[i] in mem.get(i).text
        assert held[i] in mem.recall(held[i], k=1)[0].text
        if step % 100 == 99:
            db.close()
            db = kektordb.open(path)
            mem = db.memory("m", embedder=embedder)
            for one, w in held.items():
                assert w in mem.get(one).text
                assert w in mem.recall(w, k=1)[0].text
    db.close()


def test_a_folder_that_was_removed_and_made_anew_works(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    for _ in range(3):
        with kektordb.open(path) as db:
            db.create_collection("docs", dim=2).upsert("a", [[1, 1]])
            assert len(db["docs"]) == 1
        shutil.rmtree(path)
