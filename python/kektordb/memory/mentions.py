"""Times that a text mentions relative to the moment it was said: "yesterday", "last week", "two months ago". Pure, UTC.

A mention is a span of whole days. Vague ones get a margin: "a week ago" is five to nine days before. What cannot be placed is
left out, never guessed. English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

MONTHS: Final = tuple("january february march april may june july august september october november december".split())
WEEKDAYS: Final = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
MAX_MENTIONS: Final = 16
"""Of one text."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS: Final = {
    word: n for n, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"a": 1, "an": 1, "couple": 2, "few": 3, "several": 4}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_MAX_AGO_DAYS: Final = 365 * 100
_NEAR_DAY: Final = re.compile(
    r"\b(yesterday|last night|today|tonight|this morning|tomorrow|the day before yesterday)\b"
)
_RELATIVE: Final = re.compile(
    r"\b(last|past|previous|next|coming|this)(?:\s+past)?\s+"
    r"(week|month|year|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b"
)
_AGO: Final = re.compile(rf"\b(\d{{1,4}}|{'|'.join(_COUNTS)})(?:\s+of)?\s+(day|week|month|year)s?\s+(?:ago|back)\b")


@dataclass(frozen=True, slots=True)
class Span:
    """First and last day, both inside."""

    first: date
    last: date

    def meets(self, other: Span) -> bool:
        return self.first <= other.last and other.first <= self.last


def day_of(at: int) -> date | None:
    """The UTC day of a moment in microseconds; None outside the calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=at)).date()
    except OverflowError:
        return None


def mentioned(text: str, at: int) -> list[Span]:
    """Spans in the order of their kinds; `at` is when the text was said, microseconds since 1970."""
    said = day_of(at)
    if said is None:
        return []
    low = text.lower()
    out = [_days(said, _OFFSETS[match[1]]) for match in _NEAR_DAY.finditer(low)]
    out += [_relative(said, match[1], match[2]) for match in _RELATIVE.finditer(low)]
    for match in _AGO.finditer(low):
        count = int(match[1]) if match[1].isdigit() else _COUNTS[match[1]]
        days = count * _UNIT_DAYS[match[2]]
        if days <= min(_MAX_AGO_DAYS, said.toordinal() - 366):
            margin = _UNIT_DAYS[match[2]] // 3
            out.append(Span(said - timedelta(days=days + margin), said - timedelta(days=days - margin)))
    return out[:MAX_MENTIONS]


_OFFSETS: Final = {
    "yesterday": -1,
    "last night": -1,
    "the day before yesterday": -2,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "tomorrow": 1,
}


def _days(said: date, offset: int, margin: int = 0) -> Span:
    low = max(said.toordinal() + offset - margin, 1)
    high = min(said.toordinal() + offset + margin, date.max.toordinal())
    return Span(date.fromordinal(min(low, high)), date.fromordinal(high))


def _relative(said: date, word: str, unit: str) -> Span:
    step = 1 if word in ("next", "coming") else 0 if word == "this" else -1
    if unit == "week":
        return _days(said, 7 * step, margin=3)
    if unit == "weekend":
        sunday = 6 - said.weekday() if step >= 0 else -(said.weekday() + 1)
        sunday += 7 if step > 0 and said.weekday() >= 5 else 0
        return Span(_days(said, sunday - 1).first, _days(said, sunday).last)
    if unit == "month":
        years, month = divmod(said.year * 12 + said.month - 1 + step, 12)
        first = date(min(max(years, 1), 9999), month + 1, 1)
        return Span(first, first + timedelta(days=_month_days(first) - 1))
    if unit == "year":
        year = min(max(said.year + step, 1), 9999)
        return Span(date(year, 1, 1), date(year, 12, 31))
    weekday = next(i for i, name in enumerate(WEEKDAYS) if name.startswith(unit[:3]))
    behind = (said.weekday() - weekday) % 7 or 7
    ahead = (weekday - said.weekday()) % 7
    return _days(said, -behind if step < 0 else ahead or 7 * step)


def _month_days(first: date) -> int:
    if first.month == 12:
        return 31
    return (date(first.year, first.month + 1, 1) - first).days
