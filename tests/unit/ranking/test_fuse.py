from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.ranking import balance, explain, fuse, hybrid, scaled, total

scores = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=30)


def test_the_best_score_becomes_one_and_the_order_stays() -> None:
    out = scaled([0.1, 0.9, 0.5], floor_percentile=0)
    assert out.tolist() == pytest.approx([0.0, 1.0, 0.5])


def test_a_flat_arm_says_nothing() -> None:
    assert scaled([0.4, 0.4, 0.4]).tolist() == [0.0, 0.0, 0.0]


def test_small_differences_are_not_stretched_to_the_whole_scale() -> None:
    assert scaled([0.80, 0.81], floor_percentile=0, least_span=0.2).tolist() == pytest.approx([0.0, 0.05])
    assert scaled([0.30, 0.80], floor_percentile=0, least_span=0.2).tolist() == pytest.approx([0.0, 1.0])


def test_an_empty_arm_stays_empty() -> None:
    assert scaled([]).shape == (0,)
    assert hybrid([], []).shape == (0,)


def test_what_an_arm_did_not_find_ranks_with_its_worst() -> None:
    out = scaled([0.2, math.nan, 0.8], floor_percentile=0)
    assert out[1] == out[0] == 0.0


def test_an_arm_of_nan_alone_says_nothing() -> None:
    assert scaled([math.nan, math.nan]).tolist() == [0.0, 0.0]


def test_a_silent_arm_passes_its_weight_to_the_other() -> None:
    assert balance(0.3, vector_found=True, text_found=True) == pytest.approx((0.6, 1.4))
    assert balance(0.3, vector_found=True, text_found=False) == (2.0, 0.0)
    assert balance(0.3, vector_found=False, text_found=True) == (0.0, 2.0)
    assert balance(7.0, vector_found=True, text_found=True) == (2.0, 0.0)


@given(scores, st.data())
def test_alpha_at_its_ends_gives_the_order_of_one_arm(dense: list[float], data: st.DataObject) -> None:
    text = data.draw(st.lists(st.floats(0, 9, width=32), min_size=len(dense), max_size=len(dense)))
    by_vector = hybrid(dense, text, alpha=1.0)
    by_text = hybrid(dense, text, alpha=0.0)
    found_vector, found_text = bool(scaled(dense).any()), max(text) > 0
    for i in range(len(dense)):
        for j in range(len(dense)):
            if found_vector and dense[i] > dense[j]:
                assert by_vector[i] >= by_vector[j]
            if found_text and text[i] > text[j]:
                assert by_text[i] >= by_text[j]


@given(scores)
def test_no_words_in_common_leaves_the_order_of_the_vector(dense: list[float]) -> None:
    out = hybrid(dense, [0.0] * len(dense), alpha=0.2)
    assert np.array_equal(out, scaled(dense))
    assert np.isfinite(out).all()


def test_an_exact_word_hit_is_found_however_far_the_vector_is() -> None:
    out = hybrid([0.9, 0.8, -0.9], [0.0, 0.0, 7.0], alpha=0.2)
    assert out.argmax() == 2


def test_parts_are_weighted_and_unknown_ones_count_for_nothing() -> None:
    parts = {"words": np.array([1.0, math.nan]), "other": np.array([5.0, 5.0]), "off": np.array([1.0, 1.0])}
    out = fuse(parts, {"words": 2.0, "off": 0.0})
    assert list(out) == ["words"]
    assert out["words"].tolist() == [2.0, 0.0]
    assert total(out, 2).tolist() == [2.0, 0.0]
    assert total({}, 2).tolist() == [0.0, 0.0]


def test_parts_are_told_by_size_and_small_ones_left_out() -> None:
    assert explain({"question": -0.25, "words": 1.2, "tiny": 0.001, "speaker": 0.5}, notes={"speaker": "Ann"}) == (
        "words +1.20, speaker +0.50 (Ann), question -0.25"
    )
