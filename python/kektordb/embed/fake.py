"""A deterministic embedder without a model: texts that share words are near.

Promises: the same vector for the same text on every machine and in every release (a fixture may hold one). For tests and
for trying the package where MiniLM is not wanted; it knows no synonyms. Cost: about 2 µs a word.
Source: feature hashing with signs (Weinberger et al., 2009).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from kektordb.embed.protocol import Fingerprint, Kind, Vectors
from kektordb.embed.texts import check_texts, unit_rows
from kektordb.errors import InvalidArgumentError

MIN_DIM, MAX_DIM = 8, 65_536
_SLOTS = 8
"""Places that one word touches: enough that two words rarely meet in all of them."""
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=65_536)
def _places(word: str, dim: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    digest = blake2b(word.encode("utf-8"), digest_size=_SLOTS * 4).digest()
    codes = np.frombuffer(digest, dtype="<u4").astype(np.int64)
    return (codes >> 1) % dim, np.where(codes & 1, 1.0, -1.0)


class HashEmbedder:
    """Bag of hashed words; `dim` between 8 and 65,536."""

    def __init__(self, dim: int = 256) -> None:
        if not MIN_DIM <= dim <= MAX_DIM:
            raise InvalidArgumentError(f"dim is {dim}, wanted {MIN_DIM} to {MAX_DIM}")
        self._dim = dim

    @property
    def name(self) -> str:
        return "fake" if self._dim == 256 else f"fake:{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def max_tokens(self) -> int:
        return 2**31 - 1

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        clean = check_texts(texts)
        out = np.zeros((len(clean), self._dim), dtype=np.float64)
        for row, text in zip(out, clean, strict=True):
            for word, times in Counter(_WORD.findall(text.casefold())).items():
                places, signs = _places(word, self._dim)
                np.add.at(row, places, signs * np.sqrt(times))
            if not row.any():
                row[0] = 1.0  # no words (or words that cancel): one fixed direction
        return unit_rows(out, source=self.name) if clean else np.zeros((0, self._dim), dtype=np.float32)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", "word-hash-1", self._dim, True)
