"""What an embedder is, and how a collection remembers which one filled it.

Promises: two fingerprints are compared by one rule (`Fingerprint.differences`). Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Literal, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kektordb.errors import EmbedderMismatchError, InvalidArgumentError

Kind = Literal["document", "query"]
"""What the text is for; models with a query prefix use it, symmetric ones ignore it."""
Long = Literal["chunk", "cut", "error"]
"""What happens to a text past the model's window: mean of overlapping pieces, cut with a warning, or an error."""
Vectors = NDArray[np.float32]


class LongTextWarning(UserWarning):
    """A text was longer than the model reads, and part of it did not reach the vector."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The vector space of an embedder. Vectors of two spaces must never be compared."""

    provider: str
    model: str
    dim: int
    normalised: bool
    digest: str = ""
    """`sha256:` of the model's files where they are at hand, else empty."""

    def to_json(self) -> dict[str, str | int | bool]:
        return {
            "provider": self.provider,
            "model": self.model,
            "dim": self.dim,
            "normalised": self.normalised,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Fingerprint:
        provider, model, dim = value.get("provider"), value.get("model"), value.get("dim")
        normalised, digest = value.get("normalised"), value.get("digest", "")
        if (
            not isinstance(provider, str)
            or not isinstance(model, str)
            or not isinstance(dim, int)
            or isinstance(dim, bool)
            or not isinstance(normalised, bool)
            or not isinstance(digest, str)
        ):
            raise InvalidArgumentError(
                f"not an embedder's fingerprint: {dict(value)!r}",
                hint="wanted provider, model, dim, normalised and digest",
            )
        return cls(provider, model, dim, normalised, digest)

    def differences(self, other: Fingerprint) -> list[str]:
        """Names of the fields that make the two spaces differ; empty = the same space.

        With a digest on both sides the bytes of the model decide, and the names do not: the same files under another
        folder name are the same space.
        """
        fields = ["dim", "normalised"]
        fields += ["digest"] if self.digest and other.digest else ["provider", "model"]
        return [f for f in fields if getattr(self, f) != getattr(other, f)]

    def __str__(self) -> str:
        tail = f", {self.digest[:19]}…" if self.digest else ""
        return f"{self.provider}:{self.model} ({self.dim} dimensions{tail})"


class Embedder(Protocol):
    """Texts in, unit vectors out. Implementations are safe to call from several threads."""

    @property
    def name(self) -> str:
        """The spec that `resolve_embedder` takes, such as `minilm` or `openai:text-embedding-3-small`."""
        ...

    @property
    def dim(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Tokens that the model reads of one text at once."""
        ...

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        """float32 `(len(texts), dim)`, rows of length 1, in the order of `texts`."""
        ...

    def fingerprint(self) -> Fingerprint: ...


def is_embedder(value: object) -> TypeGuard[Embedder]:
    """Whether `value` has what an Embedder has. Looks without reading: `dim` may ask a server."""
    missing = object()
    wanted = ("name", "dim", "max_tokens", "embed", "fingerprint")
    return not isinstance(value, type) and all(getattr_static(value, n, missing) is not missing for n in wanted)


def require_same(recorded: Fingerprint, given: Fingerprint, *, collection: str) -> None:
    """Refuse an embedder that did not fill the collection."""
    differs = recorded.differences(given)
    if differs:
        raise EmbedderMismatchError(
            f"collection {collection!r} was filled by {recorded}, not by {given}: {', '.join(differs)} differ",
            hint=f"open it with embedder {recorded.provider}:{recorded.model}, or re-embed it: kektordb reembed",
            collection=collection,
            recorded=recorded.to_json(),
            given=given.to_json(),
        )
