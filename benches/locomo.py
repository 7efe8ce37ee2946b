"""Recall of evidence on LoCoMo (Maharana et al., ACL 2024), by turn and by session. No model calls, no network.

    python benches/locomo.py locomo10.json            # the table
    python benches/locomo.py locomo10.json --json     # the same as JSON
    python benches/locomo.py locomo10.json --fit      # refit the weights of kektordb.memory.recall_weights (needs scipy)

The file is `data/locomo10.json` of github.com/snap-research/LoCoMo (CC BY-NC 4.0; not part of this repository). Each conversation
is saved with `save_turns`, one call per session, and each question is recalled with the default embedder and default settings.
Fading is neutral here: all turns are years old and count the same.

Rules: evidence ids are taken by the pattern D<session>:<turn>; ids of no turn are dropped, and questions with none left. The score
of a question is the share of its evidence among the first k; "by session" ranks sessions by their best hit. Weights were fitted on
conversations 0, 3 and 6: the other seven are the figure that counts. Means are over categories 1 to 4; category 5 (adversarial:
asked of the wrong speaker) is shown, and a second mean has it in, because published session figures often do.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

FITTED = (0, 3, 6)
"""Conversations that weights were chosen on."""
MEAN_OF = (1, 2, 3, 4)
CATEGORIES = {1: "several turns", 2: "time", 3: "open inference", 4: "one turn", 5: "adversarial"}
KS = (5, 10)
SESSION_DEPTH = 100
"""Hits whose sessions are ranked."""
MUSTS = {("turn", "all", 10): 76.0, ("session", "all", 5): 89.0, ("session", "all", 10): 94.0}
AIMS = {
    ("turn", "others", 5): 78.0,
    ("turn", "others", 10): 85.0,
    ("session", "others", 5): 93.0,
    ("session", "others", 10): 97.0,
}
PARTS = ("all", "fitted", "others")

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_STAMP = re.compile(r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    sessions: dict[int, list[dict[str, Any]]]
    """Turns as `save_turns` takes them."""
    names: dict[int, list[str]]
    """The set's own ids of those turns."""
    questions: list[Question]


