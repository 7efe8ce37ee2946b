"""Filters in Python: `(F.year >= 2020) & F.lang.in_(["en", "it"])` is the tree of `year >= 2020 AND lang IN ('en', 'it')`. Pure.

`F.name` and `F["a.b"]` are fields; `F["`odd name`.b"]` is written as in a filter's text. Values are str, int, float, bool, date,
datetime (without a zone: UTC) and numpy's scalars.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import date
from typing import Final, NoReturn

from kektordb.errors import InvalidArgumentError
from kektordb.filters.lexer import Kind, Lexer
from kektordb.filters.moments import moment_of
from kektordb.filters.paths import Path, checked_path, path_text
from kektordb.filters.tree import (
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
    Number,
    Operator,
    StartsWith,
    Text,
    Value,
)


class Field:
    """A field of the payload; comparing it gives a filter."""

    __slots__ = ("path",)
    path: Path

    def __init__(self, path: Path) -> None:
        object.__setattr__(self, "path", checked_path(path))

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((*self.path, name))

    def __getitem__(self, path: str) -> Field:
        return Field((*self.path, *parse_path(path)))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a filter compares, it assigns nothing: write F.{name} == {value!r}")

    # -- comparisons

    def __eq__(self, value: object) -> Expr:  # type: ignore[override]
        return self._compare("=", value)

    def __ne__(self, value: object) -> Expr:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Expr:
        return self._compare("<", value)

    def __le__(self, value: object) -> Expr:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Expr:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Expr:
        return self._compare(">=", value)

    __hash__ = None  # type: ignore[assignment]

    def in_(self, values: Iterable[object]) -> Expr:
        """A value equal to one of these; of an empty list, no row."""
        return In(self.path, _listed(values))

    def not_in(self, values: Iterable[object]) -> Expr:
        """A value that is not null, and none equal to one of these."""
        return In(self.path, _listed(values), negated=True)

    def between(self, low: object, high: object) -> Expr:
        """One value within both bounds, bounds included."""
        return Between(self.path, literal(low), literal(high))

    def not_between(self, low: object, high: object) -> Expr:
        return Between(self.path, literal(low), literal(high), negated=True)

    def like(self, pattern: str) -> Expr:
        """`%` is any run of characters, `_` one, a backslash makes the next one plain."""
        return Like(self.path, _text(pattern, "like"))

    def not_like(self, pattern: str) -> Expr:
        return Like(self.path, _text(pattern, "not_like"), negated=True)

    def startswith(self, prefix: str) -> Expr:
        return StartsWith(self.path, _text(prefix, "startswith"))

    def not_startswith(self, prefix: str) -> Expr:
        return StartsWith(self.path, _text(prefix, "not_startswith"), negated=True)

    def contains(self, value: object) -> Expr:
        """A list with this element, or a single string with this part."""
        return Contains(self.path, _contained(value))

    def not_contains(self, value: object) -> Expr:
        return Contains(self.path, _contained(value), negated=True)

    def exists(self) -> Expr:
        """The key is there, whatever its value."""
        return Exists(self.path)

    def is_null(self) -> Expr:
        """No value that is not null; a missing key counts."""
        return IsNull(self.path)

    def is_not_null(self) -> Expr:
        return IsNull(self.path, negated=True)

    # -- what is none

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the field {self} alone has no truth value: compare it, combine filters with &, | and ~ (not and, or, not), "
            "and write F.x.between(a, b) for a < F.x < b"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"write F[{str(self)!r}].contains({value!r}); `in` always gives True or False in Python")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the field {self} cannot be walked")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        name = self.path[-1]
        near = difflib.get_close_matches(name, METHODS, n=1)
        raise TypeError(
            f"a field has no method {name!r}" + (f"; did you mean {near[0]!r}?" if near else f": {', '.join(METHODS)}")
        )

    def __str__(self) -> str:
        return path_text(self.path)

    def __repr__(self) -> str:
        return f"F[{str(self)!r}]"

    def _compare(self, op: Operator, value: object) -> Expr:
        if value is None:
            raise InvalidArgumentError(
                "nothing is equal to None", hint="use .is_null(), .is_not_null() or .exists()", field=str(self)
            )
        return Compare(self.path, op, literal(value))


METHODS: Final = tuple(
    sorted(name for name, value in vars(Field).items() if callable(value) and not name.startswith("_"))
)


class _Fields:
    """What `F` is: every attribute and every item is a field."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((name,))

    def __getitem__(self, path: str) -> Field:
        return Field(parse_path(path))

    def __repr__(self) -> str:
        return "F"


