"""The command line as a person uses it: real processes, the offline embedder, exit codes and texts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*args: str, db: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    where = {"KEKTORDB_PATH": str(db)} if db else {}
    return subprocess.run(
        [sys.executable, "-m", "kektordb.cli", *args],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
        check=False,
        env={**os.environ, **where, **env},
    )


def said(*args: str, db: Path) -> Any:
    """The JSON of a command that must succeed."""
    r = run(*args, "--json", db=db)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "m.kdb"


def test_remember_recall_evolve_history_forget(db: Path) -> None:
    first = said("remember", "The staging host is falcon-02", db=db)
    again = said("remember", "The staging host is falcon-02", db=db)
    assert (again["id"], again["reinforced"]) == (first["id"], True)
    said("remember", "Tomas likes bouldering", db=db)
    new = said("evolve", first["id"], "The staging host is kestrel-01", "--reason", "moved", db=db)
    texts = [h["text"] for h in said("recall", "staging host", "-k", "9", db=db)]
    assert texts[0] == "The staging host is kestrel-01"
    assert "The staging host is falcon-02" not in texts
    assert [v["life"] for v in said("history", new["id"], db=db)] == ["superseded", "active"]
    said("forget", new["id"], db=db)
    left = [h["text"] for h in said("recall", "staging host", "-k", "9", db=db)]
    assert left == ["Tomas likes bouldering"], "what is left is still found"


def test_another_user_sees_nothing_of_it(db: Path) -> None:
    said("remember", "Ann's secret is tea", "--user", "ann", db=db)
    assert said("recall", "secret tea", "--user", "bob", db=db) == []
    assert said("recall", "secret tea", "--user", "ann", db=db)[0]["text"] == "Ann's secret is tea"


def test_the_demo_says_what_must_and_must_not_come_back() -> None:
    r = run("demo", "--json")
    assert r.returncode == 0, r.stderr
    steps = json.loads(r.stdout)["steps"]
    assert steps[0]["turns"] >= 60
    hits = {s["step"]: [h["text"] for h in s["hits"]] for s in steps if "hits" in s}
    where = {k: v for k, v in hits.items() if "Where does Ines live" in k}
    now, then = (where[k] for k in sorted(where, key=lambda k: "valid at" in k))
    assert now[0] == "Ines lives in Porto"
    assert "Ines lives in Lisbon" not in now
    assert then[0] == "Ines lives in Lisbon"
    allergy = {k: v for k, v in hits.items() if "allergic" in k}
    now, then = (allergy[k] for k in sorted(allergy, key=lambda k: "as of" in k))
    assert now[0] == "Ines is allergic to hazelnuts"
    assert "Ines is allergic to peanuts" not in now
    assert then[0] == "Ines is allergic to peanuts"
    assert steps[-1]["gone"] is True


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("history", "m_00000000000000000000000000"), 3, "no memory"),
        (("history", "nonsense"), 2, "is no memory id"),
        (("recall", "x", "--filter", "a == 1"), 2, "^"),
        (("ingest", "/no/such/file"), 3, "does not exist"),
        (("remember", "x", "--embedder", "nonsense"), 2, "nonsense"),
        (("remember", "x", "--valid-from", "yesterday"), 2, "yesterday"),
        (("remember", ""), 2, "try:"),
    ],
)
def test_a_mistake_gets_a_message_and_never_a_traceback(db: Path, args: tuple[str, ...], code: int, text: str) -> None:
    said("remember", "something", db=db)
    r = run(*args, db=db)
    assert r.returncode == code, r.stderr
    assert text in r.stderr
    assert "Traceback" not in r.stderr
    as_json = run(*args, "--json", db=db)
    assert json.loads(as_json.stdout)["error"]["message"]


def test_a_path_that_is_a_file_and_a_missing_database_are_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert "is a file" in run("stats", db=file).stderr
    r = run("stats", db=tmp_path / "missing.kdb")
    assert r.returncode == 3
    assert not (tmp_path / "missing.kdb").exists()


def test_a_locked_database_names_its_holder(db: Path) -> None:
    import kektordb

    with kektordb.open(db):
        r = run("remember", "x", db=db)
    assert r.returncode == 6
    assert str(os.getpid()) in r.stderr


def test_text_of_every_script_passes_through_poor_terminals(db: Path) -> None:
    said("remember", "★🎉 外币汇率 à la carte", db=db)
    for env in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        r = run("recall", "外币", db=db, **env)
        assert r.returncode == 0, (env, r.stderr)
        assert "carte" in r.stdout
    assert said("recall", "外币", db=db)[0]["text"] == "★🎉 外币汇率 à la carte"


def test_escape_sequences_in_stored_text_are_shown_not_obeyed(db: Path) -> None:
    said("remember", "red \x1b[31malert\x1b[0m fox", db=db)
    out = run("recall", "alert fox", db=db).stdout
    assert "alert" in out
    assert "\x1b" not in out


def test_a_reader_that_goes_away_is_no_error(db: Path) -> None:
    said("remember", "one two three", db=db)
    command = f'"{sys.executable}" -m kektordb.cli stats --json | head -c 1'
    r = subprocess.run(
        command, shell=True, capture_output=True, text=True, env={**os.environ, "KEKTORDB_PATH": str(db)}, check=False
    )
    assert "Traceback" not in r.stderr
    assert r.stdout == "{"


def test_a_chat_is_ingested_once_with_speakers_and_times(db: Path, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    turns = [
        {"speaker": "Ann", "text": f"turn {i} about topic{i}", "at": f"2026-05-0{i}T10:00:00Z"} for i in range(1, 6)
    ]
    chat.write_text("\n".join(json.dumps(t) for t in turns) + "\nnot json\n", encoding="utf-8")
    first = said("ingest", str(chat), db=db)
    assert (first["stored"], first["known_already"], len(first["skipped"])) == (5, 0, 1)
    second = said("ingest", str(chat), db=db)
    assert (second["stored"], second["known_already"]) == (0, 5)
    hit = said("recall", "topic3", "-k", "1", db=db)[0]
    assert (hit["speaker"], hit["at"]) == ("Ann", "2026-05-03T10:00:00Z")


def test_every_command_has_help_and_a_line_in_the_guide() -> None:
    listed = run("--help").stdout
    commands = re.findall(r"^\s{2}([a-z]+)\s{2,}", listed, re.MULTILINE)
    assert {"demo", "remember", "recall", "history", "forget", "ingest", "stats", "verify"} <= set(commands)
    guide = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for c in commands:
        assert run(c, "--help").returncode == 0
        assert f"`kektordb {c}" in guide, c
    assert "--install-completion" in listed


def test_a_damaged_file_is_found_by_verify(db: Path) -> None:
    said("remember", "whole", db=db)
    assert said("verify", db=db) == {"faults": []}
    victim = next(p for p in (db / "col").iterdir() if p.suffix == ".recs")
    raw = bytearray(victim.read_bytes())
    raw[16 * 1024 + 5] ^= 1
    victim.write_bytes(raw)
    r = run("verify", "--json", db=db)
    assert r.returncode == 7
    assert victim.name in json.loads(r.stdout)["faults"][0]
