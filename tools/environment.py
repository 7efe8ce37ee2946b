"""The local environment: .venv with the pinned tools, and in it the built wheel (never the source tree).

Each step leaves a stamp, the hash of all that it depends on, and is skipped while the stamp holds.
usage: tools/bootstrap.sh tools|wheel   (bootstrap.sh checks the machine first)
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
DIST = ROOT / "dist"
LOCK = ROOT / "tools" / "requirements.lock"
SOURCES = ("rust", "native", "python")
FILES = (
    *("Cargo.toml", "Cargo.lock", "pyproject.toml", "rust-toolchain.toml", "README.md", "LICENSE", "NOTICE"),
    *("tools/build_backend.py", "tools/fetch_model.py"),
)
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")


class StepError(RuntimeError):
    """A step failed; the message says what a person can do."""


def run(*command: str | Path, failed: str) -> None:
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", ""), str(Path.home() / ".cargo" / "bin")]),
        "VIRTUAL_ENV": str(VENV),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    # what would send the build's output elsewhere or the tools to another Python
    for name in ("PYTHONPATH", "PYTHONHOME", "CARGO_BUILD_TARGET_DIR"):
        env.pop(name, None)
    if subprocess.run([str(c) for c in command], cwd=ROOT, env=env, check=False).returncode:
        raise StepError(failed)


def holds(stamp: Path, value: str) -> bool:
    return stamp.is_file() and stamp.read_text(encoding="ascii") == value


def tools() -> None:
    """The virtual environment with every tool and dependency at the version of the lock, hashes checked."""
    value = hashlib.sha256(b"\0".join([LOCK.read_bytes(), sys.version.encode(), str(ROOT).encode()])).hexdigest()
    stamp = VENV / ".stamp-tools"
    if holds(stamp, value) and PYTHON.exists():
        return
    said = time.monotonic()
    print(f"making {VENV.relative_to(ROOT)} with Python {sys.version.split()[0]} and the pinned tools", flush=True)
    venv.create(VENV, clear=True, with_pip=True, symlinks=os.name != "nt")
    run(
        *(PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary=:all:", "-r", LOCK),
        failed="pip could not install the pinned tools. Missing: a Python package registry that can be reached? "
        "Name yours with: python3 -m pip config set global.index-url URL (or set PIP_INDEX_URL, and HTTPS_PROXY behind "
        "a proxy)",
    )
    stamp.write_text(value, encoding="ascii")
    print(f"tools ready in {time.monotonic() - said:.0f} s", flush=True)


def _files() -> Iterator[Path]:
    for name in FILES:
        if (ROOT / name).is_file():
            yield ROOT / name
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".so", ".pyd", ".pyc"}:
                yield path


def _source_hash() -> str:
    h = hashlib.sha256(sys.version.encode())
    for path in _files():
        h.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        h.update(path.read_bytes())
    return h.hexdigest()


def wheel() -> None:
    """The release wheel in dist/, installed into .venv."""
    tools()
    # before the hash, which covers the model's files
    run(PYTHON, "tools/fetch_model.py", "--quiet", failed="the embedding model could not be fetched (see above)")
    value = _source_hash()
    stamp = VENV / ".stamp-wheel"
    if holds(stamp, value) and list(DIST.glob("kektordb-*.whl")):
        return
    stamp.unlink(missing_ok=True)
    said = time.monotonic()
    print("building the wheel (release profile)", flush=True)
    for old in DIST.glob("kektordb-*.whl"):
        old.unlink()
    run(
        *(PYTHON, "-m", "pip", "wheel", "--verbose", "--no-build-isolation", "--no-deps", "--wheel-dir", DIST, "."),
        failed="the wheel could not be built (see above). If cargo could not fetch crates: is a Rust package registry "
        "reachable (CARGO_HTTP_PROXY, or a [source] replacement in ~/.cargo/config.toml)? Or run: cargo fetch",
    )
    built = list(DIST.glob("kektordb-*.whl"))
    if len(built) != 1:
        raise StepError(f"one wheel was wanted in {DIST}, found {[w.name for w in built]}")
    run(
        *(PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", built[0]),
        failed="the built wheel does not install",
    )
    run(PYTHON, "-m", "pip", "check", "--quiet", failed="the wheel's requirements and tools/requirements.lock differ")
    stamp.write_text(value, encoding="ascii")
    print(f"{built[0].name} built and installed in {time.monotonic() - said:.0f} s", flush=True)


def main() -> int:
    steps = {"tools": tools, "wheel": wheel}
    parser = argparse.ArgumentParser(description="Make the local environment.")
    parser.add_argument("steps", nargs="+", choices=steps)
    try:
        for step in parser.parse_args().steps:
            steps[step]()
    except StepError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"error: {e.strerror}: {e.filename}", file=sys.stderr)
        if shutil.disk_usage(ROOT).free < 2**30:
            print("less than 1 GiB is free on this disk; the build needs about 4 GiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
