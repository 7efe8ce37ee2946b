"""Commands that keep a database well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kektordb.cli import output

if TYPE_CHECKING:
    from kektordb.engine.database import Database


def reembed_memory(db: Database, name: str, to: str, *, quiet: bool) -> dict[str, int]:
    """Embeds every record of a memory anew; returns how many there are per state."""
    from kektordb.embed import resolve_embedder
    from kektordb.memory import reembed

    with output.progress("embedding", total=None, quiet=quiet) as step:
        report = reembed(db.store, name, resolve_embedder(to), progress=step)
    return dict(report.records)


def settings_rows() -> list[dict[str, Any]]:
    from kektordb.config import Settings

    return [{"setting": n, "value": v, "origin": o} for n, v, o in Settings.load().rows()]
