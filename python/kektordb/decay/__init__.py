"""How memories fade: pure functions of age, use and half-life.

Every factor lies in 0…1 and is never NaN, whatever the clocks did. Ages and half-lives are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["MODELS", "age_s", "ebbinghaus", "exponential", "factor", "linear", "step"]


def age_s(now_us: int, created_us: int, last_access_us: int | None = None) -> float:
    """Seconds since it was made or last used; 0 where a clock says the future."""
    newest = created_us if last_access_us is None else max(created_us, last_access_us)
    return max(0.0, (now_us - newest) / 1e6)


def exponential(age_s: float, accesses: int, half_life_s: float) -> float:
    """2^(−age / half-life): the half after each half-life."""
    del accesses
    return _bounded(2.0 ** -min(age_s / half_life_s, 1e4))


def linear(age_s: float, accesses: int, half_life_s: float) -> float:
    """1 − age / half-life, down to 0 at one half-life."""
    del accesses
    return _bounded(1.0 - age_s / half_life_s)


def step(age_s: float, accesses: int, half_life_s: float) -> float:
    """1 until the half-life, 0 from then on."""
    del accesses
    return 1.0 if age_s < half_life_s else 0.0


def ebbinghaus(age_s: float, accesses: int, half_life_s: float) -> float:
    """e^(−age / S) with strength S = half-life · (1 + ln(1 + accesses)): use slows forgetting (shape: Ebbinghaus, 1885)."""
    strength = half_life_s * (1.0 + math.log1p(max(0, accesses)))
    return _bounded(math.exp(-min(age_s / strength, 1e4)))


MODELS: Final[Mapping[str, Callable[[float, int, float], float]]] = {
    "exponential": exponential,
    "linear": linear,
    "step": step,
    "ebbinghaus": ebbinghaus,
}


def factor(model: str, age_s: float, accesses: int, half_life_s: float) -> float:
    """The factor of a model by name; a half-life of 0 means that nothing fades.

    An age that is not a number, or below 0, counts as 0. KeyError for an unknown model.
    """
    if model == "none" or not half_life_s > 0:
        return 1.0
    age = age_s if age_s > 0 else 0.0
    return MODELS[model](age, accesses, half_life_s)


def _bounded(x: float) -> float:
    return 1.0 if math.isnan(x) else min(1.0, max(0.0, x))
