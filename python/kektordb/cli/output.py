"""What commands print: text for people, JSON for programs, errors without a traceback.

Results go to stdout, everything else to stderr, so that `--json` can be piped.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from kektordb.errors import (
    ConflictError,
    CorruptionError,
    InvalidArgumentError,
    KektorError,
    LockedError,
    NotFoundError,
    PermissionDeniedError,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

EXIT_CODES: Sequence[tuple[type[KektorError], int]] = (
    (InvalidArgumentError, 2),
    (NotFoundError, 3),
    (ConflictError, 4),
    (PermissionDeniedError, 5),
    (LockedError, 6),
    (CorruptionError, 7),
)
"""First match counts; any other KektorError is 1."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Stored text for a terminal: control, escape and direction-changing characters become visible."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m.group()):02x}" if ord(m.group()) < 256 else "�", text)


def make_robust() -> None:
    """A character that the terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def show_json(value: object) -> None:
    print(json_text(value, indent=2))


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that loses nothing: escaped where the terminal's encoding or a lone surrogate needs it."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return json.dumps(value, ensure_ascii=True, default=str, indent=indent)
    return text


def _no_bar(done: int, total: int | None = None) -> None:
    del done, total


@contextmanager
def progress(description: str, *, total: int | None, quiet: bool) -> Iterator[Any]:
    """A bar on stderr; the value is called with how many steps were done."""
    if quiet or not sys.stderr.isatty():
        yield _no_bar
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar: Progress
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)

        def step(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield step


def fail(error: KektorError, *, as_json: bool) -> NoReturn:
    """Prints the error and ends with its exit code."""
    code = next((c for cls, c in EXIT_CODES if isinstance(error, cls)), 1)
    if as_json:
        print(
            json_text(
                {"error": {"code": error.code, "message": error.message, "hint": error.hint, "context": error.context}}
            )
        )
    else:
        print(f"error: {clean(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"  try: {clean(error.hint)}", file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def reported(*, as_json: bool) -> Iterator[None]:
    """Turns what a user's mistake raises into a message and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except KektorError as e:
        fail(e, as_json=as_json)
    except BrokenPipeError:
        # The reader went away (`| head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (OSError, UnicodeError) as e:
        # The system's own refusals: no such folder, no permission, a full disk, bytes that are no text.
        fail(KektorError(str(e), hint="check the path, its permissions and its encoding"), as_json=as_json)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None


def table(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    t = Table(box=None, pad_edge=False, header_style="bold")
    for c in columns:
        t.add_column(c, overflow="fold")
    for row in rows:
        t.add_row(*(Text(clean(str(row.get(c, "")))) for c in columns))
    console().print(t)
