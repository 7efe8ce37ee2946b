"""Sessions: stored, so that one started in this process can be ended in another.

Keys begin with the principal's user and agent, so a handle can only ever name its own: a session id used again by another
user is another session.
"""

from __future__ import annotations

import json
import secrets
from typing import TypedDict

from kektordb.engine.protocol import Writer
from kektordb.errors import AlreadyExistsError, ConflictError, NotFoundError
from kektordb.memory import checks
from kektordb.memory.rights import require
from kektordb.memory.shelf import Shelf
from kektordb.memory.time import MomentLike, datetime_of, parse_moment
from kektordb.model.memory import Session
from kektordb.model.view import Principal


class _Entry(TypedDict):
    started: int
    ended: int | None
    title: str | None
    turns: int


class Sessions:
    """`mem.sessions`."""

    def __init__(self, shelf: Shelf, principal: Principal, actor: str) -> None:
        self._shelf = shelf
        self._principal = principal
        self._actor = actor
        self._namespace = f"{shelf.collection}.sessions"

    def start(self, id: str | None = None, *, title: str | None = None, at: MomentLike | None = None) -> Session:
        """Opens a session. `at` is when it began, if not now. AlreadyExistsError for an id that was used before."""
        require(self._principal, "write", to="start a session")
        name = f"s_{secrets.token_hex(8)}" if id is None else checks.label(id, what="session")
        began = self._shelf.clock.now() if at is None else parse_moment(at, what="at").micros
        entry = _Entry(started=began, ended=None, title=checks.optional_label(title, what="title"), turns=0)
        with self._shelf.lock:
            if self._read(name) is not None:
                raise AlreadyExistsError(
                    f"there is a session {name!r} already", hint="take another id, or go on with it"
                )
            with self._shelf.store.writer(actor=self._actor, reason="session start") as writer:
                self._write(writer, name, entry)
        return _session(name, entry)

    def end(self, id: str, *, at: MomentLike | None = None) -> Session:
        """Closes a session. ConflictError if it was closed before."""
        require(self._principal, "write", to="end a session")
        name = checks.label(id, what="session")
        over = self._shelf.clock.now() if at is None else parse_moment(at, what="at").micros
        with self._shelf.lock:
            entry = self._known(name)
            if entry["ended"] is not None:
                raise ConflictError(f"session {name!r} ended before")
            entry["ended"] = over
            with self._shelf.store.writer(actor=self._actor, reason="session end") as writer:
                self._write(writer, name, entry)
        return _session(name, entry)

    def get(self, id: str) -> Session:
        require(self._principal, "read", to="read a session")
        name = checks.label(id, what="session")
        return _session(name, self._known(name))

    def list(self, *, limit: int = 100) -> list[Session]:
        """The principal's own, the latest first."""
        require(self._principal, "read", to="list sessions")
        prefix = self._prefix()
        found = [
            _session(json.loads(key)[-1], json.loads(value))
            for key, value in self._shelf.store.kv_scan(self._namespace, prefix=prefix)
        ]
        found.sort(key=lambda session: (session.started_at, session.id), reverse=True)
        return found[: checks.positive(limit, what="limit", most=100_000)]

    def count_turns(self, writer: Writer, id: str, *, first_at: int, added: int) -> None:
        """Within a transaction that saves turns: the session comes into being with its first turn."""
        entry = self._read(id) or _Entry(started=first_at, ended=None, title=None, turns=0)
        entry["turns"] += added
        self._write(writer, id, entry)

    def turns(self, id: str) -> int:
        entry = self._read(id)
        return 0 if entry is None else entry["turns"]

    def _prefix(self) -> str:
        """A JSON list without its last element: quotes inside a name are escaped, so no name runs into the next part."""
        return json.dumps([self._principal.user, self._principal.agent], separators=(",", ":"))[:-1] + ","

    def _key(self, id: str) -> str:
        return self._prefix() + json.dumps(id) + "]"

    def _read(self, id: str) -> _Entry | None:
        data = self._shelf.store.kv_get(self._namespace, self._key(id))
        found: _Entry | None = None if data is None else json.loads(data)
        return found

    def _known(self, id: str) -> _Entry:
        entry = self._read(id)
        if entry is None:
            raise NotFoundError(f"no session {id!r}")
        return entry

    def _write(self, writer: Writer, id: str, entry: _Entry) -> None:
        writer.kv_set(self._namespace, self._key(id), json.dumps(entry, separators=(",", ":")).encode())


def _session(id: str, entry: _Entry) -> Session:
    began = datetime_of(entry["started"])
    assert began is not None, "parse_moment gives no open ends"
    ended = None if entry["ended"] is None else datetime_of(entry["ended"])
    return Session(id=id, started_at=began, ended_at=ended, title=entry["title"], turns=entry["turns"])
