"""Kill -9 of a real writer, again and again: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kektordb
from kektordb.embed.fake import HashEmbedder

ROUNDS = 200
ROUNDS_PER_FOLDER = 20
NURSERY = Path(__file__).with_name("nursery.py")

# What a store must hold: id → (version of the vector, version of the payload); key → value; memory → (text, versions).
Model = dict[str, dict[str, Any]]


@pytest.fixture
def ground() -> Iterator[Path]:
    """In memory where the system has such a disk: kill -9 loses no page that the system holds, whatever the disk."""
    shm = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="kektordb-kill-", dir=shm if os.access(shm, os.W_OK) else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-P", str(NURSERY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        yield child
        child.stdin.close()


def applied(model: Model, op: list[Any], told: object) -> Model:
    """The model after a change."""
    out: Model = {part: dict(held) for part, held in model.items()}
    match op:
        case ["put", rows]:
            out["docs"].update({i: (v, v) for i, v in rows.items()})
        case ["batch", rows, key, value]:
            out["docs"].update({i: (v, v) for i, v in rows.items()})
            out["kv"][key] = value
        case ["set", rows]:
            out["docs"].update({i: (out["docs"][i][0], v) for i, v in rows.items()})
        case ["del", ids]:
            for i in ids:
                out["docs"].pop(i, None)
        case ["kv", key, value]:
            out["kv"][key] = value
        case ["save", v]:
            out["facts"][str(told)] = [f"fact{v} is known"]
        case ["evolve", old, v]:
            out["facts"][str(told)] = [*out["facts"].pop(old), f"fact{v} is known better"]
        case ["checkpoint"] | ["vacuum"]:
            pass
        case other:
            raise AssertionError(other)
    return out


def run_and_kill(
    nursery: subprocess.Popen[str], folder: Path, seed: int, rng: random.Random, model: Model
) -> tuple[Model, list[Any] | None, int]:
    """One life. Returns what was acknowledged, what was under way, and how many changes were acknowledged."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{folder} {seed}\n")
    nursery.stdin.flush()
    lines_to_live, wait_s = rng.randint(1, 70), rng.choice((0.0, rng.random() * 0.004))
    pid, acked, pending = 0, 0, None
    killed = False
    for lines, line in enumerate(nursery.stdout, 1):
        word, _, rest = line.partition(" ")
        what = json.loads(rest)
        if word == "pid":
            pid = what
        elif word == "dead":
            break
        elif word == "failed":
            raise AssertionError(f"seed {seed}: the writer failed: {what}")
        elif word == "try":
            pending = what
        else:
            assert pending is not None
            model, pending, acked = applied(model, pending, what), None, acked + 1
        if pid and not killed and lines >= lines_to_live:
            time.sleep(wait_s)
            os.kill(pid, signal.SIGKILL)
            killed = True
    return model, pending, acked


def held(db: kektordb.Database) -> dict[str, dict[str, Any]]:
    """What the store holds of rows and keys; rows are checked against their own vectors, words and postings."""
    out: dict[str, dict[str, Any]] = {"docs": {}, "kv": {}}
    out["kv"] = {k: int(v) for k, v in db.kv("state").scan()}
    if "docs" not in db:
        return out
    docs = db["docs"]
    for row in docs.scan(limit=1000, include=("vector", "payload")).rows:
        assert row.vector is not None
        assert row.payload is not None
        assert row.payload["body"] == f"{word(row.payload['n'])} common"
        out["docs"][row.id] = (row.vector.tolist(), row.payload["n"])
    return out


def agrees(seen: dict[str, dict[str, Any]], model: Model) -> bool:
    want = {i: (vector(v).tolist(), p) for i, (v, p) in model["docs"].items()}
    return seen["docs"] == want and seen["kv"] == model["kv"]


def vector(version: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([(version * 37 + i * 11) % 101 + 1 for i in range(8)], np.float32)


def word(version: int) -> str:
    digits = np.base_repr(version, 16).lower()
    return "w" + digits.translate(str.maketrans("0123456789abcdef", "bcdfghjkmnpqrtvx"))


def check_searches(db: kektordb.Database, model: Model, rng: random.Random) -> None:
    docs, rows = db["docs"], model["docs"]
    assert len(docs) == len(rows) == len(docs.search(text="common", k=1000))
    for i in rng.sample(sorted(rows), min(3, len(rows))):
        v, p = rows[i]
        same = {j for j, (_, q) in rows.items() if q == p}
        assert {r.id for r in docs.scan(filter=f"n = {p}", limit=1000).rows} == same
        assert set(docs.search(text=word(p), k=1000).ids) == same
        near = docs.search(vector(v), k=1000)
        assert len(near) == len(rows)
        assert set(near.ids) == set(rows)
        assert near.distances[near.ids.index(i)] == 0


def check_memories(db: kektordb.Database, model: Model, pending: list[Any] | None) -> None:
    with db.memory("m", embedder=HashEmbedder(16)) as mem:
        for i, texts in model["facts"].items():
            told = sorted(mem.history(i), key=lambda m: m.version)
            words = [m.text for m in told]
            more = [f"fact{pending[2]} is known better"] if pending and pending[:2] == ["evolve", i] else []
            assert words in (texts, [*texts, *more])
            assert [m.life for m in told] == ["superseded"] * (len(told) - 1) + ["active"]
            assert words[-1] in [h.text for h in mem.recall(words[-1], k=50)]
            model["facts"][i] = words


def test_what_was_acknowledged_survives_kill_9_in_the_middle_of_anything(
    ground: Path, nursery: subprocess.Popen[str], seed: int
) -> None:
    rng = random.Random(seed)
    total = in_the_middle = 0
    middles: dict[str, int] = {}
    for n in range(ROUNDS):
        folder = ground / f"{n // ROUNDS_PER_FOLDER}.kdb"
        if n % ROUNDS_PER_FOLDER == 0:
            model: Model = {"docs": {}, "kv": {}, "facts": {}}
        model, pending, acked = run_and_kill(nursery, folder, seed % 1000 * 1000 + n, rng, model)
        total += acked
        if pending is not None:
            in_the_middle += 1
            middles[pending[0]] = middles.get(pending[0], 0) + 1
        if not folder.exists():
            continue
        where = f"seed {seed}, round {n}, {acked} acknowledged, under way: {pending}"
        # Every other time only a reader looks, so that the next writer finds what the dead one left.
        try:
            db = kektordb.open(folder, read_only=n % 2 == 1)
        except kektordb.errors.NotFoundError:
            assert acked == 0, where
            continue
        with db:
            seen = held(db)
            ahead = applied(model, pending, "?") if pending and pending[0] != "evolve" else model
            assert agrees(seen, model) or agrees(seen, ahead), where
            ahead["facts"] = dict(model["facts"])
            model = model if agrees(seen, model) else ahead
            if "docs" in db:
                check_searches(db, model, rng)
            if n % 2 == 0:
                check_memories(db, model, pending)
            elif pending and pending[0] == "evolve":
                model["facts"].pop(pending[1])  # whether it was done is not looked up under read_only
    assert total > ROUNDS, "positive control: the children did work"
    assert in_the_middle > ROUNDS // 10, f"positive control: kills hit calls: {middles}"
