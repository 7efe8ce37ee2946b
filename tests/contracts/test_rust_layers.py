"""Rust modules import downwards only, and `unsafe` and pyo3 stay in their places: read from the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "rust" / "src"

LAYERS: tuple[set[str], ...] = (
    {"error", "ids", "limits"},
    {"io"},
    {"arena", "log"},
    {"flat", "quant", "props", "edges", "kv"},
    {"hnsw", "text"},
    {"view"},
    {"store", "vacuum"},
    {"py"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
UNSAFE = {"arena", "flat", "py", "io"}
"""`io` maps files into memory (`io/region.rs`); `flat` hands rows of an arena to the kernels."""


def modules() -> list[str]:
    return sorted({p.relative_to(SRC).parts[0].removesuffix(".rs") for p in SRC.rglob("*.rs")} - {"lib"})


def files(module: str) -> list[Path]:
    return [p for p in SRC.rglob("*.rs") if p.relative_to(SRC).parts[0].removesuffix(".rs") == module]


def code(path: Path) -> str:
    """A file without comments and strings, and without its tests: those may look at everything."""
    if path.stem == "tests":
        return ""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"', "", text)
    return text.split("#[cfg(test)]\nmod ", 1)[0]


def used(text: str) -> set[str]:
    """First names after `crate::`, in paths and in grouped imports."""
    names = set(re.findall(r"\bcrate::([a-z_]+)", text))
    for group in re.findall(r"\buse crate::\{(.*?)\};", text, flags=re.DOTALL):
        flat = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", group))
        names |= set(re.findall(r"(?:^|,)\s*([a-z_]+)", flat))
    return names


def test_the_reader_of_use_lines_sees_every_form() -> None:
    text = """
use crate::io::{disk, Storage};
use crate::{
    error::{Error, Result},
    view, ids::RowId,
};
fn f() -> crate::store::X {}
"""
    assert used(text) == {"io", "error", "view", "ids", "store"}


@pytest.mark.parametrize("module", modules())
def test_a_module_uses_only_what_is_below_it(module: str) -> None:
    assert module in LEVEL, f"give {module} a layer in this test and in ARCHITECTURE.md"
    for path in files(module):
        for other in used(code(path)) - {module}:
            if other in LEVEL:
                assert LEVEL[other] < LEVEL[module] or LEVEL[module] == 0 == LEVEL[other], (
                    f"{path.relative_to(ROOT)} uses crate::{other}, which is not below {module}"
                )


def test_only_py_names_pyo3() -> None:
    for path in SRC.rglob("*.rs"):
        if path.relative_to(SRC).parts[0] not in ("py", "py.rs", "lib.rs"):
            assert not re.search(r"\b(pyo3|numpy)\b", code(path)), path.relative_to(ROOT)


@pytest.mark.parametrize("module", modules())
def test_unsafe_has_its_place_and_its_reason(module: str) -> None:
    for path in files(module):
        text = path.read_text(encoding="utf-8")
        if re.search(r"\bunsafe\b", code(path)):
            assert module in UNSAFE, f"{path.relative_to(ROOT)} uses unsafe outside {sorted(UNSAFE)}"
            assert "SAFETY" in text, f"{path.relative_to(ROOT)} gives no reason for its unsafe code"


def test_only_io_touches_files() -> None:
    for path in SRC.rglob("*.rs"):
        if path.relative_to(SRC).parts[0] not in ("io", "io.rs"):
            assert not re.search(r"\bstd::fs\b|\bFile::(open|create)\b|\bOpenOptions\b", code(path)), path.relative_to(
                ROOT
            )


def test_the_kernels_do_not_know_the_engine() -> None:
    manifest = (ROOT / "native" / "compute" / "Cargo.toml").read_text(encoding="utf-8")
    assert "kektordb-core" not in manifest.split("[dependencies]")[1]


def circles(uses: dict[str, set[str]]) -> list[set[str]]:
    """Sets of names that all use each other, directly or through others."""

    def below(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            fresh = uses[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        return seen

    reach = {name: below(name) for name in uses}
    found = {frozenset(o for o in reach[n] if n in reach[o]) for n in uses if n in reach[n]}
    return [set(c) for c in found]


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("module", [m for m in modules() if (SRC / m).is_dir()])
def test_the_files_of_a_module_do_not_use_each_other_in_a_circle(module: str) -> None:
    parts = {p.stem: p for p in (SRC / module).glob("*.rs") if p.stem not in ("mod", "tests")}
    uses: dict[str, set[str]] = {}
    for name, path in parts.items():
        text = code(path)
        named = set(re.findall(r"\bsuper::([a-z_]+)", text))
        for group in re.findall(r"\buse super::\{(.*?)\};", text, flags=re.DOTALL):
            named |= set(re.findall(r"(?:^|,)\s*([a-z_]+)", re.sub(r"\{[^{}]*\}", "", group)))
        uses[name] = (named & parts.keys()) - {name}
    assert any(uses.values()) or len(parts) < 4, f"no use of a neighbour was seen in {module}"
    assert circles(uses) == []
