"""A filter tree as the plan that the engine runs: JSON arrays of set operations over its postings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from kektordb.filters import parse_filter
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

Plan = list[Any]


def plan_text(filter: object) -> str | None:
    """JSON of the plan; None where there is no filter."""
    node = parse_filter(filter)
    return None if node is None else json.dumps(plan(node), ensure_ascii=False, separators=(",", ":"))


def plan(node: Node) -> Plan:
    match node:
        case And(items):
            return ["and", *map(plan, items)]
        case Or(items):
            return ["or", *map(plan, items)]
        case Not(item):
            return ["not", plan(item)]
        case Compare(path, "!=", value):
            return _other(path, [value])
        case Compare(path, "=", value):
            return _equal(path, value)
        case Compare(path, op, value):
            above = op in (">", ">=")
            inclusive = op in ("<=", ">=")
            return _range(path, value if above else None, inclusive, None if above else value, inclusive)
        case In(path, values, negated):
            return _other(path, values) if negated else _any(path, values)
        case Between(path, low, high):
            return _range(path, low, True, high, True)
        case Like(path, pattern):
            return ["like", encode_path(path), _nfc(pattern)]
        case StartsWith(path, prefix):
            return ["prefix", encode_path(path), _nfc(prefix)]
        case Contains(path, value):
            element = _equal(path, value, role="element")
            if not isinstance(value, str):
                return element
            return ["or", element, ["substring", encode_path(path), _nfc(value)]]
        case Exists(path):
            return ["exists", encode_path(path)]
        case IsNull(path, negated):
            present = ["nonnull", encode_path(path)]
            return present if negated else ["not", present]
    raise TypeError(f"not a filter: {node!r}")


def encode_path(path: Path) -> str:
    """Names joined by dots; a dot or backslash inside a name is escaped."""
    return ".".join(_nfc(n).replace("\\", "\\\\").replace(".", "\\.") for n in path)


def _any(path: Path, values: Sequence[Value]) -> Plan:
    return ["or", *(_equal(path, v) for v in values)] if values else ["none"]


def _other(path: Path, values: Sequence[Value]) -> Plan:
    """Has a value, and none of these."""
    return ["and", ["nonnull", encode_path(path)], ["not", _any(path, values)]]


def _equal(path: Path, value: Value, *, role: str = "any") -> Plan:
    if isinstance(value, Moment):
        if role == "element":
            # A list has the moment as an element only where the texts are elements; the time line keeps no roles.
            return ["and", _range(path, value, True, value, True), ["not", ["substring", encode_path(path), ""]]]
        return _range(path, value, True, value, True)
    return ["eq", encode_path(path), role, _nfc(value) if isinstance(value, str) else value]


def _range(path: Path, low: Value | None, low_in: bool, high: Value | None, high_in: bool) -> Plan:
    p = encode_path(path)
    kinds = {_kind(v) for v in (low, high) if v is not None}
    if len(kinds) != 1:
        # Two ends of different types: nothing lies between them.
        return ["none"]
    kind = kinds.pop()
    if kind == "bool":
        held = [b for b in (False, True) if _between(b, low, low_in, high, high_in)]
        return _any(path, held)
    return [kind, p, _bound(low), low_in, _bound(high), high_in]


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Moment):
        return "time"
    return "string" if isinstance(value, str) else "number"


def _bound(value: Value | None) -> Any:
    if isinstance(value, Moment):
        return value.us
    return _nfc(value) if isinstance(value, str) else value


def _between(b: bool, low: Any, low_in: bool, high: Any, high_in: bool) -> bool:
    return (low is None or b > low or (low_in and b == low)) and (high is None or b < high or (high_in and b == high))


def _nfc(text: str) -> str:
    return normalize("NFC", text)
