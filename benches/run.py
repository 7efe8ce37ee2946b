"""Side by side with other engines, in one run on one machine: ratios and recall, losses too.

    python benches/run.py [--rows N] [--dim D] [--data base.npy query.npy] [--engines a,b] [--rounds N] [--smoke] [--json]

Data is made here (clustered unit vectors) or comes as two .npy files. One query a call from Python on one core; engines
take turns, and the best of several passes counts. Peers that are not installed are named and left out;
`benches/requirements.txt` has them all.
`--smoke` is small and exits with 1 when an answer is wrong: it measures nothing.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

K = 10
EFS = (16, 32, 64, 128, 256)
M, EF_CONSTRUCTION = 16, 200


def clustered(rows: int, queries: int, dim: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around centres that are themselves spread in a few directions, so that they have real neighbours."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((min(dim, 32), dim)).astype(np.float32)
    centres = rng.standard_normal((max(8, rows // 100), basis.shape[0])).astype(np.float32) @ basis
    pick = rng.integers(0, len(centres), rows + queries)
    x = centres[pick] + 0.8 * (rng.standard_normal((rows + queries, basis.shape[0])).astype(np.float32) @ basis)
    x += 0.3 * rng.standard_normal(x.shape).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.ascontiguousarray(x[:rows]), np.ascontiguousarray(x[rows:])


def exact(base: np.ndarray, queries: np.ndarray) -> np.ndarray:
    out = [np.argsort(-(base @ q), kind="stable")[:K] for q in queries]
    return np.array(out)


class Kektordb:
    package = "kektordb"

    def __init__(self, folder: Path, dim: int) -> None:
        import kektordb

        self.path = folder / "k.kdb"
        self.db = kektordb.open(self.path)
        self.c = self.db.create_collection("c", dim=dim, hnsw=kektordb.HnswParams(m=M, ef_construction=EF_CONSTRUCTION))

    def build(self, x: np.ndarray) -> None:
        for start in range(0, len(x), 10_000):
            part = x[start : start + 10_000]
            self.c.upsert([str(i) for i in range(start, start + len(part))], part, durability="buffered")
        self.db.flush()

    def search(self, q: np.ndarray, ef: int) -> Iterable[int]:
        return self.c.search_rows(q, K, ef)[0]


class Hnswlib:
    package = "hnswlib"

    def __init__(self, folder: Path, dim: int) -> None:
        import hnswlib

        self.ix = hnswlib.Index(space="ip", dim=dim)

    def build(self, x: np.ndarray) -> None:
        self.ix.init_index(max_elements=len(x), M=M, ef_construction=EF_CONSTRUCTION)
        self.ix.add_items(x, np.arange(len(x)), num_threads=os.cpu_count() or 1)

    def search(self, q: np.ndarray, ef: int) -> Iterable[int]:
        self.ix.set_ef(max(ef, K))
        return self.ix.knn_query(q, k=K, num_threads=1)[0][0]


class Faiss:
    package = "faiss"

    def __init__(self, folder: Path, dim: int) -> None:
        import faiss

        self.ix = faiss.IndexHNSWFlat(dim, M, faiss.METRIC_INNER_PRODUCT)
        self.ix.hnsw.efConstruction = EF_CONSTRUCTION
        self.faiss = faiss

    def build(self, x: np.ndarray) -> None:
        self.faiss.omp_set_num_threads(os.cpu_count() or 1)
        self.ix.add(x)
        self.faiss.omp_set_num_threads(1)

    def search(self, q: np.ndarray, ef: int) -> Iterable[int]:
        self.ix.hnsw.efSearch = max(ef, K)
        return self.ix.search(q[None], K)[1][0]


class Chroma:
    package = "chromadb"

    def __init__(self, folder: Path, dim: int) -> None:
        import chromadb

        client = chromadb.PersistentClient(
            str(folder / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        self.c = client.create_collection(
            "bench",
            configuration={
                "hnsw": {"space": "cosine", "max_neighbors": M, "ef_construction": EF_CONSTRUCTION, "ef_search": 64}
            },
        )

    def build(self, x: np.ndarray) -> None:
        for start in range(0, len(x), 5_000):
            part = x[start : start + 5_000]
            self.c.add(ids=[str(i) for i in range(start, start + len(part))], embeddings=part)

    def search(self, q: np.ndarray, ef: int) -> Iterable[int]:
        return [int(i) for i in self.c.query(query_embeddings=[q], n_results=K, include=[])["ids"][0]]

    efs = (64,)


class Qdrant:
    package = "qdrant_edge"

    def __init__(self, folder: Path, dim: int) -> None:
        import qdrant_edge as q

        self.q = q
        path = folder / "qdrant"
        path.mkdir()
        config = q.EdgeConfig(
            vectors=q.EdgeVectorParams(size=dim, distance=q.Distance.Cosine),
            hnsw_config=q.HnswIndexConfig(m=M, ef_construct=EF_CONSTRUCTION, full_scan_threshold=100),
        )
        self.shard = q.EdgeShard.create(str(path), config)

    def build(self, x: np.ndarray) -> None:
        for start in range(0, len(x), 1_000):
            part = x[start : start + 1_000]
            points = [self.q.Point(start + i, v.tolist(), {}) for i, v in enumerate(part)]
            self.shard.update(self.q.UpdateOperation.upsert_points(points))
        self.shard.optimize()

    def search(self, q: np.ndarray, ef: int) -> Iterable[int]:
        params = self.q.SearchParams(hnsw_ef=ef)
        request = self.q.QueryRequest(query=self.q.Query.Nearest(q.tolist()), limit=K, params=params)
        return [int(p.id) for p in self.shard.query(request)]


ENGINES: dict[str, Callable[[Path, int], Any]] = {
    "kektordb": Kektordb,
    "hnswlib": Hnswlib,
    "faiss": Faiss,
    "qdrant-edge": Qdrant,
    "chroma": Chroma,
}


def at_recall(curve: list[tuple[int, float, float]], want: float) -> float | None:
    """Queries a second at a recall, log-linear between the points that stand around it."""
    for (_, r0, q0), (_, r1, q1) in itertools.pairwise(curve):
        if r0 <= want <= r1 and r1 > r0:
            t = (want - r0) / (r1 - r0)
            return float(np.exp((1 - t) * np.log(q0) + t * np.log(q1)))
    return curve[0][2] if curve and curve[0][1] >= want else None


def measure(
    engines: dict[str, Any], queries: np.ndarray, truth: np.ndarray, rounds: int
) -> dict[str, list[tuple[int, float, float]]]:
    """All engines in turn, several rounds, each point its best pass: the machine's drift touches all alike."""
    best: dict[tuple[str, int], tuple[float, float]] = {}
    for _ in range(rounds):
        for name, engine in engines.items():
            for ef in getattr(engine, "efs", EFS):
                t = time.perf_counter()
                found = [engine.search(q, ef) for q in queries]
                rate = len(queries) / (time.perf_counter() - t)
                if (name, ef) not in best or rate > best[name, ef][1]:
                    pairs = zip(found, truth, strict=True)
                    recall = float(np.mean([len(set(map(int, f)) & set(t.tolist())) / K for f, t in pairs]))
                    best[name, ef] = (recall, rate)
    return {name: [(ef, *best[name, ef]) for ef in getattr(engine, "efs", EFS)] for name, engine in engines.items()}


