"""Texts to vectors: one protocol, an offline model, two HTTP providers, a cache and a deterministic fake.

Promises: unit rows in float32, in the order of the texts; a text that is cut or sampled is always reported; no network
unless an HTTP embedder is asked for by name. Importing this package loads neither onnxruntime nor tokenizers.
May import: `kektordb.errors`, numpy.
"""

from kektordb.embed.cache import CachedEmbedder
from kektordb.embed.fake import HashEmbedder
from kektordb.embed.http import OllamaEmbedder, OpenAIEmbedder
from kektordb.embed.onnx import MiniLMEmbedder
from kektordb.embed.protocol import Embedder, Fingerprint, Kind, LongTextWarning, is_embedder, require_same
from kektordb.embed.resolve import EmbedSettings, resolve_embedder

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
