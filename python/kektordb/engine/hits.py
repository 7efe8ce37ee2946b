"""Answers of a search: arrays that are made when they are first asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from kektordb.engine.protocol import Hit, Json

if TYPE_CHECKING:
    from kektordb._native import Hits as CoreHits


class Hits(Sequence[Hit]):
    """Hits, best first. Iterating gives `Hit`; the columns are arrays and lists of the same order."""

    __slots__ = ("_core", "_explain", "_ids", "_payloads")

    def __init__(self, core: CoreHits, *, explain: bool = False) -> None:
        self._core = core
        self._explain = explain
        self._ids: list[str] | None = None
        self._payloads: list[dict[str, Json]] | None = None

    @property
    def ids(self) -> list[str]:
        if self._ids is None:
            self._ids = self._core.ids()
        return self._ids

    @property
    def rows(self) -> NDArray[np.uint32]:
        """Row numbers; valid until vacuum."""
        return self._core.rows()

    @property
    def distances(self) -> NDArray[np.float32]:
        """Smaller = nearer; NaN where the text arm alone found it."""
        return self._core.distances()

    @property
    def scores(self) -> NDArray[np.float32]:
        """Larger = better."""
        return self._core.scores()

    @property
    def payloads(self) -> list[dict[str, Json]]:
        if self._payloads is None:
            texts = self._core.payloads() or [""] * len(self._core)
            self._payloads = [json.loads(t) if t else {} for t in texts]
        return self._payloads

    @property
    def parts(self) -> list[dict[str, float]]:
        """Per hit: the scaled score of the vector arm (`dense`), of the text arm (`text`), and the BM25 score."""
        return self._core.parts()

    def __len__(self) -> int:
        return len(self._core)

    @overload
    def __getitem__(self, i: int) -> Hit: ...
    @overload
    def __getitem__(self, i: slice) -> list[Hit]: ...
    def __getitem__(self, i: int | slice) -> Hit | list[Hit]:
        return list(self)[i]

    def __iter__(self) -> Iterator[Hit]:
        parts: list[Any] = self.parts if self._explain else [{}] * len(self)
        columns = zip(self.ids, self.scores.tolist(), self.distances.tolist(), self.payloads, parts, strict=True)
        for row_id, score, distance, payload, part in columns:
            yield Hit(id=row_id, score=score, distance=distance, payload=payload, parts=part)

    def __repr__(self) -> str:
        head = ", ".join(f"{i!r}: {s:.4g}" for i, s in zip(self.ids[:5], self.scores[:5], strict=True))
        return f"Hits({len(self)}: {head}{', …' if len(self) > 5 else ''})"
