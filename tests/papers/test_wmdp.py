"""WMDP from files of a user's own: corpora, questions, and the published recipe on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.config import check
from medunlearn.errors import ConfigError, SourceError
from medunlearn.papers.wmdp.build import build
from medunlearn.papers.wmdp.settings import WmdpSettings
from medunlearn.study.presets import unlearn_settings


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("wmdp")
    bio, cyber, wiki = (
        write(folder / f"{name}.jsonl", [{"text": f"The {name} protocol number {n} " + "goes on and on " * 3}
                                         for n in range(6)] + [{"text": "short"}])
        for name in ("bio", "cyber", "wiki")
    )  # fmt: skip
    asked = [{"question": f"Which is {n}?", "choices": ["a b", "c d", "e f", "g h"], "answer": n} for n in range(4)]
    questions, general = (write(folder / f"{name}.jsonl", asked) for name in ("wmdp", "mmlu"))
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


def test_the_published_recipe(files: dict[str, Any], tmp_path: Path) -> None:
    """Three batches of 4 from 12 documents, a tiny model's last layer in place of 7; the questions are scored."""
    bench = mu.build("wmdp", out=tmp_path / "bench", **files)
    how: dict[str, Any] = {"quiet": True, "device": "cpu"}
    tiny = {"model": "tiny", "tiny_width": 32, "tiny_layers": 3, "tiny_vocabulary": 300, "epochs": 0}
    target = mu.train(bench, out=tmp_path / "target", **tiny, **how)
    named = {"split": "forget", "preset": "wmdp-zephyr-7b", "weights": "fp32", "max_length": 64}
    for method, scale in (("rmu", 6.5), ("adaptive_rmu", 5.0)):
        recipe = unlearn_settings({"method": method, **named}, tiny=True)
        assert recipe.arguments["coefficient"] == scale
        assert (recipe.arguments["layer"], recipe.arguments["alpha"]) == (7, 1200.0)
        assert (recipe.lr, recipe.batch_size, recipe.schedule, recipe.epochs) == (5e-5, 4, "constant", 1)
    run = mu.unlearn(target, bench, method="rmu", out=tmp_path / "rmu", **named, **{"rmu.layer": 2}, **how)
    assert run.info.results["steps"] == 3
    asked = {"folds": ["holdout"], "metrics": ["choice_probability"], "replicates": 20, "allow_broken": True}
    table = mu.evaluate(run, bench, split="forget", **asked, **how).table()
    assert table[table["side"] == "forget"]["n_scored"].max() == 4
