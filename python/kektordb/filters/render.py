"""From tree to text: `parse(render(tree)) == tree`. Pure.

One form for each tree: keywords in capitals, strings in single quotes, parentheses only where they are needed, dates in UTC.
"""

from __future__ import annotations

from typing import Final, assert_never

from kektordb.filters.moments import moment_text
from kektordb.filters.paths import path_text
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

_ESCAPED: Final = str.maketrans(
    {"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
    | {chr(c): f"\\u{c:04x}" for c in (*range(8), 0x0B, *range(0x0E, 0x20), 0x7F)}
)


def render(expr: Expr) -> str:
    match expr:
        case And(items=items):
            return " AND ".join(_grouped(i) if isinstance(i, Or) else render(i) for i in items)
        case Or(items=items):
            return " OR ".join(render(i) for i in items)
        case Not(item=item):
            return f"NOT {_grouped(item) if isinstance(item, And | Or) else render(item)}"
        case Compare(path=path, op=op, value=value):
            return f"{path_text(path)} {op} {value_text(value)}"
        case In(path=path, values=values, negated=no):
            return f"{path_text(path)} {_not(no)}IN ({', '.join(value_text(v) for v in values)})"
        case Between(path=path, low=low, high=high, negated=no):
            return f"{path_text(path)} {_not(no)}BETWEEN {value_text(low)} AND {value_text(high)}"
        case Like(path=path, pattern=pattern, negated=no):
            return f"{path_text(path)} {_not(no)}LIKE {_string(pattern)}"
        case StartsWith(path=path, prefix=prefix, negated=no):
            return f"{path_text(path)} {_not(no)}STARTS WITH {_string(prefix)}"
        case Contains(path=path, value=value, negated=no):
            return f"{path_text(path)} {_not(no)}CONTAINS {value_text(value)}"
        case Exists(path=path):
            return f"EXISTS {path_text(path)}"
        case IsNull(path=path, negated=no):
            return f"{path_text(path)} IS {_not(no)}NULL"
        case _:
            raise TypeError(f"{type(expr).__name__} is no part of a filter")


def value_text(value: Value) -> str:
    match value:
        case Number(value=number):
            return repr(number)
        case Text(value=text):
            return _string(text)
        case Bool(value=flag):
            return "TRUE" if flag else "FALSE"
        case Moment(micros=micros):
            text = moment_text(micros)
            return f"{'DATE' if len(text) == 10 else 'TIMESTAMP'} '{text}'"
        case _:
            assert_never(value)


def _grouped(expr: Expr) -> str:
    return f"({render(expr)})"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _string(text: str) -> str:
    return f"'{text.translate(_ESCAPED)}'"
