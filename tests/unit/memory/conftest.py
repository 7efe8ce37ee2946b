"""A memory on the slow store, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kektordb.memory import MemoryStore
from kektordb.model.view import Principal
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

EVERY_RIGHT = frozenset(
    {"read", "write", "evolve", "retract", "review", "override", "share", "export", "erase", "admin"}
)

Opener = Callable[..., MemoryStore]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("2026-06-01T12:00:00")


@pytest.fixture
def store(clock: FakeClock) -> NaiveStore:
    return NaiveStore(clock=clock)


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def opened(store: NaiveStore, embedder: FakeEmbedder, clock: FakeClock) -> Opener:
    """Another handle of the same memory; keyword arguments are those of `MemoryStore`, or of a principal."""

    def open_one(name: str = "test", **given: Any) -> MemoryStore:
        parts = {k: given.pop(k) for k in ("user", "agent", "session", "rights") if k in given}
        given.setdefault("embedder", embedder)
        return MemoryStore(store, name, principal=Principal(**parts), clock=clock, **given)

    return open_one


@pytest.fixture
def mem(opened: Opener) -> MemoryStore:
    return opened(user="ann", agent="coder")
