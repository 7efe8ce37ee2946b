"""From a name in a setting to an embedder.

`minilm` (the packaged model) · `onnx:FOLDER` · `fake`, `fake:DIM` · `openai:MODEL` · `ollama:MODEL` · an Embedder itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kektordb.embed.protocol import Embedder, is_embedder
from kektordb.errors import InvalidArgumentError

_FORMS = "minilm, onnx:FOLDER, fake, fake:DIM, openai:MODEL, ollama:MODEL or an Embedder"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings:
    """Options of the embedder that a name stands for; None = the embedder's own default or its environment variable."""

    model_dir: Path | None = None
    threads: int = 0
    """Cores of the offline model; 0 = all, 4 at most."""
    long: str = "chunk"
    base_url: str | None = None
    api_key: str | None = None
    dim: int | None = None
    max_tokens: int | None = None
    batch_size: int | None = None
    timeout_s: float | None = None
    tries: int = 4
    query_prefix: str = ""
    document_prefix: str = ""
    cache_entries: int = 0
    """Vectors kept in memory; 0 = no cache."""
    cache_path: Path | None = None

    def __repr__(self) -> str:
        shown = {n: getattr(self, n) for n in self.__slots__ if n != "api_key"}
        return f"EmbedSettings({', '.join(f'{k}={v!r}' for k, v in shown.items())}, api_key={'***' if self.api_key else None})"


def resolve_embedder(spec: str | Embedder, settings: EmbedSettings | None = None) -> Embedder:
    """The embedder that `spec` names; an object that is one already comes back as it is (behind the cache, if any)."""
    s = settings or EmbedSettings()
    inner = _named(spec, s) if isinstance(spec, str) else spec
    if not is_embedder(inner):
        raise InvalidArgumentError(f"embedder is {type(spec).__name__}", hint=f"wanted {_FORMS}")
    if s.cache_entries or s.cache_path is not None:
        from kektordb.embed.cache import CachedEmbedder

        return CachedEmbedder(inner, entries=s.cache_entries or 50_000, path=s.cache_path)
    return inner


def _named(spec: str, s: EmbedSettings) -> Embedder:
    kind, _, rest = spec.strip().partition(":")
    match kind:
        case "minilm" if not rest:
            from kektordb.embed.onnx import MiniLMEmbedder

            return MiniLMEmbedder(s.model_dir, threads=s.threads, long=s.long, max_tokens=s.max_tokens or 256)
        case "onnx" if rest:
            from kektordb.embed.onnx import MiniLMEmbedder

            return MiniLMEmbedder(rest, threads=s.threads, long=s.long, max_tokens=s.max_tokens or 256)
        case "fake" if not rest or rest.isdecimal():
            from kektordb.embed.fake import HashEmbedder

            return HashEmbedder(int(rest) if rest else s.dim or 256)
        case "openai" if rest:
            from kektordb.embed.http import OpenAIEmbedder

            return OpenAIEmbedder(
                rest,
                base_url=s.base_url,
                api_key=s.api_key,
                dim=s.dim,
                max_tokens=s.max_tokens or 8191,
                batch_size=s.batch_size or 64,
                timeout_s=s.timeout_s or 60.0,
                tries=s.tries,
                long=s.long,
                query_prefix=s.query_prefix,
                document_prefix=s.document_prefix,
            )
        case "ollama" if rest:
            from kektordb.embed.http import OllamaEmbedder

            return OllamaEmbedder(
                rest,
                base_url=s.base_url,
                api_key=s.api_key,
                dim=s.dim,
                max_tokens=s.max_tokens or 2048,
                batch_size=s.batch_size or 32,
                timeout_s=s.timeout_s or 120.0,
                tries=s.tries,
                long=s.long,
                query_prefix=s.query_prefix,
                document_prefix=s.document_prefix,
            )
    raise InvalidArgumentError(f"unknown embedder {spec!r}", hint=f"wanted {_FORMS}")
