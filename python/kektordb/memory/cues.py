"""What a question tells beside its topic: who, when, and what kind of answer is wanted. Pure.

Cues are general English; a question in another language has none and is ranked by words and meaning alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kektordb.memory.lexicon import STOP_WORDS
from kektordb.memory.mentions import MONTHS, Span, mentioned

MAX_TERMS: Final = 32
"""Words of a question that are looked up; the rest of a longer one is left to the vector."""

_WORD: Final = re.compile(r"\w+")
_MONTH: Final = re.compile(rf"\b({'|'.join(MONTHS)})\b", re.IGNORECASE)
_YEAR: Final = re.compile(r"\b((?:19|20)\d\d)\b")
_DAY: Final = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\b(?!\s*(?::|am\b|pm\b|%))", re.IGNORECASE)
_WHEN: Final = re.compile(
    r"^\W*(?:when|(?:on |in |at )?(?:what|which) (?:date|day|month|year|time|week))\b|\bhow long ago\b|\bsince when\b",
    re.IGNORECASE,
)
_HOW_LONG: Final = re.compile(r"\bhow (?:long|old|often)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\bhow (?:many|much|long|old|often|far|big)\b|\bnumber\b", re.IGNORECASE)
_NAME: Final = re.compile(
    r"^\W*(?:where|who)\b|\bwhich\b|\bwhat (?:is|are|was|were) the (?:name|title)|\b(?:name|country|city|state|place)s?\b",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(
    r"\b(?:book|movie|film|song|game|title|called|name|read|watch|quote|say|said|sign|poster)(?:s|ed|ing)?\b",
    re.IGNORECASE,
)
_I: Final = re.compile(r"\b(?:i|i'm|i've|my|me|mine|we|our)\b", re.IGNORECASE)
_YOU: Final = re.compile(r"\b(?:you|your)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DateCue:
    """Parts of a calendar date that the question names. `spans`: times relative to the moment of asking ("last week")."""

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    spans: tuple[Span, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.spans)


@dataclass(frozen=True, slots=True)
class Cues:
    terms: tuple[str, ...]
    """Words that carry the topic, in order, case folded, each once."""
    date: DateCue
    when: bool = False
    how_long: bool = False
    number: bool = False
    name: bool = False
    title: bool = False
    of_me: bool = False
    """The asker asks about themselves."""
    of_you: bool = False
    """The asker asks what the other side said or did."""


def read(question: str, *, now: int | None = None) -> Cues:
    """`now`: the moment of asking, microseconds; without it "last week" tells nothing."""
    words = [word.casefold() for word in _WORD.findall(question)]
    topic = [word for word in words if word not in STOP_WORDS]
    return Cues(
        terms=tuple(dict.fromkeys(topic or words))[:MAX_TERMS],
        date=_date(question, now),
        when=bool(_WHEN.search(question)),
        how_long=bool(_HOW_LONG.search(question)),
        number=bool(_NUMBER.search(question)),
        name=bool(_NAME.search(question)),
        title=bool(_TITLE.search(question)),
        of_me=bool(_I.search(question)),
        of_you=bool(_YOU.search(question)),
    )


def named(question: str, speakers: Iterable[str]) -> list[str]:
    """Speakers whom the question names, in the order it names them.

    By any word of their name in any case, or by a capitalised short form of three letters or more ("Mel" for "Melanie").
    """
    words = _WORD.findall(question)
    found: list[tuple[int, str]] = []
    for speaker in sorted(set(speakers)):
        names = [name for name in (part.casefold() for part in _WORD.findall(speaker)) if name not in STOP_WORDS]
        at = next((i for i, word in enumerate(words) if _is_name(word, names)), None)
        if at is not None:
            found.append((at, speaker))
    return [speaker for _, speaker in sorted(found)]


def without_names(terms: Sequence[str], speakers: Iterable[str]) -> tuple[str, ...]:
    """Terms that are no part or short form of the named speakers' names."""
    names = [part.casefold() for speaker in speakers for part in _WORD.findall(speaker)]
    return tuple(t for t in terms if not any(n == t or (len(t) >= 3 and n.startswith(t)) for n in names))


def _is_name(word: str, names: Sequence[str]) -> bool:
    folded = word.casefold()
    if folded in names:
        return True
    short = len(word) >= 3 and word[0].isupper() and folded not in STOP_WORDS
    return short and any(name.startswith(folded) for name in names)


def _date(question: str, now: int | None) -> DateCue:
    months = {MONTHS.index(m.lower()) + 1 for m in _MONTH.findall(question) if m.lower() != "may" or m == "May"}
    without_years = _YEAR.sub(" ", question)
    days = {int(d) for d in _DAY.findall(without_years) if 1 <= int(d) <= 31} if months else set()
    return DateCue(
        months=frozenset(months),
        years=frozenset(int(y) for y in _YEAR.findall(question)),
        days=frozenset(days),
        spans=() if now is None else tuple(mentioned(question, now)),
    )
