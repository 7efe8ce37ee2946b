"""The offline model, the real one: no part is replaced here."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kektordb.embed import LongTextWarning, MiniLMEmbedder, is_embedder, onnx
from kektordb.errors import EmbeddingError, InvalidArgumentError, LimitExceededError

WORDS = "river stone house music letter dog bright ocean table winter forest paper friend garden Rome snow".split()


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder(threads=2)


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def test_known_pairs_have_the_published_likeness(minilm: MiniLMEmbedder) -> None:
    # values of sentence-transformers for the float32 model, from its documentation
    a = minilm.embed(["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."])
    assert a[0] @ a[1] == pytest.approx(0.6660, abs=0.02)
    assert a[0] @ a[2] == pytest.approx(0.1046, abs=0.02)
    assert a[1] @ a[2] == pytest.approx(0.1411, abs=0.02)


def test_a_paraphrase_is_nearer_than_a_text_that_shares_more_words(minilm: MiniLMEmbedder) -> None:
    q, paraphrase, decoy = minilm.embed(
        ["Where does Ann live?", "Ann's home is in Milan", "Where does the bus leave from?"], kind="query"
    )
    assert q @ paraphrase > q @ decoy


def test_rows_are_unit_float32_in_the_order_of_the_texts(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    texts = [sentence(rng, rng.randint(1, 60)) for _ in range(40)]
    rows = minilm.embed(texts)
    assert rows.shape == (40, 384)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    order = list(range(40))
    rng.shuffle(order)
    np.testing.assert_allclose(minilm.embed([texts[i] for i in order]), rows[order], atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_any_batch(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    texts = [sentence(rng, rng.choice([1, 3, 10, 30, 120, 400])) for _ in range(60)] + [""]
    together = minilm.embed(texts)
    alone = np.vstack([minilm.embed([t]) for t in texts])
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_the_number_of_threads_does_not_change_the_vector(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    texts = [sentence(rng, n) for n in (2, 20, 100)]
    np.testing.assert_allclose(MiniLMEmbedder(threads=1).embed(texts), minilm.embed(texts), atol=1e-5)


@pytest.mark.parametrize(
    "odd", ["", " ", "\x00", "\ud800", "a\x00b \udfff c", "🎉" * 50, "漢字" * 20, "\t\n", "x" * 5000]
)
def test_odd_texts_have_a_finite_unit_vector(minilm: MiniLMEmbedder, odd: str) -> None:
    rows = minilm.embed([odd, "plain"])
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(minilm: MiniLMEmbedder) -> None:
    assert minilm.embed([]).shape == (0, 384)


def test_a_long_text_is_read_to_its_end(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    filler = sentence(rng, 900)
    plain, ends, other = minilm.embed(
        [filler, filler + " The submarine surfaced near Iceland." * 20, "submarine Iceland"]
    )
    assert ends @ other > plain @ other + 0.05


def test_a_long_text_that_is_chunked_whole_gives_no_warning(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minilm.embed([sentence(rng, 2000)])


def test_cut_reads_the_first_window_and_warns_once_a_call(rng: random.Random) -> None:
    cutter = MiniLMEmbedder(long="cut", threads=2)
    text = sentence(rng, 600)
    with pytest.warns(LongTextWarning, match="2 of 3 texts") as seen:
        rows = cutter.embed([text, "short", text])
    assert len(seen) == 1
    assert seen[0].filename == __file__
    # each word of WORDS is one token, so the window is known
    head = " ".join(text.split()[:254])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(cutter.embed([head])[0], rows[0], atol=1e-5)


def test_error_refuses_a_long_text_and_names_it(rng: random.Random) -> None:
    strict = MiniLMEmbedder(long="error", threads=2)
    assert strict.embed([sentence(rng, 254)]).shape == (1, 384)
    with pytest.raises(LimitExceededError, match=r"texts\[1\] has 255 tokens"):
        strict.embed(["short", sentence(rng, 255)])


def test_a_text_of_too_many_windows_is_reported_before_it_is_huge(rng: random.Random) -> None:
    few = MiniLMEmbedder(max_windows=2, threads=2)
    with pytest.warns(LongTextWarning, match="1 of 2 texts are longer than 2 windows"):
        few.embed([sentence(rng, 700), sentence(rng, 300)])


def test_ten_megabytes_are_sampled_evenly_with_a_warning(minilm: MiniLMEmbedder) -> None:
    text = "alpha beta gamma " * 600_000
    with pytest.warns(LongTextWarning, match="sampled evenly"):
        rows = minilm.embed([text])
    assert np.linalg.norm(rows[0]) == pytest.approx(1, abs=1e-5)
    with pytest.warns(LongTextWarning):
        minilm.embed(["x" * 10_000_000])


def test_tokenising_in_segments_changes_nothing(
    minilm: MiniLMEmbedder, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sentence(rng, 500)
    whole = minilm.count_tokens(text)
    row = minilm.embed([text])
    monkeypatch.setattr(onnx, "SEGMENT_CHARS", 97)
    assert minilm.count_tokens(text) == whole
    np.testing.assert_array_equal(minilm.embed([text]), row)


def test_threads_may_share_one_embedder(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    texts = [[sentence(rng, rng.randint(1, 30)) for _ in range(5)] for _ in range(16)]
    want = [minilm.embed(t) for t in texts]
    with ThreadPoolExecutor(8) as pool:
        for got, expected in zip(pool.map(minilm.embed, texts), want, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-5)


def test_two_embedders_of_a_process_share_one_loaded_model() -> None:
    one, two = MiniLMEmbedder(threads=2), MiniLMEmbedder(threads=2)
    assert one._model() is two._model()
    assert one._model() is not MiniLMEmbedder(threads=1)._model()


def test_first_calls_from_many_threads_load_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "_loaded", {})
    opened: list[int] = []
    real = onnx._open

    def open_counted(model: Path, tokenizer: Path, threads: int) -> onnx._Loaded:
        opened.append(threads)
        return real(model, tokenizer, threads)

    monkeypatch.setattr(onnx, "_open", open_counted)
    start = threading.Barrier(4)

    def first() -> None:
        start.wait()
        MiniLMEmbedder(threads=1).embed(["x"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: first(), range(4)))
    assert len(opened) == 1


def test_the_fingerprint_is_the_same_for_a_copy_of_the_files_and_another_for_other_files(tmp_path: Path) -> None:
    packaged = MiniLMEmbedder()
    copy = tmp_path / "copy"
    shutil.copytree(onnx.PACKAGED_DIR, copy)
    same = MiniLMEmbedder(copy)
    assert same.fingerprint().digest == packaged.fingerprint().digest
    assert packaged.fingerprint().differences(same.fingerprint()) == []
    assert packaged.fingerprint().to_json()["dim"] == 384
    tokenizer = copy / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    assert packaged.fingerprint().differences(MiniLMEmbedder(copy).fingerprint()) == ["digest"]


def test_the_recorded_digests_are_those_of_the_files() -> None:
    recorded = onnx._manifest()
    assert set(recorded) == {"model.onnx", "tokenizer.json"}
    import hashlib

    for file, digest in recorded.items():
        assert hashlib.sha256((onnx.PACKAGED_DIR / file).read_bytes()).hexdigest() == digest


def test_the_environment_may_point_at_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested = tmp_path / "onnx"
    nested.mkdir()
    shutil.copy(onnx.PACKAGED_DIR / "model.onnx", nested)
    shutil.copy(onnx.PACKAGED_DIR / "tokenizer.json", tmp_path)
    monkeypatch.setenv(onnx.MODEL_DIR_VARIABLE, str(tmp_path))
    other = MiniLMEmbedder(threads=2)
    assert other.name == f"onnx:{tmp_path}"
    assert other.dim == 384
    assert other.embed(["x"]).shape == (1, 384)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no embedding model in") as e:
        MiniLMEmbedder(tmp_path)
    assert str(tmp_path) in str(e.value)
    assert onnx.MODEL_DIR_VARIABLE in e.value.hint


def test_a_damaged_model_file_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    shutil.copy(onnx.PACKAGED_DIR / "tokenizer.json", tmp_path)
    (tmp_path / "model.onnx").write_bytes((onnx.PACKAGED_DIR / "model.onnx").read_bytes()[:100_000])
    with pytest.raises(EmbeddingError, match="cannot load"):
        MiniLMEmbedder(tmp_path).embed(["x"])


@pytest.mark.parametrize(
    "wrong",
    [{"threads": -1}, {"threads": 1025}, {"max_tokens": 4}, {"max_tokens": 513}, {"overlap": 200}, {"long": "drop"}],
)
def test_options_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        MiniLMEmbedder(**wrong)  # type: ignore[arg-type]


def test_it_is_an_embedder(minilm: MiniLMEmbedder) -> None:
    assert is_embedder(minilm)
    assert minilm.name == "minilm"


def test_a_forked_child_embeds_too() -> None:
    # in a process of its own: this one has threads that a fork would not carry
    code = """
import os, sys
from kektordb.embed import MiniLMEmbedder, onnx
e = MiniLMEmbedder(threads=2)
texts = ["a river, a stone, a house and a fork in the road " * 4] * 32  # enough work for every thread of the session
want = e.embed(texts).tobytes()
pid = os.fork()
if pid == 0:
    # the parent's session would run here too, on threads that are not there
    os._exit(0 if not onnx._loaded and e.embed(texts).tobytes() == want else 9)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=120, env=os.environ, check=False)
    assert done.returncode == 0


def test_importing_the_package_loads_neither_library() -> None:
    code = "import sys, kektordb.embed; print([m for m in ('onnxruntime', 'tokenizers', 'ssl') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "onnxruntime" not in done.stdout
    assert "tokenizers" not in done.stdout
