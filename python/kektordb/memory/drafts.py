"""What is about to be saved: checked, stamped, with its duplicate hash. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kektordb.errors import LimitExceededError
from kektordb.memory import checks, limits
from kektordb.memory.normalise import digest
from kektordb.memory.rows import Payload, with_window
from kektordb.memory.time import MomentLike, Window, parse_moment, parse_window
from kektordb.memory.turns import Turn, context_of
from kektordb.model.memory import Slot
from kektordb.model.view import Scope, Stamps, Trust


@dataclass(frozen=True, slots=True)
class Draft:
    """One memory on its way into the store."""

    text: str
    context: str
    kind: str
    layer: str
    scope: Scope
    window: Window
    reference: int
    """The moment at which it was said: what an untold window is compared at."""
    told: bool
    """The caller named a window."""
    tags: tuple[str, ...] = ()
    slot: Slot | None = None
    source: str | None = None
    confidence: float = 1.0
    trust: Trust = Trust.USER
    parents: tuple[str, ...] = ()
    session: str | None = None
    speaker: str | None = None
    role: str | None = None
    caption: str | None = None
    at: int | None = None
    pinned: bool | None = None
    reason: str = ""
    repeat: int | None = None
    """For turns: the how-manieth equal one of its call; None: without a time it cannot be told from another one."""

    def digest(self, key: bytes) -> str | None:
        """Equal for exact duplicates; None where there can be none."""
        if self.kind == "turn" and self.at is None:
            return None
        parts: dict[str, object] = {
            "scope": [self.scope.user, self.scope.agent, self.scope.session],
            "kind": self.kind,
            "layer": self.layer,
        }
        if self.kind == "turn":
            parts |= {"session": self.session, "speaker": self.speaker, "at": self.at, "repeat": self.repeat}
        return digest(key, parts, self.text, self.slot)

    def stamps(self) -> Stamps:
        window = self.window
        return Stamps(trust=self.trust, scope=self.scope, valid_from=window.start.micros, valid_to=window.end.micros)

    def payload(self, lineage: str, version: int, *, seq: int | None = None) -> Payload:
        """Keys without a value are left out."""
        every: Payload = {
            "text": self.text,
            "context": self.context,
            "kind": self.kind,
            "layer": self.layer,
            "tags": list(self.tags) or None,
            "slot": None if self.slot is None else list(self.slot),
            "source": self.source,
            "confidence": self.confidence,
            "parents": list(self.parents) or None,
            "session": self.session,
            "seq": seq,
            "speaker": self.speaker,
            "role": self.role,
            "caption": self.caption,
            "at": self.at,
            "repeat": self.repeat or None,
            "reason": self.reason or None,
            "lineage": lineage,
            "version": version,
        }
        return with_window({k: v for k, v in every.items() if v is not None}, self.window)


def fact(
    text: str,
    *,
    scope: Scope,
    now: int,
    layer: str = "semantic",
    kind: str = "fact",
    tags: Sequence[str] = (),
    slot: Sequence[str | None] | None = None,
    valid_from: MomentLike | None = None,
    valid_to: MomentLike | None = None,
    at: MomentLike | None = None,
    source: str | None = None,
    confidence: float = 1.0,
    trust: str | Trust = Trust.USER,
    parents: Sequence[str] = (),
    session: str | None = None,
    pinned: bool | None = None,
    reason: str = "",
) -> Draft:
    """A single statement. Without `valid_from` it holds from `at` on, the moment it was said; without both, always."""
    said_at = None if at is None else parse_moment(at, what="at").micros
    if len(parents) > limits.MAX_PARENTS:
        raise LimitExceededError(f"{len(parents)} parents, at most {limits.MAX_PARENTS}", limit="MAX_PARENTS")
    return Draft(
        text=checks.text(text),
        context=text,
        kind=checks.label(kind, what="kind"),
        layer=checks.label(layer, what="layer"),
        scope=scope,
        window=parse_window(valid_from, valid_to, reference=None if said_at is None else min(said_at, now)),
        reference=now if said_at is None else said_at,
        told=valid_from is not None or valid_to is not None,
        tags=tuple(checks.tags(tags)),
        slot=checks.slot(slot),
        source=checks.optional_label(source, what="source"),
        confidence=checks.confidence(confidence),
        trust=checks.trust(trust),
        parents=tuple(dict.fromkeys(parents)),
        session=checks.optional_label(session, what="session"),
        at=said_at,
        pinned=pinned,
        reason=checks.reason(reason),
    )


def said(
    turns: Sequence[Turn], *, scope: Scope, now: int, session: str, layer: str, source: str | None, trust: str | Trust
) -> list[Draft]:
    """Turns of a chat. Each holds from the moment it was said; one that is dated after now, from now."""
    repeats: Counter[tuple[str, str | None, int | None]] = Counter()
    out: list[Draft] = []
    for turn in turns:
        key = (turn.text, turn.speaker, turn.at)
        start = None if turn.at is None else min(turn.at, now)
        out.append(
            Draft(
                text=turn.text,
                context=context_of(turn.text, speaker=turn.speaker, at=turn.at, caption=turn.caption),
                kind="turn",
                layer=layer,
                scope=scope,
                window=parse_window(None, None, reference=start),
                reference=now if turn.at is None else turn.at,
                told=False,
                tags=turn.tags,
                source=source,
                trust=checks.trust(trust),
                session=session,
                speaker=turn.speaker,
                role=turn.role,
                caption=turn.caption,
                at=turn.at,
                repeat=repeats[key],
            )
        )
        repeats[key] += 1
    return out
