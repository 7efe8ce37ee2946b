"""Memory for agents over the engine's protocol: versions in lineages, two clocks, scopes, decay, sessions."""

from __future__ import annotations

from kektordb.memory.layers import LayerSettings, MemorySettings
from kektordb.memory.opening import open_memory
from kektordb.memory.reembed import ReembedReport, reembed
from kektordb.memory.store import MemoryStore
from kektordb.memory.views import MemoryView

__all__ = ["LayerSettings", "MemorySettings", "MemoryStore", "MemoryView", "ReembedReport", "open_memory", "reembed"]