F: Final = _Fields()


def parse_path(text: str) -> Path:
    """The names of a path: ``a.b``, or with dots in names ``a.`b.c` ``. What cannot be mistaken needs no backquotes here."""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"a field is a {type(text).__name__}: {text!r}", hint='give text such as "a.b"')
    if "`" not in text and "\\" not in text:
        names = text.split(".")
        if all(names):
            return checked_path(names)
        raise InvalidArgumentError(f"a field is {text!r}", hint="an empty name is written ``: F['a.``']")
    lexer = Lexer(text)
    token = lexer.token
    if token.kind is not Kind.NAME or token.start > 0 or token.end < len(text):
        raise lexer.fault(token.end if token.kind is Kind.NAME else token.start, "this is no path of field names")
    return token.path


def literal(value: object) -> Value:
    """A Python value as a value of the filter language."""
    if not isinstance(value, Field) and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a numpy scalar
    if isinstance(value, bool):
        return Bool(value)
    if isinstance(value, int):
        return Number(int(value))
    if isinstance(value, float):
        return Number(float(value))
    if isinstance(value, str):
        return Text(str.__str__(value))
    if isinstance(value, date):
        return Moment(moment_of(value))
    if isinstance(value, list | tuple | set | frozenset):
        hint = "use .in_([...]) for one of many, .contains(x) for an element"
    elif value is None:
        hint = "use .is_null()"
    elif isinstance(value, Field):
        hint = "a field is compared with a value, not with another field"
    else:
        hint = "give str, int, float, bool, date or datetime; str(...) makes text of anything"
    raise InvalidArgumentError(f"a filter cannot compare with a {type(value).__name__}: {value!r:.100}", hint=hint)


def _listed(values: Iterable[object]) -> tuple[Value, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"in_ takes a list, got {values!r:.100}", hint="for one value use ==")
    return tuple(literal(v) for v in values)


def _text(value: object, method: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{method} takes a string, got a {type(value).__name__}")
    return str.__str__(value)


def _contained(value: object) -> Number | Text | Bool:
    made = literal(value)
    if isinstance(made, Moment):
        raise InvalidArgumentError("contains takes no date", hint="compare dates with ==, <, >, in_ or between")
    return made


def parse_filter(filter: object) -> Expr | None:
    """What a caller gives as a filter, as a tree: text is parsed, a tree and None stay."""
    from kektordb.filters.parser import parse

    if filter is None or isinstance(filter, Expr):
        return filter
    if isinstance(filter, str):
        return parse(filter)
    if isinstance(filter, Field):
        hint = f"a field alone is no condition: F[{str(filter)!r}] == True, .exists() or .is_not_null()"
    elif isinstance(filter, dict):
        hint = f"write it as text: {_as_text(filter)!r}, or with F"
    elif isinstance(filter, bool):
        hint = "compare fields of F, not Python values; combine with &, | and ~"
    else:
        hint = 'give text such as "year >= 2020", a filter built with F, or None'
    raise InvalidArgumentError(f"a filter is a {type(filter).__name__}", hint=hint)


def _as_text(wanted: dict[object, object]) -> str:
    """The text that a mapping of names to values most likely means."""
    parts: list[Expr] = []
    try:
        for name, value in wanted.items():
            field = Field((str(name),))
            parts.append(
                field.is_null() if value is None else field.in_(value) if isinstance(value, list) else field == value
            )
    except InvalidArgumentError:
        parts = []
    return " AND ".join(str(p) for p in parts) if parts and len(parts) < 20 else "year >= 2020 AND lang = 'en'"
