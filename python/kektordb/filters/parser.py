"""From text to tree: recursive descent, written by hand, in linear time. Pure.

Promise: whatever the text, the answer is a tree, a FilterSyntaxError or a LimitExceededError; nesting is counted before it is
entered, so no text can exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from kektordb.errors import FilterSyntaxError, InvalidArgumentError, LimitExceededError
from kektordb.filters.lexer import Kind, Lexer, Token
from kektordb.filters.limits import MAX_FILTER_CHARS, MAX_FILTER_NESTING, MAX_FILTER_NODES, MAX_FILTER_VALUES
from kektordb.filters.moments import parse_moment
from kektordb.filters.paths import RESERVED, Path
from kektordb.filters.tree import (
    OPERATORS,
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
    Operator,
    Or,
    StartsWith,
    Text,
    Value,
    too_much,
)

_PREDICATES: Final = "=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, STARTS WITH, CONTAINS or IS NULL"
_NESTED: Final = "nested parentheses and NOTs"


def parse(text: str) -> Expr:
    """The tree of a filter. FilterSyntaxError says where and why; LimitExceededError names the limit."""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"a filter is a {type(text).__name__}", hint='give text such as "year >= 2020"')
    if len(text) > MAX_FILTER_CHARS:
        raise too_much("MAX_FILTER_CHARS", MAX_FILTER_CHARS, "characters", hint=f"it has {len(text):,}")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._nesting = 0
        self._conditions = 0
        self._values = 0
        self._taken = self._lexer.token
        """The token that was taken last."""

    # -- structure

    def whole(self) -> Expr:
        if self._at().kind is Kind.END:
            raise self._fault("the filter is empty", hint="give None for no filter")
        out = self._any()
        if self._at().kind is not Kind.END:
            hint = "there is a ')' too many" if self._at().word == ")" else "conditions are joined by AND or OR"
            raise self._fault(f"expected AND, OR or the end, got {self._got()}", hint=hint)
        return out

    def _any(self) -> Expr:
        items = [self._all()]
        while self._took("OR"):
            items.append(self._all(after="OR"))
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _all(self, *, after: str = "") -> Expr:
        items = [self._one(after=after)]
        while self._took("AND"):
            items.append(self._one(after="AND"))
        return items[0] if len(items) == 1 else And(tuple(items))

    def _one(self, *, after: str = "") -> Expr:
        if self._took("NOT"):
            self._enter()
            inner = Not(self._one(after="NOT"))
            self._nesting -= 1
            return inner
        if self._took("("):
            self._enter()
            opened = self._taken
            grouped = self._any()
            if not self._took(")"):
                raise self._unclosed(opened)
            self._nesting -= 1
            return grouped
        self._conditions += 1
        if self._conditions > MAX_FILTER_NODES:
            raise too_much("MAX_FILTER_NODES", MAX_FILTER_NODES, "conditions, ANDs, ORs and NOTs")
        if self._took("EXISTS"):
            return self._exists()
        return self._condition(self._field(after))

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_FILTER_NESTING:
            raise too_much(
                "MAX_FILTER_NESTING", MAX_FILTER_NESTING, _NESTED, hint="take away parentheses that say nothing"
            )

    def _unclosed(self, opened: Token) -> FilterSyntaxError:
        if self._at().kind is Kind.END:
            return self._lexer.fault(opened.start, "this parenthesis is not closed", hint="add a ')'")
        return self._fault(f"expected AND, OR or ')', got {self._got()}", hint="conditions are joined by AND or OR")

    # -- conditions

    def _exists(self) -> Expr:
        grouped = self._took("(")
        path = self._field("EXISTS")
        if grouped and not self._took(")"):
            raise self._fault(f"expected ')', got {self._got()}")
        return Exists(path)

    def _field(self, after: str) -> Path:
        token = self._at()
        if token.kind is Kind.NAME and token.word not in RESERVED:
            self._taken = self._lexer.advance()
            return self._taken.path
        what = f"expected a condition{f' after {after}' if after else ''}, got {self._got()}"
        if after == "EXISTS":
            what = f"expected a field name after EXISTS, got {self._got()}"
        if token.kind is Kind.NAME:
            hint = f"a field of this name stands in backquotes: `{self._raw(token)}`"
            if token.word in ("AND", "OR"):
                hint = f"{token.word} stands between two conditions"
        elif token.kind is Kind.END:
            hint = f"remove the trailing {after}, or add a condition" if after in ("AND", "OR", "NOT") else ""
        elif token.kind is Kind.STRING:
            hint = "the field stands first and without quotes; odd names in backquotes: `my field` = 'x'"
        elif token.kind is Kind.NUMBER:
            hint = "the field stands first: year >= 2020"
        else:
            hint = ""
        raise self._fault(what, hint=hint)

    def _condition(self, path: Path) -> Expr:
        field, token = self._taken, self._at()
        if token.kind is Kind.SIGN and token.word in OPERATORS:
            return self._comparison(path)
        if self._took("IS"):
            negated = self._took("NOT")
            if not self._took("NULL"):
                raise self._fault(f"expected NULL after IS, got {self._got()}", hint="values are compared with =")
            return IsNull(path, negated)
        negated = self._took("NOT")
        if self._took("IN"):
            return In(path, self._list(), negated)
        if self._took("BETWEEN"):
            return self._between(path, negated)
        if self._took("LIKE"):
            return Like(path, self._text("LIKE", pattern=True), negated)
        if self._took("CONTAINS"):
            return self._contains(path, negated)
        if self._took("STARTS"):
            if not self._took("WITH"):
                raise self._fault(f"expected WITH after STARTS, got {self._got()}")
            return StartsWith(path, self._text("STARTS WITH"), negated)
        raise self._no_predicate(field, negated)

    def _no_predicate(self, field: Token, negated: bool) -> FilterSyntaxError:
        name, token = self._raw(field), self._at()
        if negated:
            return self._fault(
                f"expected IN, BETWEEN, LIKE, STARTS WITH or CONTAINS after NOT, got {self._got()}",
                hint=f"of a whole condition, NOT stands first: NOT {name} = …",
            )
        hint = ""
        if token.kind is Kind.END or token.word in ("AND", "OR", ")"):
            hint = f"a field alone is no condition: write {name} = TRUE, EXISTS {name} or {name} IS NOT NULL"
        elif token.word == "EXISTS":
            hint = f"EXISTS stands first: EXISTS {name}"
        elif token.word == "STARTSWITH":
            hint = "write STARTS WITH, in two words"
        elif token.word in ("DATE", "TIMESTAMP") or field.word in ("DATE", "TIMESTAMP"):
            hint = "the field stands first, the date after the operator"
        return self._fault(f"expected {_PREDICATES}, got {self._got()}", hint=hint)

    def _comparison(self, path: Path) -> Expr:
        sign = self._lexer.advance()
        op = cast("Operator", sign.word)
        if self._at().word == "=" and self._at().start == sign.end:
            raise self._lexer.fault(
                sign.start, f"'{op}=' has no meaning here", hint="write = for equality, != for inequality"
            )
        place = self._at().start
        value = self._value(f"'{op}'", null=f"write IS {'NOT ' if op == '!=' else ''}NULL")
        return self._checked(place, lambda: Compare(path, op, value))

    def _between(self, path: Path, negated: bool) -> Expr:
        place = self._at().start
        low = self._value("BETWEEN")
        if not self._took("AND"):
            raise self._fault(f"expected AND and the upper end, got {self._got()}", hint="x BETWEEN 1 AND 5")
        high = self._value("AND")
        return self._checked(place, lambda: Between(path, low, high, negated))

    def _contains(self, path: Path, negated: bool) -> Expr:
        place = self._at().start
        value = self._value("CONTAINS")
        if isinstance(value, Moment):
            raise self._lexer.fault(place, "CONTAINS takes no date", hint="compare dates with =, <, >, IN or BETWEEN")
        return Contains(path, value, negated)

    def _checked(self, place: int, make: Callable[[], Expr]) -> Expr:
        try:
            return make()
        except LimitExceededError:
            raise
        except InvalidArgumentError as e:
            raise self._lexer.fault(place, e.message, hint=e.hint) from None

    # -- values

    def _list(self) -> tuple[Value, ...]:
        closing = ")" if self._took("(") else "]" if self._took("[") else ""
        if not closing:
            raise self._fault(f"expected '(' or '[' after IN, got {self._got()}", hint="x IN ('a', 'b')")
        opened = self._taken
        values: list[Value] = []
        while not self._took(closing):
            if values and not self._took(","):
                if self._at().kind is Kind.END:
                    raise self._lexer.fault(opened.start, "this list is not closed", hint=f"add a '{closing}'")
                raise self._fault(f"expected ',' or '{closing}', got {self._got()}")
            if values and self._took(closing):
                break
            self._values += 1
            if self._values > MAX_FILTER_VALUES:
                raise too_much("MAX_FILTER_VALUES", MAX_FILTER_VALUES, "values in IN lists", hint="split it")
            values.append(self._value("','" if values else f"'{opened.word}'", null="write x IS NULL OR x IN (…)"))
        return tuple(values)

    def _text(self, after: str, *, pattern: bool = False) -> str:
        if self._at().kind is not Kind.STRING:
            raise self._fault(f"expected a string after {after}, got {self._got()}", hint=self._quoted())
        return self._lexer.string(self._lexer.advance(), pattern=pattern)

    def _value(self, after: str, *, null: str = "write IS NULL") -> Value:
        token = self._at()
        if token.kind is Kind.STRING:
            return Text(self._lexer.string(self._lexer.advance()))
        if token.number is not None:
            self._lexer.advance()
            return token.number
        if self._took("TRUE"):
            return Bool(True)
        if self._took("FALSE"):
            return Bool(False)
        if token.word in ("DATE", "TIMESTAMP"):
            return self._moment()
        if token.word == "NULL":
            raise self._fault("nothing is equal to NULL", hint=null)
        if token.word in ("NAN", "INF", "INFINITY"):
            raise self._fault(f"{self._raw(token)} is no number", hint="numbers are finite doubles")
        raise self._fault(f"expected a value after {after}, got {self._got()}", hint=self._quoted())

    def _moment(self) -> Moment:
        keyword = self._lexer.advance()
        if self._at().kind is not Kind.STRING:
            hint = f"if it is text, write '{self._raw(keyword)}'; a date is DATE '2024-01-31'"
            raise self._fault(f"expected a string after {keyword.word}, got {self._got()}", hint=hint)
        token = self._lexer.advance()
        text = self._lexer.string(token)
        micros = parse_moment(text)
        if micros is None or (keyword.word == "DATE" and len(text) != 10):
            hint = "such as '2024-01-31'"
            if keyword.word == "TIMESTAMP":
                hint = "such as '2024-01-31T10:00:00+02:00' (without an offset: UTC)"
            elif micros is not None:
                hint = f"write TIMESTAMP {self._raw(token)} for a date with a time"
            raise self._lexer.fault(token.start, f"this is no {keyword.word.lower()}", hint=hint)
        try:
            return Moment(micros)
        except InvalidArgumentError as e:
            raise self._lexer.fault(token.start, e.message, hint=e.hint) from None

    # -- tokens

    def _at(self) -> Token:
        return self._lexer.token

    def _took(self, word: str) -> bool:
        """Takes the token at hand if it is this sign or keyword."""
        if self._at().word != word:
            return False
        self._taken = self._lexer.advance()
        return True

    def _raw(self, token: Token) -> str:
        return self._lexer.text[token.start : token.end][:60]

    def _got(self) -> str:
        return Kind.END.value if self._at().kind is Kind.END else self._raw(self._at())

    def _quoted(self) -> str:
        return f"text stands in quotes: '{self._raw(self._at())}'" if self._at().kind is Kind.NAME else ""

    def _fault(self, message: str, *, hint: str = "") -> FilterSyntaxError:
        return self._lexer.fault(self._at().start, message, hint=hint)
