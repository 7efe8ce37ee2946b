"""HTTP embedders against real servers on this machine."""

from __future__ import annotations

import json
import socket
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from kektordb.embed import HashEmbedder, LongTextWarning, OllamaEmbedder, OpenAIEmbedder, http, is_embedder
from kektordb.errors import (
    DimensionMismatchError,
    EmbeddingError,
    InvalidArgumentError,
    LimitExceededError,
    ProviderTimeoutError,
)

KEY = "sk-test-0123456789"
FAKE = HashEmbedder(16)

Answer = tuple[int, dict[str, str], bytes]


def openai_answer(body: Any) -> Any:
    rows = FAKE.embed(body["input"])
    data = [{"index": i, "embedding": [float(x) for x in row]} for i, row in enumerate(rows)]
    return {"data": data[::-1]}  # out of order on purpose: the index counts


def ollama_answer(body: Any) -> Any:
    return {"embeddings": [[float(x) for x in row] for row in FAKE.embed(body["input"])]}


@dataclass
class Server:
    """A server whose answers a test scripts: first the queued ones, then the right one."""

    url: str = ""
    right: Callable[[Any], Any] = openai_answer
    queued: list[Answer | None] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.seen.append((self.path, dict(self.headers), body))
            answer = state.queued.pop(0) if state.queued else (200, {}, json.dumps(state.right(body)).encode())
            if answer is None:  # no answer at all
                state.let_go.wait(20)
                return
            status, headers, raw = answer
            self.send_response(status)
            for k, v in headers.items():
                self.send_header(k, v)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    yield state
    state.let_go.set()
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def openai(server: Server, waits: list[float]) -> OpenAIEmbedder:
    return OpenAIEmbedder("small", base_url=server.url, api_key=KEY, batch_size=3, tries=3, sleep=waits.append)


def test_openai_rows_come_in_the_order_of_the_texts_over_several_batches(
    server: Server, openai: OpenAIEmbedder
) -> None:
    texts = [f"text number {i}" for i in range(8)]
    np.testing.assert_allclose(openai.embed(texts), FAKE.embed(texts), atol=1e-6)
    assert [len(body["input"]) for _, _, body in server.seen] == [3, 3, 2]
    path, headers, body = server.seen[0]
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["model"] == "small"
    assert is_embedder(openai)
    assert openai.name == "openai:small"
    assert openai.fingerprint().to_json()["dim"] == 16


def test_ollama_is_asked_not_to_cut_and_needs_no_key(server: Server) -> None:
    server.right = ollama_answer
    ollama = OllamaEmbedder(
        "nomic", base_url=server.url.removesuffix("/v1"), document_prefix="doc: ", query_prefix="q: "
    )
    np.testing.assert_allclose(ollama.embed(["red"]), FAKE.embed(["doc: red"]), atol=1e-6)
    np.testing.assert_allclose(ollama.embed(["red"], kind="query"), FAKE.embed(["q: red"]), atol=1e-6)
    path, headers, body = server.seen[0]
    assert path == "/api/embed"
    assert "Authorization" not in headers
    assert body["truncate"] is False
    assert ollama.dim == 16
    assert len(server.seen) == 3, "the dimension is asked for once, and only because nobody gave it"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box:1234", "http://box:1234"),
        ("https://box", "https://box:443"),
        ("http://box:8080/x", "http://box:8080/x"),
        ("[::1]:9", "http://[::1]:9"),
    ],
)
def test_ollama_host_is_read_as_its_own_client_reads_it(value: str, url: str) -> None:
    assert http._ollama_host(value) == url


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_busy_server_is_asked_again_after_growing_waits(
    server: Server, openai: OpenAIEmbedder, waits: list[float], status: int
) -> None:
    server.queued = [(status, {}, b"busy"), (status, {}, b"busy")]
    assert openai.embed(["x"]).shape == (1, 16)
    assert len(server.seen) == 3
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


def test_retry_after_is_obeyed_up_to_the_bound(server: Server, openai: OpenAIEmbedder, waits: list[float]) -> None:
    server.queued = [(429, {"Retry-After": "7"}, b""), (429, {"Retry-After": "86400"}, b"")]
    openai.embed(["x"])
    assert waits == [7.0, http.MAX_WAIT_S]


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2015 07:28:00 GMT", "nan", "-5", "inf"])
def test_a_retry_after_that_is_no_number_of_seconds_counts_as_none(value: str) -> None:
    assert http._seconds(value) == 0.0


