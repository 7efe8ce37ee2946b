"""The meaning of a filter, row by row: slow, plain, and written apart from the planner, as the oracle that it is compared to.

It walks the payload itself and knows neither postings nor plans. Cost: payload × tree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from kektordb.filters.moments import parse_moment
from kektordb.filters.tree import (
    And,
    Between,
    Bool,
    Compare,
    Contains,
    Exists,
    Expr,
    In,
    IsNull,
    Like,
    Moment,
    Not,
    Number,
    Or,
    StartsWith,
    Text,
    Value,
)

Json = Any
"""A JSON value: None, bool, int, float, str, list, dict."""


def evaluate(expr: Expr, payload: Mapping[str, Json] | None) -> bool:
    """Does the filter hold for a row with this payload?"""
    row = payload or {}
    match expr:
        case And(items=items):
            return all(evaluate(i, row) for i in items)
        case Or(items=items):
            return any(evaluate(i, row) for i in items)
        case Not(item=item):
            return not evaluate(item, row)
        case Exists(path=path):
            return any(True for _ in _at(row, path))
        case IsNull(path=path, negated=negated):
            return bool(_values(row, path)) == negated
    if not isinstance(expr, Compare | In | Between | Like | StartsWith | Contains):
        raise TypeError(f"{type(expr).__name__} is no part of a filter")
    values = _values(row, expr.path)
    if isinstance(expr, Compare) and expr.op == "!=":
        return bool(values) and not any(_equal(v, expr.value) for v, _ in values)
    found = any(_holds(expr, value, alone) for value, alone in values)
    negated = not isinstance(expr, Compare) and expr.negated
    return bool(values) and not found if negated else found


def _holds(expr: Compare | In | Between | Like | StartsWith | Contains, value: Json, alone: bool) -> bool:
    """One value under the path; `alone` unless it is an element of a list."""
    match expr:
        case Compare(op=op, value=wanted):
            return _ordered(value, op, wanted)
        case In(values=wanted_any):
            return any(_equal(value, w) for w in wanted_any)
        case Between(low=low, high=high):
            return _ordered(value, ">=", low) and _ordered(value, "<=", high)
        case Like(pattern=pattern):
            return isinstance(value, str) and re.fullmatch(_regex(pattern), _composed(value), re.DOTALL) is not None
        case StartsWith(prefix=prefix):
            return isinstance(value, str) and _composed(value)[: len(prefix)] == prefix
        case Contains(value=wanted):
            if alone:
                return isinstance(value, str) and isinstance(wanted, Text) and wanted.value in _composed(value)
            return _equal(value, wanted)


# -- one value


def _equal(value: Json, wanted: Value) -> bool:
    return _ordered(value, "=", wanted)


def _ordered(value: Json, op: str, wanted: Value) -> bool:
    """Only values of one type are compared."""
    left: Json
    right: Json
    match wanted:
        case Bool(value=right):
            left = value if isinstance(value, bool) else None
        case Number(value=right):
            left = _on_the_line(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case Text(value=right):
            left = _composed(value) if isinstance(value, str) else None
        case Moment(micros=right):
            left = parse_moment(value) if isinstance(value, str) else None
    if left is None:
        return False
    held: bool = {
        "=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]
    return held


def _on_the_line(number: float) -> float:
    """Integers beyond 64 bits are their nearest double, as JSON readers have it."""
    return number if -(2**63) <= number < 2**64 else float(number)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _regex(pattern: str) -> str:
    def one(found: re.Match[str]) -> str:
        part = found.group()
        return {"%": ".*", "_": "."}.get(part, re.escape(part[-1]))

    return re.sub(r"\\?.", one, pattern, flags=re.DOTALL)


# -- the values under a path


def _values(row: Mapping[str, Json], path: tuple[str, ...]) -> list[tuple[Json, bool]]:
    """Values that are not null, lists opened, each with whether it stands alone. An object counts, but equals nothing."""
    return [(v, alone) for at, alone in _at(row, path) for v, alone in _opened(at, alone) if v is not None]


def _at(node: Json, path: tuple[str, ...], alone: bool = True) -> Iterator[tuple[Json, bool]]:
    """What stands under the path, lists unopened at its end and opened on the way."""
    if not path:
        yield node, alone
    elif isinstance(node, Mapping):
        for name, inner in node.items():
            if _composed(name) == path[0]:
                yield from _at(inner, path[1:], alone)
    elif isinstance(node, list | tuple):
        for inner in node:
            yield from _at(inner, path, False)


def _opened(value: Json, alone: bool) -> Iterator[tuple[Json, bool]]:
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _opened(inner, False)
    else:
        yield value, alone
