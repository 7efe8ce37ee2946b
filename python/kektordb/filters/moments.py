"""ISO 8601 dates and times as microseconds since 1970 UTC, and back. Pure; the engine's postings read the same forms.

Read: `YYYY-MM-DD`, then optionally `T` or a space and `HH:MM`, `:SS`, a fraction after `.` or `,`, and `Z`, `±HH:MM`, `±HHMM`
or `±HH`; 40 characters at most. A date alone is its first instant, a time without an offset is UTC. Digits of a fraction
beyond the sixth are dropped.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICRO: Final = timedelta(microseconds=1)
_MAX_CHARS: Final = 40
_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)

MIN_MOMENT_US: Final = (date(1, 1, 1).toordinal() - _EPOCH_DAY) * DAY_US
MAX_MOMENT_US: Final = (date(9999, 12, 31).toordinal() + 1 - _EPOCH_DAY) * DAY_US - 1
"""What a literal may stand for: the years 1 to 9999, UTC."""


def parse_moment(text: str) -> int | None:
    """Microseconds, or None where the text is no such date. An offset may lead out of the years 1 to 9999."""
    if len(text) > _MAX_CHARS:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_h, off_m = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    oh, om = int(off_h or 0), int(off_m or 0)
    if h > 23 or m > 59 or s > 59 or oh > 23 or om > 59:
        return None
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    offset_us = (oh * 60 + om) * 60_000_000 * (-1 if sign == "-" else 1)
    return days * DAY_US + ((h * 60 + m) * 60 + s) * 1_000_000 + micros - offset_us


def moment_of(value: date) -> int:
    """A date is its first instant; a datetime without a zone is UTC, whatever the machine's zone."""
    if not isinstance(value, datetime):
        return (value.toordinal() - _EPOCH_DAY) * DAY_US
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return (aware - _EPOCH) // _MICRO


def moment_text(micros: int) -> str:
    """The shortest text that parses back to `micros`: a date where it is a whole day, else a time in UTC."""
    at = _EPOCH + micros * _MICRO
    day = f"{at.year:04}-{at.month:02}-{at.day:02}"
    if micros % DAY_US == 0:
        return day
    fraction = f".{at.microsecond:06}".rstrip("0").rstrip(".")
    return f"{day}T{at.hour:02}:{at.minute:02}:{at.second:02}{fraction}Z"
