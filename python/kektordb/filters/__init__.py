"""The filter language: text or Python to a tree, a tree to text, and a slow evaluation. No I/O."""

from __future__ import annotations

from kektordb.errors import InvalidArgumentError
from kektordb.filters.ast import And, Moment, Node, Not, Or
from kektordb.filters.builder import F
from kektordb.filters.evaluate import evaluate
from kektordb.filters.parser import parse
from kektordb.filters.render import render

__all__ = ["And", "F", "Moment", "Node", "Not", "Or", "evaluate", "parse", "parse_filter", "render"]


def parse_filter(value: object) -> Node | None:
    """What a caller gives as a filter: nothing, text, or a tree."""
    if value is None or isinstance(value, Node):
        return value
    if isinstance(value, str):
        return parse(value)
    raise InvalidArgumentError(
        f"a filter is a {type(value).__name__}", hint='text like "year >= 2020", or F.year >= 2020'
    )
