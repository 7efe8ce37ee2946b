"""A caller's filter as the plan that the engine runs."""

from __future__ import annotations

from kektordb.filters import parse_filter, plan_json


def plan_text(filter: object) -> str | None:
    """JSON of the plan; None where there is no filter."""
    return plan_json(parse_filter(filter))
