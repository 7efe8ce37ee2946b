"""A memory that can be written: `db.memory(name, principal=…)` makes one.

Promises: an acknowledged write is on disk (`durability="sync"`); every change is one transaction that carries actor and reason;
a write that fails changes nothing; nothing is ever overwritten, so each past view can be had again with `as_of`; an addition
never leaves fewer memories than there were. Safe to use from several threads; several handles of one store may write at once.
Cost: one embedding and one log record per save; what is read before a write is read under the principal's scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from kektordb.embed.protocol import Embedder
from kektordb.engine.protocol import Json, Store
from kektordb.errors import InvalidArgumentError
from kektordb.memory import checks, drafts, trees
from kektordb.memory.changes import Changer
from kektordb.memory.drafts import Draft
from kektordb.memory.ids import parse_id
from kektordb.memory.layers import MemorySettings
from kektordb.memory.lens import default_lens, everything
from kektordb.memory.rights import own_scope, require
from kektordb.memory.saving import Progress, Saved, Saver, lowest_trust
from kektordb.memory.sessions import Sessions
from kektordb.memory.shelf import Shelf
from kektordb.memory.time import MomentLike, datetime_of, parse_moment
from kektordb.memory.turns import Turn, parse_turn
from kektordb.memory.views import MemoryView, every_row, not_found
from kektordb.model.clock import Clock, SystemClock
from kektordb.model.memory import Memory
from kektordb.model.view import Principal, Trust


class MemoryStore(MemoryView):
    """Reads under the default view (active, valid now, not stale, the principal's scope), and all writes."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        embedder: Embedder,
        principal: Principal | None = None,
        settings: MemorySettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        who = principal or Principal()
        shelf = Shelf(store, name, embedder, settings or MemorySettings(), clock or SystemClock())
        super().__init__(shelf, who, default_lens(who))
        self._actor = "/".join(part or "-" for part in (who.user, who.agent, who.session))
        self._sessions = Sessions(shelf, who, self._actor)
        self._saver = Saver(shelf, self._lens.view, self._actor, self._sessions)
        self._changer = Changer(shelf, who, self._actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Writes the access counts that are still in memory. The store itself stays open."""
        self.flush()

    def flush(self) -> None:
        self._shelf.ledger.flush()

    @property
    def sessions(self) -> Sessions:
        return self._sessions

    @property
    def settings(self) -> MemorySettings:
        return self._shelf.settings

    # Saving.

    def save(
        self,
        text: str,
        *,
        layer: str = "semantic",
        kind: str = "fact",
        tags: Sequence[str] = (),
        slot: Sequence[str | None] | None = None,
        valid_from: MomentLike | None = None,
        valid_to: MomentLike | None = None,
        at: MomentLike | None = None,
        source: str | None = None,
        pinned: bool | None = None,
        confidence: float = 1.0,
        trust: str | Trust = Trust.USER,
        parents: Sequence[str] = (),
        session: str | None = None,
        share: Sequence[str] = (),
        reason: str = "",
        durability: str = "sync",
    ) -> Memory:
        """Stores a statement and returns it.

        An exact duplicate (same words, layer, slot and scope, and true at the same time) is not stored again: the one that is
        there is strengthened and comes back with ``reinforced=True``. Anything else is stored beside what is there.

        slot: (subject, attribute, value). valid_from, valid_to: when it is true in the world, half-open; without them it holds
        from ``at``, the moment it was said, and without that always. parents: versions it was derived from; its trust is then
        at most theirs. share: parts of the scope ("user", "agent", "session") left open to others; needs the right "share".
        """
        require(self._principal, "write", to="save a memory")
        draft = drafts.fact(
            text,
            scope=own_scope(self._principal, tuple(share)),
            now=self._shelf.clock.now(),
            layer=layer,
            kind=kind,
            tags=tags,
            slot=slot,
            valid_from=valid_from,
            valid_to=valid_to,
            at=at,
            source=source,
            confidence=confidence,
            trust=trust,
            parents=parents,
            session=session,
            pinned=pinned,
            reason=reason,
        )
        return self._save_facts([draft], durability=durability)[0]

    def save_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        reason: str = "",
        progress: Progress | None = None,
        durability: str = "sync",
    ) -> list[Memory]:
        """Many statements, each a mapping of `save`'s arguments with its ``text``; embedded in batches, few log records."""
        require(self._principal, "write", to="save memories")
        now, scope = self._shelf.clock.now(), own_scope(self._principal, ())
        made = []
        for place, item in enumerate(items):
            known = {k: v for k, v in item.items() if k != "text"}
            try:
                made.append(drafts.fact(item.get("text", ""), scope=scope, now=now, **{"reason": reason, **known}))
            except TypeError as e:
                raise InvalidArgumentError(f"item {place}: {e}", hint="wanted `text` and arguments of `save`") from e
        return self._save_facts(made, progress=progress, durability=durability)

    def save_turns(
        self,
        turns: Iterable[Mapping[str, Any] | Turn],
        *,
        session: str | None = None,
        source: str | None = None,
        layer: str = "episodic",
        trust: str | Trust = Trust.USER,
        progress: Progress | None = None,
        durability: str = "sync",
    ) -> list[Memory]:
        """A chat in order: each turn a mapping with text, speaker, at, caption, role, tags (all but text may be missing).

        Goes on with the session's numbering where it was left. A turn that is there already (same session, speaker, time and
        words) is strengthened, not stored again, so a chat may be imported twice. `session` is a label, not a scope.
        """
        require(self._principal, "write", to="save turns")
        parsed = [parse_turn(turn, place=place) for place, turn in enumerate(turns)]
        if not parsed:
            return []
        name = self._sessions.start().id if session is None else checks.label(session, what="session")
        made = drafts.said(
            parsed,
            scope=own_scope(self._principal, ()),
            now=self._shelf.clock.now(),
            session=name,
            layer=checks.label(layer, what="layer"),
            source=checks.optional_label(source, what="source"),
            trust=trust,
        )
        return self._read_back(self._saver.save(made, progress=progress, durability=durability))

    def _save_facts(
        self, made: Sequence[Draft], *, progress: Progress | None = None, durability: str = "sync"
    ) -> list[Memory]:
        checked = [self._below_parents(draft) for draft in made]
        if not self._shelf.settings.single_valued:
            return self._read_back(self._saver.save(checked, progress=progress, durability=durability))
        return [self._join_timeline(draft, durability) for draft in checked]

    def _join_timeline(self, draft: Draft, durability: str) -> Memory:
        """One value at a time: a dated save continues (or back-fills) the lineage that holds the slot."""
        held = self._holder_of_slot(draft)
        if held is None:
            return self._read_back(self._saver.save([draft], durability=durability))[0]
        for told in self.history(held):
            same = told.valid_from == datetime_of(draft.window.start.micros) and told.slot == draft.slot
            if same and told.life == "active":
                return replace(self._counted(told.id, again=1), reinforced=True)
        return self.evolve(
            held,
            draft.text,
            valid_from=draft.window.start.micros,
            slot=draft.slot,
            tags=draft.tags or None,
            source=draft.source,
            confidence=draft.confidence,
            trust=draft.trust,
            reason=draft.reason,
            durability=durability,
        )

    # Changing.

    def evolve(
        self,
        id: str,
        text: str | None = None,
        *,
        reason: str = "",
        expected: str | int | None = None,
        valid_from: MomentLike | None = None,
        slot: Sequence[str | None] | None = None,
        layer: str | None = None,
        tags: Sequence[str] | None = None,
        source: str | None = None,
        confidence: float | None = None,
        trust: str | Trust | None = None,
        durability: str = "sync",
    ) -> Memory:
        """A new version; what is not named stays as it was (a new text without a slot leaves the slot's value open).

        With `valid_from` the world changed: the old version stays true until then, and `valid_at` before it finds it. Without,
        the old version was wrong: only `as_of` a moment before now finds it. A `valid_from` before the current version's tells
        an earlier part of the story and leaves the current one as it is.

        A version id, or `expected` (a version's id or number), names the version that was read: if another one is current,
        VersionConflictError names it and nothing is changed.
        """
        if text is None and all(v is None for v in (valid_from, slot, layer, tags, confidence, source)):
            raise InvalidArgumentError("evolve was given nothing to change", hint="a new text, tags, layer, slot, …")
        fields: dict[str, Json] = {}
        told = checks.slot(slot)
        if told is not None:
            fields["slot"] = list(told)
        elif text is not None:
            old = self._changer.target(id).row.payload or {}
            fields["slot"] = None if old.get("slot") is None else [*old["slot"][:2], None]
        if layer is not None:
            fields["layer"] = checks.label(layer, what="layer")
        if tags is not None:
            fields["tags"] = checks.tags(tags) or None
        if source is not None:
            fields["source"] = checks.label(source, what="source")
        if confidence is not None:
            fields["confidence"] = checks.confidence(confidence)
        made = self._changer.evolve(
            id,
            expected=expected,
            start=None if valid_from is None else parse_moment(valid_from, what="valid_from"),
            text=None if text is None else checks.text(text),
            fields=fields,
            trust=None if trust is None else checks.trust(trust),
            reason=checks.reason(reason),
            durability=durability,
        )
        return self._any(made)

    def retract(self, id: str, *, reason: str = "", durability: str = "sync") -> Memory:
        """It was never true. It leaves every view that does not ask for retracted ones, and what was derived from it becomes
        stale in the same transaction. The row and its reason stay; `restore` brings it back."""
        return self._any(self._changer.retract(id, reason=checks.reason(reason), durability=durability))

    def forget(self, id: str, *, reason: str = "", durability: str = "sync") -> Memory:
        """Softly: the same as `retract`. The text stays on disk and in the history."""
        return self.retract(id, reason=reason or "forgotten", durability=durability)

    def delete_all(self, *, reason: str = "") -> int:
        """Retracts all memories of the principal's user in its scope and returns how many. What is open to every user stays.

        Softly: the rows and their history stay on disk.
        """
        return self._changer.retract_all(reason=checks.reason(reason))

    def end_validity(
        self, id: str, *, at: MomentLike | None = None, reason: str = "", durability: str = "sync"
    ) -> Memory:
        """It is no longer true from `at` (now, if not given) on. A past truth stays: `valid_at` before it finds it."""
        moment = parse_moment(self._shelf.clock.now() if at is None else at, what="at")
        return self._any(self._changer.end(id, at=moment, reason=checks.reason(reason), durability=durability))

    def quarantine(self, id: str, *, reason: str = "", durability: str = "sync") -> Memory:
        """Takes a suspicious memory out of every view until it is restored, retracted or rejected."""
        return self._any(self._changer.quarantine(id, reason=checks.reason(reason), durability=durability))

    def restore(self, id: str, *, reason: str = "", durability: str = "sync") -> Memory:
        """Brings a hidden version back as a new one. What took its place meanwhile is superseded by it."""
        return self._any(self._changer.restore(id, reason=checks.reason(reason), durability=durability))

    def consolidate(
        self,
        ids: Sequence[str],
        text: str,
        *,
        layer: str | None = None,
        tags: Sequence[str] | None = None,
        slot: Sequence[str | None] | None = None,
        reason: str = "",
        durability: str = "sync",
    ) -> Memory:
        """Merges memories into a new one. The sources keep their words and ids (`lineage` shows them) and leave the default view.

        The merged one is trusted as the least trusted source, is read by no one who could not read all of them, and holds
        where all of them hold.
        """
        sources = [self._changer.target(source).row for source in ids]
        merged = checks.tags(
            [tag for row in sources for tag in (row.payload or {}).get("tags", ())] if tags is None else tags
        )
        told = checks.slot(slot)
        fields: dict[str, Json] = dict.fromkeys(_OF_A_TURN)
        fields |= {"kind": "fact", "tags": merged or None, "slot": None if told is None else list(told)}
        if layer is not None:
            fields["layer"] = checks.label(layer, what="layer")
        made = self._changer.consolidate(
            ids,
            text=checks.text(text),
            fields=fields,
            lineage=self._shelf.ids.lineage(),
            reason=checks.reason(reason),
            durability=durability,
        )
        return self._any(made)

    # Access data: no versions are made.

    def pin(self, id: str) -> Memory:
        """A pinned memory does not fade."""
        return self._counted(id, pinned=True)

    def unpin(self, id: str) -> Memory:
        return self._counted(id, pinned=False)

    def reinforce(self, id: str) -> Memory:
        """Strengthens a memory as an exact repetition would: it counts as said once more, and as used now."""
        return self._counted(id, again=1)

    def _counted(self, id: str, *, pinned: bool | None = None, again: int = 0) -> Memory:
        require(self._principal, "write", to="strengthen or pin a memory")
        memory = self.view(include=("expired", "stale")).get(id)
        with self._shelf.lock:
            entry = self._shelf.ledger.read([memory.lineage])[memory.lineage]
            entry = replace(entry, reinforcements=entry.reinforcements + again)
            if pinned is not None:
                entry = replace(entry, pinned=pinned)
            if again:
                now = self._shelf.clock.now()
                entry = replace(entry, last_us=now if entry.last_us is None else max(entry.last_us, now))
            with self._shelf.store.writer(actor=self._actor, reason="access data") as writer:
                self._shelf.ledger.write(writer, memory.lineage, entry)
            self._shelf.ledger.forget_unsaved([memory.lineage])
        return self._any(memory.id)

    # What the writes share.

    def _below_parents(self, draft: Draft) -> Draft:
        """A derived memory is trusted at most as its parents, which the principal must be able to see."""
        if not draft.parents:
            return draft
        parents = [self._changer.target(self.get(parent).id).row for parent in draft.parents]
        return replace(draft, parents=tuple(row.id for row in parents), trust=lowest_trust(draft.trust, parents))

    def _holder_of_slot(self, draft: Draft) -> str | None:
        """The lineage that a dated save of a single-valued slot belongs to."""
        if (
            draft.slot is None
            or draft.window.start.precision == "unknown"
            or draft.slot[1] not in self._shelf.settings.single_valued
        ):
            return None
        reader = self._shelf.reader(replace(self._lens.view, ever=True))
        tree = trees.every([trees.has_element("slot", draft.slot[0]), trees.has_element("slot", draft.slot[1])])
        for row in every_row(reader, tree):
            held = (row.payload or {})["slot"]
            if tuple(held[:2]) == draft.slot[:2] and row.stamps.scope == draft.scope:
                return parse_id(row.id)[0]
        return None

    def _any(self, id: str) -> Memory:
        """A version that was just written, in whatever state."""
        reader = self._shelf.reader(everything(self._lens.view))
        row = reader.get([id])[0]
        if row is None:
            raise not_found(id)
        return self._memory(row, reader)

    def _read_back(self, saved: Sequence[Saved]) -> list[Memory]:
        reader = self._shelf.reader(everything(self._lens.view))
        found = {row.id: row for row in reader.get(list({one.id for one in saved})) if row is not None}
        return [self._memory(found[one.id], reader, reinforced=one.repeated) for one in saved]


_OF_A_TURN = ("speaker", "role", "caption", "at", "session", "seq", "source")
