"""Access data of lineages: accesses, last access, repetitions, pins. Not knowledge, so it makes no versions.

Kept in a key-value namespace beside the rows. Counting is in memory and flushed in groups with a buffered write, so a read
never waits for the disk; a crash may lose the last group of counts, never a memory. Pins and repetitions are written at once.
One ledger serves all handles of one memory in one process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kektordb.engine.protocol import Store, Writer
from kektordb.memory import limits


@dataclass(frozen=True, slots=True)
class Access:
    """What is known of one lineage's use."""

    accesses: int = 0
    last_us: int | None = None
    reinforcements: int = 1
    pinned: bool | None = None
    """None: as its layer says."""


class AccessLedger:
    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._lock = threading.RLock()
        self._unsaved: dict[str, Access] = {}
        self._flushed_us: int | None = None

    def read(self, lineages: Iterable[str]) -> dict[str, Access]:
        with self._lock:
            return {lineage: self._one(lineage) for lineage in lineages}

    def touch(self, lineages: Sequence[str], *, now: int) -> None:
        """Counts one access of each. A clock that went back does not make the last access earlier."""
        with self._lock:
            for lineage in lineages:
                old = self._one(lineage)
                last = now if old.last_us is None else max(old.last_us, now)
                self._unsaved[lineage] = replace(old, accesses=old.accesses + 1, last_us=last)
            since = now if self._flushed_us is None else self._flushed_us
            self._flushed_us = since
            if len(self._unsaved) >= limits.ACCESS_FLUSH_ENTRIES or now - since >= limits.ACCESS_FLUSH_AFTER_US:
                self.flush(now=now)

    def write(self, writer: Writer, lineage: str, entry: Access) -> None:
        """Joins a transaction of the caller."""
        with self._lock:
            writer.kv_set(self._namespace, lineage, _encoded(entry))

    def forget_unsaved(self, lineages: Iterable[str]) -> None:
        """After a transaction that wrote them."""
        with self._lock:
            for lineage in lineages:
                self._unsaved.pop(lineage, None)

    def flush(self, *, now: int | None = None) -> None:
        """Writes what is counted, as one buffered record."""
        with self._lock:
            if self._unsaved:
                with self._store.writer(actor="memory", reason="access counts", durability="buffered") as writer:
                    for lineage, entry in self._unsaved.items():
                        writer.kv_set(self._namespace, lineage, _encoded(entry))
                self._unsaved.clear()
            if now is not None:
                self._flushed_us = now

    def _one(self, lineage: str) -> Access:
        waiting = self._unsaved.get(lineage)
        if waiting is not None:
            return waiting
        data = self._store.kv_get(self._namespace, lineage)
        return Access() if data is None else _decoded(data)


def _encoded(entry: Access) -> bytes:
    value = {"n": entry.accesses, "last": entry.last_us, "said": entry.reinforcements, "pinned": entry.pinned}
    return json.dumps(value, separators=(",", ":")).encode()


def _decoded(data: bytes) -> Access:
    value = json.loads(data)
    return Access(value["n"], value["last"], value["said"], value["pinned"])
