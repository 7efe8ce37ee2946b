"""Reads of a memory under one view. A `MemoryView` holds no way to write, and every read goes through its view.

What is hidden and what is absent are told apart by nothing: both are NotFoundError with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kektordb.engine.protocol import Json, Reader, Row
from kektordb.errors import NotFoundError
from kektordb.memory import limits, rows, trees
from kektordb.memory.ids import parse_id, version_id
from kektordb.memory.lens import EVERY_LIFE, REVIEWED, Lens, everything
from kektordb.memory.recall import recall
from kektordb.memory.rights import require
from kektordb.memory.shelf import Shelf
from kektordb.memory.time import MomentLike, parse_moment
from kektordb.model.memory import Lineage, Memory, MemoryDiff, MemoryHit, MemoryPage
from kektordb.model.view import Life, Principal, Trust

_BLOCK = 8
"""Versions of a lineage asked for at first; doubled until one is absent."""


class MemoryView:
    """Reads under a view that was named once."""

    def __init__(self, shelf: Shelf, principal: Principal, lens: Lens) -> None:
        self._shelf = shelf
        self._principal = principal
        self._lens = lens

    @property
    def name(self) -> str:
        return self._shelf.name

    @property
    def principal(self) -> Principal:
        return self._principal

    def view(
        self,
        *,
        life: Sequence[str | Life] | None = None,
        include: Sequence[str | Life] = (),
        as_of: MomentLike | None = None,
        valid_at: MomentLike | None = None,
        min_trust: str | Trust | None = None,
    ) -> MemoryView:
        """The same reads under another view: ``life`` replaces the states seen, ``include`` adds to them.

        as_of: what was recorded by then. valid_at: what was true then. Both are ISO texts, datetimes or microseconds.
        """
        lens = self._lens.ask(life=life, include=include, as_of=as_of, valid_at=valid_at, min_trust=min_trust)
        return MemoryView(self._shelf, self._principal, lens)

    def get(
        self,
        id: str,
        *,
        include: Sequence[str | Life] = (),
        as_of: MomentLike | None = None,
        valid_at: MomentLike | None = None,
    ) -> Memory:
        """One version by its id; by a lineage id the version that the view shows (the newest active one of several)."""
        require(self._principal, "read", to="read a memory")
        lens = self._lens.ask(include=include, as_of=as_of, valid_at=valid_at)
        lineage, version = parse_id(id)
        reader = self._shelf.reader(lens.view)
        ids = [id] if version is not None else [i.id for i in self._versions(lineage, reader)]
        found = [row for row in reader.get(ids) if row is not None and _passes(lens, row, reader.now)]
        if not found:
            raise not_found(id)
        found.sort(key=lambda row: (rows.life_seen(row, reader.view, reader.now) is Life.ACTIVE, parse_id(row.id)[1]))
        return self._memory(found[-1], reader)

    def recall(
        self,
        query: str,
        *,
        k: int = 5,
        layers: Sequence[str] | None = None,
        filter: object = None,
        include: Sequence[str | Life] = (),
        as_of: MomentLike | None = None,
        valid_at: MomentLike | None = None,
        min_trust: str | Trust | None = None,
        max_tokens: int | None = None,
        min_relevance: float | None = None,
        explain: bool = False,
        touch: bool | None = None,
    ) -> list[MemoryHit]:
        """The k memories that answer `query` best, best first: meaning, words, neighbouring turns, age and layer together.

        filter: text in the filter language, or a tree; it narrows what the view shows. include, as_of, valid_at, min_trust: as in
        `view`. max_tokens: budget of the hits' texts. explain: fill each hit's `parts`. touch: count the hits as accessed (as the
        settings say, if not given; never under `as_of`).
        """
        require(self._principal, "read", to="recall memories")
        lens = self._lens.ask(include=include, as_of=as_of, valid_at=valid_at, min_trust=min_trust)
        vector = self._shelf.embed_query(query) if isinstance(query, str) and query.strip() else None
        reader = self._shelf.reader(lens.view)
        hits = recall(
            reader,
            query,
            vector,
            k=k,
            layers=layers,
            filter=self._filter(reader, filter, None, lens),
            max_tokens=max_tokens,
            min_relevance=min_relevance,
            explain=explain,
            now=self._shelf.clock.now() if lens.view.as_of is None else lens.view.as_of,
            settings=self._shelf.settings,
            access=self._shelf.ledger.read,
        )
        counts = self._shelf.settings.touch_on_recall if touch is None else touch
        if counts and lens.view.as_of is None:
            self._shelf.ledger.touch([parse_id(hit.id)[0] for hit in hits], now=self._shelf.clock.now())
        found = {row.id: self._memory(row, reader) for row in reader.get([hit.id for hit in hits]) if row is not None}
        return [
            MemoryHit(
                memory=found[hit.id],
                text=hit.text,
                score=hit.score,
                relevance=hit.relevance,
                tokens=hit.tokens,
                truncated=hit.truncated,
                also=hit.also,
                parts=hit.parts,
            )
            for hit in hits
        ]

    def history(self, id: str) -> list[Memory]:
        """All versions of the lineage, the oldest first, in whatever state, with the reason of each."""
        require(self._principal, "read", to="read a history")
        lineage, _ = parse_id(id)
        reader = self._shelf.reader(everything(self._lens.view))
        found = list(self._to_read(list(self._versions(lineage, reader)), reader))
        if not found:
            raise not_found(id)
        return found

    def scan(
        self,
        *,
        layers: Sequence[str] | None = None,
        filter: object = None,
        limit: int = 100,
        after: str | None = None,
    ) -> MemoryPage:
        """Memories in id order, which is the order in which their lineages began."""
        require(self._principal, "read", to="list memories")
        reader = self._shelf.reader(self._lens.view)
        page = reader.scan(filter=self._filter(reader, filter, layers), limit=limit, after=after)
        return MemoryPage(self._memories(page.rows, reader), page.next)

    def count(self, *, layers: Sequence[str] | None = None, filter: object = None) -> int:
        require(self._principal, "read", to="count memories")
        reader = self._shelf.reader(self._lens.view)
        return reader.count(filter=self._filter(reader, filter, layers))

    def facets(self, field: str, *, filter: object = None, limit: int = 20) -> list[tuple[Json, int]]:
        """The values of a field and how many memories carry each, the most frequent first."""
        require(self._principal, "read", to="count memories")
        reader = self._shelf.reader(self._lens.view)
        return reader.facets(field, filter=self._filter(reader, filter, None), limit=limit)

    def lineage(self, id: str) -> Lineage:
        """What a version was derived from and what was derived from it, in whatever state those are now."""
        require(self._principal, "read", to="read a lineage")
        memory = self.view(life=_readable(self._principal)).get(id, include=("expired", "stale", "refuted"))
        reader = self._shelf.reader(everything(self._lens.view))
        parents = [row for row in reader.get(list(memory.parents)) if row is not None]
        children = list(every_row(reader, trees.has_element("parents", memory.id)))
        return Lineage(memory, self._to_read(parents, reader), self._to_read(children, reader))

    def diff(self, before: MomentLike, after: MomentLike) -> MemoryDiff:
        """What this view showed at two moments of belief time: which lineages came, went, or changed their version."""
        require(self._principal, "read", to="compare two moments")
        old = self._shown_at(parse_moment(before, what="before").micros)
        new = self._shown_at(parse_moment(after, what="after").micros)
        return MemoryDiff(
            added=tuple(new[k] for k in new if k not in old),
            removed=tuple(old[k] for k in old if k not in new),
            changed=tuple((old[k], new[k]) for k in old if k in new and old[k] != new[k]),
        )

    def _shown_at(self, moment: int) -> dict[str, Memory]:
        lens = self._lens.ask(as_of=moment)
        reader = self._shelf.reader(lens.view)
        found = (self._memory(row, reader) for row in every_row(reader, self._filter(reader, None, None, lens)))
        return {memory.lineage: memory for memory in sorted(found, key=lambda m: m.version)}

    def _filter(
        self, reader: Reader, filter: object, layers: Sequence[str] | None, lens: Lens | None = None
    ) -> trees.Tree | None:
        by_version = (lens or self._lens).ended_by_version
        return trees.every(
            [
                trees.tree_of(filter),
                None if layers is None else trees.one_of("layer", layers),
                trees.superseded_or_valid(reader.now) if by_version else None,
            ]
        )

    def _versions(self, lineage: str, like: Reader) -> Iterator[Row]:
        """Every version in the principal's scope as of the reader's moment. Versions are numbered without holes."""
        reader = self._shelf.reader(everything(like.view))
        return versions(reader, lineage)

    def _to_read(self, found: Sequence[Row], reader: Reader) -> tuple[Memory, ...]:
        """Without the states that are for reviewers only."""
        allowed = _readable(self._principal)
        return tuple(memory for memory in self._memories(found, reader) if memory.life in allowed)

    def _memories(self, found: Sequence[Row], reader: Reader) -> tuple[Memory, ...]:
        return tuple(self._memory(row, reader) for row in found)

    def _memory(self, row: Row, reader: Reader, *, reinforced: bool = False) -> Memory:
        life = rows.life_seen(row, reader.view, reader.now)
        lineage, _ = parse_id(row.id)
        layer = (row.payload or {}).get("layer", "")
        return rows.to_memory(
            row,
            life=life,
            access=self._shelf.ledger.read([lineage])[lineage],
            pinned_by_layer=self._shelf.settings.layer(layer).pinned,
            closing={} if life in (Life.ACTIVE, Life.PENDING, Life.QUARANTINED) else self._shelf.closing(row.id),
            reinforced=reinforced,
        )


def versions(reader: Reader, lineage: str) -> Iterator[Row]:
    """Rows of a lineage from version 1 on, until one is absent. The reader must see every state."""
    first, block = 1, _BLOCK
    while first <= limits.MAX_VERSIONS:
        for row in reader.get([version_id(lineage, n) for n in range(first, first + block)]):
            if row is None:
                return
            yield row
        first, block = first + block, block * 2


def every_row(reader: Reader, filter: object) -> Iterator[Row]:
    after: str | None = None
    while True:
        page = reader.scan(filter=filter, limit=limits.PAGE_ROWS, after=after)
        yield from page.rows
        if page.next is None:
            return
        after = page.next


def not_found(id: str) -> NotFoundError:
    """The same words for hidden and absent."""
    return NotFoundError(
        f"no memory {id!r}", hint="it may be hidden from this view: `history` shows every version in your scope"
    )


def _passes(lens: Lens, row: Row, now: int) -> bool:
    return not lens.ended_by_version or trees.holds(trees.superseded_or_valid(now), row.payload or {})


def _readable(principal: Principal) -> tuple[str, ...]:
    """The states that a principal may ask for, by name."""
    kept = EVERY_LIFE if "review" in principal.rights else EVERY_LIFE - REVIEWED
    return tuple(sorted(life.name.lower() for life in kept))