def test_tries_are_counted_and_the_last_error_is_told(
    server: Server, openai: OpenAIEmbedder, waits: list[float]
) -> None:
    server.queued = [(503, {}, b"overloaded")] * 3
    with pytest.raises(EmbeddingError, match=r"HTTP 503: overloaded \(tried 3 times\)") as e:
        openai.embed(["x"])
    assert e.value.context["status"] == 503
    assert len(server.seen) == 3
    assert len(waits) == 2


@pytest.mark.parametrize(("status", "hint"), [(400, "max_tokens"), (401, "key"), (404, "small")])
def test_a_refusal_is_not_tried_again(server: Server, openai: OpenAIEmbedder, status: int, hint: str) -> None:
    server.queued = [(status, {}, b'{"error": "no"}')]
    with pytest.raises(EmbeddingError, match=f"HTTP {status}") as e:
        openai.embed(["x"])
    assert hint in e.value.hint
    assert len(server.seen) == 1


def test_the_key_stands_in_no_message_and_no_traceback(server: Server, openai: OpenAIEmbedder) -> None:
    server.queued = [(401, {}, f"Incorrect API key provided: {KEY}.".encode())]
    with pytest.raises(EmbeddingError, match=r"provided: \*\*\*") as e:
        openai.embed(["x"])
    assert KEY not in "".join(traceback.format_exception(e.value))
    assert KEY not in repr(openai)
    assert KEY not in repr(e.value.context)
    assert server.seen[0][1]["Authorization"].endswith(KEY), "positive control: the key was sent"


def test_a_redirect_is_refused_so_that_the_key_stays_with_its_host(server: Server, openai: OpenAIEmbedder) -> None:
    for status in (301, 302, 307, 308):
        server.queued = [(status, {"Location": server.url + "/elsewhere"}, b"")]
        with pytest.raises(EmbeddingError, match="redirect"):
            openai.embed(["x"])
    assert all(path == "/v1/embeddings" for path, _, _ in server.seen)


def test_a_silent_server_ends_in_a_timeout(server: Server, waits: list[float]) -> None:
    server.queued = [None, None]
    slow = OpenAIEmbedder("small", base_url=server.url, api_key=KEY, timeout_s=0.2, tries=2, sleep=waits.append)
    with pytest.raises(ProviderTimeoutError, match=r"did not answer in 0.2 s \(tried 2 times\)"):
        slow.embed(["x"])
    server.let_go.set()
    assert slow.embed(["x"]).shape == (1, 16)


def test_a_server_that_is_not_there_is_an_embedding_error(server: Server, waits: list[float]) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    gone = OllamaEmbedder("m", base_url=f"http://127.0.0.1:{port}", tries=2, sleep=waits.append)
    with pytest.raises(EmbeddingError, match="cannot be reached") as e:
        gone.embed(["x"])
    assert f"127.0.0.1:{port}" in str(e.value)


def test_an_answer_that_breaks_off_is_tried_again(server: Server, openai: OpenAIEmbedder) -> None:
    server.queued = [(200, {"Content-Length": "1000"}, b"{")]
    assert openai.embed(["x"]).shape == (1, 16)
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>proxy</html>", "not JSON"),
        (b"[]", "unknown form"),
        (b'{"data": []}', "shape"),
        (b'{"data": [{"index": 5, "embedding": [1.0, 0.0]}]}', "unknown form"),
        (b'{"data": [{"index": 0, "embedding": "AAAA"}]}', "unknown form|shape"),
        (b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}', "not finite"),
        (b'{"data": [{"index": 0, "embedding": [0.0, 0.0]}]}', "zero"),
        (b'{"data": [{"index": 0, "embedding": [1e999, 0.0]}]}', "not finite"),
        (b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}', "shape"),
    ],
)
def test_a_wrong_answer_is_refused_and_told(
    server: Server, openai: OpenAIEmbedder, answer: bytes, message: str
) -> None:
    server.queued = [(200, {}, answer)]
    with pytest.raises(EmbeddingError, match=message):
        openai.embed(["x"])


