"""Names of lineages and versions: `m_` and 26 signs (48 bits of milliseconds, 80 random bits, base 32), then `.n`.

Ids made by one maker sort in the order they were made, also when the clock stands still or goes back.
"""

from __future__ import annotations

import re
import secrets
import threading
from typing import Final

from kektordb.errors import InvalidArgumentError
from kektordb.model.clock import Clock

_SIGNS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS: Final = 80
_ID: Final = re.compile(r"(m_[0-9a-z]{26})(?:\.([1-9][0-9]{0,6}))?\Z", re.ASCII)


class IdMaker:
    """Makes lineage ids; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0

    def lineage(self) -> str:
        with self._lock:
            millis = max(self._clock.now() // 1_000, 0)
            fresh = millis << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
            if millis <= self._last >> _RANDOM_BITS:
                fresh = self._last + 1 + secrets.randbits(32)
            self._last = fresh
        return "m_" + "".join(_SIGNS[fresh >> 5 * i & 31] for i in range(25, -1, -1))


def version_id(lineage: str, version: int) -> str:
    return f"{lineage}.{version}"


def parse_id(id: str) -> tuple[str, int | None]:
    """Lineage and version of an id; the version is None for a lineage id."""
    match = _ID.match(id) if isinstance(id, str) else None
    if match is None:
        raise InvalidArgumentError(
            f"{id!r} is no memory id",
            hint="a version id 'm_….3' or a lineage id 'm_…', as `Memory.id` and `.lineage` give",
        )
    lineage, version = match.groups()
    return lineage, None if version is None else int(version)
