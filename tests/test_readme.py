"""Every command and piece of Python in README and docs runs, as it stands but for the size of the training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, Page, run_line

DATA = ROOT.parent / "shared" / "data"
PAGES = sorted(
    str(path.relative_to(folder))
    for folder, pattern in ((ROOT, "*.md"), (ROOT / "docs", "**/*.md"))
    for path in folder.glob(pattern)
    if path.name != "CHANGELOG.md"
)

# What is appended to keep a command short; nothing that it says is changed.
SMALL = {
    "medunlearn train": ["--epochs=1", "--train-on=records", "--tiny-width=32", "--tiny-layers=2"],
    "medunlearn unlearn": ["--epochs=1"],
    "medunlearn evaluate": ["--allow-broken", "--max-new-tokens=4", "--limit=4", "--replicates=50"],
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
    extra = next((more for start, more in SMALL.items() if line.startswith(start)), [])
    run_line(line, extra)


def run_all(workplace: Path, name: str) -> None:
    # `forget` takes what the reader has; tests/docs/test_forget_requests.py runs its section. The road's sweep is
    # that of docs/scale.md.
    elsewhere = ("lume", "medunlearn forget ", "medunlearn sweep ")
    lines = [line for line in Page.read(name).commands if line.startswith("medunlearn")]
    lines = [line for line in lines if not any(words in line for words in elsewhere)]
    assert len(lines) > 8
    for line in lines:
        run(line)
    assert "Closest to the retrained model" in (workplace / "report" / "report.md").read_text()


def test_the_readme_runs_in_its_order(workplace):
    run_all(workplace, "README.md")


def test_the_first_page_runs_in_its_order(workplace, capsys):
    run_all(workplace, "roads/researcher.md")
    for line in Page.read("runs.md").commands:
        run(line)
    (code,) = Page.read("runs.md").blocks("python")
    exec(code.replace('model="tiny"', 'model="tiny", epochs=1, tiny_width=32, tiny_layers=2'), {})
    assert "rouge_l" in capsys.readouterr().out


@pytest.mark.skipif(not DATA.exists(), reason="the real LUME files (../shared/data/lume) are not here")
def test_commands_on_the_real_lume_files_run(workplace):
    lines = [line for line in Page.read("README.md").commands if "lume" in line]
    assert len(lines) == 2
    for line in lines:
        run(line)


def test_every_section_with_commands_is_read_by_a_test():
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    read = {
        (name, heading)
        for name, headings in re.findall(r'Page\.read\(\s*"([\w/-]+\.md)"((?:,\s*"[^"]+")*),?\s*\)', sources)
        for heading in re.findall(r'"([^"]+)"', headings) or [None]
    }
    ci = (ROOT / ".ci" / "run").read_text()
    for name in PAGES:
        for section in re.split(r"^## ", Page.read(name).text, flags=re.MULTILINE)[1:]:
            lines = Page(section).commands
            heading = section.partition("\n")[0]
            tested = {(name, heading), (name, None)} & read
            assert tested or all(line in ci for line in lines), f"{name}: nobody runs the section {heading!r}"


def test_files_links_and_anchors_of_the_pages_exist():
    for name in PAGES:
        text = Page.read(name).text
        page = ROOT / name if (ROOT / name).exists() else ROOT / "docs" / name
        for path in re.findall(r"\b((?:scripts|examples|docs|benchmarks_perf|tests)/[\w./-]*\w)", text):
            assert (ROOT / path).exists(), f"{name} names {path}"
        for link, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
            target = page.parent / link if link else page
            assert target.exists(), f"{name} links to {link}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, (
                    anchor
                )


def test_the_method_of_the_contributing_page_is_a_method(tmp_path, monkeypatch):
    from medunlearn.methods import make_method
    from medunlearn.methods.protocol import LossMethod
    from medunlearn.metrics import Item, Tools, get_metric

    code, measure, *_ = Page.read("CONTRIBUTING.md").blocks("python")
    (tmp_path / "contributed_method.py").write_text(code)
    (tmp_path / "contributed_measure.py").write_text(measure)
    monkeypatch.syspath_prepend(tmp_path)
    method = make_method("contributed_method:Mine", {"alpha": 2.0})
    assert isinstance(method, LossMethod)
    assert method.alpha == 2.0  # type: ignore[attr-defined]
    metric = get_metric("contributed_measure:METRIC")
    items = [Item("q", "forget", "Why?", reference, "one two three") for reference in ("a b", "")]
    assert [score.value for score in metric.score(items, Tools())] == [1.5, None]


def test_groups_of_entry_points_are_those_that_are_read():
    named = set(re.findall(r"`medunlearn\.(\w+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    source = "".join(path.read_text() for path in (ROOT / "src" / "medunlearn").rglob("*.py"))
    assert named >= {"methods", "measures", "attacks", "papers", "sources", "tasks"}
    # Measures declared in the group of earlier versions are read, too.
    assert named - {"metrics"} <= set(re.findall(r'(?:resolve|names)\("(\w+)"', source))
    assert "medunlearn.metrics" in source


def test_the_tree_of_the_readme_is_the_tree():
    page = (ROOT / "README.md").read_text()
    tree = page[page.index("```\nsrc/medunlearn/") :]
    named = set(re.findall(r"^  (\S+?)/? {2,}", tree, re.MULTILINE))
    folder = ROOT / "src" / "medunlearn"
    there = {path.name for path in folder.iterdir() if not path.name.startswith(("_", "py."))}
    assert there <= named, f"README's tree lacks {sorted(there - named)}"
    assert all((folder / name).exists() for name in named)
