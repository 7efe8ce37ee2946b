"""Saving: once, twice, and never at another's cost."""

from __future__ import annotations

import threading

import pytest

from kektordb.errors import (
    EmbedderMismatchError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
)
from kektordb.memory import MemorySettings, MemoryStore
from kektordb.memory.limits import MAX_TEXT_BYTES
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

from .conftest import EVERY_RIGHT, Opener


def test_a_saved_memory_is_read_back_as_it_was_told(mem: MemoryStore) -> None:
    told = mem.save(
        "Ann moved to Rome in May",
        layer="semantic",
        tags=["home", "home"],
        slot=("Ann", "lives in", "Rome"),
        valid_from="2026-05",
        source="chat.json",
        pinned=True,
        confidence=0.9,
        reason="she said so",
    )
    found = mem.get(told.id)
    assert found == told
    assert found.id == f"{found.lineage}.1"
    assert (found.text, found.layer, found.tags) == ("Ann moved to Rome in May", "semantic", ("home",))
    assert found.slot == ("Ann", "lives in", "Rome")
    assert (found.valid_from_precision, found.valid_to) == ("month", None)
    assert found.to_json()["valid_from"] == "2026-05-01T00:00:00Z"
    assert (found.scope.user, found.scope.agent, found.scope.session) == ("ann", "coder", None)
    assert (found.pinned, found.confidence, found.trust, found.life) == (True, 0.9, "user", "active")
    assert (found.source, found.reason, found.reinforcements) == ("chat.json", "she said so", 1)
    assert mem.get(told.lineage) == told


def test_saving_the_same_twice_strengthens_the_one_that_is_there(mem: MemoryStore, clock: FakeClock) -> None:
    first = mem.save("Dana likes pears")
    clock.advance(days=1)
    second = mem.save("dana likes  pears.")
    assert second.id == first.id
    assert second.reinforced
    assert not first.reinforced
    assert second.reinforcements == 2
    assert second.text == "Dana likes pears"
    assert mem.count() == 1
    assert len(mem.history(first.id)) == 1


def test_the_same_form_with_another_value_is_another_memory(mem: MemoryStore) -> None:
    pairs = [
        ("favourite colour is purple", "favourite colour is cyan"),
        ("Task 5 is done", "Task 6 is done"),
        ("release 1.2 is out", "release 1.3 is out"),
        ("paid on 2026-05-01", "paid on 2026-05-02"),
    ]
    for n, (one, other) in enumerate(pairs):
        assert mem.save(one).lineage != mem.save(other).lineage
        assert mem.count() == 2 * (n + 1)


def test_another_layer_slot_kind_scope_or_time_is_no_duplicate(mem: MemoryStore, opened: Opener) -> None:
    text = "on call"
    made = [
        mem.save(text),
        mem.save(text, layer="procedural"),
        mem.save(text, slot=("Ann", "is", "on call")),
        mem.save(text, kind="note"),
        mem.save(text, valid_from="2025-01", valid_to="2025-03"),
        mem.save(text, valid_from="2026-01"),
        opened(user="ann", agent="writer").save(text),
        opened(user="bob", agent="coder").save(text),
    ]
    assert len({m.lineage for m in made}) == len(made)
    assert not any(m.reinforced for m in made)
    assert mem.save(text, valid_from="2026-01").reinforced  # the control: all of it equal


def test_a_repetition_that_is_trusted_more_or_not_derived_is_kept_for_itself(mem: MemoryStore) -> None:
    source = mem.save("Ann said she is off sugar")
    derived = mem.save("Ann eats no sugar", parents=[source.id], trust="inference")
    told = mem.save("Ann eats no sugar")
    assert told.lineage != derived.lineage
    mem.retract(source.id)
    assert [m.id for m in mem.scan().memories] == [told.id]
    assert mem.save("Ann eats no sugar", trust="tool").reinforced


def test_a_repetition_from_a_better_source_is_kept_beside_the_first(mem: MemoryStore) -> None:
    web = mem.save("the office moves in June", trust="outside")
    told = mem.save("the office moves in June", trust="user")
    assert told.lineage != web.lineage
    assert mem.view(min_trust="user").count() == 1
    assert mem.save("the office moves in June", trust="outside").reinforced


def test_what_was_said_outright_does_not_hang_on_what_was_derived_before(mem: MemoryStore) -> None:
    source = mem.save("Ann said she is off sugar")
    derived = mem.save("Ann eats no sugar", parents=[source.id])
    assert mem.save("Ann eats no sugar").lineage != derived.lineage
    assert mem.save("Ann eats no sugar", parents=[source.id]).reinforced


