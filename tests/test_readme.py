"""Every command and piece of Python in README and docs runs, as it stands but for the size of the training."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from medunlearn.cli.main import app

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
PAGES = ("README.md", "CONTRIBUTING.md", "docs/definitions.md", "docs/files.md")

# What is appended to keep a command short; nothing that it says is changed.
SMALL = {
    "medunlearn train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2"],
    "medunlearn unlearn": ["--epochs=1"],
    "medunlearn evaluate": ["--max-new-tokens=4", "--limit=4", "--replicates=50"],
    "medunlearn run examples/hospital.yaml": [
        "--train.epochs=1",
        "--train.tiny-width=32",
        "--train.tiny-layers=2",
        "--unlearn.methods=[graddiff]",
        "--evaluate.limit=2",
        "--evaluate.replicates=50",
        "--evaluate.max-new-tokens=4",
    ],
    "medunlearn run examples/lume-small.yaml": [
        "--benchmark.documents-per-task=4",
        "--train.epochs=1",
        "--train.tiny-width=32",
        "--train.tiny-layers=2",
        "--unlearn.epochs=1",
        "--unlearn.methods=[npo]",
        "--evaluate.limit=2",
        "--evaluate.replicates=50",
        "--evaluate.max-new-tokens=4",
    ],
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "bash") for line in block.splitlines() if line.strip()]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder that looks like a clone with the shared data beside it."""
    here = tmp_path / "clone"
    here.mkdir()
    (here / "examples").symlink_to(ROOT / "examples")
    if DATA.exists():
        (tmp_path / "shared").symlink_to(DATA.parent)
    monkeypatch.chdir(here)
    return here


def run(line: str) -> None:
    words = shlex.split(line)
    extra = next((more for start, more in SMALL.items() if line.startswith(start)), [])
    result = CliRunner().invoke(app, [*words[1:], *extra])
    assert result.exit_code == 0, f"{line}\n{result.output}"


def test_commands_of_the_readme_run_in_their_order(workplace):
    lines = [line for line in commands("README.md") if line.startswith("medunlearn") and "lume" not in line]
    assert len(lines) > 10
    for line in lines:
        run(line)
    assert "Closest to the retrained model" in (workplace / "report" / "report.md").read_text()


@pytest.mark.skipif(not DATA.exists(), reason="the real LUME files (../shared/data/lume) are not here")
def test_commands_on_the_real_lume_files_run(workplace):
    lines = [line for line in commands("README.md") if line.startswith("medunlearn") and "lume" in line]
    assert len(lines) == 2
    for line in lines:
        run(line)


def test_every_command_is_one_that_is_tested_or_run_by_ci():
    ci = (ROOT / ".ci" / "run").read_text()
    for page in PAGES:
        for line in commands(page):
            assert line.startswith("medunlearn") or line in ci, f"{page}: nobody runs {line!r}"
    for page in PAGES[1:]:
        assert not [line for line in commands(page) if line.startswith("medunlearn")], (
            f"{page}: add it to the tests"
        )


def test_scripts_and_examples_that_pages_name_exist():
    for page in PAGES:
        for name in re.findall(r"\b((?:scripts|examples|docs|benchmarks_perf)/[\w.-]+)", (ROOT / page).read_text()):
            assert (ROOT / name).exists(), f"{page} names {name}"


def test_the_python_of_the_readme_runs(workplace, capsys):
    (code,) = blocks("README.md", "python")
    exec(code.replace('model="tiny"', 'model="tiny", epochs=1, tiny_width=32, tiny_layers=2'), {})
    assert "rouge_l" in capsys.readouterr().out


def test_the_method_of_the_contributing_page_is_a_method(tmp_path, monkeypatch):
    from medunlearn.methods import make_method
    from medunlearn.methods.protocol import LossMethod

    (code,) = blocks("CONTRIBUTING.md", "python")
    (tmp_path / "contributed_method.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    method = make_method("contributed_method:Mine", {"alpha": 2.0})
    assert isinstance(method, LossMethod)
    assert method.alpha == 2.0  # type: ignore[attr-defined]


def test_the_tree_of_the_readme_is_the_tree():
    page = (ROOT / "README.md").read_text()
    tree = page[page.index("```\nsrc/medunlearn/") :]
    named = set(re.findall(r"^  (\S+?)/? {2,}", tree, re.MULTILINE))
    folder = ROOT / "src" / "medunlearn"
    there = {path.name for path in folder.iterdir() if not path.name.startswith(("_", "py."))}
    assert there <= named, f"README's tree lacks {sorted(there - named)}"
    assert all((folder / name).exists() for name in named)
