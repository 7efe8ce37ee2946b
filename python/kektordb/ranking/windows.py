"""Neighbours in an ordered session, and scores that spread to them. Pure; numpy only.

Everything is computed from the scores of the rows that are given, at the time of asking. A row that is not given (hidden,
retracted, not in the pool) therefore lends nothing to its neighbours. Cost: O(rows x reach).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kektordb.ranking.fuse import Scores

REACH: Final = 4
"""Turns looked at on either side."""


class Layout:
    """Which rows stand beside which: `sessions[i]` and `seqs[i]` place row i; None = the row stands alone."""

    def __init__(self, sessions: Sequence[Hashable | None], seqs: Sequence[int | None], *, reach: int = REACH) -> None:
        if len(sessions) != len(seqs):
            raise ValueError(f"{len(sessions)} sessions for {len(seqs)} places")
        self.size = len(sessions)
        place: dict[tuple[Hashable, int], int] = {}
        groups: dict[Hashable, int] = {}
        group = np.empty(self.size, np.int64)
        alone = np.zeros(self.size, bool)
        for i, (session, seq) in enumerate(zip(sessions, seqs, strict=True)):
            if session is None or seq is None:
                alone[i] = True
                group[i] = groups.setdefault((None, i), len(groups))
            else:
                place.setdefault((session, seq), i)
                group[i] = groups.setdefault((session,), len(groups))
        self.alone = alone
        self.group = group
        self.groups = len(groups)
        self._beside: dict[int, NDArray[np.int64]] = {}
        for step in range(-reach, reach + 1):
            if step:
                self._beside[step] = np.array(
                    [
                        -1 if session is None or seq is None else place.get((session, seq + step), -1)
                        for session, seq in zip(sessions, seqs, strict=True)
                    ],
                    np.int64,
                )

    def beside(self, values: Scores, step: int, *, otherwise: float = 0.0) -> Scores:
        """The value of the row `step` turns later (negative: earlier) in the same session; `otherwise` where there is none.

        `values` is (rows,) or (terms, rows).
        """
        index = self._beside[step]
        if not self.size:
            return values
        out: Scores = np.where(index >= 0, values[..., index], otherwise)
        return out

    def spread(self, values: Scores, *, back: float, ahead: float) -> Scores:
        """The best of a row's own value and its neighbours' values, which fade by `back` per turn they lie before it and by
        `ahead` per turn they lie after it. What a turn is about was often said one or two turns earlier."""
        out = values
        for step, index in self._beside.items():
            fade = back ** (-step) if step < 0 else ahead**step
            if fade > 0 and (index >= 0).any():
                out = np.maximum(out, fade * self.beside(values, step))
        return out

    def mean_before(self, values: Scores, *, turns: int) -> Scores:
        """Mean over the row and the `turns` before it, as far as they are there."""
        sums, counts = values.copy(), np.ones(self.size)
        for step in range(-turns, 0):
            there = self._beside[step] >= 0
            sums = sums + np.where(there, self.beside(values, step), 0.0)
            counts = counts + there
        out: Scores = sums / counts
        return out

    def session_best(self, values: Scores) -> Scores:
        """The best value in the row's session. `values` is (rows,) or (terms, rows)."""
        if values.ndim == 2:
            rows = [self.session_best(row) for row in values]
            return np.array(rows) if rows else values
        best = np.full(self.groups, -np.inf)
        np.maximum.at(best, self.group, values)
        return best[self.group]

    def session_sum(self, values: Scores) -> Scores:
        """The sum over the row's session. `values` is (rows,) or (terms, rows)."""
        if values.ndim == 2:
            rows = [self.session_sum(row) for row in values]
            return np.array(rows) if rows else values
        sums = np.bincount(self.group, weights=values.astype(np.float64), minlength=self.groups).astype(np.float64)
        return sums[self.group]

    def session_top_mean(self, values: Scores, *, top: int) -> Scores:
        """Mean of the `top` best values in the row's session (of all, if it has fewer)."""
        order = np.lexsort((-values, self.group))
        sorted_group = self.group[order]
        starts = np.searchsorted(sorted_group, np.arange(self.groups))
        rank = np.arange(self.size) - starts[sorted_group]
        keep = rank < top
        sums = np.bincount(sorted_group[keep], weights=values[order][keep], minlength=self.groups)
        counts = np.bincount(sorted_group[keep], minlength=self.groups)
        out: Scores = (sums / np.maximum(counts, 1))[self.group]
        return out
