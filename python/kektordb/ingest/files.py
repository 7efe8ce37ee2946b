"""Walks a file or folder and tells each file's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kektordb.errors import InvalidArgumentError, NotFoundError
from kektordb.ingest import chats, documents

Json = Any

SIZE_BYTES_MAX = 512 << 20
"""Files beyond this are skipped by name: an export is read whole."""

TEXT_SUFFIXES = frozenset({".txt", ".text", ".log", ".rst"})
MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx"})
JSON_SUFFIXES = frozenset({".json"})
LINES_SUFFIXES = frozenset({".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True)
class Source:
    """One conversation (`turns`) or one document (`passages`)."""

    name: str
    form: str
    """"chatgpt", "claude", "claude-code", "gemini", "turns", "markdown", "text"."""
    session: str
    turns: tuple[chats.Turn, ...] = ()
    passages: tuple[documents.Passage, ...] = ()

    def __len__(self) -> int:
        return len(self.turns) + len(self.passages)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not read, and why; nothing is passed over in silence."""

    name: str
    why: str
    count: int = 1
    """How many records this stands for; a file or conversation that is left out whole counts as one."""


def read_path(path: str | Path) -> Iterator[Source | Skipped]:
    """Everything readable under `path` (a file or a folder), in name order. NotFoundError where there is nothing."""
    root = Path(path).expanduser()
    if not root.exists():
        raise NotFoundError(f"{root} does not exist", hint="name a file or a folder")
    if root.is_file():
        yield from read_file(root)
        return
    if not root.is_dir():
        raise InvalidArgumentError(f"{root} is neither a file nor a folder")
    for file in sorted(root.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
        if file.is_file() and not hidden and not file.name.endswith(("~", ".tmp", ".part", ".swp", ".lock")):
            yield from read_file(file)


def read_file(file: Path) -> Iterator[Source | Skipped]:
    name, suffix = str(file), file.suffix.lower()
    try:
        size = file.stat().st_size
    except OSError as e:
        yield Skipped(name, f"cannot be read: {e.strerror}")
        return
    if size > SIZE_BYTES_MAX:
        yield Skipped(name, f"larger than {SIZE_BYTES_MAX >> 20} MiB")
        return
    readers: dict[str, Callable[[str, str], Iterator[Source | Skipped]]] = {
        **dict.fromkeys(MARKDOWN_SUFFIXES, markdown),
        **dict.fromkeys(TEXT_SUFFIXES, plain),
        **dict.fromkeys(JSON_SUFFIXES, whole_json),
        **dict.fromkeys(LINES_SUFFIXES, json_lines),
    }
    reader = readers.get(suffix)
    if reader is None:
        yield Skipped(name, f"no reader for {suffix or 'a file without a suffix'}")
        return
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as e:
        yield Skipped(name, f"is not UTF-8 text (byte {e.start})")
        return
    except OSError as e:
        yield Skipped(name, f"cannot be read: {e.strerror}")
        return
    yield from reader(name, text)


def markdown(name: str, text: str) -> Iterator[Source | Skipped]:
    yield document(name, "markdown", documents.markdown(text))


def plain(name: str, text: str) -> Iterator[Source | Skipped]:
    yield document(name, "text", documents.plain(text))


def document(name: str, form: str, passages: Iterator[documents.Passage]) -> Source | Skipped:
    found = tuple(passages)
    return Source(name, form, Path(name).stem, passages=found) if found else Skipped(name, "holds no text")


def whole_json(name: str, text: str) -> Iterator[Source | Skipped]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        yield Skipped(name, f"is not JSON: {e}")
        return
    found = False
    for form, session, turns, left_out in chats.conversations(data, Path(name).stem):
        if left_out and turns:
            yield Skipped(f"{name}: {session}", f"{left_out} records hold no words of a speaker", left_out)
        found = True
        if turns:
            yield Source(name, form, session, turns=tuple(turns))
        else:
            yield Skipped(f"{name}: {session}", "holds no text")
    strange = chats.strangers(data)
    if found and strange:
        yield Skipped(name, f"{strange} entries are neither conversations nor turns", strange)
    if not found:
        yield Skipped(name, "is JSON of a form that is not known; turns need a text and a speaker")


def json_lines(name: str, text: str) -> Iterator[Source | Skipped]:
    records: list[Json] = []
    for n, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as e:
            yield Skipped(f"{name}: line {n}", f"is not JSON: {e}")
    yield from (
        Source(name, form, session, turns=tuple(turns))
        for form, session, turns, _ in chats.line_records(records, Path(name).stem)
        if turns
    )
    unread = sum(1 for r in records if not chats.is_turn(r))
    if unread:
        yield Skipped(name, f"{unread} of {len(records)} lines are no turns (need a text and a speaker)", unread)
