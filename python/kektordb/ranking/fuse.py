"""Summing scores of several arms. Pure; numpy only.

Promised: no NaN ever leaves; an arm that found nothing changes no order and passes its weight to the other; ties are kept
as ties (the caller breaks them by id).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scores = NDArray[np.float64]

FLOOR_PERCENTILE: Final = 5.0
"""What counts as "nothing in common" in a pool: the few worst rows would stretch the scale."""


def scaled(raw: ArrayLike, *, floor_percentile: float = FLOOR_PERCENTILE, least_span: float = 0.0) -> Scores:
    """Scores of one arm on a common scale: 1 for the best, 0 at the given percentile (rows below it go negative).

    NaN (hidden, absent, or not found by this arm) becomes the lowest value there is. A flat or empty arm becomes zeros: it says
    nothing. Scores that differ by less than `least_span` are not stretched to the whole scale: in a pool of near-equal rows
    the differences are noise. Scaled sums beat reciprocal ranks here because how far ahead the best row is carries information.
    """
    values = np.array(raw, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(values.shape)
    low = float(np.percentile(values[known], floor_percentile))
    span = float(values[known].max()) - low
    if span <= 1e-12:
        return np.zeros(values.shape)
    out: Scores = (values - low) / max(span, least_span)
    out[~known] = out[known].min()
    return out


def balance(alpha: float, *, vector_found: bool, text_found: bool) -> tuple[float, float]:
    """Factors of the vector arm and the text arm, summing to 2, so that `alpha` = 0.5 leaves fitted weights as they are.

    `alpha` = 1 is the vector alone, 0 the text alone. An arm that found nothing passes its share to the other.
    """
    share = min(max(alpha, 0.0), 1.0)
    if vector_found and not text_found:
        share = 1.0
    elif text_found and not vector_found:
        share = 0.0
    return 2.0 * share, 2.0 * (1.0 - share)


def hybrid(dense: ArrayLike, text: ArrayLike, *, alpha: float = 0.5) -> Scores:
    """Plain fusion of two arms over the same rows: `alpha` x scaled vector score + (1 - `alpha`) x scaled text score.

    A text score of 0 means "no word in common" and stays 0 on the common scale. `alpha` 0 and 1 give the pure orders.
    """
    words = np.nan_to_num(np.array(text, dtype=np.float64), nan=0.0)
    best = float(words.max()) if words.size else 0.0
    meaning = scaled(dense)
    for_vector, for_text = balance(alpha, vector_found=bool(meaning.any()), text_found=best > 0)
    out: Scores = 0.5 * (for_vector * meaning + for_text * (words / best if best > 0 else words))
    return out


def fuse(parts: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Scores]:
    """Each part times its weight. A part without a weight counts for nothing; NaN counts as 0."""
    return {name: weights[name] * np.nan_to_num(part) for name, part in parts.items() if weights.get(name, 0.0)}


def total(weighted: Mapping[str, Scores] | Iterable[Scores], size: int) -> Scores:
    """Sum of weighted parts, in the order given, so that equal inputs give equal bits."""
    out = np.zeros(size)
    for part in weighted.values() if isinstance(weighted, Mapping) else weighted:
        out = out + part
    return out
