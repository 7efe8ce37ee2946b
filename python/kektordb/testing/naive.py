"""The engine again, slow and plain: dictionaries, a scan for every question, no index.

It implements `kektordb.engine.protocol.Store` whole and is the oracle of the real engine's tests: whatever a reader of the
real one answers, this one answers too (approximate neighbours and the hybrid scores aside; with `alpha` 0 and 1 the order is
that of the text arm and of the vector arm). Rows live in memory and are never removed, so every past moment can be read.

Multi-version by stamps alone: commits have strictly rising times, a reader holds one moment and ignores what was recorded
or closed after it. Cost: every read is O(rows).
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from kektordb.engine.protocol import Hit, Json, Page, Row, Vector
from kektordb.errors import (
    AlreadyExistsError,
    ClosedError,
    DimensionMismatchError,
    InvalidArgumentError,
    NotFoundError,
    VersionConflictError,
)
from kektordb.model.clock import Clock
from kektordb.model.view import FOREVER, Life, Stamps, View
from kektordb.testing.clock import FakeClock
from kektordb.testing.rule import visible
from kektordb.testing.words import words

K1, B = 1.2, 0.75
"""BM25's two constants."""


@dataclass(slots=True)
class _Collection:
    dim: int
    text_fields: tuple[str, ...]
    meta: Mapping[str, Json]
    rows: list[Row] = field(default_factory=list)
    """Every record ever written, in the order of writing."""


class NaiveStore:
    """A whole store in memory. `clock` gives belief time; it may stand still or go back, recorded times still rise."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or FakeClock()
        self._last = 0
        self._lock = threading.RLock()
        self._collections: dict[str, _Collection] = {}
        self._kv: dict[str, dict[str, bytes]] = {}
        self._half_done: dict[str, tuple[Mapping[str, Json], dict[int, Vector]]] = {}
        self.closed = False
        self.fail_next_commit: Exception | None = None
        """Set: the next commit raises it and changes nothing."""
        self.commits: list[tuple[str, str]] = []
        """Actor and reason of each log record, oldest first."""

    def now(self) -> int:
        with self._lock:
            self._last = max(self._last, self._clock.now())
            return self._last

    def ensure_collection(
        self, name: str, *, dim: int, text_fields: Sequence[str], language: str | None, meta: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        del language  # every word stands for itself here
        with self._lock:
            self._check_open()
            if name not in self._collections:
                self._collections[name] = _Collection(dim, tuple(text_fields), _copied(meta))
            return self._collections[name].meta

    def reader(self, collection: str, view: View) -> NaiveReader:
        self._check_open()
        found = self._collection(collection)
        return NaiveReader(found, view, self.now())

    @contextmanager
    def _writing(self, actor: str, reason: str) -> Iterator[NaiveWriter]:
        writer = NaiveWriter(self)
        yield writer
        self._commit(writer, actor, reason)

    def writer(
        self, *, actor: str = "", reason: str = "", durability: str = "sync"
    ) -> AbstractContextManager[NaiveWriter]:
        if durability not in ("sync", "buffered"):
            raise InvalidArgumentError(f"durability is {durability!r}", hint='"sync" or "buffered"')
        self._check_open()
        return self._writing(actor, reason)

    def kv_get(self, namespace: str, key: str) -> bytes | None:
        self._check_open()
        return self._kv.get(namespace, {}).get(key)

    def kv_scan(self, namespace: str, *, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        self._check_open()
        with self._lock:
            found = sorted((k, v) for k, v in self._kv.get(namespace, {}).items() if k.startswith(prefix))
        return iter(found)

    def rebuild_vectors(
        self,
        collection: str,
        *,
        dim: int,
        meta: Mapping[str, Json],
        embed: Callable[[Sequence[Mapping[str, Json]]], Vector],
        batch: int = 256,
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[Life, int]:
        with self._lock:
            self._check_open()
            found = self._collection(collection)
            target, made = self._half_done.get(collection, (meta, {}))
            if target != meta:
                made = {}
            self._half_done[collection] = (_copied(meta), made)
            todo = [i for i in range(len(found.rows)) if i not in made]
            for start in range(0, len(todo), batch):
                part = todo[start : start + batch]
                vectors = embed([found.rows[i].payload or {} for i in part])
                if vectors.shape != (len(part), dim):
                    raise DimensionMismatchError(f"the embedder gave {vectors.shape}, wanted {(len(part), dim)}")
                made.update(zip(part, (_unit(v) for v in vectors), strict=True))
                if progress is not None:
                    progress(len(made), len(found.rows))
            found.rows[:] = [replace(row, vector=made[i]) for i, row in enumerate(found.rows)]
            found.dim, found.meta = dim, _copied(meta)
            del self._half_done[collection]
            return dict(Counter(row.life for row in found.rows))

    def close(self) -> None:
        """Nothing is kept; a closed store refuses every call."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("the store is closed")

    def _collection(self, name: str) -> _Collection:
        try:
            return self._collections[name]
        except KeyError:
            raise NotFoundError(f"no collection {name!r}") from None

    def _commit(self, writer: NaiveWriter, actor: str, reason: str) -> None:
        with self._lock:
            self._check_open()
            if self.fail_next_commit is not None:
                failure, self.fail_next_commit = self.fail_next_commit, None
                raise failure
            for expectation in writer.expectations:
                self._check(expectation)
            at = max(self._last + 1, self._clock.now())
            changed = {name: list(self._collections[name].rows) for name in self._collections}
            for step in writer.steps:
                step(changed, at)
            for name, rows in changed.items():
                self._collections[name].rows = rows
            for namespace, key, value in writer.kv:
                if value is None:
                    self._kv.get(namespace, {}).pop(key, None)
                else:
                    self._kv.setdefault(namespace, {})[key] = value
            self._last = at
            self.commits.append((actor, reason))
            writer.done(at)

    def _check(self, expectation: tuple[str, str, bool]) -> None:
        collection, name, wanted = expectation
        is_open = any(row.id == name and row.tx_to == FOREVER for row in self._collection(collection).rows)
        if wanted and not is_open:
            raise VersionConflictError(f"{name!r} is not in force any more", id=name)
        if is_open and not wanted:
            raise AlreadyExistsError(f"{name!r} is there already", id=name)


