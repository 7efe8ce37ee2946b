"""The seam between the engine and everything above it.

The local engine implements it; `kektordb.testing.NaiveStore` is the slow twin that tests compare it to. Nothing above may
assume a local file. A reader sees one moment: every method of one reader answers from the same epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kektordb.model.view import FOREVER, Life, Stamps, View

Json = Any
"""A JSON value: None, bool, int, float, str, list, dict."""
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One stored row as a view shows it."""

    id: str
    payload: dict[str, Json] | None
    vector: Vector | None
    stamps: Stamps
    tx_from: int
    """Recorded at, microseconds; set by the engine, monotonic."""
    tx_to: int = FOREVER
    """Closed at, microseconds; FOREVER while it is open."""
    end_life: Life = Life.GONE
    """Its state after `tx_to`."""

    @property
    def life(self) -> Life:
        """State now: its own while open, `end_life` after."""
        return self.stamps.life if self.tx_to == FOREVER else self.end_life


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer of a search. `distance`: smaller = nearer (NaN where the text arm alone found it); `score`: larger = better."""

    id: str
    score: float
    distance: float
    payload: dict[str, Json] | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """A run of rows in id order; `next` continues after it (None = the end)."""

    rows: tuple[Row, ...]
    next: str | None


class Reader(Protocol):
    """Reads of one collection under one view at one epoch. A filter is text in the filter language or a built tree."""

    @property
    def view(self) -> View: ...
    @property
    def now(self) -> int:
        """The moment this reader stands at, microseconds."""
        ...

    def get(self, ids: Sequence[str], *, include: Sequence[str] = ("payload",)) -> list[Row | None]:
        """One entry per id, None where absent or hidden. Of several visible records of one id, the newest."""
        ...

    def scan(self, *, filter: object = None, limit: int = 100, after: str | None = None) -> Page: ...
    def count(self, *, filter: object = None) -> int: ...
    def facets(self, field: str, *, filter: object = None, limit: int = 20) -> list[tuple[Json, int]]: ...
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
    ) -> list[Hit]: ...
    def dense_scores(self, vector: Vector, ids: Sequence[str]) -> Vector:
        """Similarity (larger = nearer; cosine for cosine collections) of each id's row; NaN where absent or hidden."""
        ...

    def text_scores(self, text: str, ids: Sequence[str]) -> Vector:
        """BM25 score of each id's row under this view's statistics; 0 where nothing matches, NaN where absent or hidden."""
        ...


class Writer(Protocol):
    """Collects changes; leaving the `with` block commits them as one log record, an exception drops them all."""

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
        """Adds a record; an open record of the same id is closed (end_life GONE). Exactly one of `vector` and `like` (an id
        whose open or newest record's vector is copied)."""
        ...

    def close(self, collection: str, id: str, *, end_life: Life) -> None:
        """Ends the open record of `id` now; from then on its state is `end_life`."""
        ...

    def expect_open(self, collection: str, id: str) -> None:
        """The commit fails with VersionConflictError unless `id` has an open record just before it."""
        ...

    def expect_absent(self, collection: str, id: str) -> None:
        """The commit fails with AlreadyExistsError if `id` has an open record just before it."""
        ...

    def kv_set(self, namespace: str, key: str, value: bytes) -> None: ...
    def kv_delete(self, namespace: str, key: str) -> None: ...
    @property
    def committed_at(self) -> int:
        """`tx_from` of what was written, microseconds; after the block."""
        ...


class Store(Protocol):
    """A database as the memory sees it. One object per open database: what handles of one memory share is kept by it."""

    def ensure_collection(
        self, name: str, *, dim: int, text_fields: Sequence[str], language: str | None, meta: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Creates the collection if it is missing (cosine, history kept). Returns the `meta` it was created with; another
        `dim` is no error here, so that the caller can say which embedder filled it."""
        ...

    def reader(self, collection: str, view: View) -> Reader: ...
    def writer(
        self, *, actor: str = "", reason: str = "", durability: str = "sync"
    ) -> AbstractContextManager[Writer]: ...
    def kv_get(self, namespace: str, key: str) -> bytes | None: ...
    def kv_scan(self, namespace: str, *, prefix: str = "") -> Iterator[tuple[str, bytes]]: ...
    def now(self) -> int:
        """Belief-time clock, microseconds, never goes back."""
        ...


class Maintenance(Protocol):
    """Work on a whole collection that no view can do. Not for readers and writers of memories."""

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
        """Gives every record, open, closed or replaced, the vector that `embed` makes of its payload; ids, stamps and times
        stay. Then `dim` and `meta` are switched in one step. Readers see the old vectors until then.

        A run that was interrupted is continued by the next call with an equal `meta`. `progress` gets what is done and how
        much there is. Returns how many records there are per state."""
        ...
