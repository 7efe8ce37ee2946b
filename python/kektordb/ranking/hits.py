"""What a recall hands out: a frozen value per hit, with where it comes from and why it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecallHit:
    """One recalled memory. Hits come best first; equal scores come in id order."""

    id: str
    text: str
    """As saved; cut at a character where the token budget ended (`truncated`)."""
    score: float
    """What it was ranked by: the sum of `parts`. Comparable within one recall only."""
    relevance: float
    """How much it has to do with the question, absolutely: the larger of cosine and share of the question's words found, 0 to 1."""
    layer: str = ""
    speaker: str | None = None
    role: str | None = None
    at: int | None = None
    """When it was said, microseconds since 1970 UTC."""
    session: str | None = None
    seq: int | None = None
    caption: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()
    slot: tuple[str | None, ...] | None = None
    pinned: bool = False
    tokens: int = 0
    """Estimate for `text`."""
    truncated: bool = False
    also: tuple[str, ...] = ()
    """Ids of memories with near-equal text that this hit stands for."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Contribution of each part to `score`; empty unless asked for (`explain`)."""
