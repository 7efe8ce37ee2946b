"""Near-equal texts: the better one stands for all. Pure.

Texts that differ in a number, a date, a version or a negation are never near-equal: "Task 5" is not "Task 6".
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

NEAR: Final = 0.9
"""Share of common words from which two texts count as one."""
MIN_WORDS: Final = 6
"""Shorter texts must be equal but for case, spaces and punctuation."""

_WORD: Final = re.compile(r"\w+")
_NOT: Final = frozenset(
    "not no never nor none nothing without cannot hardly neither nobody nowhere t isn aren wasn weren don doesn didn won".split()
)


def near_equal(a: str, b: str) -> bool:
    """Do the two say the same in the same words? Symmetric; linear in the texts."""
    return _same(_key(a), _key(b))


class Doubles:
    """Takes texts in rank order and tells which earlier one, if any, already says the same.

    What is answered for a text depends on the texts before it only, so a longer list begins like a shorter one. Two bags that share
    nine words of ten share one of their few first words in any fixed order (prefix filtering; Chaudhuri et al., ICDE 2006), so
    a text is compared with those only.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, _Key]] = []
        self._exact: dict[tuple[Hashable, tuple[str, ...]], int] = {}
        self._by_word: dict[tuple[Hashable, str], list[int]] = {}

    def first_like(self, index: int, text: str, *, apart: Hashable = None) -> int | None:
        """The `index` given with the first text like this one, or None: then this one is kept, as the first of its like.
        Texts given with different `apart` values are never doubles."""
        key = _key(text)
        exact = self._exact.get((apart, key.words))
        if exact is not None:
            return exact
        heads = _heads(key)
        for word in heads:
            for place in self._by_word.get((apart, word), ()):
                first, other = self._kept[place]
                if _same(other, key):
                    return first
        for word in heads:
            self._by_word.setdefault((apart, word), []).append(len(self._kept))
        self._exact[apart, key.words] = index
        self._kept.append((index, key))
        return None


@dataclass(frozen=True, slots=True)
class Shown:
    """A place in the answer: the text that is shown, and those it stands for."""

    index: int
    also: tuple[int, ...] = ()


def without_doubles(texts: Sequence[str], *, apart: Sequence[Hashable] | None = None) -> list[Shown]:
    """Texts in rank order; of near-equal ones the first is kept and stands for the rest."""
    doubles, also = Doubles(), dict[int, list[int]]()
    for index, text in enumerate(texts):
        first = doubles.first_like(index, text, apart=apart[index] if apart is not None else None)
        if first is None:
            also[index] = []
        else:
            also[first].append(index)
    return [Shown(index, tuple(others)) for index, others in also.items()]


@dataclass(frozen=True, slots=True)
class _Key:
    words: tuple[str, ...]
    bag: frozenset[str]
    exact: tuple[tuple[str, ...], frozenset[str]]
    """Numbers in order, and negations: these must be equal."""


def _key(text: str) -> _Key:
    words = tuple(_WORD.findall(text.casefold()))
    numbers = tuple(w for w in words if any(c.isdigit() for c in w))
    bag = frozenset(words)
    return _Key(words or (text.strip(),), bag, (numbers, bag & _NOT))


def _heads(key: _Key) -> list[str]:
    """Enough words that a near-equal text must share one: those left out are fewer than what two such texts have in common."""
    order = sorted(key.bag, key=lambda word: (-len(word), word))
    return order[: len(order) - int(NEAR * len(order) + 0.999_999) + 1]


def _same(a: _Key, b: _Key) -> bool:
    if a.words == b.words:
        return True
    if min(len(a.words), len(b.words)) < MIN_WORDS or a.exact != b.exact:
        return False
    return len(a.bag & b.bag) >= NEAR * len(a.bag | b.bag)
