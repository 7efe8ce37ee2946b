"""Patterns of LIKE: `%` is any run of characters, `_` one character, a backslash makes the next character plain. Pure.

A pattern is kept in one form: runs of plain characters in NFC, `%%` as `%`, only `%`, `_` and backslashes escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from kektordb.filters.paths import nfc


class Wild(Enum):
    ONE = "_"
    RUN = "%"


Part = str | Wild
"""A run of plain characters, or a wild card."""
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def parts_of(pattern: str) -> list[Part]:
    """The pattern's parts; a backslash at the end stands for itself."""
    out: list[Part] = []
    plain: list[str] = []

    def end_run() -> None:
        if plain:
            out.append(nfc("".join(plain)))
            plain.clear()

    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            plain.append(next(chars, "\\"))
        elif char in "%_":
            end_run()
            if char == "_" or not out or out[-1] is not Wild.RUN:
                out.append(Wild(char))
        else:
            plain.append(char)
    end_run()
    return out


def pattern_of(parts: Sequence[Part]) -> str:
    return "".join(p.value if isinstance(p, Wild) else p.translate(_ESCAPED) for p in parts)


def canonical(pattern: str) -> str:
    """The pattern in the one form it is kept in."""
    return pattern_of(parts_of(pattern))


def matches(parts: Sequence[Part], text: str) -> bool:
    """Does the whole text match? Greedy with one point of return: text x pattern characters at worst."""
    wanted: list[Part] = [unit for p in parts for unit in ([p] if isinstance(p, Wild) else p)]
    i = j = 0
    back: tuple[int, int] | None = None
    while j < len(text):
        if i < len(wanted) and wanted[i] is Wild.RUN:
            i += 1
            back = (i, j)
        elif i < len(wanted) and wanted[i] in (Wild.ONE, text[j]):
            i, j = i + 1, j + 1
        elif back is not None:
            i, j = back[0], back[1] + 1
            back = (i, j)
        else:
            return False
    return all(part is Wild.RUN for part in wanted[i:])
