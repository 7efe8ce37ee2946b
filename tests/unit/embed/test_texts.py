"""Texts before the model, vectors after it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.embed import texts as t
from kektordb.errors import EmbeddingError, InvalidArgumentError, LimitExceededError


@given(
    total=st.integers(0, 5_000),
    size=st.integers(2, 400),
    share=st.floats(0, 0.9),
    limit=st.integers(1, 40),
)
def test_windows_cover_the_text_or_the_limit_is_used_up(total: int, size: int, share: float, limit: int) -> None:
    overlap = min(size - 1, int(size * share))
    spans = t.windows(total, size, overlap, limit)
    assert spans[0][0] == 0
    assert all(0 <= a <= b <= total and b - a <= size for a, b in spans)
    assert len(spans) <= limit
    if limit > 1 or total <= size:
        assert spans[-1][1] == total
    if t.covered(spans) < total:
        assert len(spans) == limit
        assert all(b - a == size for a, b in spans)
    if limit * (size - overlap) + overlap >= total:
        assert t.covered(spans) == total
        assert all(b0 - a1 >= overlap for (_, b0), (a1, _) in itertools.pairwise(spans))
    assert len({b - a for a, b in spans}) == 1, "one length, so that a batch needs no padding"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=8))
def test_covered_counts_each_unit_once(raw: list[tuple[int, int]]) -> None:
    spans = sorted((a, a + n) for a, n in raw)
    spans = [s for i, s in enumerate(spans) if all(s[1] >= e[1] for e in spans[:i])]
    assert t.covered(spans) == len({u for a, b in spans for u in range(a, b)})


def test_nul_becomes_a_space_and_a_lone_surrogate_the_replacement_character() -> None:
    assert t.check_texts(["a\x00b", "x\ud800y\udfffz", "plain", "né 🎉"]) == [
        "a b",
        "x\ufffdy\ufffdz",
        "plain",
        "né 🎉",
    ]


@given(st.text(st.characters(exclude_categories=())))
def test_checked_texts_can_always_be_encoded(text: str) -> None:
    [clean] = t.check_texts([text])
    clean.encode("utf-8")
    assert "\x00" not in clean
    assert len(clean) == len(text)


@pytest.mark.parametrize("wrong", ["one text", b"bytes"])
def test_a_bare_string_is_refused_instead_of_embedded_letter_by_letter(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match="wanted a sequence") as e:
        t.check_texts(wrong)
    assert "[text]" in e.value.hint


def test_a_text_of_another_type_is_named_by_its_place() -> None:
    with pytest.raises(InvalidArgumentError, match=r"texts\[1\] is NoneType"):
        t.check_texts(["a", None])  # type: ignore[list-item]


def test_a_text_past_the_limit_is_refused_by_the_limit_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(t, "MAX_TEXT_CHARS", 10)
    assert t.check_texts(["x" * 10]) == ["x" * 10]
    with pytest.raises(LimitExceededError, match="MAX_TEXT_CHARS"):
        t.check_texts(["x" * 11])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_a_row_without_a_direction_is_refused(bad: float) -> None:
    rows = np.ones((3, 4), dtype=np.float32)
    rows[1] = bad
    with pytest.raises(EmbeddingError, match=r"row 1"):
        t.unit_rows(rows, source="test")
    rows[1] = 2.0
    np.testing.assert_allclose(np.linalg.norm(t.unit_rows(rows, source="test"), axis=1), 1, atol=1e-6)


def test_pieces_join_to_their_mean_and_a_lone_piece_keeps_its_row_bit_by_bit(seed: int) -> None:
    rows = t.unit_rows(np.random.default_rng(seed).standard_normal((400, 384)), source="test")
    joined = t.join_pieces(rows, [0, 0, 0, *range(1, 398)], 398)
    mean = rows[:3].sum(axis=0)
    np.testing.assert_allclose(joined[0], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_array_equal(joined[1:], rows[3:])
