from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.decay import MODELS, age_s, ages_s, ebbinghaus, exponential, factor, factors, linear, step
from kektordb.errors import InvalidArgumentError

HOUR = 3_600.0
DAY_US = 86_400_000_000
NOW = 1_800_000_000_000_000
FADING = sorted(MODELS)
odd = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan, 1e308])
counts = st.integers(-5, 5) | st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("model", "age", "accesses", "half_life", "wanted"),
    [
        (exponential, 0.0, 0, 72 * HOUR, 1.0),
        (exponential, 72 * HOUR, 9, 72 * HOUR, 0.5),
        (exponential, 144 * HOUR, 0, 72 * HOUR, 0.25),
        (exponential, 36 * HOUR, 0, 72 * HOUR, 1 / math.sqrt(2)),
        (linear, 0.0, 0, 10.0, 1.0),
        (linear, 2.5, 0, 10.0, 0.75),
        (linear, 10.0, 0, 10.0, 0.0),
        (linear, 25.0, 0, 10.0, 0.0),
        (step, 9.999, 0, 10.0, 1.0),
        (step, 10.0, 0, 10.0, 0.0),
        (ebbinghaus, 10.0, 0, 10.0, math.exp(-1)),
        (ebbinghaus, 10.0, 1, 10.0, math.exp(-1 / (1 + math.log(2)))),
        (ebbinghaus, 10.0, 99, 10.0, math.exp(-1 / (1 + math.log(100)))),
    ],
)
def test_a_factor_is_the_stated_formula(
    model: object, age: float, accesses: int, half_life: float, wanted: float
) -> None:
    assert model(age, accesses, half_life) == pytest.approx(wanted, rel=1e-12, abs=1e-15)  # type: ignore[operator]


@given(st.sampled_from(FADING), odd, counts, odd)
def test_every_factor_lies_in_0_to_1(model: str, age: float, accesses: int, half_life: float) -> None:
    got = factor(model, age, accesses, half_life)
    assert 0.0 <= got <= 1.0
    assert MODELS[model](age, accesses, half_life) == got


@given(st.sampled_from(FADING), st.floats(0, 1e12), st.floats(0, 1e12), st.integers(0, 1_000), st.floats(1e-3, 1e12))
def test_older_never_weighs_more(model: str, a: float, b: float, accesses: int, half_life: float) -> None:
    young, old = sorted((a, b))
    assert factor(model, old, accesses, half_life) <= factor(model, young, accesses, half_life)


@given(st.floats(0, 1e12), st.integers(0, 10**6), st.floats(1e-3, 1e12))
def test_use_slows_forgetting(age: float, accesses: int, half_life: float) -> None:
    assert ebbinghaus(age, accesses + 1, half_life) >= ebbinghaus(age, accesses, half_life)


@given(st.sampled_from([*FADING, "none"]), st.lists(st.tuples(odd, counts, odd), min_size=1, max_size=8))
def test_arrays_give_what_single_values_give(model: str, rows: list[tuple[float, int, float]]) -> None:
    ages, accesses, half_lives = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    got = factors(model, ages, accesses, half_life_s=half_lives)
    want = [factor(model, a, n, h) for a, n, h in rows]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)
    assert ((got >= 0) & (got <= 1)).all()


def test_arrays_are_broadcast() -> None:
    got = factors("exponential", [[0.0], [10.0]], half_life_s=[10.0, 20.0, 0.0])
    np.testing.assert_allclose(got, [[1, 1, 1], [0.5, 2**-0.5, 1]])
    got[0, 0] = 7  # the caller's own
    assert factors("none", [1.0, 2.0], half_life_s=1.0).tolist() == [1, 1]
    assert factors("linear", 5.0, half_life_s=10.0).shape == ()


def test_nothing_fades_without_a_half_life() -> None:
    for model in (*FADING, "none"):
        for never in (None, 0.0, -1.0, math.inf, math.nan):
            assert factor(model, 1e9, 0, never) == 1.0
        assert factor(model, 1e9, 0, 1.0) == (1.0 if model == "none" else pytest.approx(0.0, abs=1e-12))


@pytest.mark.parametrize("model", [*FADING, "none"])
def test_values_without_meaning_have_one_rule_in_both_forms(model: str) -> None:
    odd_values = [math.inf, -math.inf, math.nan, 0.0, -1.0, 5e-324, 1e308]
    for age in odd_values:
        for half_life in odd_values:
            for accesses in (-1, 0, 3):
                one = factor(model, age, accesses, half_life)
                assert 0.0 <= one <= 1.0
                assert factors(model, [age], [accesses], half_life_s=[half_life]).tolist() == pytest.approx([one])


def test_age_counts_from_making_or_last_use() -> None:
    assert age_s(NOW, NOW - DAY_US) == 86_400.0
    assert age_s(NOW, NOW - DAY_US, NOW - 5_000_000) == 5.0
    assert age_s(NOW, NOW - DAY_US, NOW - 9 * DAY_US) == 86_400.0


def test_a_clock_that_was_set_back_makes_nothing_old() -> None:
    for created, used in [(NOW + DAY_US, None), (NOW - DAY_US, NOW + 1), (NOW + 1, NOW + 2), (2**63 - 1, None)]:
        age = age_s(NOW, created, used)
        assert age == 0.0
        for model in FADING:
            assert factor(model, age, 0, HOUR) == 1.0


def test_of_two_alike_the_one_that_was_used_today_weighs_more() -> None:
    left = factor("exponential", age_s(NOW, NOW - 30 * DAY_US), 0, 30 * 86_400.0)
    used = factor("exponential", age_s(NOW, NOW - 30 * DAY_US, NOW), 1, 30 * 86_400.0)
    assert (left, used) == (pytest.approx(0.5, abs=1e-9), pytest.approx(1.0, abs=1e-9))


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_ages_of_arrays_are_ages_of_single_values(rows: list[tuple[int, int]]) -> None:
    created, used = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    want = [age_s(NOW, c, u) for c, u in rows]
    np.testing.assert_allclose(ages_s(NOW, created, used), want, rtol=1e-12, atol=1e-3)
    np.testing.assert_allclose(ages_s(NOW, created), [age_s(NOW, c) for c, _ in rows], rtol=1e-12, atol=1e-3)


def test_an_unknown_model_is_refused_with_the_near_one() -> None:
    with pytest.raises(InvalidArgumentError, match="exponential"):
        factor("exponental", 1.0, 0, 1.0)
    with pytest.raises(InvalidArgumentError, match="step"):
        factors("weird", [1.0], half_life_s=1.0)
