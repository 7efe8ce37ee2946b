"""A caller's filter as the plan that the engine runs."""

from __future__ import annotations


def plan_text(filter: object) -> str | None:
    """JSON of the plan; None where there is no filter."""
    if filter is None:
        return None
    # loaded with the first filter: half of what importing the package would cost
    from kektordb.filters import parse_filter, plan_json

    return plan_json(parse_filter(filter))
