"""The tree of a filter: frozen values that the parser and the builder `F` make alike, and that the planner, the renderer and the
oracle read. Pure.

Promise: no tree passes the limits, as every node checks them when it is made; AND in AND and OR in OR are one node; names,
strings and patterns are in NFC, so equal filters are equal trees. Cost: an AND of n parts that is built with `&` one by one
costs n² / 2 steps, one by `And` n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn

from kektordb.errors import InvalidArgumentError, LimitExceededError
from kektordb.filters import like
from kektordb.filters.limits import MAX_FILTER_CHARS, MAX_FILTER_NESTING, MAX_FILTER_NODES, MAX_FILTER_VALUES
from kektordb.filters.moments import MAX_MOMENT_US, MIN_MOMENT_US
from kektordb.filters.paths import Path, checked_path, nfc

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
OPERATORS: Final[tuple[Operator, ...]] = ("=", "!=", "<", "<=", ">", ">=")
EXACT_INT: Final = range(-(2**63), 2**64)
"""Integers that are compared exactly; others count as their nearest double, as in every JSON reader."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number on the one line of numbers: 42 is 42.0, -0.0 is 0, and 2**53 + 1 is not 2**53."""

    value: int | float

    def __post_init__(self) -> None:
        _set(self, "value", _finite(self.value))


@dataclass(frozen=True, slots=True)
class Text:
    value: str

    def __post_init__(self) -> None:
        _set(self, "value", _checked_text(self.value))


@dataclass(frozen=True, slots=True)
class Bool:
    value: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of time, microseconds since 1970 UTC. It is compared with strings that read as ISO dates."""

    micros: int

    def __post_init__(self) -> None:
        if not MIN_MOMENT_US <= self.micros <= MAX_MOMENT_US:
            raise InvalidArgumentError("a date lies outside the years 1 to 9999", hint="dates are compared in UTC")


Value = Number | Text | Bool | Moment


class Expr:
    """A filter, or a part of one. `a & b`, `a | b`, `~a` combine; `str(a)` is its text.

    `==` compares trees, so a tree has no truth value: `and`, `or` and `not` are refused.
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """Nodes, this one included."""
        return 1

    @property
    def nesting(self) -> int:
        """Parentheses and NOTs around the innermost condition, as rendered."""
        return 0

    @property
    def listed(self) -> int:
        """Values in IN lists."""
        return 0

    def __and__(self, other: Expr) -> And:
        return And((self, other)) if isinstance(other, Expr) else NotImplemented

    def __or__(self, other: Expr) -> Or:
        return Or((self, other)) if isinstance(other, Expr) else NotImplemented

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a filter has no truth value; combine filters with &, | and ~, each comparison in parentheses: "
            "(F.year >= 2020) & (F.lang == 'en'), and write F.x.between(a, b) for a < F.x < b"
        )

    def __str__(self) -> str:
        from kektordb.filters.render import render

        return render(self)


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """`path op value`."""

    path: Path
    op: Operator
    value: Value

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        if self.op not in OPERATORS:
            raise InvalidArgumentError(f"operator is {self.op!r}", hint="one of " + " ".join(OPERATORS))
        if isinstance(self.value, Bool) and self.op not in ("=", "!="):
            raise InvalidArgumentError(f"TRUE and FALSE have no order for {self.op!r}", hint="use = or !=")


@dataclass(frozen=True, slots=True)
class In(Expr):
    """`path IN (values)`; negated: a value that is not null, and none of these."""

    path: Path
    values: tuple[Value, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        _set(self, "values", tuple(self.values))
        _check(self)

    @property
    def listed(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Between(Expr):
    """`path BETWEEN low AND high`: one value within both bounds, bounds included."""

    path: Path
    low: Value
    high: Value
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        if type(self.low) is not type(self.high) or isinstance(self.low, Bool):
            raise InvalidArgumentError(
                "the two ends of BETWEEN are not of one ordered type", hint="give two numbers, two strings or two dates"
            )


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """`path LIKE pattern`."""

    path: Path
    pattern: str
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        _set(self, "pattern", like.canonical(_checked_text(self.pattern)))


@dataclass(frozen=True, slots=True)
class StartsWith(Expr):
    """`path STARTS WITH prefix`."""

    path: Path
    prefix: str
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        _set(self, "prefix", _checked_text(self.prefix))


@dataclass(frozen=True, slots=True)
class Contains(Expr):
    """`path CONTAINS value`: a list with that element, or a single string with that part."""

    path: Path
    value: Number | Text | Bool
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))
        if not isinstance(self.value, Number | Text | Bool):
            raise InvalidArgumentError("CONTAINS takes a string, a number or TRUE or FALSE")


