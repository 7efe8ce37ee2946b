"""A filter's text as tokens, one at a time. Linear: no character is looked at more than a few times.

Errors point at the place and know the usual mistakes: `==`, `&&`, smart quotes, a date or a word without quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kektordb.errors import FilterSyntaxError, InvalidArgumentError
from kektordb.filters.faults import fault
from kektordb.filters.paths import Path, checked_path, is_word_part, is_word_start
from kektordb.filters.tree import Number


class Kind(Enum):
    NAME = "a field name"
    STRING = "a string"
    NUMBER = "a number"
    SIGN = "a sign"
    END = "the end of the filter"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    start: int
    end: int
    word: str = ""
    """A sign; or a name of one segment without quotes, in capitals: what keywords are compared with."""
    path: Path = ()
    number: Number | None = None


_SPACE: Final = re.compile(r"\s*")
_SIGN: Final = re.compile(r"<=|>=|!=|[=<>()\[\],]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d[\d:.,]*(?:[Zz]|[+-]\d\d:?\d\d)?)?", re.ASCII)
_INDEX: Final = re.compile(r"\[\s*\d")
_WORD: Final = re.compile(r"[A-Za-z0-9_$@-]*")
_PLAIN: Final = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}
_MAX_DIGITS: Final = 1_100
"""More than any finite double has, written out."""
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MISTAKES: Final = {
    "==": "write = for equality",
    "<>": "write != for inequality",
    "&&": "write AND",
    "||": "write OR",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or != for inequality",
    "~": "write NOT; ~ is for filters built in Python",
    ";": "a filter is one condition, without a closing semicolon",
    "{": "write the condition as text: lang = 'en' AND year >= 2020",
    "*": "% is the wild card of LIKE",
}
_MISTAKEN: Final = re.compile("|".join(re.escape(m) + ("(?!=)" if m == "!" else "") for m in _MISTAKES))
_CURLED: Final = "‘’‚‛“”„‟«»`´＇＂"


class Lexer:
    """`token` is the one at hand; `advance()` takes it and goes on to the next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.token = self._next(0)

    def advance(self) -> Token:
        taken = self.token
        self.token = self._next(taken.end)
        return taken

    def fault(self, position: int, message: str, *, hint: str = "") -> FilterSyntaxError:
        return fault(self.text, position, message, hint=hint)

    def _next(self, at: int) -> Token:
        text = self.text
        space = _SPACE.match(text, at)
        assert space is not None
        at = space.end()
        if at == len(text):
            return Token(Kind.END, at, at)
        char = text[at]
        if char in "'\"":
            return Token(Kind.STRING, at, self._string_end(at))
        if char.isascii() and (char.isdigit() or char in "+-."):
            return self._number(at)
        if is_word_start(char) or char in "`\\":
            return self._name(at)
        mistake = _MISTAKEN.match(text, at)
        if mistake is not None:
            raise self.fault(at, f"{mistake.group()!r} has no meaning here", hint=_MISTAKES[mistake.group()])
        sign = _SIGN.match(text, at)
        if sign is not None:
            return Token(Kind.SIGN, at, sign.end(), word=sign.group())
        if char in _CURLED:
            raise self.fault(at, f"{char!r} is a typographic quote", hint="use a straight quote: ' or \"")
        raise self.fault(
            at, f"{char!r} has no meaning here", hint="odd characters belong into quotes; of field names, `so`"
        )

    # -- names

    def _name(self, start: int) -> Token:
        names: list[str] = []
        at, plain = start, True
        while True:
            name, at, quoted = self._segment(at, first=not names)
            plain = plain and not quoted
            names.append(name)
            if not self.text.startswith(".", at):
                break
            at += 1
        if _INDEX.match(self.text, at):
            raise self.fault(
                at, "elements of a list have no numbers", hint="a condition on a list looks at every element"
            )
        word = names[0].upper() if plain and len(names) == 1 else ""
        try:
            return Token(Kind.NAME, start, at, word=word, path=checked_path(names))
        except InvalidArgumentError as e:
            if e.code != InvalidArgumentError.code:
                raise
            raise self.fault(start, e.message, hint=e.hint) from None

    def _segment(self, at: int, *, first: bool) -> tuple[str, int, bool]:
        """Name, where it ends, and whether it is marked as a name by quotes or escapes."""
        text = self.text
        if text.startswith("`", at):
            return self._backquoted(at)
        out: list[str] = []
        start, escaped = at, False
        while at < len(text):
            chunk = _WORD.match(text, at)
            if chunk is not None and chunk.end() > at and (out or is_word_start(text[at])):
                out.append(chunk.group())
                at = chunk.end()
            elif text[at] == "\\":
                if at + 1 == len(text):
                    raise self.fault(at, "a backslash escapes the next character, and there is none")
                out.append(text[at + 1])
                at, escaped = at + 2, True
            elif is_word_part(text[at]) if out else is_word_start(text[at]):
                out.append(text[at])
                at += 1
            else:
                break
        if not out:
            hint = "a name of digits or odd characters stands in backquotes: a.`0`" if at < len(text) else ""
            raise self.fault(start, "expected a field name" + ("" if first else " after '.'"), hint=hint)
        return "".join(out), at, escaped

    def _backquoted(self, start: int) -> tuple[str, int, bool]:
        out: list[str] = []
        at = start + 1
        while True:
            close = self.text.find("`", at)
            if close < 0:
                raise self.fault(start, "this backquote is not closed", hint="a backquote inside a name is doubled")
            out.append(self.text[at:close])
            if not self.text.startswith("`", close + 1):
                return "".join(out), close + 1, True
            out.append("`")
            at = close + 2

    # -- numbers

    def _number(self, start: int) -> Token:
        text = self.text
        date = _DATE.match(text, start)
        if date is not None:
            kind = "DATE" if len(date.group()) == 10 else "TIMESTAMP"
            raise self.fault(start, "a date stands in quotes", hint=f"write {kind} '{date.group()}'")
        found = _NUMBER.match(text, start)
        if found is None:
            what = (
                "a name does not start with '.'" if text[start] == "." else f"expected a number after {text[start]!r}"
            )
            raise self.fault(start, what)
        end, digits = found.end(), found.group()
        if end < len(text) and (is_word_part(text[end]) or text[end] in ".`\\"):
            raise self.fault(
                start,
                "this is neither a number nor a name",
                hint="text stands in quotes; a name that starts with a digit in backquotes",
            )
        bare = digits.lstrip("+-")
        if len(bare) > 1 and bare[0] == "0" and bare[1].isdigit():
            raise self.fault(start, "a number does not start with 0", hint=f"if it is text, write '{digits[:40]}'")
        if len(digits) > _MAX_DIGITS:
            raise self.fault(start, f"a number has {len(digits):,} characters", hint="numbers are finite doubles")
        try:
            number = Number(int(digits) if bare.isdigit() else float(digits))
        except InvalidArgumentError as e:
            raise self.fault(start, e.message, hint=e.hint) from None
        return Token(Kind.NUMBER, start, end, number=number)

    # -- strings

    def _string_end(self, start: int) -> int:
        text, quote = self.text, self.text[start]
        at = start + 1
        while True:
            run = _PLAIN[quote].match(text, at)
            assert run is not None
            at = run.end()
            if at >= len(text):
                raise self.fault(
                    start,
                    "this quote is not closed",
                    hint=f"a {quote} inside a string is doubled, or written \\{quote}",
                )
            if text[at] == "\\" or text.startswith(quote * 2, at):
                at += 2
            else:
                return at + 1

    def string(self, token: Token, *, pattern: bool = False) -> str:
        r"""What a string stands for. In a pattern of LIKE, `\%` and `\_` stay as they are."""
        text, quote, end = self.text, self.text[token.start], token.end - 1
        out: list[str] = []
        at = token.start + 1
        while at < end:
            run = _PLAIN[quote].match(text, at, end)
            assert run is not None
            out.append(run.group())
            at = run.end()
            if at == end:
                break
            following = text[at + 1]
            if text[at] == quote:
                out.append(quote)
            elif following in _ESCAPES:
                out.append(_ESCAPES[following])
            elif pattern and following in "%_":
                out.append("\\" + following)
            elif following == "u":
                char, at = self._unicode(at, end)
                out.append(char)
                continue
            else:
                raise self.fault(at, f"'\\{following}' is no escape", hint="a backslash is written \\\\")
            at += 2
        whole = "".join(out)
        try:
            whole.encode()
        except UnicodeEncodeError:
            raise self.fault(
                token.start, "this string holds half of a character", hint="decode the text properly"
            ) from None
        return whole

    def _unicode(self, at: int, end: int) -> tuple[str, int]:
        r"""`\uXXXX`, or two of them for a character beyond U+FFFF."""
        code = self._four_digits(at, end)
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", at + 6):
            low = self._four_digits(at + 6, end)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12
        return chr(code), at + 6

    def _four_digits(self, at: int, end: int) -> int:
        digits = self.text[at + 2 : min(at + 6, end)]
        if len(digits) != 4 or not all(c in "0123456789abcdefABCDEF" for c in digits):
            raise self.fault(at, "'\\u' takes four hexadecimal digits")
        return int(digits, 16)
