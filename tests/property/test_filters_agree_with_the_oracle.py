"""Plans over a plain twin of the engine's postings against the row-by-row oracle, and the laws of AND, OR and NOT."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kektordb.errors import FilterSyntaxError, LimitExceededError
from kektordb.filters import And, F, Not, Or, evaluate, parse, plan, plan_json, render, run
from kektordb.filters.like import matches, parts_of
from kektordb.filters.moments import parse_moment
from kektordb.filters.paths import encode_path, nfc
from kektordb.testing.trees import NAMES, STRINGS, random_filter, random_payload, rows_that_hold

ROWS = 40
TREES = 10_000
randoms = st.integers(0, 2**64).map(random.Random)
"""A seed shrinks badly, but trees and payloads made of one are made quickly."""


class PlainPostings:
    """The engine's postings again: (path, kind, role, value) to rows. `make` is the kind of set that is given out."""

    def __init__(self, payloads: Mapping[int, Mapping[str, Any]], make: Callable[[Iterable[int]], Any] = frozenset):
        self._make = make
        self._rows = frozenset(payloads)
        self._values: dict[tuple[str, str, str], dict[Any, set[int]]] = defaultdict(lambda: defaultdict(set))
        for row, payload in payloads.items():
            self._object(row, (), payload, "scalar")

    def _object(self, row: int, path: tuple[str, ...], fields: Mapping[str, Any], role: str) -> None:
        for name, value in fields.items():
            inner = (*path, name)
            self._add(row, inner, "exists", "", True)
            self._value(row, inner, value, role)

    def _value(self, row: int, path: tuple[str, ...], value: Any, role: str) -> None:
        if value is None:
            self._add(row, path, "null", "", True)
            return
        if isinstance(value, list):
            for inner in value:
                self._value(row, path, inner, "element")
            return
        self._add(row, path, "nonnull", "", True)
        if isinstance(value, dict):
            self._object(row, path, value, role)
        elif isinstance(value, bool):
            self._add(row, path, "bool", role, value)
        elif isinstance(value, str):
            self._add(row, path, "string", role, nfc(value))
            if (at := parse_moment(value)) is not None:
                self._add(row, path, "time", role, at)
        else:
            exact = value if isinstance(value, float) or -(2**63) <= value < 2**64 else float(value)
            self._add(row, path, "number", role, exact)

    def _add(self, row: int, path: tuple[str, ...], kind: str, role: str, value: Any) -> None:
        self._values[encode_path(path), kind, role][value].add(row)

    def _where(self, path: str, kind: str, keep: Callable[[Any], bool], role: str = "any") -> Any:
        roles = ("scalar", "element", "") if role == "any" else (role,)
        found = (rows for r in roles for value, rows in self._values[path, kind, r].items() if keep(value))
        return self._make(frozenset().union(*found))

    def _range(self, path: str, kind: str, lo: Any, lo_incl: bool, hi: Any, hi_incl: bool) -> Any:
        def keep(value: Any) -> bool:
            above = lo is None or value > lo or (lo_incl and value == lo)
            return above and (hi is None or value < hi or (hi_incl and value == hi))

        return self._where(path, kind, keep)

    def all(self) -> Any:
        return self._make(self._rows)

    def none(self) -> Any:
        return self._make(())

    def eq(self, path: str, value: Any, role: str = "any") -> Any:
        kind = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
        return self._where(path, kind, lambda v: v == value, role)

    def range_number(self, path: str, *bounds: Any) -> Any:
        return self._range(path, "number", *bounds)

    def range_string(self, path: str, *bounds: Any) -> Any:
        return self._range(path, "string", *bounds)

    def range_time(self, path: str, *bounds: Any) -> Any:
        return self._range(path, "time", *bounds)

    def prefix(self, path: str, text: str) -> Any:
        return self._where(path, "string", lambda v: v.startswith(text))

    def like(self, path: str, pattern: str) -> Any:
        parts = parts_of(pattern)
        return self._where(path, "string", lambda v: matches(parts, v))

    def substring(self, path: str, text: str) -> Any:
        return self._where(path, "string", lambda v: text in v, "scalar")

    def exists(self, path: str) -> Any:
        return self._where(path, "exists", bool)

    def null(self, path: str) -> Any:
        return self._where(path, "null", bool)

    def nonnull(self, path: str) -> Any:
        return self._where(path, "nonnull", bool)


def _payloads(rng: random.Random) -> dict[int, dict[str, Any]]:
    return {row: random_payload(rng) for row in range(ROWS)}


