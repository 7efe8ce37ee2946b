"""What follows from a retraction: everything derived from it, at any depth, becomes stale in the same transaction.

A stale row keeps the list of the retracted versions that it rests on (`stale_because`); when all of them are back it is
fresh again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kektordb.engine.protocol import Reader, Row, Writer
from kektordb.errors import LimitExceededError
from kektordb.memory import limits, rows, trees
from kektordb.memory.ids import parse_id
from kektordb.memory.lifecycle import TABLE, Event, Step
from kektordb.memory.views import every_row, versions
from kektordb.model.view import FOREVER


def descendants(reader: Reader, root: str) -> dict[str, Row]:
    """Rows derived from `root`, directly or not.

    The reader must see every state and scope: a merged or superseded row in between does not break the chain.
    """
    found: dict[str, Row] = {}
    todo = [row.id for row in same_statement(reader, root)]
    while todo:
        for row in every_row(reader, trees.has_element("parents", todo.pop())):
            if row.id in found or row.id == root:
                continue
            if len(found) >= limits.MAX_CASCADE:
                raise LimitExceededError(
                    f"more than {limits.MAX_CASCADE} memories are derived from {root!r}", limit="MAX_CASCADE"
                )
            found[row.id] = row
            todo.append(row.id)
    return found


def mark_stale(writer: Writer, collection: str, reader: Reader, gone: Iterable[str]) -> list[str]:
    """Marks what rests on `gone` and is not itself going; the ids that were marked."""
    roots = list(gone)
    causes: dict[str, tuple[Row, set[str]]] = {}
    for root in roots:
        for row in descendants(reader, root).values():
            if row.id not in roots and _takes(row, Event.MARK_STALE):
                causes.setdefault(row.id, (row, set()))[1].add(root)
    for row, because in causes.values():
        _write(writer, collection, row, because | set((row.payload or {}).get("stale_because", ())))
    return list(causes)


def freshen(writer: Writer, collection: str, reader: Reader, back: str) -> list[str]:
    """`back` is there again: what was stale for no other cause is fresh; the ids of those."""
    again = {row.id for row in same_statement(reader, back)}
    resting = {
        row.id: row for one in sorted(again) for row in every_row(reader, trees.has_element("stale_because", one))
    }
    freed: list[str] = []
    for row in resting.values():
        if _takes(row, Event.FRESHEN):
            left = set((row.payload or {})["stale_because"]) - again
            _write(writer, collection, row, left)
            if not left:
                freed.append(row.id)
    return freed


def rests_on(reader: Reader, row: Row) -> set[str]:
    """Retracted versions that the row rests on, at any depth: what a restored one must be marked with."""
    reasons: set[str] = set()
    seen: set[str] = set()
    todo = list((row.payload or {}).get("parents", ()))
    while todo:
        known = [parent for parent in reader.get(todo) if parent is not None and parent.id not in seen]
        todo = []
        for parent in known:
            seen.add(parent.id)
            last = same_statement(reader, parent.id)[-1]
            if last.life in _LOST:
                reasons.add(last.id)
            todo.extend((parent.payload or {}).get("parents", ()))
    return reasons


def same_statement(reader: Reader, id: str) -> list[Row]:
    """The versions of the lineage with the words of this one, the oldest first: another tag or a restored copy says the same,
    and what rests on one rests on all."""
    lineage, _ = parse_id(id)
    found = list(versions(reader, lineage))
    text = next((_text(row) for row in found if row.id == id), None)
    return [row for row in found if _text(row) == text]


def _text(row: Row) -> str | None:
    text: str | None = (row.payload or {}).get("text")
    return text


_LOST = frozenset(found.to for found in TABLE.values() if isinstance(found, Step) and found.cascades)


def _takes(row: Row, event: Event) -> bool:
    return row.tx_to == FOREVER and isinstance(TABLE[row.stamps.life, event], Step)


def _write(writer: Writer, collection: str, row: Row, because: set[str]) -> None:
    payload = rows.carried(row)
    payload.pop("stale_because", None)
    if because:
        payload["stale_because"] = sorted(because)
    writer.expect_open(collection, row.id)
    writer.put(collection, row.id, payload=payload, like=row.id, stamps=replace(row.stamps, stale=bool(because)))
