"""Who reads, at which moment, and which states they asked for.

A `View` is data: the one rule that turns it into "visible or not" lives in the engine (`rust/src/view/rule.rs`), with a
slow twin in `kektordb.testing` that the tests compare it to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

FOREVER: Final = 2**63 - 1
"""Open end of an interval, in microseconds."""
EVER: Final = -(2**63)
"""Open start of an interval, in microseconds."""


class Life(IntEnum):
    """Life state of a version. The numbers are on disk."""

    GONE = 0
    """In no view after its end: the record was replaced by another record of the same version."""
    ACTIVE = 1
    PENDING = 2
    SUPERSEDED = 3
    CONSOLIDATED = 4
    RETRACTED = 5
    QUARANTINED = 6
    REJECTED = 7
    ERASED = 8


class Belief(IntEnum):
    """Belief state of a version. The numbers are on disk."""

    ASSERTED = 0
    CORROBORATED = 1
    CONTESTED = 2
    REFUTED = 3


class Trust(IntEnum):
    """Where a statement comes from, least trusted first. The numbers are on disk."""

    OUTSIDE = 0
    INFERENCE = 1
    IMPORT = 2
    TOOL = 3
    USER = 4


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose a row is. An unset part is open to every reader."""

    user: str | None = None
    agent: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. A part that is None reads only rows whose same part is open.

    ``rights``: read, write, evolve, retract, review, override, share, export, erase, admin.
    """

    user: str | None = None
    agent: str | None = None
    session: str | None = None
    rights: frozenset[str] = frozenset({"read", "write", "evolve", "retract", "review", "export", "erase"})


@dataclass(frozen=True, slots=True)
class View:
    """What a reader may see. Moments are microseconds since 1970 UTC.

    principal: None = every scope (the owner of an embedded database using plain collections).
    as_of: belief time; None = now. A record is known from its `tx_from` until its `tx_to`.
    valid_at: world time; None = now. ``ever=True`` ignores the valid window.
    life: the states asked for. A record has its own state until `tx_to`, its `end_life` afterwards.
    """

    principal: Principal | None = None
    as_of: int | None = None
    valid_at: int | None = None
    ever: bool = False
    life: frozenset[Life] = frozenset({Life.ACTIVE})
    refuted: bool = False
    stale: bool = False
    min_trust: Trust = Trust.OUTSIDE


@dataclass(frozen=True, slots=True)
class Stamps:
    """What the view rule reads of a row, beside the times that the engine sets itself."""

    life: Life = Life.ACTIVE
    belief: Belief = Belief.ASSERTED
    trust: Trust = Trust.USER
    scope: Scope = field(default_factory=Scope)
    valid_from: int = EVER
    valid_to: int = FOREVER
    stale: bool = False
