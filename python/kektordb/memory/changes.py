"""Steps that change what is there: evolve, retract, end, restore, consolidate, quarantine. Each is one transaction.

Whether a step is possible, and which right it needs, is read from the lifecycle table; the writer expects every version it
touches to be open still, so that of two handles that change one version at once, one wins and the other is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kektordb.engine.protocol import Json, Reader, Row, Vector, Writer
from kektordb.errors import AlreadyExistsError, InvalidArgumentError, VersionConflictError
from kektordb.memory import cascade, limits, rows, timeline
from kektordb.memory.ids import parse_id, version_id
from kektordb.memory.lens import every_scope, everything
from kektordb.memory.lifecycle import Event, Step, step
from kektordb.memory.rights import is_own, require, require_own
from kektordb.memory.rows import Payload
from kektordb.memory.saving import digest_of, lowest_trust
from kektordb.memory.shelf import Shelf
from kektordb.memory.time import Moment, Window, checked_window, iso
from kektordb.memory.turns import context_of
from kektordb.memory.views import every_row, not_found, versions
from kektordb.model.view import FOREVER, Belief, Life, Principal, Scope, Stamps, Trust, View

_ENDS = {Life.ACTIVE: Event.RETRACT, Life.QUARANTINED: Event.RETRACT, Life.PENDING: Event.REJECT}
"""How each open state ends when everything is deleted."""
_OF_ITS_VERSION = (
    "recorded_at",
    "superseded_by",
    "superseded_at",
    "restored_from",
    "reason",
    "repeat",
)
"""Payload keys that the next version does not inherit."""


@dataclass(frozen=True, slots=True)
class Target:
    """A version to be changed, among its lineage."""

    row: Row
    versions: tuple[Row, ...]
    reader: Reader

    @property
    def next_id(self) -> str:
        lineage, _ = parse_id(self.row.id)
        return version_id(lineage, len(self.versions) + 1)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an evolve will write."""

    target: Target
    step: Step
    place: timeline.Place
    base: Row
    """The version whose other fields go on."""
    payload: Payload