def test_an_answer_past_the_bound_is_not_read(
    server: Server, openai: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_RESPONSE_BYTES", 100)
    with pytest.raises(EmbeddingError, match="more than 100 bytes"):
        openai.embed(["x"])


def test_another_dimension_than_the_stated_one_is_refused(server: Server) -> None:
    wrong = OpenAIEmbedder("small", base_url=server.url, api_key=KEY, dim=1536)
    assert wrong.dim == 1536
    assert server.seen == []
    with pytest.raises(DimensionMismatchError, match="16 dimensions, wanted 1536"):
        wrong.embed(["x"])


def test_dimensions_asks_the_server_for_short_vectors(server: Server) -> None:
    short = OpenAIEmbedder("small", base_url=server.url, api_key=KEY, dim=16, dimensions=True)
    short.embed(["x"])
    assert server.seen[0][2]["dimensions"] == 16
    with pytest.raises(InvalidArgumentError, match="needs dim"):
        OpenAIEmbedder("small", base_url=server.url, dimensions=True)


def test_odd_texts_reach_the_server_as_valid_json_and_never_empty(server: Server, openai: OpenAIEmbedder) -> None:
    openai.embed(["", "a\x00b", "\ud800", "🎉"])
    sent = [t for _, _, body in server.seen for t in body["input"]]
    assert sent == [" ", "a b", "\ufffd", "🎉"]


def test_long_texts_are_chunked_cut_or_refused_but_never_silently(server: Server) -> None:
    def make(long: str) -> OpenAIEmbedder:
        return OpenAIEmbedder("small", base_url=server.url, api_key=KEY, max_tokens=64, long=long)

    text = "word " * 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make("chunk").embed([text, "short"]).shape == (2, 16)
    sent = server.seen[-1][2]["input"]
    assert len(sent) > 6
    assert all(len(s) <= 192 for s in sent)
    with pytest.warns(LongTextWarning, match="1 of 2 texts are longer than 192 characters and were cut"):
        make("cut").embed([text, "short"])
    with pytest.warns(LongTextWarning, match="sampled evenly"):
        make("chunk").embed(["word " * 20_000])
    with pytest.raises(LimitExceededError, match=r"texts\[1\] has 1000 characters"):
        make("error").embed(["short", text])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host/v1", "scheme 'ftp'"),
        ("host/v1", "scheme ''"),
        ("https://", "host None"),
        ("https://user:secret@host/v1", "holds a user"),
        ("https://host/v1?key=secret", "a query"),
        ("http://host:99999999/v1", "not an address"),
        ("http://example.com/v1", "unencrypted to example.com"),
    ],
)
def test_an_address_that_is_wrong_or_would_leak_the_key_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as e:
        OpenAIEmbedder("small", base_url=url, api_key=KEY)
    assert "secret" not in str(e.value)
    assert KEY not in str(e.value)


def test_plain_http_is_allowed_to_this_machine_without_a_key_or_on_demand() -> None:
    OpenAIEmbedder("small", base_url="http://localhost:1/v1", api_key=KEY)
    OpenAIEmbedder("small", base_url="http://box.lan/v1", api_key="")
    OpenAIEmbedder("small", base_url="http://box.lan/v1", api_key=KEY, allow_http=True)


def test_key_and_address_come_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    OpenAIEmbedder("small").embed(["x"])
    assert server.seen[0][1]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["with space", "tab\t", "line\nbreak", "ключ"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="API key") as e:
        OpenAIEmbedder("small", api_key=key)
    assert key not in str(e.value)


@pytest.mark.parametrize(
    "wrong", [{"dim": 0}, {"batch_size": 0}, {"timeout_s": 0}, {"tries": 0}, {"max_tokens": 1}, {"long": "drop"}]
)
def test_options_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        OpenAIEmbedder("small", api_key=KEY, **wrong)


def test_an_unknown_kind_is_refused(server: Server, openai: OpenAIEmbedder) -> None:
    with pytest.raises(InvalidArgumentError, match="kind is 'passage'"):
        openai.embed(["x"], kind="passage")  # type: ignore[arg-type]
