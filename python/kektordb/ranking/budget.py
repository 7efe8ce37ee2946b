"""Fitting texts into a token budget. Pure; no tokenizer: the estimate must hold for any model, so it leans high."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CHARS_PER_TOKEN: Final = 4
"""For scripts with spaces between words. Others (above U+2E80) count one token a character."""
_WIDE: Final = 0x2E80
ELLIPSIS: Final = "…"
MIN_CUT_TOKENS: Final = 8
"""A text is not cut to less than this; it is left out instead."""


@dataclass(frozen=True, slots=True)
class Fitted:
    index: int
    text: str
    tokens: int
    truncated: bool = False


def estimate_tokens(text: str) -> int:
    """Tokens a model would need, estimated: a token for each started four narrow characters and for each wide one."""
    wide = sum(ord(c) >= _WIDE for c in text)
    return wide + -(-(len(text) - wide) // CHARS_PER_TOKEN)


def fit(texts: Sequence[str], max_tokens: int | None) -> list[Fitted]:
    """The longest head of `texts` within the budget. The text that passes it is cut at a character, if enough is left.

    Never in the middle of a character and its marks. Nothing after the cut text is taken, so ranks stay gapless.
    """
    out: list[Fitted] = []
    left = max_tokens
    for index, text in enumerate(texts):
        need = estimate_tokens(text)
        if left is None or need <= left:
            out.append(Fitted(index, text, need))
            left = None if left is None else left - need
            continue
        if left >= MIN_CUT_TOKENS:
            cut = _cut(text, left)
            out.append(Fitted(index, cut, estimate_tokens(cut), truncated=True))
        break
    return out


def _cut(text: str, tokens: int) -> str:
    """The longest head whose estimate, with the ellipsis, is within `tokens`."""
    wide = narrow = 0
    end = 0
    for end, c in enumerate(text):  # noqa: B007
        if ord(c) >= _WIDE:
            wide += 1
        else:
            narrow += 1
        if wide + -(-(narrow + len(ELLIPSIS)) // CHARS_PER_TOKEN) > tokens:
            break
    while end > 0 and _joins(text[end]):
        end -= 1
    return text[:end].rstrip() + ELLIPSIS


def _joins(c: str) -> bool:
    """Does `c` belong to the character before it?"""
    return bool(unicodedata.combining(c)) or c in "\u200d\ufe0e\ufe0f" or 0x1F3FB <= ord(c) <= 0x1F3FF
