"""The local engine behind `engine.protocol`: what the memory builds on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kektordb.engine import door
from kektordb.engine.collection import facets, included, scan, sync
from kektordb.engine.hits import Hits
from kektordb.engine.plan import plan_text
from kektordb.engine.protocol import Hit, Json, Page, Row, Vector
from kektordb.engine.rows import row_of
from kektordb.errors import InvalidArgumentError, VersionConflictError
from kektordb.model.view import Life, Stamps, View

if TYPE_CHECKING:
    from kektordb._native import Store, Tx
    from kektordb.engine.database import Database


class LocalReader:
    """Reads of one collection under one view; every call answers from the moment the reader was made."""

    def __init__(self, store: Store, collection: str, view: View, *, dim: int, ef_search: int) -> None:
        self._store = store
        self._collection = collection
        self._dim = dim
        self._ef = ef_search
        self.view = view
        self.now = store.now()
        self._arg: Any = door.view_arg(view, self.now)

    def get(self, ids: Sequence[str], *, include: Sequence[str] = ("payload",)) -> list[Row | None]:
        payload, vec = included(include)
        with door.utf8():
            rows = self._store.get(self._collection, self._arg, list(ids), payload, vec)
        return [None if r is None else row_of(r) for r in rows]

    def scan(self, *, filter: object = None, limit: int = 100, after: str | None = None) -> Page:
        return scan(self._store, self._collection, self._arg, filter, limit, after, ("payload",))

    def count(self, *, filter: object = None) -> int:
        with door.utf8():
            return self._store.count(self._collection, self._arg, plan_text(filter))

    def facets(self, field: str, *, filter: object = None, limit: int = 20) -> list[tuple[Json, int]]:
        return facets(self._store, self._collection, self._arg, field, filter, limit)

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
        v = None if vector is None else door.vector(vector, dim=self._dim)
        ef = self._ef if ef_search is None else ef_search
        with door.utf8():
            core = self._store.search(
                self._collection, self._arg, v, text, alpha, k, ef, plan_text(filter), None, False, True
            )
        return list(Hits(core, explain=explain))

    def dense_scores(self, vector: Vector, ids: Sequence[str]) -> Vector:
        v = door.vector(vector, dim=self._dim)
        with door.utf8():
            return self._store.dense_scores(self._collection, self._arg, v, list(ids))

    def text_scores(self, text: str, ids: Sequence[str]) -> Vector:
        with door.utf8():
            return self._store.text_scores(self._collection, self._arg, text, list(ids))


class LocalWriter:
    """Collects changes of one transaction."""

    def __init__(self, db: Database, tx: Tx) -> None:
        self._db = db
        self._store = db._store
        self._tx = tx
        self.committed_at = 0

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
        if (vector is None) == (like is None):
            raise InvalidArgumentError("give exactly one of vector and like")
        v = None if vector is None else door.vector(vector, dim=self._db.collection(collection).dim)
        s = stamps
        with door.utf8():
            self._store.put(
                self._tx,
                collection,
                id,
                v,
                like,
                door.payload_text(payload),
                (int(s.life), int(s.belief), int(s.trust), s.stale),
                (s.valid_from, s.valid_to),
                (s.scope.user, s.scope.agent, s.scope.session),
            )

    def close(self, collection: str, id: str, *, end_life: Life) -> None:
        with door.utf8():
            self._store.close_rows(self._tx, collection, [id], int(end_life), True)

    def expect_open(self, collection: str, id: str) -> None:
        with door.utf8():
            self._store.expect(self._tx, collection, id, True)

    def expect_absent(self, collection: str, id: str) -> None:
        with door.utf8():
            self._store.expect(self._tx, collection, id, False)

    def kv_set(self, namespace: str, key: str, value: bytes) -> None:
        with door.utf8():
            self._tx.kv_set(namespace, key, value)

    def kv_delete(self, namespace: str, key: str) -> None:
        with door.utf8():
            self._tx.kv_delete(namespace, key)


class LocalStore:
    """`engine.protocol.Store` over an open database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._store = db._store

    def ensure_collection(
        self, name: str, *, dim: int, text_fields: Sequence[str], language: str | None, meta: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        if name not in self._db.collections():
            self._db.create_collection(
                name, dim=dim, text_fields=text_fields, language=language, history=True, meta=meta
            )
        return self._db.collection(name).meta

    def reader(self, collection: str, view: View) -> LocalReader:
        c = self._db.collection(collection)
        return LocalReader(self._store, collection, view, dim=c.dim, ef_search=self._db.ef_search)

    @contextmanager
    def writer(self, *, actor: str = "", reason: str = "", durability: str = "sync") -> Iterator[LocalWriter]:
        wait = sync(durability)
        with door.utf8():
            tx = self._store.transaction(actor, reason)
        w = LocalWriter(self._db, tx)
        yield w
        if len(tx):
            w.committed_at = self._store.commit(tx, wait)[1]

    def kv_get(self, namespace: str, key: str) -> bytes | None:
        with door.utf8():
            value = self._store.kv_get(namespace, key)
        return None if value is None else bytes(value)

    def kv_scan(self, namespace: str, *, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        after: str | None = None
        while True:
            with door.utf8():
                page = self._store.kv_scan(namespace, door.name(prefix, "prefix"), after, 1000)
            for key, value in page:
                yield key, bytes(value)
            if len(page) < 1000:
                return
            after = page[-1][0]

    def now(self) -> int:
        return self._store.now()

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
        """See `engine.protocol.Maintenance`. What was staged survives an interruption; the switch is one log record."""
        key = json.dumps(dict(meta), sort_keys=True)
        while True:
            rows, done, counts = self._store.staged(collection, key)
            while done < rows:
                texts = self._store.payloads(collection, done, batch)
                payloads = [json.loads(t) if t else {} for t in texts]
                vectors = door.matrix(embed(payloads), n=len(payloads), dim=dim)
                self._store.stage_vectors(collection, done, key, vectors)
                done += len(payloads)
                if progress is not None:
                    progress(done, rows)
            try:
                self._store.switch_vectors(collection)
            except VersionConflictError:
                continue  # rows came in meanwhile
            return {life: counts[life] for life in Life if counts[life]}
