"""Where one memory lives: its collection, its key-value namespaces, its embedder, and what its handles share.

A memory named `x` is the collection `memory.x` and the namespaces `memory.x.*`. All handles of one store in one process
share one lock for read-then-write steps and one ledger of accesses.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from kektordb.embed.protocol import Embedder, Fingerprint, require_same
from kektordb.engine.protocol import Reader, Store, Vector, Writer
from kektordb.errors import EmbeddingError, InvalidArgumentError
from kektordb.memory import limits
from kektordb.memory.access import AccessLedger
from kektordb.memory.ids import IdMaker
from kektordb.memory.layers import MemorySettings
from kektordb.model.clock import Clock
from kektordb.model.view import View

TEXT_FIELD: Final = "context"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*\Z", re.ASCII)


class _Shared:
    def __init__(self, store: Store, name: str, clock: Clock) -> None:
        self.lock = threading.RLock()
        self.ledger = AccessLedger(store, f"{collection_name(name)}.access")
        self.ids = IdMaker(clock)


_shared_lock = threading.Lock()
_shared: WeakKeyDictionary[Any, dict[str, _Shared]] = WeakKeyDictionary()


def collection_name(name: str) -> str:
    if not isinstance(name, str) or len(name) > limits.MAX_NAME_CHARS or not _NAME.match(name):
        raise InvalidArgumentError(
            f"the memory's name is {name!r}",
            hint=f"1 to {limits.MAX_NAME_CHARS} (MAX_NAME_CHARS) of a-z, 0-9, '.', '_', '-', starting with a letter or digit",
        )
    return f"memory.{name}"


def collection_meta(fingerprint: Fingerprint) -> dict[str, Any]:
    return {"kind": "memory", "embedder": fingerprint.to_json()}


class Shelf:
    """Makes the collection if it is missing; EmbedderMismatchError if another embedder filled it."""

    def __init__(self, store: Store, name: str, embedder: Embedder, settings: MemorySettings, clock: Clock) -> None:
        self.name = name
        self.collection = collection_name(name)
        self.store = store
        self.embedder = embedder
        self.settings = settings
        self.clock = clock
        meta = store.ensure_collection(
            self.collection,
            dim=embedder.dim,
            text_fields=(TEXT_FIELD,),
            language=settings.language,
            meta=collection_meta(embedder.fingerprint()),
        )
        require_same(Fingerprint.from_json(meta["embedder"]), embedder.fingerprint(), collection=self.collection)
        with _shared_lock:
            known = _shared.setdefault(store, {})
            if name not in known:
                known[name] = _Shared(store, name, clock)
            shared = known[name]
        self.lock = shared.lock
        self.ledger = shared.ledger
        self.ids = shared.ids
        self.hash_key = self._hash_key()

    def reader(self, view: View) -> Reader:
        return self.store.reader(self.collection, view)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Unit rows for documents. Called before any write, so that a failing embedder changes nothing."""
        parts: list[Vector] = []
        for start in range(0, len(texts), self.settings.embed_batch):
            batch = texts[start : start + self.settings.embed_batch]
            rows = np.asarray(self.embedder.embed(batch, kind="document"), dtype=np.float32)
            if rows.shape != (len(batch), self.embedder.dim) or not np.isfinite(rows).all():
                raise EmbeddingError(
                    f"the embedder gave an array of shape {rows.shape} for {len(batch)} texts",
                    hint=f"wanted {(len(batch), self.embedder.dim)}, finite",
                )
            parts.append(rows)
        return np.concatenate(parts) if parts else np.zeros((0, self.embedder.dim), dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        row: Vector = np.asarray(self.embedder.embed([text], kind="query"), dtype=np.float32)[0]
        return row

    # What is kept beside the rows.

    def seen(self, digest: str) -> list[str]:
        """Lineages that stored this digest, the latest last; they may have changed since."""
        data = self.store.kv_get(f"{self.collection}.seen", digest)
        found: list[str] = [] if data is None else json.loads(data)
        return found

    def note_seen(self, writer: Writer, digest: str, lineages: Sequence[str]) -> None:
        every = list(dict.fromkeys([*self.seen(digest), *lineages]))[-limits.MAX_TWINS :]
        writer.kv_set(f"{self.collection}.seen", digest, json.dumps(every, separators=(",", ":")).encode())

    def note_closing(self, writer: Writer, id: str, *, event: str, reason: str, by: str | None = None) -> None:
        """Why a version was closed, and what took its place. A version closes once, so there is one note of it."""
        note = {"event": event, "reason": reason, "by": by}
        writer.kv_set(f"{self.collection}.closings", id, json.dumps(note, separators=(",", ":")).encode())

    def closing(self, id: str) -> dict[str, str | None]:
        data = self.store.kv_get(f"{self.collection}.closings", id)
        found: dict[str, str | None] = {} if data is None else json.loads(data)
        return found

    def _hash_key(self) -> bytes:
        """Secret of the duplicate hashes, made once per memory, so that a hash does not give a text away."""
        with self.lock:
            key = self.store.kv_get(self.collection, "hash-key")
            if key is None:
                key = secrets.token_bytes(32)
                with self.store.writer(actor="memory", reason="first opening") as writer:
                    writer.kv_set(self.collection, "hash-key", key)
            return key