def test_a_repetition_adds_its_tags_and_keeps_the_id(mem: MemoryStore) -> None:
    first = mem.save("likes tea", tags=["food"])
    again = mem.save("likes tea", tags=["drink"])
    assert again.id == first.id
    assert again.tags == ("food", "drink")
    assert again.recorded_at == first.recorded_at
    assert len(mem.history(first.id)) == 1


def test_what_was_retracted_ended_or_changed_is_not_met_again(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("likes tea")
    mem.retract(one.id)
    assert not mem.save("likes tea").reinforced
    two = mem.save("likes tea")
    assert two.reinforced
    mem.evolve(two.id, "likes coffee")
    three = mem.save("likes tea")
    assert not three.reinforced
    mem.end_validity(three.id)
    clock.advance(days=1)
    assert not mem.save("likes tea").reinforced
    assert mem.save("likes coffee").id == f"{two.lineage}.2"


def test_an_addition_never_leaves_fewer_memories(mem: MemoryStore) -> None:
    known = 0
    for text in ["loves sushi", "hates sushi", "loves sushi", "loves sushi!", "never ate sushi", "hates sushi"]:
        mem.save(text)
        assert mem.count() >= known
        known = mem.count()
    assert known == 3


def test_many_saves_go_into_one_record_and_report_progress(
    opened: Opener, store: NaiveStore, embedder: FakeEmbedder
) -> None:
    mem = opened(user="ann", settings=MemorySettings(embed_batch=10))
    records = len(store.commits)
    seen: list[tuple[int, int]] = []
    saved = mem.save_many(
        ({"text": f"fact {i % 25}", "tags": [str(i)]} for i in range(30)), progress=lambda *p: seen.append(p)
    )
    assert len(store.commits) == records + 1
    assert max(embedder.calls) <= 10
    assert seen[-1] == (30, 30)
    assert seen == sorted(seen)
    assert mem.count() == 25
    assert [m.reinforced for m in saved] == [False] * 25 + [True] * 5
    assert saved[25].id == saved[0].id
    assert saved[0].reinforcements == 2


def test_a_failing_embedder_changes_nothing(opened: Opener, store: NaiveStore) -> None:
    class Broken(FakeEmbedder):
        broken = False

        def embed(self, texts, *, kind="document"):
            if self.broken:
                raise TimeoutError
            return super().embed(texts, kind=kind)

    embedder = Broken()
    mem = opened(user="ann", embedder=embedder)
    old = mem.save("loves sushi")
    records = len(store.commits)
    embedder.broken = True
    for change in (lambda: mem.save("new"), lambda: mem.evolve(old.id, "hates sushi")):
        with pytest.raises(TimeoutError):
            change()
    assert len(store.commits) == records
    assert mem.get(old.lineage) == old
    embedder.broken = False
    assert mem.evolve(old.id, "hates sushi").version == 2


def test_a_failed_commit_changes_nothing(mem: MemoryStore, store: NaiveStore) -> None:
    old = mem.save("loves sushi")
    changes = [
        lambda: mem.save("new"),
        lambda: mem.save("loves sushi"),
        lambda: mem.evolve(old.id, "hates sushi"),
        lambda: mem.evolve(old.id, "hates sushi", valid_from="2026-05"),
        lambda: mem.retract(old.id),
        lambda: mem.end_validity(old.id),
        lambda: mem.pin(old.id),
        mem.delete_all,
        lambda: mem.save_turns([{"text": "hi"}], session="s"),
    ]
    for change in changes:
        store.fail_next_commit = OSError("no space")
        with pytest.raises(OSError, match="no space"):
            change()
        assert mem.history(old.id) == [old]
        assert mem.count() == 1
    assert mem.save("loves sushi").reinforcements == 2


def test_two_embedders_never_meet_in_one_memory(opened: Opener) -> None:
    opened(user="ann").save("likes tea")
    with pytest.raises(EmbedderMismatchError, match="reembed"):
        opened(user="ann", embedder=FakeEmbedder(name="other"))  # of the same dimension
    with pytest.raises(EmbedderMismatchError, match="reembed"):
        opened(user="ann", embedder=FakeEmbedder(dim=32))
    assert opened(user="ann").count() == 1


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a" * 49, "-a", "é"])
def test_a_memorys_name_is_checked(opened: Opener, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        opened(name)


BAD = {
    "empty": {"text": ""},
    "blank": {"text": " \n"},
    "bytes": {"text": b"x"},
    "none": {"text": None},
    "lone surrogate": {"text": "a\ud83d"},
    "nul": {"text": "a\0b"},
    "tags as text": {"tags": "home"},
    "empty tag": {"tags": [""]},
    "too many tags": {"tags": [str(i) for i in range(65)]},
    "slot as text": {"slot": "Ann"},
    "slot of one": {"slot": ("Ann",)},
    "slot without attribute": {"slot": ("Ann", "", "x")},
    "confidence above one": {"confidence": 1.5},
    "confidence NaN": {"confidence": float("nan")},
    "unknown trust": {"trust": "god"},
    "window without a moment": {"valid_from": "2026", "valid_to": "2026"},
    "no date": {"valid_from": "soon"},
    "reason too long": {"reason": "x" * 5_000},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_wrong_argument_is_named_and_nothing_is_stored(mem: MemoryStore, store: NaiveStore, bad: dict) -> None:
    records = len(store.commits)
    text = bad.pop("text", "fine") if "text" in bad else "fine"
    with pytest.raises(InvalidArgumentError) as refusal:
        mem.save(text, **bad)
    assert refusal.value.message
    assert len(store.commits) == records


def test_a_text_past_the_limit_is_refused_by_the_limits_name(mem: MemoryStore) -> None:
    with pytest.raises(LimitExceededError, match=str(MAX_TEXT_BYTES)) as refusal:
        mem.save("é" * (MAX_TEXT_BYTES // 2 + 1))
    assert refusal.value.context["limit"] == "MAX_TEXT_BYTES"
    assert mem.save("é" * (MAX_TEXT_BYTES // 2)).text


def test_text_of_every_script_comes_back_byte_for_byte(mem: MemoryStore) -> None:
    for text in ("★🎉外币", "perché Zoe\u0301", " שלום 'quotes\" \\ / %_:;", "a\tb\nc\r\n"):
        assert mem.get(mem.save(text).id).text == text


def test_a_parent_must_be_seen_by_the_one_who_names_it(mem: MemoryStore, opened: Opener) -> None:
    hidden = opened(user="bob").save("Bob's secret")
    with pytest.raises(NotFoundError):
        mem.save("derived", parents=[hidden.id])
    assert mem.count() == 0


def test_a_derived_memory_is_trusted_as_its_least_trusted_parent(mem: MemoryStore) -> None:
    web = mem.save("from the web", trust="outside")
    told = mem.save("told")
    assert mem.save("both", parents=[web.id, told.lineage]).trust == "outside"
    assert mem.save("one", parents=[told.id]).trust == "user"


def test_rights_are_asked_for_before_anything_is_written(opened: Opener, store: NaiveStore) -> None:
    owner = opened(user="ann")
    one = owner.save("likes tea")
    reader = opened(user="ann", rights=frozenset({"read"}))
    records = len(store.commits)
    for attempt in (
        lambda: reader.save("x"),
        lambda: reader.save_many([{"text": "x"}]),
        lambda: reader.save_turns([{"text": "x"}]),
        lambda: reader.evolve(one.id, "x"),
        lambda: reader.retract(one.id),
        lambda: reader.forget(one.id),
        lambda: reader.end_validity(one.id),
        lambda: reader.restore(one.id),
        lambda: reader.quarantine(one.id),
        lambda: reader.consolidate([one.id, one.id], "x"),
        reader.delete_all,
        lambda: reader.pin(one.id),
        lambda: reader.reinforce(one.id),
        reader.sessions.start,
        lambda: reader.view(include=("pending",)),
        lambda: owner.save("x", share=("agent",)),
    ):
        with pytest.raises(Exception) as refusal:
            attempt()
        assert refusal.type.__name__ in ("PermissionDeniedError", "TransitionError", "InvalidArgumentError")
    assert len(store.commits) == records
    assert reader.get(one.id).text == "likes tea"
    nothing = opened(user="ann", rights=frozenset())
    for read in (nothing.count, nothing.scan, lambda: nothing.get(one.id), lambda: nothing.history(one.id)):
        with pytest.raises(PermissionDeniedError):
            read()
    assert opened(user="ann", agent="coder", rights=EVERY_RIGHT).save("x", share=("agent",)).scope.agent is None


def test_handles_that_save_the_same_at_once_leave_one_memory(opened: Opener) -> None:
    handles = [opened(user="ann") for _ in range(4)]
    start = threading.Barrier(4)
    errors: list[BaseException] = []

    def work(mem: MemoryStore, own: int) -> None:
        try:
            start.wait()
            for i in range(10):
                mem.save(f"shared {i}")
                mem.save(f"own {own} {i}")
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(mem, n)) for n, mem in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert handles[0].count() == 10 + 4 * 10
    assert all(m.reinforcements == 4 for m in handles[1].scan().memories if m.text.startswith("shared"))
