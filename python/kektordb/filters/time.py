"""ISO-8601 dates as microseconds since 1970 UTC; the same forms that the engine indexes. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

_FORM = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_MAX = 40


def moment(text: str) -> int | None:
    """Microseconds of an ISO-8601 date or moment; a date alone is its first moment, without an offset it is UTC."""
    m = _FORM.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if m is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, off_h, off_m = m.groups()
    hours, minutes = int(off_h or 0), int(off_m or 0)
    if hours > 23 or minutes > 59:
        return None
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    try:
        at = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return (at - _EPOCH) // timedelta(microseconds=1) - offset // timedelta(microseconds=1)


def of_date(value: date | datetime) -> int:
    """Microseconds of a date or datetime; naive = UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=timezone.utc)  # noqa: UP017
    return (value - _EPOCH) // timedelta(microseconds=1)
