"""What scripts/check-prose finds, and what it leaves alone."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    loader = SourceFileLoader("check_prose", str(ROOT / "scripts" / "check-prose"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


TWICE = "A paragraph of more than sixty characters that stands in a page twice, as it were."


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("Rows are drawn.~The interval is wide.", 1, "a stray mark"),
        ("One.\n\nTwo is on the\nthe second line.", 3, "a doubled word"),
        ("It ends here.. Or there.", 1, "a doubled mark"),
        ("It ends , or not.", 1, "a space before a mark"),
        ("First.\n\nThis one ends in the", 3, "a sentence that breaks off"),
        (f"{TWICE}\n\nOther.\n\n{TWICE}", 5, "a paragraph that stands above already"),
        (f"{TWICE}\n\nOther.\n\n{TWICE} And goes on.", 5, "a paragraph that stands above already"),
    ],
)
def test_wreckage(checker: ModuleType, tmp_path: Path, text: str, line: int, kind: str) -> None:
    page, module, comment = tmp_path / "page.md", tmp_path / "module.py", tmp_path / "comment.py"
    page.write_text(text)
    assert [(place, what.partition(":")[0]) for place, what in checker.problems(page)] == [(line, kind)]
    module.write_text(f'x = 1\n\n\ndef f():\n    """{text}"""\n')
    assert [(place, what.partition(":")[0]) for place, what in checker.problems(module)] == [(line + 4, kind)]
    if "\n" not in text:
        comment.write_text(f"x = 1\n# {text}\n")
        assert [(place, what.partition(":")[0]) for place, what in checker.problems(comment)] == [(2, kind)]


def test_what_is_no_wreckage(checker: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Chen et al., 2024: it holds that that is so, as `the the` shows; see ../data and 1..5.\n\n"
        "One of the following, or\n\n- this\n- that\n\n```\nthe the .. ,,\n```\n\n| the the | .. |\n"
    )
    assert not [*checker.problems(page)]
