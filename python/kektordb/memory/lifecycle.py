"""The life of a version: every state, every event, what comes of it. Data and one function; no I/O.

No other module decides whether a step is possible. A pair that is not in the table is a fault of the table, and a test
walks all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kektordb.errors import TransitionError
from kektordb.model.view import Life


class Event(Enum):
    """What can happen to a version."""

    SAVE = "save"
    HOLD = "hold"
    """A save that policy or a near tombstone sends to review."""
    APPROVE = "approve"
    REJECT = "reject"
    EVOLVE = "evolve"
    CONSOLIDATE = "consolidate"
    CONTEST = "contest"
    PICK = "pick"
    """It won a contradiction."""
    DROP = "drop"
    """It lost one."""
    KEEP_BOTH = "keep both"
    RETRACT = "retract"
    END = "end"
    """No longer true from a moment on; a past truth stays."""
    MARK_STALE = "mark stale"
    """Something it was derived from was retracted, rejected or erased."""
    FRESHEN = "freshen"
    """That something is back."""
    QUARANTINE = "quarantine"
    RESTORE = "restore"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class Step:
    """An allowed step."""

    to: Life
    """State of the version afterwards."""
    right: str
    """What the principal needs."""
    successor: bool = False
    """A new version is made beside it: of the same lineage (evolve, restore) or the merged one (consolidate)."""
    cascades: bool = False
    """What was derived from it becomes stale in the same transaction."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A step that does not exist, and what to do instead."""

    hint: str


_A, _P, _S, _C = Life.ACTIVE, Life.PENDING, Life.SUPERSEDED, Life.CONSOLIDATED
_R, _Q, _J, _E = Life.RETRACTED, Life.QUARANTINED, Life.REJECTED, Life.ERASED

STATES: Final[tuple[Life | None, ...]] = (None, _A, _P, _S, _C, _R, _Q, _J, _E)
"""None: there is no such version yet. GONE is no state of a version: it marks a record that another one replaced."""

_x = None
# fmt: off
_TARGETS: Final[Mapping[Event, tuple[Life | None, ...]]] = {
    # from:            none  act  pend supe cons retr quar reje eras
    Event.SAVE:        (_A,  _x,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.HOLD:        (_P,  _x,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.APPROVE:     (_x,  _x,  _A,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.REJECT:      (_x,  _x,  _J,  _x,  _x,  _x,  _J,  _x,  _x),
    Event.EVOLVE:      (_x,  _S,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.CONSOLIDATE: (_x,  _C,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.CONTEST:     (_x,  _A,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.PICK:        (_x,  _A,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.DROP:        (_x,  _R,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.KEEP_BOTH:   (_x,  _A,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.RETRACT:     (_x,  _R,  _x,  _x,  _x,  _x,  _R,  _x,  _x),
    Event.END:         (_x,  _A,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.MARK_STALE:  (_x,  _A,  _P,  _x,  _x,  _x,  _Q,  _x,  _x),
    Event.FRESHEN:     (_x,  _A,  _P,  _x,  _x,  _x,  _Q,  _x,  _x),
    Event.QUARANTINE:  (_x,  _Q,  _x,  _x,  _x,  _x,  _x,  _x,  _x),
    Event.RESTORE:     (_x,  _x,  _x,  _A,  _A,  _A,  _A,  _A,  _x),
    Event.ERASE:       (_x,  _E,  _E,  _E,  _E,  _E,  _E,  _E,  _x),
}
# fmt: on

_RIGHTS: Final[Mapping[Event, str]] = {
    Event.SAVE: "write",
    Event.HOLD: "write",
    Event.APPROVE: "review",
    Event.REJECT: "review",
    Event.EVOLVE: "evolve",
    Event.CONSOLIDATE: "evolve",
    Event.CONTEST: "evolve",
    Event.PICK: "review",
    Event.DROP: "review",
    Event.KEEP_BOTH: "review",
    Event.RETRACT: "retract",
    Event.END: "evolve",
    Event.MARK_STALE: "retract",
    Event.FRESHEN: "review",
    Event.QUARANTINE: "review",
    Event.RESTORE: "review",
    Event.ERASE: "erase",
}
_SUCCESSOR: Final = frozenset({Event.EVOLVE, Event.CONSOLIDATE, Event.RESTORE})
_CASCADES: Final = frozenset({Event.RETRACT, Event.DROP, Event.REJECT, Event.ERASE})

_HINTS: Final[Mapping[Life | None, str]] = {
    None: "save it first",
    _A: "it is active",
    _P: "it waits for review: approve or reject it",
    _S: "a later version took its place: name that one, or restore this one",
    _C: "it was merged into another memory: name that one, or restore this one",
    _R: "it was retracted: restore it first",
    _Q: "it is quarantined: restore, retract or reject it",
    _J: "it was rejected: restore it first",
    _E: "it was erased: nothing of it is left",
}

TABLE: Final[Mapping[tuple[Life | None, Event], Step | Refused]] = {
    (state, event): (
        Refused(_HINTS[state])
        if target is None
        else Step(target, _RIGHTS[event], event in _SUCCESSOR, event in _CASCADES)
    )
    for event, targets in _TARGETS.items()
    for state, target in zip(STATES, targets, strict=True)
}


def step(state: Life | None, event: Event, *, id: str = "") -> Step:
    """What `event` makes of a version in `state`; TransitionError where the table has no such step."""
    found = TABLE[state, event]
    if isinstance(found, Refused):
        name = "absent" if state is None else state.name.lower()
        raise TransitionError(f"cannot {event.value} {id or 'it'} while it is {name}", hint=found.hint, id=id)
    return found
