"""From a tree to set operations over postings. Pure; the engine runs the same plan that `run` runs here.

A plan is nested tuples, `(name, argument, …)`, and JSON arrays when it goes to the engine:

    all · none · and P… · or P… · not P
    eq path "any"|"scalar"|"element" value
    number path lo lo_included hi hi_included          (a bound of None: open)
    string path lo lo_included hi hi_included          time path lo_us lo_included hi_us hi_included
    prefix path text · like path pattern · substring path text (single strings only)
    exists path · null path · nonnull path

Paths are encoded (`paths.encode_path`). Cheap parts of an AND come first and negated ones last, so that an empty set ends it
early. Cost: linear in the tree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

from kektordb.filters import like
from kektordb.filters.paths import encode_path
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

Plan = tuple[Any, ...]
Role = Literal["any", "scalar", "element"]
"""Where a value stands: anywhere, alone under its path, or as an element of a list."""

_NOTHING: Final[Plan] = ("none",)
_COST: Final = {"none": 0, "all": 0, "eq": 1, "exists": 1, "null": 1, "nonnull": 1, "like": 4, "substring": 4}
_RANGE_COST: Final = 2


def plan(expr: Expr) -> Plan:
    """The set operations that give the rows for which `expr` holds."""
    match expr:
        case And(items=items):
            return _and([plan(i) for i in items])
        case Or(items=items):
            return _or([plan(i) for i in items])
        case Not(item=item):
            return _not(plan(item))
        case Exists(path=path):
            return ("exists", encode_path(path))
        case IsNull(path=path, negated=negated):
            some: Plan = ("nonnull", encode_path(path))
            return some if negated else _not(some)
        case Compare(path=path, op="!=", value=value):
            return _but(encode_path(path), _equal(encode_path(path), value))
        case Compare(path=path, op=op, value=value):
            return _compared(encode_path(path), op, value)
        case In(path=path, values=values, negated=negated):
            place = encode_path(path)
            found = _or([_equal(place, v) for v in dict.fromkeys(values)])
        case Between(path=path, low=low, high=high, negated=negated):
            place = encode_path(path)
            found = _between(place, low, high)
        case Like(path=path, pattern=pattern, negated=negated):
            place = encode_path(path)
            found = _like(place, pattern)
        case StartsWith(path=path, prefix=prefix, negated=negated):
            place = encode_path(path)
            found = ("prefix", place, prefix)
        case Contains(path=path, value=value, negated=negated):
            place = encode_path(path)
            found = ("eq", place, "element", value.value)
            if isinstance(value, Text):
                found = _or([found, ("substring", place, value.value)])
        case _:
            raise TypeError(f"{type(expr).__name__} is no part of a filter")
    return _but(place, found) if negated else found


def plan_json(expr: Expr | None) -> str | None:
    """The plan as the engine takes it; None for no filter."""
    return None if expr is None else json.dumps(plan(expr), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _equal(place: str, value: Value) -> Plan:
    if isinstance(value, Moment):
        return ("time", place, value.micros, True, value.micros, True)
    return ("eq", place, "any", value.value)


def _compared(place: str, op: str, value: Value) -> Plan:
    if op == "=":
        return _equal(place, value)
    bare, included = _bare(value), op in ("<=", ">=")
    if op in ("<", "<="):
        return (_kind(value), place, None, False, bare, included)
    return (_kind(value), place, bare, included, None, False)


def _between(place: str, low: Value, high: Value) -> Plan:
    first, last = _bare(low), _bare(high)
    return (_kind(low), place, first, True, last, True) if first <= last else _NOTHING


def _like(place: str, pattern: str) -> Plan:
    match like.parts_of(pattern):
        case []:
            return ("eq", place, "any", "")
        case [str(whole)]:
            return ("eq", place, "any", whole)
        case [like.Wild.RUN]:
            return ("prefix", place, "")
        case [str(start), like.Wild.RUN]:
            return ("prefix", place, start)
        case _:
            return ("like", place, pattern)


def _kind(value: Value) -> str:
    return {Number: "number", Text: "string", Moment: "time"}[type(value)]


def _bare(value: Value) -> Any:
    assert not isinstance(value, Bool), "the tree refuses an order of booleans"
    return value.micros if isinstance(value, Moment) else value.value


def _but(place: str, found: Plan) -> Plan:
    """Rows with a value that is not null, without those found."""
    some: Plan = ("nonnull", place)
    return some if found == _NOTHING else ("and", some, ("not", found))


def _and(parts: list[Plan]) -> Plan:
    flat = [p for part in parts for p in (part[1:] if part[0] == "and" else (part,))]
    return ("and", *sorted(flat, key=_cost))


def _or(parts: list[Plan]) -> Plan:
    flat = [p for part in parts for p in (part[1:] if part[0] == "or" else (part,)) if p != _NOTHING]
    return _NOTHING if not flat else flat[0] if len(flat) == 1 else ("or", *flat)


def _not(inner: Plan) -> Plan:
    return inner[1] if inner[0] == "not" else ("not", inner)


def _cost(part: Plan) -> int:
    """A rank, not a measure."""
    name = part[0]
    if name in ("and", "or"):
        return max(_cost(p) for p in part[1:])
    if name == "not":
        return 10 + _cost(part[1])
    return _COST.get(name, _RANGE_COST)


# -- running a plan


class RowSet(Protocol):
    """A set of rows: a pyroaring BitMap, or any set of integers."""

    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __len__(self) -> int: ...


Rows = TypeVar("Rows", bound=RowSet)
Rows_co = TypeVar("Rows_co", bound=RowSet, covariant=True)


class Postings(Protocol[Rows_co]):
    """Which rows hold which value under which path. Each method gives a set that the caller may keep."""

    def all(self) -> Rows_co: ...
    def none(self) -> Rows_co: ...
    def eq(self, path: str, value: str | float | bool, role: Role = "any") -> Rows_co: ...
    def range_number(self, path: str, lo: float | None, lo_incl: bool, hi: float | None, hi_incl: bool) -> Rows_co: ...
    def range_string(self, path: str, lo: str | None, lo_incl: bool, hi: str | None, hi_incl: bool) -> Rows_co: ...
    def range_time(self, path: str, lo_us: int | None, lo_incl: bool, hi_us: int | None, hi_incl: bool) -> Rows_co: ...
    def prefix(self, path: str, text: str) -> Rows_co: ...
    def like(self, path: str, pattern: str) -> Rows_co: ...
    def substring(self, path: str, text: str) -> Rows_co: ...
    def exists(self, path: str) -> Rows_co: ...
    def null(self, path: str) -> Rows_co: ...
    def nonnull(self, path: str) -> Rows_co: ...


def run(steps: Plan, postings: Postings[Rows]) -> Rows:
    """The rows of a plan. An AND stops at the first empty set and cuts the smallest sets first."""
    name, *args = steps
    match name:
        case "and":
            return _run_and(args, postings)
        case "or":
            out = postings.none()
            for part in args:
                out = out | run(part, postings)
            return out
        case "not":
            all_rows: Rows = postings.all() - run(args[0], postings)
            return all_rows
        case "all":
            return postings.all()
        case "none":
            return postings.none()
        case "eq":
            path, role, value = args
            return postings.eq(path, value, role)
        case "number":
            return postings.range_number(*args)
        case "string":
            return postings.range_string(*args)
        case "time":
            return postings.range_time(*args)
        case "prefix":
            return postings.prefix(*args)
        case "like":
            return postings.like(*args)
        case "substring":
            return postings.substring(*args)
        case "exists":
            return postings.exists(*args)
        case "null":
            return postings.null(*args)
        case "nonnull":
            return postings.nonnull(*args)
        case _:
            raise ValueError(f"a plan has no step {name!r}")


def _run_and(parts: Sequence[Plan], postings: Postings[Rows]) -> Rows:
    found: list[Rows] = []
    for part in parts:
        if part[0] != "not":
            rows = run(part, postings)
            if not len(rows):
                return rows
            found.append(rows)
    found.sort(key=len)
    out = found[0] if found else postings.all()
    for rows in found[1:]:
        out = out & rows
    for part in parts:
        if part[0] == "not" and len(out):
            out = out - run(part[1], postings)
    return out
