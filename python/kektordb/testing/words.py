"""A plain analyzer for the slow store: words of any script, folded; runs of Chinese, Japanese and Korean as bigrams."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+(?:[-_'][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def words(text: str) -> list[str]:
    """Tokens in order; case, width and diacritics folded. No stemming."""
    split = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    folded = unicodedata.normalize("NFC", "".join(c for c in split if unicodedata.category(c) != "Mn"))
    out: list[str] = []
    for match in _WORD.finditer(folded):
        out.extend(_pieces(match.group()))
    return out


def _pieces(word: str) -> list[str]:
    out: list[str] = []
    at = 0
    for run in _CJK.finditer(word):
        if run.start() > at:
            out.append(word[at : run.start()])
        signs = run.group()
        out.extend([signs] if len(signs) == 1 else [signs[i : i + 2] for i in range(len(signs) - 1)])
        at = run.end()
    if at < len(word):
        out.append(word[at:])
    return out
