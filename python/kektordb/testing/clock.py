"""A clock that moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Stands at `start` until `advance` or `set`. A start without a zone is UTC."""

    def __init__(self, start: str | datetime = "2026-01-01T00:00:00") -> None:
        self._now = _micros(start)

    def now(self) -> int:
        return self._now

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, micros: int = 0
    ) -> int:
        """Moves on (or back) and returns the new moment."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
        self._now += step // timedelta(microseconds=1)
        return self._now

    def set(self, moment: str | datetime | int) -> int:
        self._now = moment if isinstance(moment, int) else _micros(moment)
        return self._now


def _micros(moment: str | datetime) -> int:
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
