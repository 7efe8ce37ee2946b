"""Every metric, dtype and index kind against plain arithmetic; filters at every share keep their recall."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import kektordb


def distances(metric: str, base: np.ndarray, q: np.ndarray) -> np.ndarray:
    if metric == "l2":
        return ((base - q) ** 2).sum(1)
    if metric == "dot":
        return -(base @ q)
    return 1 - (base @ q) / np.linalg.norm(base, axis=1) / np.linalg.norm(q)


@pytest.mark.parametrize(
    ("metric", "dtype", "index"),
    list(product(["cosine", "dot", "l2"], ["float32", "float16", "int8"], ["graph", "packed", "flat"])),
)
def test_answers_are_the_nearest_rows_and_survive_reopening(
    tmp_path: Path, metric: str, dtype: str, index: str
) -> None:
    rng = np.random.default_rng(3)
    base = rng.standard_normal((1200, 24)).astype(np.float32) * rng.uniform(0.5, 2, (1200, 1)).astype(np.float32)
    ids = [f"r{i}" for i in range(len(base))]
    with kektordb.open(tmp_path / "m.kdb") as db:
        c = db.create_collection("c", dim=24, metric=metric, dtype=dtype, index=index)
        c.upsert(ids, base)
        db.flush()
    # One bit a dimension says little at so few dimensions: packed graphs are for hundreds.
    least = 0.9 if dtype == "int8" or index == "packed" else 0.97
    with kektordb.open(tmp_path / "m.kdb") as db:
        c = db.collection("c")
        got, exactly = [], []
        for q in rng.standard_normal((40, 24)).astype(np.float32):
            want = {ids[i] for i in np.argsort(distances(metric, base, q), kind="stable")[:10]}
            hits = c.search(q, k=10, ef_search=100)
            got.append(len(want & set(hits.ids)) / 10)
            exactly.append(len(want & set(c.search(q, k=10, exact=True).ids)) / 10)
            assert list(hits.distances) == sorted(hits.distances)
            assert list(hits.scores) == sorted(hits.scores, reverse=True)
        assert np.mean(got) >= least, f"{np.mean(got):.3f}"
        assert np.mean(exactly) >= (0.9 if dtype == "int8" else 0.97)
        back = c.get("r7", include=("vector",))[0]
        assert back is not None and back.vector is not None
        tolerance = {"float32": 1e-6, "float16": 2e-3, "int8": 3e-2}[dtype]
        assert np.allclose(back.vector, base[7], atol=tolerance * float(np.abs(base[7]).max()))
        if dtype == "float32" and metric != "cosine":
            assert np.array_equal(back.vector, base[7]), "stored bit for bit"


@pytest.mark.parametrize("index", ["graph", "packed"])
@pytest.mark.parametrize(("share", "spread"), list(product([0.001, 0.01, 0.1, 0.5, 1.0], ["random", "far", "near"])))
def test_a_filtered_search_gives_k_rows_with_the_recall_of_the_exact_answer(
    share: float, spread: str, index: str
) -> None:
    rng = np.random.default_rng(5)
    n, dim = 6000, 24
    base = rng.standard_normal((n, dim)).astype(np.float32)
    q = base[0] + 0.1
    order = np.argsort(distances("cosine", base, q))
    keep = np.zeros(n, bool)
    count = max(6, int(n * share))
    picked = {"random": rng.permutation(n)[:count], "far": order[-count:], "near": order[:count]}[spread]
    keep[picked] = True
    with kektordb.open(":memory:") as db:
        c = db.create_collection("c", dim=dim, index=index)
        c.upsert([str(i) for i in range(n)], base, [{"keep": bool(k)} for k in keep])
        db.flush()
        found = []
        for probe in [q, *(base[:30] + 0.05 * rng.standard_normal((30, dim)).astype(np.float32))]:
            d = np.where(keep, distances("cosine", base, probe), np.inf)
            want = [str(i) for i in np.argsort(d, kind="stable")[: min(10, count)]]
            hits = c.search(probe, k=10, filter="keep = TRUE")
            assert len(hits) == len(want)
            assert all(keep[int(i)] for i in hits.ids)
            found.append(len(set(want) & set(hits.ids)) / len(want))
        assert np.mean(found) >= 0.98, f"{np.mean(found):.3f}"
        assert len(c.search(q, k=10, filter="keep = 'nothing'")) == 0
