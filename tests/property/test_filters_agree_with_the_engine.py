"""Filters over the engine's own postings against the row-by-row oracle, while rows come, change, go and are checkpointed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kektordb
from kektordb.filters import Expr, F, evaluate, render
from kektordb.testing.trees import random_filter, random_payload

ROUNDS = 100
TREES = 100
"""Together 10,000 trees."""
IDS = [f"r{n}" for n in range(40)]
DIM = 4


def oracle(tree: Expr, payloads: dict[str, dict[str, Any] | None]) -> set[str]:
    return {id for id, payload in payloads.items() if evaluate(tree, payload)}


def change(docs: Any, payloads: dict[str, dict[str, Any] | None], rng: random.Random) -> None:
    """Some rows are written, some get another payload, some go."""
    for id in rng.sample(IDS, 12):
        roll = rng.random()
        if id in payloads and roll < 0.3:
            docs.delete(id)
            del payloads[id]
        elif id in payloads and roll < 0.5:
            merge = rng.random() < 0.5
            new = random_payload(rng)
            docs.set_payload([id], new, merge=merge)
            payloads[id] = {**(payloads[id] or {}), **new} if merge else new
        else:
            payloads[id] = random_payload(rng) if roll < 0.95 else None
            docs.upsert([id], np.array([[rng.random() for _ in range(DIM)]], np.float32), [payloads[id]])


def test_ten_thousand_random_trees_agree_with_the_oracle(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    payloads: dict[str, dict[str, Any] | None] = {}
    db = kektordb.open(tmp_path / "x.kdb")
    try:
        docs = db.create_collection("docs", dim=DIM, metric="l2", index="flat")
        for n in range(ROUNDS):
            change(docs, payloads, rng)
            if n % 10 == 3:
                db.checkpoint()
            if n % 20 == 7:
                db.close()
                db = kektordb.open(tmp_path / "x.kdb")
                docs = db.collection("docs")
            for _ in range(TREES):
                tree = random_filter(rng)
                want = oracle(tree, payloads)
                got = {row.id for row in docs.scan(filter=tree, limit=1_000).rows}
                assert got == want, (seed, n, render(tree), sorted(got ^ want))
            # text, tree, count and search have one meaning
            assert docs.count(filter=render(tree)) == len(want)
            hits = docs.search(np.zeros(DIM, np.float32), k=len(IDS), filter=tree)
            assert set(hits.ids) == want
    finally:
        db.close()


@pytest.mark.parametrize("index", ["flat", "graph"])
def test_rows_added_later_are_filtered_like_the_first(index: str) -> None:
    with kektordb.open(":memory:") as db:
        docs = db.create_collection("docs", dim=DIM, metric="l2", index=index)
        vectors = np.random.default_rng(1).standard_normal((2_000, DIM)).astype(np.float32)
        for start in (0, 1_000):
            ids = [str(n) for n in range(start, start + 1_000)]
            docs.upsert(ids, vectors[start : start + 1_000], [{"a": n} for n in range(start, start + 1_000)])
        assert docs.search(vectors[0], k=10, filter="a < 0").ids == []
        assert docs.search(vectors[0], k=10, filter="a = 1500").ids == ["1500"]
        assert docs.count(filter="a BETWEEN 990 AND 1009") == 20


@pytest.mark.parametrize("index", ["flat", "graph"])
def test_an_excluded_partition_is_never_among_the_hits(index: str) -> None:
    with kektordb.open(":memory:") as db:
        docs = db.create_collection("docs", dim=DIM, metric="l2", index=index)
        vectors = np.random.default_rng(2).standard_normal((300, DIM)).astype(np.float32)
        part = [f"p{n % 3 + 1}" for n in range(300)]
        docs.upsert([str(n) for n in range(300)], vectors, [{"partition": p} for p in part])
        where = {str(n): p for n, p in enumerate(part)}

        def parts(filter: object) -> list[str]:
            return [where[id] for id in docs.search(vectors[0], k=200, filter=filter).ids]

        assert sorted(parts("partition != 'p1'")) == ["p2"] * 100 + ["p3"] * 100
        assert parts("NOT (partition = 'p1' OR partition = 'p2')") == ["p3"] * 100
        assert parts("NOT NOT partition = 'p1'") == parts(F.partition == "p1") == ["p1"] * 100


def test_one_number_line_reaches_to_the_disk(tmp_path: Path) -> None:
    numbers = [42, 42.0, 2**53, 2**53 + 1, -0.0, 0, 2**63, 2**64 - 1, 0.1, 0.30000000000000004, 5e-324, 1e300]
    with kektordb.open(tmp_path / "x.kdb") as db:
        docs = db.create_collection("docs", dim=DIM, metric="l2", index="flat")
        docs.upsert([str(i) for i in range(len(numbers))], np.eye(len(numbers), DIM), [{"n": n} for n in numbers])
    with kektordb.open(tmp_path / "x.kdb") as db:
        docs = db.collection("docs")
        for n in numbers:
            want = [str(i) for i, other in enumerate(numbers) if other == n]
            assert [row.id for row in docs.scan(filter=F.n == n).rows] == want, n
            assert docs.get(want[0])[0].payload["n"] == numbers[int(want[0])]  # type: ignore[index, union-attr]
        order = [row.id for n in sorted(set(numbers)) for row in docs.scan(filter=F.n == n).rows]
        assert [numbers[int(i)] for i in order] == sorted(numbers)
