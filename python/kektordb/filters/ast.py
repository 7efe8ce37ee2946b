"""The tree that a filter is. Frozen values; what they mean is in `docs/filters.md`."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str, ...]
"""Field names from the root."""


class Node:
    """A part of a filter. Combine with `&`, `|`, `~`."""

    __slots__ = ()

    def __and__(self, other: Node) -> And:
        return And((*_parts(self, And), *_parts(_node(other), And)))

    def __or__(self, other: Node) -> Or:
        return Or((*_parts(self, Or), *_parts(_node(other), Or)))

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value: join filters with &, | and ~, and put ( ) around comparisons")


@dataclass(frozen=True, slots=True)
class Moment:
    """A DATE or TIMESTAMP literal; `us` is microseconds since 1970 UTC."""

    us: int
    text: str


Value = str | int | float | bool | Moment


@dataclass(frozen=True, slots=True)
class And(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(Node):
    item: Node


@dataclass(frozen=True, slots=True)
class Compare(Node):
    path: Path
    op: str
    """= != < <= > >="""
    value: Value


@dataclass(frozen=True, slots=True)
class In(Node):
    path: Path
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Node):
    path: Path
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Like(Node):
    path: Path
    pattern: str


@dataclass(frozen=True, slots=True)
class StartsWith(Node):
    path: Path
    prefix: str


@dataclass(frozen=True, slots=True)
class Contains(Node):
    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Exists(Node):
    path: Path


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    path: Path
    negated: bool = False


def _node(value: object) -> Node:
    if not isinstance(value, Node):
        raise TypeError(f"a filter cannot be joined with {value!r}: put ( ) around comparisons")
    return value


def _parts(node: Node, kind: type[And | Or]) -> tuple[Node, ...]:
    return node.items if isinstance(node, kind) else (node,)
