"""Settings of a memory: its layers, how each fades, what a read does. Values; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

DecayModel = Literal["exponential", "linear", "step", "ebbinghaus"]
HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """How memories of one layer fade and count."""

    half_life_s: float | None = None
    """None: they do not fade."""
    decay: DecayModel = "exponential"
    pinned: bool = False
    """Pinned unless a memory says otherwise."""
    weight: float = 1.0


def _layers() -> Mapping[str, LayerSettings]:
    return MappingProxyType(
        {
            "episodic": LayerSettings(half_life_s=72 * HOUR_S),
            "semantic": LayerSettings(half_life_s=720 * HOUR_S),
            "procedural": LayerSettings(pinned=True),
            "working": LayerSettings(half_life_s=12 * HOUR_S),
        }
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Settings of one memory. A layer that is not named takes `other_layers`."""

    layers: Mapping[str, LayerSettings] = field(default_factory=_layers)
    other_layers: LayerSettings = LayerSettings(half_life_s=168 * HOUR_S)
    """For a layer without settings of its own."""
    language: str | None = "english"
    """Stemmer of the word index; any snowball language, None for none. Fixed when the memory is made."""
    touch_on_recall: bool = True
    """A recalled memory counts as accessed, which slows its fading."""
    embed_batch: int = 256
    """Texts given to the embedder at once."""
    single_valued: frozenset[str] = frozenset()
    """Attributes of slots that hold one value at a time: a dated save joins the timeline of the one that is there."""

    def layer(self, name: str) -> LayerSettings:
        return self.layers.get(name, self.other_layers)