class Hit(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def parts(self) -> Any: ...


class Memory(Protocol):
    """The part of the public API that is measured."""

    def save_turns(self, turns: Sequence[Any], *, session: str) -> Sequence[Any]: ...
    def recall(self, query: str, *, k: int, explain: bool = False, touch: bool | None = None) -> Sequence[Hit]: ...


def load(path: Path) -> list[Conversation]:
    return [_conversation(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(sample: dict[str, Any]) -> Conversation:
    told = sample["conversation"]
    sessions: dict[int, list[dict[str, Any]]] = {}
    names: dict[int, list[str]] = {}
    for number in sorted(int(k[8:]) for k in told if re.fullmatch(r"session_\d+", k)):
        turns = told[f"session_{number}"]
        if not turns:
            continue
        at = _moment(told[f"session_{number}_date_time"])
        sessions[number] = [
            {"speaker": t["speaker"], "text": t["text"], "at": at, "caption": t.get("blip_caption")} for t in turns
        ]
        names[number] = [t["dia_id"] for t in turns]
    known = {name for group in names.values() for name in group}
    questions = []
    for qa in sample["qa"]:
        found = [f"D{int(s)}:{int(t)}" for e in qa.get("evidence", []) for s, t in _EVIDENCE.findall(e)]
        evidence = tuple(name for name in dict.fromkeys(found) if name in known)
        if evidence:
            questions.append(Question(qa["question"], qa["category"], evidence))
    return Conversation(sessions, names, questions)


def _moment(stamp: str) -> str:
    """`1:56 pm on 8 May, 2023` → ISO 8601; the set names no zone, UTC is taken."""
    match = _STAMP.match(stamp)
    if match is None:
        raise ValueError(f"the session's time is {stamp!r}")
    hour, minute, half, day, month, year = match.groups()
    date = datetime.strptime(f"{day} {month} {year}", "%d %B %Y")
    return date.replace(hour=int(hour) % 12 + 12 * (half == "pm"), minute=int(minute)).isoformat()


@dataclass(slots=True)
class Result:
    """One question's shares."""

    conversation: int
    category: int
    turn: dict[int, float]
    session: dict[int, float]
    ms: float


@dataclass(slots=True)
class Run:
    results: list[Result] = field(default_factory=list)
    saved_turns: int = 0
    save_s: float = 0.0

    def mean(self, unit: str, part: str, k: int, categories: Sequence[int] = MEAN_OF) -> float:
        """Per cent."""
        values = [
            getattr(r, unit)[k]
            for r in self.results
            if r.category in categories and (part == "all" or (r.conversation in FITTED) == (part == "fitted"))
        ]
        return 100 * statistics.fmean(values) if values else float("nan")


def fill(memory: Memory, conversation: Conversation) -> dict[str, str]:
    """Saves every session in order; id of the memory → id of the turn."""
    names: dict[str, str] = {}
    for number, turns in conversation.sessions.items():
        saved = memory.save_turns(turns, session=f"session {number}")
        names |= {m.id: name for m, name in zip(saved, conversation.names[number], strict=True)}
    return names


def measure(conversations: Sequence[Conversation], memory_of: Callable[[int], Memory]) -> Run:
    run = Run()
    for number, conversation in enumerate(conversations):
        memory = memory_of(number)
        started = time.perf_counter()
        names = fill(memory, conversation)
        run.save_s += time.perf_counter() - started
        run.saved_turns += len(names)
        run.results += [_asked(memory, names, number, question) for question in conversation.questions]
    return run


def _asked(memory: Memory, names: dict[str, str], number: int, question: Question) -> Result:
    started = time.perf_counter()
    first = memory.recall(question.text, k=max(KS), touch=False)
    ms = 1_000 * (time.perf_counter() - started)
    deep = memory.recall(question.text, k=SESSION_DEPTH, touch=False)
    if [h.id for h in deep[: len(first)]] != [h.id for h in first]:
        raise AssertionError(f"the first hits change with k: {question.text!r}")
    turns = [names[h.id] for h in first]
    sessions = list(dict.fromkeys(names[h.id].split(":")[0] for h in deep))
    wanted = {e.split(":")[0] for e in question.evidence}
    return Result(
        number,
        question.category,
        {k: sum(e in turns[:k] for e in question.evidence) / len(question.evidence) for k in KS},
        {k: len(wanted & set(sessions[:k])) / len(wanted) for k in KS},
        ms,
    )


def report(run: Run) -> dict[str, Any]:
    def row(unit: str, part: str, categories: Sequence[int]) -> dict[str, float]:
        return {f"R@{k}": round(run.mean(unit, part, k, categories), 1) for k in KS}

    times = sorted(r.ms for r in run.results)
    return {
        "recall": {
            unit: {
                part: {
                    "mean": row(unit, part, MEAN_OF),
                    "mean with 5": row(unit, part, tuple(CATEGORIES)),
                    "by category": {str(c): row(unit, part, [c]) for c in CATEGORIES},
                }
                for part in PARTS
            }
            for unit in ("turn", "session")
        },
        "questions": sum(r.category in MEAN_OF for r in run.results),
        "turns": run.saved_turns,
        "save_turns_per_s": round(run.saved_turns / run.save_s) if run.save_s else None,
        "recall_ms": {"p50": round(times[len(times) // 2], 2), "p99": round(times[int(len(times) * 0.99)], 2)},
        "bounds_kept": all(run.mean(*key) >= wanted for key, wanted in MUSTS.items()),
        "losses": list(_losses(run)),
    }


def _losses(run: Run) -> Iterator[str]:
    for bounds, kind in ((MUSTS, "bound"), (AIMS, "aim")):
        for (unit, part, k), wanted in bounds.items():
            got = run.mean(unit, part, k)
            if got < wanted:
                yield f"R@{k} by {unit}, {part}: {got:.1f} is below the {kind} of {wanted:.0f}"
    for c in MEAN_OF:
        asked = [r for r in run.results if r.category == c]
        none = sum(r.turn[max(KS)] == 0 for r in asked)
        yield f"category {c} ({CATEGORIES[c]}): {none} of {len(asked)} questions without any evidence in {max(KS)}"


def show(table: dict[str, Any]) -> None:
    print(
        f"{table['questions']} questions of categories 1-4, {table['turns']} turns; share of the evidence found, per cent"
    )
    print(f"weights fitted on conversations {', '.join(map(str, FITTED))}; per category: R@5 R@10")
    for unit, by_part in table["recall"].items():
        for part, row in by_part.items():
            mean, five, by = row["mean"], row["mean with 5"], row["by category"]
            cells = "  ".join(f"{c}: {v['R@5']:5.1f} {v['R@10']:5.1f}" for c, v in by.items())
            print(
                f"by {unit:8}{part:7} R@5 {mean['R@5']:5.1f} R@10 {mean['R@10']:5.1f} "
                f"(with 5: {five['R@5']:5.1f} {five['R@10']:5.1f})  |  {cells}"
            )
    times = table["recall_ms"]
    print(
        f"recall, embedding included: p50 {times['p50']} ms, p99 {times['p99']} ms; {table['save_turns_per_s']} turns/s saved"
    )
    print("losses: " + "; ".join(table["losses"]))


def fit_weights(
    conversations: Sequence[Conversation], memory_of: Callable[[int], Memory], *, ridge: float
) -> dict[str, float]:
    """Listwise softmax likelihood of each evidence turn against all other turns of the pool, on the fitted conversations.

    Parts are taken from `explain` and divided by the weights in force, so repeat it until the table stands still (the short list
    depends on the weights).
    """
    import numpy as np
    from scipy.optimize import minimize

    from kektordb.memory import recall_weights as table

    names = [n for n in table.ALL if n not in table.BY_HAND]
    asked: list[tuple[Any, Any]] = []
    for number in FITTED:
        memory = memory_of(number)
        turn_of = fill(memory, conversations[number])
        for question in conversations[number].questions:
            if question.category not in MEAN_OF:
                continue
            hits = memory.recall(question.text, k=1_000, explain=True, touch=False)
            hits = [h for h in hits if "beyond_pool" not in h.parts]
            parts = np.array([[h.parts.get(n, 0.0) / table.ALL[n] for n in names] for h in hits])
            right = np.array([turn_of[h.id] in question.evidence for h in hits])
            if right.any():
                asked.append((parts, right))

    def loss(w: Any) -> tuple[float, Any]:
        value, slope = 0.0, np.zeros(len(names))
        for parts, right in asked:
            score = parts @ w
            odds = np.exp(score - score.max())
            wrong = np.where(right, 0.0, odds)
            whole = wrong.sum() + odds[right]
            value += np.log(whole / odds[right]).mean()
            pull = wrong * (1 / whole).mean()
            pull[right] = (odds[right] / whole - 1) / right.sum()
            slope += parts.T @ pull
        return value / len(asked) + ridge * w @ w, slope / len(asked) + 2 * ridge * w

    bounds = [(None, None) if n in table.EITHER_SIGN else (0.0, None) for n in names]
    best = minimize(loss, [table.ALL[n] for n in names], jac=True, method="L-BFGS-B", bounds=bounds)
    return {n: round(float(x), 2) for n, x in zip(names, best.x, strict=True)}


def open_memory(number: int) -> Memory:
    import kektordb

    db = kektordb.open(":memory:")
    memory: Memory = db.memory(f"conversation-{number}", principal=kektordb.Principal(user="bench"))
    return memory


def main(argv: Sequence[str] | None = None, *, memory_of: Callable[[int], Memory] = open_memory) -> int:
    """0 if every bound is kept, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, help="locomo10.json")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--fit", action="store_true", help="print refitted weights instead")
    parser.add_argument("--ridge", type=float, default=2e-3, help="of --fit (default 0.002)")
    given = parser.parse_args(argv)
    conversations = load(given.path)
    if given.fit:
        print(json.dumps(fit_weights(conversations, memory_of, ridge=given.ridge), indent=2))
        return 0
    table = report(measure(conversations, memory_of))
    if given.json:
        print(json.dumps(table, indent=2))
    else:
        show(table)
    return 0 if table["bounds_kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
