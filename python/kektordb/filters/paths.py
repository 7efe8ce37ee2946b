"""Paths into a payload: a tuple of field names from the root. Pure.

Written by hand, a name of letters, digits, `_`, `-`, `$`, `@` stands as it is; others stand in backquotes (a backquote inside is
doubled) or have their odd characters escaped by a backslash. The postings know a path as its names joined by dots, with dots
and backslashes escaped by a backslash.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from kektordb.errors import InvalidArgumentError, LimitExceededError
from kektordb.filters.limits import MAX_PATH_BYTES, MAX_PATH_SEGMENTS

Path = tuple[str, ...]
RESERVED = frozenset("AND OR NOT IN IS NULL TRUE FALSE LIKE BETWEEN CONTAINS EXISTS".split())
"""Words that are a field's name only in backquotes."""
_PUNCTUATION = "_-$@"


def nfc(text: str) -> str:
    """The form in which names and values are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_word_start(char: str) -> bool:
    return char.isalpha() or char in "_$@"


def is_word_part(char: str) -> bool:
    return char.isalnum() or char in _PUNCTUATION or unicodedata.category(char)[0] == "M"


def encode_path(path: Sequence[str]) -> str:
    """A path as the postings know it."""
    return ".".join(nfc(name).replace("\\", "\\\\").replace(".", "\\.") for name in path)


def checked_path(path: Sequence[str]) -> Path:
    """A path within the limits, its names in NFC."""
    names = tuple(path)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"a path is {path!r}", hint="give at least one field name")
    if len(names) > MAX_PATH_SEGMENTS:
        raise LimitExceededError(
            f"a path has {len(names):,} names, at most {MAX_PATH_SEGMENTS} are allowed",
            limit="MAX_PATH_SEGMENTS",
            maximum=MAX_PATH_SEGMENTS,
        )
    whole = tuple(nfc(name) for name in names)
    try:
        size_bytes = len(encode_path(whole).encode())
    except UnicodeEncodeError as e:
        raise InvalidArgumentError(f"a path holds half of a character: {path!r}", hint="decode it properly") from e
    if size_bytes > MAX_PATH_BYTES:
        raise LimitExceededError(
            f"a path has {size_bytes:,} bytes, at most {MAX_PATH_BYTES:,} are allowed",
            limit="MAX_PATH_BYTES",
            maximum=MAX_PATH_BYTES,
        )
    return whole


def path_text(path: Sequence[str]) -> str:
    """A path as it is written in a filter."""
    return ".".join(_written(name, alone=len(path) == 1) for name in path)


def _written(name: str, *, alone: bool) -> str:
    plain = bool(name) and is_word_start(name[0]) and all(is_word_part(c) for c in name)
    if plain and not (alone and name.upper() in RESERVED):
        return name
    return "`" + name.replace("`", "``") + "`"
