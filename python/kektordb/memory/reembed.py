"""Another embedder for a memory: every record is embedded anew, whatever its state, and then the collection is switched.

Resumable: a run that was interrupted goes on where it stopped when it is started again with the same embedder; until it is
through, the memory opens with its old embedder and answers from the old vectors. No query ever meets two spaces.
Cost: one embedding per record, closed ones too, so that past views can be searched afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kektordb.embed.protocol import Embedder, Fingerprint
from kektordb.engine.protocol import Json, Maintenance, Vector
from kektordb.memory.shelf import TEXT_FIELD, collection_meta, collection_name
from kektordb.model.view import Life


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What a run did. `records` counts what has the new vectors, by the state it is in."""

    name: str
    embedder: Fingerprint
    records: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.records.values())


def reembed(
    store: Maintenance,
    name: str,
    embedder: Embedder,
    *,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> ReembedReport:
    """Fills the memory `name` with vectors of `embedder`. Handles that are open must be opened again afterwards."""

    def vectors(payloads: Sequence[Mapping[str, Json]]) -> Vector:
        texts = [payload.get(TEXT_FIELD) or payload.get("text") or "-" for payload in payloads]
        rows: Vector = np.asarray(embedder.embed(texts, kind="document"), dtype=np.float32)
        return rows

    fingerprint = embedder.fingerprint()
    counts = store.rebuild_vectors(
        collection_name(name),
        dim=embedder.dim,
        meta=collection_meta(fingerprint),
        embed=vectors,
        batch=batch,
        progress=progress,
    )
    return ReembedReport(name, fingerprint, {_label(life): n for life, n in sorted(counts.items())})


def _label(life: Life) -> str:
    return "replaced" if life is Life.GONE else life.name.lower()