@dataclass(frozen=True, slots=True)
class Exists(Expr):
    """`EXISTS path`: the key is there, whatever its value."""

    path: Path

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    """`path IS NULL`: no value that is not null; negated: at least one."""

    path: Path
    negated: bool = False

    def __post_init__(self) -> None:
        _set(self, "path", checked_path(self.path))


@dataclass(frozen=True, slots=True)
class And(Expr):
    items: tuple[Expr, ...]
    size: int = field(init=False, repr=False, compare=False)
    nesting: int = field(init=False, repr=False, compare=False)
    listed: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set(self, "items", _flat(And, self.items))
        _measure(self, self.items, [i.nesting + isinstance(i, Or) for i in self.items])


@dataclass(frozen=True, slots=True)
class Or(Expr):
    items: tuple[Expr, ...]
    size: int = field(init=False, repr=False, compare=False)
    nesting: int = field(init=False, repr=False, compare=False)
    listed: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set(self, "items", _flat(Or, self.items))
        _measure(self, self.items, [i.nesting for i in self.items])


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """All rows that `item` does not hold for, those without the field included."""

    item: Expr
    size: int = field(init=False, repr=False, compare=False)
    nesting: int = field(init=False, repr=False, compare=False)
    listed: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.item, Expr):
            raise InvalidArgumentError(f"a part of a filter is a {type(self.item).__name__}")
        _measure(self, (self.item,), [1 + self.item.nesting + isinstance(self.item, And | Or)])


def _set(node: object, name: str, value: object) -> None:
    """Sets a field of a frozen value while it is made."""
    object.__setattr__(node, name, value)


def _flat(kind: type[And | Or], items: Iterable[Expr]) -> tuple[Expr, ...]:
    out: list[Expr] = []
    for item in items:
        if not isinstance(item, Expr):
            raise InvalidArgumentError(f"a part of a filter is a {type(item).__name__}")
        if isinstance(item, And | Or) and type(item) is kind:
            out.extend(item.items)
        else:
            out.append(item)
    if len(out) < 2:
        raise InvalidArgumentError(f"{kind.__name__} takes at least two parts, got {len(out)}")
    return tuple(out)


def _measure(node: And | Or | Not, items: Iterable[Expr], nestings: list[int]) -> None:
    _set(node, "size", 1 + sum(i.size for i in items))
    _set(node, "nesting", max(nestings))
    _set(node, "listed", sum(i.listed for i in items))
    _check(node)


def _check(node: Expr) -> None:
    for got, name, maximum, what in (
        (node.size, "MAX_FILTER_NODES", MAX_FILTER_NODES, "conditions, ANDs, ORs and NOTs"),
        (node.nesting, "MAX_FILTER_NESTING", MAX_FILTER_NESTING, "nested parentheses and NOTs"),
        (node.listed, "MAX_FILTER_VALUES", MAX_FILTER_VALUES, "values in IN lists"),
    ):
        if got > maximum:
            raise too_much(name, maximum, what)


def too_much(name: str, maximum: int, what: str, *, hint: str = "") -> LimitExceededError:
    """The error of a filter that passes the limit `name`."""
    return LimitExceededError(
        f"the filter has more than {maximum:,} {what} ({name})",
        hint=hint or "split it, or put many alternatives into one IN list",
        limit=name,
        maximum=maximum,
    )


def _finite(value: float) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentError(f"a number is a {type(value).__name__}")
    if isinstance(value, int) and value in EXACT_INT:
        return int(value)
    try:
        near = float(value)
    except OverflowError:
        near = math.inf
    if not math.isfinite(near):
        raise InvalidArgumentError(
            f"a number is {'NaN' if math.isnan(near) else 'too large'}", hint="numbers are finite doubles"
        )
    return near + 0.0  # -0.0 becomes 0.0


def _checked_text(text: str) -> str:
    if len(text) > MAX_FILTER_CHARS:
        raise too_much("MAX_FILTER_CHARS", MAX_FILTER_CHARS, "characters in one string")
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise InvalidArgumentError(
            f"a string of a filter holds half of a character at {e.start}", hint="decode the text properly"
        ) from e
    return nfc(text)
