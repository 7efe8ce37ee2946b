"""What a memory looks like to a program: frozen values, made from what a view shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from kektordb.model.view import Scope

LifeName = Literal["active", "pending", "superseded", "consolidated", "retracted", "quarantined", "rejected", "erased"]
Slot = tuple[str, str, str | None]
"""Subject, attribute, value. The value is None where a rewording did not name the new one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One version of one memory, as a view shows it. All moments are in UTC."""

    id: str
    """`<lineage>.<version>`."""
    lineage: str
    version: int
    text: str
    kind: str = "fact"
    layer: str = "semantic"
    tags: tuple[str, ...] = ()
    slot: Slot | None = None
    valid_from: datetime | None = None
    """World time, half-open: true from here ... None = not known, always."""
    valid_to: datetime | None = None
    """... and no longer true from here on. None = no known end."""
    valid_from_precision: str = "unknown"
    valid_to_precision: str = "unknown"
    recorded_at: datetime | None = None
    """Belief time: when this version was first written."""
    superseded_at: datetime | None = None
    """Belief time: when a later version took its place (it may still be true for earlier moments of the world)."""
    superseded_by: str | None = None
    life: LifeName = "active"
    belief: str = "asserted"
    confidence: float = 1.0
    trust: str = "user"
    stale: bool = False
    """Derived from something that was retracted since."""
    scope: Scope = field(default_factory=Scope)
    source: str | None = None
    parents: tuple[str, ...] = ()
    """Versions that this one was derived from."""
    reason: str = ""
    """Why this version is in the state it is in."""
    pinned: bool = False
    accesses: int = 0
    last_access: datetime | None = None
    reinforcements: int = 1
    """How often it was said: 1, and one more for each exact repetition."""
    reinforced: bool = False
    """The call that returned this value met an exact duplicate and strengthened it."""
    context: str = ""
    """What is embedded and indexed for words: the text, with speaker, time and caption beside it for a turn."""
    speaker: str | None = None
    role: str | None = None
    at: datetime | None = None
    """When it was said."""
    caption: str | None = None
    session: str | None = None
    seq: int | None = None
    """Place in its session."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: moments in ISO 8601 with `Z`."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Scope):
        return {"user": value.user, "agent": value.agent, "session": value.session}
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """One answer of a recall: the memory, and why it is there. Hits come best first; equal scores in id order."""

    memory: Memory
    text: str
    """The memory's text, cut where the token budget ended (`truncated`)."""
    score: float
    """What it was ranked by; comparable within one recall only."""
    relevance: float
    """How much it has to do with the question, 0 to 1, comparable between recalls."""
    tokens: int = 0
    """Estimate for `text`."""
    truncated: bool = False
    also: tuple[str, ...] = ()
    """Memories with near-equal text that this hit stands for."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What each part of the ranking gave to `score`; empty unless asked for (`explain`)."""

    @property
    def id(self) -> str:
        return self.memory.id

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the memory's own beside `score`, `relevance` and what else the hit says."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in ("memory", "parts")}
        return {**self.memory.to_json(), **own, "parts": dict(self.parts)}


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a version comes from and what was made of it, in whatever state those are."""

    memory: Memory
    parents: tuple[Memory, ...]
    children: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A run of memories in id order; `next` continues after it (None = the end)."""

    memories: tuple[Memory, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class MemoryDiff:
    """What one view showed at two moments of belief time."""

    added: tuple[Memory, ...]
    removed: tuple[Memory, ...]
    changed: tuple[tuple[Memory, Memory], ...]
    """Before and after of lineages that are in both."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class Session:
    """A span of work of one principal. It is stored: it survives the process that started it."""

    id: str
    started_at: datetime
    ended_at: datetime | None = None
    title: str | None = None
    turns: int = 0
    """How many turns were saved in it; the next one's `seq`."""

    @property
    def is_open(self) -> bool:
        return self.ended_at is None
