"""What each part of a rank counts. One table; the only place with fitted numbers.

Fitted by `benches/locomo.py --fit` on conversations 0, 3 and 6 of LoCoMo (Maharana et al., ACL 2024): listwise softmax likelihood
of the evidence with a ridge, then rounded. Parts are on comparable scales (shares from 0 to 1, flags, a centred log length), so a
weight reads as "log odds for the whole of it". No weight was fitted on the other seven
conversations, but their totals were seen while parts were chosen: another set is needed to call the figure unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MEANING: Final[Mapping[str, float]] = MappingProxyType(
    {
        "meaning_around": 2.65,
        "meaning_after": 0.72,
        "meaning_before": 0.14,
        "meaning_before_2": 0.06,
        "session_meaning": 0.12,
        "session_best_meaning": 1.53,
    }
)
"""The vector arm."""
WORDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "words_best": 0.65,
        "words_near": 2.21,
        "words_covered": 2.45,
        "session_words_best": 1.32,
        "echo": 1.02,
    }
)
"""The text arm."""
CUES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "speaker": 1.29,
        "first_speaker": 0.87,
        "speaker_answers": 0.47,
        "speakers_own_voice": 0.97,
        "other_asks": 0.70,
        "to_speaker": -0.31,
        "asker": 0.50,
        "role": 0.50,
        "date": 2.13,
        "told_date": 1.02,
        "when": 1.90,
        "how_long": 0.86,
        "number": 0.72,
        "name": 1.13,
        "title": 1.14,
        "own_voice": -0.23,
        "opening": 0.20,
        "captioned": 0.17,
        "length": 0.25,
        "short": 0.20,
        "ends_in_question": -0.36,
    }
)
"""What the question asks for beside its topic, and what a row looks like."""
ALL: Final[Mapping[str, float]] = MappingProxyType({**MEANING, **WORDS, **CUES})
BY_HAND: Final = frozenset({"role", "asker"})
"""Not fitted."""
EITHER_SIGN: Final = frozenset({"length", "short", "ends_in_question", "own_voice", "to_speaker", "captioned"})
"""Parts that may speak against a row; all others only speak for it."""
