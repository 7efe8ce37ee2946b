"""The comparison of two stores finds each kind of fault, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kektordb.engine.protocol import Page, Row
from kektordb.model.clock import SystemClock
from kektordb.model.view import Life, Trust, View
from kektordb.testing import NaiveStore
from kektordb.testing.agreement import run
from kektordb.testing.naive import NaiveReader


def test_the_slow_store_agrees_with_itself(seed: int) -> None:
    for offset in range(5):
        run(NaiveStore(clock=SystemClock()), seed=seed + offset)


class Faulty(NaiveStore):
    """Reads another view than the one it was asked for."""

    def __init__(self, fault: Callable[[View], View]) -> None:
        super().__init__(clock=SystemClock())
        self._fault = fault

    def reader(self, collection: str, view: View) -> NaiveReader:
        return super().reader(collection, self._fault(view))


FAULTS: dict[str, Callable[[View], View]] = {
    "scope": lambda view: replace(view, principal=None),
    "as_of": lambda view: replace(view, as_of=None),
    "valid_at": lambda view: replace(view, valid_at=None),
    "ever": lambda view: replace(view, ever=True),
    "life": lambda view: replace(view, life=frozenset(Life)),
    "refuted": lambda view: replace(view, refuted=True),
    "stale": lambda view: replace(view, stale=True),
    "trust": lambda view: replace(view, min_trust=Trust.OUTSIDE),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_store_that_overlooks_a_part_of_the_view_is_found(fault: Callable[[View], View]) -> None:
    with pytest.raises(AssertionError, match="seed 1"):
        run(Faulty(fault), seed=1)


class ShortPages(NaiveReader):
    def scan(self, *, filter: object = None, limit: int = 100, after: str | None = None) -> Page:
        page = super().scan(filter=filter, limit=limit, after=after)
        return Page(page.rows, None)


class LeakyGet(NaiveReader):
    def get(self, ids: Sequence[str], *, include: Sequence[str] = ("payload",)) -> list[Row | None]:
        self._rows = {**self._all, **self._rows}
        return super().get(ids, include=include)


@pytest.mark.parametrize("kind", [ShortPages, LeakyGet])
def test_a_single_read_that_answers_otherwise_is_found(kind: type[NaiveReader]) -> None:
    class Store(NaiveStore):
        def reader(self, collection: str, view: View) -> NaiveReader:
            made = kind(self._collection(collection), view, self.now())
            made._all = {row.id: row for row in self._collection(collection).rows}  # type: ignore[attr-defined]
            return made

    with pytest.raises(AssertionError, match="seed 1"):
        run(Store(clock=SystemClock()), seed=1)
