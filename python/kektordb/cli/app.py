"""`kektordb`: remember, recall, history, forget, ingest, stats, and what keeps a database well."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kektordb.cli import output
from kektordb.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from kektordb.engine.database import Database
    from kektordb.memory import MemoryStore

app = typer.Typer(
    name="kektordb",
    help="A memory for AI agents, and the embedded vector database under it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Db = Annotated[
    Path | None,
    typer.Option("--db", envvar="KEKTORDB_PATH", help="Database directory.", show_default="your user data folder"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Option("--memory", "-m", help="Which memory of the database.")]
User = Annotated[str | None, typer.Option("--user", help="Act as this user: sees and writes that user's rows.")]
Agent = Annotated[str | None, typer.Option("--agent", help="Act as this agent.")]
Embedder = Annotated[str, typer.Option("--embedder", help="minilm (offline), openai:MODEL, ollama:MODEL.")]

DEFAULT_MEMORY = "memory"
DEFAULT_EMBEDDER = "minilm"


@contextmanager
def database(db: Path | None, *, create: bool = True) -> Iterator[Database]:
    import kektordb
    from kektordb.config import default_db_path

    path = db or default_db_path()
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise NotFoundError(f"there is no database at {path}", hint="`kektordb remember` makes one; --db names another")
    with kektordb.open(path, create=create) as opened:
        yield opened


@contextmanager
def memory(
    db: Path | None, name: str, user: str | None, agent: str | None, embedder: str, *, create: bool = True
) -> Iterator[MemoryStore]:
    from kektordb.model.view import Principal

    with database(db, create=create) as opened:
        who = Principal(user=user, agent=agent)
        with opened.memory(name, principal=who, embedder=embedder) as mem:
            yield mem


def _version(value: bool) -> None:
    if value:
        from kektordb import __version__

        print(f"kektordb {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep the demo's database in this new directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Save a sample conversation of nine months, recall, change a fact, look back. Under 30 seconds, no network."""
    from kektordb.cli.demo import run

    with output.reported(as_json=as_json):
        run(keep=keep, as_json=as_json)