class NaiveWriter:
    """Steps of one transaction, run at commit in the order they were given."""

    def __init__(self, store: NaiveStore) -> None:
        self._store = store
        self._at: int | None = None
        self.steps: list[Callable[[dict[str, list[Row]], int], None]] = []
        self.expectations: list[tuple[str, str, bool]] = []
        self.kv: list[tuple[str, str, bytes | None]] = []

    def put(
        self,
        collection: str,
        id: str,
        *,
        payload: Mapping[str, Json],
        vector: Vector | None = None,
        like: str | None = None,
        stamps: Stamps = Stamps(),
    ) -> None:
        dim = self._store._collection(collection).dim
        if not id:
            raise InvalidArgumentError("an id is empty")
        if (vector is None) == (like is None):
            raise InvalidArgumentError("exactly one of `vector` and `like` is wanted")
        if stamps.valid_from >= stamps.valid_to:
            raise InvalidArgumentError(f"the valid window of {id!r} is empty: its end is not after its start")
        if stamps.life is Life.GONE:
            raise InvalidArgumentError("a record cannot be written as GONE")
        unit = None if vector is None else _unit(_checked(vector, dim))
        kept = _copied(payload)

        def step(rows: dict[str, list[Row]], at: int) -> None:
            made = unit if unit is not None else _vector_like(rows[collection], str(like))
            _end(rows[collection], id, at, Life.GONE)
            rows[collection].append(Row(id, kept, made, stamps, at))

        self.steps.append(step)

    def close(self, collection: str, id: str, *, end_life: Life) -> None:
        self._store._collection(collection)

        def step(rows: dict[str, list[Row]], at: int) -> None:
            if not _end(rows[collection], id, at, end_life):
                raise NotFoundError(f"{id!r} has no open record to close")

        self.steps.append(step)

    def expect_open(self, collection: str, id: str) -> None:
        self.expectations.append((collection, id, True))

    def expect_absent(self, collection: str, id: str) -> None:
        self.expectations.append((collection, id, False))

    def kv_set(self, namespace: str, key: str, value: bytes) -> None:
        self.kv.append((namespace, key, bytes(value)))

    def kv_delete(self, namespace: str, key: str) -> None:
        self.kv.append((namespace, key, None))

    @property
    def committed_at(self) -> int:
        if self._at is None:
            raise InvalidArgumentError("nothing is committed yet", hint="read committed_at after the `with` block")
        return self._at

    def done(self, at: int) -> None:
        self._at = at


