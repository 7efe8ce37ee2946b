"""A chat, turn by turn: what comes in, and the text that is embedded and indexed for each turn. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kektordb.errors import InvalidArgumentError
from kektordb.memory import checks
from kektordb.memory.time import MomentLike, datetime_of, parse_moment

_MONTHS = "January February March April May June July August September October November December".split()
_KNOWN = frozenset({"speaker", "text", "at", "caption", "role", "tags", "session", "source"})


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at one moment."""

    text: str
    speaker: str | None = None
    at: int | None = None
    caption: str | None = None
    """What a shared picture shows."""
    role: str | None = None
    """"user" or "assistant" where the chat tells."""
    tags: tuple[str, ...] = ()


def parse_turn(value: Mapping[str, Any] | Turn, *, place: int) -> Turn:
    """`place` is named in the error. A turn without words must at least have a caption."""
    if isinstance(value, Turn):
        return value
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(
            f"turn {place} is {type(value).__name__}", hint="wanted {'speaker': …, 'text': …, 'at': …}"
        )
    unknown = sorted(set(value) - _KNOWN)
    if unknown:
        raise InvalidArgumentError(f"turn {place} has {unknown}", hint=f"known are {sorted(_KNOWN)}")
    at: MomentLike | None = value.get("at")
    caption = checks.optional_label(value.get("caption") or None, what=f"caption of turn {place}")
    said = value.get("text")
    return Turn(
        text=caption if caption and not said else checks.text(said, what=f"text of turn {place}"),
        speaker=checks.optional_label(value.get("speaker") or None, what=f"speaker of turn {place}"),
        at=None if at is None else parse_moment(at, what=f"at of turn {place}").micros,
        caption=caption,
        role=checks.optional_label(value.get("role") or None, what=f"role of turn {place}"),
        tags=tuple(checks.tags(value.get("tags") or ())),
    )


def context_of(text: str, *, speaker: str | None, at: int | None, caption: str | None) -> str:
    """`[8 May 2023 13:56] Caroline: I got the job! [shares image: a desk]`; what is not known is left out.

    Speaker, date and caption beside the text are worth 20 points of recall on chats.
    """
    parts = [text]
    if speaker:
        parts.insert(0, f"{speaker}:")
    if at is not None:
        parts.insert(0, f"[{_spoken(datetime_of(at))}]")
    if caption and caption != text:
        parts.append(f"[shares image: {caption}]")
    return " ".join(parts)


def _spoken(at: datetime | None) -> str:
    if at is None:
        return "unknown time"
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year} {at.hour:02}:{at.minute:02}"
