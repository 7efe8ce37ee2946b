"""English words that recall knows about: words that carry no topic, irregular forms, everyday kin words. Data only.

A question in another language finds none of its words here and is searched by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STOP_WORDS: Final = frozenset(
    """a an the of to in on at for and or is are was were be been being do does did has have had having what when where who whom
    whose why how which that this these those it its his hers her him their theirs them they he she i you we my your our me us
    from by as about into with than then so if but not no nor too very can could should would will shall may might must just also
    there here up out over under again s t m re ve ll d am any some such own same other each both few more most only""".split()
)

_IRREGULAR: Final = """become became|begin began begun|bring brought|build built|buy bought|catch caught|choose chose chosen|
come came|
do did done|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feel felt|fight fought|find found|
fly flew flown|forget forgot forgotten|get got gotten|give gave given|go went gone|grow grew grown|hang hung|hear heard|hold held|
keep kept|know knew known|lead led|learn learnt|leave left|lend lent|lose lost|make made|mean meant|meet met|pay paid|
ride rode ridden|run ran|say said|see saw seen|sell sold|send sent|show shown|sing sang sung|sit sat|sleep slept|
speak spoke spoken|spend spent|stand stood|swim swam swum|take took taken|teach taught|tell told|think thought|throw threw thrown|
understand understood|wake woke woken|wear wore worn|win won|write wrote written|child children|man men|woman women|person people|
foot feet|tooth teeth|wife wives|life lives|knife knives|shelf shelves"""

_KIN: Final = """child kid|mother mom mum|father dad|picture photo pic image photograph|movie film|tournament tourney|
friend buddy pal|job work career|puppy pup dog|purchase buy get|receive get|start begin|holiday vacation trip|car vehicle|
team squad|attend go|visit go|wife husband spouse partner|enjoy love like|food meal dish"""


def _groups(text: str) -> Mapping[str, tuple[str, ...]]:
    out: dict[str, list[str]] = {}
    for group in text.split("|"):
        words = group.split()
        for word in words:
            out.setdefault(word, []).extend(other for other in words if other != word)
    return MappingProxyType({word: tuple(dict.fromkeys(others)) for word, others in out.items()})


FORMS: Final = _groups(_IRREGULAR)
"""Word → its other forms that no stemmer reaches."""
KIN: Final = _groups(_KIN)
"""Word → words that people use for the same thing."""


def forms(word: str) -> tuple[str, ...]:
    """Other forms of a word, whatever form it comes in."""
    for base in _bases(word):
        if base in FORMS:
            return tuple(form for form in (base, *FORMS[base]) if form != word)
    return ()


def kin(word: str) -> tuple[str, ...]:
    """Words used for the same thing, with their irregular forms."""
    out: list[str] = []
    for base in (*_bases(word), *forms(word)):
        for other in KIN.get(base, ()):
            out += [other, *FORMS.get(other, ())]
    mine = {word, *forms(word)}
    return tuple(other for other in dict.fromkeys(out) if other not in mine)


def _bases(word: str) -> tuple[str, ...]:
    """The word and what it may be an inflection of."""
    out = [word]
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e")):
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            out.append(word[: -len(ending)] + instead)
            if ending in ("ing", "ed") and not instead and len(out[-1]) > 2 and out[-1][-1] == out[-1][-2]:
                out.append(out[-1][:-1])  # running → runn → run
    return tuple(out)