class NaiveReader:
    """One view of one collection at one moment. Of several visible records of one id it knows the newest only."""

    def __init__(self, collection: _Collection, view: View, now: int) -> None:
        self._view = view
        self._now = now
        self._fields = collection.text_fields
        self._dim = collection.dim
        self._rows: dict[str, Row] = {}
        for row in list(collection.rows):
            seen = _as_known(row, now)
            if seen is not None and visible(seen, view, now):
                self._rows[seen.id] = seen

    @property
    def view(self) -> View:
        return self._view

    @property
    def now(self) -> int:
        return self._now

    def get(self, ids: Sequence[str], *, include: Sequence[str] = ("payload",)) -> list[Row | None]:
        for part in include:
            if part not in ("payload", "vector"):
                raise InvalidArgumentError(f"include has {part!r}", hint='"payload" and "vector" can be asked for')
        return [_shown(self._rows.get(name), include) for name in ids]

    def scan(self, *, filter: object = None, limit: int = 100, after: str | None = None) -> Page:
        found = [row for row in self._matching(filter) if after is None or row.id > after]
        rows = tuple(_shown_row(row, ("payload",)) for row in found[:limit])
        return Page(rows, rows[-1].id if rows and len(found) > limit else None)

    def count(self, *, filter: object = None) -> int:
        return len(self._matching(filter))

    def facets(self, field: str, *, filter: object = None, limit: int = 20) -> list[tuple[Json, int]]:
        seen: Counter[str] = Counter()
        for row in self._matching(filter):
            seen.update({_canonical(v) for v in _values(row.payload, field)})
        ordered = sorted(seen.items(), key=lambda item: (-item[1], item[0]))
        return [(json.loads(value), n) for value, n in ordered[:limit]]

    def search(
        self,
        vector: Vector | None = None,
        *,
        text: str | None = None,
        alpha: float = 0.5,
        k: int = 10,
        filter: object = None,
        ef_search: int | None = None,
        explain: bool = False,
    ) -> list[Hit]:
        del ef_search  # every row is looked at
        if vector is None and text is None:
            raise InvalidArgumentError("nothing to search for", hint="give a vector, a text, or both")
        if k < 1:
            raise InvalidArgumentError(f"k is {k}", hint="1 or more")
        rows = self._matching(filter)
        ids = [row.id for row in rows]
        dense = None if vector is None else self.dense_scores(vector, ids)
        lexical = None if text is None else self.text_scores(text, ids)
        hits: list[Hit] = []
        top = float(lexical.max()) if lexical is not None and len(lexical) else 0.0
        for i, row in enumerate(rows):
            near = math.nan if dense is None else float(dense[i])
            match = 0.0 if lexical is None else float(lexical[i])
            if dense is None:
                if match <= 0.0:
                    continue
                score = match
            elif lexical is None or top <= 0.0:
                score = near
            else:
                score = alpha * (near + 1.0) / 2.0 + (1.0 - alpha) * match / top
            parts = {"vector": near, "text": match} if explain else {}
            hits.append(Hit(row.id, score, 1.0 - near, _copied(row.payload or {}), parts))
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return hits[:k]

    def dense_scores(self, vector: Vector, ids: Sequence[str]) -> Vector:
        query = _unit(_checked(vector, self._dim))
        out = np.full(len(ids), np.nan, dtype=np.float32)
        for i, name in enumerate(ids):
            row = self._rows.get(name)
            if row is not None and row.vector is not None:
                out[i] = float(np.dot(row.vector, query))
        return out

    def text_scores(self, text: str, ids: Sequence[str]) -> Vector:
        """Statistics over the rows that this view shows, so that no hidden row can be told from a score."""
        bags = {name: Counter(words(self._text(row))) for name, row in self._rows.items()}
        lengths = {name: sum(bag.values()) for name, bag in bags.items()}
        average = sum(lengths.values()) / len(bags) if bags else 0.0
        out = np.full(len(ids), np.nan, dtype=np.float32)
        terms = list(dict.fromkeys(words(text)))
        idf = {t: _idf(len(bags), sum(1 for bag in bags.values() if t in bag)) for t in terms}
        for i, name in enumerate(ids):
            if name in bags:
                out[i] = sum(_bm25(bags[name][t], lengths[name], average) * idf[t] for t in terms)
        return out

    def _text(self, row: Row) -> str:
        return "\n".join(str(v) for f in self._fields for v in _values(row.payload, f) if isinstance(v, str))

    def _matching(self, filter: object) -> list[Row]:
        rows = sorted(self._rows.values(), key=lambda row: row.id)
        if filter is None:
            return rows
        from kektordb.filters import evaluate, parse_filter

        tree = parse_filter(filter)
        return [row for row in rows if tree is None or evaluate(tree, row.payload or {})]


