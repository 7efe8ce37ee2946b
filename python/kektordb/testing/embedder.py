"""An embedder without a model: equal words give near vectors, always the same ones."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kektordb.embed.protocol import Fingerprint


class FakeEmbedder:
    """Feature hashing of words and their trigrams into `dim` signed buckets, unit length. Deterministic on every machine.

    `name` is part of the fingerprint, so that two instances can stand for two models of one dimension.
    """

    def __init__(self, *, dim: int = 64, name: str = "fake") -> None:
        self._dim = dim
        self._name = name
        self.calls: list[int] = []
        """How many texts each call was given."""

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def name(self) -> str:
        return self._name

    @property
    def max_tokens(self) -> int:
        return 2**31 - 1

    def fingerprint(self) -> Fingerprint:
        from kektordb.embed.protocol import Fingerprint

        return Fingerprint("testing", self._name, self._dim, True)

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        self.calls.append(len(texts))
        out = np.zeros((len(texts), self._dim), dtype=np.float64)
        for row, text in zip(out, texts, strict=True):
            folded = unicodedata.normalize("NFKC", text).casefold()
            for word in folded.split():
                self._add(row, word, 1.0)
                for i in range(len(word) - 2):
                    self._add(row, word[i : i + 3], 0.3)
            if not row.any():  # no words, or words that cancel
                row[0] = 1.0
        unit: NDArray[np.float32] = (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _add(self, row: NDArray[np.float64], feature: str, weight: float) -> None:
        digest = hashlib.blake2b(f"{self._name}\0{feature}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        row[number % self._dim] += weight if number >> 63 else -weight
