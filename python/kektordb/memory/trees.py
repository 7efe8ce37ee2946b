"""Filters that the memory itself needs, as trees. A tree can only narrow what a view shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kektordb.engine.protocol import Json
from kektordb.filters import F, evaluate, parse

Tree = Any
"""A node of the filter language's tree."""


def tree_of(filter: object) -> Tree | None:
    """A user's filter, as text or as a tree."""
    return parse(filter) if isinstance(filter, str) else filter


def every(filters: Iterable[Tree | None]) -> Tree | None:
    """All of them hold; None where nothing was asked."""
    out: Tree | None = None
    for one in filters:
        if one is not None:
            out = one if out is None else out & one
    return out


def one_of(field: str, values: Iterable[str | int]) -> Tree:
    return F[field].in_(list(values))


def has_element(field: str, value: str) -> Tree:
    return F[field].contains(value)


def superseded_or_valid(now: int) -> Tree:
    """Of rows whose time is ignored: those that a later version ended, and those that hold now."""
    begun = ~F["valid_from"].exists() | (F["valid_from"] <= now)
    lasting = ~F["valid_to"].exists() | (F["valid_to"] > now)
    return F["superseded_by"].exists() | (begun & lasting)


def holds(tree: Tree, payload: Mapping[str, Json]) -> bool:
    return bool(evaluate(tree, payload))
