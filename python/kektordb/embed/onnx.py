"""MiniLM on the CPU through onnxruntime and tokenizers, offline.

Promises: a text gives the same vector alone and in any batch (within 1e-5 an entry: the weights are 8 bits, the
arithmetic is float32, and a batch is padded as little as sorting by length allows); no more than `threads` cores are
busy, however many threads call; a long text is read in overlapping windows, and what is not read is reported.
Cost: about 0.3 s and 170 MB at the first call of the process, then about 8 ms of one core per 25 tokens.
Both libraries are imported at the first call. No network, no telemetry.
Model: all-MiniLM-L6-v2 (Reimers and Gurevych, 2019; Wang et al., 2020), see NOTICE.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from kektordb.errors import EmbeddingError, InvalidArgumentError

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

MODEL_DIR_VARIABLE = "KEKTORDB_MODEL_DIR"
PACKAGED_DIR = Path(__file__).parent / "model"
MODEL_TOKENS = 256
"""Word pieces, the two marks included, that all-MiniLM-L6-v2 was trained to read."""
OVERLAP_TOKENS = 32
MAX_WINDOWS = 32
"""Windows read of one text: 7,000 tokens whole; of a longer text, windows evenly spaced."""
BATCH_TOKENS = 2048
"""Tokens, padding included, in one run: bounds memory at about 30 MB and keeps the cores full."""
SEGMENT_CHARS = 32_768
"""A text is tokenised in segments of this size, so that a huge one needs no huge encoding."""
CHARS_PER_TOKEN_MAX = 16
"""Past MAX_WINDOWS x this many characters a token, excerpts are tokenised instead of the whole text."""
MAX_THREADS = 1_024


class _Text(NamedTuple):
    """Token ids of the windows of one text, without marks, and whether some of it was left out."""

    windows: list[list[int]]
    lost: bool


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def find_model(model_dir: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """The model file and the tokenizer file: the argument, then KEKTORDB_MODEL_DIR, then the package."""
    given = model_dir if model_dir is not None else os.environ.get(MODEL_DIR_VARIABLE) or None
    folder = Path(given) if given is not None else PACKAGED_DIR
    tokenizer = folder / "tokenizer.json"
    for model in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
        if model.is_file() and tokenizer.is_file():
            return model, tokenizer
    raise EmbeddingError(
        f"no embedding model in {folder}: wanted model.onnx and tokenizer.json",
        hint=f"point {MODEL_DIR_VARIABLE} or model_dir at a folder that has both"
        if given is not None
        else f"this installation lacks the packaged model: reinstall the wheel, in a source tree run "
        f"tools/fetch_model.py, or set {MODEL_DIR_VARIABLE}",
        folder=str(folder),
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """One session of a process, shared by all embedders of the same files and thread count."""

    session: onnxruntime.InferenceSession
    tokenizer: tokenizers.Tokenizer
    inputs: frozenset[str]
    output: str
    pooled: bool
    dim: int
    first: list[int]
    last: list[int]
    pad: int
    turn: threading.Lock
    """Held during a run: the session's own threads are all the parallelism there is."""


_loaded: dict[tuple[Path, Path, int], _Loaded] = {}
_digests: dict[tuple[Path, int, int], str] = {}
_door = threading.Lock()


def _after_fork() -> None:
    # A session's threads do not live on in a forked child: it loads its own, and must never run the destructor of the
    # parent's, which waits for them. So the parent's objects get a reference that nobody gives back.
    global _door, _loaded
    _door = threading.Lock()
    if _loaded:
        import ctypes

        for parents in _loaded.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))
        _loaded = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _load(model: Path, tokenizer: Path, threads: int) -> _Loaded:
    key = (model, tokenizer, threads)
    with _door:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = _open(model, tokenizer, threads)
        return found


