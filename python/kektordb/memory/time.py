"""Moments as people write them. Pure: no clock; a value without a date takes the reference time it is given, never now.

World time is half-open: `[valid_from, valid_to)`. A year, month or day stands for its first instant, at both ends, so
`[2025-01, 2025-03)` holds in February and not in March. A text or datetime without a zone is UTC, whatever the machine's zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

from kektordb.errors import InvalidArgumentError
from kektordb.model.view import EVER, FOREVER

Precision = Literal["year", "month", "day", "instant", "unknown"]
MomentLike = str | datetime | date | int
"""ISO 8601 text of any precision, a datetime, a date, or microseconds since 1970 UTC."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of world time and how exactly it was told."""

    micros: int
    precision: Precision = "instant"


ALWAYS: Final = Moment(EVER, "unknown")
"""A start that nobody told."""
NEVER: Final = Moment(FOREVER, "unknown")
"""An end that nobody told."""


@dataclass(frozen=True, slots=True)
class Window:
    """`[start, end)` of world time."""

    start: Moment = ALWAYS
    end: Moment = NEVER

    @property
    def is_open(self) -> bool:
        """Nothing was told about it."""
        return self.start.micros == EVER and self.end.micros == FOREVER


def parse_moment(value: MomentLike, *, what: str) -> Moment:
    """`what` names the argument in the error."""
    if isinstance(value, bool) or not isinstance(value, str | date | int):
        raise _refused(what, value)
    if isinstance(value, int):
        if not EVER < value < FOREVER:
            raise _refused(what, value)
        return Moment(value)
    if isinstance(value, datetime):
        return Moment(micros_of(value))
    if isinstance(value, date):
        return Moment(micros_of(datetime(value.year, value.month, value.day)), "day")
    return _parse_text(value.strip(), what)


def _parse_text(text: str, what: str) -> Moment:
    try:
        match = _DATE.match(text)
        if match is None:
            if "T" not in text.upper() and " " not in text:
                raise ValueError(text)
            return Moment(micros_of(datetime.fromisoformat(text)))
        year, month, day = match.groups()
        precision: Precision = "day" if day else "month" if month else "year"
        return Moment(micros_of(datetime(int(year), int(month or 1), int(day or 1))), precision)
    except (ValueError, OverflowError) as e:
        raise _refused(what, text) from e


def parse_window(valid_from: MomentLike | None, valid_to: MomentLike | None, *, reference: int | None = None) -> Window:
    """The window that was told. Without a start it begins at `reference` (when it was said), if there is one."""
    if valid_from is not None:
        start = parse_moment(valid_from, what="valid_from")
    else:
        start = ALWAYS if reference is None else Moment(reference)
    end = NEVER if valid_to is None else parse_moment(valid_to, what="valid_to")
    if valid_from is None and end.micros <= start.micros:
        start = ALWAYS  # it was over when it was said: the time of saying is not its start
    return checked_window(start, end)


def checked_window(start: Moment, end: Moment) -> Window:
    if end.micros <= start.micros:
        raise InvalidArgumentError(
            f"valid_to ({iso(end.micros)}) is not after valid_from ({iso(start.micros)})",
            hint="the interval is half-open and must hold at some moment; a day, month or year stands for its first instant",
        )
    return Window(start, end)


def micros_of(moment: datetime) -> int:
    """Exact, and the same in every time zone: a naive datetime is UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (aware - _EPOCH) // _MICRO


def datetime_of(micros: int) -> datetime | None:
    """None for an open end."""
    return None if micros in (EVER, FOREVER) else _EPOCH + micros * _MICRO


def iso(micros: int) -> str:
    at = datetime_of(micros)
    return "always" if at is None else at.isoformat().replace("+00:00", "Z")


def _refused(what: str, value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what} is {value!r}",
        hint="a date or time such as '2026', '2026-05', '2026-05-08' or '2026-05-08T13:56:00Z' (without a zone: UTC)",
    )
