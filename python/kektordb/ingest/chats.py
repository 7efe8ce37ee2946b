"""Exported chats as turns: speaker, text, time.

Forms: ChatGPT (`conversations.json`: a tree of messages under `mapping`), Claude (`conversations.json`: `chat_messages`),
Claude Code session logs (JSON Lines with `message` and `timestamp`), Gemini activity (`MyActivity.json`), and plain lists
or lines of `{"speaker" | "role" | "name" | "from", "text" | "content" | "message", "at" | "timestamp" | …}`.
Pure; a record that is not understood yields nothing rather than a guess.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Json = Any


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said. `at` is in UTC, None where the export has no time."""

    speaker: str
    text: str
    at: datetime | None = None
    caption: str | None = None
    role: str | None = None
    """"user" or "assistant" where the export says so."""

    def to_json(self) -> dict[str, Json]:
        return {
            "speaker": self.speaker,
            "text": self.text,
            "at": None if self.at is None else self.at.isoformat(),
            "caption": self.caption,
            "role": self.role,
        }


Conversation = tuple[str, str, list[Turn], int]
"""(form, session name, turns, records left out because they hold no words of a speaker)"""

SESSION_CHARS_MAX = 120
"""A longer title is cut; the export's own id keeps it apart from others."""

ROLES = {"human": "user", "user": "user", "assistant": "assistant", "model": "assistant", "ai": "assistant"}


def conversations(data: Json, name: str) -> Iterator[Conversation]:
    """Every conversation of a whole JSON file; none where the form is not known."""
    items = data if isinstance(data, list) else [data]
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            continue
        session = session_name(item, f"{name}-{i + 1}")
        if isinstance(item.get("mapping"), Mapping):
            branch = screen_branch(item)
            turns = list(chatgpt(item))
            yield "chatgpt", session, turns, len(branch) - len(turns)
        elif isinstance(item.get("chat_messages"), list):
            turns = list(claude(item))
            yield "claude", session, turns, len(item["chat_messages"]) - len(turns)
        elif isinstance(list_ := item.get("messages") or item.get("turns"), list):
            turns = turns_of(list_)
            yield "turns", session, turns, len(list_) - len(turns)
    activity = [i for i in items if isinstance(i, Mapping) and str(i.get("header", "")).startswith("Gemini")]
    if activity:
        yield "gemini", name, list(gemini(activity)), sum(1 for a in activity if not any(gemini([a])))
    loose = turns_of(i for i in items if is_turn(i) and not is_conversation(i))
    if loose:
        yield "turns", name, loose, 0


def session_name(item: Mapping[str, Json], default: str) -> str:
    """The title, with the export's own id: many chats are called "New chat"."""
    title = str(item.get("title") or item.get("name") or default)[:SESSION_CHARS_MAX]
    key = item.get("conversation_id") or item.get("uuid") or item.get("id")
    return f"{title} ({str(key)[:40]})" if key else title


def is_conversation(item: Json) -> bool:
    return isinstance(item, Mapping) and (
        isinstance(item.get("mapping"), Mapping)
        or isinstance(item.get("chat_messages"), list)
        or isinstance(item.get("messages") or item.get("turns"), list)
    )


def strangers(data: Json) -> int:
    """How many entries of a list are of no known form."""
    items = data if isinstance(data, list) else [data]
    return sum(
        1
        for i in items
        if not is_conversation(i)
        and not is_turn(i)
        and not (isinstance(i, Mapping) and str(i.get("header", "")).startswith("Gemini"))
    )


def line_records(records: Iterable[Json], name: str) -> Iterator[Conversation]:
    """Conversations of a JSON Lines file, one a session that its lines name."""
    by_session: dict[str, list[Json]] = {}
    form = "turns"
    for r in records:
        if is_turn(r):
            by_session.setdefault(str(r.get("sessionId") or r.get("session") or name), []).append(r)
            if isinstance(r.get("message"), Mapping):
                form = "claude-code"
    for session, list_ in by_session.items():
        yield form, session, turns_of(list_), 0


def turns_of(items: Iterable[Json]) -> list[Turn]:
    return [t for t in (plain_turn(i) for i in items) if t is not None]


def is_turn(item: Json) -> bool:
    return plain_turn(item) is not None


