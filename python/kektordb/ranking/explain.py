"""Why a hit is where it is, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def explain(parts: Mapping[str, float], *, notes: Mapping[str, str] | None = None, least: float = 0.005) -> str:
    """One line: parts in order of their size, each with its sign; those smaller than `least` are left out.

    >>> explain({"words": 1.2, "speaker": 0.5, "question": -0.25})
    'words +1.20, speaker +0.50, question -0.25'
    """
    told = [(name, value) for name, value in parts.items() if abs(value) >= least]
    told.sort(key=lambda part: (-abs(part[1]), part[0]))
    lines = []
    for name, value in told:
        note = (notes or {}).get(name)
        lines.append(f"{name} {value:+.2f}" + (f" ({note})" if note else ""))
    return ", ".join(lines)
