from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.ranking.windows import Layout

places = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(0, 12))), max_size=25, unique=True
)


def layout(*rows: tuple[str | None, int | None]) -> Layout:
    return Layout([s for s, _ in rows], [n for _, n in rows])


def test_a_neighbour_is_the_next_place_of_the_same_session_whatever_the_order_of_rows() -> None:
    rows = layout(("a", 2), ("b", 1), ("a", 1), ("a", 4))
    assert rows.beside(np.array([1.0, 2.0, 3.0, 4.0]), 1).tolist() == [0, 0, 1, 0]
    assert rows.beside(np.array([1.0, 2.0, 3.0, 4.0]), -1, otherwise=-1).tolist() == [3, -1, -1, -1]


def test_rows_without_a_session_stand_alone() -> None:
    rows = layout((None, 1), (None, 2), ("a", None))
    assert rows.alone.all()
    assert rows.groups == 3
    assert rows.spread(np.array([1.0, 0.0, 0.0]), back=0.9, ahead=0.9).tolist() == [1, 0, 0]
    assert rows.session_best(np.array([1.0, 0.0, 2.0])).tolist() == [1, 0, 2]


def test_a_score_fades_with_each_turn_it_spreads() -> None:
    rows = layout(*[("a", n) for n in range(7)])
    values = np.array([0, 0, 0, 1.0, 0, 0, 0])
    out = rows.spread(values, back=0.5, ahead=0.1)
    assert out.tolist() == pytest.approx([0.001, 0.01, 0.1, 1, 0.5, 0.25, 0.125])


def test_a_missing_neighbour_lends_nothing_and_breaks_no_chain() -> None:
    whole, gap = layout(("a", 0), ("a", 1), ("a", 2)), layout(("a", 0), ("a", 2))
    assert whole.spread(np.array([0, 1.0, 0]), back=0.5, ahead=0).tolist() == [0, 1, 0.5]
    assert gap.spread(np.array([0.0, 0.0]), back=0.5, ahead=0).tolist() == [0, 0]
    assert gap.spread(np.array([1.0, 0.0]), back=0.5, ahead=0).tolist() == [1, 0.25]


def test_the_mean_before_counts_only_turns_that_are_there() -> None:
    rows = layout(("a", 0), ("a", 1), ("a", 3))
    assert rows.mean_before(np.array([2.0, 4.0, 8.0]), turns=2).tolist() == [2, 3, 6]


def test_two_versions_at_one_place_do_not_count_twice() -> None:
    rows = layout(("a", 0), ("a", 0), ("a", 1))
    assert rows.beside(np.array([1.0, 2.0, 0.0]), -1).tolist() == [0, 0, 1]


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="2 sessions for 1 places"):
        Layout(["a", "b"], [1])


@given(places, st.data())
def test_vector_form_agrees_with_plain_loops(rows: list[tuple[str | None, int | None]], data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows))))
    made = layout(*rows)
    where = {(s, n): i for i, (s, n) in enumerate(rows) if s is not None and n is not None}
    together = [
        [j for j, (t, m) in enumerate(rows) if j == i or (s is not None and n is not None and t == s and m is not None)]
        for i, (s, n) in enumerate(rows)
    ]
    assert len(made.session_best(values)) == len(rows)
    for i, (session, seq) in enumerate(rows):
        best = values[i]
        for step in range(-4, 5):
            j = where.get((session, seq + step)) if session is not None and seq is not None and step else None
            if j is not None:
                best = max(best, (0.8**-step if step < 0 else 0.5**step) * values[j])
        assert made.spread(values, back=0.8, ahead=0.5)[i] == pytest.approx(best)
        mine = sorted((values[j] for j in together[i]), reverse=True)
        assert made.session_best(values)[i] == pytest.approx(mine[0])
        assert made.session_sum(values)[i] == pytest.approx(sum(mine))
        assert made.session_top_mean(values, top=3)[i] == pytest.approx(sum(mine[:3]) / len(mine[:3]))
        assert made.session_best(np.array([values, values]))[1][i] == pytest.approx(mine[0])
