"""From names and settings to an open memory: what `db.memory(…)` calls."""

from __future__ import annotations

from kektordb.embed.protocol import Embedder
from kektordb.embed.resolve import EmbedSettings, resolve_embedder
from kektordb.engine.protocol import Store
from kektordb.memory.layers import MemorySettings
from kektordb.memory.store import MemoryStore
from kektordb.model.clock import Clock
from kektordb.model.view import Principal


def open_memory(
    store: Store,
    name: str = "memory",
    *,
    principal: Principal | None = None,
    embedder: str | Embedder = "minilm",
    embed_settings: EmbedSettings | None = None,
    settings: MemorySettings | None = None,
    clock: Clock | None = None,
) -> MemoryStore:
    """Opens the memory `name`, or makes it.

    principal: who acts; without one, what is open to everybody. embedder: a name ("minilm" is offline) or an Embedder; one that
    did not fill the memory is refused (EmbedderMismatchError). settings: layers, language, batches. The embedder's model is
    loaded here.
    """
    return MemoryStore(
        store,
        name,
        embedder=resolve_embedder(embedder, embed_settings),
        principal=principal,
        settings=settings,
        clock=clock,
    )
