"""WMDP from files of a user's own: corpora, questions, and the published recipe on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pages import Page, run_line

import medunlearn as mu
from medunlearn.config import check
from medunlearn.errors import ConfigError, SourceError
from medunlearn.papers.wmdp.build import build
from medunlearn.papers.wmdp.settings import WmdpSettings
from medunlearn.results.runs import Run
from medunlearn.study.presets import unlearn_settings

PRESET = "wmdp-zephyr-7b"


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("wmdp")
    bio, cyber, wiki = (
        write(folder / f"{name}.jsonl", [{"text": f"The {name} protocol number {n} " + "goes on and on " * 3}
                                         for n in range(6)] + [{"text": "short"}])
        for name in ("bio", "cyber", "wikitext")
    )  # fmt: skip
    asked = [{"question": f"Which is {n}?", "choices": ["a b", "c d", "e f", "g h"], "answer": n} for n in range(4)]
    questions, general = (write(folder / f"{name}.jsonl", asked) for name in ("wmdp-bio", "mmlu"))
    return {"forget": [bio, cyber], "retain": [wiki], "questions": [questions], "retain_questions": [general]}


def settings(files: Mapping[str, Any], **more: Any) -> WmdpSettings:
    return check(WmdpSettings, {**files, **more})


def test_corpora_and_questions(files: dict[str, Any]) -> None:
    benchmark = build(settings(files, limit=4))
    split = benchmark.split("forget")
    trained = [record for record in benchmark.records if record.fold == "train"]
    assert len(trained) == 4 + 4 + 4
    assert [len(benchmark.questions_of(split, side, ("holdout",))) for side in ("forget", "retain")] == [4, 4]
    assert [question.answer_index for question in benchmark.questions] == [0, 1, 2, 3] * 2
    assert benchmark.notes["documents that are too short"] == {"forget 1": 1, "forget 2": 1, "retain 1": 1}
    assert benchmark.data_use == "open"


def test_what_cannot_be_read_is_refused(files: dict[str, Any], tmp_path: Path) -> None:
    for rows in ([{"body": "x"}], [{"text": "short"}]):
        with pytest.raises(SourceError, match="other"):
            build(settings({**files, "retain": [write(tmp_path / "other.jsonl", rows)]}))
    with pytest.raises(ConfigError, match="forget"):
        settings({**files, "forget": []})


def test_the_published_recipe() -> None:
    for method, coefficient in (("rmu", 6.5), ("adaptive_rmu", 5.0)):
        recipe = unlearn_settings({"method": method, "split": "forget", "preset": PRESET}, tiny=None)
        assert recipe.arguments["coefficient"] == coefficient
        assert (recipe.arguments["layer"], recipe.arguments["alpha"]) == (7, 1200.0)
        assert (recipe.lr, recipe.batch_size, recipe.schedule, recipe.epochs) == (5e-5, 4, "constant", 1)


def test_the_page_runs(files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three batches of 4, and the last layer of a tiny model in place of Zephyr-7B's layer 7."""
    monkeypatch.chdir(tmp_path)
    for path in (path for paths in files.values() for path in paths):
        (tmp_path / path.name).symlink_to(path)
    build_line, adopt_line, *lines = Page.read("papers/wmdp.md", "WMDP").commands
    run_line(build_line)
    tiny = {"model": "tiny", "tiny_width": 32, "tiny_layers": 3, "tiny_vocabulary": 300, "epochs": 2, "quiet": True}
    (tmp_path / "zephyr-7b-beta").symlink_to(mu.train("wmdp", out=tmp_path / "tiny", **tiny).model)
    small = {"unlearn": ("--rmu.layer=2", "--weights=fp32", "--precision=fp32", "--max-length=64"),
             "evaluate": ("--allow-broken", "--replicates=20")}  # fmt: skip
    for line in (adopt_line, *lines):
        run_line(line, small)
    run = Run.open(tmp_path / "runs" / "rmu")
    assert (run.info.results["steps"], run.info.config["arguments"]["coefficient"]) == (3, 6.5)
    (evaluation,) = run.complete_below("evaluations")
    table = pd.read_parquet(evaluation.folder / "summary.parquet")
    assert table[table["side"] == "forget"]["n_scored"].max() == 4
