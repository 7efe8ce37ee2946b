"""The command line in odd places: poor encodings, closed pipes, paths that are no database, damaged files, whole exports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CLI = [sys.executable, "-m", "kektordb.cli"]


def run(db: Path, *args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("KEKTORDB_", "PYTHONUTF8", "PYTHONIO"))}
    r = subprocess.run(
        [*CLI, *args],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env={**clean, "KEKTORDB_PATH": str(db), **env},
    )
    assert b"Traceback" not in r.stderr, r.stderr.decode(errors="replace")
    return r


def fake(db: Path, *args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """With the deterministic embedder: as fast as a process starts."""
    return run(db, *args, "--embedder", "fake", **more)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "m.kdb"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_loses_no_character_in_any_encoding(db: Path, encoding: str) -> None:
    text = "pizza 🍕 和茶 à la carte"
    assert fake(db, "remember", "-", stdin=text.encode(), PYTHONUTF8="1").returncode == 0
    r = fake(db, "recall", "pizza", "--json", PYTHONIOENCODING=encoding)
    assert r.returncode == 0
    assert json.loads(r.stdout.decode(encoding))[0]["text"] == text


@pytest.mark.parametrize("command", [("recall", "pizza"), ("history",), ("stats",), ("ingest",), ("config", "show")])
def test_every_printing_command_survives_a_poor_terminal(db: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    saved = json.loads(fake(db, "remember", "pizza 🍕 和茶 \x1b[2J\u202e", "--json").stdout)
    note = tmp_path / "和茶.txt"
    note.write_text("茶", encoding="utf-8")
    args = {"history": ("history", saved["id"]), "ingest": ("ingest", str(note))}.get(command[0], command)
    go = run if command[0] in ("stats", "config") else fake
    for env in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C"}):
        r = go(db, *args, **env)
        assert r.returncode == 0, (env, r.stderr)
        assert r.stdout.strip()
        assert b"\x1b[2J" not in r.stdout and "\u202e".encode() not in r.stdout


@pytest.mark.parametrize("command", ["recall", "history", "help"])
def test_a_closed_pipe_ends_in_silence(db: Path, command: str) -> None:
    saved = json.loads(fake(db, "remember", "long " * 4_000, "--json").stdout)
    args = {
        "recall": ["recall", "long", "--json", "--embedder", "fake"],
        "history": ["history", saved["id"], "--embedder", "fake"],
        "help": ["--help"],
    }[command]
    with subprocess.Popen(
        [*CLI, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "KEKTORDB_PATH": str(db)}
    ) as p:
        assert p.stdout is not None and p.stderr is not None
        p.stdout.close()
        errors = p.stderr.read()
    assert b"Traceback" not in errors and b"Broken" not in errors, errors


@pytest.mark.parametrize("command", [("remember", "x"), ("recall", "x"), ("stats",), ("verify",), ("reembed",)])
@pytest.mark.parametrize("place", ["file", "below a file"])
def test_a_path_that_cannot_be_a_database_is_an_error_with_json(
    tmp_path: Path, command: tuple[str, ...], place: str
) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    at = file if place == "file" else file / "m.kdb"
    plain, as_json = run(at, *command), run(at, *command, "--json")
    assert plain.returncode == as_json.returncode != 0
    assert b"error: " in plain.stderr and not plain.stdout
    assert json.loads(as_json.stdout)["error"]["message"]
    assert file.read_text() == "kept"


@pytest.mark.parametrize("command", [("history", "m_1"), ("evolve", "m_1", "x"), ("forget", "m_1"), ("stats",)])
def test_a_command_that_needs_a_database_makes_none(db: Path, command: tuple[str, ...]) -> None:
    assert run(db, *command).returncode in (2, 3)
    assert not db.exists()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST"])
def test_a_damaged_database_is_refused_with_the_file_named(db: Path, name: str) -> None:
    assert fake(db, "remember", "kept").returncode == 0
    assert run(db, "stats").returncode == 0
    victims = [p for p in db.rglob("*") if p.is_file() and p.name.startswith(name)]
    assert victims
    for v in victims:
        v.write_bytes(bytes(len(v.read_bytes())))
    for command in (("stats",), ("verify",), ("recall", "kept", "--embedder", "fake")):
        r = run(db, *command)
        assert r.returncode == 7, (command, r.stdout, r.stderr)
        assert name.encode() in r.stdout + r.stderr


def test_unknown_options_and_commands_are_usage_errors(db: Path) -> None:
    for args in (("nonsense",), ("stats", "--nonsense"), ("recall",), ("recall", "x", "-k", "many")):
        r = run(db, *args)
        assert r.returncode == 2 and b"Usage: kektordb" in r.stderr and not r.stdout


def test_the_database_option_comes_before_the_environment(db: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.kdb"
    assert fake(db, "remember", "x", "--db", str(other)).returncode == 0
    assert other.is_dir() and not db.exists()
    assert fake(db, "remember", "x").returncode == 0
    assert db.is_dir()


def test_config_show_says_where_a_value_comes_from(db: Path) -> None:
    r = run(db, "config", "show", "--json", KEKTORDB_SEARCH_EF_SEARCH="77")
    row = next(x for x in json.loads(r.stdout) if x["setting"] == "search.ef_search")
    assert row["value"] == 77 and "KEKTORDB_SEARCH_EF_SEARCH" in row["origin"]
    bad = run(db, "config", "show", KEKTORDB_SEARCH_EF_SEARCH="many")
    assert bad.returncode == 2 and b"ef_search" in bad.stderr.lower()


def test_reembed_changes_the_embedder_and_keeps_what_is_found(db: Path) -> None:
    for i in range(3):
        assert fake(db, "remember", f"topic{i} is noted").returncode == 0
    r = run(db, "reembed", "--to", "fake:64", "--json")
    assert r.returncode == 0, r.stderr
    assert sum(json.loads(r.stdout).values()) == 3
    assert fake(db, "recall", "topic1").returncode == 4, "the old embedder is refused"
    hits = json.loads(run(db, "recall", "topic1", "--embedder", "fake:64", "--json").stdout)
    assert hits[0]["text"] == "topic1 is noted"


def test_a_folder_of_exports_adds_up_and_is_read_once(db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    same = "Hello there"
    chats = [
        {
            "uuid": f"u{i}",
            "name": "New chat",
            "chat_messages": [
                {"sender": "human", "text": f"{same} topic{j}", "created_at": f"2026-03-0{i}T10:0{j}:00Z"}
                for j in range(3)
            ],
        }
        for i in (1, 2)
    ]
    chats[0]["chat_messages"].append({"sender": "human", "text": "", "created_at": None})  # type: ignore[attr-defined]
    (folder / "claude.json").write_text(json.dumps([*chats, {"odd": 1}]))
    (folder / "notes.md").write_text("# Tea\n\nGreen tea at 80 degrees.\n\n# Coffee\n\nNo milk.\n")
    (folder / "log.jsonl").write_text(
        '{"speaker": "Ana", "text": "Hi", "at": "2026-01-01"}\n{"speaker": "Ana"}\nnot json\n'
    )
    (folder / "picture.png").write_bytes(b"\x89PNG")
    first = json.loads(fake(db, "ingest", str(folder), "--json").stdout)
    items = sum(r["items"] for r in first["read"])
    assert items == first["stored"] + first["known_already"] == 9
    assert first["known_already"] == 0
    assert sum(s["count"] for s in first["skipped"]) == 5, first["skipped"]
    second = json.loads(fake(db, "ingest", str(folder), "--json").stdout)
    assert (second["stored"], second["known_already"]) == (0, 9)
    live = json.loads(run(db, "stats", "--json").stdout)["collections"]["memory.memory"]["live"]
    assert live == 9
    hit = json.loads(fake(db, "recall", "topic2", "-k", "1", "--json").stdout)[0]
    assert (hit["speaker"], hit["at"][11:16]) == ("user", "10:02")


def test_a_dry_run_writes_nothing(db: Path, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("words")
    r = run(db, "ingest", str(note), "--dry-run", "--json")
    assert r.returncode == 0 and json.loads(r.stdout)["read"][0]["items"] == 1
    assert not db.exists()


def test_a_turn_without_a_time_is_stored_again_as_the_guide_says(db: Path, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"speaker": "Ana", "text": "Hi"}\n{"speaker": "Bo", "text": "Hello", "at": "2026-01-01"}\n')
    first, second = (json.loads(fake(db, "ingest", str(chat), "--json").stdout) for _ in range(2))
    assert (first["stored"], first["known_already"]) == (2, 0)
    assert (second["stored"], second["known_already"]) == (1, 1)
