from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.ranking import near_equal, without_doubles
from kektordb.ranking.dedupe import Shown

LONG = "the quick brown fox jumps over the lazy dog near the old river bank today"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ann lives in Rome.", "ann  lives in ROME"),
        (LONG, LONG.replace("today", "Today!")),
        (LONG + " and sleeps", LONG + " sleeps"),
    ],
)
def test_the_same_words_are_near_equal(a: str, b: str) -> None:
    assert near_equal(a, b)
    assert near_equal(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Task 5", "Task 6"),
        (LONG + " at 5 pm", LONG + " at 6 pm"),
        (LONG, LONG + " not"),
        (LONG + " with v1.2", LONG + " with v1.3"),
        ("Ann loves tea", "Ann hates tea"),
        ("", "x"),
        ("!", "?"),
    ],
)
def test_a_number_a_version_a_negation_or_a_short_difference_keeps_texts_apart(a: str, b: str) -> None:
    assert not near_equal(a, b)
    assert not near_equal(b, a)


def test_the_first_of_its_like_stands_for_the_rest() -> None:
    assert without_doubles(["one thing", "another", "One thing!", "ANOTHER"]) == [Shown(0, (2,)), Shown(1, (3,))]


def test_texts_of_different_speakers_are_no_doubles() -> None:
    assert without_doubles(["Thanks!", "Thanks!"], apart=["Ann", "Bob"]) == [Shown(0), Shown(1)]


words = st.lists(st.sampled_from([*"abcdefghijklmnopqrst", "not", "7"]), min_size=6, max_size=24)


@given(st.lists(words.map(" ".join), max_size=25))
def test_the_index_finds_what_comparing_all_pairs_finds(texts: list[str]) -> None:
    kept: list[int] = []
    for i, text in enumerate(texts):
        if not any(near_equal(texts[j], text) for j in kept):
            kept.append(i)
    assert [shown.index for shown in without_doubles(texts)] == kept


@given(st.lists(words.map(" ".join), max_size=15), words.map(" ".join))
def test_one_more_text_changes_nothing_before_it(texts: list[str], more: str) -> None:
    before, after = without_doubles(texts), without_doubles([*texts, more])
    assert [s.index for s in after][: len(before)] == [s.index for s in before]