def test_ten_thousand_random_trees_agree_with_the_oracle(seed: int) -> None:
    rng = random.Random(seed)
    full = empty = 0
    payloads = _payloads(rng)
    postings = PlainPostings(payloads)
    for n in range(TREES):
        if n % 100 == 0:
            payloads = _payloads(rng)
            postings = PlainPostings(payloads)
        tree = random_filter(rng)
        steps = plan(tree)
        want = rows_that_hold(tree, payloads)
        assert set(run(steps, postings)) == want, (seed, n, render(tree))
        assert json.loads(plan_json(tree) or "") == _as_lists(steps)
        full += len(want) == ROWS
        empty += not want
    assert full < TREES * 0.6 and empty < TREES * 0.6, "the trees must tell rows apart"


def test_a_plan_runs_over_roaring_bitmaps_too(rng: random.Random) -> None:
    bitmap = pytest.importorskip("pyroaring").BitMap
    payloads = _payloads(rng)
    postings = PlainPostings(payloads, make=bitmap)
    for _ in range(300):
        tree = random_filter(rng)
        rows = run(plan(tree), postings)
        assert isinstance(rows, bitmap)
        assert set(rows) == rows_that_hold(tree, payloads), render(tree)


@given(randoms)
def test_a_rendered_tree_parses_back_to_itself(rng: random.Random) -> None:
    tree = random_filter(rng, depth=6)
    text = render(tree)
    assert parse(text) == tree
    assert render(parse(text)) == text


@given(randoms)
def test_the_laws_of_logic_hold_in_every_row(rng: random.Random) -> None:
    a, b = random_filter(rng), random_filter(rng)
    payloads = _payloads(rng)
    postings = PlainPostings(payloads)

    def rows(tree: Any) -> set[int]:
        found = set(run(plan(tree), postings))
        assert found == rows_that_hold(tree, payloads)
        return found

    assert rows(~~a) == rows(a)
    assert rows(Not(a)) == set(payloads) - rows(a)
    assert rows(~(a & b)) == rows(~a | ~b)
    assert rows(~(a | b)) == rows(~a & ~b)
    assert rows(a & b) == rows(a) & rows(b) == rows(b & a)
    assert rows(a | b) == rows(a) | rows(b) == rows(b | a)


@given(
    randoms,
    st.sampled_from(NAMES),
    st.sampled_from(STRINGS) | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_equal_and_unequal_part_the_rows_that_have_a_value(rng: random.Random, name: str, value: object) -> None:
    field = type(F.a)((name,))
    for payload in _payloads(rng).values():
        equal, unequal = evaluate(field == value, payload), evaluate(field != value, payload)
        assert not (equal and unequal)
        assert (equal or unequal) == evaluate(field.is_not_null(), payload) != evaluate(field.is_null(), payload)
        assert equal == evaluate(field.in_([value]), payload)
        assert unequal == evaluate(field.not_in([value]), payload)


words = st.sampled_from(
    (
        "a b.c year `x y` AND OR NOT IN IS NULL TRUE LIKE BETWEEN CONTAINS EXISTS STARTS WITH DATE TIMESTAMP "
        "'2024-01-31' 'x' \"y\" 'it''s' 1 -2.5 1e9 1e999 012 = != < <= > >= == && || ! ( ) [ ] , . ; ‘ ’ \\ \\u12 '\\q' ` '"
    ).split(" ")
)
soups = st.lists(words, max_size=30).map(" ".join) | st.lists(words, max_size=30).map("".join)


@given(st.text() | soups | st.text(alphabet="'\"\\%_`()[]=<>!&|.,-+0eEaINnot ", max_size=60))
@example("\ud83d")
@example("a = '\ud83d'")
@example("a = 1" + "0" * 5_000)
@example("-")
@example("`")
@example("a = '\\")
@example("x[\u0660]")
@example("\u0660")
@example("a = ²")
def test_any_text_gives_a_tree_or_one_of_two_errors(text: str) -> None:
    try:
        tree = parse(text)
    except (FilterSyntaxError, LimitExceededError) as e:
        refused = e
    else:
        assert parse(render(tree)) == tree
        return
    if isinstance(refused, FilterSyntaxError):
        assert 0 <= refused.position <= len(text)
        assert "^" in str(refused)
    else:
        assert refused.context["limit"]


def _as_lists(steps: Any) -> Any:
    return [_as_lists(s) for s in steps] if isinstance(steps, tuple) else steps


def test_the_oracle_can_fail(rng: random.Random) -> None:
    """A twin that forgets elements of lists is caught."""
    payloads = {0: {"a": ["x"]}, 1: {"a": "x"}}
    flat = {row: {k: v for k, v in p.items() if not isinstance(v, list)} for row, p in payloads.items()}
    tree = And((F.a == "x", Or((F.a == "x", F.b.exists()))))
    assert set(run(plan(tree), PlainPostings(flat))) != rows_that_hold(tree, payloads)
