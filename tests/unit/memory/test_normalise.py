"""When two statements are the same."""

from __future__ import annotations

import pytest

from kektordb.memory.normalise import digest, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann lives in Rome", "ann  lives in\nRome."),
        ("It’s “fine”", 'it\'s "fine"'),
        ("Zoe\u0301", "Zo\u00e9"),
        ("well—known", "well-known"),
        ("STRASSE", "straße"),
        ("done...", "done…"),
    ],
)
def test_the_look_is_folded(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("favourite colour is purple", "favourite colour is cyan"),
        ("Task 5", "Task 6"),
        ("2⁵", "25"),
        ("version 1.2", "version 12"),
        ("owes -5", "owes 5"),
        ("Ann lives in Rome?", "Ann lives in Rome."),
        ("she likes it", "she likes it not"),
        ("½ cup", "1/2 cup"),
        ("C++", "C"),
        ("C#", "C"),
    ],
)
def test_a_value_is_never_folded(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_punctuation_alone_stays_what_it_is() -> None:
    assert normalised("...") == "..."


def test_the_hash_depends_on_key_scope_text_and_slot() -> None:
    base = digest(b"k", {"scope": ["ann", None]}, "Likes tea", ("Ann", "likes", "tea"))
    assert base == digest(b"k", {"scope": ["ann", None]}, "likes  tea.", ("ann", "Likes", "tea"))
    others = {
        digest(b"x", {"scope": ["ann", None]}, "Likes tea", ("Ann", "likes", "tea")),
        digest(b"k", {"scope": [None, "ann"]}, "Likes tea", ("Ann", "likes", "tea")),
        digest(b"k", {"scope": ["ann", None]}, "Likes tea", ("Ann", "likes", "coffee")),
        digest(b"k", {"scope": ["ann", None]}, "Likes tea", None),
        digest(b"k", {"scope": ["ann", None]}, "Likes coffee", ("Ann", "likes", "tea")),
    }
    assert base not in others
    assert len(others) == 5
