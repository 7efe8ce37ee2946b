"""From drafts to rows: which of them are there already, and one log record for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kektordb.engine.protocol import Reader, Row, Vector, Writer
from kektordb.memory import limits, rows
from kektordb.memory.drafts import Draft
from kektordb.memory.ids import parse_id, version_id
from kektordb.memory.lens import everything
from kektordb.memory.sessions import Sessions
from kektordb.memory.shelf import Shelf
from kektordb.memory.time import Window
from kektordb.memory.views import versions
from kektordb.model.view import Trust, View

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of one draft."""

    id: str
    repeated: bool
    """It was there already and was strengthened."""


class Saver:
    """Writes drafts for one principal. The embedder runs before the lock is taken and before anything is written."""

    def __init__(self, shelf: Shelf, view: View, actor: str, sessions: Sessions) -> None:
        self._shelf = shelf
        self._view = replace(view, ever=True)
        self._actor = actor
        self._sessions = sessions

    def save(self, made: Sequence[Draft], *, progress: Progress | None = None, durability: str = "sync") -> list[Saved]:
        """A long list goes into several log records; each is whole or absent, and the first ones stay if a later one fails."""
        out: list[Saved] = []
        for start in range(0, len(made), limits.TURNS_PER_RECORD):
            part = made[start : start + limits.TURNS_PER_RECORD]
            vectors = self._vectors(part)
            for done in vectors:
                if progress is not None:
                    progress(start + done, len(made))
            with self._shelf.lock:
                out.extend(self._commit(part, vectors.made, durability))
            if progress is not None:
                progress(start + len(part), len(made))
        return out

    def _vectors(self, part: Sequence[Draft]) -> _Vectors:
        reader = self._shelf.reader(self._view)
        new = [place for place, draft in enumerate(part) if self._twin(draft, reader) is None]
        return _Vectors(self._shelf, part, new)

    def _commit(self, part: Sequence[Draft], vectors: dict[int, Vector], durability: str) -> list[Saved]:
        reader = self._shelf.reader(self._view)
        batch = _Batch(self._shelf, self._sessions)
        reason = next((draft.reason for draft in part if draft.reason), "save")
        with self._shelf.store.writer(actor=self._actor, reason=reason, durability=durability) as writer:
            for place, draft in enumerate(part):
                digest = draft.digest(self._shelf.hash_key)
                twin = self._twin(draft, reader)
                if twin is not None:
                    batch.repeat(twin.id, draft, stored=twin)
                elif (earlier := batch.twin(digest, draft)) is not None:
                    batch.repeat(earlier, draft, stored=None)
                else:
                    vector = vectors.get(place)  # missing: it was there when the vectors were made, and is gone since
                    batch.add(
                        writer, draft, digest, self._shelf.embed([draft.context])[0] if vector is None else vector
                    )
            batch.finish(writer)
        self._shelf.ledger.forget_unsaved(batch.counted)
        return batch.saved

    def _twin(self, draft: Draft, reader: Reader) -> Row | None:
        """The row of which the draft is an exact duplicate."""
        digest = draft.digest(self._shelf.hash_key)
        for lineage in reversed([] if digest is None else self._shelf.seen(digest)):
            count = sum(1 for _ in versions(self._shelf.reader(everything(reader.view)), lineage))
            for row in reader.get([version_id(lineage, n) for n in range(count, 0, -1)]):
                if row is None or digest_of(row, self._shelf.hash_key) != digest:
                    continue
                if repeats(draft, rows.window_of(row), row):
                    return row
        return None


class _Vectors:
    """Vectors of the new drafts, batch by batch; iterating makes them and says how far it is."""

    def __init__(self, shelf: Shelf, part: Sequence[Draft], new: Sequence[int]) -> None:
        self._shelf, self._part, self._new = shelf, part, new
        self.made: dict[int, Vector] = {}

    def __iter__(self) -> Iterator[int]:
        size = self._shelf.settings.embed_batch
        for start in range(0, len(self._new), size):
            places = self._new[start : start + size]
            self.made.update(zip(places, self._shelf.embed([self._part[i].context for i in places]), strict=True))
            yield places[-1] + 1


