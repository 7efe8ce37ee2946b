"""Users, agents and sessions: who reads what, in every pairing."""

from __future__ import annotations

import itertools

import pytest

from kektordb.errors import NotFoundError, PermissionDeniedError
from kektordb.testing import NaiveStore

from .conftest import EVERY_RIGHT, Opener

USERS = (None, "u1", "u2")
AGENTS = (None, "a1")
SESSIONS = (None, "s1", "s2")


def test_every_principal_sees_exactly_what_the_rule_says(opened: Opener, store: NaiveStore) -> None:
    everyone = list(itertools.product(USERS, AGENTS, SESSIONS))
    handles = {own: opened(user=own[0], agent=own[1], session=own[2]) for own in everyone}
    saved = {own: mem.save(f"fact of {own}", tags=["x"]) for own, mem in handles.items()}
    for reader, mem in handles.items():
        allowed = {
            row: one
            for row, one in saved.items()
            if all(part is None or part == own for part, own in zip(row, reader, strict=True))
        }
        assert {m.id for m in mem.scan().memories} == {one.id for one in allowed.values()}
        assert mem.count() == len(allowed)
        assert mem.facets("tags") == [("x", len(allowed))]
        for row, one in saved.items():
            if row in allowed:
                assert mem.get(one.id).text == one.text
                assert mem.history(one.id)[0].id == one.id
                continue
            for read in (mem.get, mem.history, mem.lineage, mem.retract, mem.end_validity, mem.pin, mem.restore):
                with pytest.raises(NotFoundError):
                    read(one.id)
            with pytest.raises(NotFoundError):
                mem.evolve(one.id, "taken over")
            with pytest.raises(NotFoundError):
                mem.consolidate([one.id, saved[reader].id], "merged")


def test_both_users_likings_of_a_third_person_stay_apart(opened: Opener) -> None:
    alice, bob = opened(user="alice"), opened(user="bob")
    alice.save("Dana likes pears", slot=("Dana", "likes", "pears"))
    before = (alice.scan(), alice.count(), alice.facets("slot"))
    bob.save("Dana likes tennis", slot=("Dana", "likes", "tennis"))
    assert (alice.scan(), alice.count(), alice.facets("slot")) == before
    assert "tennis" not in str(before)


def test_writes_carry_the_principals_scope_and_a_new_version_the_old_ones(opened: Opener) -> None:
    plain = opened(user="ann")
    coder = opened(user="ann", agent="coder")
    one = plain.save("A")
    two = coder.evolve(one.id, "B")
    assert (two.scope.user, two.scope.agent) == ("ann", None)
    assert plain.get(one.lineage).text == "B"


def test_what_every_user_reads_is_not_one_users_to_change(opened: Opener) -> None:
    nobody = opened()
    one = nobody.save("the door code is 1234")
    ann = opened(user="ann")
    assert ann.get(one.id).text == one.text
    for change in (
        lambda: ann.evolve(one.id, "x"),
        lambda: ann.retract(one.id),
        lambda: ann.end_validity(one.id),
        lambda: ann.quarantine(one.id),
    ):
        with pytest.raises(PermissionDeniedError, match="share"):
            change()
    assert ann.delete_all() == 0
    assert nobody.get(one.id) == one
    assert opened(user="ann", rights=EVERY_RIGHT).evolve(one.id, "x").scope.user is None


def test_a_merged_memory_is_read_by_no_one_who_could_not_read_its_sources(opened: Opener) -> None:
    open_one = opened(user="ann").save("A")
    coder = opened(user="ann", agent="coder")
    own = coder.save("B")
    merged = coder.consolidate([open_one.id, own.id], "A and B")
    assert (merged.scope.user, merged.scope.agent) == ("ann", "coder")
    with pytest.raises(NotFoundError):
        opened(user="ann").get(merged.id)


def test_a_session_id_used_again_does_not_join_users(opened: Opener) -> None:
    one, two = opened(user="u1"), opened(user="u2")
    one.sessions.start("s1", title="first")
    one.save_turns([{"text": "mine"}], session="s1")
    with pytest.raises(NotFoundError):
        two.sessions.get("s1")
    assert two.sessions.list() == []
    assert two.sessions.start("s1").turns == 0
    two.save_turns([{"text": "yours"}], session="s1")
    assert [m.text for m in two.scan().memories] == ["yours"]
    assert one.sessions.get("s1").turns == 1


@pytest.mark.parametrize("odd", ['a"', "a,b", "a]", "a\\", "%", "_", "", "ann/coder", "null", 'x",null,"y'])
def test_names_with_odd_signs_neither_merge_nor_act_as_wildcards(opened: Opener, odd: str) -> None:
    names = [odd, "a", "b", None]
    for user, agent in itertools.product(names, names):
        mem = opened(user=user, agent=agent)
        mem.sessions.start("s")
        mem.save(f"{user!r} {agent!r}")
    for user, agent in itertools.product(names, names):
        mem = opened(user=user, agent=agent)
        assert [s.id for s in mem.sessions.list()] == ["s"]
        wanted = {
            f"{u!r} {a!r}"
            for u, a in itertools.product(names, names)
            if (u is None or u == user) and (a is None or a == agent)
        }
        assert {m.text for m in mem.scan().memories} == wanted
