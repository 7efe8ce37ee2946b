"""When two texts are the same statement in the same words. Pure.

Promise: only the look is folded (composition, case, white space, kinds of quotes and dashes, closing punctuation), never a
value: digits, signs, super- and subscripts, units, names and question marks stay, so "2⁵" is not "25" and a question is
not its answer. Cost: linear.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

from kektordb.model.memory import Slot

_LOOKS = str.maketrans(
    dict.fromkeys("‘’‚‛`´", "'") | dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‐‑‒–—―−", "-") | {"…": "..."}
)
_SPACE = re.compile(r"\s+")
_CLOSING = ".!;,:"


def normalised(text: str) -> str:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).translate(_LOOKS)
    tight = _SPACE.sub(" ", folded).strip()
    return tight.rstrip(_CLOSING).rstrip() or tight


def same_name(text: str) -> str:
    """The form under which names, tags and labels are kept: composed, without outer white space."""
    return unicodedata.normalize("NFC", text).strip()


def digest(key: bytes, parts: dict[str, object], text: str, slot: Slot | None) -> str:
    """Keyed hash of what makes a duplicate: the scope and layer in `parts`, the normalised text and slot."""
    said = {"text": normalised(text), "slot": None if slot is None else [v and normalised(v) for v in slot], **parts}
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.blake2b(data, key=key, digest_size=24).hexdigest()
