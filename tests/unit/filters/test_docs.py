"""Every example of the guide runs, its truth table is what filters do, and its grammar and limits are the real ones."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from kektordb.filters import F, evaluate, limits, parse, parse_filter
from kektordb.filters.paths import RESERVED

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")
PYTHON = {"F": F, "date": date, "datetime": datetime, "UTC": UTC}


def table(heading: str) -> list[list[str]]:
    """Cells of the table that starts with this heading."""
    lines = GUIDE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    return rows


@pytest.mark.parametrize("row", table("filter"), ids=lambda row: row[0])
def test_each_filter_of_the_guide_is_its_twin_in_python(row: list[str]) -> None:
    assert parse(row[0]) == eval(row[1], PYTHON)


@pytest.mark.parametrize("row", table("payload"), ids=lambda row: row[0])
def test_the_truth_table_of_the_guide_is_true(row: list[str]) -> None:
    head = next(line for line in GUIDE.splitlines() if line.startswith("| payload |"))
    conditions = [cell.strip().strip("`") for cell in head.strip("|").split(" | ")[1:]]
    payload, *wanted = row
    got = ["yes" if evaluate(parse(c), json.loads(payload)) else "no" for c in conditions]
    assert dict(zip(conditions, got, strict=True)) == dict(zip(conditions, wanted, strict=True))


def test_the_limits_of_the_guide_are_the_real_ones() -> None:
    told = {name: int(re.match(r"[\d,]+", text).group().replace(",", "")) for name, text in table("limit")}  # type: ignore[union-attr]
    assert told == {name: getattr(limits, name) for name in dir(limits) if name.startswith("MAX_")}


def test_the_guide_ends_with_the_grammar_of_the_package() -> None:
    grammar = (files("kektordb.filters") / "grammar.md").read_text(encoding="utf-8")
    assert GUIDE.endswith(f"## Grammar\n\n{grammar}")


def test_the_guide_names_every_reserved_word() -> None:
    line = next(line for line in GUIDE.splitlines() if line.startswith("Reserved are "))
    assert set(re.findall(r"\b[A-Z]{2,}\b", line)) == RESERVED


def test_the_example_of_an_error_is_what_is_raised() -> None:
    shown = re.search(r"```text\n(.*?)```", GUIDE, re.DOTALL)
    assert shown is not None
    with pytest.raises(ValueError) as raised:
        parse(shown.group(1).splitlines()[1].strip())
    assert str(raised.value) == shown.group(1).rstrip("\n")


def test_the_python_examples_of_the_guide_build_the_same_filter() -> None:
    block = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert block is not None
    given: list[object] = []

    class Docs:
        def search(self, vector: object, *, k: int, filter: object) -> None:
            given.append(parse_filter(filter))

    exec(block.group(1), {"docs": Docs(), "vector": None})
    assert len(given) == 2 and given[0] == given[1]


@pytest.mark.parametrize(
    "text", [t for t in re.findall(r"`([^`\n]+)`", GUIDE) if re.search(r" (?:=|LIKE|>=|<) ?['\dD]", t)]
)
def test_every_filter_in_the_prose_parses(text: str) -> None:
    if not text.startswith(("F", "~")):
        parse(text)
