"""`kektordb ingest`: files to memories, with a report that names what was not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kektordb.cli import output
from kektordb.ingest import Skipped, Source, read_path

if TYPE_CHECKING:
    from kektordb.memory import MemoryStore


@dataclass(slots=True)
class Report:
    read: list[tuple[str, str, int]] = field(default_factory=list)
    """(file and session, form, turns or passages)"""
    skipped: list[tuple[str, str, int]] = field(default_factory=list)
    """(file or conversation, why, how many records)"""
    stored: int = 0
    known: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "read": [{"name": n, "form": f, "items": i} for n, f, i in self.read],
            "skipped": [{"name": n, "why": w, "count": c} for n, w, c in self.skipped],
            "stored": self.stored,
            "known_already": self.known,
        }

    def show(self) -> None:
        for name, form, items in self.read:
            print(f"{items:6}  {form:11}  {output.clean(name)}")
        for name, why, _ in self.skipped:
            print(f"skipped {output.clean(name)}: {output.clean(why)}")
        print(f"{self.stored} stored, {self.known} known already, {sum(c for _, _, c in self.skipped)} skipped")


def run(mem: MemoryStore | None, path: Path, *, tags: Sequence[str], quiet: bool) -> Report:
    """Reads `path` and saves what it holds; without a memory only reads."""
    report = Report()
    sources = list(read_path(path))
    total = sum(len(s) for s in sources if isinstance(s, Source))
    done = 0
    with output.progress("reading", total=total, quiet=quiet) as step:
        for s in sources:
            if isinstance(s, Skipped):
                report.skipped.append((s.name, s.why, s.count))
                continue
            report.read.append((s.name if s.passages else f"{s.name}: {s.session}", s.form, len(s)))
            if mem is not None:
                before = done

                def tell(n: int, _total: int = 0, before: int = before) -> None:
                    step(before + n)

                saved = _save(mem, s, tags, tell)
                known = sum(m.reinforced for m in saved)
                report.stored += len(saved) - known
                report.known += known
            done += len(s)
            step(done)
    return report


def _save(mem: MemoryStore, s: Source, tags: Sequence[str], tell: Any) -> list[Any]:
    if s.turns:
        turns = [{k: v for k, v in {**t.to_json(), "tags": list(tags)}.items() if v} for t in s.turns]
        return mem.save_turns(turns, session=s.session, source=s.name, progress=tell)
    items = [
        {
            "text": f"{p.heading}: {p.text}" if p.heading else p.text,
            "kind": "passage",
            "tags": list(tags),
            "source": s.name,
            "trust": "import",
        }
        for p in s.passages
    ]
    return mem.save_many(items, progress=tell)
