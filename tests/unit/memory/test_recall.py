"""Ranked recall over a reader: what it finds, what it must not see, and that it is the same for every k."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.engine.protocol import Reader
from kektordb.errors import InvalidArgumentError, LimitExceededError
from kektordb.memory import MemoryStore, recall_weights
from kektordb.memory.layers import LayerSettings, MemorySettings
from kektordb.memory.recall import MAX_K, MAX_QUERY_CHARS, POOL, Tuning, recall
from kektordb.memory.turns import context_of
from kektordb.model.view import Life, Stamps, View
from kektordb.ranking import RecallHit
from kektordb.testing import FakeClock, FakeEmbedder, NaiveStore

DAY_S = 86_400
NOW = 1_780_000_000_000_000
EMBED = FakeEmbedder()


@dataclass(frozen=True)
class Use:
    accesses: int = 0
    last_us: int | None = None
    pinned: bool | None = None


def turn(text: str, seq: int | None = None, *, session: str | None = "s", **more: Any) -> dict[str, Any]:
    payload = {"text": text, "session": session, "seq": seq, "layer": "episodic", **more}
    payload["context"] = context_of(
        text, speaker=payload.get("speaker"), at=payload.get("at"), caption=payload.get("caption")
    )
    return {key: value for key, value in payload.items() if value is not None}


def reader_of(
    rows: Iterable[Mapping[str, Any]], *, hidden: Iterable[int] = (), ids: Sequence[int] | None = None
) -> Reader:
    """Rows in order; row n gets the id `m000n.1` (or that of `ids[n]`). Hidden ones are written, in a state no view here shows."""
    rows = list(rows)
    store = NaiveStore(clock=FakeClock("2026-06-01T12:00:00"))
    store.ensure_collection("c", dim=EMBED.dim, text_fields=["context"], language=None, meta={})
    vectors = EMBED.embed([row["context"] for row in rows])
    with store.writer() as writer:
        for n, (row, vector) in enumerate(zip(rows, vectors, strict=True)):
            life = Life.RETRACTED if n in set(hidden) else Life.ACTIVE
            number = n if ids is None else ids[n]
            writer.put("c", f"m{number:04}.1", payload=row, vector=vector, stamps=Stamps(life=life))
    return store.reader("c", View())


def ask(reader: Reader, query: str, **given: Any) -> list[RecallHit]:
    given.setdefault("now", NOW)
    vector = given.pop("vector", EMBED.embed([query], kind="query")[0])
    return recall(reader, query, vector, **given)


def ids(hits: Iterable[RecallHit]) -> list[str]:
    return [hit.id for hit in hits]


CHAT = [
    turn("Hi! Any news?", 0, speaker="Bob"),
    turn("I bought a red bicycle yesterday", 1, speaker="Ann"),
    turn("Nice, what does it cost?", 2, speaker="Bob"),
    turn("Two hundred, and it came with a bell", 3, speaker="Ann"),
    turn("My cat sleeps all day", 0, session="t", speaker="Bob"),
    turn("Cats do that", 1, session="t", speaker="Ann"),
    turn("We should cook together some day", 2, session="t", speaker="Bob"),
]


def test_the_turn_that_answers_comes_first() -> None:
    hits = ask(reader_of(CHAT), "What did Ann buy?", k=3)
    assert hits[0].text == "I bought a red bicycle yesterday"
    assert (hits[0].speaker, hits[0].session, hits[0].seq, hits[0].layer) == ("Ann", "s", 1, "episodic")


def test_an_answer_without_a_word_of_the_question_is_found_beside_it() -> None:
    hits = ask(reader_of(CHAT), "What did the red bicycle cost?", k=3)
    assert "m0003.1" in ids(hits)
    alone = [dict(row) | {"session": f"own {n}"} for n, row in enumerate(CHAT)]
    assert "m0003.1" not in ids(ask(reader_of(alone), "What did the red bicycle cost?", k=3))


def test_words_alone_find_without_a_vector() -> None:
    assert ids(ask(reader_of(CHAT), "bicycle", vector=None, k=1)) == ["m0001.1"]
    assert ask(reader_of(CHAT), "zeppelin", vector=None) == []


def test_a_text_without_spaces_is_found_by_a_word_of_it() -> None:
    rows = [turn(text, None, session=None) for text in ("外币汇率换算 每天", "红色 自行车", "天气 很好")]
    assert ids(ask(reader_of(rows), "自行车", vector=None, k=1)) == ["m0001.1"]


def test_an_empty_memory_recalls_nothing() -> None:
    assert ask(reader_of([]), "anything") == []


def test_the_named_speaker_is_preferred() -> None:
    rows = [turn("I like green tea", n, session=f"s{n}", speaker=who) for n, who in enumerate(["Bob", "Ann", "Cid"])]
    assert ids(ask(reader_of(rows), "Does Ann like green tea?", vector=None, k=1)) == ["m0001.1"]
    assert ids(ask(reader_of(rows), "Does Cid like green tea?", vector=None, k=1)) == ["m0002.1"]


def test_the_month_asked_for_is_preferred() -> None:
    at = {month: 1_672_531_200_000_000 + month * 31 * DAY_S * 1_000_000 for month in range(6)}
    rows = [turn("we went hiking", 0, session=f"s{m}", at=moment) for m, moment in at.items()]
    assert ids(ask(reader_of(rows), "What happened in March 2023?", k=1)) == ["m0002.1"]
    assert ids(ask(reader_of(rows), "What happened in April 2023?", k=1)) == ["m0003.1"]


def test_the_day_asked_for_is_preferred_within_its_month() -> None:
    first = 1_677_628_800_000_000
    rows = [turn("we went hiking", 0, session=f"s{n}", at=first + n * DAY_S * 1_000_000) for n in range(9)]
    hits = ask(reader_of(rows), "Who went hiking on 6 March 2023?", vector=None, k=9, explain=True)
    said = {hit.id: round(hit.parts["date"] / recall_weights.ALL["date"], 3) for hit in hits}
    assert hits[0].id == "m0005.1"
    assert [said[f"m000{n}.1"] for n in range(9)] == [0.6, 0.6, 0.8, 0.8, 0.8, 1.2, 0.8, 0.8, 0.8]


def test_a_word_used_for_the_same_thing_counts_less_than_the_word_itself() -> None:
    rows = [turn("the children sleep", 0, session="a"), turn("the kids sleep", 0, session="b")]
    rows.append(turn("the hens sleep", 0, session="c"))
    by_id = {hit.id: hit.parts for hit in ask(reader_of(rows), "Do the kids sleep?", explain=True)}
    assert by_id["m0001.1"]["words_near"] > by_id["m0000.1"]["words_near"] > by_id["m0002.1"]["words_near"]


def test_last_week_is_counted_from_the_moment_of_asking() -> None:
    rows = [turn("we went hiking", 0, session=f"s{n}", at=NOW - n * 7 * DAY_S * 1_000_000) for n in range(4)]
    assert ids(ask(reader_of(rows), "Did we go hiking last week?", vector=None, k=1)) == ["m0001.1"]


def test_a_when_question_prefers_a_turn_that_tells_a_time() -> None:
    rows = [
        turn("my new bicycle is red and fast", 0, session="a"),
        turn("my new bicycle came last week", 0, session="b"),
    ]
    assert ids(ask(reader_of(rows), "When did the new bicycle come?", vector=None, k=1)) == ["m0001.1"]


def test_what_the_user_said_outweighs_what_the_assistant_wrote_unless_asked_for() -> None:
    rows = [
        turn("the bicycle needs new brakes", 0, session="a", role="assistant"),
        turn("that bicycle needs new brakes", 0, session="b", role="user"),
    ]
    assert ids(ask(reader_of(rows), "bicycle brakes", vector=None, k=1)) == ["m0001.1"]
    assert ids(ask(reader_of(rows), "What did you write about bicycle brakes?", vector=None, k=1)) == ["m0000.1"]


vocabulary = "red green bike cat tea coffee hiking paris rome job cook song week paint dog photo".split()
texts = st.lists(st.lists(st.sampled_from(vocabulary), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=14)


@given(texts, st.data())
def test_what_is_hidden_changes_nothing_at_all(said: list[str], data: st.DataObject) -> None:
    """The same answer, to the last bit, as if the hidden rows had never been written."""
    rows = [turn(text, n % 5, session=f"s{n // 5}", speaker="Ann" if n % 2 else "Bob") for n, text in enumerate(said)]
    hidden = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    kept = [n for n in range(len(rows)) if n not in hidden]
    question = data.draw(st.sampled_from(["When did Ann paint the red bike?", "cat", "What coffee does Bob like?"]))
    with_hidden = ask(reader_of(rows, hidden=hidden), question, k=20, explain=True)
    without = ask(reader_of([rows[n] for n in kept], ids=kept), question, k=20, explain=True)
    assert with_hidden == without


@given(texts, st.integers(1, 20), st.integers(0, 20))
def test_a_larger_k_begins_with_the_hits_of_a_smaller_one(said: list[str], k: int, more: int) -> None:
    reader = reader_of([turn(text, n, session=f"s{n % 3}") for n, text in enumerate(said)])
    few, many = ask(reader, "red bike in paris", k=k), ask(reader, "red bike in paris", k=k + more)
    assert many[: len(few)] == few


def test_the_first_ten_are_the_same_whatever_is_asked_for() -> None:
    draw = random.Random(7)
    rows = [turn(" ".join(draw.choices(vocabulary, k=5)) + f" {n}", n % 40, session=f"s{n // 40}") for n in range(280)]
    reader = reader_of(rows)
    first = ask(reader, "tea and coffee in rome", k=10)
    for k in (11, 50, 100, 250, 280, MAX_K):
        hits = ask(reader, "tea and coffee in rome", k=k)
        assert hits[:10] == first
        assert len(hits) == min(k, 280)
        assert sorted(hits, key=lambda h: (-h.score, h.id)) == hits
        assert len(set(ids(hits))) == len(hits)


def test_what_lies_beyond_the_pool_comes_after_it_and_is_marked() -> None:
    rows = [turn(f"row number {n}", None, session=None) for n in range(POOL + 90)]
    hits = ask(reader_of(rows), "number", k=MAX_K, explain=True)
    assert len(hits) == POOL + 90
    beyond = ["beyond_pool" in hit.parts for hit in hits]
    assert beyond == sorted(beyond)
    assert any(beyond)
    unlike = ask(reader_of(rows), "zeppelin?", k=MAX_K)
    assert len(unlike) == POOL + 90
    assert [hit.score for hit in unlike] == sorted((hit.score for hit in unlike), reverse=True)


def test_equal_scores_come_in_id_order() -> None:
    rows = [turn("the same words in every row", 0, session=f"s{n}") for n in range(5)]
    hits = ask(reader_of(rows, ids=[3, 1, 4, 0, 2]), "same words", k=5, tuning=Tuning(doubles=True))
    assert ids(hits) == [f"m000{n}.1" for n in range(5)]


def test_near_equal_texts_take_one_place_and_are_named() -> None:
    rows = [turn("Ann lives in Rome", None, session=None), turn("Bob lives in Oslo", None, session=None)]
    rows += [turn("ann lives in rome!", None, session=None) for _ in range(3)]
    hits = ask(reader_of(rows), "Where does Ann live in Rome?", k=2)
    assert [hit.text.lower().rstrip("!") for hit in hits] == ["ann lives in rome", "bob lives in oslo"]
    assert sorted([hits[0].id, *hits[0].also]) == ["m0000.1", "m0002.1", "m0003.1", "m0004.1"]
    assert ask(reader_of(rows, hidden=[0, 2, 3]), "Where does Ann live in Rome?", k=10)[0].also == ()


def test_the_same_words_of_another_speaker_or_another_day_are_another_memory() -> None:
    rows = [
        turn("we went hiking", 0, session="a", at=0, speaker="Ann"),
        turn("we went hiking", 0, session="b", at=DAY_S * 1_000_000, speaker="Ann"),
        turn("we went hiking", 0, session="c", at=0, speaker="Bob"),
        turn("we went hiking", 0, session="d", at=1, speaker="Ann"),
    ]
    assert sorted([hit.id, *hit.also] for hit in ask(reader_of(rows), "hiking")) == [
        ["m0000.1", "m0003.1"], ["m0001.1"], ["m0002.1"],
    ]  # fmt: skip


def test_the_one_left_of_a_hundred_near_equal_rows_is_found() -> None:
    rows = [turn("the meeting is in room nine", None, session=None) for _ in range(100)]
    assert ids(ask(reader_of(rows, hidden=range(99)), "meeting room", k=10)) == ["m0099.1"]


def test_a_filter_and_layers_only_narrow() -> None:
    rows = [dict(row) | {"layer": "semantic" if n % 2 else "episodic"} for n, row in enumerate(CHAT)]
    reader = reader_of(rows)
    everything = ids(ask(reader, "red bicycle", k=50))
    assert sorted(everything) == [f"m{n:04}.1" for n in range(len(CHAT))]
    assert sorted(ids(ask(reader, "red bicycle", k=50, layers=["semantic"]))) == ["m0001.1", "m0003.1", "m0005.1"]
    assert sorted(ids(ask(reader, "red bicycle", k=50, filter="speaker = 'Bob'"))) == [
        "m0000.1", "m0002.1", "m0004.1", "m0006.1",
    ]  # fmt: skip
    assert ask(reader, "red bicycle", layers=[]) == []


def test_the_token_budget_is_kept_and_the_last_text_cut() -> None:
    rows = [turn("bicycle " * 30 + str(n), None, session=None) for n in range(4)]
    hits = ask(reader_of(rows), "bicycle", k=4, max_tokens=100)
    assert sum(hit.tokens for hit in hits) <= 100
    assert [hit.truncated for hit in hits] == [False, True]
    assert hits[-1].text.endswith("…")


def test_parts_are_told_when_asked_for_and_sum_to_the_score() -> None:
    hits = ask(reader_of(CHAT), "When did Ann buy the bicycle?", k=7, explain=True, settings=MemorySettings())
    for hit in hits:
        assert math.isclose(sum(hit.parts.values()), hit.score, abs_tol=1e-9)
        assert set(hit.parts) <= {*recall_weights.ALL, "layer", "fading"}
    assert "speaker" in hits[0].parts
    assert all(hit.parts == {} for hit in ask(reader_of(CHAT), "When did Ann buy the bicycle?"))


def test_a_question_about_nothing_here_is_less_relevant_than_any_bound() -> None:
    reader = reader_of(CHAT)
    assert ask(reader, "quantum chromodynamics lattice", min_relevance=0.5) == []
    assert ask(reader, "red bicycle", min_relevance=0.5, k=1)[0].relevance > 0.9


FADING = MemorySettings(
    layers={"episodic": LayerSettings(half_life_s=DAY_S), "kept": LayerSettings(half_life_s=DAY_S, pinned=True)}
)


def test_of_two_equal_memories_the_one_used_today_comes_first_by_the_stated_formula() -> None:
    old = NOW - 3 * DAY_S * 1_000_000
    rows = [turn("tea is good", 0, session="a", at=old), turn("tea is good", 0, session="b", at=old)]
    use: Mapping[str, Use] = {"m0001": Use(accesses=0, last_us=NOW)}
    hits = ask(reader_of(rows), "tea", settings=FADING, access=lambda _: use, tuning=Tuning(doubles=True), explain=True)
    assert ids(hits) == ["m0001.1", "m0000.1"]
    assert "fading" not in hits[0].parts
    assert math.isclose(hits[1].parts["fading"], math.log(0.5 + 0.5 * 0.5**3), abs_tol=1e-9)


@pytest.mark.parametrize("moment", [NOW + 10**15, 2**62, 0, -(2**62)])
def test_a_moment_that_cannot_be_never_makes_a_score_that_is_no_number(moment: int) -> None:
    rows = [turn("tea is good", 0, session="a") | {"at": moment}, turn("tea is bad", 0, session="b", at=NOW)]
    hits = ask(reader_of(rows), "tea", settings=FADING, access=lambda _: {"m0001": Use(9, moment)})
    assert len(hits) == 2
    assert all(math.isfinite(hit.score) for hit in hits)


def test_old_evidence_is_never_faded_away() -> None:
    rows = [turn("my passport number is X1", 0, session="a", at=0)]
    rows += [turn(f"small talk about the weather, part {n}", n, session="b", at=NOW) for n in range(30)]
    assert ids(ask(reader_of(rows), "What is my passport number?", settings=FADING, k=1)) == ["m0000.1"]


def test_pins_stop_fading_and_a_layer_of_no_weight_is_left_out() -> None:
    rows = [
        turn("tea one", None, session=None, at=0),
        turn("tea two", None, session=None, at=0),
        turn("tea three", None, session=None, at=0, layer="kept"),
        turn("tea four", None, session=None, at=0, layer="off"),
    ]
    settings = MemorySettings(layers={**FADING.layers, "off": LayerSettings(weight=0.0)})
    use = {"m0001": Use(pinned=True), "m0002": Use(pinned=False)}
    hits = ask(reader_of(rows), "tea", settings=settings, access=lambda _: use, explain=True)
    told = {hit.id: (hit.pinned, "fading" in hit.parts) for hit in hits}
    assert told == {"m0000.1": (False, True), "m0001.1": (True, False), "m0002.1": (False, True)}


@pytest.mark.parametrize("given", [{"query": ""}, {"query": "  "}, {"k": 0}, {"k": -1}, {"k": True}, {"max_tokens": 0}])
def test_a_senseless_question_is_refused(given: dict[str, Any]) -> None:
    query = given.pop("query", "x")
    with pytest.raises(InvalidArgumentError):
        recall(reader_of(CHAT), query, None, **given)


def test_bounds_are_named() -> None:
    for query, k, limit in (("x" * (MAX_QUERY_CHARS + 1), 5, "MAX_QUERY_CHARS"), ("x", MAX_K + 1, "MAX_K")):
        with pytest.raises(LimitExceededError) as caught:
            recall(reader_of(CHAT), query, None, k=k)
        assert caught.value.context["limit"] == limit
    assert len(recall(reader_of(CHAT), "x bicycle", None, k=MAX_K)) > 0


def test_a_whole_memory_recalls_what_was_saved_and_not_what_was_retracted(mem: MemoryStore) -> None:
    saved = mem.save_turns([{"speaker": row["speaker"], "text": row["text"]} for row in CHAT], session="s1")
    assert mem.recall("What did Ann buy?", k=1)[0].id == saved[1].id
    mem.retract(saved[1].id, reason="never true")
    hits = mem.recall("What did Ann buy, a red bicycle?", k=10)
    assert saved[1].id not in [hit.id for hit in hits]
    assert len(hits) == len(CHAT) - 1
