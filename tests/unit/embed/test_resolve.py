"""From a name to an embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kektordb.embed import (
    CachedEmbedder,
    EmbedSettings,
    HashEmbedder,
    MiniLMEmbedder,
    OllamaEmbedder,
    OpenAIEmbedder,
    onnx,
    resolve_embedder,
)
from kektordb.errors import EmbeddingError, InvalidArgumentError


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("minilm", MiniLMEmbedder),
        (f"onnx:{onnx.PACKAGED_DIR}", MiniLMEmbedder),
        ("fake", HashEmbedder),
        ("fake:64", HashEmbedder),
        ("openai:text-embedding-3-small", OpenAIEmbedder),
        ("ollama:nomic-embed-text:latest", OllamaEmbedder),
    ],
)
def test_a_name_gives_its_embedder_and_the_embedder_its_name(spec: str, kind: type) -> None:
    found = resolve_embedder(spec)
    assert type(found) is kind
    assert type(resolve_embedder(found.name)) is kind
    assert resolve_embedder(found.name).name == found.name


def test_an_embedder_comes_back_as_it_is() -> None:
    fake = HashEmbedder()
    assert resolve_embedder(fake) is fake


def test_settings_reach_the_embedder(tmp_path: Path) -> None:
    assert resolve_embedder("openai:m", EmbedSettings(dim=7, base_url="https://h/v1")).dim == 7
    assert resolve_embedder("fake", EmbedSettings(dim=64)).dim == 64
    cached = resolve_embedder("fake", EmbedSettings(cache_entries=5, cache_path=tmp_path / "c.db"))
    assert isinstance(cached, CachedEmbedder)
    cached.close()
    with pytest.raises(EmbeddingError, match="no embedding model in"):
        resolve_embedder("minilm", EmbedSettings(model_dir=tmp_path))


@pytest.mark.parametrize(
    "spec", ["", "bert", "openai", "openai:", "ollama:", "fake:x", "fake:٣x", "minilm:v2", "onnx:"]
)
def test_an_unknown_name_is_told_the_forms(spec: str) -> None:
    with pytest.raises(InvalidArgumentError, match="unknown embedder") as e:
        resolve_embedder(spec)
    assert "openai:MODEL" in e.value.hint


def test_an_object_that_is_no_embedder_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="embedder is int"):
        resolve_embedder(5)  # type: ignore[arg-type]


def test_settings_do_not_show_the_key() -> None:
    shown = repr(EmbedSettings(api_key="sk-1", dim=3))
    assert "sk-1" not in shown
    assert "dim=3" in shown
