"""A lineage as a line of world time: where a version that holds from a moment on takes its place. Pure.

Of the active versions of a lineage no two hold at one moment. A new one that begins at `start` ends the one that holds
there, lasts until the next one begins, and takes the place of one that begins at the same moment. What begins later is
never touched, so a past fact that is told late does not end the present one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kektordb.engine.protocol import Row
from kektordb.memory.rows import window_of
from kektordb.memory.time import NEVER, Moment, Window, checked_window
from kektordb.model.view import FOREVER, Life


@dataclass(frozen=True, slots=True)
class Place:
    """What a new version does to the others."""

    window: Window
    replaces: tuple[Row, ...] = ()
    """Closed as superseded: they were wrong about their moment."""
    ends: Row | None = None
    """Stays true until the new one begins."""


def active(versions: Sequence[Row]) -> list[Row]:
    return [row for row in versions if row.tx_to == FOREVER and row.stamps.life is Life.ACTIVE]


def current(versions: Sequence[Row], now: int) -> Row | None:
    """The active version that began last: it holds now, or held last. If all are to come, the next one."""
    rows = sorted(active(versions), key=lambda row: row.stamps.valid_from)
    begun = [row for row in rows if row.stamps.valid_from <= now]
    return begun[-1] if begun else next(iter(rows), None)


def place_from(versions: Sequence[Row], start: Moment) -> Place:
    """The place of a version that holds from `start` on."""
    rows = active(versions)
    same = tuple(row for row in rows if row.stamps.valid_from == start.micros)
    if same:
        return Place(checked_window(start, window_of(same[0]).end), replaces=same)
    later = [window_of(row).start for row in rows if row.stamps.valid_from > start.micros]
    end = min(later, key=lambda moment: moment.micros, default=NEVER)
    holding = [row for row in rows if row.stamps.valid_from < start.micros < row.stamps.valid_to]
    return Place(checked_window(start, end), ends=holding[0] if holding else None)


def follower(versions: Sequence[Row], row: Row) -> Row | None:
    """The active version that begins next after `row` does."""
    later = [other for other in active(versions) if other.stamps.valid_from > row.stamps.valid_from]
    return min(later, key=lambda other: other.stamps.valid_from, default=None)


def overlapping(versions: Sequence[Row], window: Window) -> tuple[Row, ...]:
    """Active versions that hold at some moment of `window`."""
    return tuple(
        row
        for row in active(versions)
        if row.stamps.valid_from < window.end.micros and window.start.micros < row.stamps.valid_to
    )
