"""No telemetry, no socket: a database and a memory with the offline embedder never ask for the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_WATCHED = """
import sys
asked = []
def watch(event, args):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        asked.append(event)
sys.addaudithook(watch)
"""

_MEMORY = """
import kektordb
with kektordb.open(sys.argv[1]) as db:
    mem = db.memory("assistant")
    mem.save("Ann moved to Rome in May", tags=["home"])
    mem.save("The bakery opens at seven")
    hits = mem.recall("where does Ann live?", k=1)
    assert "Rome" in next(iter(hits)).memory.text
print(len(asked), *asked)
"""

_KNOCK = """
import socket
try:
    socket.create_connection(("127.0.0.1", 1), timeout=1)
except OSError:
    pass
print(len(asked), *asked)
"""


def _asked(code: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED + code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    count, *events = done.stdout.split()
    assert int(count) == len(events)
    return events


def test_save_and_recall_open_no_socket(tmp_path: Path) -> None:
    assert _asked(_KNOCK), "positive control: the watcher sees a connection"
    assert _asked(_MEMORY, str(tmp_path / "agent.kdb")) == []
