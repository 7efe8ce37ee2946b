"""Another embedder: every record in every state, resumable, and never two spaces."""

from __future__ import annotations

import pytest

from kektordb.errors import EmbedderMismatchError
from kektordb.memory import MemoryStore, reembed
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

from .conftest import Opener


@pytest.fixture
def world(mem: MemoryStore, clock: FakeClock) -> MemoryStore:
    mem.save("active")
    old = mem.save("superseded")
    clock.advance(days=1)
    mem.evolve(old.id, "successor", valid_from="2026-05")
    mem.evolve(old.lineage, "corrected")
    mem.retract(mem.save("retracted").id)
    mem.quarantine(mem.save("quarantined").id)
    return mem


def test_every_state_is_embedded_anew_and_every_step_works_afterwards(
    world: MemoryStore, store: NaiveStore, opened: Opener, clock: FakeClock
) -> None:
    views = [{}, {"include": ("superseded",)}, {"include": ("retracted", "quarantined")}, {"as_of": "2026-06-01T18:00"}]
    before = [world.view(**view).scan() for view in views]  # type: ignore[arg-type]
    wide = FakeEmbedder(dim=128, name="wide")
    seen: list[tuple[int, int]] = []
    report = reembed(store, "test", wide, batch=2, progress=lambda *p: seen.append(p))
    assert report.total == seen[-1][0] == seen[-1][1] == 8
    assert report.records == {"replaced": 2, "active": 3, "superseded": 1, "retracted": 1, "quarantined": 1}
    with pytest.raises(EmbedderMismatchError):
        opened(user="ann", agent="coder")
    mem = opened(user="ann", agent="coder", embedder=wide)
    assert [mem.view(**view).scan() for view in views] == before  # type: ignore[arg-type]
    live = mem.get(next(m.id for m in mem.scan().memories if m.text == "active"))
    two = mem.evolve(live.id, "evolved")
    mem.retract(two.id)
    mem.restore(two.id)
    retracted = mem.view(life=("retracted",)).scan().memories[0]
    mem.restore(retracted.id)
    reader = store.reader("memory.test", mem._lens.view)
    hits = reader.search(wide.embed(["evolved"])[0], k=1)
    assert hits[0].distance == pytest.approx(0, abs=1e-5)


def test_an_interrupted_run_goes_on_where_it_stopped(world: MemoryStore, store: NaiveStore, opened: Opener) -> None:
    class Flaky(FakeEmbedder):
        left = 2

        def embed(self, texts, *, kind="document"):
            self.left -= 1
            if self.left < 0:
                raise ConnectionError
            return super().embed(texts, kind=kind)

    flaky = Flaky(name="flaky")
    with pytest.raises(ConnectionError):
        reembed(store, "test", flaky, batch=2)
    assert opened(user="ann", agent="coder").count() == 2  # the old embedder still opens it
    flaky.left, flaky.calls = 99, []
    reembed(store, "test", flaky, batch=2)
    assert sum(flaky.calls) == 4
    assert opened(user="ann", agent="coder", embedder=flaky).count() == 2
