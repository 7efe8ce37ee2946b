"""For tests of programs that use kektordb, and of kektordb itself: a clock that stands still, an embedder without a
model, and the slow store that says what the engine must answer."""

from __future__ import annotations

from kektordb.testing.clock import FakeClock
from kektordb.testing.embedder import FakeEmbedder
from kektordb.testing.naive import NaiveStore
from kektordb.testing.rule import visible

__all__ = ["FakeClock", "FakeEmbedder", "NaiveStore", "visible"]
