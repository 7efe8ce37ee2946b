"""Random saves, changes and retractions by many principals, against a plain list: who sees what, after every step."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kektordb.errors import NotFoundError, PermissionDeniedError
from kektordb.memory import MemoryStore
from kektordb.model.view import Principal
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

RIGHTS = frozenset({"read", "write", "evolve", "retract", "review", "share"})
USERS, AGENTS, SESSIONS = (None, "u1", "u2"), (None, "a1", "a2"), (None, "s1")


@dataclass
class Fact:
    """What the list knows of one lineage."""

    owner: tuple[str | None, str | None, str | None]
    lineage: str
    text: str
    parents: tuple[str, ...] = ()
    """Lineages."""
    gone: bool = False
    stale: bool = False

    def is_shown_to(self, who: tuple[str | None, ...]) -> bool:
        return not self.gone and not self.stale and self.is_of(who)

    def is_of(self, who: tuple[str | None, ...]) -> bool:
        return all(part is None or part == own for part, own in zip(self.owner, who, strict=True))


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_every_principal_sees_its_own_and_what_is_open_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    clock = FakeClock()
    store = NaiveStore(clock=clock)
    embedder = FakeEmbedder(dim=16)
    everyone = [(u, a, s) for u in USERS for a in AGENTS for s in SESSIONS]
    handles = {
        who: MemoryStore(store, "t", embedder=embedder, principal=Principal(*who, rights=RIGHTS), clock=clock)
        for who in everyone
    }
    facts: list[Fact] = []
    for step in range(40):
        who = rng.choice(everyone)
        one_step(rng, handles[who], who, facts, f"fact {step}")
        clock.advance(micros=rng.choice([0, 1, 1_000]))
        for reader in rng.sample(everyone, 4):
            mem = handles[reader]
            assert sorted(m.text for m in mem.scan().memories) == sorted(f.text for f in facts if f.is_shown_to(reader))
            assert mem.count() == sum(f.is_shown_to(reader) for f in facts)
            for fact in rng.sample(facts, min(3, len(facts))):
                if fact.is_shown_to(reader):
                    assert mem.get(fact.lineage).text == fact.text
                else:
                    with pytest.raises(NotFoundError):
                        mem.get(fact.lineage)


def one_step(rng: random.Random, mem: MemoryStore, who: tuple[str | None, ...], facts: list[Fact], text: str) -> None:
    seen = [f for f in facts if f.is_shown_to(who)]
    kind = rng.choice(["save", "save", "derive", "evolve", "retract", "restore", "foreign", "delete all"])
    if kind == "save" or (kind in ("derive", "evolve", "retract") and not seen):
        user, agent, session = who
        facts.append(Fact((user, agent, session), mem.save(text).lineage, text))
    elif kind == "derive":
        parents = rng.sample(seen, min(2, len(seen)))
        user, agent, session = who
        made = mem.save(text, parents=[f.lineage for f in parents])
        facts.append(Fact((user, agent, session), made.lineage, text, tuple(f.lineage for f in parents)))
    elif kind == "evolve":
        fact = rng.choice(seen)
        mem.evolve(fact.lineage, tags=[text])  # the same words: what rests on them stays bound to them
    elif kind == "retract":
        fact = rng.choice(seen)
        mem.retract(fact.lineage)
        fact.gone = True
    elif kind == "restore":
        gone = [f for f in facts if f.gone and f.is_of(who)]
        if gone:
            fact = rng.choice(gone)
            mem.restore(fact.lineage)
            fact.gone = False
    elif kind == "foreign":
        foreign = [f for f in facts if not f.is_of(who)]
        for act in (mem.retract, mem.pin, lambda name: mem.evolve(name, "taken over")):
            if foreign:
                with pytest.raises(NotFoundError):
                    act(rng.choice(foreign).lineage)
    elif rng.random() < 0.3:
        own = [f for f in facts if f.is_of(who) and not f.gone and (who[0] is None or f.owner[0] is not None)]
        assert mem.delete_all() == len(own)
        for fact in own:
            fact.gone = True
    spread(facts)


def spread(facts: list[Fact]) -> None:
    """Stale: something above it, at any depth, is gone."""
    known = {f.lineage: f for f in facts}

    def rests_on_gone(fact: Fact) -> bool:
        return any(known[p].gone or rests_on_gone(known[p]) for p in fact.parents)

    for fact in facts:
        fact.stale = rests_on_gone(fact)


def test_a_principal_without_the_right_changes_nothing_that_others_share() -> None:
    clock = FakeClock()
    store = NaiveStore(clock=clock)
    shared = MemoryStore(store, "t", embedder=FakeEmbedder(), clock=clock).save("open to all")
    ann = MemoryStore(store, "t", embedder=FakeEmbedder(), principal=Principal(user="ann"), clock=clock)
    with pytest.raises(PermissionDeniedError):
        ann.retract(shared.id)
    assert ann.get(shared.id) == shared
