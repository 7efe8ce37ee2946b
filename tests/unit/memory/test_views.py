"""Named views: the same reads, another answer."""

from __future__ import annotations

import json
import math

import pytest

from kektordb.errors import InvalidArgumentError, PermissionDeniedError
from kektordb.memory import MemoryStore, MemoryView
from kektordb.model.view import Belief, Life, Scope, Stamps, Trust
from kektordb.testing import FakeClock

from .conftest import Opener


def texts(view: MemoryView) -> list[str]:
    return sorted(m.text for m in view.scan().memories)


@pytest.fixture
def world(mem: MemoryStore) -> MemoryStore:
    """One memory of every class."""
    mem.save("active")
    mem.retract(mem.save("retracted").id)
    mem.evolve(mem.save("superseded").id, "successor")
    mem.quarantine(mem.save("quarantined").id)
    mem.save("expired", valid_to="2020")
    mem.save("future", valid_from="2040")
    source = mem.save("source")
    mem.save("stale", parents=[source.id])
    mem.retract(source.id)
    one, two = mem.save("part one"), mem.save("part two")
    mem.consolidate([one.id, two.id], "whole")
    mem.save("outside", trust="outside")
    with mem._shelf.store.writer() as writer:  # classes that nothing makes yet
        for text, stamps in {
            "pending": Stamps(life=Life.PENDING),
            "rejected": Stamps(life=Life.REJECTED),
            "erased": Stamps(life=Life.ERASED),
            "refuted": Stamps(belief=Belief.REFUTED),
            "other user's": Stamps(scope=Scope(user="bob")),
            "other agent's": Stamps(scope=Scope(user="ann", agent="writer")),
        }.items():
            lineage = mem._shelf.ids.lineage()
            payload = {
                "text": text,
                "context": text,
                "layer": "semantic",
                "kind": "fact",
                "lineage": lineage,
                "version": 1,
            }
            writer.put(
                "memory.test", f"{lineage}.1", payload=payload, vector=mem._shelf.embed([text])[0], stamps=stamps
            )
    return mem


SHOWN = ["active", "outside", "successor", "whole"]
ASKED = {
    "retracted": ["retracted", "source"],
    "superseded": ["superseded"],
    "quarantined": ["quarantined"],
    "consolidated": ["part one", "part two"],
    "expired": ["expired", "future"],
    "future": ["expired", "future"],
    "stale": ["stale"],
    "pending": ["pending"],
    "rejected": ["rejected"],
    "erased": ["erased"],
    "refuted": ["refuted"],
}


def test_the_default_view_shows_no_hidden_class(world: MemoryStore) -> None:
    assert texts(world) == SHOWN
    assert world.count() == len(SHOWN)
    assert dict(world.facets("text")) == dict.fromkeys(SHOWN, 1)


def recalled(view: MemoryView, query: str, **given: object) -> set[str]:
    return {hit.text for hit in view.recall(query, k=50, **given)}  # type: ignore[arg-type]


HIDDEN = sorted({text for shown in ASKED.values() for text in shown} | {"other user's", "other agent's"})


@pytest.mark.parametrize("text", HIDDEN)
def test_recall_of_its_very_words_does_not_bring_a_hidden_memory(world: MemoryStore, text: str) -> None:
    assert recalled(world, text) <= set(SHOWN)
    assert all(hit.text != text and not hit.also for hit in world.recall(text, explain=True))
    assert world.recall("active", k=1)[0].text == "active"  # the control


@pytest.mark.parametrize("asked", ASKED)
def test_recall_brings_a_hidden_class_to_who_asks_for_it(world: MemoryStore, asked: str) -> None:
    for text in ASKED[asked]:
        assert world.recall(text, k=1, include=(asked,))[0].text == text
        assert world.view(include=(asked,)).recall(text, k=1)[0].text == text
        assert recalled(world, text, include=(asked,)) <= {*SHOWN, *ASKED[asked]}


def test_hidden_rows_take_no_place_from_those_that_are_shown(mem: MemoryStore) -> None:
    made = [mem.save(f"the red bicycle of Ann, number {n}") for n in range(60)]
    for one in made[:-2]:
        mem.retract(one.id)
    assert {hit.id for hit in mem.recall("red bicycle of Ann", k=10)} == {m.id for m in made[-2:]}


def test_what_one_user_recalls_is_the_same_with_and_without_anothers_rows(mem: MemoryStore, opened: Opener) -> None:
    for text in ("Dana likes pears", "Dana lives in Rome", "tea at five"):
        mem.save(text)
    before = mem.recall("what does Dana like?", k=10, explain=True, touch=False)
    bob = opened(user="bob")
    for n in range(30):
        bob.save(f"Dana likes tennis, she said {n} times")
    assert mem.recall("what does Dana like?", k=10, explain=True, touch=False) == before


def test_a_filter_of_any_form_narrows_and_never_widens(world: MemoryStore) -> None:
    everything = (
        "layer = 'semantic'",
        "NOT (layer = 'x')",
        "text = 'retracted' OR layer = 'semantic'",
        "life = 'retracted'",
    )
    for text in everything:
        assert recalled(world, "retracted", filter=text) <= set(SHOWN)
        assert {m.text for m in world.scan(filter=text).memories} <= set(SHOWN)
    assert recalled(world, "active", filter="text = 'active'") == {"active"}
    assert recalled(world, "superseded", filter="text = 'superseded'", include=("superseded",)) == {"superseded"}