def _as_known(row: Row, now: int) -> Row | None:
    """The record as it stood at `now`: absent if it was written later, open if it was closed later."""
    if row.tx_from > now:
        return None
    return row if row.tx_to <= now or row.tx_to == FOREVER else replace(row, tx_to=FOREVER, end_life=Life.GONE)


def _end(rows: list[Row], id: str, at: int, life: Life) -> bool:
    for i, row in enumerate(rows):
        if row.id == id and row.tx_to == FOREVER:
            rows[i] = replace(row, tx_to=at, end_life=life)
            return True
    return False


def _vector_like(rows: Sequence[Row], id: str) -> Vector:
    records = [row for row in rows if row.id == id and row.vector is not None]
    if not records:
        raise NotFoundError(f"no record {id!r} whose vector could be copied")
    vector = records[-1].vector
    assert vector is not None
    return vector


def _checked(vector: Vector, dim: int) -> Vector:
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dim,):
        raise DimensionMismatchError(f"the vector has shape {array.shape}, wanted ({dim},)")
    if not np.isfinite(array).all():
        raise InvalidArgumentError("the vector holds NaN or infinity")
    if not array.any():
        raise InvalidArgumentError("a zero vector has no direction")
    return array


def _unit(vector: Vector) -> Vector:
    wide = vector.astype(np.float64)
    unit: Vector = (wide / np.linalg.norm(wide)).astype(np.float32)
    return unit


def _shown_row(row: Row, include: Sequence[str]) -> Row:
    payload = _copied(row.payload or {}) if "payload" in include else None
    return replace(row, payload=payload, vector=row.vector if "vector" in include else None)


def _shown(row: Row | None, include: Sequence[str]) -> Row | None:
    return None if row is None else _shown_row(row, include)


def _copied(value: Mapping[str, Json]) -> dict[str, Json]:
    """By way of JSON text, as a disk would: a caller's later changes do not reach what is stored."""
    copied: dict[str, Json] = json.loads(json.dumps(dict(value), allow_nan=False, ensure_ascii=True))
    return copied


def _values(payload: Json, path: str) -> list[Json]:
    """What a dotted path names, lists taken element by element."""
    found: list[Json] = [payload]
    for name in path.split("."):
        found = [v[name] for item in found for v in _each(item) if isinstance(v, dict) and name in v]
    return [v for item in found for v in _each(item) if not isinstance(v, dict)]


def _each(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _canonical(value: Json) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=True)


def _idf(rows: int, having: int) -> float:
    return math.log(1.0 + (rows - having + 0.5) / (having + 0.5))


def _bm25(times: int, length: int, average: float) -> float:
    if times == 0:
        return 0.0
    return times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length / average))
