"""Texts to vectors: one protocol, an offline model, two HTTP providers, a cache and a deterministic fake.

Promises: unit rows in float32, in the order of the texts; a text that is cut or sampled is always reported; no network
unless an HTTP embedder is asked for by name. Importing this package loads neither onnxruntime nor tokenizers, nor, until
a name is used that needs them, the modules of the standard library for HTTP and SQLite.
May import: `kektordb.errors`, numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kektordb.embed.protocol import Embedder, Fingerprint, Kind, LongTextWarning, is_embedder, require_same
from kektordb.embed.resolve import EmbedSettings, resolve_embedder

if TYPE_CHECKING:
    from kektordb.embed.cache import CachedEmbedder
    from kektordb.embed.fake import HashEmbedder
    from kektordb.embed.http import OllamaEmbedder, OpenAIEmbedder
    from kektordb.embed.onnx import MiniLMEmbedder

__all__ = [
    "CachedEmbedder",
    "EmbedSettings",
    "Embedder",
    "Fingerprint",
    "HashEmbedder",
    "Kind",
    "LongTextWarning",
    "MiniLMEmbedder",
    "OllamaEmbedder",
    "OpenAIEmbedder",
    "is_embedder",
    "require_same",
    "resolve_embedder",
]

_LAZY = {
    "CachedEmbedder": "cache",
    "HashEmbedder": "fake",
    "MiniLMEmbedder": "onnx",
    "OllamaEmbedder": "http",
    "OpenAIEmbedder": "http",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