def durable(folder: Path, dim: int) -> dict[str, float]:
    """Single durable inserts a second, and the bare disk's append + fdatasync of as many bytes, in turn."""
    import kektordb

    rng = np.random.default_rng(1)
    v = rng.standard_normal((400, dim)).astype(np.float32)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    with kektordb.open(folder / "durable.kdb") as db:
        c = db.create_collection("c", dim=dim)
        fd = os.open(folder / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        for turn in range(4):
            t = time.perf_counter()
            for i in range(100):
                c.upsert(f"{turn}-{i}", v[turn * 100 + i])
            rates["ours"].append(100 / (time.perf_counter() - t))
            block = bytes(4 * dim + 120)
            t = time.perf_counter()
            for _ in range(100):
                os.write(fd, block)
                os.fdatasync(fd)
            rates["bare"].append(100 / (time.perf_counter() - t))
        os.close(fd)
    ours, bare = float(np.median(rates["ours"])), float(np.median(rates["bare"]))
    return {"inserts_per_s": ours, "bare_disk_per_s": bare, "ratio": ours / bare}


def opening(path: Path, q: np.ndarray) -> dict[str, float]:
    import kektordb

    times = []
    for _ in range(5):
        t = time.perf_counter()
        with kektordb.open(path) as db:
            db.collection("c").search(q, k=K)
            times.append((time.perf_counter() - t) * 1e3)
    return {"open_to_first_answer_ms": float(np.median(times))}


def overhead(c: Any, q: np.ndarray) -> dict[str, float]:
    """What `search` costs beyond `search_rows`, the shortest way into the engine; and an empty collection's call."""

    def best(f: Callable[[], object]) -> float:
        laps = []
        for _ in range(7):
            t = time.perf_counter()
            for _ in range(300):
                f()
            laps.append((time.perf_counter() - t) / 300 * 1e6)
        return min(laps)

    rows, whole = best(lambda: c.search_rows(q, K, 64)), best(lambda: c.search(q, k=K, ef_search=64, include=()).ids)
    return {"search_us": whole, "search_rows_us": rows, "difference_us": whole - rows}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=50_000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--data", nargs=2, type=Path, metavar=("BASE", "QUERY"))
    p.add_argument("--engines", default=",".join(ENGINES))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--smoke", action="store_true")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    if a.smoke:
        a.rows, a.dim, a.rounds = 3_000, 32, 1
    if a.data:
        base, queries = (np.ascontiguousarray(np.load(f), dtype=np.float32) for f in a.data)
        base, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (base, queries[:500]))
    else:
        base, queries = clustered(a.rows, 100 if a.smoke else 500, a.dim)
    truth = exact(base, queries)
    folder = Path(tempfile.mkdtemp(prefix="kektordb-bench-"))
    out: dict[str, Any] = {"rows": len(base), "dim": base.shape[1], "engines": {}, "left_out": {}}
    cores = getattr(os, "sched_getaffinity", lambda _: set())(0)
    try:
        engines: dict[str, Any] = {}
        for name in a.engines.split(","):
            try:
                importlib.import_module(ENGINES[name].package)  # type: ignore[attr-defined]
                engine = ENGINES[name](folder, base.shape[1])
                started = time.perf_counter()
                engine.build(base)
                out["engines"][name] = {"build_s": time.perf_counter() - started}
                engines[name] = engine
            except Exception as e:  # a peer of another version must not end the run; it is named below
                if name == "kektordb":
                    raise
                out["left_out"][name] = f"{type(e).__name__}: {e}".splitlines()[0][:120]
        if cores:
            os.sched_setaffinity(0, {min(cores)})
        for name, curve in measure(engines, queries, truth, a.rounds).items():
            out["engines"][name] |= {
                "curve": curve,
                "qps_95": at_recall(curve, 0.95),
                "qps_99": at_recall(curve, 0.99),
            }
        ours = engines["kektordb"]
        out["overhead"] = overhead(ours.c, queries[0])
        if cores:
            os.sched_setaffinity(0, cores)
        ours.db.close()
        out["opening"] = opening(ours.path, queries[0])
        out["durable"] = durable(folder, base.shape[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(out, as_json=a.json)
    curve = out["engines"]["kektordb"]["curve"]
    if a.smoke:
        wrong = [f"recall {r:.3f} at ef {ef}" for ef, r, _ in curve if ef >= 64 and r < 0.95]
        print("smoke: " + (f"WRONG: {wrong}" if wrong else "answers are right"))
        return 1 if wrong else 0
    return 0


def show(out: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(out, indent=1))
        return
    print(f"{out['rows']} × {out['dim']}, cosine, M {M}, ef_construction {EF_CONSTRUCTION}, k {K}, one core")
    ref = out["engines"].get("hnswlib") or out["engines"]["kektordb"]
    label = "hnswlib" if "hnswlib" in out["engines"] else "kektordb"
    print(f"{'engine':12} {'build s':>8} {'recall@64':>10} {'q/s 0.95':>10} {'q/s 0.99':>10}   ratio to {label}")
    for name, e in out["engines"].items():
        r64 = next((r for ef, r, _ in e["curve"] if ef == 64), float("nan"))

        def ratio(key: str, e: Any = e) -> str:
            return f"{e[key] / ref[key]:.2f}×" if e[key] and ref[key] else "–"

        q95, q99 = (f"{e[k]:,.0f}" if e[k] else "–" for k in ("qps_95", "qps_99"))
        print(f"{name:12} {e['build_s']:8.1f} {r64:10.3f} {q95:>10} {q99:>10}   {ratio('qps_95')} / {ratio('qps_99')}")
        if name == "kektordb" and ratio("qps_95") != "–" and e["qps_95"] and e["qps_95"] < (ref["qps_95"] or 0):
            print("             LOSS: slower than the reference at 0.95")
    for name, why in out["left_out"].items():
        print(f"{name:12} left out: {why}")
    d = out["durable"]
    print(
        f"durable single inserts: {d['inserts_per_s']:,.0f}/s, bare append + fdatasync {d['bare_disk_per_s']:,.0f}/s: "
        f"{d['ratio']:.2f}×"
    )
    print(f"open to first answer (warm): {out['opening']['open_to_first_answer_ms']:.1f} ms")
    o = out["overhead"]
    print(
        f"search {o['search_us']:.1f} µs, search_rows {o['search_rows_us']:.1f} µs: {o['difference_us']:.1f} µs for ids"
    )


if __name__ == "__main__":
    sys.exit(main())
