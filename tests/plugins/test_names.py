"""No file outside of `papers/` knows a paper by name: the newcomer's test, from the tree itself."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import medunlearn
from medunlearn.papers import PAPERS

SOURCE = Path(medunlearn.__file__).parent
OTHER_WORDS = {
    "notes": "a word of many tables and settings",
    "options": "a word of many tables and settings",
    "wmdp": "the variant of RMU by the method's authors",
    "diagnosis": "a column of notes, and a part of an invented sentence",
}
"""Names of papers that are also words of the language; only a path of their package counts."""


def literals(path: Path) -> set[str]:
    """Texts in a file's code, docstrings left out, and modules that it imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {
        node.body[0].value
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
    }
    return texts | {f"{node.module}." for node in nodes if isinstance(node, ast.ImportFrom)}


@cache
def outside() -> dict[str, set[str]]:
    """Literals of each file outside of the papers' folder that holds the name of a paper at all."""
    return {
        path.relative_to(SOURCE).as_posix(): literals(path)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "papers"
        and any(paper in path.read_text(encoding="utf-8") for paper in (*PAPERS, "papers"))
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_nobody_else_knows_a_paper(paper: str) -> None:
    package = f"medunlearn.papers.{paper}"
    knows = {
        place
        for place, texts in outside().items()
        for text in texts
        if text.startswith((f"{package}.", f"{package}:")) or (text == paper and paper not in OTHER_WORDS)
    }
    assert not knows


def test_the_test_sees_names() -> None:
    """It is worth something only if it finds what is there."""
    inside = literals(SOURCE / "papers" / "__init__.py")
    assert "amnesia" in inside
    assert any(text.startswith("medunlearn.papers.lume:") for text in inside)
    assert "medunlearn.papers.sweeps.report:sweep_report" in outside()["study/sweep/result.py"]
