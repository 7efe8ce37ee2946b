"""A filter on one payload, slowly and plainly: the oracle of the engine's postings. Written on its own, from the meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unicodedata import normalize

from kektordb.filters.ast import (
    And,
    Between,
    Compare,
    Contains,
    Exists,
    In,
    IsNull,
    Like,
    Moment,
    Node,
    Not,
    Or,
    Path,
    StartsWith,
    Value,
)
from kektordb.filters.time import moment

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def evaluate(node: Node, payload: Mapping[str, Any]) -> bool:
    """True where the payload satisfies the filter."""
    match node:
        case And(items):
            return all(evaluate(i, payload) for i in items)
        case Or(items):
            return any(evaluate(i, payload) for i in items)
        case Not(item):
            return not evaluate(item, payload)
        case Compare(path, "!=", value):
            return _non_null(path, payload) and not evaluate(Compare(path, "=", value), payload)
        case Compare(path, op, value):
            return any(_holds(v, op, value) for v, _ in leaves(payload, path))
        case In(path, values, negated):
            held = any(_holds(v, "=", x) for v, _ in leaves(payload, path) for x in values)
            return (_non_null(path, payload) and not held) if negated else held
        case Between(path, low, high):
            return any(_holds(v, ">=", low) and _holds(v, "<=", high) for v, _ in leaves(payload, path))
        case Like(path, pattern):
            form = _like(_nfc(pattern))
            return any(isinstance(v, str) and form.fullmatch(_nfc(v)) for v, _ in leaves(payload, path))
        case StartsWith(path, prefix):
            return any(isinstance(v, str) and _nfc(v).startswith(_nfc(prefix)) for v, _ in leaves(payload, path))
        case Contains(path, value):
            return any(
                _holds(v, "=", value)
                if element
                else isinstance(v, str) and isinstance(value, str) and _nfc(value) in _nfc(v)
                for v, element in leaves(payload, path)
            )
        case Exists(path):
            return bool(list(_at(payload, path)))
        case IsNull(path, negated):
            return _non_null(path, payload) == negated
    raise TypeError(f"not a filter: {node!r}")


def leaves(payload: Any, path: Path) -> Iterator[tuple[Any, bool]]:
    """Scalars and elements at a path, each with whether it stands in a list."""
    for value, element in _at(payload, path):
        yield from _elements(value, element)


def _elements(value: Any, element: bool) -> Iterator[tuple[Any, bool]]:
    if isinstance(value, list):
        for v in value:
            yield from _elements(v, True)
    elif not isinstance(value, Mapping):
        yield value, element


def _at(value: Any, path: Path, element: bool = False) -> Iterator[tuple[Any, bool]]:
    """What stands at a path; objects in lists are looked into."""
    if isinstance(value, list):
        for v in value:
            if isinstance(v, list | Mapping):
                yield from _at(v, path, True)
    elif isinstance(value, Mapping):
        for name, v in value.items():
            if _nfc(name) == _nfc(path[0]):
                if len(path) == 1:
                    yield v, element
                else:
                    yield from _at(v, path[1:], element)


def _non_null(path: Path, payload: Any) -> bool:
    return any(v is not None for v, _ in leaves(payload, path))


def _holds(held: Any, op: str, value: Value) -> bool:
    if isinstance(value, Moment):
        at = moment(held) if isinstance(held, str) else None
        return at is not None and _COMPARE[op](at, value.us)
    if isinstance(value, bool) or isinstance(held, bool):
        return isinstance(value, bool) and isinstance(held, bool) and _COMPARE[op](held, value)
    if isinstance(value, str):
        return isinstance(held, str) and _COMPARE[op](_nfc(held), _nfc(value))
    return isinstance(held, int | float) and _COMPARE[op](held, value)


def _nfc(text: str) -> str:
    return normalize("NFC", text)


def _like(pattern: str) -> re.Pattern[str]:
    it = iter(pattern)
    wild = {"%": ".*", "_": "."}
    parts = [wild.get(c) or re.escape(next(it, "\\") if c == "\\" else c) for c in it]
    return re.compile("".join(parts), re.DOTALL)
