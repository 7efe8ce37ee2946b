"""Chats and sessions."""

from __future__ import annotations

import pytest

from kektordb.errors import AlreadyExistsError, ConflictError, InvalidArgumentError, NotFoundError
from kektordb.memory import MemorySettings, MemoryStore
from kektordb.memory.limits import TURNS_PER_RECORD
from kektordb.memory.turns import context_of
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

from .conftest import Opener

CHAT = [
    {"speaker": "Ann", "text": "I got the job!", "at": "2026-05-08T13:56:00", "caption": None},
    {"speaker": "Bob", "text": "Great!", "at": "2026-05-08T13:57:00", "caption": "a bottle of wine"},
    {"speaker": "Ann", "text": "Thanks", "at": "2026-05-08T13:57:00", "role": "user", "tags": ["x"]},
]


def test_turns_keep_speaker_time_caption_and_order(mem: MemoryStore) -> None:
    saved = mem.save_turns(CHAT, session="s1", source="chat.json")
    assert [m.seq for m in saved] == [0, 1, 2]
    assert [m.id for m in mem.scan().memories] == [m.id for m in saved]
    one, two, three = saved
    assert one.context == "[8 May 2026 13:56] Ann: I got the job!"
    assert two.context == "[8 May 2026 13:57] Bob: Great! [shares image: a bottle of wine]"
    assert (one.text, one.speaker, one.session, one.source, one.layer, one.kind) == (
        "I got the job!", "Ann", "s1", "chat.json", "episodic", "turn",
    )  # fmt: skip
    assert one.to_json()["at"] == "2026-05-08T13:56:00Z"
    assert (three.role, three.tags) == ("user", ("x",))
    assert mem.sessions.get("s1").turns == 3


def test_a_turn_holds_from_the_moment_it_was_said(mem: MemoryStore) -> None:
    mem.save_turns(CHAT[:1], session="s1")
    assert mem.view(valid_at="2026-05-08T13:55:59").count() == 0
    assert mem.view(valid_at="2026-05-08T13:56:00").count() == 1


def test_a_turn_dated_after_now_is_recalled_all_the_same(mem: MemoryStore) -> None:
    saved = mem.save_turns([{"text": "from another zone", "at": "2026-06-01T21:00:00"}], session="s")[0]
    assert mem.count() == 1
    assert saved.to_json()["at"] == "2026-06-01T21:00:00Z"


def test_a_chat_imported_twice_is_there_once(mem: MemoryStore, opened: Opener) -> None:
    first = mem.save_turns(CHAT, session="s1")
    again = opened(user="ann", agent="coder").save_turns(CHAT, session="s1")
    assert [m.id for m in again] == [m.id for m in first]
    assert all(m.reinforced for m in again)
    assert mem.count() == 3
    assert mem.sessions.get("s1").turns == 3
    assert mem.save_turns(CHAT, session="s2")[0].id != first[0].id


def test_equal_turns_are_told_apart(mem: MemoryStore) -> None:
    same = {"speaker": "Ann", "text": "ok", "at": "2026-05-08T13:56:00"}
    assert len({m.id for m in mem.save_turns([same, same, same], session="s")}) == 3
    assert len({m.id for m in mem.save_turns([same, same, same], session="s")}) == 3
    assert mem.count() == 3
    # Without a time nothing tells a second "ok" from the first, so each is kept.
    mem.save_turns([{"text": "ok"}, {"text": "ok"}], session="s")
    mem.save_turns([{"text": "ok"}], session="s")
    assert mem.count() == 6


def test_a_session_goes_on_where_it_was_left(mem: MemoryStore, opened: Opener) -> None:
    mem.save_turns(CHAT[:2], session="s1")
    later = opened(user="ann", agent="coder").save_turns(CHAT[2:], session="s1")
    assert later[0].seq == 2


def test_a_long_chat_goes_into_few_records_with_batched_embedding(
    opened: Opener, store: NaiveStore, embedder: FakeEmbedder
) -> None:
    mem = opened(user="ann", settings=MemorySettings(embed_batch=64))
    records = len(store.commits)
    seen: list[tuple[int, int]] = []
    count = TURNS_PER_RECORD + 10
    saved = mem.save_turns(
        ({"speaker": "Ann", "text": f"turn {n}"} for n in range(count)), session="s", progress=lambda *p: seen.append(p)
    )
    assert len(store.commits) == records + 2
    assert max(embedder.calls) == 64
    assert [m.seq for m in saved] == list(range(count))
    assert seen[-1] == (count, count)
    assert seen == sorted(seen)
    assert len(seen) > 30


@pytest.mark.parametrize(
    "turn",
    [{}, {"text": ""}, {"speaker": "Ann"}, {"text": "x", "at": "then"}, {"text": "x", "mood": "good"}, "text", {"text": 5},
     {"text": "x\ud800"}],
)  # fmt: skip
def test_a_wrong_turn_is_named_by_its_place_and_nothing_is_stored(mem: MemoryStore, turn: object) -> None:
    with pytest.raises(InvalidArgumentError, match="turn 1"):
        mem.save_turns([{"text": "fine"}, turn], session="s")  # type: ignore[list-item]
    assert mem.count() == 0
    assert mem.save_turns([], session="s") == []


def test_a_turn_that_is_only_a_picture_is_its_caption(mem: MemoryStore) -> None:
    saved = mem.save_turns([{"speaker": "Ann", "caption": "a cat"}], session="s")[0]
    assert (saved.text, saved.context) == ("a cat", "Ann: a cat")


def test_a_corrected_turn_keeps_what_stands_beside_it(mem: MemoryStore) -> None:
    one = mem.save_turns(CHAT[:1], session="s1")[0]
    two = mem.evolve(one.id, "I got the job offer!")
    assert two.context == "[8 May 2026 13:56] Ann: I got the job offer!"
    assert (two.seq, two.session, two.at) == (0, "s1", one.at)


def test_context_leaves_out_what_is_not_known() -> None:
    assert context_of("hi", speaker=None, at=None, caption=None) == "hi"
    assert context_of("hi", speaker="Ann", at=None, caption=None) == "Ann: hi"
    assert context_of("hi", speaker=None, at=0, caption="x") == "[1 January 1970 00:00] hi [shares image: x]"


def test_a_session_outlives_the_handle_that_started_it(opened: Opener, clock: FakeClock) -> None:
    started = opened(user="ann").sessions.start(title="planning")
    clock.advance(hours=1)
    ended = opened(user="ann").sessions.end(started.id)
    assert (ended.title, ended.started_at, ended.is_open) == ("planning", started.started_at, False)
    assert ended.ended_at is not None
    assert ended.ended_at > started.started_at
    with pytest.raises(ConflictError):
        opened(user="ann").sessions.end(started.id)
    with pytest.raises(AlreadyExistsError):
        opened(user="ann").sessions.start(started.id)
    with pytest.raises(NotFoundError):
        opened(user="ann").sessions.end("absent")


def test_sessions_are_listed_latest_first(mem: MemoryStore) -> None:
    for n, day in enumerate(("2026-01-02", "2026-01-03", "2026-01-01")):
        mem.sessions.start(f"s{n}", at=day)
    assert [s.id for s in mem.sessions.list()] == ["s1", "s0", "s2"]
    assert [s.id for s in mem.sessions.list(limit=1)] == ["s1"]