class _Batch:
    """One log record being filled."""

    def __init__(self, shelf: Shelf, sessions: Sessions) -> None:
        self._shelf = shelf
        self._sessions = sessions
        self._fresh: dict[str, list[tuple[str, Draft]]] = {}
        self._again: dict[str, list[Draft]] = {}
        self._stored: dict[str, Row] = {}
        self._pinned: dict[str, bool] = {}
        self._next_seq: dict[str, int] = {}
        self._first_at: dict[str, int] = {}
        self.saved: list[Saved] = []
        self.counted: set[str] = set()
        """Lineages whose access entry is written."""

    def twin(self, digest: str | None, draft: Draft) -> str | None:
        """An equal draft of this very batch."""
        for made, other in self._fresh.get(digest or "", ()):
            if _same_time(draft, other.window) and other.trust >= draft.trust and (draft.parents or not other.parents):
                return made
        return None

    def repeat(self, id: str, draft: Draft, *, stored: Row | None) -> None:
        self._again.setdefault(id, []).append(draft)
        if stored is not None:
            self._stored[id] = stored
        self.saved.append(Saved(id, repeated=True))

    def add(self, writer: Writer, draft: Draft, digest: str | None, vector: Vector) -> None:
        lineage = self._shelf.ids.lineage()
        made = version_id(lineage, 1)
        payload = draft.payload(lineage, 1, seq=self._number(draft))
        writer.expect_absent(self._shelf.collection, made)
        writer.put(self._shelf.collection, made, payload=payload, vector=vector, stamps=draft.stamps())
        if draft.pinned is not None:
            self._pinned[made] = draft.pinned
        if digest is not None:
            self._fresh.setdefault(digest, []).append((made, draft))
        self.saved.append(Saved(made, repeated=False))

    def finish(self, writer: Writer) -> None:
        for session, last in self._next_seq.items():
            added = last - self._sessions.turns(session)
            self._sessions.count_turns(writer, session, first_at=self._first_at[session], added=added)
        for digest, made in self._fresh.items():
            self._shelf.note_seen(writer, digest, [parse_id(one)[0] for one, _ in made])
        for one in {**self._again, **self._pinned}:
            self._strengthen(writer, one, self._again.get(one, []))
        for one, row in self._stored.items():
            self._merge_tags(writer, row, self._again[one])

    def _number(self, draft: Draft) -> int | None:
        if draft.kind != "turn" or draft.session is None:
            return None
        if draft.session not in self._next_seq:
            self._next_seq[draft.session] = self._sessions.turns(draft.session)
            self._first_at[draft.session] = draft.reference
        seq = self._next_seq[draft.session]
        self._next_seq[draft.session] = seq + 1
        return seq

    def _strengthen(self, writer: Writer, id: str, again: Sequence[Draft]) -> None:
        lineage, _ = parse_id(id)
        old = self._shelf.ledger.read([lineage])[lineage]
        pins = [pin for pin in (self._pinned.get(id), *(draft.pinned for draft in again)) if pin is not None]
        now = self._shelf.clock.now()
        entry = replace(old, reinforcements=old.reinforcements + len(again), pinned=pins[-1] if pins else old.pinned)
        if again:
            entry = replace(entry, last_us=now if old.last_us is None else max(now, old.last_us))
        self._shelf.ledger.write(writer, lineage, entry)
        self.counted.add(lineage)

    def _merge_tags(self, writer: Writer, row: Row, again: Sequence[Draft]) -> None:
        """A repetition with tags of its own adds them: another record of the same version."""
        old = list((row.payload or {}).get("tags", ()))
        every = list(dict.fromkeys([*old, *(tag for draft in again for tag in draft.tags)]))[: limits.MAX_TAGS]
        if every != old:
            payload = rows.carried(row) | {"tags": every}
            writer.expect_open(self._shelf.collection, row.id)
            writer.put(self._shelf.collection, row.id, payload=payload, like=row.id, stamps=row.stamps)


def digest_of(row: Row, key: bytes) -> str | None:
    """The duplicate hash of what the row says now: a lineage may have changed since its hash was noted."""
    payload = row.payload or {}
    return Draft(
        text=payload["text"],
        context="",
        kind=payload["kind"],
        layer=payload["layer"],
        scope=row.stamps.scope,
        window=Window(),
        reference=0,
        told=False,
        slot=rows.slot_of(payload),
        session=payload.get("session"),
        speaker=payload.get("speaker"),
        at=payload.get("at"),
        repeat=payload.get("repeat", 0) if payload["kind"] == "turn" else None,
    ).digest(key)


def repeats(draft: Draft, window: Window, row: Row) -> bool:
    """Would storing the draft add nothing? Not if it is trusted more, stands on its own feet, or holds at another time."""
    derived = bool((row.payload or {}).get("parents"))
    return _same_time(draft, window) and row.stamps.trust >= draft.trust and (bool(draft.parents) or not derived)


def _same_time(draft: Draft, window: Window) -> bool:
    if draft.kind == "turn":
        return True  # its moment is part of the hash
    if draft.told:
        return (draft.window.start.micros, draft.window.end.micros) == (window.start.micros, window.end.micros)
    return window.start.micros <= draft.reference < window.end.micros


def lowest_trust(own: Trust, parents: Sequence[Row]) -> Trust:
    return min([own, *(parent.stamps.trust for parent in parents)])