def _open(model: Path, tokenizer_file: Path, threads: int) -> _Loaded:
    try:
        import onnxruntime as ort
        from tokenizers import Tokenizer
    except ImportError as e:
        raise EmbeddingError(
            f"the offline embedder needs onnxruntime and tokenizers: {e}", hint="pip install onnxruntime tokenizers"
        ) from e
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # plans of memory are kept per shape, and shapes vary with every batch: 120 MB for no speed
    options.enable_mem_pattern = False
    # threads that wait sleep instead of spinning: an agent's process is idle most of the time
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        ort.disable_telemetry_events()
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        tok = Tokenizer.from_file(str(tokenizer_file))
    except Exception as e:  # both libraries raise bare or private classes
        raise EmbeddingError(
            f"cannot load the embedding model {model}: {e}", hint="the file may be damaged or of another format"
        ) from e
    tok.no_truncation()
    tok.no_padding()
    inputs = frozenset(i.name for i in session.get_inputs())
    unknown = inputs - {"input_ids", "attention_mask", "token_type_ids"}
    output = session.get_outputs()[0]
    shape = output.shape
    if unknown or "input_ids" not in inputs or len(shape) not in (2, 3) or not isinstance(shape[-1], int):
        raise EmbeddingError(
            f"{model} is not a sentence encoder: inputs {sorted(inputs)}, output {output.name} {shape}",
            hint="wanted input_ids, attention_mask, token_type_ids and an output (batch, tokens, dim) or (batch, dim)",
        )
    marks: list[int] = tok.encode("").ids
    middle = len(marks) // 2
    pad = tok.token_to_id("[PAD]")
    return _Loaded(
        session,
        tok,
        inputs,
        output.name,
        len(shape) == 2,
        shape[-1],
        marks[:middle],
        marks[middle:],
        0 if pad is None else pad,
        threading.Lock(),
    )


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 from the package, or another ONNX sentence encoder from `model_dir`.

    `long`: "chunk" gives the mean of overlapping windows (a text past MAX_WINDOWS is sampled evenly, with a
    LongTextWarning), "cut" reads the first window (with a warning), "error" refuses.
    `threads`: cores used at most; 0 = all that this process may use, 4 at most.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        *,
        threads: int = 0,
        max_tokens: int = MODEL_TOKENS,
        overlap: int = OVERLAP_TOKENS,
        max_windows: int = MAX_WINDOWS,
        long: str = "chunk",
    ) -> None:
        if not 0 <= threads <= MAX_THREADS:
            raise InvalidArgumentError(f"threads is {threads}, wanted 0 (automatic) to {MAX_THREADS}")
        if not 8 <= max_tokens <= 512:
            raise InvalidArgumentError(f"max_tokens is {max_tokens}, wanted 8 to 512")
        if not 0 <= overlap <= max_tokens // 2:
            raise InvalidArgumentError(f"overlap is {overlap}, wanted 0 to half of max_tokens ({max_tokens // 2})")
        if max_windows < 1:
            raise InvalidArgumentError(f"max_windows is {max_windows}, wanted 1 or more")
        self._files = find_model(model_dir)
        self._threads = threads or max(1, min(4, _cores()))
        self._max_tokens = max_tokens
        self._overlap = overlap
        self._max_windows = max_windows
        self._long = check_long(long)
        self._packaged = self._files[0].parent == PACKAGED_DIR

    @property
    def name(self) -> str:
        return "minilm" if self._packaged else f"onnx:{self._files[1].parent}"

    @property
    def dim(self) -> int:
        return 384 if self._packaged else self._model().dim

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def recipe(self) -> str:
        """How long texts are read; part of a cache's key."""
        return f"{self._long} {self._overlap} {self._max_windows}"

    def fingerprint(self) -> Fingerprint:
        """The digest covers the model and the tokenizer; the first call for files outside the package reads them."""
        digest = "sha256:" + hashlib.sha256("".join(_file_digest(f) for f in self._files).encode()).hexdigest()
        model = "all-MiniLM-L6-v2" if self._packaged else self._files[0].parent.name
        return Fingerprint("onnx", model, self.dim, True, digest)

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> Vectors:
        clean = check_texts(texts)
        if not clean:
            return np.zeros((0, self.dim), dtype=np.float32)
        model = self._model()
        pieces: list[list[int]] = []
        owners: list[int] = []
        lost = 0
        for i, text in enumerate(clean):
            read = self._read(model, text, i)
            pieces += read.windows
            owners += [i] * len(read.windows)
            lost += read.lost
        what = f"are longer than the model's {self._max_tokens} tokens and were cut"
        if self._long == "chunk":
            what = f"are longer than {self._max_windows} windows of {self._max_tokens} tokens and were sampled evenly"
        report_loss(lost, len(clean), what=what)
        rows = unit_rows(self._run(model, pieces), source=str(self._files[0]))
        return join_pieces(rows, owners, len(clean))

    def count_tokens(self, text: str) -> int:
        """Word pieces in `text`, without the two marks."""
        return len(self._tokens(self._model(), check_texts([text])[0]))

    def _model(self) -> _Loaded:
        return _load(*self._files, self._threads)

    def _read(self, model: _Loaded, text: str, i: int) -> _Text:
        size = self._max_tokens - len(model.first) - len(model.last)
        whole = self._max_windows * size * CHARS_PER_TOKEN_MAX
        if self._long == "cut":
            head = text[: size * CHARS_PER_TOKEN_MAX]
            tokens = self._tokens(model, head)
            return _Text([tokens[:size]], len(tokens) > size or len(head) < len(text))
        if self._long == "chunk" and len(text) > whole:
            spans = windows(len(text), size * CHARS_PER_TOKEN_MAX // 2, 0, self._max_windows)
            return _Text([self._tokens(model, text[a:b])[:size] for a, b in spans], True)
        tokens = self._tokens(model, text)
        if len(tokens) <= size:
            return _Text([tokens], False)
        if self._long == "error":
            raise too_long(i, len(tokens), size, "tokens")
        spans = windows(len(tokens), size, min(self._overlap, size // 2), self._max_windows)
        return _Text([tokens[a:b] for a, b in spans], covered(spans) < len(tokens))

    def _tokens(self, model: _Loaded, text: str) -> list[int]:
        # one text at a time: the tokenizer's own thread pool would take every core and does not survive a fork
        if len(text) <= SEGMENT_CHARS:
            ids: list[int] = model.tokenizer.encode(text, add_special_tokens=False).ids
            return ids
        out: list[int] = []
        start = 0
        while start < len(text):
            end = start + SEGMENT_CHARS
            if end < len(text):
                # words are tokenised one by one, so a cut at a space changes nothing
                space = text.rfind(" ", start + 1, end)
                end = space if space > start else end
            out += model.tokenizer.encode(text[start:end], add_special_tokens=False).ids
            start = end
        return out

    def _run(self, model: _Loaded, pieces: list[list[int]]) -> NDArray[np.float32]:
        """Raw pooled rows, one per piece, in the order given."""
        out = np.zeros((len(pieces), model.dim), dtype=np.float32)
        marks = len(model.first) + len(model.last)
        order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i]))
        at = 0
        while at < len(order):
            # the first of a batch is its longest, which sets the padding of all
            length = len(pieces[order[at]]) + marks
            batch = order[at : at + max(1, BATCH_TOKENS // length)]
            at += len(batch)
            ids = np.full((len(batch), length), model.pad, dtype=np.int64)
            mask = np.zeros((len(batch), length), dtype=np.int64)
            for row, i in enumerate(batch):
                tokens = model.first + pieces[i] + model.last
                ids[row, : len(tokens)] = tokens
                mask[row, : len(tokens)] = 1
            out[batch] = self._pool(model, ids, mask)
        return out

    def _pool(self, model: _Loaded, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            with model.turn:
                hidden = model.session.run([model.output], {k: v for k, v in feeds.items() if k in model.inputs})[0]
        except Exception as e:  # onnxruntime raises private classes
            raise EmbeddingError(f"the embedding model failed on a batch of {ids.shape}: {e}") from e
        if model.pooled:
            return np.asarray(hidden, dtype=np.float32)
        weights = mask.astype(np.float32)
        mean: NDArray[np.float32] = np.einsum("btd,bt->bd", hidden, weights) / weights.sum(axis=1, keepdims=True)
        return mean


def _file_digest(file: Path) -> str:
    """SHA-256 of a file: from the packaged manifest, which was checked at build time, or by reading it once."""
    if file.parent == PACKAGED_DIR:
        recorded = _manifest().get(file.name)
        if recorded is not None:
            return recorded
    at = file.stat()
    key = (file, at.st_size, at.st_mtime_ns)
    if key not in _digests:
        with file.open("rb") as f:
            _digests[key] = hashlib.file_digest(f, "sha256").hexdigest()
    return _digests[key]


def _manifest() -> dict[str, str]:
    try:
        value = json.loads((PACKAGED_DIR / "manifest.json").read_text(encoding="utf-8"))
        return {str(k): str(v) for k, v in value["sha256"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
