"""Random bitemporal histories against a table of years, and the past that never changes.

The model knows nothing of rows and stamps: a lineage is a list with one cell per year that names the version true in it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kektordb.errors import InvalidArgumentError, TransitionError
from kektordb.memory import MemoryStore
from kektordb.model.view import Principal
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

YEARS = range(2000, 2011)
LAST = YEARS[-1]
"""Stands for itself and all later years, now among them."""


@dataclass
class Line:
    """A lineage as a person would draw it."""

    cells: dict[int, int | None] = field(default_factory=lambda: dict.fromkeys(YEARS))
    starts: dict[int, int] = field(default_factory=dict)
    """Active versions and the year each begins in."""
    texts: dict[int, str] = field(default_factory=dict)
    retracted: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """Version -> its start and years, when it was retracted."""

    def current(self) -> int | None:
        if self.cells[LAST] is not None:
            return self.cells[LAST]
        return max(self.starts, key=lambda version: self.starts[version], default=None)

    def years_of(self, version: int) -> list[int]:
        return [year for year in YEARS if self.cells[year] == version]

    def fill(self, version: int, start: int, years: list[int], text: str) -> None:
        self.starts[version] = start
        self.texts[version] = text
        for year in years:
            self.cells[year] = version

    def drop(self, version: int) -> tuple[int, list[int]]:
        years = self.years_of(version)
        for year in years:
            self.cells[year] = None
        return self.starts.pop(version), years

    def until_next(self, start: int) -> list[int]:
        end = min((s for s in self.starts.values() if s > start), default=LAST + 1)
        return [year for year in YEARS if start <= year < end]


def names(mem: MemoryStore, year: int, as_of: int | None = None) -> list[str]:
    return sorted(m.text for m in mem.view(valid_at=f"{year}-07", as_of=as_of).scan(limit=1_000).memories)


def wanted(lines: dict[str, Line], year: int) -> list[str]:
    return sorted(line.texts[version] for line in lines.values() if (version := line.cells[year]) is not None)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_every_year_is_as_the_model_says_and_the_past_never_changes(seed: int) -> None:
    rng = random.Random(seed)
    clock = FakeClock("2026-01-01T00:00:00")
    mem = MemoryStore(
        NaiveStore(clock=clock), "t", embedder=FakeEmbedder(), principal=Principal(user="ann"), clock=clock
    )
    lines: dict[str, Line] = {}
    snapshots: dict[int, dict[int, list[str]]] = {}
    for step in range(25):
        one_step(rng, mem, lines, f"text {step}")
        clock.advance(minutes=rng.choice([0, 0, 1, 60]))
        now = {year: names(mem, year) for year in YEARS}
        assert now == {year: wanted(lines, year) for year in YEARS}
        snapshots[mem._shelf.store.now()] = now
    for moment, seen in snapshots.items():
        assert {year: names(mem, year, as_of=moment) for year in YEARS} == seen
    for lineage in lines:
        found = mem.history(lineage)
        assert [m.version for m in found] == list(range(1, len(found) + 1))
    assert mem.count() == len(wanted(lines, LAST))


def one_step(rng: random.Random, mem: MemoryStore, lines: dict[str, Line], text: str) -> None:
    kind = rng.choice(["save", "evolve", "evolve from", "evolve from", "end", "retract", "restore"])
    if kind == "save" or not lines:
        start, end = sorted(rng.sample([*YEARS, LAST + 1], 2))
        ends = end <= LAST
        memory = mem.save(text, valid_from=str(start), valid_to=str(end) if ends else None)
        line = lines[memory.lineage] = Line()
        line.fill(1, start, [y for y in YEARS if start <= y and (not ends or y < end)], text)
        return
    lineage, line = rng.choice(sorted(lines.items()))
    current = line.current()
    year = rng.choice(YEARS)
    version = len(mem.history(lineage)) + 1
    try:
        if kind == "evolve":
            mem.evolve(lineage, text)
            assert current is not None
            line.fill(version, *line.drop(current), text)
        elif kind == "evolve from":
            mem.evolve(lineage, text, valid_from=str(year))
            same = [v for v, s in line.starts.items() if s == year]
            if same:
                _, years = line.drop(same[0])
            else:
                years = line.until_next(year)
            line.fill(version, year, years, text)
        elif kind == "end":
            mem.end_validity(lineage, at=str(year))
            assert current is not None
            end_at(line, current, year)
        elif kind == "retract":
            mem.retract(lineage)
            assert current is not None
            line.retracted[current] = line.drop(current)
        else:
            restore(rng, mem, lineage, line, version)
    except TransitionError:
        assert current is None
    except InvalidArgumentError:
        assert kind == "end"
        assert current is not None
        assert year <= line.starts[current]


def end_at(line: Line, version: int, year: int) -> None:
    """An end may also move later, up to where nothing else is said."""
    start = line.starts[version]
    for one in YEARS:
        if one >= year and line.cells[one] == version:
            line.cells[one] = None
        elif start <= one < year and line.cells[one] is None:
            line.cells[one] = version


def restore(rng: random.Random, mem: MemoryStore, lineage: str, line: Line, version: int) -> None:
    if not line.retracted:
        return
    old = rng.choice(sorted(line.retracted))
    mem.restore(f"{lineage}.{old}")
    start, years = line.retracted[old]
    for other in {line.cells[y] for y in years} - {None}:
        line.drop(other)  # type: ignore[arg-type]
    line.fill(version, start, years, line.texts[old])
