"""A tree as text: `parse(render(tree)) == tree`."""

from __future__ import annotations

import re

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
from kektordb.filters.lexer import KEYWORDS

_PLAIN = re.compile(r"[^\W\d]\w*")


def render(node: Node) -> str:
    return _render(node)


def _render(node: Node, *, inside: type[Node] | None = None) -> str:
    match node:
        case And(items) | Or(items):
            word = " AND " if isinstance(node, And) else " OR "
            if not items:
                raise ValueError("an AND or OR without conditions has no text")
            text = word.join(_render(i, inside=type(node)) for i in items)
            return f"({text})" if inside is not None else text
        case Not(item):
            return f"NOT {_render(item, inside=Not)}"
        case Compare(path, op, value):
            return f"{_path(path)} {op} {_value(value)}"
        case In(path, values, negated):
            return f"{_path(path)} {'NOT ' if negated else ''}IN ({', '.join(map(_value, values))})"
        case Between(path, low, high):
            return f"{_path(path)} BETWEEN {_value(low)} AND {_value(high)}"
        case Like(path, pattern):
            return f"{_path(path)} LIKE {_pattern(pattern)}"
        case StartsWith(path, prefix):
            return f"{_path(path)} STARTS WITH {_value(prefix)}"
        case Contains(path, value):
            return f"{_path(path)} CONTAINS {_value(value)}"
        case Exists(path):
            return f"EXISTS {_path(path)}"
        case IsNull(path, negated):
            return f"{_path(path)} IS {'NOT ' if negated else ''}NULL"
    raise TypeError(f"not a filter: {node!r}")


def _path(path: Path) -> str:
    return ".".join(
        n if _PLAIN.fullmatch(n) and n.upper() not in KEYWORDS else f"`{n.replace('`', '``')}`" for n in path
    )


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Moment):
        return f"{'DATE' if len(value.text) == 10 else 'TIMESTAMP'} '{value.text}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return repr(value)


def _pattern(pattern: str) -> str:
    # A backslash before % or _ is the pattern's own; any other is doubled for the text.
    return "'" + re.sub(r"\\(?![%_])", r"\\\\", pattern).replace("'", "''") + "'"
