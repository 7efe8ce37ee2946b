"""`kektordb demo`: a sample conversation of nine months, saved and recalled for real, in the terminal."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kektordb.cli import output
from kektordb.errors import AlreadyExistsError

if TYPE_CHECKING:
    from kektordb.memory import MemoryStore

QUESTIONS = (
    "What is the rate limit for partners?",
    "When may we deploy?",
    "Where does the staging database run?",
    "What did Tomas do after the incident?",
)


def sample() -> list[dict[str, Any]]:
    """The turns of the sample conversation, in order; each names its session."""
    text = resources.files("kektordb.cli").joinpath("sample.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def run(*, keep: Path | None, as_json: bool) -> None:
    import kektordb
    from kektordb.model.view import Principal

    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kektordb-demo-")))
            path = folder / "demo.kdb"
        else:
            path = keep
            if path.exists() and any(path.iterdir()):
                raise AlreadyExistsError(f"{path} is not empty", hint="name a new directory for --keep")
        db = stack.enter_context(kektordb.open(path))
        mem = stack.enter_context(db.memory("demo", principal=Principal(user="ines", agent="assistant")))
        told = Story(as_json=as_json)
        told.tell(mem)
        if as_json:
            output.show_json({"path": str(path), "steps": told.steps})
        elif keep is not None:
            print(
                f"\nKept in {path}. Try: kektordb recall -m demo --user ines --agent assistant --db {path} 'cello lessons'"
            )


class Story:
    """The steps of the demo; each prints what it did, or keeps it for JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.steps: list[dict[str, Any]] = []

    def tell(self, mem: MemoryStore) -> None:
        self._save(mem)
        for question in QUESTIONS:
            self._ask(mem, question)
        self._move(mem)
        self._correct(mem)
        self._forget(mem)

    def _say(self, title: str, lines: list[str], **data: Any) -> None:
        self.steps.append({"step": title, **data})
        if not self.as_json:
            output.console().print(f"\n[bold]{title}[/bold]")
            for line in lines:
                print(f"  {output.clean(line)}")

    def _save(self, mem: MemoryStore) -> None:
        turns = sample()
        started = time.perf_counter()
        by_session: dict[str, list[dict[str, Any]]] = {}
        for t in turns:
            by_session.setdefault(t["session"], []).append({k: v for k, v in t.items() if k != "session"})
        done = 0
        with output.progress("saving", total=len(turns), quiet=self.as_json) as step:
            for session, part in by_session.items():
                mem.save_turns(part, session=session, source="sample conversation")
                done += len(part)
                step(done)
        took = time.perf_counter() - started
        self._say(
            f"Saved {len(turns)} turns of {len(by_session)} conversations in {took:.1f} s",
            ["embedded offline, written to disk; every turn keeps its speaker and its time"],
            turns=len(turns),
            seconds=round(took, 2),
        )

    def _hits(self, hits: list[Any]) -> tuple[list[str], list[dict[str, Any]]]:
        lines = [
            f"{h.score:5.2f}  {h.memory.at or h.memory.valid_from or h.memory.recorded_at:%Y-%m-%d}  "
            f"{(h.memory.speaker + ': ') if h.memory.speaker else ''}{h.text}"
            for h in hits
        ]
        return lines, [{"id": h.memory.id, "text": h.text, "score": h.score} for h in hits]

    def _ask(self, mem: MemoryStore, question: str, **view: Any) -> None:
        started = time.perf_counter()
        hits = mem.recall(question, k=3, **view)
        ms = (time.perf_counter() - started) * 1e3
        lines, data = self._hits(hits)
        asked = question + "".join(f"  ({k.replace('_', ' ')} {str(v)[:19]})" for k, v in view.items())
        self._say(f"? {asked}", [*lines, f"[{ms:.0f} ms, embedding included]"], hits=data, ms=round(ms, 1))

    def _move(self, mem: MemoryStore) -> None:
        """The world changed: both are true, each in its time."""
        old = mem.save(
            "Ines lives in Lisbon", slot=("Ines", "lives in", "Lisbon"), valid_from="2026-01", layer="semantic"
        )
        new = mem.evolve(
            old.id,
            "Ines lives in Porto",
            slot=("Ines", "lives in", "Porto"),
            valid_from="2026-07",
            reason="she moved in July",
        )
        self._say("The world changes: Ines moves to Porto in July", [f"{old.id} → {new.id}"], old=old.id, new=new.id)
        only = {"filter": "kind = 'fact'"}
        self._ask(mem, "Where does Ines live?", **only)
        self._ask(mem, "Where does Ines live?", valid_at="2026-03-01", **only)

    def _correct(self, mem: MemoryStore) -> None:
        """A mistake: it was never true, but it was believed."""
        wrong = mem.save("Ines is allergic to peanuts")
        time.sleep(0.01)
        before = wrong.recorded_at
        right = mem.evolve(wrong.id, "Ines is allergic to hazelnuts", reason="the allergist corrected it")
        lines = [
            f"{v.id}  {v.life:10}  {v.text}" + (f"  ({v.reason})" if v.reason else "") for v in mem.history(right.id)
        ]
        self._say(
            "A mistake is corrected; the history keeps both",
            lines,
            history=[v.to_json() for v in mem.history(right.id)],
        )
        only = {"filter": "kind = 'fact'"}
        self._ask(mem, "What is Ines allergic to?", **only)
        self._ask(mem, "What is Ines allergic to?", as_of=before, **only)

    def _forget(self, mem: MemoryStore) -> None:
        number = mem.recall("on-call phone number", k=1)[0]
        mem.forget(number.memory.id, reason="the demo forgets one turn")
        left = [h.memory.id for h in mem.recall("on-call phone number", k=50)]
        gone = number.memory.id not in left
        self._say(
            "Forget one memory: it is in no answer any more" if gone else "Forgetting failed",
            [f"{number.memory.id}  {number.text}"],
            forgotten=number.memory.id,
            gone=gone,
        )
