"""A change of mind, a change of the world, and corrections told late."""

from __future__ import annotations

import random
import threading

import pytest

from kektordb.errors import InvalidArgumentError, NotFoundError, TransitionError, VersionConflictError
from kektordb.memory import MemorySettings, MemoryStore
from kektordb.model.view import View
from kektordb.testing import FakeClock, NaiveStore

from .conftest import Opener


def texts(mem: MemoryStore, **view: object) -> list[str]:
    return sorted(m.text for m in mem.view(**view).scan().memories)  # type: ignore[arg-type]


def test_evolved_memory_is_found_and_the_old_one_only_when_asked_for(mem: MemoryStore, clock: FakeClock) -> None:
    old = mem.save("loves sushi", tags=["food"])
    clock.advance(days=1)
    before = clock.now()
    clock.advance(days=1)
    new = mem.evolve(old.id, "hates sushi", reason="told so")
    assert (new.lineage, new.version, new.tags, new.reason) == (old.lineage, 2, ("food",), "told so")
    assert texts(mem) == ["hates sushi"]
    assert mem.count() == 1
    assert mem.facets("tags") == [("food", 1)]
    assert mem.get(old.lineage).id == new.id
    with pytest.raises(NotFoundError):
        mem.get(old.id)
    assert texts(mem, include=("superseded",)) == ["hates sushi", "loves sushi"]
    assert mem.get(old.id, include=("superseded",)).life == "superseded"
    assert texts(mem, life=("superseded",)) == ["loves sushi"]
    assert texts(mem, as_of=before) == ["loves sushi"]
    assert mem.get(old.lineage, as_of=before).id == old.id
    # A wording that was wrong was never true: the world's time does not bring it back.
    assert texts(mem, valid_at=before) == ["hates sushi"]


