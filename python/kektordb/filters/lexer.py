"""Text to tokens, linear; every token knows its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kektordb.errors import FilterSyntaxError

KEYWORDS = frozenset("AND OR NOT IN BETWEEN LIKE STARTS WITH CONTAINS EXISTS IS NULL TRUE FALSE DATE TIMESTAMP".split())

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
  | (?P<op><=|>=|!=|=|<|>)
  | (?P<mark>[(),\[\].])
  | (?P<name>[^\W\d]\w*)
  | (?P<tick>`(?:[^`]|``)*`)
  | (?P<quote>["'])
    """,
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_HINTS = {
    "==": "equality is a single =",
    "&&": "write AND",
    "||": "write OR",
    "<>": "write !=",
    "!": "write NOT, or != between a field and a value",
    "“": "use straight quotes: ' or \"",
    "”": "use straight quotes: ' or \"",
    "‘": "use straight quotes: ' or \"",
    "’": "use straight quotes: ' or \"",
    "$": "fields stand by their name; odd names go in backquotes",
    ";": "a filter is one expression",
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """number, op, mark, name, word (a keyword), field (in backquotes), text, end."""
    text: str
    at: int


def fault(source: str, at: int, what: str, hint: str = "") -> FilterSyntaxError:
    """An error whose message shows the text with a caret under the place."""
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    line = source[start : end if end >= 0 else len(source)]
    left = max(0, at - start - 60)
    shown = line[left : left + 120]
    caret = " " * (at - start - left) + "^"
    return FilterSyntaxError(f"{what} at {at}\n  {shown}\n  {caret}", position=at, hint=hint)


def tokens(source: str) -> Iterator[Token]:
    at = 0
    while at < len(source):
        for odd in ("==", "&&", "||", "<>"):
            if source.startswith(odd, at):
                raise fault(source, at, f"unexpected {odd!r}", _HINTS[odd])
        m = _TOKEN.match(source, at)
        if m is None:
            c = source[at]
            if c.isdecimal() or c in "+-.":
                raise fault(source, at, "a number that cannot be read", "dates go in quotes: DATE '2024-01-31'")
            raise fault(source, at, f"unexpected {c!r}", _HINTS.get(c, ""))
        kind, text = str(m.lastgroup), m.group()
        if kind == "quote":
            text, end = _string(source, at)
            yield Token("text", text, at)
            at = end
            continue
        if kind == "tick":
            yield Token("field", text[1:-1].replace("``", "`"), at)
        elif kind == "name":
            upper = text.upper()
            yield Token("word", upper, at) if upper in KEYWORDS else Token("name", text, at)
        elif kind != "space":
            yield Token(kind, text, at)
        at = m.end()
    yield Token("end", "", len(source))


def _string(source: str, at: int) -> tuple[str, int]:
    quote, out, i = source[at], [], at + 1
    stop = re.compile(rf"[\\{quote}]")
    while True:
        m = stop.search(source, i)
        if m is None:
            raise fault(source, at, "a text that is not closed", f"it needs another {quote}")
        out.append(source[i : m.start()])
        i = m.end()
        if m.group() == quote:
            if source.startswith(quote, i):
                out.append(quote)
                i += 1
                continue
            return "".join(out), i
        if i >= len(source):
            raise fault(source, at, "a text that is not closed", f"it needs another {quote}")
        c = source[i]
        if c == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", source[i + 1 : i + 5]):
            out.append(chr(int(source[i + 1 : i + 5], 16)))
            i += 5
            continue
        # `\%` and `\_` stay as they are: LIKE reads them.
        out.append("\\" + c if c in "%_" else _ESCAPES.get(c, c))
        i += 1
