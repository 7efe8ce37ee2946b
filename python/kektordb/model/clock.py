"""Where the time comes from: the only door to it above the engine. Moments are microseconds since 1970 UTC."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of moments. Tests pass `kektordb.testing.FakeClock`."""

    def now(self) -> int:
        """This moment, microseconds since 1970 UTC; may go back when the machine's clock is set back."""
        ...


class SystemClock:
    """The machine's clock, in UTC whatever its time zone."""

    def now(self) -> int:
        return time.time_ns() // 1_000
