"""Starts, stops, edits and kills of every day: what was acknowledged is there, and stays findable."""

from __future__ import annotations

import os
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


def test_a_hundred_starts_and_stops_leave_whole_files_and_a_bounded_number(tmp_path: Path) -> None:
    path = tmp_path / "s.kdb"
    for turn in range(100):
        with kektordb.open(path) as db:
            if turn == 0:
                db.create_collection("c", dim=4, text_fields="t")
            c = db.collection("c")
            assert len(c) == turn
            c.upsert(str(turn), np.eye(4)[turn % 4], [{"t": f"word{turn}"}])
        files = [p for p in path.rglob("*") if p.is_file() and p.name != "LOCK"]
        assert all(p.stat().st_size > 0 for p in files)
        assert len(files) <= 50, "file count is bounded"
    assert kektordb.verify(path) == []


def test_a_folder_that_was_removed_can_be_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.kdb"
    with kektordb.open(path) as db:
        db.create_collection("c", dim=2).upsert("a", [1, 0])
    shutil.rmtree(path)
    with kektordb.open(path) as db:
        assert db.collections() == []
        c = db.create_collection("c", dim=2)
        c.upsert("b", [0, 1])
        assert (len(c), c.get("a")) == (1, [None])


WRITES = {
    "upsert": "c.upsert('new', [0, 1], [{'t': 'fresh'}])",
    "delete": "c.delete('old')",
    "set_payload": "c.set_payload('old', {'t': 'changed'})",
    "batch": 'exec(\'with db.batch() as b:\\n b.upsert("c", "new", [0, 1])\\n b.delete("c", "old")\')',
    "kv": "db.kv('n').set('k', b'v')",
    "create": "db.create_collection('more', dim=3)",
    "drop": "db.drop_collection('c')",
    "save": "mem.save('the sky is blue')",
    "evolve": "mem.evolve(first, 'Ann lives in Milan')",
    "retract": "mem.retract(first, reason='no')",
    "pin": "mem.pin(first)",
}


@pytest.mark.parametrize("write", list(WRITES))
def test_every_kind_of_write_survives_a_kill_after_its_answer(tmp_path: Path, write: str) -> None:
    path = tmp_path / "s.kdb"
    with kektordb.open(path) as db:
        db.create_collection("c", dim=2, text_fields="t").upsert("old", [1, 0], [{"t": "past"}])
        with db.memory(embedder=HashEmbedder(32)) as mem:
            first = mem.save("Ann lives in Rome").id
    code = f"""
import os, signal, kektordb
from kektordb.embed.fake import HashEmbedder
db = kektordb.open({str(path)!r})
c, mem, first = db["c"], db.memory(embedder=HashEmbedder(32)), {first!r}
{WRITES[write]}
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    with kektordb.open(path) as db:
        mem = db.memory(embedder=HashEmbedder(32))
        texts = [h.text for h in mem.recall("where does Ann live? sky", k=9)]
        c = db["c"] if "c" in db.collections() else None
        seen = {
            "upsert": lambda: c is not None and "new" in c and c.search(text="fresh", k=1).ids == ["new"],
            "delete": lambda: c is not None and "old" not in c and len(c) == 0,
            "set_payload": lambda: c is not None and c.search(text="changed", k=1).ids == ["old"],
            "batch": lambda: c is not None and [r.id for r in c] == ["new"],
            "kv": lambda: db.kv("n").get("k") == b"v",
            "create": lambda: "more" in db.collections(),
            "drop": lambda: c is None,
            "save": lambda: "the sky is blue" in texts,
            "evolve": lambda: "Ann lives in Milan" in texts and "Ann lives in Rome" not in texts,
            "retract": lambda: texts == [],
            "pin": lambda: mem.get(first).pinned,
        }
        assert seen[write]()


def test_a_memory_stays_readable_and_findable_through_random_edits(tmp_path: Path) -> None:
    rng = random.Random(5)
    path = tmp_path / "s.kdb"
    db = kektordb.open(path)
    mem = db.memory(embedder=HashEmbedder(64))
    words = {mem.save(f"note{i} start{i}").lineage: f"start{i}" for i in range(20)}
    for step in range(150):
        lineage = rng.choice(list(words))
        if rng.random() < 0.6:
            old, words[lineage] = words[lineage], f"word{step}"
            mem.evolve(lineage, f"{mem.get(lineage).text.split()[0]} word{step}")
            hits = mem.recall(old, k=30)
            assert all(old not in h.text.split() for h in hits), "the old words are in the history alone"
        else:
            rng.choice([mem.pin, mem.unpin, mem.reinforce])(lineage)
        assert words[lineage] in mem.get(lineage).text
        assert words[lineage] in [w for h in mem.recall(words[lineage], k=3) for w in h.text.split()]
        if step % 50 == 49:
            mem.close()
            db.close()
            db = kektordb.open(path)
            mem = db.memory(embedder=HashEmbedder(64))
            assert mem.count() == len(words)
    db.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_refused_and_the_parent_unharmed(tmp_path: Path) -> None:
    code = f"""
import os, kektordb
db = kektordb.open({str(tmp_path / "s.kdb")!r})
c = db.create_collection("c", dim=2)
pid = os.fork()
if pid == 0:
    try:
        c.upsert("child", [1, 0])
    except kektordb.KektorError as e:
        os._exit(7 if e.code == "locked" else 8)
    os._exit(9)
_, status = os.waitpid(pid, 0)
c.upsert("parent", [0, 1])
print(os.waitstatus_to_exitcode(status), [r.id for r in c])
db.close()
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.strip() == "7 ['parent']", run.stderr
