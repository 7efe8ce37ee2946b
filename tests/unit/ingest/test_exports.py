"""Exports in their real forms become turns with speaker and time; what is left out is named and counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kektordb.errors import NotFoundError
from kektordb.ingest import Skipped, Source, read_path
from kektordb.ingest.chats import moment


def split(path: Path) -> tuple[list[Source], list[Skipped]]:
    found = list(read_path(path))
    return [f for f in found if isinstance(f, Source)], [f for f in found if isinstance(f, Skipped)]


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def node(key: str, parent: str | None, children: list[str], role: str | None, text: str, at: float | None) -> Any:
    message = {
        "id": key,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
    }
    return {"id": key, "message": message if role else None, "parent": parent, "children": children}


def chatgpt(key: str = "c-1", title: str = "Tides") -> Any:
    nodes = [
        node("root", None, ["sys"], None, "", None),
        node("sys", "root", ["old", "new"], "system", "", None),
        node("old", "sys", ["old-answer"], "user", "How high is the tide in Brest?", 1_760_000_000.0),
        node("old-answer", "old", [], "assistant", "Brest: seven metres.", 1_760_000_010.0),
        node("new", "sys", ["new-answer"], "user", "How high is the tide in Cádiz?", 1_760_000_100.5),
        node("new-answer", "new", [], "assistant", "Cádiz: three metres.", 1_760_000_110.0),
    ]
    return {
        "title": title,
        "conversation_id": key,
        "current_node": "new-answer",
        "mapping": {n["id"]: n for n in nodes},
    }


def test_chatgpt_gives_the_branch_on_the_screen_with_speaker_and_time(tmp_path: Path) -> None:
    [source], skipped = split(written(tmp_path / "conversations.json", [chatgpt()]))
    assert source.form == "chatgpt"
    assert [(t.speaker, t.text) for t in source.turns] == [
        ("user", "How high is the tide in Cádiz?"),
        ("assistant", "Cádiz: three metres."),
    ]
    assert source.turns[0].at == datetime.fromtimestamp(1_760_000_100.5, UTC)
    assert [s.count for s in skipped] == [1], "the system message is counted"


def test_two_chatgpt_conversations_of_one_title_stay_two_sessions(tmp_path: Path) -> None:
    export = [chatgpt("a", "New chat"), chatgpt("b", "New chat")]
    sources, _ = split(written(tmp_path / "conversations.json", export))
    assert len({s.session for s in sources}) == 2


@pytest.mark.parametrize("damage", ["loop", "lost parent", "no current node", "text for a node", "author text"])
def test_a_damaged_chatgpt_tree_is_read_as_far_as_it_goes(tmp_path: Path, damage: str) -> None:
    chat = chatgpt()
    nodes = chat["mapping"]
    if damage == "loop":
        nodes["sys"]["parent"] = "new-answer"
    elif damage == "lost parent":
        nodes["new"]["parent"] = "nowhere"
    elif damage == "no current node":
        del chat["current_node"]
    elif damage == "text for a node":
        nodes["sys"] = "not a node"
    else:
        nodes["sys"]["message"]["author"] = "system"
    [source], _ = split(written(tmp_path / "conversations.json", chat))
    assert source.turns[-1].text == "Cádiz: three metres."


def test_claude_export_keeps_sender_and_time(tmp_path: Path) -> None:
    chat = {
        "uuid": "u-1",
        "name": "Bread",
        "chat_messages": [
            {
                "uuid": "1",
                "sender": "human",
                "text": "Which flour?",
                "content": [{"type": "text", "text": "Which flour?"}],
                "created_at": "2026-03-01T10:00:00.123456Z",
            },
            {
                "uuid": "2",
                "sender": "assistant",
                "text": "",
                "content": [{"type": "tool_use", "name": "x"}, {"type": "text", "text": "Rye."}],
                "created_at": "2026-03-01T12:00:05+02:00",
            },
            {"uuid": "3", "sender": "assistant", "text": "", "content": [], "created_at": "2026-03-01T10:01:00Z"},
        ],
    }
    [source], [skipped] = split(written(tmp_path / "conversations.json", [chat]))
    assert source.form == "claude"
    assert [(t.speaker, t.text) for t in source.turns] == [("user", "Which flour?"), ("assistant", "Rye.")]
    assert source.turns[1].at == datetime(2026, 3, 1, 10, 0, 5, tzinfo=UTC)
    assert skipped.count == 1 and "Bread" in skipped.name


def test_claude_code_session_keeps_role_and_time_and_counts_what_is_no_turn(tmp_path: Path) -> None:
    lines = [
        {"type": "summary", "summary": "Fix the build", "leafUuid": "x"},
        {
            "type": "user",
            "sessionId": "s-1",
            "timestamp": "2026-04-02T08:00:00.000Z",
            "message": {"role": "user", "content": "Why is CI red?"},
        },
        {
            "type": "assistant",
            "sessionId": "s-1",
            "timestamp": "2026-04-02T08:00:09.000Z",
            "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": "A test fails."}, {"type": "tool_use", "id": "t", "input": {}}],
            },
        },
        {
            "type": "user",
            "sessionId": "s-1",
            "timestamp": "2026-04-02T08:00:12.000Z",
            "message": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]},
        },
    ]
    text = "\n".join(json.dumps(x) for x in lines) + "\n{torn"
    [source], skipped = split(written(tmp_path / "s-1.jsonl", text))
    assert (source.form, source.session) == ("claude-code", "s-1")
    assert [(t.role, t.text) for t in source.turns] == [("user", "Why is CI red?"), ("assistant", "A test fails.")]
    assert source.turns[1].at == datetime(2026, 4, 2, 8, 0, 9, tzinfo=UTC)
    assert sum(s.count for s in skipped) + len(source) == 5, "every line is a turn or is named"
    assert any("line 5" in s.name for s in skipped)


def test_gemini_activity_is_read_oldest_first(tmp_path: Path) -> None:
    entries = [
        {
            "header": "Gemini Apps",
            "title": "Prompted And in winter?",
            "time": "2026-02-01T10:05:00.000Z",
            "safeHtmlItem": [{"html": "<p>Colder &amp; wetter.</p>"}],
        },
        {
            "header": "Gemini Apps",
            "title": "Prompted How is Porto in summer?",
            "time": "2026-02-01T10:00:00.000Z",
            "safeHtmlItem": [{"html": "<p>Mild.</p>"}],
        },
    ]
    [source], skipped = split(written(tmp_path / "MyActivity.json", entries))
    assert source.form == "gemini" and not skipped
    assert [t.text for t in source.turns] == [
        "How is Porto in summer?",
        "Mild.",
        "And in winter?",
        "Colder & wetter.",
    ]
    assert [t.speaker for t in source.turns] == ["user", "assistant"] * 2
    assert source.turns[0].at == datetime(2026, 2, 1, 10, 0, tzinfo=UTC)


def test_lines_of_turns_are_grouped_by_the_session_they_name(tmp_path: Path) -> None:
    lines = [
        {"session": "a", "speaker": "Ana", "text": "Hello 🍕", "at": "2026-01-01T00:00:00"},
        {"session": "b", "speaker": "Bo", "text": "你好", "timestamp": 1_767_225_600},
        {"session": "a", "from": "Bo", "content": "Hi", "time": 1_767_225_600_000},
    ]
    sources, skipped = split(written(tmp_path / "x.jsonl", "\r\n".join(json.dumps(x) for x in lines)))
    assert {s.session: [t.speaker for t in s.turns] for s in sources} == {"a": ["Ana", "Bo"], "b": ["Bo"]}
    assert {t.at for s in sources for t in s.turns} == {datetime(2026, 1, 1, tzinfo=UTC)}
    assert not skipped


def test_markdown_splits_at_headings_but_not_inside_code(tmp_path: Path) -> None:
    text = "---\ntags: x\n---\n# Setup\n\nFirst.\n\n```sh\n# no heading\n\nmake\n```\n\n## Linux\n\nSecond.\n"
    [source], _ = split(written(tmp_path / "readme.md", text))
    assert [(p.heading, p.position) for p in source.passages] == [("Setup", 0), ("Setup › Linux", 1)]
    assert "```sh\n# no heading\n\nmake\n```" in source.passages[0].text
    assert "tags: x" not in source.passages[0].text


def test_plain_text_loses_no_word_and_cuts_none(tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(2_000)]
    [source], _ = split(written(tmp_path / "a.txt", " ".join(words)))
    assert len(source.passages) > 5
    assert " ".join(p.text for p in source.passages).split() == words


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"{", "is not JSON"),
        ("a.json", b"[" * 100_000, "is not JSON"),
        ("a.json", b'{"x": 1}', "not known"),
        ("a.json", b"[]", "not known"),
        ("a.txt", b"\xff\xfe\x00", "is not UTF-8"),
        ("a.txt", b"", "holds no text"),
        ("a.md", b" \n", "holds no text"),
        ("a.pdf", b"%PDF", "no reader for .pdf"),
        ("LICENSE", b"x", "without a suffix"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    written(tmp_path / "good.txt", "A control that is read.")
    sources, [skipped] = split(tmp_path)
    assert [Path(s.name).name for s in sources] == ["good.txt"]
    assert name in skipped.name and why in skipped.why


def test_entries_of_no_known_form_beside_conversations_are_counted(tmp_path: Path) -> None:
    [source], skipped = split(written(tmp_path / "c.json", [{"x": 1}, 7, {"speaker": "Ana", "text": "Hi"}]))
    assert len(source) == 1
    assert sum(s.count for s in skipped) == 2


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(read_path(tmp_path / "nothing"))


@pytest.mark.parametrize("stamp", [None, True, "yesterday", 1e300, float("inf"), float("nan"), [], {}])
def test_a_time_that_is_none_gives_no_time(stamp: Any) -> None:
    assert moment(stamp) is None
