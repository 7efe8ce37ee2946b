"""Documents as passages: along headings and paragraphs, never in the middle of a word. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PASSAGE_CHARS_MAX = 1_000
"""About 250 tokens: what the packaged embedder sees at once."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that stands on its own; `heading` is the path of headings above it."""

    text: str
    heading: str = ""
    position: int = 0


def plain(text: str) -> Iterator[Passage]:
    """Paragraphs, joined while they fit."""
    for i, piece in enumerate(packed(re.split(r"\n\s*\n", text))):
        yield Passage(piece, position=i)


def markdown(text: str) -> Iterator[Passage]:
    """Sections by heading; fenced code stays whole where it fits. Front matter is left out."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    path: list[str] = []
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    position = 0

    def flush() -> Iterator[Passage]:
        nonlocal position
        if lines:
            blocks.append("\n".join(lines))
        heading = " › ".join(p for p in path if p)
        for piece in packed(blocks):
            yield Passage(piece, heading=heading, position=position)
            position += 1
        blocks.clear()
        lines.clear()

    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark.group(1)
        heading = None if fence else re.match(r"(#{1,6})\s+(.*?)\s*#*$", line)
        if heading:
            yield from flush()
            level = len(heading.group(1))
            del path[level - 1 :]
            path.extend([""] * (level - 1 - len(path)))
            path.append(heading.group(2))
        elif not line.strip() and not fence:
            if lines:
                blocks.append("\n".join(lines))
                lines.clear()
        else:
            lines.append(line)
    yield from flush()


def packed(blocks: list[str]) -> Iterator[str]:
    """Neighbouring blocks joined up to the limit; a longer block is split at sentences, then at spaces."""
    current = ""
    for block in blocks:
        for piece in pieces(block.strip()):
            if current and len(current) + 2 + len(piece) > PASSAGE_CHARS_MAX:
                yield current
                current = ""
            current = f"{current}\n\n{piece}" if current else piece
    if current:
        yield current


def pieces(block: str) -> Iterator[str]:
    while len(block) > PASSAGE_CHARS_MAX:
        window = block[:PASSAGE_CHARS_MAX]
        ends = [m.end() for m in re.finditer(r"[.!?。！？]\s+|\n", window)]
        cut = ends[-1] if ends and ends[-1] > PASSAGE_CHARS_MAX // 3 else window.rfind(" ") + 1
        cut = cut or PASSAGE_CHARS_MAX
        yield block[:cut].strip()
        block = block[cut:].strip()
    if block:
        yield block
