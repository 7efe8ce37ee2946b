"""How memories fade: pure functions of age, use and half-life, one by one (`factor`) and over arrays (`factors`).

Promise: every factor lies in [0, 1] and is never NaN, whatever clocks and counts say: an age that is negative or not a number
counts as 0 (a clock that was set back makes nothing old), a count below 0 as 0, and a half-life that is not above 0, or not a
number, means that nothing fades. Ages and half-lives are seconds, moments are microseconds since 1970 UTC.

| model | factor at age a, half-life h, n accesses |
| --- | --- |
| exponential | 2^(−a/h): one half after each half-life |
| linear | max(0, 1 − a/h): 0 from one half-life on |
| step | 1 while a < h, else 0 |
| ebbinghaus | e^(−a/S) with strength S = h·(1 + ln(1 + n)): use slows forgetting |

The last has the shape of the forgetting curve of H. Ebbinghaus, "Über das Gedächtnis" (1885), in the exponential form with a
strength that is common since P. A. Woźniak's SuperMemo; at n = 0 it falls to 1/e, not one half, in one half-life.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kektordb.errors import InvalidArgumentError

__all__ = ["MODELS", "age_s", "ages_s", "ebbinghaus", "exponential", "factor", "factors", "linear", "step"]

Factors = NDArray[np.float64]


def age_s(now_us: int, created_us: int, last_access_us: int | None = None) -> float:
    """Seconds since it was made or last used, whichever is later; 0 where a clock says the future."""
    newest = created_us if last_access_us is None else max(created_us, last_access_us)
    return max(0.0, (now_us - newest) / 1e6)


def exponential(age_s: float, accesses: int, half_life_s: float) -> float:
    """2^(−age / half-life)."""
    del accesses
    return math.exp2(-_lives(age_s, half_life_s))


def linear(age_s: float, accesses: int, half_life_s: float) -> float:
    """max(0, 1 − age / half-life)."""
    del accesses
    return max(0.0, 1.0 - _lives(age_s, half_life_s))


def step(age_s: float, accesses: int, half_life_s: float) -> float:
    """1 while age < half-life, 0 from then on."""
    del accesses
    return 1.0 if _lives(age_s, half_life_s) < 1.0 else 0.0


def ebbinghaus(age_s: float, accesses: int, half_life_s: float) -> float:
    """e^(−age / S) with S = half-life · (1 + ln(1 + accesses))."""
    return math.exp(-_lives(age_s, half_life_s) / (1.0 + math.log1p(max(0, accesses))))


MODELS: Final[Mapping[str, Callable[[float, int, float], float]]] = MappingProxyType(
    {"exponential": exponential, "linear": linear, "step": step, "ebbinghaus": ebbinghaus}
)


def factor(model: str, age_s: float, accesses: int, half_life_s: float | None) -> float:
    """The factor of a model by name; 1 for the model "none" and for a half-life of None, 0 or less."""
    if model == "none":
        return 1.0
    return _model(model)(age_s, accesses, math.inf if half_life_s is None else half_life_s)


def ages_s(now_us: int, created_us: ArrayLike, last_access_us: ArrayLike | None = None) -> Factors:
    """`age_s` over arrays of int64; a row that was never used holds any moment before its creation."""
    newest = np.asarray(created_us, dtype=np.int64)
    if last_access_us is not None:
        newest = np.maximum(newest, np.asarray(last_access_us, dtype=np.int64))
    # as doubles, so that an open end (±2**63) cannot run over
    out: Factors = np.maximum(0.0, (float(now_us) - newest.astype(np.float64)) / 1e6)
    return out


def factors(model: str, age_s: ArrayLike, accesses: ArrayLike = 0, *, half_life_s: ArrayLike) -> Factors:
    """`factor` over arrays, which are broadcast. Agrees with it within a few units in the last place."""
    age = np.asarray(age_s, dtype=np.float64)
    half_life = np.asarray(half_life_s, dtype=np.float64)
    used = np.maximum(np.asarray(accesses, dtype=np.float64), 0.0)
    shape = np.broadcast_shapes(age.shape, half_life.shape, used.shape)
    if model == "none":
        return np.ones(shape)
    _model(model)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        fades = (age > 0) & (half_life > 0)
        lives = np.where(fades, age / np.where(half_life > 0, half_life, 1.0), 0.0)
        lives = np.where(np.isnan(lives), 0.0, lives)  # inf / inf
        match model:
            case "exponential":
                out = np.exp2(-lives)
            case "linear":
                out = np.maximum(0.0, 1.0 - lives)
            case "step":
                out = np.where(lives < 1.0, 1.0, 0.0)
            case _:
                out = np.exp(-lives / (1.0 + np.log1p(used)))
    whole: Factors = np.broadcast_to(out, shape).copy()
    return whole


def _lives(age_s: float, half_life_s: float) -> float:
    """Age in half-lives; 0 where nothing fades."""
    if not (age_s > 0 and half_life_s > 0):
        return 0.0
    try:
        lives = age_s / half_life_s
    except OverflowError:  # integers beyond a double
        return math.inf
    return 0.0 if math.isnan(lives) else lives


def _model(name: str) -> Callable[[float, int, float], float]:
    try:
        return MODELS[name]
    except KeyError:
        near = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(MODELS)} or none"
        raise InvalidArgumentError(f"no decay model is called {name!r}", hint=hint) from None