def plain_turn(item: Json) -> Turn | None:
    """A turn from one flat record, or None."""
    if not isinstance(item, Mapping):
        return None
    inner = item.get("message")
    if isinstance(inner, Mapping):
        item = {**item, **inner}
    raw_role = (
        item.get("role") or (item.get("author") or {}).get("role")
        if isinstance(item.get("author"), Mapping)
        else item.get("role")
    )
    speaker = item.get("speaker") or item.get("name") or item.get("from") or item.get("sender") or raw_role
    text = text_of(item.get("text") if item.get("text") is not None else item.get("content", item.get("message")))
    if not isinstance(speaker, str) or not text:
        return None
    stamp = next(
        (item[k] for k in ("at", "timestamp", "created_at", "create_time", "time", "date") if item.get(k)), None
    )
    caption = item.get("caption")
    return Turn(
        speaker=speaker,
        text=text,
        at=moment(stamp),
        caption=caption if isinstance(caption, str) else None,
        role=ROLES.get(str(raw_role or speaker).lower()),
    )


def screen_branch(item: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """The messages on the screen last: from the root down to `current_node`. Edited-away branches are left out."""
    mapping: Mapping[str, Json] = item["mapping"]
    node, path, seen = item.get("current_node"), [], set()
    if node is None:
        leaves = [k for k, v in mapping.items() if isinstance(v, Mapping) and not v.get("children")]
        node = leaves[-1] if leaves else None
    while isinstance(node, str) and node in mapping and node not in seen:
        seen.add(node)
        if not isinstance(mapping[node], Mapping):
            break
        path.append(mapping[node])
        node = mapping[node].get("parent")
    return [entry["message"] for entry in reversed(path) if isinstance(entry.get("message"), Mapping)]


def chatgpt(item: Mapping[str, Json]) -> Iterator[Turn]:
    for message in screen_branch(item):
        author, content = message.get("author"), message.get("content")
        role = str(author.get("role") or "").lower() if isinstance(author, Mapping) else ""
        text = text_of(content.get("parts")) if isinstance(content, Mapping) else text_of(content)
        if role in ("user", "assistant") and text:
            yield Turn(speaker=role, text=text, at=moment(message.get("create_time")), role=role)


def claude(item: Mapping[str, Json]) -> Iterator[Turn]:
    for m in item["chat_messages"]:
        if not isinstance(m, Mapping):
            continue
        role = ROLES.get(str(m.get("sender", "")).lower())
        text = text_of(m.get("content")) or text_of(m.get("text"))
        if role and text:
            yield Turn(speaker=role, text=text, at=moment(m.get("created_at")), role=role)


def gemini(items: Iterable[Mapping[str, Json]]) -> Iterator[Turn]:
    """Activity entries, oldest first: what was asked, then the answer's text."""
    for entry in sorted(items, key=lambda e: str(e.get("time", ""))):
        at = moment(entry.get("time"))
        asked = re.sub(r"^Prompted\s+", "", str(entry.get("title", ""))).strip()
        if asked:
            yield Turn(speaker="user", text=asked, at=at, role="user")
        answer = " ".join(str(x.get("html", "")) for x in entry.get("safeHtmlItem", []) if isinstance(x, Mapping))
        answer = html.unescape(re.sub(r"<[^>]+>", " ", answer))
        if answer.strip():
            yield Turn(speaker="assistant", text=re.sub(r"\s+", " ", answer).strip(), at=at, role="assistant")


def text_of(content: Json) -> str:
    """The text of a message: a text, a list of texts or typed parts. Calls of tools and pictures have none."""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, Mapping):
        if content.get("type", "text") in ("text", "input_text", "output_text"):
            return text_of(content.get("text", content.get("parts")))
        return ""
    if isinstance(content, list):
        return "\n".join(t for t in (text_of(c) for c in content) if t)
    return ""


def moment(stamp: Json) -> datetime | None:
    """Seconds or milliseconds since 1970, or ISO 8601; without an offset it is UTC. None where it is neither."""
    try:
        if isinstance(stamp, bool) or stamp is None:
            return None
        if isinstance(stamp, int | float):
            return datetime.fromtimestamp(stamp / 1000 if stamp > 1e11 else stamp, UTC)
        at = datetime.fromisoformat(str(stamp))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
