"""Does a store answer as the slow one does? Random writes to both, then every read under random views.

`run(store, seed=…)` raises AssertionError at the first difference, with the seed, the step and the view. The store must be
empty. Times differ between the two (each sets its own), so moments are compared by the commit that they follow. Scores of the
two text arms may differ in size (stemming, idf); what must agree is which rows have one. Cost: O(steps x rows).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np

from kektordb.engine.protocol import Json, Reader, Row, Store, Vector
from kektordb.errors import KektorError
from kektordb.model.clock import Clock, SystemClock
from kektordb.model.view import EVER, FOREVER, Belief, Life, Principal, Scope, Stamps, Trust, View
from kektordb.testing.naive import NaiveStore

DIM = 8
COLLECTION = "agreement"
WORDS = ("red", "bicycle", "tea", "ZX-81", "数据库", "perché", "κόσμος", "42")
_LIVES = [life for life in Life if life is not Life.GONE]
_PARTS = (None, "a", "b")
_WORLD = (EVER, 10**15, 15 * 10**14, 4 * 10**15, FOREVER)
"""Ends of valid windows: always, 2001, 2017, 2096, never. None is near now, so both stores stand on one side of each."""


def run(store: Store, *, seed: int, steps: int = 60, checks: int = 4, clock: Clock | None = None) -> None:
    """`steps` transactions, `checks` random views after each."""
    twins = _Twins(store, NaiveStore(clock=clock or SystemClock()), random.Random(seed))
    for step in range(steps):
        twins.write()
        for _ in range(checks):
            view, moment = twins.view()
            try:
                twins.compare(view, moment)
            except AssertionError as e:
                raise AssertionError(f"seed {seed}, step {step}, {view}, as of commit {moment}: {e}") from e


@dataclass
class _Twins:
    """The store under test, the slow one, and what was done to both."""

    tried: Store
    naive: NaiveStore
    rng: random.Random
    moments: list[tuple[int, int]] = field(default_factory=list)
    """Commit times of both."""
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for store in (self.tried, self.naive):
            store.ensure_collection(COLLECTION, dim=DIM, text_fields=("body",), language=None, meta={"a": 1})

    # Writing.

    def write(self) -> None:
        steps = [self._step() for _ in range(self.rng.randint(1, 4))]
        ends: list[tuple[str | None, int]] = []
        for store in (self.tried, self.naive):
            try:
                with store.writer(actor="agreement", reason="random") as writer:
                    for verb, args, options in steps:
                        getattr(writer, verb)(*args, **options)
                ends.append((None, writer.committed_at))
            except KektorError as e:
                ends.append((type(e).__name__, 0))
        assert ends[0][0] == ends[1][0], f"{steps} ended in {ends[0][0]} and not in {ends[1][0]}"
        if ends[0][0] is None:
            self.moments.append((ends[0][1], ends[1][1]))

    def _step(self) -> tuple[str, tuple[object, ...], dict[str, object]]:
        rng = self.rng
        kind = rng.choice(
            ["put", "put", "put", "again", "like", "close", "expect_open", "expect_absent", "kv_set", "kv_delete"]
        )
        known = rng.choice(self.ids) if self.ids else None
        if kind in ("kv_set", "kv_delete"):
            key = ("space", rng.choice(["a", "b/1", "b/2"]))
            return (kind, (*key, b"%d" % rng.randrange(9)), {}) if kind == "kv_set" else (kind, key, {})
        if kind in ("close", "expect_open") and known is not None:
            if kind == "expect_open":
                return kind, (COLLECTION, known), {}
            return (
                "close",
                (COLLECTION, known),
                {"end_life": rng.choice(_LIVES)},
            )
        fresh = f"m{rng.randrange(10**9):09}"
        if kind == "expect_absent":
            return kind, (COLLECTION, fresh), {}
        given: dict[str, object] = {"payload": self._payload(), "stamps": self._stamps()}
        if kind == "like" and known is not None:
            given["like"] = known
        else:
            given["vector"] = np.array([rng.gauss(0, 1) for _ in range(DIM)], dtype=np.float32)
        name = known if kind == "again" and known is not None else fresh
        self.ids.append(name)
        return "put", (COLLECTION, name), given

    def _payload(self) -> dict[str, Json]:
        rng = self.rng
        payload: dict[str, Json] = {"body": " ".join(rng.choices(WORDS, k=rng.randint(1, 5))), "n": rng.randrange(3)}
        if rng.random() < 0.5:
            payload["tags"] = rng.sample(["x", "y", "z"], k=2)
        return payload

    def _stamps(self) -> Stamps:
        rng = self.rng
        start, end = sorted(rng.sample(_WORLD, 2))
        return Stamps(
            life=rng.choice([Life.ACTIVE] * 6 + [Life.PENDING, Life.QUARANTINED]),
            belief=rng.choice([Belief.ASSERTED, Belief.ASSERTED, Belief.REFUTED]),
            trust=rng.choice(list(Trust)),
            scope=Scope(*rng.choices(_PARTS, k=3)),
            valid_from=start,
            valid_to=end,
            stale=rng.random() < 0.1,
        )

    # Reading.

    def view(self) -> tuple[View, int | None]:
        rng = self.rng
        moment = rng.randrange(len(self.moments)) if self.moments and rng.random() < 0.4 else None
        view = View(
            principal=None if rng.random() < 0.3 else self._principal(),
            valid_at=rng.choice([None, None, *_WORLD[1:4]]),
            ever=rng.random() < 0.3,
            life=frozenset([Life.ACTIVE, *rng.sample(_LIVES, k=rng.randint(0, 4))]),
            refuted=rng.random() < 0.3,
            stale=rng.random() < 0.3,
            min_trust=rng.choice([Trust.OUTSIDE, Trust.OUTSIDE, Trust.IMPORT, Trust.USER]),
        )
        return view, moment

    def _principal(self) -> Principal:
        user, agent, session = self.rng.choices(_PARTS, k=3)
        return Principal(user, agent, session)

    def compare(self, view: View, moment: int | None) -> None:
        tried, naive = (
            store.reader(COLLECTION, view if moment is None else replace(view, as_of=self.moments[moment][side]))
            for side, store in enumerate((self.tried, self.naive))
        )
        _same("rows", _rows(tried), _rows(naive))
        _same("count", tried.count(), naive.count())
        for name in ("n", "tags"):
            _same(f"facets of {name}", sorted(tried.facets(name), key=str), sorted(naive.facets(name), key=str))
        ids = sorted(set(self.ids)) or ["none"]
        _same("get", [_plain(row) for row in tried.get(ids)], [_plain(row) for row in naive.get(ids)])
        self._compare_vectors(tried, naive, ids)
        self._compare_texts(tried, naive, ids)
        for prefix in ("", "b/"):
            found = list(self.tried.kv_scan("space", prefix=prefix))
            _same("kv", found, list(self.naive.kv_scan("space", prefix=prefix)))

    def _compare_vectors(self, tried: Reader, naive: Reader, ids: list[str]) -> None:
        vector: Vector = np.array([self.rng.gauss(0, 1) for _ in range(DIM)], dtype=np.float32)
        one, other = tried.dense_scores(vector, ids), naive.dense_scores(vector, ids)
        _same("rows with a vector score", np.isnan(one).tolist(), np.isnan(other).tolist())
        assert np.allclose(one, other, atol=1e-4, equal_nan=True), "vector scores differ"
        k = self.rng.choice([1, 3, 1_000])
        hits = [[hit.distance for hit in reader.search(vector, k=k)] for reader in (tried, naive)]
        _same("hits by vector", len(hits[0]), len(hits[1]))
        assert np.allclose(hits[0], hits[1], atol=1e-4), f"distances {hits[0]} and not {hits[1]}"

    def _compare_texts(self, tried: Reader, naive: Reader, ids: list[str]) -> None:
        text = " ".join(self.rng.sample(WORDS, k=2))
        one, other = tried.text_scores(text, ids), naive.text_scores(text, ids)
        _same("rows with a text score", np.isnan(one).tolist(), np.isnan(other).tolist())
        _same(f"rows with {text}", (one > 0).tolist(), (other > 0).tolist())
        found = [{hit.id for hit in reader.search(text=text, k=1_000)} for reader in (tried, naive)]
        _same(f"hits of {text}", *found)


def _rows(reader: Reader) -> list[object]:
    found: list[object] = []
    after: str | None = None
    while True:
        page = reader.scan(limit=7, after=after)
        found += [_plain(row) for row in page.rows]
        if page.next is None:
            return found
        after = page.next


def _plain(row: Row | None) -> object:
    """All but the times, which each store sets for itself."""
    return None if row is None else (row.id, row.payload, row.stamps, row.life, row.tx_to == FOREVER)


def _same(what: str, tried: object, naive: object) -> None:
    assert tried == naive, f"{what}: {tried} and not {naive}"
