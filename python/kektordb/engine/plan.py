"""A caller's filter as the plan that the engine runs. Plans of the texts used last are kept: parsing costs more than a search."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

PLANS_KEPT: Final = 256
KEPT_CHARS_MAX: Final = 4_096
"""Longer texts are parsed anew."""


def plan_text(filter: object) -> str | None:
    """JSON of the plan; None where there is no filter."""
    if filter is None:
        return None
    return _kept(filter) if isinstance(filter, str) and len(filter) <= KEPT_CHARS_MAX else _planned(filter)


def _planned(filter: object) -> str | None:
    # loaded with the first filter: half of what importing the package would cost
    from kektordb.filters import parse_filter, plan_json

    return plan_json(parse_filter(filter))


@lru_cache(maxsize=PLANS_KEPT)
def _kept(text: str) -> str | None:
    return _planned(text)
