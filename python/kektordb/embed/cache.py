"""A bounded cache before another embedder, in memory and, where a path is given, in a file.

Promises: a hit is the very vector that the embedder gave; texts are never kept, only their hashes; both forms are
bounded and drop what was used longest ago; the key holds the embedder's fingerprint, so one file serves several models.
The file is a convenience: when it cannot be read or written, the cache goes on in memory and logs it.
Cost: about 3 µs a hit in memory, 4 x dim + 100 bytes an entry.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from kektordb.embed.protocol import Embedder, Fingerprint, Kind, Vectors
from kektordb.embed.texts import check_texts
from kektordb.errors import EmbeddingError, InvalidArgumentError

DEFAULT_ENTRIES = 50_000
MAX_ENTRIES = 10_000_000
_APPLICATION_ID = 0x4B454D42  # "KEMB" in the file's header: says that the file is a cache of ours
_QUERY_KEYS = 500
_BUSY_S = 2.0
_log = logging.getLogger("kektordb.embed")


class CachedEmbedder:
    """Answers from the cache what it can, and asks `inner` for the rest, each different text once a call.

    An embedder whose options change its vectors beyond what its fingerprint says gives them as a str `recipe`.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        entries: int = DEFAULT_ENTRIES,
        path: str | os.PathLike[str] | None = None,
        file_entries: int = DEFAULT_ENTRIES * 4,
    ) -> None:
        for what, value in (("entries", entries), ("file_entries", file_entries)):
            if not 1 <= value <= MAX_ENTRIES:
                raise InvalidArgumentError(f"{what} is {value}, wanted 1 to {MAX_ENTRIES}")
        self._inner = inner
        self._entries = entries
        self._lock = threading.Lock()
        self._memory: OrderedDict[bytes, Vectors] = OrderedDict()
        self._file = _File(Path(path), file_entries) if path is not None else None
        self._salt: bytes | None = None
        self.hits = 0
        self.misses = 0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dim(self) -> int:
        return self._inner.dim

    @property
    def max_tokens(self) -> int:
        return self._inner.max_tokens

    @property
    def inner(self) -> Embedder:
        return self._inner

    def fingerprint(self) -> Fingerprint:
        return self._inner.fingerprint()

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        clean = check_texts(texts)
        if not clean:
            return self._inner.embed(clean, kind=kind)
        keys = [self._key(t, kind) for t in clean]
        dim = self._inner.dim
        found = self._recall(keys, dim)
        missing: dict[bytes, str] = {k: t for k, t in zip(keys, clean, strict=True) if k not in found}
        if missing:
            rows = self._inner.embed(list(missing.values()), kind=kind)
            fresh = {k: row.copy() for k, row in zip(missing, rows, strict=True)}
            found.update(fresh)
            self._keep(fresh)
        with self._lock:
            self.misses += len(missing)
            self.hits += len(keys) - len(missing)
        return np.stack([found[k] for k in keys])

    def clear(self) -> None:
        with self._lock:
            self._memory.clear()
            if self._file is not None:
                self._file.clear()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __len__(self) -> int:
        """Entries in memory."""
        return len(self._memory)

    def _key(self, text: str, kind: Kind) -> bytes:
        if self._salt is None:
            f = self._inner.fingerprint()
            recipe = getattr(self._inner, "recipe", "")
            self._salt = repr((f.provider, f.model, f.dim, f.digest, self._inner.max_tokens, recipe)).encode()
        h = blake2b(self._salt, digest_size=20)
        h.update(b"\x00q" if kind == "query" else b"\x00d")
        h.update(text.encode("utf-8"))
        return h.digest()

    def _recall(self, keys: list[bytes], dim: int) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        with self._lock:
            for k in keys:
                row = self._memory.get(k)
                if row is not None:
                    self._memory.move_to_end(k)
                    found[k] = row
            if self._file is not None:
                stored = self._file.get([k for k in dict.fromkeys(keys) if k not in found], dim)
                found.update(stored)
                self._remember(stored)
        return found

    def _keep(self, rows: dict[bytes, Vectors]) -> None:
        with self._lock:
            self._remember(rows)
            if self._file is not None:
                self._file.put(rows)

    def _remember(self, rows: dict[bytes, Vectors]) -> None:
        for k, row in rows.items():
            self._memory[k] = row
            self._memory.move_to_end(k)
        while len(self._memory) > self._entries:
            self._memory.popitem(last=False)


class _File:
    """SQLite file of vectors by key, shared by processes; `used` is a counter, so no clock is needed."""

    def __init__(self, path: Path, entries: int) -> None:
        self._path = path
        self._entries = entries
        self._db: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
        except (OSError, sqlite3.Error) as e:
            raise EmbeddingError(f"cannot open the embedding cache {path}: {e}") from e
        try:
            ours = db.execute("PRAGMA application_id").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if ours != _APPLICATION_ID and tables:
                raise EmbeddingError(f"{path} is another program's database", hint="give the cache a file of its own")
            # a cache need not survive a power cut, but must never be torn by one: WAL without a sync a write
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            db.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, used INTEGER, row BLOB) WITHOUT ROWID"
            )
            db.execute("CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used)")
        except sqlite3.Error as e:
            db.close()
            raise EmbeddingError(
                f"{path} is not an embedding cache: {e}", hint="delete it if it was one, or give another path"
            ) from e
        except EmbeddingError:
            db.close()
            raise
        self._db = db

    def get(self, keys: list[bytes], dim: int) -> dict[bytes, Vectors]:
        out: dict[bytes, Vectors] = {}
        if self._db is None:
            return out
        try:
            for at in range(0, len(keys), _QUERY_KEYS):
                part = keys[at : at + _QUERY_KEYS]
                marks = ",".join("?" * len(part))
                for key, raw in self._db.execute(f"SELECT key, row FROM vectors WHERE key IN ({marks})", part):
                    # a row of another size is not ours to trust; it is asked for again and written over
                    if isinstance(raw, bytes) and len(raw) == 4 * dim:
                        out[bytes(key)] = np.frombuffer(raw, dtype="<f4").astype(np.float32)
                hits = [k for k in part if k in out]
                if hits:
                    marks = ",".join("?" * len(hits))
                    self._db.execute(f"UPDATE vectors SET used = {_NEXT} WHERE key IN ({marks})", hits)
        except sqlite3.Error as e:
            self._give_up(e)
        return out

    def put(self, rows: dict[bytes, Vectors]) -> None:
        if self._db is None:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                f"INSERT OR REPLACE INTO vectors (key, used, row) VALUES (?, {_NEXT}, ?)",
                [(k, row.astype("<f4").tobytes()) for k, row in rows.items()],
            )
            over = self._db.execute("SELECT count(*) FROM vectors").fetchone()[0] - self._entries
            if over > 0:
                self._db.execute(
                    "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used LIMIT ?)", (over,)
                )
            self._db.execute("COMMIT")
        except sqlite3.Error as e:
            self._give_up(e)

    def clear(self) -> None:
        if self._db is not None:
            try:
                self._db.execute("DELETE FROM vectors")
            except sqlite3.Error as e:
                self._give_up(e)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _give_up(self, e: sqlite3.Error) -> None:
        _log.warning("embed.cache_file_failed", extra={"path": str(self._path), "error": str(e)})
        self.close()


_NEXT = "(SELECT coalesce(max(used), 0) + 1 FROM vectors)"
