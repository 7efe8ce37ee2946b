"""A database: a directory on disk, or memory; made by `kektordb.open`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kektordb import _native
from kektordb.engine import door
from kektordb.engine.collection import Collection, Durability, add_set_payload, add_upsert, sync
from kektordb.engine.local import LocalStore
from kektordb.engine.protocol import Json
from kektordb.errors import ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from kektordb.config import Settings
    from kektordb.memory import MemoryStore
    from kektordb.model.view import Principal


@dataclass(frozen=True, slots=True)
class HnswParams:
    """Shape of the graph: m links a row and level (2m on the ground), ef_construction candidates while building."""

    m: int = 16
    ef_construction: int = 200


class Database:
    """Collections, key-value pairs and memories of one directory. Safe to share between threads, not across a fork."""

    def __init__(self, path: str | None, store: _native.Store, settings: Settings) -> None:
        self.path = path
        self._store = store
        self.settings = settings
        self.ef_search: int = settings.search.ef_search
        # One for all memories: their handles share its lock and their access counts by it.
        self._local = LocalStore(self)

    @property
    def store(self) -> LocalStore:
        """The engine as `engine.protocol.Store`: what memories build on."""
        return self._local

    # -- collections

    def create_collection(
        self,
        name: str,
        *,
        dim: int,
        metric: str = "cosine",
        dtype: str = "float32",
        index: str = "graph",
        hnsw: HnswParams | None = None,
        text_fields: Sequence[str] | str = (),
        language: str | None = "english",
        history: bool = False,
        meta: Mapping[str, Json] | None = None,
    ) -> Collection:
        """Creates a collection; AlreadyExistsError where the name is taken. Durable when it returns.

        metric: "cosine" | "dot" | "l2" (squared Euclidean). dtype: "float32" | "float16" | "int8", how rows are kept.
        index: "graph" (HNSW) | "packed" (HNSW with one-bit codes of the neighbours beside the links: faster, larger, for
        some hundreds of dimensions) | "flat" (exact scan). text_fields: payload fields that BM25 searches; language: a
        snowball language for them, None = no stemming. history: replaced and deleted rows stay for as-of views.
        """
        h = hnsw or HnswParams()
        fields = [text_fields] if isinstance(text_fields, str) else [door.name(f, "a text field") for f in text_fields]
        for what, value in (("dim", dim), ("m", h.m), ("ef_construction", h.ef_construction)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidArgumentError(f"{what} is {value!r}", hint="give a positive whole number")
        if index not in ("graph", "packed", "flat"):
            raise InvalidArgumentError(f"index is {index!r}", hint='"graph", "packed" or "flat"')
        spec = {
            "dim": dim,
            "metric": metric,
            "dtype": dtype,
            "index": index,
            "m": h.m,
            "ef_construction": h.ef_construction,
            "text_fields": fields,
            "language": language if fields else None,
            "history": history,
            "meta": json.loads(door.payload_text(meta or {}, "meta")),
        }
        with door.utf8():
            self._store.create_collection(door.name(name, "collection name"), json.dumps(spec))
        return self.collection(name)

    def collection(self, name: str) -> Collection:
        """The collection of that name; NotFoundError where there is none."""
        return Collection(self._store, name, ef_search=self.ef_search)

    def collections(self) -> list[str]:
        return self._store.collections()

    def drop_collection(self, name: str) -> None:
        """Removes a collection with all its rows; its files go with the next checkpoint."""
        with door.utf8():
            self._store.drop_collection(door.name(name, "collection name"))

    def __getitem__(self, name: str) -> Collection:
        return self.collection(name)

    def __contains__(self, name: object) -> bool:
        return name in self.collections()

    # -- batches and key-value pairs

    @contextmanager
    def batch(self, *, reason: str = "", durability: Durability = "sync") -> Iterator[Batch]:
        """Changes that become one log record when the block ends: all or nothing. An exception drops them all."""
        wait = sync(durability)
        with door.utf8():
            tx = self._store.transaction("", reason)
        yield Batch(self, tx)
        if len(tx):
            self._store.commit(tx, wait)

    def kv(self, namespace: str) -> Kv:
        """Key-value pairs of one namespace."""
        return Kv(self, door.name(namespace, "namespace"))

    # -- memory

    def memory(self, name: str = "memory", *, principal: Principal | None = None, **options: Any) -> MemoryStore:
        """An agent's memory in this database; see `kektordb.memory.open_memory` for the options."""
        from kektordb.embed import EmbedSettings
        from kektordb.memory import open_memory

        options.setdefault("embed_settings", EmbedSettings(threads=self.settings.embed.threads))
        return open_memory(self._local, name, principal=principal, **options)

    # -- upkeep

    def flush(self) -> None:
        """Waits until buffered writes are on the disk and every row is in the graph."""
        self._store.flush()

    def checkpoint(self) -> None:
        """Writes what changed as files to map, and drops the log before them. Searches go on; writes wait."""
        self._store.checkpoint()

    def vacuum(self, *, max_ms: int | None = None) -> int:
        """Gives back the rows and bytes of what was deleted and replaced. Returns how many rows became free.

        Row numbers from before (`Hits.rows`, `row_ids`) are not valid after it. `max_ms` is kept for bounded runs; a
        run now always goes to its end.
        """
        del max_ms
        return self._store.vacuum()

    def stats(self) -> dict[str, Json]:
        """Counts and sizes of everything."""
        out: dict[str, Json] = json.loads(self._store.stats())
        out["cpu"] = _native.cpu
        return out

    def recovery(self) -> dict[str, Json] | None:
        """What opening found in the log: frames, a torn tail that was cut, gaps. None for a new database."""
        report = self._store.recovery()
        if report is None:
            return None
        out: dict[str, Json] = json.loads(report)
        return out

    def close(self) -> None:
        """Syncs, writes a checkpoint if anything changed, gives the lock back. A second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            names = ", ".join(self.collections())
        except ClosedError:
            names = "closed"
        return f"Database({self.path or ':memory:'!r}: {names})"


class Batch:
    """Changes of one transaction, over any number of collections."""

    def __init__(self, db: Database, tx: _native.Tx) -> None:
        self._db = db
        self._tx = tx

    def upsert(
        self,
        collection: str,
        ids: Sequence[str] | str,
        vectors: object,
        payloads: Sequence[Mapping[str, Json] | None] | None = None,
    ) -> None:
        add_upsert(self._db._store, self._tx, self._db.collection(collection), ids, vectors, payloads)

    def delete(self, collection: str, ids: Sequence[str] | str) -> None:
        with door.utf8():
            self._db._store.close_rows(self._tx, collection, door.distinct(door.ids_of(ids)), 0, False)

    def set_payload(
        self, collection: str, ids: Sequence[str] | str, payload: Mapping[str, Json], *, merge: bool = True
    ) -> None:
        add_set_payload(self._db._store, self._tx, self._db.collection(collection), ids, payload, merge=merge)

    def kv_set(self, namespace: str, key: str, value: bytes) -> None:
        with door.utf8():
            self._tx.kv_set(door.name(namespace, "namespace"), door.name(key, "key"), door.raw(value, "value"))

    def kv_delete(self, namespace: str, key: str) -> None:
        with door.utf8():
            self._tx.kv_delete(door.name(namespace, "namespace"), door.name(key, "key"))


class Kv:
    """Key-value pairs of one namespace; values are bytes. Every write is one log record, durable when it returns."""

    def __init__(self, db: Database, namespace: str) -> None:
        self._db = db
        self._store = db._store
        self.namespace = namespace

    def get(self, key: str) -> bytes | None:
        with door.utf8():
            value = self._store.kv_get(self.namespace, door.name(key, "key"))
        return None if value is None else bytes(value)

    def set(self, key: str, value: bytes) -> None:
        with self._db.batch() as b:
            b.kv_set(self.namespace, key, value)

    def delete(self, key: str) -> None:
        with self._db.batch() as b:
            b.kv_delete(self.namespace, key)

    def scan(self, *, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Pairs whose key starts with `prefix`, in key order."""
        return self._db._local.kv_scan(self.namespace, prefix=prefix)

    def compare_and_set(self, key: str, expected: bytes | None, value: bytes) -> None:
        """Sets the key if it holds exactly `expected` (None: is absent); VersionConflictError otherwise."""
        with door.utf8():
            tx = self._store.transaction("", "")
            wanted = None if expected is None else door.raw(expected, "expected")
            self._store.expect_kv(tx, self.namespace, door.name(key, "key"), wanted)
            tx.kv_set(self.namespace, key, door.raw(value, "value"))
        self._store.commit(tx, True)


def open_database(
    path: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = True,
    read_only: bool = False,
    recovery: str = "strict",
) -> Database:
    """See `kektordb.open`."""
    from kektordb.config import Settings

    s = settings or Settings.load()
    if recovery not in ("strict", "salvage"):
        raise InvalidArgumentError(f"recovery is {recovery!r}", hint='"strict" or "salvage"')
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"path is {name!r}", hint='give a directory, or ":memory:"')
    where = None if name == ":memory:" else os.path.abspath(os.path.expanduser(name))
    if where is not None and os.path.exists(where) and not os.path.isdir(where):
        raise InvalidArgumentError(f"{where} is a file", hint="a database is a directory; name another path")
    options = {
        "create": create,
        "read_only": read_only,
        "salvage": recovery == "salvage",
        "sync_interval_ms": s.log.sync_interval_ms,
        "segment_bytes": s.log.segment_bytes,
        "checkpoint_log_bytes": s.log.checkpoint_bytes,
        "tail_rows_max": s.index.tail_rows_max,
        "link_threads": s.index.link_threads,
        "verify_open_bytes": s.open.verify_bytes,
    }
    with door.utf8():
        store = _native.Store.open(where, json.dumps(options))
    return Database(where, store, s)