def test_a_recall_counts_as_an_access_except_of_the_past(mem: MemoryStore, clock: FakeClock) -> None:
    one = mem.save("likes tea")
    clock.advance(days=1)
    mem.recall("tea")
    assert mem.get(one.id).accesses == 1
    assert mem.get(one.id).last_access is not None
    mem.recall("tea", touch=False)
    mem.recall("tea", as_of=clock.now())
    assert mem.get(one.id).accesses == 1
    assert len(mem.history(one.id)) == 1


def test_of_two_alike_the_one_that_is_used_ranks_first(mem: MemoryStore, clock: FakeClock) -> None:
    one, two = mem.save("Dana drinks tea at home"), mem.save("Dana drinks tea at home", kind="note")
    clock.advance(days=90)
    for used in (one, two):
        mem.reinforce(used.id)
        assert mem.recall("what does Dana drink?", k=1, touch=False)[0].id == used.id
        clock.advance(days=90)


def test_a_clock_that_was_set_back_hides_nothing(mem: MemoryStore, clock: FakeClock) -> None:
    mem.save("likes tea")
    mem.recall("tea")
    clock.advance(days=-400)
    hit = mem.recall("tea", explain=True)[0]
    assert hit.text == "likes tea"
    assert math.isfinite(hit.score)


def test_a_hit_carries_its_memory_with_provenance_and_window(mem: MemoryStore) -> None:
    saved = mem.save("likes tea", source="chat.json", valid_from="2020", trust="tool")
    hit = mem.recall("tea", touch=False)[0]
    assert (hit.memory, hit.id, hit.text) == (saved, saved.id, saved.text)
    shown = hit.to_json()
    assert (shown["id"], shown["source"], shown["trust"], shown["valid_from"]) == (
        saved.id, "chat.json", "tool", "2020-01-01T00:00:00Z",
    )  # fmt: skip
    json.dumps(shown)


@pytest.mark.parametrize("asked", ASKED)
def test_each_hidden_class_is_shown_to_who_asks_for_it_and_no_other_comes_along(world: MemoryStore, asked: str) -> None:
    view = world.view(include=(asked,))
    assert texts(view) == sorted([*SHOWN, *ASKED[asked]])
    assert view.count() == len(SHOWN) + len(ASKED[asked])
    for memory in view.scan().memories:
        assert view.get(memory.id) == memory


def test_life_replaces_and_include_adds(world: MemoryStore) -> None:
    assert texts(world.view(life=("retracted",))) == ["retracted", "source"]
    assert texts(world.view(life=(Life.RETRACTED, "quarantined"))) == ["quarantined", "retracted", "source"]
    assert texts(world.view(life=("retracted",), include=("quarantined",))) == ["quarantined", "retracted", "source"]
    assert texts(world.view(include=("retracted",)).view(include=("quarantined",))) == sorted(
        [*SHOWN, "retracted", "source", "quarantined"]
    )


def test_trust_is_a_lower_bound(world: MemoryStore) -> None:
    assert texts(world.view(min_trust="inference")) == ["active", "successor", "whole"]
    assert texts(world.view(min_trust=Trust.OUTSIDE)) == SHOWN


@pytest.mark.parametrize(
    "wrong",
    [{"include": ("hidden",)}, {"life": ("gone",)}, {"life": (Life.GONE,)}, {"min_trust": "high"}, {"as_of": "soon"}],
)
def test_a_wrong_wish_is_refused(mem: MemoryStore, wrong: dict) -> None:
    with pytest.raises(InvalidArgumentError):
        mem.view(**wrong)


def test_what_waits_for_review_is_for_reviewers(world: MemoryStore, opened: Opener) -> None:
    plain = opened(user="ann", agent="coder", rights=frozenset({"read"}))
    for asked in ("pending", "quarantined", "rejected"):
        with pytest.raises(PermissionDeniedError, match="review"):
            plain.view(include=(asked,))
    assert texts(plain.view(include=("superseded",))) == sorted([*SHOWN, "superseded"])


def test_a_view_has_no_way_to_write(mem: MemoryStore) -> None:
    view = mem.view()
    assert not any(
        hasattr(view, verb) for verb in ("save", "evolve", "retract", "delete_all", "pin", "restore", "sessions")
    )


def test_pages_put_together_are_the_whole(mem: MemoryStore) -> None:
    made = [mem.save(f"fact {n}").id for n in range(23)]
    for size in (1, 5, 23, 50):
        seen: list[str] = []
        after = None
        while True:
            page = mem.scan(limit=size, after=after)
            seen += [m.id for m in page.memories]
            after = page.next
            if after is None:
                break
        assert seen == made


def test_diff_tells_what_came_went_and_changed_between_two_moments(mem: MemoryStore, clock: FakeClock) -> None:
    stays, goes, changes = mem.save("stays"), mem.save("goes"), mem.save("changes")
    before = clock.advance(days=1)
    clock.advance(days=1)
    mem.retract(goes.id)
    mem.evolve(changes.id, "changed")
    mem.save("comes")
    mem.reinforce(stays.id)
    after = clock.advance(days=1)
    found = mem.diff(before, after)
    assert [m.text for m in found.added] == ["comes"]
    assert [m.text for m in found.removed] == ["goes"]
    assert [(a.text, b.text) for a, b in found.changed] == [("changes", "changed")]
    assert not mem.diff(after, after)
    back = mem.diff(after, before)
    assert [m.text for m in back.added] == ["goes"]


def test_layers_narrow_counts_and_scans(mem: MemoryStore) -> None:
    mem.save("A", layer="semantic")
    mem.save("B", layer="episodic")
    assert mem.count(layers=["episodic"]) == 1
    assert [m.text for m in mem.scan(layers=["semantic", "x"]).memories] == ["A"]
    assert mem.count(layers=[]) == 0
