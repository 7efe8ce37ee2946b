"""A collection: rows of vector, payload and text under one name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kektordb.engine import door
from kektordb.engine.hits import Hits
from kektordb.engine.plan import plan_text
from kektordb.engine.protocol import Json, Page, Row
from kektordb.engine.rows import row_of
from kektordb.errors import DtypeError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from kektordb._native import Store, Tx

Durability = Literal["sync", "buffered"]
GONE = 0
WORD = 2**63 - 1
"""No count is larger: what the extension's whole numbers hold."""
LAST_ROW = 2**32 - 1


class Collection:
    """Made by `Database.create_collection` and `Database.collection`; holds no state but the name and the settings.

    Safe to share between threads. Every read answers from one epoch; no read waits for a sync.
    """

    def __init__(self, store: Store, name: str, *, ef_search: int) -> None:
        self._store = store
        self.name = name
        with door.utf8():
            self._spec: dict[str, Json] = json.loads(store.spec(door.name(name, "collection name")))
        self._ef = ef_search
        self.dim: int = self._spec["dim"]

    @property
    def metric(self) -> str:
        return str(self._spec["metric"])

    @property
    def dtype(self) -> str:
        return str(self._spec["dtype"])

    @property
    def index(self) -> str:
        return str(self._spec["index"])

    @property
    def text_fields(self) -> list[str]:
        return list(self._spec["text_fields"])

    @property
    def language(self) -> str | None:
        language: str | None = self._spec["language"]
        return language

    @property
    def meta(self) -> Mapping[str, Json]:
        """What the creator noted: the embedder that fills it, for one."""
        return self._spec["meta"] or {}

    # -- writes

    def upsert(
        self,
        ids: Sequence[str] | str,
        vectors: object,
        payloads: Sequence[Mapping[str, Json] | None] | None = None,
        *,
        durability: Durability = "sync",
    ) -> None:
        """Adds rows, or replaces those that are there. One log record: all or nothing.

        ids: text, distinct, 1 to 4,096 bytes each. vectors: (n, dim) real numbers; kept as the collection's dtype.
        payloads: one JSON object an id, or None. "sync": on the disk when it returns; "buffered": the operating system
        has it, the disk within `settings.log.sync_interval_ms`.
        Errors: InvalidArgumentError (nothing is written), StorageError.
        """
        tx = self._store.transaction("", "")
        add_upsert(self._store, tx, self, ids, vectors, payloads)
        self._store.commit(tx, sync(durability))

    def delete(self, ids: Sequence[str] | str, *, durability: Durability = "sync") -> int:
        """Removes rows; ids that are not there are passed over. Returns how many were removed."""
        tx = self._store.transaction("", "")
        with door.utf8():
            self._store.close_rows(tx, self.name, door.distinct(door.ids_of(ids)), GONE, False)
        return self._store.commit(tx, sync(durability))[2]

    def set_payload(
        self,
        ids: Sequence[str] | str,
        payload: Mapping[str, Json],
        *,
        merge: bool = True,
        durability: Durability = "sync",
    ) -> None:
        """Changes the payload of rows that exist (NotFoundError otherwise, nothing changed).

        merge: the given top-level fields replace those of the same name, the others stay; without it the whole payload
        is replaced. The vector and its links are not touched.
        """
        tx = self._store.transaction("", "")
        add_set_payload(self._store, tx, self, ids, payload, merge=merge)
        self._store.commit(tx, sync(durability))

    # -- reads

    def get(self, ids: Sequence[str] | str, *, include: Sequence[str] = ("payload",)) -> list[Row | None]:
        """One entry per id in the order asked, None where there is none. include: "payload", "vector"."""
        payload, vec = included(include)
        with door.utf8():
            rows = self._store.get(self.name, None, door.ids_of(ids), payload, vec)
        return [None if r is None else row_of(r) for r in rows]

    def scan(
        self,
        *,
        filter: object = None,
        limit: int = 100,
        after: str | None = None,
        include: Sequence[str] = ("payload",),
    ) -> Page:
        """A page of rows in the order they were written. `after` is the `next` of the page before."""
        return scan(self._store, self.name, None, filter, limit, after, include)

    def __iter__(self) -> Iterator[Row]:
        after: str | None = None
        while True:
            page = self.scan(limit=1000, after=after)
            yield from page.rows
            if page.next is None:
                return
            after = page.next

    def count(self, *, filter: object = None) -> int:
        with door.utf8():
            return self._store.count(self.name, None, plan_text(filter))

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.get([id], include=())[0] is not None

    def facets(self, field: str, *, filter: object = None, limit: int = 20) -> list[tuple[Json, int]]:
        """Values of a field with how many rows carry them, most frequent first."""
        return facets(self._store, self.name, None, field, filter, limit)

    def fields(self) -> dict[str, Json]:
        """Paths that occur in payloads, with types and counts."""
        out: dict[str, Json] = json.loads(self._store.fields(self.name))
        return out

    def search(
        self,
        vector: object = None,
        *,
        k: int = 10,
        text: str | None = None,
        alpha: float = 0.5,
        filter: object = None,
        ef_search: int | None = None,
        max_distance: float | None = None,
        exact: bool = False,
        include: Sequence[str] = ("payload",),
        explain: bool = False,
    ) -> Hits:
        """The k best rows by vector, by text (BM25), or by both.

        vector: (dim,) real numbers. text: plain words; "quoted words" stand together, +word must occur; no punctuation
        is an error. With both, each arm is scaled to 0…1 and `alpha` weighs the vector arm (0 = text alone, 1 = vector
        alone). filter: text in the filter language or a tree built with `F`; exactly the rows that satisfy it count.
        k hits come back whenever k rows match. ef_search: width of the walk, raised to k; larger = better recall and
        slower. max_distance bounds the vector arm alone. exact scans all rows. explain fills `Hit.parts`.
        """
        if type(k) is not int or not 1 <= k <= WORD:
            k = at_least_one(k, "k")
        if type(alpha) is not float:
            alpha = door.real(alpha, "alpha")
        if max_distance is not None:
            max_distance = door.real(max_distance, "max_distance")
        if text is not None:
            door.name(text, "text")
        payload, _ = included(include)
        v = None if vector is None else door.vector(vector, dim=self.dim)
        with door.utf8():
            core = self._store.search(
                self.name,
                None,
                v,
                text,
                alpha,
                k,
                self._ef if ef_search is None else width(ef_search),
                None if filter is None else plan_text(filter),
                max_distance,
                exact,
                payload,
            )
        return Hits(core, explain=explain)

    def search_batch(
        self,
        vectors: object,
        *,
        k: int = 10,
        filter: object = None,
        ef_search: int | None = None,
        threads: int = 0,
        include: Sequence[str] = (),
    ) -> list[Hits]:
        """One search per row of `vectors`, on `threads` threads (0 = all cores)."""
        k = at_least_one(k, "k")
        m = door.matrix(vectors, n=None, dim=self.dim)
        payload, _ = included(include)
        ef = self._ef if ef_search is None else width(ef_search)
        threads = door.whole(threads, "threads", at_least=0, at_most=WORD)
        with door.utf8():
            cores = self._store.search_batch(self.name, None, m, k, ef, plan_text(filter), threads, payload)
        return [Hits(c) for c in cores]

    def search_rows(
        self, vector: NDArray[np.float32], k: int, ef_search: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """The fast path: (rows, distances), no ids, no payloads. `vector` is a contiguous float32 array."""
        try:
            return self._store.search_rows(self.name, vector, k, ef_search)
        except (TypeError, OverflowError) as e:
            at_least_one(k, "k")
            width(ef_search)
            made = f"{getattr(vector, 'dtype', type(vector).__name__)} of shape {np.shape(vector)}"
            raise DtypeError(
                f"vector is {made}", hint=f"give a contiguous float32 array of {self.dim} numbers; search() converts"
            ) from e

    def row_ids(self) -> list[str]:
        """External id of each row, in row order; empty text for a row that is deleted. Valid until vacuum."""
        return self._store.row_ids(self.name)

    def explain_text(self, text: str, id: str) -> list[dict[str, Json]]:
        """Per-term parts of the BM25 score of one row."""
        with door.utf8():
            hits = self._store.search(
                self.name, None, None, door.name(text, "text"), 0.0, 10_000, 0, None, None, False, False
            )
        rows = dict(zip(hits.ids(), hits.rows().tolist(), strict=True))
        if id not in rows:
            raise NotFoundError(f"{id!r} is not among the hits of {text!r}")
        out: list[dict[str, Json]] = json.loads(self._store.explain_text(self.name, None, text, rows[id]))
        return out

    def __repr__(self) -> str:
        return f"Collection({self.name!r}, dim={self.dim}, metric={self.metric!r}, index={self.index!r})"


def at_least_one(value: object, what: str) -> int:
    """A count of what is wanted. The engine refuses those past its limits, naming the limit."""
    return door.whole(value, what, at_least=1, at_most=WORD)


def width(value: object) -> int:
    """`ef_search`; 0 is as good as k."""
    return door.whole(value, "ef_search", at_least=0, at_most=WORD)


def sync(durability: str) -> bool:
    if durability not in ("sync", "buffered"):
        raise InvalidArgumentError(f"durability is {durability!r}", hint='"sync" or "buffered"')
    return durability == "sync"


def included(include: Sequence[str]) -> tuple[bool, bool]:
    if isinstance(include, str):
        include = (include,)
    for one in include:
        if one not in ("payload", "vector"):
            raise InvalidArgumentError(f"include holds {one!r}", hint='"payload" and "vector" can be included')
    return "payload" in include, "vector" in include


def add_upsert(
    store: Store,
    tx: Tx,
    collection: Collection,
    ids: Sequence[str] | str,
    vectors: object,
    payloads: Sequence[Mapping[str, Json] | None] | None,
) -> None:
    names = door.distinct(door.ids_of(ids))
    m = door.matrix(vectors, n=len(names), dim=collection.dim)
    texts = door.payload_texts(payloads, len(names))
    with door.utf8():
        store.put_many(tx, collection.name, names, m, texts)


def add_set_payload(
    store: Store,
    tx: Tx,
    collection: Collection,
    ids: Sequence[str] | str,
    payload: Mapping[str, Json],
    *,
    merge: bool,
) -> None:
    names = door.distinct(door.ids_of(ids))
    with door.utf8():
        store.set_payload(tx, collection.name, names, door.payload_text(payload), merge)


def scan(
    store: Store,
    name: str,
    view: Any,
    filter: object,
    limit: int,
    after: str | None,
    include: Sequence[str],
) -> Page:
    limit = at_least_one(limit, "limit")
    payload, vec = included(include)
    start = None
    if after is not None:
        if not (isinstance(after, str) and after.isascii() and after.isdigit() and len(after) <= 10):
            raise InvalidArgumentError(f"after is {after!r}", hint="give the `next` of the page before")
        start = min(int(after), LAST_ROW)
    with door.utf8():
        rows, cursor = store.scan(name, view, plan_text(filter), limit, start, payload, vec)
    return Page(rows=tuple(row_of(r) for r in rows), next=None if cursor is None else str(cursor))


def facets(store: Store, name: str, view: Any, field: str, filter: object, limit: int) -> list[tuple[Json, int]]:
    with door.utf8():
        pairs = json.loads(store.facets(name, view, field, plan_text(filter), at_least_one(limit, "limit")))
    return [(v, n) for v, n in pairs]
