"""What a caller hands in, checked once at the door. Pure; every refusal says what was got, what is wanted, how to fix it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

from kektordb.errors import InvalidArgumentError, LimitExceededError
from kektordb.memory import limits
from kektordb.memory.normalise import same_name
from kektordb.model.memory import Slot
from kektordb.model.view import Trust

E = TypeVar("E", bound=IntEnum)


def text(value: object, *, what: str = "text", limit: str = "MAX_TEXT_BYTES") -> str:
    """Stored as it is: not composed, not trimmed."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is {type(value).__name__}, wanted str")
    try:
        size_bytes = len(value.encode("utf-8"))
    except UnicodeEncodeError as e:
        raise InvalidArgumentError(
            f"{what} holds a lone surrogate at character {e.start}",
            hint="it was decoded wrongly before it came here; decode with errors='replace'",
        ) from None
    if "\0" in value:
        raise InvalidArgumentError(f"{what} holds a NUL at character {value.index(chr(0))}", hint="remove it")
    most: int = getattr(limits, limit)
    if size_bytes > most:
        raise LimitExceededError(
            f"{what} is {size_bytes} bytes long, at most {most} are kept", hint="split it", limit=limit
        )
    if not value.strip():
        raise InvalidArgumentError(f"{what} is empty", hint="there is nothing to remember")
    return value


def label(value: object, *, what: str) -> str:
    return same_name(text(value, what=what, limit="MAX_LABEL_BYTES"))


def optional_label(value: object, *, what: str) -> str | None:
    return None if value is None else label(value, what=what)


def reason(value: object) -> str:
    return "" if value == "" else text(value, what="reason", limit="MAX_REASON_BYTES")


def tags(value: Sequence[str]) -> list[str]:
    if isinstance(value, str):
        raise InvalidArgumentError(f"tags is the text {value!r}", hint=f"wanted a list: [{value!r}]")
    found = list(dict.fromkeys(label(tag, what="a tag") for tag in value))
    if len(found) > limits.MAX_TAGS:
        raise LimitExceededError(f"{len(found)} tags, at most {limits.MAX_TAGS}", limit="MAX_TAGS")
    return found


def slot(value: object) -> Slot | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) not in (2, 3):
        raise InvalidArgumentError(
            f"slot is {value!r}", hint='wanted (subject, attribute, value): ("Ann", "lives in", "Rome")'
        )
    last = value[2] if len(value) == 3 else None
    return (
        label(value[0], what="the slot's subject"),
        label(value[1], what="the slot's attribute"),
        optional_label(last, what="the slot's value"),
    )


def confidence(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0 or math.isnan(value):
        raise InvalidArgumentError(f"confidence is {value!r}", hint="a number from 0 to 1")
    return float(value)


def member(value: object, kind: type[E], *, what: str) -> E:
    """An enum by its name in any case, or itself."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        for one in kind:
            if one.name.lower() == value.lower():
                return one
    names = ", ".join(repr(one.name.lower()) for one in kind)
    raise InvalidArgumentError(f"{what} is {value!r}", hint=f"one of {names}")


def trust(value: str | Trust) -> Trust:
    return member(value, Trust, what="trust")


def positive(value: int, *, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidArgumentError(f"{what} is {value!r}", hint=f"a whole number from 1 to {most}")
    return value
