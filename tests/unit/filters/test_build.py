from __future__ import annotations

import copy
import enum
import json
import math
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from kektordb.errors import FilterSyntaxError, InvalidArgumentError, LimitExceededError
from kektordb.filters import (
    And,
    Compare,
    F,
    Field,
    Not,
    Number,
    Or,
    Text,
    encode_path,
    parse,
    parse_filter,
    parse_path,
    plan_json,
)
from kektordb.filters.limits import MAX_FILTER_NESTING, MAX_FILTER_NODES, MAX_FILTER_VALUES


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (F.year >= 2020, "year >= 2020"),
        (F["a.b"] == "x", "a.b = 'x'"),
        (F.a.b == "x", "a.b = 'x'"),
        (F.a["b.c"] != 1, "a.b.c != 1"),
        (F["odd name"] < 1, "`odd name` < 1"),
        (F["`a.b`.c"] > 1, "`a.b`.c > 1"),
        (F["a\\.b"] <= 1, "`a.b` <= 1"),
        (F["and"] == 1, "`and` = 1"),
        (F["like"] == 1, "`like` = 1"),
        (F.lang.in_(["en", "it"]), "lang IN ('en', 'it')"),
        (F.lang.in_({"en"}), "lang IN ('en')"),
        (F.lang.in_(x for x in "ab"), "lang IN ('a', 'b')"),
        (F.lang.not_in(()), "lang NOT IN ()"),
        (F.a.between(1, 2.5), "a BETWEEN 1 AND 2.5"),
        (F.a.not_between("a", "b"), "a NOT BETWEEN 'a' AND 'b'"),
        (F.a.like("x\\%%"), "a LIKE 'x\\%%'"),
        (F.a.not_like("_"), "a NOT LIKE '_'"),
        (F.a.startswith("x"), "a STARTS WITH 'x'"),
        (F.a.not_startswith("x"), "a NOT STARTS WITH 'x'"),
        (F.a.contains("x"), "a CONTAINS 'x'"),
        (F.a.not_contains(True), "a NOT CONTAINS TRUE"),
        (F.a.exists(), "EXISTS a"),
        (F.a.is_null(), "a IS NULL"),
        (F.a.is_not_null(), "a IS NOT NULL"),
        ((F.a == 1) & (F.b == 2) & (F.c == 3), "a = 1 AND b = 2 AND c = 3"),
        ((F.a == 1) & ((F.b == 2) & (F.c == 3)), "a = 1 AND b = 2 AND c = 3"),
        (((F.a == 1) | (F.b == 2)) & ~(F.c == 3), "(a = 1 OR b = 2) AND NOT c = 3"),
        (~~(F.a == 1), "NOT NOT a = 1"),
        (F.a == True, "a = TRUE"),  # noqa: E712
        (F.a == np.int64(5), "a = 5"),
        (F.a == np.float32(0.5), "a = 0.5"),
        (F.a == np.bool_(True), "a = TRUE"),
        (F.a == np.str_("x"), "a = 'x'"),
        (F.a == Colour.RED, "a = 'red'"),
        (F.a == Size.BIG, "a = 3"),
        (F.a == date(2024, 1, 31), "a = DATE '2024-01-31'"),
        (F.a == datetime(2024, 1, 31, 10), "a = TIMESTAMP '2024-01-31T10:00:00Z'"),
        (F.a == datetime(2024, 1, 31, 10, tzinfo=timezone(timedelta(hours=2))), "a = TIMESTAMP '2024-01-31T08:00:00Z'"),
        (F.a == datetime(2024, 1, 31, tzinfo=UTC), "a = DATE '2024-01-31'"),
    ],
)
def test_the_builder_gives_the_tree_of_the_text(built: object, text: str) -> None:
    assert built == parse(text)
    assert parse(str(built)) == built


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: (F.a == 1) and (F.b == 2), "&, | and ~"),
        (lambda: (F.a == 1) or (F.b == 2), "&, | and ~"),
        (lambda: not (F.a >= 1), "&, | and ~"),
        (lambda: bool(F.a), "truth value"),
        (lambda: 1 < F.a < 3, "between"),
        (lambda: "x" in F.tags, "contains"),
        (lambda: list(F.a), "walked"),
        (lambda: F.a.betwen(1, 2), "did you mean 'between'"),
        (lambda: F.a.startwith("x"), "did you mean 'startswith'"),
        (lambda: hash(F.a), "unhashable"),
        (lambda: F.a & F.b, "unsupported"),
        (lambda: (F.a == 1) & "b = 2", "unsupported"),
    ],
)
def test_what_python_would_twist_is_refused(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: F.a == None, "is_null"),  # noqa: E711
        (lambda: F.a == [1], "in_"),
        (lambda: F.a == F.b, "another field"),
        (lambda: F.a.between(math.nan, 1), "NaN"),
        (lambda: F.a == math.inf, "too large"),
        (lambda: F.a == 10**400, "too large"),
        (lambda: F.a == object(), "object"),
        (lambda: F.a == b"x", "bytes"),
        (lambda: F.a == "\ud83d", "half of a character"),
        (lambda: F["\ud83d"] == 1, "half of a character"),
        (lambda: F.a > True, "no order"),
        (lambda: F.a.between(1, "x"), "two numbers"),
        (lambda: F.a.in_("abc"), "takes a list"),
        (lambda: F.a.in_(5), "takes a list"),
        (lambda: F.a.in_([None]), "is_null"),
        (lambda: F.a.like(5), "takes a string"),
        (lambda: F.a.contains(date(2024, 1, 1)), "no date"),
        (lambda: F["a..b"], "empty name"),
        (lambda: F[""], "empty name"),
        (lambda: F[5], "int"),
        (lambda: F["`a"], "not closed"),
        (lambda: F["`a` b"], "no path"),
        (lambda: And((F.a == 1,)), "at least two"),
        (lambda: Not("a = 1"), "str"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_refused_with_advice(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        wrong()
    assert says in str(raised.value)


def test_a_naive_datetime_is_utc_in_every_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert (F.at >= datetime(2024, 3, 10, 2, 30)) == parse("at >= TIMESTAMP '2024-03-10T02:30:00Z'")
    monkeypatch.undo()
    time.tzset()


def test_the_door_takes_text_trees_and_nothing() -> None:
    tree = F.year >= 2020
    assert parse_filter(None) is None
    assert parse_filter(tree) is tree
    assert parse_filter("year >= 2020") == tree


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (F.flag, "F['flag'] == True"),
        ({"lang": "en", "year": 2020}, "lang = 'en' AND year = 2020"),
        ({"tags": ["x"], "note": None}, "tags IN ('x') AND note IS NULL"),
        ({"year": {"$gte": 2020}}, "year >= 2020"),
        (True, "&, | and ~"),
        (["a = 1"], "None"),
        (b"a = 1", "None"),
    ],
)
def test_the_door_says_what_it_takes(value: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_filter(value)
    assert says in str(raised.value)


def test_a_tree_that_grows_in_a_loop_meets_the_limits() -> None:
    deep: Any = F.a == 1
    for _ in range(MAX_FILTER_NESTING):
        deep = ~deep
    with pytest.raises(LimitExceededError) as raised:
        Not(deep)
    assert raised.value.context["limit"] == "MAX_FILTER_NESTING"
    assert parse(str(deep)) == deep

    wide: Any = F.a == 0
    for n in range(1, MAX_FILTER_NODES - 1):
        wide |= F.a == n
    with pytest.raises(LimitExceededError) as raised:
        wide | (F.b == 1)
    assert raised.value.context["limit"] == "MAX_FILTER_NODES"
    assert parse(str(wide)) == wide

    with pytest.raises(LimitExceededError):
        F.a.in_(range(MAX_FILTER_VALUES + 1))
    half = F.a.in_(range(MAX_FILTER_VALUES // 2 + 1))
    with pytest.raises(LimitExceededError):
        half | ~half


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tree: Not(Or((tree, F.b == 2))),
        lambda tree: Not(And((tree, F.b == 2))),
        lambda tree: And((Or((tree, F.b == 2)), F.c == 3)),
        Not,
    ],
)
def test_the_deepest_tree_that_can_be_built_is_text_that_parses(wrap: Callable[[Any], Any]) -> None:
    tree: Any = F.a == 1
    depth = 0
    while True:
        try:
            tree = wrap(tree)
        except LimitExceededError as e:
            limit = e.context["limit"]
            break
        depth += 1
    assert limit == "MAX_FILTER_NESTING" and depth in (
        MAX_FILTER_NESTING // 2,
        MAX_FILTER_NESTING,
        MAX_FILTER_NESTING + 1,
    )
    assert parse(str(tree)) == tree
    json.loads(plan_json(tree) or "")


def test_trees_are_values() -> None:
    tree = (F.a == 1) & ~F.b.in_(["x"])
    assert hash(tree) == hash(parse(str(tree)))
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert copy.deepcopy(tree) == tree
    with pytest.raises(AttributeError):
        tree.items = ()  # type: ignore[misc]
    with pytest.raises(AttributeError, match="=="):
        F.a.b = 1  # type: ignore[assignment]


def test_numbers_are_equal_as_values_but_not_to_booleans() -> None:
    assert Number(42) == Number(42.0)
    assert Number(0) == Number(-0.0) and str(Compare(("a",), "=", Number(-0.0))) == "a = 0.0"
    assert Number(2**53) != Number(2**53 + 1)
    assert (F.a == 1) != (F.a == True)  # noqa: E712
    assert Text("Zoe\u0301") == Text("Zo\u00e9")


def test_every_operator_of_a_field_gives_a_tree() -> None:
    for op in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        assert isinstance(op(F.a, 1), Compare)
    # a constant on the left is turned round by Python
    assert (F.a < 5) == (F.a < 5)


def test_a_field_shows_its_path() -> None:
    assert repr(F["a.odd name"]) == "F['a.`odd name`']"
    assert repr(F) == "F"
    assert isinstance(F.a, Field)
    with pytest.raises(AttributeError):
        F.__array__  # noqa: B018


def test_a_path_is_encoded_as_the_postings_know_it() -> None:
    assert encode_path(parse_path("a.b")) == "a.b"
    assert encode_path(parse_path("`a.b`.c")) == "a\\.b.c"
    assert encode_path(("back\\slash", "")) == "back\\\\slash."
    assert encode_path(("Zoe\u0301",)) == "Zo\u00e9"
    with pytest.raises(FilterSyntaxError):
        parse_path("a.`b")


def test_importing_the_package_does_not_load_the_language() -> None:
    code = (
        "import sys, kektordb; assert not any(m.startswith('kektordb.filters') for m in sys.modules); "
        "kektordb.F; print('kektordb.filters' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
