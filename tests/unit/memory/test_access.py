"""Use is counted beside the versions."""

from __future__ import annotations

from kektordb.memory import MemorySettings, MemoryStore
from kektordb.memory.access import AccessLedger
from kektordb.memory.layers import LayerSettings
from kektordb.memory.limits import ACCESS_FLUSH_AFTER_US, ACCESS_FLUSH_ENTRIES
from kektordb.testing import FakeClock, NaiveStore

from .conftest import Opener


def test_pins_and_repetitions_make_no_versions_and_survive_a_new_handle(mem: MemoryStore, opened: Opener) -> None:
    one = mem.save("A")
    assert mem.pin(one.id).pinned
    assert mem.reinforce(one.lineage).reinforcements == 2
    again = opened(user="ann", agent="coder").get(one.id)
    assert (again.id, again.pinned, again.reinforcements, again.version) == (one.id, True, 2, 1)
    assert len(mem.history(one.id)) == 1
    assert not mem.unpin(one.id).pinned
    two = mem.pin(mem.evolve(one.id, "B").id)
    assert two.reinforcements == 2  # it is the lineage that was said twice


def test_a_layer_pins_unless_the_memory_says_otherwise(opened: Opener) -> None:
    mem = opened(user="ann", settings=MemorySettings(layers={"rules": LayerSettings(pinned=True)}))
    assert mem.save("A", layer="rules").pinned
    assert not mem.save("B", layer="rules", pinned=False).pinned
    assert not mem.save("C", layer="else").pinned
    assert mem.save("D", layer="else", pinned=True).pinned


def test_counting_an_access_writes_nothing_until_a_group_is_full(store: NaiveStore) -> None:
    ledger = AccessLedger(store, "n")
    for i in range(ACCESS_FLUSH_ENTRIES - 1):
        ledger.touch([f"l{i}"], now=1_000)
    assert store.commits == []
    assert ledger.read(["l0"])["l0"].accesses == 1
    ledger.touch(["one more"], now=1_000)
    assert len(store.commits) == 1
    assert AccessLedger(store, "n").read(["l0"])["l0"].accesses == 1


def test_counts_are_written_after_a_while_and_on_flush(store: NaiveStore) -> None:
    ledger = AccessLedger(store, "n")
    ledger.touch(["a"], now=0)
    ledger.touch(["a"], now=ACCESS_FLUSH_AFTER_US)
    assert len(store.commits) == 1
    ledger.touch(["a"], now=ACCESS_FLUSH_AFTER_US + 1)
    ledger.flush()
    ledger.flush()
    assert len(store.commits) == 2
    entry = AccessLedger(store, "n").read(["a"])["a"]
    assert (entry.accesses, entry.last_us) == (3, ACCESS_FLUSH_AFTER_US + 1)


def test_a_clock_set_back_does_not_make_the_last_access_earlier(store: NaiveStore) -> None:
    ledger = AccessLedger(store, "n")
    ledger.touch(["a"], now=1_000)
    ledger.touch(["a"], now=10)
    assert ledger.read(["a"])["a"].last_us == 1_000


def test_a_pin_keeps_the_accesses_that_are_not_written_yet(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("A")
    mem._shelf.ledger.touch([one.lineage], now=clock.now())
    assert mem.pin(one.id).accesses == 1
    mem.flush()
    assert mem.get(one.id).accesses == 1
    assert mem.get(one.id).pinned


def test_handles_of_one_store_share_their_counts(mem: MemoryStore, opened: Opener, clock: FakeClock) -> None:
    one = mem.save("A")
    other = opened(user="ann", agent="coder")
    mem._shelf.ledger.touch([one.lineage], now=clock.now())
    other._shelf.ledger.touch([one.lineage], now=clock.now())
    assert mem.get(one.id).accesses == other.get(one.id).accesses == 2
    with mem:
        pass
    assert opened(user="ann", agent="coder").get(one.id).accesses == 2