@app.command()
def remember(
    text: Annotated[str, typer.Argument(help="What to remember; - reads standard input.")],
    layer: Annotated[str, typer.Option(help="episodic, semantic, procedural, working, or your own.")] = "semantic",
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="May be given several times.")] = None,
    valid_from: Annotated[str | None, typer.Option(help="True from: 2026, 2026-05, 2026-05-08, or a moment.")] = None,
    valid_to: Annotated[str | None, typer.Option(help="True until, not including it.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    pin: Annotated[bool, typer.Option(help="Never fades.")] = False,
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """Store a statement. The same words again strengthen what is there."""
    with output.reported(as_json=as_json), memory(db, name, user, agent, embedder) as mem:
        words = sys.stdin.read() if text == "-" else text
        m = mem.save(
            words,
            layer=layer,
            tags=tag or (),
            valid_from=valid_from,
            valid_to=valid_to,
            source=source,
            pinned=True if pin else None,
        )
        if as_json:
            output.show_json(m.to_json())
        elif m.reinforced:
            print(f"{m.id}  known already, strengthened ({m.reinforcements} times)")
        else:
            print(f"{m.id}  remembered")


@app.command()
def recall(
    query: Annotated[str, typer.Argument(help="A question or words.")],
    k: Annotated[int, typer.Option("-k", "--limit", help="Most hits.")] = 5,
    layer: Annotated[list[str] | None, typer.Option("--layer", help="Only these layers.")] = None,
    where: Annotated[
        str | None, typer.Option("--filter", help="Filter language, e.g. \"tags CONTAINS 'work'\".")
    ] = None,
    as_of: Annotated[str | None, typer.Option(help="What was known at that moment.")] = None,
    valid_at: Annotated[str | None, typer.Option(help="What was true at that moment.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Fit the hits into this many tokens.")] = None,
    explain: Annotated[bool, typer.Option(help="Show the parts of each score.")] = False,
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """Find what fits. Superseded, retracted and foreign memories are not shown."""
    with output.reported(as_json=as_json), memory(db, name, user, agent, embedder) as mem:
        hits = mem.recall(
            query,
            k=k,
            layers=layer,
            filter=where,
            as_of=as_of,
            valid_at=valid_at,
            max_tokens=max_tokens,
            explain=explain,
        )
        if as_json:
            output.show_json([h.to_json() for h in hits])
            return
        if not hits:
            print("nothing found")
        for h in hits:
            show_hit(h, explain=explain)


def show_hit(h: Any, *, explain: bool = False) -> None:
    """One hit: score, when, who, words; id and parts below."""
    when = h.memory.at or h.memory.valid_from
    who = f"{h.memory.speaker}: " if h.memory.speaker else ""
    date = f"{when:%Y-%m-%d}  " if when else ""
    print(f"{h.score:6.3f}  {date}{output.clean(who + h.text)}")
    if explain:
        parts = ", ".join(f"{name} {value:+.3f}" for name, value in sorted(h.parts.items(), key=lambda p: -abs(p[1])))
        print(f"        {h.memory.id}: {parts}")


@app.command()
def history(
    id: Annotated[str, typer.Argument(help="Id of a memory or of one of its versions.")],
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """All versions of a memory, the oldest first."""
    with output.reported(as_json=as_json), memory(db, name, user, agent, embedder, create=False) as mem:
        versions = mem.history(id)
        if as_json:
            output.show_json([v.to_json() for v in versions])
            return
        output.table(
            [
                {
                    "id": v.id,
                    "recorded": "" if v.recorded_at is None else f"{v.recorded_at:%Y-%m-%d %H:%M}",
                    "state": v.life,
                    "text": v.text,
                    "reason": v.reason,
                }
                for v in versions
            ],
            ["id", "recorded", "state", "text", "reason"],
        )


@app.command()
def evolve(
    id: Annotated[str, typer.Argument(help="The memory that changed.")],
    text: Annotated[str, typer.Argument(help="How it reads now.")],
    since: Annotated[
        str | None, typer.Option("--since", help="The world changed then; without it the old one was wrong.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """Replace a memory by a newer version. The old one stays in the history."""
    with output.reported(as_json=as_json), memory(db, name, user, agent, embedder, create=False) as mem:
        m = mem.evolve(id, text, valid_from=since, reason=reason)
        output.show_json(m.to_json()) if as_json else print(f"{m.id}  is current")


@app.command()
def forget(
    id: Annotated[str, typer.Argument(help="The memory to take out of every answer.")],
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """Retract a memory. Its words stay in the history and on the disk; nothing recalls them."""
    with output.reported(as_json=as_json), memory(db, name, user, agent, embedder, create=False) as mem:
        m = mem.forget(id, reason=reason)
        output.show_json(m.to_json()) if as_json else print(f"{m.id}  {m.life}")


@app.command()
def ingest(
    path: Annotated[Path, typer.Argument(help="A file or a folder.")],
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="On every passage.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be read.")] = False,
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    user: User = None,
    agent: Agent = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: AsJson = False,
) -> None:
    """Read text, Markdown, JSON Lines and chats exported from ChatGPT, Claude, Claude Code or Gemini.

    Turns keep their speaker and time. Reading a file twice stores nothing twice,
    but for turns without a time: saying something again is no duplicate.
    """
    from kektordb.cli.ingest import run

    with output.reported(as_json=as_json):
        if dry_run:
            report = run(None, path, tags=tag or (), quiet=as_json)
        else:
            with memory(db, name, user, agent, embedder) as mem:
                report = run(mem, path, tags=tag or (), quiet=as_json)
        if as_json:
            output.show_json(report.to_json())
        else:
            report.show()
        if not report.read and report.skipped:
            raise InvalidArgumentError(f"nothing of {path} could be read", hint="see the list above")


@app.command()
def stats(db: Db = None, as_json: AsJson = False) -> None:
    """What the database holds."""
    with output.reported(as_json=as_json), database(db, create=False) as opened:
        s = opened.stats()
        if as_json:
            output.show_json(s)
            return
        print(f"{s['path']}  generation {s['generation']}, last record {s['last_lsn']}, kernels {s['cpu']}")
        rows = [{"collection": n, **c} for n, c in s["collections"].items()]
        output.table(rows, ["collection", "live", "rows", "unlinked", "dim", "metric", "dtype", "index"])


@app.command()
def verify(db: Db = None, as_json: AsJson = False) -> None:
    """Check every byte of a closed database's files."""
    import kektordb
    from kektordb.config import default_db_path

    with output.reported(as_json=as_json):
        faults = kektordb.verify(db or default_db_path())
        if as_json:
            output.show_json({"faults": faults})
        else:
            print("\n".join(faults) or "sound")
        if faults:
            raise SystemExit(7)


@app.command()
def reembed(
    to: Annotated[str, typer.Option("--to", help="The embedder to change to.")] = DEFAULT_EMBEDDER,
    db: Db = None,
    name: Name = DEFAULT_MEMORY,
    as_json: AsJson = False,
) -> None:
    """Embed a whole memory anew with another embedder. Can be stopped and started again."""
    from kektordb.cli.upkeep import reembed_memory

    with output.reported(as_json=as_json), database(db, create=False) as opened:
        report = reembed_memory(opened, name, to, quiet=as_json)
        if as_json:
            output.show_json(report)
        else:
            for state, n in report.items():
                print(f"{state}: {n}")


config = typer.Typer(help="Settings.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config, name="config")


@config.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    as_json: AsJson = False,
) -> None:
    """The settings in force."""
    from kektordb.cli.upkeep import settings_rows

    with output.reported(as_json=as_json):
        rows = settings_rows()
        if as_json:
            output.show_json(rows)
        else:
            output.table(rows, ["setting", "value", "origin"] if origin else ["setting", "value"])


def main() -> None:
    output.make_robust()
    app(prog_name="kektordb")
