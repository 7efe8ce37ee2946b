"""Fingerprints, and the rule that two spaces are never mixed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kektordb.embed import Fingerprint, HashEmbedder, is_embedder, require_same
from kektordb.errors import EmbedderMismatchError, InvalidArgumentError

ONE = Fingerprint("onnx", "all-MiniLM-L6-v2", 384, True, "sha256:" + "a" * 64)


def test_a_fingerprint_survives_json() -> None:
    assert Fingerprint.from_json(ONE.to_json()) == ONE


@pytest.mark.parametrize(
    "change",
    [{"provider": 1}, {"model": None}, {"dim": "384"}, {"dim": True}, {"normalised": "yes"}, {"digest": 5}],
)
def test_damaged_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="fingerprint"):
        Fingerprint.from_json({**ONE.to_json(), **change})


def test_another_dimension_digest_or_model_is_refused_by_name() -> None:
    for other, field in (
        (replace(ONE, dim=768), "dim"),
        (replace(ONE, digest="sha256:" + "b" * 64), "digest"),
        (replace(ONE, normalised=False), "normalised"),
        (replace(ONE, model="other", digest=""), "model"),
        (replace(ONE, provider="openai", digest=""), "provider"),
    ):
        with pytest.raises(EmbedderMismatchError, match=field) as e:
            require_same(ONE, other, collection="notes")
        assert "notes" in str(e.value)
        assert "reembed" in e.value.hint
        assert e.value.context["recorded"] == ONE.to_json()


def test_the_same_files_under_another_name_are_the_same_space() -> None:
    require_same(ONE, replace(ONE, model="my-copy"), collection="notes")


def test_a_foreign_class_with_the_right_methods_is_an_embedder() -> None:
    assert is_embedder(HashEmbedder())
    assert not is_embedder("minilm")
    assert not is_embedder(HashEmbedder)
