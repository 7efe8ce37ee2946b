"""Payload of a row ↔ `Memory`. Pure.

The keys of a payload are fixed: recall, filters of users and exports read them. `valid_from` and `valid_to` repeat the stamps
(left out where open) so that a filter may name them; what decides is always the stamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kektordb.engine.protocol import Json, Row
from kektordb.memory.access import Access
from kektordb.memory.ids import parse_id
from kektordb.memory.time import Moment, Precision, Window, datetime_of
from kektordb.model.memory import LifeName, Memory, Slot
from kektordb.model.view import EVER, FOREVER, Life, Stamps, View

Payload = dict[str, Json]
_NAMES: Mapping[Life, LifeName] = {
    Life.ACTIVE: "active",
    Life.PENDING: "pending",
    Life.SUPERSEDED: "superseded",
    Life.CONSOLIDATED: "consolidated",
    Life.RETRACTED: "retracted",
    Life.QUARANTINED: "quarantined",
    Life.REJECTED: "rejected",
    Life.ERASED: "erased",
}


def life_seen(row: Row, view: View, now: int) -> Life:
    """The state in which `view` shows the row."""
    moment = now if view.as_of is None else view.as_of
    return row.stamps.life if moment < row.tx_to else row.end_life


def window_of(row: Row) -> Window:
    payload = row.payload or {}
    start: Precision = payload.get("valid_from_precision", "unknown")
    end: Precision = payload.get("valid_to_precision", "unknown")
    return Window(Moment(row.stamps.valid_from, start), Moment(row.stamps.valid_to, end))


def with_window(payload: Payload, window: Window) -> Payload:
    """The payload with its copies of the window."""
    out = {k: v for k, v in payload.items() if not k.startswith(("valid_from", "valid_to"))}
    if window.start.micros != EVER:
        out |= {"valid_from": window.start.micros, "valid_from_precision": window.start.precision}
    if window.end.micros != FOREVER:
        out |= {"valid_to": window.end.micros, "valid_to_precision": window.end.precision}
    return out


def stamps_with(stamps: Stamps, window: Window) -> Stamps:
    return replace(stamps, valid_from=window.start.micros, valid_to=window.end.micros)


def slot_of(payload: Mapping[str, Json]) -> Slot | None:
    slot = payload.get("slot")
    return None if slot is None else (slot[0], slot[1], slot[2])


def recorded_us(row: Row) -> int:
    """When the version was first written; a record that replaced another of the same version keeps it."""
    first: int = (row.payload or {}).get("recorded_at", row.tx_from)
    return first


def superseded_at(row: Row) -> int:
    """When a later version was given the rest of this one's time; FOREVER if none was."""
    payload = row.payload or {}
    if "superseded_by" not in payload:
        return FOREVER
    moment: int = payload.get("superseded_at", row.tx_from)
    return moment


def carried(row: Row) -> Payload:
    """The payload for another record of the same version: what the engine would stamp anew is kept in it."""
    out: Payload = dict(row.payload or {})
    out["recorded_at"] = recorded_us(row)
    if "superseded_by" in out:
        out["superseded_at"] = superseded_at(row)
    return out


def to_memory(
    row: Row,
    *,
    life: Life,
    access: Access,
    pinned_by_layer: bool,
    closing: Mapping[str, str | None],
    reinforced: bool = False,
) -> Memory:
    payload = row.payload or {}
    lineage, version = parse_id(row.id)
    window = window_of(row)
    closed = life in (Life.SUPERSEDED, Life.CONSOLIDATED, Life.RETRACTED, Life.REJECTED)
    by = payload.get("superseded_by") or (closing.get("by") if closed else None)
    superseded_us = row.tx_to if life is Life.SUPERSEDED else superseded_at(row)
    at: int | None = payload.get("at")
    return Memory(
        id=row.id,
        lineage=lineage,
        version=version or 0,
        text=payload.get("text", ""),
        kind=payload.get("kind", "fact"),
        layer=payload.get("layer", ""),
        tags=tuple(payload.get("tags", ())),
        slot=slot_of(payload),
        valid_from=datetime_of(window.start.micros),
        valid_to=datetime_of(window.end.micros),
        valid_from_precision=window.start.precision,
        valid_to_precision=window.end.precision,
        recorded_at=datetime_of(recorded_us(row)),
        superseded_at=datetime_of(superseded_us),
        superseded_by=by,
        life=_NAMES[life],
        belief=row.stamps.belief.name.lower(),
        confidence=payload.get("confidence", 1.0),
        trust=row.stamps.trust.name.lower(),
        stale=row.stamps.stale,
        scope=row.stamps.scope,
        source=payload.get("source"),
        parents=tuple(payload.get("parents", ())),
        reason=(closing.get("reason") if closed else None) or payload.get("reason", ""),
        pinned=pinned_by_layer if access.pinned is None else access.pinned,
        accesses=access.accesses,
        last_access=None if access.last_us is None else datetime_of(access.last_us),
        reinforcements=access.reinforcements,
        reinforced=reinforced,
        context=payload.get("context", ""),
        speaker=payload.get("speaker"),
        role=payload.get("role"),
        at=None if at is None else datetime_of(at),
        caption=payload.get("caption"),
        session=payload.get("session"),
        seq=payload.get("seq"),
    )
