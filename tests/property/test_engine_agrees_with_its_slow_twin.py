"""The local engine against `NaiveStore`: the same changes, then the same questions under every kind of view."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kektordb
from kektordb.engine.local import LocalStore
from kektordb.errors import KektorError
from kektordb.model.view import EVER, FOREVER, Belief, Life, Principal, Scope, Stamps, Trust, View
from kektordb.testing import NaiveStore

NAMES = [None, "ann", "bob"]
IDS = [f"m{i}" for i in range(8)]
STATES = [x for x in Life if x is not Life.GONE]
names = st.sampled_from(NAMES)
principals = st.none() | st.builds(Principal, user=names, agent=names, session=names)
moments = st.integers(0, 60)


@st.composite
def stamps(draw: st.DrawFn) -> Stamps:
    start = draw(st.just(EVER) | moments)
    end = draw(st.just(FOREVER) | st.integers(1, 60).map(lambda n: max(start, 0) + n))
    return Stamps(
        life=draw(st.sampled_from([Life.ACTIVE, Life.ACTIVE, Life.PENDING, Life.QUARANTINED])),
        belief=draw(st.sampled_from(list(Belief))),
        trust=draw(st.sampled_from(list(Trust))),
        scope=Scope(draw(names), draw(names), draw(names)),
        valid_from=start,
        valid_to=end,
        stale=draw(st.booleans()) and draw(st.booleans()),
    )


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """One transaction: puts, copies and closes, each id once."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True))
    out: list[tuple[Any, ...]] = []
    for i in ids:
        if draw(st.integers(0, 3)):
            payload = {"n": draw(st.integers(0, 3)), "body": draw(st.sampled_from(["red", "blue fox", "red fox"]))}
            out.append(("put", i, payload, draw(st.integers(0, 2**31)), draw(stamps())))
        else:
            out.append(("close", i, draw(st.sampled_from([Life.GONE, *STATES[1:]]))))
    return out


def apply(store: Any, tx: list[tuple[Any, ...]]) -> tuple[str, int]:
    try:
        with store.writer(actor="t", reason="r") as w:
            for op, i, *rest in tx:
                if op == "put":
                    payload, seed, s = rest
                    v = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
                    w.put("c", i, payload=payload, vector=v, stamps=s)
                else:
                    w.close("c", i, end_life=rest[0])
        return "ok", w.committed_at
    except KektorError as e:
        return type(e).__name__, 0


def answers(store: Any, view: View) -> dict[str, Any]:
    r = store.reader("c", view)
    got = r.get(IDS, include=("payload", "vector"))
    rows, after = [], None
    while True:
        page = r.scan(limit=3, after=after)
        rows += page.rows
        if page.next is None:
            break
        after = page.next
    q = np.ones(8, np.float32)
    hits = r.search(q, k=20)
    return {
        "get": [None if x is None else (x.id, x.payload, x.life, x.stamps) for x in got],
        "vectors": [None if x is None else (x.vector / np.linalg.norm(x.vector)).tolist() for x in got],
        "scan": sorted((x.id, str(x.payload), x.life, repr(x.stamps)) for x in rows),
        "count": r.count(),
        "facets": sorted(map(str, r.facets("n"))),
        "near": sorted(h.id for h in hits),
        "near order": [float(h.score) for h in hits],
        "text": sorted(h.id for h in r.search(text="fox", k=20)),
        "dense": r.dense_scores(q, IDS).tolist(),
    }


def same(a: Any, b: Any) -> bool:
    """Equal, floats within what two orders of summing in float32 may differ by."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, abs_tol=1e-5) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def test_sameness_forgives_rounding_and_nothing_else() -> None:
    assert same([[1.0, None, float("nan")], "x"], [[1.000001, None, float("nan")], "x"])
    for other in ([[1.1]], [[1.0, 1.0]], [[None]], [["1.0"]], [[float("nan")]]):
        assert not same([[1.0]], other)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("twin")


@settings(max_examples=150)
@given(txs=st.lists(changes(), min_size=1, max_size=12), data=st.data(), restart=st.integers(0, 12))
def test_every_view_of_any_history_equals_the_twin(
    folder: Path, txs: list[Any], data: st.DataObject, restart: int
) -> None:
    path = Path(tempfile.mkdtemp(dir=folder)) / "x.kdb"
    slow = NaiveStore()
    db = kektordb.open(path)
    try:
        for s in (slow, LocalStore(db)):
            s.ensure_collection("c", dim=8, text_fields=["body"], language=None, meta={})
        times = []
        for n, tx in enumerate(txs):
            a, b = apply(slow, tx), apply(LocalStore(db), tx)
            assert a[0] == b[0], (a, b, tx)
            if a[0] == "ok":
                times.append((a[1], b[1]))
            if n == restart:
                db.close()
                db = kektordb.open(path)
        fast = LocalStore(db)
        for _ in range(4):
            at = data.draw(st.none() | st.sampled_from(times)) if times else None
            kind = {
                "principal": data.draw(principals),
                "valid_at": data.draw(st.none() | moments),
                "ever": data.draw(st.booleans()),
                "life": frozenset(data.draw(st.just([Life.ACTIVE]) | st.lists(st.sampled_from(STATES)))),
                "refuted": data.draw(st.booleans()),
                "stale": data.draw(st.booleans()),
                "min_trust": data.draw(st.sampled_from(list(Trust))),
            }
            want = answers(slow, View(as_of=at and at[0], **kind))
            got = answers(fast, View(as_of=at and at[1], **kind))
            for key in want:
                assert same(got[key], want[key]), (key, kind, at, got[key], want[key])
    finally:
        db.close()
