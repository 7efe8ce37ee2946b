"""KektorDB: an embedded vector database, and a memory that people trust their AI agents with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kektordb._native import __version__
from kektordb.engine.database import Database, HnswParams, open_database
from kektordb.errors import KektorError
from kektordb.model.view import Principal

if TYPE_CHECKING:
    from kektordb.config import Settings
    from kektordb.filters import F

__all__ = ["Database", "F", "HnswParams", "KektorError", "Principal", "Settings", "__version__", "open", "verify"]


def open(
    path: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = True,
    read_only: bool = False,
    recovery: str = "strict",
) -> Database:
    """Opens the database in the directory `path`, or makes it; ":memory:" is gone when closed.

    One process writes: a second one gets LockedError naming the holder; read_only=True reads without the lock what
    was there at that moment. create=False refuses a missing path. Opening maps the files, replays the log behind the
    last checkpoint, and never rebuilds the graph. recovery="salvage" steps over damage in the log and reports it in
    `Database.recovery()`; the default refuses, naming file and offset.
    Errors: LockedError, CorruptionError, FormatVersionError, InvalidArgumentError.
    """
    return open_database(path, settings=settings, create=create, read_only=read_only, recovery=recovery)


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Checks every byte of a closed database's files. Returns what is wrong, one line a fault; empty = sound."""
    from kektordb import _native

    return _native.verify(os.fspath(path))


def __getattr__(name: str) -> object:
    # Loaded when first used, so that importing the package stays quick.
    if name == "F":
        from kektordb.filters import F

        return F
    if name == "Settings":
        from kektordb.config import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # a shell completes the lazy names too
    return sorted({*globals(), *__all__})
