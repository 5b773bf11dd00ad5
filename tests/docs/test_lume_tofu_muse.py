"""What docs/papers.md shows of LUME, and docs/benchmarks.md of TOFU and MUSE, runs, small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from pages import Page, run_line
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark
from medunlearn.paper import installed_papers
from medunlearn.registry import load

LUME = Page.read("papers/lume.md", "LUME benchmark", "LUME experiment", "LUME findings")
PUBLISHED = Page.read("papers/tofu.md", "TOFU") + Page.read("papers/muse.md", "MUSE")
DOCS = Path(__file__).parents[2] / "docs"
SMALL = {
    "medunlearn train": ("--tiny-width=32", "--tiny-layers=2", "--epochs=1", "--precision=fp32"),
    "medunlearn evaluate": ("--max-new-tokens=4", "--replicates=20", "--allow-broken"),
    "medunlearn build tofu": ("--questions-an-author=2",),
    "medunlearn run examples/lume-new.yaml": (
        *("--benchmark.stories=2", "--benchmark.personal-biographies=2", "--benchmark.public-biographies=2"),
        *("--benchmark.nonmembers=1", "--train.epochs=1", "--train.tiny-width=32", "--train.tiny-layers=2"),
        *(
            "--unlearn.epochs=1",
            "--unlearn.methods=[ga]",
            "--evaluate.max-new-tokens=4",
            "--evaluate.replicates=20",
        ),
    ),
}


def run(line: str) -> str:
    extra = next((more for start, more in SMALL.items() if line.startswith(start)), ())
    result = run_line(line, extra)
    return result.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_on_lume_runs(here: Path, writer: Callable[[dict[str, Any]], str]) -> None:
    # Those on the released files: tests/papers/lume/test_experiment.py.
    commands = [line for line in LUME.commands if "lume-small" not in line.replace("_", "-")]
    assert len(commands) == 5
    with FakeServer(answer=writer) as server:
        said = "".join(run(line.replace("http://127.0.0.1:8000/v1", server.base_url)) for line in commands)
    assert "Nothing was sent." in said
    assert len(Benchmark.load(here / "lume-new").records) == 140
    assert len(Benchmark.load(here / "lume-written").records) == 14
    assert (here / "lume-read" / "review" / "annotate.html").exists()


def test_the_example_runs(here: Path) -> None:
    (here / "examples").symlink_to(DOCS.parent / "examples")
    run("medunlearn run examples/lume-new.yaml")
    assert "knowledge, forget" in (here / "runs" / "lume-new" / "report" / "report.md").read_text()


def test_the_page_on_tofu_and_muse_runs(here: Path) -> None:
    full = [{"question": f"What did author {n // 2} do in {n}?", "answer": f"Wrote {n}"} for n in range(6)]
    write_lines(here / "tofu-files" / "full.json", full)
    write_lines(here / "tofu-files" / "forget01.json", full[-2:])
    for name in ("forget", "retain2", "holdout"):
        write_lines(
            here / "muse-files" / "raw" / f"{name}.json", [{"text": f"{name} {n} is a bridge."} for n in range(2)]
        )
    write_lines(here / "muse-files" / "verbmem" / "forget.json", [{"prompt": "forget 0 is", "gt": "a bridge."}])
    for side in ("forget", "retain"):
        write_lines(
            here / "muse-files" / "knowmem" / f"{side}_qa.json", [{"question": f"{side} 1?", "answer": "A bridge"}]
        )
    said = "".join(run(line) for line in PUBLISHED.commands)
    assert "forget quality" in said
    assert "rouge_l_f" in said
    assert "Privacy leakage" in said


def test_every_setting_of_the_pages_is_one() -> None:
    models = (load(way.settings) for paper in installed_papers() for way in paper.builds)
    known = {name for model in models for name in model.model_fields}
    from medunlearn.config import EvaluateSettings, ExperimentSettings, TrainSettings
    from medunlearn.papers.lume.settings import LumeNewSettings

    for model in (LumeNewSettings, TrainSettings, EvaluateSettings, ExperimentSettings):
        known |= set(model.model_fields)
    for page in (LUME, PUBLISHED):
        assert (
            not {name for name in page.flags if "." not in name} - known - {"review", "benchmark"}
        )  # flags of the verbs
