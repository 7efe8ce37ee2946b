"""Checks at the door: what a caller gives becomes what the engine takes, or a clear error. No state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kektordb.errors import DimensionMismatchError, DtypeError, InvalidArgumentError
from kektordb.model.view import View

Json = Any


def ids_of(ids: Sequence[str] | str) -> list[str]:
    """A list of distinct, non-empty ids; one id may stand alone."""
    if isinstance(ids, str):
        ids = [ids]
    if isinstance(ids, bytes | Mapping):
        raise InvalidArgumentError(f"ids are a {type(ids).__name__}", hint="give a list of texts")
    try:
        out = list(ids)
    except TypeError as e:
        raise InvalidArgumentError(f"ids are a {type(ids).__name__}", hint="give a list of texts") from e
    for i, one in enumerate(out):
        if not isinstance(one, str):
            raise InvalidArgumentError(f"id {i} is a {type(one).__name__}: {one!r}", hint="ids are text; use str(...)")
    return out


def distinct(ids: list[str]) -> list[str]:
    if len(set(ids)) != len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise InvalidArgumentError(f"id {twice!r} stands twice in one call", hint="each id may be given once a call")
    return ids


def matrix(vectors: object, *, n: int | None, dim: int, what: str = "vectors") -> NDArray[np.float32]:
    """An (n, dim) C-contiguous float32 array. A single vector may be flat."""
    a = numbers(vectors, what)
    if a.ndim == 1 and (n in (None, 1)) and (a.size == dim or n == 1):
        a = a[None]
    if a.ndim != 2:
        raise InvalidArgumentError(
            f"{what} have {a.ndim} dimensions, shape {a.shape}", hint=f"give an (n, {dim}) array"
        )
    if a.shape[1] != dim and a.shape[0]:
        raise DimensionMismatchError(
            f"{what} have dimension {a.shape[1]}, the collection has {dim}", got=a.shape[1], want=dim
        )
    if n is not None and a.shape[0] != n:
        raise InvalidArgumentError(f"{n} ids and {a.shape[0]} {what}", hint="give one vector for each id")
    return single(a, what)


def vector(value: object, *, dim: int) -> NDArray[np.float32]:
    """A (dim,) C-contiguous float32 array."""
    if type(value) is np.ndarray and value.dtype == np.float32 and value.shape == (dim,):
        return value if value.flags.c_contiguous else np.ascontiguousarray(value)
    a = numbers(value, "vector")
    if a.ndim == 2 and a.shape[0] == 1:
        a = a[0]
    if a.ndim != 1:
        raise InvalidArgumentError(f"vector has shape {a.shape}", hint=f"give a flat array of {dim} numbers")
    if a.shape[0] != dim:
        raise DimensionMismatchError(
            f"vector has dimension {a.shape[0]}, the collection has {dim}", got=a.shape[0], want=dim
        )
    return single(a, "vector")


def single(a: NDArray[Any], what: str) -> NDArray[np.float32]:
    """The array as float32, refusing what float32 cannot hold. NaN and infinity go on to the engine, which names them."""
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(a, dtype=np.float32)
    if a.dtype != np.float32 and not np.array_equal(np.isinf(out), np.isinf(a)):
        raise InvalidArgumentError(
            f"{what} hold numbers beyond float32", hint="scale them; the largest is about 3.4e38 either way"
        )
    return out


def name(value: object, what: str) -> str:
    """Text that names something."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}: {value!r}", hint="give text")
    return value


def raw(value: object, what: str) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}", hint="give bytes; text.encode() for text")
    return bytes(value)


def whole(value: object, what: str, *, at_least: int, at_most: int) -> int:
    """A whole number within bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgumentError(f"{what} is {value!r}", hint="give a whole number")
    out = int(value)
    if out < at_least:
        raise InvalidArgumentError(f"{what} is {out}", hint=f"at least {at_least}")
    if out > at_most:
        raise InvalidArgumentError(f"{what} is {out}", hint=f"at most {at_most:,}")
    return out


def real(value: object, what: str) -> float:
    """A number that is not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or np.isnan(value):
        raise InvalidArgumentError(f"{what} is {value!r}", hint="give a number")
    return float(value)


def numbers(value: object, what: str) -> NDArray[Any]:
    try:
        a = np.asarray(value)
    except (ValueError, TypeError) as e:
        raise InvalidArgumentError(f"{what} are not an array: {e}", hint="rows must have one length") from e
    if a.dtype.kind not in "fiu":
        raise DtypeError(f"{what} have dtype {a.dtype}", hint="give float32 (other real numbers are converted)")
    return a


def payload_text(payload: Mapping[str, Json] | None, what: str = "payload") -> str:
    """JSON text of one payload; empty for none."""
    if payload is None:
        return ""
    if not isinstance(payload, Mapping):
        raise InvalidArgumentError(
            f"{what} is a {type(payload).__name__}", hint="give a mapping of field names to values"
        )
    try:
        text = json.dumps(
            payload if type(payload) is dict else dict(payload),
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
    except ValueError as e:
        raise InvalidArgumentError(
            f"{what} holds what JSON cannot: {e}", hint="NaN and infinity have no JSON form"
        ) from e
    except TypeError as e:
        raise InvalidArgumentError(
            f"{what} holds what JSON cannot: {e}", hint="convert it to text, numbers, lists or mappings"
        ) from e
    except RecursionError as e:
        raise InvalidArgumentError(f"{what} is nested too deeply", hint="at most 64 levels") from e
    return text


def payload_texts(payloads: Sequence[Mapping[str, Json] | None] | None, n: int) -> list[str] | None:
    if payloads is None:
        return None
    if isinstance(payloads, Mapping):
        payloads = [payloads]
    if isinstance(payloads, str | bytes) or not isinstance(payloads, Iterable):
        raise InvalidArgumentError(f"payloads are a {type(payloads).__name__}", hint="give one mapping for each id")
    payloads = list(payloads)
    if len(payloads) != n:
        raise InvalidArgumentError(f"{n} ids and {len(payloads)} payloads", hint="give one payload for each id")
    return [payload_text(p) for p in payloads]


@contextmanager
def utf8() -> Iterator[None]:
    """Lone surrogates have no UTF-8: the one rule for them is refusal."""
    try:
        yield
    except UnicodeEncodeError as e:
        bad = e.object[e.start : e.end]
        raise InvalidArgumentError(
            f"text holds {bad!r} at {e.start}, which is half of a character",
            hint="decode the text properly, or text.encode('utf-8', 'replace').decode()",
        ) from e


def view_arg(view: View | None, pin: int | None = None) -> Any:
    """A view as the extension takes it."""
    if view is None:
        return None
    p = view.principal
    return (
        None if p is None else (p.user, p.agent, p.session),
        view.as_of,
        view.valid_at,
        view.ever,
        [int(x) for x in view.life],
        view.refuted,
        view.stale,
        int(view.min_trust),
        pin,
    )
