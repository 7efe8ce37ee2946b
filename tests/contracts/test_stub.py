"""The hand-written stub says what the extension module has: every name, method and argument."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUB = ast.parse((ROOT / "python" / "kektordb" / "_core.pyi").read_text(encoding="utf-8"))


def stub_functions(nodes: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in nodes if isinstance(n, ast.FunctionDef)}


def stub_classes() -> dict[str, ast.ClassDef]:
    return {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}


def arguments(node: ast.FunctionDef) -> list[str]:
    a = node.args
    return [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs) if x.arg not in ("self", "cls")]


def runtime_arguments(function: object) -> list[str]:
    return [n for n in inspect.signature(function).parameters if n not in ("self", "cls")]  # type: ignore[arg-type]


def test_the_module_has_the_names_of_the_stub_and_no_other() -> None:
    from kektordb import _core

    names = {n.target.id for n in STUB.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    values = {n for n in names if n == "__version__" or not n.startswith("_")}
    stub = {*stub_functions(STUB.body), *stub_classes(), *values}
    real = {n for n in dir(_core) if not n.startswith("__") or n == "__version__"}
    assert real == stub


@pytest.mark.parametrize("name", sorted(stub_functions(STUB.body)))
def test_a_function_takes_the_arguments_of_the_stub(name: str) -> None:
    from kektordb import _core

    assert runtime_arguments(getattr(_core, name)) == arguments(stub_functions(STUB.body)[name])


@pytest.mark.parametrize("name", sorted(stub_classes()))
def test_a_class_has_the_methods_and_arguments_of_the_stub(name: str) -> None:
    from kektordb import _core

    real = getattr(_core, name)
    stub = stub_functions(stub_classes()[name].body)
    public = {n for n in vars(real) if not n.startswith("_")}
    assert public == {n for n in stub if not n.startswith("_")}
    for method, node in stub.items():
        assert hasattr(real, method), method
        properties = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id == "property"]
        if not method.startswith("__") and not properties:
            assert runtime_arguments(getattr(real, method)) == arguments(node), method
