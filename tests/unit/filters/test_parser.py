from __future__ import annotations

import time

import pytest

from kektordb.errors import FilterSyntaxError, InvalidArgumentError, LimitExceededError
from kektordb.filters import (
    And,
    Between,
    Bool,
    Compare,
    Contains,
    Exists,
    In,
    IsNull,
    Like,
    Moment,
    Not,
    Number,
    Or,
    StartsWith,
    Text,
    parse,
    render,
)
from kektordb.filters.limits import (
    MAX_FILTER_CHARS,
    MAX_FILTER_NESTING,
    MAX_FILTER_NODES,
    MAX_FILTER_VALUES,
    MAX_PATH_BYTES,
    MAX_PATH_SEGMENTS,
)

A = Compare(("a",), "=", Number(1))
B = Compare(("b",), "=", Number(2))
C = Compare(("c",), "=", Number(3))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1", A),
        ("  a=1\n", A),
        ("a = 1 and b = 2 AND c = 3", And((A, B, C))),
        ("a = 1 OR b = 2 and c = 3", Or((A, And((B, C))))),
        ("(a = 1 oR b = 2) AND c = 3", And((Or((A, B)), C))),
        ("a = 1 AND (b = 2 AND c = 3)", And((A, B, C))),
        ("not a = 1 AND b = 2", And((Not(A), B))),
        ("NOT NOT (a = 1)", Not(Not(A))),
        ("a IN (1, 'x', TRUE,)", In(("a",), (Number(1), Text("x"), Bool(True)))),
        ("a not in []", In(("a",), (), negated=True)),
        ("a BETWEEN 1 AND 5 AND b = 2", And((Between(("a",), Number(1), Number(5)), B))),
        ("a NOT LIKE 'x%'", Like(("a",), "x%", negated=True)),
        ("a starts with 'x'", StartsWith(("a",), "x")),
        ("a CONTAINS 2.5", Contains(("a",), Number(2.5))),
        ("EXISTS a", Exists(("a",))),
        ("exists (a.b)", Exists(("a", "b"))),
        ("a IS NULL", IsNull(("a",))),
        ("a is not null", IsNull(("a",), negated=True)),
        ("a = DATE '1970-01-02'", Compare(("a",), "=", Moment(86_400_000_000))),
        ("a = timestamp '1970-01-01T02:00:00+02:00'", Compare(("a",), "=", Moment(0))),
        ("a = TIMESTAMP '1970-01-01'", Compare(("a",), "=", Moment(0))),
        # words that are keywords only where they can be
        ("date >= DATE '1970-01-01'", Compare(("date",), ">=", Moment(0))),
        ("starts = 1 AND with = 1", And((Compare(("starts",), "=", Number(1)), Compare(("with",), "=", Number(1))))),
        ("meta.and = 1", Compare(("meta", "and"), "=", Number(1))),
        ("`and` = 1", Compare(("and",), "=", Number(1))),
        # names
        ("a.b.c = 1", Compare(("a", "b", "c"), "=", Number(1))),
        ("`a.b`.c = 1", Compare(("a.b", "c"), "=", Number(1))),
        ("a\\.b.c = 1", Compare(("a.b", "c"), "=", Number(1))),
        ("`it``s` = 1", Compare(("it`s",), "=", Number(1))),
        ("`` = 1", Compare(("",), "=", Number(1))),
        ("content-type='x'", Compare(("content-type",), "=", Text("x"))),
        ("$id>-5", Compare(("$id",), ">", Number(-5))),
        ("città = 1", Compare(("città",), "=", Number(1))),
        ("Zoe\u0301 = 1", Compare(("Zo\u00e9",), "=", Number(1))),
        ("हिन्दी = 1", Compare(("हिन्दी",), "=", Number(1))),
        # strings
        ("a = 'it''s'", Compare(("a",), "=", Text("it's"))),
        ("a = 'it\\'s'", Compare(("a",), "=", Text("it's"))),
        ('a = "say ""x"""', Compare(("a",), "=", Text('say "x"'))),
        ("a = 'x AND y OR (z'", Compare(("a",), "=", Text("x AND y OR (z"))),
        ("a = '\\\\ \\n\\t \\u00e9 \\ud83c\\udf89'", Compare(("a",), "=", Text("\\ \n\t \u00e9 \U0001f389"))),
        ("a = 'Zoe\u0301'", Compare(("a",), "=", Text("Zo\u00e9"))),
        ("a LIKE '100\\%'", Like(("a",), "100\\%")),
        ("a LIKE '100\\\\%'", Like(("a",), "100\\%")),
        # numbers
        ("a = -0.0", Compare(("a",), "=", Number(0))),
        ("a = 42.0", Compare(("a",), "=", Number(42))),
        ("a = +1e3", Compare(("a",), "=", Number(1000))),
        ("a = .5", Compare(("a",), "=", Number(0.5))),
        ("a = 9007199254740993", Compare(("a",), "=", Number(2**53 + 1))),
        ("a = 18446744073709551616", Compare(("a",), "=", Number(2.0**64))),
    ],
)
def test_a_text_becomes_its_tree(text: str, tree: object) -> None:
    assert parse(text) == tree
    assert parse(render(parse(text))) == tree


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", 0, "None for no filter"),
        ("year >= 2020 AND", 16, "trailing AND"),
        ("a = 1 OR", 8, "trailing OR"),
        ("AND a = 1", 0, "AND stands between two conditions"),
        ("a == 1", 2, "write = for equality"),
        ("a <> 1", 2, "write !="),
        ("a = 1 && b = 2", 6, "write AND"),
        ("a = 1 || b = 2", 6, "write OR"),
        ("!a = 1", 0, "write NOT"),
        ("a = \u2018x\u2019", 4, "straight quote"),
        ("a = \u201cx\u201d", 4, "straight quote"),
        ("a = NULL", 4, "IS NULL"),
        ("a != null", 5, "IS NOT NULL"),
        ("a IN (1, NULL)", 9, "IS NULL OR"),
        ("a IS 5", 5, "compared with ="),
        ("lang = en", 7, "'en'"),
        ("lang IN (en, it)", 9, "'en'"),
        ("at >= 2024-01-31", 6, "DATE '2024-01-31'"),
        ("at >= 2024-01-31T10:00Z", 6, "TIMESTAMP '2024-01-31T10:00Z'"),
        ("at = DATE '2024-02-30'", 10, "2024-01-31"),
        ("at = DATE '2024-01-31T10:00'", 10, "TIMESTAMP"),
        ("at = TIMESTAMP 'noon'", 15, "2024-01-31T10:00:00"),
        ("at = TIMESTAMP '0001-01-01T00:00+05:00'", 15, "years 1 to 9999"),
        ("at = date", 9, "'date'"),
        ("a = 1 b = 2", 6, "joined by AND or OR"),
        ("(a = 1", 0, "')'"),
        ("a = 1)", 5, "too many"),
        ("a IN (1, 2", 5, "')'"),
        ("a IN 1", 5, "IN ('a', 'b')"),
        ("a = 'x", 4, "not closed"),
        ("a = 'it's'", 8, "joined by AND"),
        ("a = '\\q'", 5, "\\\\"),
        ("a = '\\u12'", 5, "four hexadecimal"),
        ("a = '\\ud83d'", 4, "half of a character"),
        ("a = '\ud83d'", 4, "half of a character"),
        ("`a = 1", 0, "backquote"),
        ("a. = 1", 2, "after '.'"),
        ("a.0 = 1", 2, "backquotes"),
        ("a..b = 1", 2, "after '.'"),
        ("tags[0] = 1", 4, "every element"),
        ("2fast = 1", 0, "backquotes"),
        ("zip = 01234", 6, "'01234'"),
        ("a = 1e999", 4, "too large"),
        ("a = " + "9" * 400, 4, "too large"),
        ("a = " + "9" * 5_000, 4, "5,000 characters"),
        ("a = NaN", 4, "finite"),
        ("a > TRUE", 4, "no order"),
        ("a BETWEEN 1 AND 'x'", 10, "two numbers"),
        ("a BETWEEN TRUE AND FALSE", 10, "two numbers"),
        ("a BETWEEN 1 OR 2", 12, "BETWEEN 1 AND 5"),
        ("a CONTAINS DATE '2024-01-31'", 11, "dates"),
        ("a LIKE 5", 7, "string"),
        ("a STARTSWITH 'x'", 2, "two words"),
        ("a EXISTS", 2, "EXISTS a"),
        ("a", 1, "a = TRUE"),
        ("a NOT = 5", 6, "NOT a"),
        ("'a' = 1", 0, "without quotes"),
        ("5 < a", 0, "stands first"),
        ("in = 5", 0, "`in`"),
        ("a = 1;", 5, "semicolon"),
        ("a ? 1", 2, "no meaning"),
        ("a = b.c", 4, "'b.c'"),
    ],
)
def test_a_mistake_is_shown_at_its_place_with_advice(text: str, place: int, says: str) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse(text)
    error = raised.value
    assert (error.position, error.code) == (place, "filter_syntax")
    assert says in str(error)
    assert error.context["position"] == place


