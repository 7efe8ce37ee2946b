"""What conditions mean, on the oracle and on plans alike."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kektordb.filters import F, evaluate, parse, plan, plan_json
from kektordb.filters.like import canonical, matches, parts_of
from kektordb.filters.moments import moment_text, parse_moment


def found(filter: str, *payloads: Any) -> list[int]:
    tree = parse(filter)
    return [n for n, payload in enumerate(payloads) if evaluate(tree, payload)]


def test_in_and_not_in_part_the_rows_that_have_a_value() -> None:
    rows = ({"feeling": "good"}, {"feeling": "bad"}, {"feeling": None}, {})
    assert found("feeling IN ('good')", *rows) == [0]
    assert found("feeling NOT IN ('good')", *rows) == [1]
    assert found("feeling IN []", *rows) == []
    assert found("feeling NOT IN []", *rows) == [0, 1]


def test_a_value_of_another_type_is_unequal() -> None:
    rows = ({"chunk": "yes"}, {"chunk": "no"}, {"chunk": 0}, {})
    assert found("chunk != 'no'", *rows) == [0, 2]
    assert found("NOT chunk = 'no'", *rows) == [0, 2, 3]
    assert found("chunk > 'a'", *rows) == [0, 1]
    assert found("chunk < 5", *rows) == [2]


def test_numbers_lie_on_one_line() -> None:
    rows = ({"n": 42}, {"n": 42.0}, {"n": 2**53}, {"n": 2**53 + 1}, {"n": 0}, {"n": -0.0}, {"n": True}, {"n": "42"})
    assert found("n = 42", *rows) == found("n = 42.0", *rows) == [0, 1]
    assert found("n = 9007199254740993", *rows) == [3]
    assert found("n = 9007199254740992", *rows) == [2]
    assert found("n > 9007199254740992", *rows) == [3]
    assert found("n = 0", *rows) == found("n = -0.0", *rows) == [4, 5]
    assert found("n = 1", *rows) == []
    assert found("n = TRUE", *rows) == [6]
    assert found("n = '42'", *rows) == [7]


def test_a_month_is_its_first_instant_to_that_of_the_next() -> None:
    rows = (
        {"created_at": "2024-01-15T09:30:00Z"},
        {"created_at": "2024-02-01T00:00:00Z"},
        {"created_at": "2024-01-01"},
    )
    january = "created_at >= DATE '2024-01-01' AND created_at < DATE '2024-02-01'"
    assert found(january, *rows) == [0, 2]
    assert found("created_at >= TIMESTAMP '2024-02-01T01:00:00+01:00'", *rows) == [1]
    # 23:30 in New York is the next day in UTC
    assert found(january, {"created_at": "2024-01-31T23:30:00-05:00"}, {"created_at": "2024-01-31T23:30:00"}) == [1]


def test_dates_that_look_different_are_one_moment() -> None:
    rows = tuple(
        {"at": t}
        for t in (
            "2024-01-31T08:00:00Z",
            "2024-01-31T10:00+02:00",
            "2024-01-31 08:00",
            "2024-01-31t03:00:00,000-0500",
            "2024-01-31",
            "no date",
            1706688000000000,
        )
    )
    assert found("at = TIMESTAMP '2024-01-31T08:00:00Z'", *rows) == [0, 1, 2, 3]
    assert found("at != TIMESTAMP '2024-01-31T08:00:00Z'", *rows) == [4, 5, 6]
    # a plain string is compared as a string
    assert found("at = '2024-01-31T08:00:00Z'", *rows) == [0]


def test_strings_and_names_are_one_in_either_form() -> None:
    composed, decomposed = "Zo\u00e9", "Zoe\u0301"
    rows = ({composed: decomposed}, {decomposed: composed}, {composed: "Zoe"})
    for name in (composed, decomposed):
        for value in (composed, decomposed):
            assert found(f"`{name}` = '{value}'", *rows) == [0, 1]
            assert found(f"`{name}` LIKE '{value}'", *rows) == [0, 1]
            assert found(f"`{name}` LIKE 'Zo_'", *rows) == [0, 1, 2]
            assert found(f"`{name}` STARTS WITH '{value}'", *rows) == [0, 1]
            assert found(f"`{name}` CONTAINS '{value[1:]}'", *rows) == [0, 1]
    assert found("lingua = 'perch\u00e9'", {"lingua": "perche\u0301"}) == [0]


def test_negation_excludes_whole_partitions() -> None:
    rows = tuple({"partition": f"p{n % 3 + 1}"} for n in range(9))
    assert found("partition != 'p1'", *rows) == [1, 2, 4, 5, 7, 8]
    assert found("NOT (partition = 'p1' OR partition = 'p2')", *rows) == [2, 5, 8]
    assert found("NOT NOT partition = 'p1'", *rows) == found("partition = 'p1'", *rows) == [0, 3, 6]


def test_lists_are_looked_at_element_by_element() -> None:
    rows = (
        {"tags": ["a", "b"]},
        {"tags": [["a"], 1]},
        {"tags": "a"},
        {"tags": []},
        {"items": [{"price": 3}, {"price": [9]}]},
    )
    assert found("tags = 'a'", *rows) == [0, 1, 2]
    assert found("tags != 'a'", *rows) == []
    assert found("tags IS NULL", *rows) == [3, 4]
    assert found("EXISTS tags", *rows) == [0, 1, 2, 3]
    assert found("items.price = 3 AND items.price = 9", *rows) == [4]
    assert found("items.price > 3 AND items.price < 9", *rows) == [4]
    assert found("items.price BETWEEN 4 AND 8", *rows) == []


def test_contains_is_an_element_of_a_list_or_a_part_of_a_string() -> None:
    rows = ({"t": ["red", "blue"]}, {"t": "dark red"}, {"t": ["dark red"]}, {"t": [1]}, {"t": 1}, {"t": ""})
    assert found("t CONTAINS 'red'", *rows) == [0, 1]
    assert found("t CONTAINS 1", *rows) == [3]
    assert found("t CONTAINS ''", *rows) == [1, 5]
    assert found("t NOT CONTAINS 'red'", *rows) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a%", ["a", "ab", "a\nb"], ["", "ba", "A"]),
        ("%b%", ["b", "abc"], ["ac"]),
        ("a_c", ["abc", "a\U0001f389c"], ["ac", "abbc"]),
        ("100\\%", ["100%"], ["100", "1000"]),
        ("a\\_b", ["a_b"], ["axb"]),
        ("\\\\%", ["\\", "\\x"], ["x"]),
        ("a\\", ["a\\"], ["a"]),
        ("", [""], ["a"]),
        ("%%", ["", "a"], []),
        ("%a%b", ["ab", "xaxab"], ["aba"]),
        (".*[x]", [".*[x]"], ["x"]),
        ("e\\\u0301%", ["\u00e9", "\u00e9x"], ["e", "ex"]),
    ],
)
def test_patterns_match_whole_strings(pattern: str, yes: list[str], no: list[str]) -> None:
    tree = F.s.like(pattern)
    for text in (*yes, *no):
        assert evaluate(tree, {"s": text}) is (text in yes), (pattern, text)
        assert matches(parts_of(pattern), text) is (text in yes)
    assert canonical(canonical(pattern)) == canonical(pattern)


def test_a_pattern_with_many_runs_is_matched_in_good_time() -> None:
    assert not matches(parts_of("%a" * 200 + "%b"), "a" * 5_000)


def test_a_nested_null_is_no_value() -> None:
    rows = ({"a": {"b": None}}, {"a": {"b": 1}}, {"a": None}, {"a": 1}, {})
    assert found("a.b IS NULL", *rows) == [0, 2, 3, 4]
    assert found("EXISTS a.b", *rows) == [0, 1]
    assert found("a IS NOT NULL", *rows) == [0, 1, 3]


def test_a_row_without_payload_has_no_field() -> None:
    assert evaluate(parse("a IS NULL"), None) and not evaluate(parse("a = 1"), None)


# -- plans


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a = 1", ["eq", "a", "any", 1]),
        ("a != 'x'", ["and", ["nonnull", "a"], ["not", ["eq", "a", "any", "x"]]]),
        ("a >= 1", ["number", "a", 1, True, None, False]),
        ("a < 'x'", ["string", "a", None, False, "x", False]),
        ("a <= DATE '1970-01-02'", ["time", "a", None, False, 86_400_000_000, True]),
        ("a = DATE '1970-01-02'", ["time", "a", 86_400_000_000, True, 86_400_000_000, True]),
        ("a BETWEEN 2 AND 1", ["none"]),
        ("a NOT BETWEEN 2 AND 1", ["nonnull", "a"]),
        ("a IN (1, 1.0, 'x')", ["or", ["eq", "a", "any", 1], ["eq", "a", "any", "x"]]),
        ("a IN ()", ["none"]),
        ("a NOT IN ()", ["nonnull", "a"]),
        ("a LIKE 'x%'", ["prefix", "a", "x"]),
        ("a LIKE '50\\%%'", ["prefix", "a", "50%"]),
        ("a LIKE '%'", ["prefix", "a", ""]),
        ("a LIKE 'x\\_y'", ["eq", "a", "any", "x_y"]),
        ("a LIKE ''", ["eq", "a", "any", ""]),
        ("a LIKE '%x'", ["like", "a", "%x"]),
        ("a CONTAINS 1", ["eq", "a", "element", 1]),
        ("a CONTAINS 'x'", ["or", ["eq", "a", "element", "x"], ["substring", "a", "x"]]),
        ("a IS NULL", ["not", ["nonnull", "a"]]),
        ("NOT a IS NULL", ["nonnull", "a"]),
        ("NOT NOT EXISTS a", ["exists", "a"]),
        ("`a.b`.`c\\d` = 1", ["eq", "a\\.b.c\\\\d", "any", 1]),
        # the cheap parts come first, the negated last
        (
            "NOT a = 1 AND b LIKE '%x' AND c > 1 AND d = 1",
            [
                "and",
                ["eq", "d", "any", 1],
                ["number", "c", 1, False, None, False],
                ["like", "b", "%x"],
                ["not", ["eq", "a", "any", 1]],
            ],
        ),
    ],
)
def test_a_tree_becomes_these_steps(text: str, steps: list[Any]) -> None:
    assert json.loads(plan_json(parse(text)) or "") == steps


def test_no_filter_has_no_plan() -> None:
    assert plan_json(None) is None


def test_an_and_stops_at_the_first_empty_set() -> None:
    from kektordb.filters import run

    asked: list[str] = []

    class Postings:
        def eq(self, path: str, value: object, role: str = "any") -> frozenset[int]:
            asked.append(path)
            return frozenset({"none": ()}.get(path, (1, 2)))

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked")

    assert run(plan(parse("none = 1 AND a = 1 AND NOT b = 1 AND c LIKE '%x'")), Postings()) == frozenset()  # type: ignore[type-var]
    assert asked == ["none"]


# -- moments


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31",
        "0001-01-01",
        "9999-12-31T23:59:59.999999Z",
        "1969-12-31T23:59:59.999999+00:00",
        "2024-02-29T12:00:00-05:30",
        "2024-02-29 12:00",
    ],
)
def test_moments_read_as_the_standard_library_reads_them(text: str) -> None:
    at = datetime.fromisoformat(text)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    micros = parse_moment(text)
    assert micros is not None
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == at
    assert parse_moment(moment_text(micros)) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024",
        "2024-01",
        "2024-1-1",
        "2023-02-29",
        "2024-13-01",
        "0000-01-01",
        "20240131",
        "2024-W05-3",
        "2024-01-31T",
        "2024-01-31T10",
        "2024-01-31T24:00",
        "2024-01-31T10:60",
        "2024-01-31T10:00:60",
        "2024-01-31T10:00:00.",
        "2024-01-31T10:00+24:00",
        "2024-01-31Z",
        " 2024-01-31",
        "2024-01-31\n",
        "2024-01-31T10:00:00." + "0" * 30 + "Z",
        "\u0662\u0660\u0662\u0664-01-31",
    ],
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert parse_moment(text) is None
