"""Embedders behind HTTP: any server of the OpenAI form, and Ollama.

Promises: a key is sent to the given host only (redirects are refused, plain http beyond this machine too) and stands in
no message; a request has a timeout, tries are counted, waits and answers are bounded; an answer is checked for count,
order, dimension and finite values before it is used. No third-party library; the standard proxies of the environment
apply. Nothing is sent before the first `embed` (or `dim`, where the dimension was not given).
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from email.message import Message
from typing import IO, Any

import numpy as np

from kektordb.embed.protocol import Fingerprint, Kind, Vectors
from kektordb.embed.texts import (
    check_long,
    check_texts,
    covered,
    join_pieces,
    report_loss,
    too_long,
    unit_rows,
    windows,
)
from kektordb.errors import DimensionMismatchError, EmbeddingError, InvalidArgumentError, ProviderTimeoutError

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
MAX_ERROR_CHARS = 300
MAX_WAIT_S = 60.0
"""Longest wait between two tries, whatever the server asks for."""
MAX_BATCH = 2048
CHARS_PER_TOKEN = 3
"""Characters taken for a token where no tokenizer is at hand: low for English, so that a piece fits the model."""
OVERLAP_CHARS = 200
MAX_WINDOWS = 32
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class HttpEmbedder:
    """What the HTTP embedders share; subclasses say how a request and an answer look."""

    provider: str = ""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None,
        dim: int | None = None,
        max_tokens: int,
        batch_size: int = 64,
        timeout_s: float = 60.0,
        tries: int = 4,
        backoff_s: float = 0.5,
        long: str = "chunk",
        query_prefix: str = "",
        document_prefix: str = "",
        allow_http: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not model:
            raise InvalidArgumentError(
                f"no model named for {self.provider}", hint=f"write {self.provider}:MODEL, or pass model"
            )
        for what, value, low, high in (
            ("dim", 1 if dim is None else dim, 1, 65_536),
            ("max_tokens", max_tokens, 64, 1_000_000),
            ("batch_size", batch_size, 1, MAX_BATCH),
            ("timeout_s", timeout_s, 0.001, 3600),
            ("tries", tries, 1, 20),
            ("backoff_s", backoff_s, 0.0, MAX_WAIT_S),
        ):
            if not low <= value <= high:
                raise InvalidArgumentError(f"{what} is {value}, wanted {low} to {high}")
        self._model = model
        self._url, self._host = _check_url(base_url, has_key=bool(api_key), allow_http=allow_http)
        self._key = api_key or None
        if self._key and not all(" " < c < "\x7f" for c in self._key):
            raise InvalidArgumentError("the API key has spaces or characters outside ASCII", hint="copy it again")
        self._dim = dim
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._timeout_s = timeout_s
        self._tries = tries
        self._backoff_s = backoff_s
        self._long = check_long(long)
        self._prefix = {"query": query_prefix, "document": document_prefix}
        self._sleep = sleep
        self._probe = threading.Lock()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, host={self._host!r})"

    @property
    def name(self) -> str:
        return f"{self.provider}:{self._model}"

    @property
    def dim(self) -> int:
        """As given, or as the server answers to one word, asked once."""
        with self._probe:
            if self._dim is None:
                self._dim = self._request(["dimension"]).shape[1]
            return self._dim

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def recipe(self) -> str:
        """How texts are prepared; part of a cache's key."""
        return repr((self._long, self._prefix))

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.provider, self._model, self.dim, True)

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        clean = check_texts(texts)
        if kind not in self._prefix:
            raise InvalidArgumentError(f"kind is {kind!r}, wanted 'document' or 'query'")
        if not clean:
            return np.zeros((0, self.dim), dtype=np.float32)
        pieces, owners, lost = self._pieces(clean)
        what = f"are longer than {self._size} characters and were cut"
        if self._long == "chunk":
            what = f"are longer than {MAX_WINDOWS} pieces of {self._size} characters and were sampled evenly"
        report_loss(lost, len(clean), what=what)
        prefix = self._prefix[kind]
        rows = []
        for at in range(0, len(pieces), self._batch_size):
            # servers refuse an empty text
            batch = [prefix + p or " " for p in pieces[at : at + self._batch_size]]
            rows.append(self._request(batch))
        return join_pieces(np.concatenate(rows), owners, len(clean))

    @property
    def _size(self) -> int:
        return self._max_tokens * CHARS_PER_TOKEN

    def _pieces(self, texts: list[str]) -> tuple[list[str], list[int], int]:
        pieces: list[str] = []
        owners: list[int] = []
        lost = 0
        for i, text in enumerate(texts):
            spans = windows(len(text), self._size, min(OVERLAP_CHARS, self._size // 4), MAX_WINDOWS)
            if len(spans) > 1 and self._long == "error":
                raise too_long(i, len(text), self._size, "characters")
            if self._long == "cut":
                spans = [(0, min(len(text), self._size))]
            lost += covered(spans) < len(text)
            pieces += [text[a:b] for a, b in spans]
            owners += [i] * len(spans)
        return pieces, owners, lost

    # how one provider speaks

    def _path(self) -> str:
        raise NotImplementedError

    def _body(self, batch: list[str]) -> dict[str, object]:
        raise NotImplementedError

    def _vectors(self, answer: Any) -> list[Any]:
        """The vectors of an answer, in the order of the request; KeyError, TypeError or ValueError when it is no such answer."""
        raise NotImplementedError

    # one request, several tries

    def _request(self, batch: list[str]) -> Vectors:
        body = json.dumps(self._body(batch)).encode()
        for attempt in range(1, self._tries + 1):
            wait = min(MAX_WAIT_S, self._backoff_s * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
            try:
                return self._check(self._send(body), len(batch))
            except _Retry as e:
                if attempt == self._tries:
                    raise e.final(attempt) from e.__cause__
                self._sleep(max(wait, min(MAX_WAIT_S, e.after_s)))
        raise AssertionError("unreachable: tries is at least 1")

    def _send(self, body: bytes) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kektordb"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # the scheme was checked to be http or https
        request = urllib.request.Request(  # noqa: S310
            self._url + self._path(), data=body, headers=headers, method="POST"
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                raw = response.read(MAX_RESPONSE_BYTES + 1)
                # a bounded read reports no early end by itself
                missing = getattr(response, "length", 0) or 0
        except urllib.error.HTTPError as e:
            raise self._status_error(e) from None  # the cause holds the request and with it the key
        except TimeoutError:
            raise _Retry(ProviderTimeoutError(f"{self._who} did not answer in {self._timeout_s:g} s")) from None
        except urllib.error.URLError as e:
            if isinstance(e.reason, TimeoutError):
                raise _Retry(ProviderTimeoutError(f"{self._who} did not answer in {self._timeout_s:g} s")) from None
            raise _Retry(self._fail(f"cannot be reached: {e.reason}", hint="is the server running?")) from None
        except (OSError, http.client.HTTPException) as e:
            raise _Retry(self._fail(f"broke off: {type(e).__name__}: {e}")) from None
        if len(raw) > MAX_RESPONSE_BYTES:
            raise self._fail(f"answered with more than {MAX_RESPONSE_BYTES} bytes", hint="lower batch_size")
        if missing:
            raise _Retry(self._fail(f"broke off {missing} bytes before the end of its answer"))
        try:
            return json.loads(raw)
        except ValueError:
            raise self._fail(f"answered with something that is not JSON: {self._excerpt(raw)}") from None

    def _check(self, answer: Any, count: int) -> Vectors:
        try:
            vectors = self._vectors(answer)
            rows = np.array(vectors, dtype=np.float32)
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise self._fail(f"answered in an unknown form: {type(e).__name__}: {e}") from None
        if rows.ndim != 2 or rows.shape[0] != count:
            raise self._fail(f"answered with shape {rows.shape} for {count} texts")
        if self._dim is not None and rows.shape[1] != self._dim:
            raise DimensionMismatchError(
                f"{self._who} gave {rows.shape[1]} dimensions, wanted {self._dim}",
                hint="name the model's own dimension, or another model",
                got=rows.shape[1],
                want=self._dim,
            )
        return unit_rows(rows, source=self._who)

    @property
    def _who(self) -> str:
        return f"{self.name} at {self._host}"

    def _fail(self, what: str, *, hint: str = "", **context: object) -> EmbeddingError:
        return EmbeddingError(f"{self._who} {what}", hint=hint, **context)

    def _excerpt(self, raw: bytes) -> str:
        text = raw[: 4 * MAX_ERROR_CHARS].decode("utf-8", "replace")
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join(text.split())
        return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"

    def _status_error(self, e: urllib.error.HTTPError) -> Exception:
        with e:
            try:
                raw = e.read(64 * 1024)
            except (OSError, http.client.HTTPException):
                raw = b""
        hint = {
            401: "check the API key",
            403: "check the API key and its rights",
            404: f"check the address and that the model {self._model!r} exists there",
            413: "lower batch_size or max_tokens",
            400: "if the text is too long for the model, lower max_tokens",
        }.get(e.code, "")
        if 300 <= e.code < 400:
            return self._fail(f"redirects (HTTP {e.code}); not followed", hint="give the final address", status=e.code)
        error = self._fail(f"answered HTTP {e.code}: {self._excerpt(raw)}", hint=hint, status=e.code)
        return _Retry(error, after_s=_seconds(e.headers.get("Retry-After"))) if e.code in _RETRIED else error


class OpenAIEmbedder(HttpEmbedder):
    """`POST {base_url}/embeddings`: OpenAI and the many servers that speak its form (vLLM, LM Studio, llama.cpp, LocalAI).

    `api_key` and `base_url` default to OPENAI_API_KEY and OPENAI_BASE_URL. `dimensions=True` asks the server to shorten
    vectors to `dim`, for models that can. The first `embed` may take tries x (timeout_s + wait) at the worst.
    """

    provider = "openai"

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dim: int | None = None,
        dimensions: bool = False,
        max_tokens: int = 8191,
        batch_size: int = 64,
        timeout_s: float = 60.0,
        tries: int = 4,
        backoff_s: float = 0.5,
        long: str = "chunk",
        query_prefix: str = "",
        document_prefix: str = "",
        allow_http: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(
            model,
            base_url=base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            api_key=api_key if api_key is not None else os.environ.get("OPENAI_API_KEY"),
            dim=dim,
            max_tokens=max_tokens,
            batch_size=batch_size,
            timeout_s=timeout_s,
            tries=tries,
            backoff_s=backoff_s,
            long=long,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            allow_http=allow_http,
            sleep=sleep,
        )
        if dimensions and dim is None:
            raise InvalidArgumentError("dimensions=True needs dim", hint="pass the length of vector you want as dim")
        self._dimensions = dimensions

    def _path(self) -> str:
        return "/embeddings"

    def _body(self, batch: list[str]) -> dict[str, object]:
        body: dict[str, object] = {"model": self._model, "input": batch, "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dim
        return body

    def _vectors(self, answer: Any) -> list[Any]:
        data = answer["data"]
        out: dict[int, Any] = {}
        for place, item in enumerate(data):
            out[item.get("index", place)] = item["embedding"]
        return [out[i] for i in range(len(data))]


class OllamaEmbedder(HttpEmbedder):
    """`POST {base_url}/api/embed` of a local Ollama; `base_url` defaults to OLLAMA_HOST, then to this machine.

    The server is told to refuse a text past the model's context instead of cutting it silently.
    """

    provider = "ollama"

    def __init__(
        self,
        model: str = "nomic-embed-text",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dim: int | None = None,
        max_tokens: int = 2048,
        batch_size: int = 32,
        timeout_s: float = 120.0,
        tries: int = 4,
        backoff_s: float = 0.5,
        long: str = "chunk",
        query_prefix: str = "",
        document_prefix: str = "",
        allow_http: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(
            model,
            base_url=base_url or _ollama_host(os.environ.get("OLLAMA_HOST", "")),
            api_key=api_key,
            dim=dim,
            max_tokens=max_tokens,
            batch_size=batch_size,
            timeout_s=timeout_s,
            tries=tries,
            backoff_s=backoff_s,
            long=long,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            allow_http=allow_http,
            sleep=sleep,
        )

    def _path(self) -> str:
        return "/api/embed"

    def _body(self, batch: list[str]) -> dict[str, object]:
        return {"model": self._model, "input": batch, "truncate": False}

    def _vectors(self, answer: Any) -> list[Any]:
        return list(answer["embeddings"])


class _Retry(Exception):  # noqa: N818  (a step inside this module, never an error outside)
    """Inside this module: worth another try; carries what to raise when there is none left."""

    def __init__(self, error: EmbeddingError | ProviderTimeoutError, *, after_s: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.after_s = after_s

    def final(self, tries: int) -> EmbeddingError | ProviderTimeoutError:
        e = self.error
        return type(e)(f"{e.message} (tried {tries} times)", hint=e.hint, tries=tries, **e.context)


def _seconds(value: str | None) -> float:
    """A Retry-After in seconds; a date or nonsense counts as none."""
    try:
        seconds = float(value or 0)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _ollama_host(value: str) -> str:
    """OLLAMA_HOST as a client reads it: host, host:port or an address; 0.0.0.0 is the server's word for this machine."""
    if not value:
        return "http://127.0.0.1:11434"
    if "://" not in value:
        value = "http://" + value
    parts = urllib.parse.urlsplit(value)
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0", "::") else str(parts.hostname)  # noqa: S104
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or (443 if parts.scheme == 'https' else 11434)}{parts.path}"


def _check_url(base_url: str, *, has_key: bool, allow_http: bool) -> tuple[str, str]:
    """The address without its trailing slash, and its host (and port) for messages."""
    try:
        parts = urllib.parse.urlsplit(base_url)
        port = parts.port
    except ValueError as e:
        raise InvalidArgumentError(f"base_url is not an address: {e}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError(
            f"base_url has scheme {parts.scheme!r} and host {parts.hostname!r}",
            hint="wanted http(s)://host[:port]/path",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidArgumentError(
            "base_url holds a user, a password, a query or a fragment", hint="pass a key as api_key"
        )
    if parts.scheme == "http" and has_key and parts.hostname not in _LOCAL and not allow_http:
        raise InvalidArgumentError(
            f"an API key would go unencrypted to {parts.hostname}", hint="use https, or pass allow_http=True"
        )
    return base_url.rstrip("/"), parts.hostname if port is None else f"{parts.hostname}:{port}"
