"""What each part of a rank counts. One table; the only place with fitted numbers.

Fitted by `benches/locomo.py --fit` on conversations 0, 3 and 6 of LoCoMo (Maharana et al., ACL 2024): listwise softmax likelihood
of the evidence with a ridge, then rounded, repeated until the table stood still. Parts are on comparable scales (shares from 0 to
1, flags, a centred log length), so a weight reads as "log odds for the whole of it". No weight was fitted on the other seven
conversations, but their totals were seen while parts were chosen: another set is needed to call the figure unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MEANING: Final[Mapping[str, float]] = MappingProxyType(
    {
        "meaning_around": 2.64,
        "meaning_after": 0.84,
        "meaning_before": 0.14,
        "meaning_before_2": 0.04,
        "session_meaning": 0.61,
        "session_best_meaning": 1.89,
    }
)
"""The vector arm."""
WORDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "words_best": 0.82,
        "words_near": 2.21,
        "words_covered": 2.69,
        "session_words_best": 1.47,
        "echo": 0.63,
    }
)
"""The text arm."""
CUES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "speaker": 1.79,
        "first_speaker": 0.87,
        "speaker_answers": 0.44,
        "speakers_own_voice": 0.77,
        "other_asks": 0.82,
        "to_speaker": -0.32,
        "asker": 0.50,
        "role": 0.50,
        "date": 2.21,
        "told_date": 0.95,
        "when": 2.05,
        "how_long": 0.90,
        "number": 0.70,
        "name": 1.00,
        "title": 1.17,
        "own_voice": -0.05,
        "opening": 0.21,
        "captioned": 0.15,
        "length": 0.34,
        "short": 0.18,
        "ends_in_question": -0.31,
    }
)
"""What the question asks for beside its topic, and what a row looks like."""
ALL: Final[Mapping[str, float]] = MappingProxyType({**MEANING, **WORDS, **CUES})
BY_HAND: Final = frozenset({"role", "asker"})
"""Not fitted."""
EITHER_SIGN: Final = frozenset({"length", "short", "ends_in_question", "own_voice", "to_speaker", "captioned"})
"""Parts that may speak against a row; all others only speak for it."""