def test_history_tells_every_version_with_state_and_reason(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("A", reason="first")
    clock.advance(days=1)
    two = mem.evolve(one.id, "B", reason="second")
    clock.advance(days=1)
    mem.retract(two.id, reason="a lie")
    found = mem.history(one.lineage)
    assert [(m.version, m.text, m.life, m.reason) for m in found] == [
        (1, "A", "superseded", "second"),
        (2, "B", "retracted", "a lie"),
    ]
    assert found[0].superseded_by == two.id
    assert found[0].superseded_at == found[1].recorded_at
    assert mem.history(two.id) == found
    # As it was known in between.
    assert [(m.version, m.life) for m in mem.view(as_of=clock.now() - 1).history(one.id)] == [
        (1, "superseded"),
        (2, "active"),
    ]


def test_evolve_with_valid_from_keeps_the_old_truth_for_its_time(mem: MemoryStore) -> None:
    rome = mem.save("Ann lives in Rome", slot=("Ann", "lives in", "Rome"), valid_from="2020")
    milan = mem.evolve(rome.id, "Ann lives in Milan", valid_from="2025-03", slot=("Ann", "lives in", "Milan"))
    assert texts(mem) == ["Ann lives in Milan"]
    assert texts(mem, valid_at="2019-12-31") == []
    assert texts(mem, valid_at="2020") == ["Ann lives in Rome"]
    assert texts(mem, valid_at="2025-02-28T23:59:59.999999") == ["Ann lives in Rome"]
    assert texts(mem, valid_at="2025-03") == ["Ann lives in Milan"]
    old, new = mem.history(rome.id)
    assert (old.life, old.valid_to, old.valid_to_precision) == ("active", new.valid_from, "month")
    assert old.superseded_by == milan.id
    assert old.superseded_at == new.recorded_at
    assert old.recorded_at == rome.recorded_at
    with pytest.raises(NotFoundError):
        mem.get(rome.id)
    assert mem.get(rome.lineage, valid_at="2021").text == "Ann lives in Rome"
    assert texts(mem, include=("superseded",)) == ["Ann lives in Milan", "Ann lives in Rome"]
    assert mem.view(include=("superseded",)).get(rome.id).text == "Ann lives in Rome"


def test_superseded_does_not_bring_along_what_merely_ended_or_is_to_come(mem: MemoryStore) -> None:
    mem.save("over", valid_to="2020")
    mem.save("to come", valid_from="2030")
    old = mem.save("old", valid_from="2020")
    mem.evolve(old.id, "new", valid_from="2025")
    assert texts(mem) == ["new"]
    assert texts(mem, include=("superseded",)) == ["new", "old"]
    assert texts(mem, include=("expired",)) == ["new", "old", "over", "to come"]
    assert texts(mem, include=("superseded", "expired")) == ["new", "old", "over", "to come"]
    assert texts(mem, include=("superseded",), valid_at="2022") == ["old"]
    ended = mem.view(include=("expired",)).scan(filter=None).memories
    over = next(m for m in ended if m.text == "over")
    with pytest.raises(NotFoundError):
        mem.get(over.id, include=("superseded",))
    assert mem.view(include=("superseded",)).count() == 2


def test_a_past_fact_told_late_does_not_end_the_present_one(mem: MemoryStore) -> None:
    now = mem.save("lives in B", valid_from="2022")
    past = mem.evolve(now.id, "lived in C", valid_from="2019", reason="told later")
    assert past.version == 2
    assert (past.valid_from_precision, past.valid_to) == ("year", now.valid_from)
    assert mem.get(now.lineage).text == "lives in B"
    assert mem.get(now.id) == now
    for year, city in (("2018", []), ("2019", ["lived in C"]), ("2021", ["lived in C"]), ("2022", ["lives in B"])):
        assert texts(mem, valid_at=year) == city
    # And one between the two.
    mem.evolve(now.lineage, "lived in D", valid_from="2020")
    for year, city in (("2019", "lived in C"), ("2020", "lived in D"), ("2021", "lived in D"), ("2022", "lives in B")):
        assert texts(mem, valid_at=year) == [city]
    assert texts(mem) == ["lives in B"]


def test_a_correction_of_the_same_start_replaces_what_was_there(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("lives in A", valid_from="2019")
    mem.evolve(one.id, "lives in B", valid_from="2022")
    clock.advance(days=1)
    before = clock.now()
    clock.advance(days=1)
    mem.evolve(one.lineage, "lives in Z", valid_from="2022", reason="misheard")
    assert texts(mem, valid_at="2023") == ["lives in Z"]
    assert texts(mem, valid_at="2023", as_of=before) == ["lives in B"]
    assert texts(mem, valid_at="2020") == ["lives in A"]
    assert [m.life for m in mem.history(one.id)] == ["active", "superseded", "active"]


def test_two_separate_periods_of_one_fact_are_both_kept(mem: MemoryStore) -> None:
    slot = ("alex", "assigned to", "payments")
    mem.save("alex works on payments", slot=slot, valid_from="2025-01", valid_to="2025-03")
    mem.save("alex works on payments", slot=slot, valid_from="2026-01")
    assert mem.view(include=("expired",)).count() == 2
    for month, seen in (("2024-12", 0), ("2025-01", 1), ("2025-02", 1), ("2025-03", 0), ("2025-06", 0), ("2026-02", 1)):
        assert mem.view(valid_at=month).count() == seen


def test_a_fact_in_a_gap_of_its_lineage_takes_the_gap(mem: MemoryStore) -> None:
    one = mem.save("A", valid_from="2020", valid_to="2021")
    mem.evolve(one.lineage, "C", valid_from="2024")
    mem.evolve(one.lineage, "B", valid_from="2022")
    found = {year: texts(mem, valid_at=year) for year in ("2020", "2021", "2022", "2023", "2024")}
    assert found == {"2020": ["A"], "2021": [], "2022": ["B"], "2023": ["B"], "2024": ["C"]}


def test_the_current_version_is_the_one_that_began_last_or_the_next_to_come(mem: MemoryStore) -> None:
    over = mem.save("over", valid_from="2020", valid_to="2021")
    mem.evolve(over.lineage, "to come", valid_from="2030")
    assert mem.retract(over.lineage).text == "over"
    assert mem.retract(over.lineage).text == "to come"


def test_what_begins_in_the_future_is_not_shown_before(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("fee is 5")
    mem.evolve(one.id, "fee is 6", valid_from="2026-07-01")
    assert texts(mem) == ["fee is 5"]
    clock.set("2026-06-30T23:59:59.999999")
    assert texts(mem) == ["fee is 5"]
    clock.set("2026-07-01T00:00:00")
    assert texts(mem) == ["fee is 6"]


def test_said_at_a_past_date_holds_from_that_date_and_not_from_now(mem: MemoryStore) -> None:
    mem.save("moved to Oslo", at="2023-04-05")
    assert texts(mem, valid_at="2023-04-04") == []
    assert texts(mem, valid_at="2023-04-06") == ["moved to Oslo"]
    assert texts(mem) == ["moved to Oslo"]


def test_a_stale_version_is_refused_and_the_current_one_named(mem: MemoryStore, store: NaiveStore) -> None:
    one = mem.save("A")
    two = mem.evolve(one.id, "B")
    records = len(store.commits)
    for attempt in (
        lambda: mem.evolve(one.id, "C"),
        lambda: mem.evolve(one.lineage, "C", expected=1),
        lambda: mem.evolve(one.lineage, "C", expected=one.id),
        lambda: mem.evolve(one.id, "C", valid_from="2020"),
    ):
        with pytest.raises(VersionConflictError, match=two.id) as conflict:
            attempt()
        assert conflict.value.context["current"] == two.id
    assert len(store.commits) == records
    assert mem.evolve(one.lineage, "C", expected=2).version == 3
    assert mem.evolve(one.lineage, "D", expected=f"{one.lineage}.3").version == 4


def test_of_handles_that_change_one_version_at_once_one_wins(opened: Opener) -> None:
    handles = [opened(user="ann") for _ in range(4)]
    one = handles[0].save("A")
    start = threading.Barrier(4)
    won: list[str] = []
    told: list[VersionConflictError] = []

    def work(mem: MemoryStore, n: int) -> None:
        start.wait()
        try:
            won.append(mem.evolve(one.id, f"B{n}").text)
        except VersionConflictError as e:
            told.append(e)

    threads = [threading.Thread(target=work, args=(mem, n)) for n, mem in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(told)) == (1, 3)
    assert {e.context["current"] for e in told} == {f"{one.lineage}.2"}
    assert texts(handles[3]) == won


def test_when_a_version_was_replaced_stays_known_when_its_window_is_corrected(
    mem: MemoryStore, clock: FakeClock
) -> None:
    one = mem.save("A", valid_from="2020")
    mem.evolve(one.id, "B", valid_from="2024")
    before = mem.history(one.id)[0]
    clock.advance(days=1)
    mem.end_validity(one.id, at="2022")
    after = mem.history(one.id)[0]
    assert (after.superseded_at, after.superseded_by) == (before.superseded_at, before.superseded_by)
    assert after.valid_to != before.valid_to


@pytest.mark.parametrize("valid_from", [None, "2019", "2022", "2024"])
def test_a_second_process_that_was_faster_is_noticed_at_commit(
    mem: MemoryStore, store: NaiveStore, valid_from: str | None
) -> None:
    from kektordb.model.view import Life, Stamps

    one = mem.save("A", valid_from="2022")
    original = store.writer

    def overtaken(**given: str):
        store.writer = original  # type: ignore[method-assign]
        with original() as w:
            w.close("memory.test", one.id, end_life=Life.SUPERSEDED)
            w.put("memory.test", f"{one.lineage}.2", payload={"text": "B", "layer": "x", "kind": "fact"}, like=one.id,
                  stamps=Stamps(scope=one.scope))  # fmt: skip
        return original(**given)

    store.writer = overtaken  # type: ignore[method-assign]
    with pytest.raises(VersionConflictError, match=f"{one.lineage}.2"):
        mem.evolve(one.id, "C", valid_from=valid_from)
    assert texts(mem) == ["B"]


def test_tags_and_layer_change_as_a_version_of_the_same_words(mem: MemoryStore) -> None:
    one = mem.save("A", tags=["x"], slot=("Ann", "is", "A"))
    two = mem.evolve(one.id, tags=["y"], layer="procedural")
    assert (two.text, two.tags, two.layer, two.slot, two.version) == ("A", ("y",), "procedural", one.slot, 2)
    assert mem.history(one.id)[0].tags == ("x",)
    three = mem.evolve(two.id, tags=[])
    assert three.tags == ()
    assert three.layer == "procedural"
    with pytest.raises(InvalidArgumentError, match="nothing to change"):
        mem.evolve(three.id)


def test_a_new_wording_without_a_slot_leaves_the_value_open(mem: MemoryStore) -> None:
    one = mem.save("Ann lives in Rome", slot=("Ann", "lives in", "Rome"))
    assert mem.evolve(one.id, "Ann lives in Milan").slot == ("Ann", "lives in", None)
    assert mem.evolve(one.lineage, "Ann lives in Bari", slot=("Ann", "lives in", "Bari")).slot == (
        "Ann",
        "lives in",
        "Bari",
    )


def test_trust_is_the_least_of_the_lineage_and_a_new_text_has_no_parents(mem: MemoryStore) -> None:
    web = mem.save("from the web", trust="outside")
    assert mem.evolve(web.id, "corrected", trust="user").trust == "outside"
    source = mem.save("source")
    derived = mem.save("derived", parents=[source.id])
    assert mem.evolve(derived.id, tags=["x"]).parents == (source.id,)
    assert mem.evolve(derived.lineage, "said by Ann herself").parents == ()
    mem.retract(source.id)
    assert "said by Ann herself" in texts(mem)


def test_only_an_active_memory_evolves(mem: MemoryStore) -> None:
    one = mem.save("A")
    mem.retract(one.id)
    for given in (one.id, one.lineage):
        with pytest.raises(TransitionError, match="retracted"):
            mem.evolve(given, "B")
    absent = "m_" + "0" * 26
    for given in (absent, absent + ".1", one.lineage + ".9"):
        with pytest.raises(NotFoundError):
            mem.evolve(given, "B")
    for given in ("", "x", "m_1", one.id + "x", one.lineage + ".0", one.lineage + ".01", one.lineage.upper(), None, 5):
        with pytest.raises(InvalidArgumentError, match="memory id"):
            mem.evolve(given, "B")  # type: ignore[arg-type]


def test_a_dated_save_of_a_single_valued_slot_joins_its_timeline(opened: Opener) -> None:
    mem = opened(user="ann", settings=MemorySettings(single_valued=frozenset({"lives in"})))
    b = mem.save("moved from A to B", slot=("Ann", "lives in", "B"), valid_from="2022")
    c = mem.save("moved from A to C", slot=("Ann", "lives in", "C"), valid_from="2019")
    other = mem.save("Bob moved to D", slot=("Bob", "lives in", "D"), valid_from="2020")
    assert b.lineage == c.lineage != other.lineage
    assert mem.get(b.lineage).slot == ("Ann", "lives in", "B")
    ann = [m.text for m in mem.view(valid_at="2020").scan().memories if m.lineage == b.lineage]
    assert ann == ["moved from A to C"]
    again = mem.save("moved from A to B", slot=("Ann", "lives in", "B"), valid_from="2022")
    assert (again.id, again.reinforced, again.reinforcements) == (b.id, True, 2)
    # Others keep all their values.
    mem.save("likes pears", slot=("Ann", "likes", "pears"), valid_from="2020")
    mem.save("likes tennis", slot=("Ann", "likes", "tennis"), valid_from="2021")
    assert mem.count(filter=None) == 4


def test_a_thousand_edits_keep_each_memory_readable_by_its_id_and_its_new_words(
    mem: MemoryStore, store: NaiveStore, rng: random.Random
) -> None:
    def found_by(word: str) -> list[str]:
        return [hit.id for hit in store.reader("memory.test", View(principal=mem.principal)).search(text=word)]

    made = [mem.save(f"word{n} start{n}") for n in range(20)]
    for step in range(100):
        n = rng.randrange(len(made))
        kind = rng.choice(["text", "tags", "layer", "pin", "unpin"])
        if kind == "text":
            old = made[n].text.split()[1]
            made[n] = mem.evolve(made[n].id, f"word{n} step{step}")
            assert found_by(f"step{step}") == [made[n].id]
            assert found_by(old) == []
        elif kind == "tags":
            made[n] = mem.evolve(made[n].id, tags=[f"t{step}"])
        elif kind == "layer":
            made[n] = mem.evolve(made[n].id, layer=rng.choice(["a", "b"]))
        else:
            made[n] = mem.pin(made[n].id) if kind == "pin" else mem.unpin(made[n].id)
        assert mem.get(made[n].id) == mem.get(made[n].lineage) == made[n]
    assert mem.count() == len(made)
    assert sorted(m.id for m in mem.scan().memories) == sorted(m.id for m in made)
    assert sum(len(mem.history(m.id)) for m in made) == mem.view(include=("superseded",)).count()
