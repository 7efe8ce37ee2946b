"""From the scores of a pool of rows to the named parts of their rank. Pure; numpy only.

Every part is computed when a question is asked, from what the view shows then: a hidden or retracted neighbour is not in the pool
and lends nothing. `rough` costs O(rows x words of the question); `fine` reads the texts of a short list only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kektordb.memory.cues import Cues, DateCue
from kektordb.memory.lexicon import STOP_WORDS
from kektordb.memory.mentions import MONTHS, day_of, mentioned
from kektordb.ranking.fuse import Scores, scaled
from kektordb.ranking.windows import Layout

Parts = dict[str, Scores]

BACK: Final = 0.85
AHEAD: Final = 0.6
"""How a word's weight fades per turn that it was said before, or after, the row."""
LEAST_SPAN: Final = 0.2
"""Cosines of a pool that lie nearer together are not told apart more sharply than this."""
ALONE: Final = 0.5
"""Share of its own meaning that a row without a session counts as its neighbours' meaning."""
OPENING_TURNS: Final = 3
SHORT_CHARS: Final = 40
MEAN_LOG_LENGTH: Final = 3.0
ECHO_ROWS: Final = 8
ECHO_WORDS: Final = 12

_TIME: Final = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|this (?:week|month|year|weekend|morning|summer|winter|spring|fall|past)|"
    r"past|since|recently|just|weeks?|weekend|months?|years?|days?|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    + "|".join(m for m in MONTHS if m != "may")
    + r"|summer|winter|spring|fall|morning|evening|night|birthday|\d{4}|\d+(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\b(\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|couple|few|several|once|twice|first|second|"
    r"third|another|both|half|hundred|thousand)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+")
