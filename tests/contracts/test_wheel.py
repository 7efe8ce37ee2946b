"""What the built wheel holds, and that it works alone: a clean environment, no source tree, the network cut."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_WHEEL_BYTES = 40 * 1024 * 1024


@pytest.fixture(scope="module")
def wheel() -> Path:
    if os.environ.get("KEKTORDB_TEST_INSTALLED") != "1":
        pytest.skip("needs the built wheel: run make test")
    [found] = (ROOT / "dist").glob("kektordb-*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as z:
        return z.namelist()


def test_the_wheel_serves_every_python_from_3_11_by_the_stable_abi(wheel: Path) -> None:
    assert re.fullmatch(r"kektordb-[\d.]+-cp311-abi3-\w+\.whl", wheel.name)


def test_the_wheel_holds_the_package_its_types_and_the_model(names: list[str]) -> None:
    for wanted in (
        "kektordb/__init__.py",
        "kektordb/py.typed",
        "kektordb/_core.pyi",
        "kektordb/embed/model/model.onnx",
        "kektordb/embed/model/tokenizer.json",
        "kektordb/embed/model/manifest.json",
    ):
        assert wanted in names
    assert any(re.fullmatch(r"kektordb/_core\.(abi3\.so|pyd)", n) for n in names)


def test_the_wheel_holds_every_python_file_of_the_package_and_nothing_else(names: list[str]) -> None:
    package = ROOT / "python" / "kektordb"
    source = {f"kektordb/{p.relative_to(package).as_posix()}" for p in package.rglob("*.py")}
    assert {n for n in names if n.endswith(".py")} == source
    allowed = re.compile(
        r"kektordb/(?:[\w/]+\.(?:pyi?|md|lark|json|jsonl|onnx)|py\.typed|_core\.(?:abi3\.so|pyd))"
        r"|kektordb-[\d.]+\.dist-info/[\w./-]+"
    )
    assert [n for n in names if not allowed.fullmatch(n)] == []
    assert [n for n in names if "test_" in n or "__pycache__" in n or "locomo" in n.lower()] == []


def test_licences_travel_with_the_wheel(wheel: Path, names: list[str]) -> None:
    with zipfile.ZipFile(wheel) as z:
        texts = {n.rsplit("/", 1)[1]: z.read(n) for n in names if ".dist-info/licenses/" in n}
        about = z.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
    assert texts["LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert texts["NOTICE"] == (ROOT / "NOTICE").read_bytes()
    assert "License-Expression: Apache-2.0" in about


def test_the_model_in_the_wheel_is_the_one_that_its_manifest_and_the_notice_name(wheel: Path) -> None:
    notice = (ROOT / "NOTICE").read_text()
    with zipfile.ZipFile(wheel) as z:
        manifest = json.loads(z.read("kektordb/embed/model/manifest.json"))
        assert set(manifest["sha256"]) == {"model.onnx", "tokenizer.json"}
        for file, digest in manifest["sha256"].items():
            assert hashlib.sha256(z.read(f"kektordb/embed/model/{file}")).hexdigest() == digest
            assert digest in notice


def test_the_wheel_is_small_enough_for_a_registry(wheel: Path) -> None:
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_the_command_is_installed() -> None:
    [command] = [e for e in metadata.entry_points(group="console_scripts") if e.name == "kektordb"]
    assert command.value == "kektordb.cli.app:main"
    assert callable(command.load())


def _closure(package: str) -> Iterator[metadata.Distribution]:
    """The distributions that an install of `package` brings on this platform, itself not included."""
    from packaging.requirements import Requirement

    seen, todo = {package}, [package]
    while todo:
        for line in metadata.requires(todo.pop()) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                name = re.sub(r"[-_.]+", "-", wanted.name).lower()
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
                    yield metadata.distribution(name)


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that holds the wheel and what it requires, and nothing else.

    The requirements are linked from the environment of the tests, so that no registry is asked.
    """
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    for dist in _closure("kektordb"):
        for top in {f.parts[0] for f in dist.files or [] if f.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(dist.locate_file(top))))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", str(wheel)], check=True
    )
    return python


def _cut() -> list[str] | None:
    """The command that runs another one without any network, where this system has one."""
    for command in (["unshare", "-n"], ["unshare", "-rn"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
        ):
            return command
    return None


def _run(python: Path, code: str, cwd: Path, *, prefix: list[str]) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "KEKTORDB", "VIRTUAL_ENV"))}
    env["HOME"] = str(cwd)
    return subprocess.run(
        [*prefix, str(python), "-I", "-c", code],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_wheel_installs_alone_and_remembers_with_the_network_cut(clean: Path, tmp_path: Path) -> None:
    cut = _cut()
    if cut is None:
        pytest.skip("THE NETWORK CANNOT BE CUT HERE (no unshare): offline use is not tested")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # positive control: reachable from outside, not from inside
        knock = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
        assert _run(clean, knock, tmp_path, prefix=[]).returncode == 0
        assert _run(clean, knock, tmp_path, prefix=cut).returncode != 0
    code = """
import kektordb, os, sys
from kektordb.embed import MiniLMEmbedder
assert kektordb.__file__.startswith(sys.prefix), kektordb.__file__
rows = MiniLMEmbedder().embed(["The weather is lovely today.", "It's so sunny outside!"])
assert rows.shape == (2, 384) and rows[0] @ rows[1] > 0.6
for _ in range(2):
    with kektordb.open("agent.kdb") as db:
        mem = db.memory("assistant")
        mem.save("Ann moved to Rome in May")
        mem.save("The bakery opens at seven")
        hits = list(mem.recall("where does Ann live?", k=1))
        assert "Rome" in hits[0].memory.text, hits
print("works offline")
"""
    done = _run(clean, code, tmp_path, prefix=cut)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "works offline\n"
    assert done.stderr == ""


def test_the_command_starts_in_the_clean_environment(clean: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [clean.parent / "kektordb", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "recall" in done.stdout


def test_the_demo_runs_in_the_clean_environment_with_the_network_cut(clean: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*(_cut() or []), clean.parent / "kektordb", "demo"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Porto" in done.stdout
    assert "Lisbon" in done.stdout
    assert list(tmp_path.glob("*.kdb")) == [], "the demo leaves nothing behind in the working directory"
