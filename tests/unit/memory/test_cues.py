"""What a question tells beside its topic, and the times that a text mentions."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.memory import cues
from kektordb.memory.lexicon import forms, kin
from kektordb.memory.mentions import Span, mentioned


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


MONDAY = us("2023-05-08T13:56:00")


def test_words_that_carry_no_topic_are_left_out_and_each_word_comes_once() -> None:
    assert cues.read("When did Ann buy the red bike, the RED one?").terms == ("ann", "buy", "red", "bike", "one")


def test_a_question_of_empty_words_alone_keeps_them() -> None:
    assert cues.read("who are you?").terms == ("who", "are", "you")


def test_a_question_in_another_language_keeps_all_its_words() -> None:
    assert cues.read("Где живёт Анна?").terms == ("где", "живёт", "анна")
    assert cues.read("外币汇率换算").terms == ("外币汇率换算",)


def test_a_very_long_question_is_cut_to_its_first_words() -> None:
    assert len(cues.read(" ".join(f"w{i}" for i in range(500))).terms) == cues.MAX_TERMS


@pytest.mark.parametrize(
    ("question", "flag"),
    [
        ("When did she move?", "when"),
        ("In which month did she move?", "when"),
        ("How long ago was it?", "when"),
        ("How long has she painted?", "how_long"),
        ("How many dogs has he?", "number"),
        ("Where does Ann live?", "name"),
        ("Which city is it?", "name"),
        ("What book did she read?", "title"),
        ("What did I say?", "of_me"),
        ("What did you recommend?", "of_you"),
    ],
)
def test_the_kind_of_answer_is_read_from_the_question(question: str, flag: str) -> None:
    assert getattr(cues.read(question), flag)


def test_a_plain_question_has_no_cues() -> None:
    read = cues.read("What does Ann think of tea?")
    assert not any((read.when, read.how_long, read.number, read.name, read.of_me, read.of_you, read.date))


def test_months_years_and_days_are_read_as_a_date() -> None:
    read = cues.read("What happened on 7 May 2023?").date
    assert (read.months, read.years, read.days) == (frozenset({5}), frozenset({2023}), frozenset({7}))
    assert cues.read("what may she do").date.months == frozenset()
    assert cues.read("the 3 dogs").date.days == frozenset()


def test_relative_times_need_the_moment_of_asking() -> None:
    assert not cues.read("What did Ann do yesterday?").date
    assert cues.read("What did Ann do yesterday?", now=MONDAY).date.spans == (Span(date(2023, 5, 7), date(2023, 5, 7)),)


def test_speakers_are_named_by_any_word_or_a_capitalised_short_form() -> None:
    assert cues.named("What did mary say to Mel?", ["Melanie", "Mary Ann"]) == ["Mary Ann", "Melanie"]
    assert cues.named("the theory of it", ["Theo", "Ofelia"]) == []
    assert cues.named("What did the user say?", ["Theodor"]) == []
    assert cues.named("Is Al here?", ["Alice"]) == []


def test_names_are_taken_out_of_the_topic() -> None:
    assert cues.without_names(("mel", "paint", "melanie"), ["Melanie Smith"]) == ("paint",)


def test_irregular_forms_reach_each_other() -> None:
    assert set(forms("went")) == {"go", "gone"}
    assert "took" in forms("taking")
    assert "ran" in forms("running")
    assert "children" in forms("child")
    assert forms("table") == ()


def test_kin_words_come_with_their_forms_and_without_the_word_itself() -> None:
    assert "bought" in kin("purchased")
    assert "kid" in kin("children")
    assert "photo" in kin("pictures")
    assert "photo" not in kin("photo")
    assert kin("table") == ()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("I went yesterday", "2023-05-07", "2023-05-07"),
        ("the day before yesterday", "2023-05-06", "2023-05-06"),
        ("see you tomorrow", "2023-05-09", "2023-05-09"),
        ("I went to Paris last week", "2023-04-28", "2023-05-04"),
        ("last weekend", "2023-05-06", "2023-05-07"),
        ("next weekend", "2023-05-13", "2023-05-14"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("next month", "2023-06-01", "2023-06-30"),
        ("this year", "2023-01-01", "2023-12-31"),
        ("last Friday", "2023-05-05", "2023-05-05"),
        ("last Monday", "2023-05-01", "2023-05-01"),
        ("next Friday", "2023-05-12", "2023-05-12"),
        ("next Monday", "2023-05-15", "2023-05-15"),
        ("two days ago", "2023-05-06", "2023-05-06"),
        ("a week ago", "2023-04-29", "2023-05-03"),
        ("10 years ago", "2013-01-09", "2013-09-08"),
    ],
)
def test_a_relative_time_counts_from_the_day_it_was_said(text: str, first: str, last: str) -> None:
    assert mentioned(text, MONDAY) == [Span(date.fromisoformat(first), date.fromisoformat(last))]


def test_what_cannot_be_placed_is_left_out() -> None:
    assert mentioned("once upon a time, 9999 years ago", MONDAY) == []
    assert mentioned("yesterday", 2**62) == []


@given(st.text(alphabet="lastnexwkmouyrdgbi 0123456789", max_size=60), st.integers(-(2**62), 2**62))
def test_any_text_at_any_moment_gives_ordered_spans(text: str, at: int) -> None:
    for tail in ("", " last year", " 3 weeks ago", " next month", " tomorrow", " last weekend", " next sunday"):
        assert all(span.first <= span.last for span in mentioned(text + tail, at))
