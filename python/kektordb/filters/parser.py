"""Filter text to a tree: recursive descent, linear, bounded. The grammar is in `docs/filters.md`."""

from __future__ import annotations

import math

from kektordb.errors import FilterSyntaxError, LimitExceededError
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
from kektordb.filters.lexer import Token, fault, tokens
from kektordb.filters.time import moment

TEXT_CHARS_MAX = 65_536
NODES_MAX = 1_000
NESTING_MAX = 32


def parse(text: str) -> Node:
    """The tree of a filter text. FilterSyntaxError with position and caret; LimitExceededError names the limit."""
    if len(text) > TEXT_CHARS_MAX:
        raise LimitExceededError(
            f"a filter has {len(text)} characters, the limit TEXT_CHARS_MAX is {TEXT_CHARS_MAX}",
            limit="TEXT_CHARS_MAX",
            hint="put long lists of values into a field that all wanted rows share",
        )
    return _Parser(text).whole()


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens = tokens(source)
        self.token = next(self._tokens)
        self.nodes = 0
        self.depth = 0

    def whole(self) -> Node:
        if self.token.kind == "end":
            raise self.error("a filter is empty", hint="leave the filter out to get everything")
        node = self.either()
        if self.token.kind != "end":
            hint = "a ) too many" if self.token.text == ")" else "join conditions with AND or OR"
            raise self.error(f"expected AND, OR or the end, got {self.token.text!r}", hint=hint)
        return node

    # -- small steps

    def error(self, what: str, *, hint: str = "", at: Token | None = None) -> FilterSyntaxError:
        return fault(self.source, (at or self.token).at, what, hint)

    def step(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self._tokens)
        return token

    def take(self, kind: str, text: str) -> bool:
        if self.token.kind == kind and self.token.text == text:
            self.step()
            return True
        return False

    def count(self, node: Node) -> Node:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise LimitExceededError(
                f"a filter has more than {NODES_MAX} conditions (limit NODES_MAX)",
                limit="NODES_MAX",
                hint="IN takes many values as one condition",
            )
        return node

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise LimitExceededError(
                f"a filter is nested deeper than {NESTING_MAX} (limit NESTING_MAX)", limit="NESTING_MAX"
            )

    # -- grammar

    def either(self) -> Node:
        items = [self.both()]
        while self.take("word", "OR"):
            items.append(self.both())
        return items[0] if len(items) == 1 else self.count(Or(_flat(items, Or)))

    def both(self) -> Node:
        items = [self.negation()]
        while self.take("word", "AND"):
            items.append(self.negation())
        return items[0] if len(items) == 1 else self.count(And(_flat(items, And)))

    def negation(self) -> Node:
        if self.take("word", "NOT"):
            self.deeper()
            node = self.count(Not(self.negation()))
            self.depth -= 1
            return node
        if self.take("mark", "("):
            self.deeper()
            node = self.either()
            if not self.take("mark", ")"):
                raise self.error("expected )", hint="a ( is not closed")
            self.depth -= 1
            return node
        return self.condition()

    def condition(self) -> Node:
        if self.take("word", "EXISTS"):
            return self.count(Exists(self.path()))
        path = self.path()
        token = self.token
        if token.kind == "op":
            self.step()
            return self.count(Compare(path, token.text, self.value(token)))
        negated = self.take("word", "NOT")
        if self.take("word", "IN"):
            return self.count(In(path, self.values(), negated))
        positive = self.predicate(path)
        if positive is None:
            raise self.error(
                f"expected a comparison after {'.'.join(path)!r}, got {self.token.text or 'the end'!r}",
                hint="= != < <= > >= IN BETWEEN LIKE STARTS WITH CONTAINS IS NULL",
            )
        return self.count(Not(positive)) if negated else positive

    def predicate(self, path: Path) -> Node | None:
        if self.take("word", "IS"):
            negated = self.take("word", "NOT")
            if not self.take("word", "NULL"):
                raise self.error("expected NULL after IS")
            return self.count(IsNull(path, negated))
        if self.take("word", "BETWEEN"):
            low = self.value(self.token)
            if not self.take("word", "AND"):
                raise self.error("expected AND between the two ends of BETWEEN")
            return self.count(Between(path, low, self.value(self.token)))
        if self.take("word", "LIKE"):
            return self.count(Like(path, self.text("LIKE")))
        if self.take("word", "STARTS"):
            if not self.take("word", "WITH"):
                raise self.error("expected WITH after STARTS")
            return self.count(StartsWith(path, self.text("STARTS WITH").replace("\\%", "%").replace("\\_", "_")))
        if self.take("word", "CONTAINS"):
            return self.count(Contains(path, self.value(self.token)))
        return None

    def path(self) -> Path:
        names = [self.name()]
        while self.take("mark", "."):
            names.append(self.name())
        return tuple(names)

    def name(self) -> str:
        token = self.token
        if token.kind in ("name", "field"):
            self.step()
            return token.text
        if token.kind == "word" and token.text not in ("AND", "OR", "NOT", "EXISTS"):
            # A field may be called like a keyword: `date`, `contains`. Its own spelling counts.
            self.step()
            return self.source[token.at : token.at + len(token.text)]
        hint = ""
        if token.kind == "end":
            hint = "a condition is missing; AND and OR stand between two"
        elif token.kind == "text":
            hint = "fields stand without quotes, odd names in backquotes"
        raise self.error(f"expected a field, got {token.text or 'the end'!r}", hint=hint)

    def text(self, what: str) -> str:
        token = self.step()
        if token.kind != "text":
            raise self.error(f"{what} wants a text in quotes, got {token.text or 'the end'!r}", at=token)
        return token.text

    def values(self) -> tuple[Value, ...]:
        close = {"(": ")", "[": "]"}.get(self.token.text if self.token.kind == "mark" else "")
        if close is None:
            raise self.error("expected a list after IN", hint="IN ('a', 'b')")
        self.step()
        out: list[Value] = []
        while not self.take("mark", close):
            if out and not self.take("mark", ","):
                raise self.error(f"expected , or {close}")
            out.append(self.value(self.token))
        return tuple(out)

    def value(self, after: Token) -> Value:
        token = self.step()
        if token.kind == "text":
            return token.text.replace("\\%", "%").replace("\\_", "_")
        if token.kind == "number":
            return self.number(token)
        if token.kind == "word" and token.text in ("TRUE", "FALSE"):
            return token.text == "TRUE"
        if token.kind == "word" and token.text in ("DATE", "TIMESTAMP"):
            text = self.text(token.text)
            us = moment(text)
            if us is None or (token.text == "DATE" and len(text) != 10):
                raise self.error(
                    f"{text!r} is no date", hint="DATE '2024-01-31', TIMESTAMP '2024-01-31T10:00:00Z'", at=token
                )
            return Moment(us, text)
        if token.kind == "word" and token.text == "NULL":
            raise self.error(f"{after.text} NULL is never true", hint="write IS NULL or IS NOT NULL", at=token)
        hint = "texts go in quotes" if token.kind == "name" else ""
        raise self.error(f"expected a value, got {token.text or 'the end'!r}", hint=hint, at=token)

    def number(self, token: Token) -> int | float:
        try:
            n: int | float = int(token.text)
        except ValueError:
            n = float(token.text)
        if isinstance(n, float) and not math.isfinite(n):
            raise self.error(f"{token.text} is beyond every number that a payload can hold", at=token)
        return n


def _flat(items: list[Node], kind: type[And | Or]) -> tuple[Node, ...]:
    out: list[Node] = []
    for item in items:
        out.extend(item.items if isinstance(item, kind) else (item,))
    return tuple(out)