def test_the_caret_stands_under_the_place_whatever_stands_before() -> None:
    for before, columns in [
        ("year >= 2020 AND ", 17),
        ("name = '\u5916\u5e01' AND ", 18),
        ("name = 'Zoe\u0301' AND ", 17),
        ("name = 'a'\n\tAND ", 16),
    ]:
        with pytest.raises(FilterSyntaxError) as raised:
            parse(before + "== 1")
        _, shown, caret, *_ = raised.value.message.split("\n")
        assert caret == " " * (4 + columns) + "^"
        assert "\t" not in shown


def test_a_long_text_is_shown_around_the_place_only() -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse("a = 1 AND " * 500 + "b == 2" + " AND a = 1" * 400)
    _, shown, caret, _ = raised.value.message.split("\n")
    assert len(shown) < 120 and shown[caret.index("^")] == "=" and shown.strip().startswith("…")
    assert raised.value.position == 5002


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("(" * 1_000_000, "MAX_FILTER_NESTING"),
        ("NOT " * 200_000 + "a = 1", "MAX_FILTER_NESTING"),
        ("(" * (MAX_FILTER_NESTING + 1) + "a = 1" + ")" * (MAX_FILTER_NESTING + 1), "MAX_FILTER_NESTING"),
        ("a = 1 OR " * MAX_FILTER_NODES + "a = 1", "MAX_FILTER_NODES"),
        ("a = 1 AND " * 100_000 + "a = 1", "MAX_FILTER_NODES"),
        ("a IN (" + "1," * MAX_FILTER_VALUES + "1)", "MAX_FILTER_VALUES"),
        ("a = '" + "x" * 10_000_000 + "'", "MAX_FILTER_CHARS"),
        ("(" * 10_000_000, "MAX_FILTER_CHARS"),
        (".".join("a" * (MAX_PATH_SEGMENTS + 1)) + " = 1", "MAX_PATH_SEGMENTS"),
        ("a" * (MAX_PATH_BYTES + 1) + " = 1", "MAX_PATH_BYTES"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("MAX") else "",
)
def test_too_much_is_refused_at_once_by_the_named_limit(text: str, limit: str) -> None:
    began = time.perf_counter()
    with pytest.raises(LimitExceededError) as raised:
        parse(text)
    assert time.perf_counter() - began < 1.0
    assert raised.value.context["limit"] == limit
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_FILTER_NESTING + "a = 1" + ")" * MAX_FILTER_NESTING,
        "NOT " * MAX_FILTER_NESTING + "a = 1",
        " OR ".join(["a = 1"] * (MAX_FILTER_NODES - 1)),
        "a IN (" + ",".join(["1"] * MAX_FILTER_VALUES) + ")",
        "a = '" + "x" * (MAX_FILTER_CHARS - 6) + "'",
        ".".join("a" * MAX_PATH_SEGMENTS) + " = 1",
        "a" * MAX_PATH_BYTES + " = 1",
    ],
    ids=["parentheses", "NOTs", "conditions", "values", "characters", "segments", "bytes"],
)
def test_what_reaches_a_limit_exactly_is_allowed(text: str) -> None:
    assert parse(render(parse(text))) == parse(text)


def test_time_grows_with_the_length_of_the_text_only() -> None:
    def best(text: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            parse(text)
            times.append(time.perf_counter() - began)
        return min(times)

    for text in ("a = '{}'", "a IN ({}1)", "a = 1{}", "`{}` = 1", '{}a = ""'):
        unit = {"a IN ({}1)": "1,", "a = 1{}": " ", '{}a = ""': "\n", "`{}` = 1": "x", "a = '{}'": "''"}[text]
        short, long = text.format(unit * 400), text.format(unit * 4_000)
        assert best(long) < 60 * best(short)


@pytest.mark.parametrize("value", [5, b"a = 1", None, ["a = 1"]])
def test_what_is_no_text_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=type(value).__name__):
        parse(value)  # type: ignore[arg-type]
