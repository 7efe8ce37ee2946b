"""The deterministic embedder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.embed import HashEmbedder
from kektordb.errors import InvalidArgumentError

FAKE = HashEmbedder()


def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    cat, cats_home, stock = FAKE.embed(["the cat sits outside", "a cat sits at home", "shares fell on monday"])
    assert cat @ cats_home > 0.3
    assert abs(cat @ stock) < 0.2


def test_a_word_said_four_times_counts_twice() -> None:
    once, four, other = HashEmbedder(65_536).embed(["red bicycle", "red red red red bicycle", "red"])
    assert once @ other == pytest.approx(1 / np.sqrt(2), abs=0.01)
    assert four @ other == pytest.approx(2 / np.sqrt(5), abs=0.01)


def test_case_and_punctuation_do_not_matter() -> None:
    a, b = FAKE.embed(["Red Bicycle!", "red, bicycle"])
    np.testing.assert_array_equal(a, b)


def test_the_vector_of_a_text_never_changes() -> None:
    row = FAKE.embed(["red bicycle"])[0]
    places = {int(i): round(float(row[i]), 4) for i in np.flatnonzero(row)}
    assert places == {
        6: 0.2673,
        22: 0.2673,
        29: -0.2673,
        55: 0.2673,
        56: 0.2673,
        58: -0.2673,
        94: -0.2673,
        96: -0.2673,
        154: -0.2673,
        172: -0.2673,
        185: -0.2673,
        221: -0.2673,
        247: -0.2673,
        249: -0.2673,
    }


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=5))
def test_every_text_gives_a_unit_row(texts: list[str]) -> None:
    rows = FAKE.embed(texts)
    assert rows.shape == (len(texts), 256)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(FAKE.embed([text])[0], row)


def test_dimensions_out_of_bounds_are_refused() -> None:
    for dim in (0, 7, 65_537):
        with pytest.raises(InvalidArgumentError, match="dim"):
            HashEmbedder(dim)
    assert HashEmbedder(8).embed(["x"]).shape == (1, 8)
