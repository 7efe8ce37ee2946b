"""Random filters and payloads that meet often: few names, few values, every type, so that about half of all conditions hold
for some row. For tests that compare an index with `kektordb.filters.evaluate`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, get_args

from kektordb.filters import (
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
    evaluate,
)
from kektordb.filters.tree import Operator, Value

Json = Any

NAMES: Final = ("a", "b", "c.d", "Zo\u00e9", "Zoe\u0301", "x\\y", "and", "")
"""One of them in two forms that compare equal."""
STRINGS: Final = (
    "",
    "a",
    "ab",
    "abc",
    "Zo\u00e9",
    "Zoe\u0301",
    "\u5916\u5e01\u6c47\u7387",
    "\U0001f389",
    "\ufb01",
    "100%",
    "a_b",
    "it's",
    'say "x"',
    "back\\slash",
    "two\nlines",
    "\0",
    "true",
    "42",
    "2024-01-31",
    "2024-01-31T08:00:00Z",
    "2024-01-31T10:00:00+02:00",
    "2024-01-31 08:00:00.5",
    "2024-02-30",
)
NUMBERS: Final = (
    0, -0.0, 1, -1, 1.0, 0.1, 42, 42.0, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 2**70 + 1,
    1e300, -1e300, 5e-324,
)  # fmt: skip
MOMENTS: Final = (1_706_659_200_000_000, 1_706_688_000_000_000, 1_706_688_000_500_000)
PATTERNS: Final = ("%", "", "a%", "%b", "%b%", "_", "a_b", "a\\_b", "100\\%", "Zo_", "%\u5e01%", "a%%c", "\\")


def random_payload(rng: random.Random, *, depth: int = 3) -> dict[str, Json]:
    """An object as payloads are: missing, null, mixed and nested fields, lists in lists."""
    return {name: _random_json(rng, depth) for name in NAMES if rng.random() < 0.45}


def _random_json(rng: random.Random, depth: int) -> Json:
    roll = rng.random()
    if depth > 0 and roll < 0.2:
        return [_random_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth > 0 and roll < 0.35:
        return random_payload(rng, depth=depth - 1)
    return rng.choice((None, True, False, rng.choice(NUMBERS), rng.choice(NUMBERS), *rng.choices(STRINGS, k=4)))


def random_filter(rng: random.Random, *, depth: int = 3) -> Expr:
    if depth > 0 and rng.random() < 0.6:
        kind = rng.choice(("and", "or", "not"))
        if kind == "not":
            return Not(random_filter(rng, depth=depth - 1))
        items = tuple(random_filter(rng, depth=depth - 1) for _ in range(rng.randrange(2, 4)))
        return And(items) if kind == "and" else Or(items)
    return _random_condition(rng)


def _random_condition(rng: random.Random) -> Expr:
    path = tuple(rng.choice(NAMES) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    negated = rng.random() < 0.3
    match rng.randrange(9):
        case 0 | 1:
            value = _random_value(rng)
            ops = ("=", "!=") if isinstance(value, Bool) else get_args(Operator)
            return Compare(path, rng.choice(ops), value)
        case 2:
            return In(path, tuple(_random_value(rng) for _ in range(rng.randrange(4))), negated)
        case 3:
            low: Value = Bool(True)
            while isinstance(low, Bool):
                low = _random_value(rng)
            high: Value = Bool(True)
            while type(high) is not type(low):
                high = _random_value(rng)
            return Between(path, low, high, negated)
        case 4:
            return Like(path, rng.choice(PATTERNS), negated)
        case 5:
            return StartsWith(path, rng.choice(STRINGS), negated)
        case 6:
            held: Value = Moment(0)
            while isinstance(held, Moment):
                held = _random_value(rng)
            return Contains(path, held, negated)
        case 7:
            return Exists(path)
        case _:
            return IsNull(path, negated)


def _random_value(rng: random.Random) -> Value:
    match rng.randrange(5):
        case 0 | 1:
            return Text(rng.choice(STRINGS))
        case 2 | 3:
            return Number(rng.choice(NUMBERS))
        case _:
            others: list[Value] = [Bool(True), Bool(False), *map(Moment, MOMENTS)]
            return rng.choice(others)


def rows_that_hold(tree: Expr, payloads: Mapping[int, Mapping[str, Json]]) -> set[int]:
    """By the oracle, one row after the other."""
    return {row for row, payload in payloads.items() if evaluate(tree, payload)}
