"""Scripts in benchmarks_perf/ are run by hand: what they import from the package is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "benchmarks_perf").glob("*.py"))


@cache
def names_in(module: str) -> frozenset[str]:
    """Names at the top level of a module or package of ours, its own modules among them."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names_there = {below.stem for below in path.iterdir()} if path.is_dir() else set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names_there.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names_there.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                names_there |= {alias.asname or alias.name for alias in names}
            case ast.Constant(value=str(name)) if file.name == "__init__.py":
                names_there.add(name)  # lazy imports and __all__
    return frozenset(names_there)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "medunlearn":
            missing = [alias.name for alias in node.names if alias.name not in names_in(node.module)]
            assert not missing, f"{script.name} imports {missing} from {node.module}"


def test_no_script_has_the_name_of_a_module_of_the_tests() -> None:
    """Some tests import scripts: a script would hide the module of the same name, or the other way round."""
    modules = {path.stem for folder in ("tests", "tests/support") for path in (ROOT / folder).glob("*.py")}
    assert {path.stem for path in SCRIPTS} & modules == set()
