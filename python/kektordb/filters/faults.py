"""What a fault in a filter's text looks like: what was wanted, what was got, the text and a caret under the place."""

from __future__ import annotations

import unicodedata
from typing import Final

from kektordb.errors import FilterSyntaxError

_BEFORE: Final = 60
_AFTER: Final = 40
"""Characters of the text that are shown around the place."""


def fault(text: str, position: int, message: str, *, hint: str = "") -> FilterSyntaxError:
    """`position` is a character of `text`, from 0; its length stands for the end."""
    return FilterSyntaxError(
        f"{message}\n{_pointed(text, position)}\n", position=position, hint=hint, filter=text[:200]
    )


def _pointed(text: str, position: int) -> str:
    start, end = max(0, position - _BEFORE), min(len(text), position + _AFTER)
    before, after = _shown(text[start:position]), _shown(text[position:end])
    lead, tail = "…" if start else "", "…" if end < len(text) else ""
    return f"    {lead}{before}{after}{tail}\n    {' ' * (len(lead) + _columns(before))}^"


def _shown(text: str) -> str:
    """Line breaks, controls and marks that turn the direction of writing would move the caret."""
    return "".join(" " if c.isspace() else "\N{MIDDLE DOT}" if unicodedata.category(c)[0] == "C" else c for c in text)


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