class Changer:
    """Changes rows for one principal."""

    def __init__(self, shelf: Shelf, principal: Principal, actor: str) -> None:
        self._shelf = shelf
        self._principal = principal
        self._actor = actor

    # Finding what is meant.

    def target(self, id: str) -> Target:
        """A version by its id; by a lineage id the current one, or the newest where none is active."""
        lineage, version = parse_id(id)
        reader = self._shelf.reader(everything(View(principal=self._principal)))
        found = tuple(versions(reader, lineage))
        if not found or (version is not None and version > len(found)):
            raise not_found(id)
        row = found[version - 1] if version is not None else (timeline.current(found, reader.now) or found[-1])
        return Target(row, found, reader)

    def _allowed(self, row: Row, event: Event) -> Step:
        found = step(row.life, event, id=row.id)
        require(self._principal, found.right, to=f"{event.value} a memory")
        require_own(self._principal, row.stamps.scope, to=event.value)
        return found

    @contextmanager
    def _writing(self, target: Target, reason: str, durability: str = "sync") -> Iterator[Writer]:
        """A transaction that fails with the name of the current version if the target was changed meanwhile."""
        try:
            with self._shelf.store.writer(actor=self._actor, reason=reason, durability=durability) as writer:
                yield writer
        except (VersionConflictError, AlreadyExistsError) as e:
            now = self.target(parse_id(target.row.id)[0])
            raise stale(target.row.id, now.row.id) from e

    # The steps.

    def evolve(
        self,
        id: str,
        *,
        expected: str | int | None,
        start: Moment | None,
        text: str | None,
        fields: Mapping[str, Json],
        trust: Trust | None,
        reason: str,
        durability: str,
    ) -> str:
        """The id of the new version. Without `start` the current version was wrong; with it the world changed then."""
        known = None if text is None else self._embedded(self._plan(id, expected, start, text, fields, reason))
        with self._shelf.lock:
            plan = self._plan(id, expected, start, text, fields, reason)
            target, place, base = plan.target, plan.place, plan.base
            stamps = replace(
                rows.stamps_with(base.stamps, place.window),
                trust=min(base.stamps.trust, Trust.USER if trust is None else trust),
                stale=base.stamps.stale and text is None,
                belief=base.stamps.belief if text is None else Belief.ASSERTED,
            )
            if known is not None and known[0] != plan.payload["context"]:
                known = self._embedded(plan)  # the version changed while the vector was made
            with self._writing(target, reason or "evolve", durability) as writer:
                writer.expect_open(self._shelf.collection, target.row.id)
                self._supersede(writer, place.replaces, plan.step, by=target.next_id, reason=reason)
                if place.ends is not None:
                    self._end(writer, place.ends, place.window.start, reason=reason, by=target.next_id)
                vector = None if known is None else known[1]
                self._put(writer, target.next_id, plan.payload, stamps, vector=vector, like=base.id)
            return target.next_id

    def _plan(
        self,
        id: str,
        expected: str | int | None,
        start: Moment | None,
        text: str | None,
        fields: Mapping[str, Json],
        reason: str,
    ) -> _Plan:
        target = self.target(id)
        self._expect(target, id, expected)
        found = self._allowed(target.row, Event.EVOLVE)
        if start is None:
            place = timeline.Place(rows.window_of(target.row), replaces=(target.row,))
        else:
            place = timeline.place_from(target.versions, start)
        base = target.row if place.ends is None else place.ends
        payload = next_payload(base, target.next_id, text, fields, place.window, reason)
        return _Plan(target, found, place, base, payload)

    def _embedded(self, plan: _Plan) -> tuple[str, Vector]:
        context: str = plan.payload["context"]
        return context, self._shelf.embed([context])[0]

    def retract(self, id: str, *, reason: str, durability: str) -> str:
        with self._shelf.lock:
            target = self.target(id)
            found = self._allowed(target.row, Event.RETRACT)
            with self._writing(target, reason or "retract", durability) as writer:
                self._close(writer, target.row, found, Event.RETRACT, reason=reason)
                if found.cascades:
                    cascade.mark_stale(writer, self._shelf.collection, self._of_all(), [target.row.id])
            return target.row.id

    def retract_all(self, *, reason: str) -> int:
        """All that is active in the principal's own scope; what others read too stays."""
        require(self._principal, "retract", to="delete all memories")
        view = replace(everything(View(principal=self._principal)), life=frozenset(_ENDS))
        own = [row for row in every_row(self._shelf.reader(view), None) if is_own(self._principal, row.stamps.scope)]
        done = 0
        for start in range(0, len(own), limits.CLOSES_PER_RECORD):
            with self._shelf.lock:
                part = [row for row in own[start : start + limits.CLOSES_PER_RECORD] if self._still(row)]
                with self._shelf.store.writer(actor=self._actor, reason=reason or "delete all") as writer:
                    for row in part:
                        event = _ENDS[row.life]
                        self._close(writer, row, self._allowed(row, event), event, reason=reason)
                    cascade.mark_stale(writer, self._shelf.collection, self._of_all(), [row.id for row in part])
                done += len(part)
        return done

    def end(self, id: str, *, at: Moment, reason: str, durability: str) -> str:
        with self._shelf.lock:
            target = self.target(id)
            self._allowed(target.row, Event.END)
            follower = timeline.follower(target.versions, target.row)
            if follower is not None and at.micros > follower.stamps.valid_from:
                raise InvalidArgumentError(
                    f"{follower.id} holds from {iso(follower.stamps.valid_from)} on, before {iso(at.micros)}",
                    hint="two versions of one memory never hold at one moment: end it earlier",
                )
            with self._writing(target, reason or "end", durability) as writer:
                self._end(writer, target.row, at, reason=reason)
            return target.row.id

    def quarantine(self, id: str, *, reason: str, durability: str) -> str:
        with self._shelf.lock:
            target = self.target(id)
            found = self._allowed(target.row, Event.QUARANTINE)
            payload = rows.carried(target.row) | ({"reason": reason} if reason else {})
            with self._writing(target, reason or "quarantine", durability) as writer:
                self._again(writer, target.row, payload, replace(target.row.stamps, life=found.to))
            return target.row.id

    def restore(self, id: str, *, reason: str, durability: str) -> str:
        """The id of the new version: a copy of the hidden one. What holds at the same time in its lineage is superseded."""
        with self._shelf.lock:
            target = self.target(id)
            old = target.row
            found = self._allowed(old, Event.RESTORE)
            everywhere = self._of_all()
            window = rows.window_of(old)
            because = cascade.rests_on(everywhere, old)
            payload = next_payload(old, target.next_id, None, {"restored_from": old.id}, window, reason)
            payload["stale_because"] = sorted(because)
            stamps = replace(old.stamps, life=found.to, stale=bool(because))
            with self._writing(target, reason or "restore", durability) as writer:
                for row in timeline.overlapping(target.versions, window):
                    gone = step(row.life, Event.EVOLVE, id=row.id)
                    self._supersede(writer, (row,), gone, by=target.next_id, reason=reason)
                if old.tx_to == FOREVER:  # quarantined rows are open
                    writer.expect_open(self._shelf.collection, old.id)
                    self._supersede(
                        writer, (old,), replace(found, to=Life.SUPERSEDED), by=target.next_id, reason=reason
                    )
                self._put(writer, target.next_id, payload, stamps, vector=None, like=old.id)
                cascade.freshen(writer, self._shelf.collection, everywhere, old.id)
            return target.next_id

    def consolidate(
        self, ids: Sequence[str], *, text: str, fields: Mapping[str, Json], lineage: str, reason: str, durability: str
    ) -> str:
        """The id of the merged memory. The sources keep their wording and leave the default view."""
        with self._shelf.lock:
            targets = [self.target(source) for source in ids]
            sources = list({target.row.id: target.row for target in targets}.values())
            if len(sources) < 2:
                raise InvalidArgumentError("one memory cannot be consolidated", hint="name two or more that differ")
            steps = [self._allowed(row, Event.CONSOLIDATE) for row in sources]
            made = version_id(lineage, 1)
            window = _common_window(sources)
            payload = next_payload(sources[0], made, text, fields, window, reason)
            payload["parents"] = [row.id for row in sources]
            because = {lost for row in sources for lost in (row.payload or {}).get("stale_because", ())}
            payload["stale_because"] = sorted(because)
            stamps = Stamps(
                trust=lowest_trust(Trust.USER, sources),
                scope=_narrowest(sources),
                valid_from=window.start.micros,
                valid_to=window.end.micros,
                stale=bool(because),
            )
            vector = self._shelf.embed([payload["context"]])[0]
            with self._writing(targets[0], reason or "consolidate", durability) as writer:
                for row, found in zip(sources, steps, strict=True):
                    self._close(writer, row, found, Event.CONSOLIDATE, reason=reason, by=made)
                self._put(writer, made, payload, stamps, vector=vector, like=None)
            return made

    # What the steps are made of.

    def _expect(self, target: Target, id: str, expected: str | int | None) -> None:
        """A version id names the version that the caller has read; so does `expected`."""
        current = timeline.current(target.versions, target.reader.now)
        if current is None:
            return  # the table refuses it and says why
        _, named = parse_id(id)
        if named is not None and id != current.id:
            raise stale(id, current.id)
        _, number = parse_id(current.id)
        if expected is not None and expected not in (number, current.id):
            raise stale(str(expected), current.id)

    def _close(
        self, writer: Writer, row: Row, found: Step, event: Event, *, reason: str, by: str | None = None
    ) -> None:
        writer.expect_open(self._shelf.collection, row.id)
        writer.close(self._shelf.collection, row.id, end_life=found.to)
        self._shelf.note_closing(writer, row.id, event=event.value, reason=reason, by=by)

    def _supersede(self, writer: Writer, found: Sequence[Row], to: Step, *, by: str, reason: str) -> None:
        for row in found:
            self._close(writer, row, to, Event.EVOLVE, reason=reason, by=by)

    def _end(self, writer: Writer, row: Row, at: Moment, *, reason: str, by: str | None = None) -> None:
        """Another record of the same version, whose window ends."""
        window = checked_window(rows.window_of(row).start, at)
        payload = rows.with_window(rows.carried(row), window) | ({"reason": reason} if reason else {})
        if by is not None:
            payload["superseded_by"] = by
        self._again(writer, row, payload, rows.stamps_with(row.stamps, window))

    def _again(self, writer: Writer, row: Row, payload: Payload, stamps: Stamps) -> None:
        writer.expect_open(self._shelf.collection, row.id)
        writer.put(self._shelf.collection, row.id, payload=payload, like=row.id, stamps=stamps)

    def _put(
        self, writer: Writer, id: str, payload: Payload, stamps: Stamps, *, vector: Vector | None, like: str | None
    ) -> None:
        collection = self._shelf.collection
        writer.expect_absent(collection, id)
        if vector is None:
            writer.put(collection, id, payload=payload, like=like, stamps=stamps)
        else:
            writer.put(collection, id, payload=payload, vector=vector, stamps=stamps)
        digest = digest_of(Row(id, payload, None, stamps, 0), self._shelf.hash_key)
        if digest is not None:
            self._shelf.note_seen(writer, digest, [parse_id(id)[0]])

    def _of_all(self) -> Reader:
        return self._shelf.reader(every_scope())

    def _still(self, row: Row) -> bool:
        now = self.target(row.id).row
        return now.tx_to == FOREVER and now.life is row.life


