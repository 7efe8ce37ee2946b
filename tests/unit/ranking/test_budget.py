from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.ranking import estimate_tokens, fit
from kektordb.ranking.budget import MIN_CUT_TOKENS


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("外币汇率", 4), ("外a", 2)]
)
def test_a_token_is_four_narrow_characters_or_one_wide(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_without_a_budget_everything_fits() -> None:
    assert [f.text for f in fit(["a" * 900, "b"], None)] == ["a" * 900, "b"]


def test_the_text_that_passes_the_budget_is_cut_and_nothing_follows() -> None:
    out = fit(["a" * 40, "b" * 400, "c"], 30)
    assert [(f.index, f.tokens, f.truncated) for f in out] == [(0, 10, False), (1, 20, True)]
    assert out[1].text == "b" * 79 + "…"


def test_a_rest_too_small_to_say_anything_is_left_out() -> None:
    out = fit(["a" * 40, "b" * 400], 10 + MIN_CUT_TOKENS - 1)
    assert [f.index for f in out] == [0]


def test_a_cut_never_parts_a_letter_from_its_mark() -> None:
    text = "e\u0301" * 100
    for tokens in range(MIN_CUT_TOKENS, 20):
        cut = fit([text], tokens)[0].text.removesuffix("…")
        assert cut.endswith("\u0301")


@given(st.lists(st.text(max_size=200), max_size=8), st.integers(1, 150))
def test_the_budget_is_never_passed_and_a_larger_one_only_adds(texts: list[str], budget: int) -> None:
    out = fit(texts, budget)
    assert sum(f.tokens for f in out) <= budget
    assert [f.index for f in out] == list(range(len(out)))
    assert all(f.tokens == estimate_tokens(f.text) for f in out)
    assert all(f.text == texts[f.index] for f in out if not f.truncated)
    more = fit(texts, budget + 50)
    whole = [f for f in out if not f.truncated]
    assert more[: len(whole)] == whole
