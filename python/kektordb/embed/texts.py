"""What every embedder does to texts before, and to vectors after, the model.

Promises: one rule for odd characters, one for windows over long texts, one check of what comes back. Pure.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kektordb.embed.protocol import Long, LongTextWarning, Vectors
from kektordb.errors import EmbeddingError, InvalidArgumentError, LimitExceededError

MAX_TEXT_CHARS = 64 * 1024 * 1024
"""Longest single text."""
MAX_TEXTS = 1_000_000
"""Most texts in one call."""

_ODD = re.compile("[\x00\ud800-\udfff]")
_log = logging.getLogger("kektordb.embed")


def check_texts(texts: Sequence[str]) -> list[str]:
    """A list of texts that any tokenizer and any JSON reader takes: NUL becomes a space, a lone surrogate U+FFFD."""
    if isinstance(texts, str | bytes):
        raise InvalidArgumentError(
            f"texts is one {type(texts).__name__}, wanted a sequence of str", hint="pass [text] instead of text"
        )
    if len(texts) > MAX_TEXTS:
        raise LimitExceededError(
            f"{len(texts)} texts in one call, the limit MAX_TEXTS is {MAX_TEXTS}", limit="MAX_TEXTS"
        )
    return [_clean(i, t) for i, t in enumerate(texts)]


def _clean(i: int, text: object) -> str:
    if not isinstance(text, str):
        raise InvalidArgumentError(f"texts[{i}] is {type(text).__name__}, wanted str")
    if len(text) > MAX_TEXT_CHARS:
        raise LimitExceededError(
            f"texts[{i}] has {len(text)} characters, the limit MAX_TEXT_CHARS is {MAX_TEXT_CHARS}",
            hint="split the text before embedding it",
            limit="MAX_TEXT_CHARS",
        )
    if text.isascii() and "\x00" not in text:
        return text
    return _ODD.sub(lambda m: " " if m.group() == "\x00" else "\ufffd", text)


def check_long(long: str) -> Long:
    known: dict[str, Long] = {"chunk": "chunk", "cut": "cut", "error": "error"}
    if long in known:
        return known[long]
    raise InvalidArgumentError(f"long is {long!r}, wanted 'chunk', 'cut' or 'error'")


def windows(total: int, size: int, overlap: int, limit: int) -> list[tuple[int, int]]:
    """Spans over `total` units, none longer than `size`, evenly laid so that neighbours share at least `overlap`.

    Needs 0 <= overlap < size. Where more than `limit` spans would be needed, `limit` spans are returned that share less or
    leave gaps: the first starts at 0 and (for a limit above 1) the last ends at `total`.
    """
    if total <= size:
        return [(0, total)]
    count = min(limit, -(-(total - overlap) // (size - overlap)))
    if count == 1:
        return [(0, size)]
    # the shortest size that still overlaps enough, so that all spans are of one length and batch without padding
    length = min(size, -(-(total + (count - 1) * overlap) // count))
    step = (total - length) / (count - 1)
    starts = [round(i * step) for i in range(count)]
    return [(s, s + length) for s in starts]


def covered(spans: Sequence[tuple[int, int]]) -> int:
    """Units that at least one span holds; spans are in order."""
    seen, end = 0, 0
    for a, b in spans:
        seen += max(0, b - max(a, end))
        end = max(end, b)
    return seen


def report_loss(cut: int, texts: int, *, what: str) -> None:
    """Tell, once a call, that parts of texts did not reach their vectors."""
    if not cut:
        return
    _log.warning("embed.text_cut", extra={"cut": cut, "texts": texts})
    warnings.warn(
        f"{cut} of {texts} texts {what}; the rest of them is not in their vectors", LongTextWarning, stacklevel=3
    )


def too_long(i: int, got: int, want: int, unit: str) -> LimitExceededError:
    return LimitExceededError(
        f"texts[{i}] has {got} {unit}, the embedder reads {want}",
        hint="split it, or use long='chunk' (mean of overlapping pieces) or long='cut'",
        limit="max_tokens",
        index=i,
    )


def unit_rows(vectors: NDArray[np.floating], *, source: str) -> Vectors:
    """Rows scaled to length 1; refuses a row that is not finite or has no direction."""
    rows = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    # one test for NaN, infinity and zero: each makes the comparison false
    good = (norms > 1e-12) & (norms < np.inf)
    if not good.all():
        row = int(np.flatnonzero(~good[:, 0])[0])
        raise EmbeddingError(f"{source} gave a vector that is zero or not finite (row {row})", row=row)
    return np.ascontiguousarray(rows / norms, dtype=np.float32)


def join_pieces(vectors: Vectors, owners: Sequence[int], count: int) -> Vectors:
    """One unit row per text from unit rows per piece: the mean; `windows` makes the pieces of a text of one length."""
    if len(owners) == count:
        return vectors
    owner = np.asarray(owners)
    out = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    np.add.at(out, owner, vectors)
    # a text of one piece keeps its row bit by bit
    lone = np.bincount(owner, minlength=count)[owner] == 1
    rows = unit_rows(out, source="the mean of a long text's pieces")
    rows[owner[lone]] = vectors[lone]
    return rows