def next_payload(
    base: Row, id: str, text: str | None, fields: Mapping[str, Json], window: Window, reason: str
) -> Payload:
    """What the next version says: as before where nothing else was told. A new text is not derived from the old parents."""
    lineage, version = parse_id(id)
    payload: Payload = {k: v for k, v in (base.payload or {}).items() if k not in _OF_ITS_VERSION}
    if text is not None:
        payload["text"] = text
        payload["context"] = _context(payload)
        payload.pop("parents", None)
        payload.pop("stale_because", None)
        if payload.get("kind") != "turn":
            payload.pop("at", None)  # the new words were not said then
    payload |= {"lineage": lineage, "version": version}
    if reason:
        payload["reason"] = reason
    payload |= fields
    return rows.with_window({k: v for k, v in payload.items() if v is not None}, window)


def stale(named: str, current: str) -> VersionConflictError:
    return VersionConflictError(
        f"{named} is not the current version: {current} is",
        hint="read it, and change that one",
        current=current,
        expected=named,
    )


def _context(payload: Payload) -> str:
    if payload.get("kind") != "turn":
        text: str = payload["text"]
        return text
    return context_of(
        payload["text"], speaker=payload.get("speaker"), at=payload.get("at"), caption=payload.get("caption")
    )


def _common_window(sources: Sequence[Row]) -> Window:
    """The time at which all of them hold."""
    windows = [rows.window_of(row) for row in sources]
    start = max((w.start for w in windows), key=lambda m: m.micros)
    end = min((w.end for w in windows), key=lambda m: m.micros)
    if end.micros <= start.micros:
        raise InvalidArgumentError(
            f"these memories never hold at the same time: one ends at {iso(end.micros)}, another begins at {iso(start.micros)}",
            hint="they are history of each other: use evolve with valid_from",
        )
    return Window(start, end)


def _narrowest(sources: Sequence[Row]) -> Scope:
    """No part is open that was set in a source. All sources are visible to one principal, so set parts agree."""

    def part(name: str) -> str | None:
        return next((p for row in sources if (p := getattr(row.stamps.scope, name)) is not None), None)

    return Scope(part("user"), part("agent"), part("session"))
