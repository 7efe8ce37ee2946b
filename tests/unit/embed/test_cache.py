"""The cache before an embedder."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kektordb.embed import CachedEmbedder, HashEmbedder, Kind, is_embedder
from kektordb.embed.protocol import Fingerprint, Vectors
from kektordb.errors import EmbeddingError, InvalidArgumentError


class Counting(HashEmbedder):
    """The fake, counting what it is asked."""

    def __init__(self, dim: int = 32, digest: str = "") -> None:
        super().__init__(dim)
        self.asked: list[str] = []
        self.digest = digest

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        self.asked += texts
        return super().embed(texts, kind=kind)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", "counting", self.dim, True, self.digest)


def test_a_text_is_embedded_once_and_the_hit_is_the_same_vector() -> None:
    inner = Counting()
    cache = CachedEmbedder(inner)
    first = cache.embed(["a", "b", "a"])
    again = cache.embed(["b", "a"])
    assert inner.asked == ["a", "b"]
    np.testing.assert_array_equal(first[[1, 0]], again)
    np.testing.assert_array_equal(first[0], first[2])
    assert (cache.hits, cache.misses) == (3, 2)
    assert is_embedder(cache)
    assert cache.fingerprint() == inner.fingerprint()


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=12), st.integers(1, 4))
def test_a_cache_of_any_size_answers_as_the_embedder_does(calls: list[list[str]], entries: int) -> None:
    plain = HashEmbedder(32)
    cache = CachedEmbedder(HashEmbedder(32), entries=entries)
    for texts in calls:
        np.testing.assert_array_equal(cache.embed(texts), plain.embed(texts))
        assert len(cache) <= entries


def test_what_was_used_longest_ago_goes_first() -> None:
    inner = Counting()
    cache = CachedEmbedder(inner, entries=2)
    cache.embed(["a"])
    cache.embed(["b"])
    cache.embed(["a"])
    cache.embed(["c"])
    inner.asked.clear()
    cache.embed(["a", "c"])
    assert inner.asked == []
    cache.embed(["b"])
    assert inner.asked == ["b"]


def test_query_and_document_are_kept_apart() -> None:
    inner = Counting()
    cache = CachedEmbedder(inner)
    cache.embed(["a"], kind="document")
    cache.embed(["a"], kind="query")
    assert inner.asked == ["a", "a"]


def test_options_that_change_a_vector_are_kept_apart(tmp_path: Path) -> None:
    class Prefixed(Counting):
        recipe = ""

    path = tmp_path / "cache.db"
    for recipe in ("query: ", "passage: "):
        inner = Prefixed()
        inner.recipe = recipe
        cache = CachedEmbedder(inner, path=path)
        cache.embed(["a"])
        assert inner.asked == ["a"]
        cache.close()


def test_a_kept_row_does_not_keep_its_whole_batch() -> None:
    cache = CachedEmbedder(Counting())
    cache.embed(["a", "b"])
    assert all(row.base is None for row in cache._memory.values())


def test_changing_the_answer_does_not_change_the_cache() -> None:
    cache = CachedEmbedder(Counting())
    row = cache.embed(["a"])
    want = row.copy()
    row[:] = 7
    np.testing.assert_array_equal(cache.embed(["a"]), want)


def test_a_file_outlives_the_cache_and_serves_two_models_apart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.db"
    one = CachedEmbedder(Counting(digest="sha256:1"), path=path)
    want = one.embed(["a", "b"])
    one.close()
    inner = Counting(digest="sha256:1")
    again = CachedEmbedder(inner, path=path)
    np.testing.assert_array_equal(again.embed(["b", "a"]), want[[1, 0]])
    assert inner.asked == []
    other = Counting(digest="sha256:2")
    CachedEmbedder(other, path=path).embed(["a"])
    assert other.asked == ["a"]
    again.close()


def test_the_file_is_bounded_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    cache = CachedEmbedder(Counting(), entries=1, path=path, file_entries=3)
    for text in ("a", "b", "c", "a", "d"):
        cache.embed([text])
    cache.close()
    inner = Counting()
    again = CachedEmbedder(inner, path=path)
    again.embed(["a", "c", "d"])
    assert inner.asked == []
    again.embed(["b"])
    assert inner.asked == ["b"]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM vectors").fetchone()[0] <= 4
    db.close()
    again.close()


def test_the_file_holds_no_text(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    cache = CachedEmbedder(Counting(), path=path)
    cache.embed(["unmistakable secret"])
    cache.close()
    raw = b"".join(f.read_bytes() for f in tmp_path.iterdir())
    assert b"secret" not in raw
    assert b"vectors" in raw, "positive control: this is the file"


def test_a_row_of_another_size_in_the_file_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    cache = CachedEmbedder(Counting(), path=path)
    want = cache.embed(["a"])
    cache.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE vectors SET row = x'00'")
    db.close()
    inner = Counting()
    again = CachedEmbedder(inner, path=path)
    np.testing.assert_array_equal(again.embed(["a"]), want)
    assert inner.asked == ["a"]
    again.close()


def test_a_file_that_fails_later_is_given_up_without_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "cache.db"
    cache = CachedEmbedder(Counting(), path=path)
    cache.embed(["a"])
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE vectors")
    db.close()
    assert cache.embed(["b"]).shape == (1, 32)
    assert "embed.cache_file_failed" in caplog.text
    assert cache.embed(["a", "b"]).shape == (2, 32)


def test_another_program_s_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(EmbeddingError, match="another program"):
        CachedEmbedder(Counting(), path=path)
    assert path.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not a database, " * 100)
    with pytest.raises(EmbeddingError, match="not an embedding cache"):
        CachedEmbedder(Counting(), path=text)
    assert text.read_text().startswith("not a database")


def test_threads_may_share_a_cache(tmp_path: Path) -> None:
    rng = random.Random(5)
    cache = CachedEmbedder(Counting(), entries=10, path=tmp_path / "cache.db", file_entries=20)
    plain = HashEmbedder(32)
    calls = [[rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5)] for _ in range(100)]
    with ThreadPoolExecutor(8) as pool:
        for texts, rows in zip(calls, pool.map(cache.embed, calls), strict=True):
            np.testing.assert_array_equal(rows, plain.embed(texts))
    assert len(cache) <= 10
    cache.close()


def test_clear_empties_memory_and_file(tmp_path: Path) -> None:
    inner = Counting()
    cache = CachedEmbedder(inner, path=tmp_path / "cache.db")
    cache.embed(["a"])
    cache.clear()
    cache.embed(["a"])
    assert inner.asked == ["a", "a"]
    cache.close()


@pytest.mark.parametrize("wrong", [{"entries": 0}, {"file_entries": -1}])
def test_bounds_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        CachedEmbedder(Counting(), **wrong)  # type: ignore[arg-type]
