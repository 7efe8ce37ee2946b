"""Filters from Python: `F.year >= 2020`, `F["a.b"].in_([...])`, joined with `&`, `|`, `~`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime

from kektordb.errors import InvalidArgumentError
from kektordb.filters.ast import (
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
    Path,
    StartsWith,
    Value,
)
from kektordb.filters.time import of_date


def value_of(value: object) -> Value:
    """A literal. Dates and datetimes become moments; a naive datetime is UTC."""
    if isinstance(value, bool | str | int | Moment):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgumentError(f"a filter compares with {value}", hint="NaN and infinity are in no payload")
        return value
    if isinstance(value, date | datetime):
        return Moment(of_date(value), value.isoformat())
    if value is None:
        raise InvalidArgumentError("a filter compares with None", hint="use .is_null() or .is_not_null()")
    raise InvalidArgumentError(
        f"a filter compares with a {type(value).__name__}", hint="text, number, bool, date or datetime"
    )


class Field:
    """One field of the payload; comparing it makes a filter."""

    __slots__ = ("_path",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((*self._path, name))

    def __getitem__(self, name: str) -> Field:
        return Field((*self._path, *name.split(".")))

    def __eq__(self, other: object) -> Node:  # type: ignore[override]
        return Compare(self._path, "=", value_of(other))

    def __ne__(self, other: object) -> Node:  # type: ignore[override]
        return Compare(self._path, "!=", value_of(other))

    def __lt__(self, other: object) -> Node:
        return Compare(self._path, "<", value_of(other))

    def __le__(self, other: object) -> Node:
        return Compare(self._path, "<=", value_of(other))

    def __gt__(self, other: object) -> Node:
        return Compare(self._path, ">", value_of(other))

    def __ge__(self, other: object) -> Node:
        return Compare(self._path, ">=", value_of(other))

    def in_(self, values: Iterable[object]) -> Node:
        return In(self._path, tuple(map(value_of, values)))

    def not_in(self, values: Iterable[object]) -> Node:
        return In(self._path, tuple(map(value_of, values)), negated=True)

    def between(self, low: object, high: object) -> Node:
        """Both ends included."""
        return Between(self._path, value_of(low), value_of(high))

    def like(self, pattern: str) -> Node:
        """`%` any run, `_` one character, `\\` escapes; the whole text, case counts."""
        return Like(self._path, pattern)

    def startswith(self, prefix: str) -> Node:
        return StartsWith(self._path, prefix)

    def contains(self, value: object) -> Node:
        """A list with that element, or a text that holds that text."""
        return Contains(self._path, value_of(value))

    def exists(self) -> Node:
        return Exists(self._path)

    def is_null(self) -> Node:
        return IsNull(self._path)

    def is_not_null(self) -> Node:
        return IsNull(self._path, negated=True)

    def __bool__(self) -> bool:
        raise TypeError("a field has no truth value: compare it, or use .exists()")

    def __repr__(self) -> str:
        return "F" + "".join(f"[{n!r}]" for n in self._path)


class _Root:
    """`F.name` and `F["name"]` name a field; a dot in the latter goes one level down."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((name,))

    def __getitem__(self, name: str) -> Field:
        return Field(tuple(name.split(".")))

    def __repr__(self) -> str:
        return "F"


F = _Root()

__all__ = ["F", "Field", "Not", "value_of"]
