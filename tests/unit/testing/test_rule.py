"""The reference rule, cell by cell."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kektordb.engine.protocol import Row
from kektordb.model.view import Belief, Life, Principal, Scope, Stamps, Trust, View
from kektordb.testing import visible
from kektordb.testing.rule import in_scope, life_at

ROW = Row("a", {}, None, Stamps(), tx_from=100)
CLOSED = replace(ROW, tx_to=200, end_life=Life.SUPERSEDED)


@pytest.mark.parametrize(
    ("as_of", "state"),
    [(99, None), (100, Life.ACTIVE), (199, Life.ACTIVE), (200, Life.SUPERSEDED), (201, Life.SUPERSEDED)],
)
def test_state_changes_exactly_at_the_two_belief_times(as_of: int, state: Life | None) -> None:
    assert life_at(CLOSED, as_of) is state
    assert visible(CLOSED, View(as_of=as_of), 10**6) is (state is Life.ACTIVE)
    assert visible(CLOSED, View(as_of=as_of, life=frozenset({Life.SUPERSEDED})), 10**6) is (state is Life.SUPERSEDED)


def test_without_as_of_the_readers_moment_counts() -> None:
    assert visible(CLOSED, View(), 150)
    assert not visible(CLOSED, View(), 200)


def test_a_replaced_record_is_in_no_view_after_its_end() -> None:
    gone = replace(ROW, tx_to=200, end_life=Life.GONE)
    assert not visible(gone, View(life=frozenset(Life)), 300)
    assert visible(gone, View(as_of=150), 300)


@pytest.mark.parametrize(("valid_at", "seen"), [(9, False), (10, True), (19, True), (20, False)])
def test_valid_window_is_half_open(valid_at: int, seen: bool) -> None:
    row = replace(ROW, stamps=Stamps(valid_from=10, valid_to=20))
    assert visible(row, View(valid_at=valid_at), 500) is seen
    assert visible(row, View(valid_at=valid_at, ever=True), 500)


def test_valid_time_defaults_to_the_readers_moment_even_under_as_of() -> None:
    row = replace(ROW, stamps=Stamps(valid_from=10, valid_to=300))
    assert visible(row, View(as_of=150), 299)
    assert not visible(row, View(as_of=150), 300)


def test_refuted_stale_and_less_trusted_rows_must_be_asked_for() -> None:
    refuted = replace(ROW, stamps=Stamps(belief=Belief.REFUTED))
    stale = replace(ROW, stamps=Stamps(stale=True))
    imported = replace(ROW, stamps=Stamps(trust=Trust.IMPORT))
    assert not visible(refuted, View(), 500)
    assert visible(refuted, View(refuted=True), 500)
    assert not visible(stale, View(), 500)
    assert visible(stale, View(stale=True), 500)
    assert visible(imported, View(min_trust=Trust.IMPORT), 500)
    assert not visible(imported, View(min_trust=Trust.TOOL), 500)


def test_every_scope_against_every_principal() -> None:
    names = (None, "a", "b")
    for row in itertools.product(names, repeat=3):
        assert in_scope(Scope(*row), None)
        for own in itertools.product(names, repeat=3):
            seen = all(r is None or r == o for r, o in zip(row, own, strict=True))
            assert in_scope(Scope(*row), Principal(*own)) is seen