_SELF: Final = re.compile(r"\b(i|i'm|i've|my|we|our|me)\b", re.IGNORECASE)
_YOU: Final = re.compile(r"\b(you|your)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Pool:
    """Columns of the rows that are ranked, in one order."""

    texts: Sequence[str]
    speakers: Sequence[str | None]
    roles: Sequence[str | None]
    captions: Sequence[str | None]
    at: Sequence[int | None]
    seqs: Sequence[int | None]
    layout: Layout
    meaning: Scores | None
    """Similarity to the question; None if it was not embedded."""
    words: Scores
    """(terms, rows): score of each word of the question in each row."""

    @property
    def size(self) -> int:
        return len(self.texts)


def rough(pool: Pool, cues: Cues, named: Sequence[str]) -> Parts:
    """Parts that need no reading of texts."""
    return (
        _meaning(pool)
        | _words(pool)
        | _speakers(pool, cues, named)
        | _shape(pool)
        | {"date": _dates(pool.at, cues.date)}
    )


def _meaning(pool: Pool) -> Parts:
    if pool.meaning is None:
        return {}
    own, layout = scaled(pool.meaning, least_span=LEAST_SPAN), pool.layout

    def beside(step: int) -> Scores:
        return np.where(layout.alone, ALONE * own, layout.beside(own, step))

    return {
        "meaning_before": beside(-1),
        "meaning_before_2": beside(-2),
        "meaning_after": beside(1),
        "meaning_around": layout.mean_before(own, turns=2),
        "session_meaning": layout.session_top_mean(own, top=3),
        "session_best_meaning": layout.session_best(own),
    }


def _words(pool: Pool) -> Parts:
    words, layout = pool.words, pool.layout
    reachable = words.max(axis=1, initial=0.0) if pool.size else np.zeros(len(words))
    words, reachable = words[reachable > 0], reachable[reachable > 0]
    ideal = float(reachable.sum())
    if ideal <= 0:
        return {}
    own = words.sum(axis=0)
    there = (words > 0) * reachable[:, None]
    return {
        "words_best": own / own.max(),
        "words_near": layout.spread(words, back=BACK, ahead=AHEAD).sum(axis=0) / ideal,
        "words_covered": layout.spread(there, back=0.8, ahead=0.5).sum(axis=0) / ideal,
        "session_words_best": layout.session_best(words).sum(axis=0) / ideal,
    }


def _speakers(pool: Pool, cues: Cues, named: Sequence[str]) -> Parts:
    """Who is asked about. With one name that speaker's turns count; with several, the first one's, less."""
    layout = pool.layout
    asks = _ends_in_question(pool)
    out: Parts = {}
    if named:
        first = _is(pool.speakers, named[0])
        if len(named) == 1:
            other = np.where(_is(pool.speakers, None) > 0, 0.0, 1.0 - first)
            out |= {
                "speaker": first,
                "speaker_answers": first * layout.beside(asks, -1),
                "other_asks": other * asks,
            }
        else:
            out["first_speaker"] = first
    elif cues.of_me and not cues.of_you:
        out["asker"] = _is(pool.roles, "user")
    return out | {"role": _role(pool, cues)}


def _role(pool: Pool, cues: Cues) -> Scores:
    """In a chat with an assistant, what the user said outweighs what the assistant wrote, unless that is asked for."""
    said, wrote = _is(pool.roles, "user"), _is(pool.roles, "assistant")
    return wrote - said if cues.of_you and not cues.of_me else said - wrote


def _shape(pool: Pool) -> Parts:
    chars = np.array([len(t) for t in pool.texts], dtype=np.float64)
    return {
        "length": np.log1p(chars / 5.5) - MEAN_LOG_LENGTH,
        "short": (chars < SHORT_CHARS).astype(np.float64),
        "ends_in_question": _ends_in_question(pool),
        "opening": np.array([seq is not None and seq < OPENING_TURNS for seq in pool.seqs], dtype=np.float64),
        "captioned": np.array([bool(c) for c in pool.captions], dtype=np.float64),
    }


def fine(pool: Pool, cues: Cues, named: Sequence[str], rows: NDArray[np.int64]) -> Parts:
    """Parts that read the texts of the given rows, aligned with `rows`."""
    texts = [_shown(pool, i) for i in rows]
    out: Parts = {}

    def matching(pattern: re.Pattern[str]) -> Scores:
        return np.array([bool(pattern.search(t)) for t in texts], dtype=np.float64)

    own_voice = matching(_SELF)
    out["own_voice"] = own_voice
    if len(named) == 1:
        first = _is([pool.speakers[i] for i in rows], named[0])
        out["speakers_own_voice"] = first * own_voice
        out["to_speaker"] = (1.0 - first) * matching(_YOU)
    if cues.when or cues.how_long:
        time = matching(_TIME)
        out |= {"when": time * cues.when, "how_long": time * cues.how_long}
    if cues.number:
        out["number"] = matching(_NUMBER)
    if cues.name:
        speakers = {part for s in set(pool.speakers) if s for part in s.split()}
        counts = [sum(name not in speakers for name in _NAME.findall(t)) for t in texts]
        out["name"] = np.minimum(np.array(counts, dtype=np.float64), 2.0)
    if cues.title:
        out["title"] = np.array([any(q in t for q in '"“«') for t in texts], dtype=np.float64)
    if cues.date:
        out["told_date"] = np.array([_told(t, pool.at[i], cues.date) for t, i in zip(texts, rows, strict=True)])
    return out


def echo_words(
    pool: Pool, best: Sequence[int], background: Sequence[int], cues: Cues, named: Sequence[str]
) -> list[str]:
    """Words that the best rows so far share and that are rare in the background: what else the answer may be told with.

    Pseudo-relevance feedback (Lavrenko and Croft, Relevance-based language models, SIGIR 2001), over visible rows only.
    """
    skip = {*STOP_WORDS, *cues.terms, *MONTHS} | {part.casefold() for name in named for part in name.split()}
    frequency: Counter[str] = Counter()
    for i in background:
        frequency.update(set(_tokens(_shown(pool, i))))
    weight: dict[str, float] = {}
    for place, i in enumerate(best[:ECHO_ROWS]):
        for token in set(_tokens(_shown(pool, i))) - skip:
            if len(token) > 2 and not token.isdigit():
                rarity = float(np.log((len(background) + 1.0) / (frequency[token] + 0.5)))
                weight[token] = weight.get(token, 0.0) + rarity / (2.0 + place)
    return sorted(weight, key=lambda token: (-weight[token], token))[:ECHO_WORDS]


def _shown(pool: Pool, i: int) -> str:
    caption = pool.captions[i]
    return f"{pool.texts[i]} {caption}" if caption and caption != pool.texts[i] else pool.texts[i]


def _tokens(text: str) -> list[str]:
    return [token.casefold() for token in _WORD.findall(text)]


def _is(values: Sequence[str | None], wanted: str | None) -> Scores:
    return np.array([value == wanted for value in values], dtype=np.float64)


def _ends_in_question(pool: Pool) -> Scores:
    return np.array([t.rstrip().endswith(("?", "？", "؟")) for t in pool.texts], dtype=np.float64)


def _dates(at: Sequence[int | None], asked: DateCue) -> Scores:
    """1 for rows said in the month asked for, more on or near the day, 0.3 if only a year is asked; 1 within an asked span."""
    if not asked:
        return np.zeros(len(at))
    seen: dict[int | None, float] = {}
    out = np.zeros(len(at))
    for i, moment in enumerate(at):
        if moment not in seen:
            said = None if moment is None else day_of(moment)
            seen[moment] = 0.0 if said is None else _date(said, asked)
        out[i] = seen[moment]
    return out


def _date(said: date, asked: DateCue) -> float:
    score = 1.0 if any(span.first <= said <= span.last for span in asked.spans) else 0.0
    if not _in_month(said, asked):
        return score
    if not asked.months:
        return max(score, 0.3)
    if not asked.days:
        return 1.0
    near = min(abs(said.day - day) for day in asked.days)
    return max(score, 0.6 + 0.4 * (near == 0) + 0.2 * (near <= 3))


def _in_month(day: date, asked: DateCue) -> bool:
    if not asked.months and not asked.years:
        return False
    return (not asked.months or day.month in asked.months) and (not asked.years or day.year in asked.years)


def _told(text: str, at: int | None, asked: DateCue) -> float:
    """Does the text tell of a time that the question asks about ("yesterday", said the day after)?"""
    if at is None:
        return 0.0
    for span in mentioned(text, at):
        if any(span.meets(other) for other in asked.spans):
            return 1.0
        for day in (span.first, span.last):
            if _in_month(day, asked) and (not asked.days or day.day in asked.days):
                return 1.0
    return 0.0
