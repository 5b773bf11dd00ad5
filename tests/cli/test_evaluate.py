"""``evaluate``: ask once, score, compare; on the screen and for machines."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

Medunlearn = Callable[..., Any]
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--allow-broken")


@pytest.fixture
def runs(bench: Path, target: Path, graddiff: Path, tmp_path: Path) -> Path:
    """Copies of both runs, never evaluated, so that a test may write into them."""
    for run in (target, graddiff):
        shutil.copytree(run, tmp_path / run.name, ignore=shutil.ignore_patterns("evaluations", "responses"))
    return tmp_path


def evaluate(medunlearn: Medunlearn, runs: Path, bench: Path, *words: object, code: int = 0) -> Any:
    return medunlearn("evaluate", runs / "graddiff", bench, "--split", "random_10", *words, code=code)


def test_against_two_runs(medunlearn: Medunlearn, runs: Path, bench: Path, target: Path) -> None:
    result = evaluate(medunlearn, runs, bench, "--against", runs / "target", *QUICK)
    lines = result.stdout.splitlines()
    assert "forget, train fold" in lines
    assert "retain, holdout fold" in lines
    header = lines[lines.index("forget, train fold") + 1].split()
    assert header == ["measure", "GradDiff", "target", "scored"]
    assert (runs / "target" / "evaluations").is_dir()


def test_several_runs_to_compare_with(medunlearn: Medunlearn, runs: Path, bench: Path, target: Path) -> None:
    shutil.copytree(runs / "target", runs / "other")
    others = ("--against", runs / "target", "--against", runs / "other")
    result = evaluate(medunlearn, runs, bench, *others, *QUICK, "--json")
    table = json.loads(result.stdout)["table"]
    assert {row["model"] for row in table} == {"GradDiff", "target (target)", "target (other)"}


def test_json_is_all_that_is_on_standard_output(medunlearn: Medunlearn, runs: Path, bench: Path) -> None:
    result = evaluate(medunlearn, runs, bench, "--against", runs / "target", *QUICK, "--json")
    value = json.loads(result.stdout)
    assert {row["side"] for row in value["table"]} == {"forget", "retain"}
    assert {row["kind"] for row in value["table"]} == {"factual", "reasoning", "all"}
    assert {(row["model"], row["against"]) for row in value["comparisons"]} == {("GradDiff", "target")}
    for row in value["table"]:
        assert row["n_scored"] + row["n_unscored"] > 0
        assert row["context"] == "closed_book"


def test_unscored_is_never_zero(medunlearn: Medunlearn, runs: Path, bench: Path) -> None:
    """A measure that was asked for and scored nothing is an error; what is stored of it has no value."""
    result = evaluate(medunlearn, runs, bench, *QUICK, "--metrics=[rouge_l,cs]", code=1)
    assert "cs scored none of" in result.stderr
    (file,) = (runs / "graddiff" / "evaluations").glob("*/summary.parquet")
    rows = pd.read_parquet(file).query("measure == 'cs'")
    assert len(rows)
    assert rows["value"].isna().all()
    assert (rows["n_scored"] == 0).all()
    assert (rows["n_unscored"] > 0).all()


def test_quiet(medunlearn: Medunlearn, runs: Path, bench: Path) -> None:
    result = evaluate(medunlearn, runs, bench, *QUICK, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_out_is_a_table(medunlearn: Medunlearn, runs: Path, bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables" / "scores.csv"
    evaluate(medunlearn, runs, bench, *QUICK, "--out", out)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert {"side", "measure", "value", "low", "high", "n_scored", "n_unscored", "model"} <= set(rows[0])


def test_out_that_is_a_folder(medunlearn: Medunlearn, runs: Path, bench: Path) -> None:
    result = evaluate(medunlearn, runs, bench, *QUICK, "--out", bench, code=2)
    assert "is a folder; --out is the file" in result.text


def test_it_is_asked_once(medunlearn: Medunlearn, runs: Path, bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = evaluate(medunlearn, runs, bench, *QUICK)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("medunlearn.models.load.load_model", refuse)
    assert evaluate(medunlearn, runs, bench, *QUICK).stdout == first.stdout
    # Another metric scores the stored responses; another split of the same questions asks nobody either.
    evaluate(medunlearn, runs, bench, *QUICK, "--metrics=[exact_match]")
    with pytest.raises(AssertionError, match="was loaded"):
        evaluate(medunlearn, runs, bench, "--replicates=20", "--limit=3", "--max-new-tokens=4", "--allow-broken")


def test_only_new_questions_are_asked(medunlearn: Medunlearn, runs: Path, bench: Path) -> None:
    import pandas as pd

    evaluate(medunlearn, runs, bench, "--replicates=20", "--limit=1", "--max-new-tokens=4", "--allow-broken")
    parts = {part: part.read_bytes() for part in (runs / "graddiff" / "responses").rglob("*.parquet")}
    evaluate(medunlearn, runs, bench, "--replicates=20", "--max-new-tokens=4", "--allow-broken")
    stored = pd.concat(map(pd.read_parquet, (runs / "graddiff" / "responses").rglob("*.parquet")))
    stored = stored[stored["answer_hits"].notna()]  # ranks of facts are stored without
    assert all(part.read_bytes() == content for part, content in parts.items())
    assert len(stored) == stored["question_id"].nunique() == 160


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--metrics=[rouge,em]",), ["no measure 'rouge'", "Did you mean 'rouge_l'?"]),
        (("--folds=[utility]",), ["no question of these folds"]),
        (("--folds=[training]",), ["input should be 'train', 'holdout'"]),
        (("--limit=0", "replicate=5"), ["2 settings are wrong", "Did you mean --replicates?"]),
        (("bench2",), ["'bench2' is one argument too many"]),
        (("--against", "nowhere"), ["nowhere holds no run"]),
        (("--device", "nonsense", "--max-new-tokens=3"), ["Device 'nonsense' is not available"]),
    ],
)
def test_wrong_input(
    medunlearn: Medunlearn, graddiff: Path, bench: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    result = evaluate(medunlearn, graddiff.parent, bench, *words, code=2)
    assert all(part in result.text for part in parts), result.text


def test_a_model_of_another_split_is_said(medunlearn: Medunlearn, graddiff: Path, bench: Path) -> None:
    small = "--limit=1", "--max-new-tokens=2", "--replicates=20", "--allow-broken"
    asked = [
        " ".join(medunlearn("evaluate", graddiff, bench, "--split", split, *small).stdout.split())
        for split in ("random_10", "random_05")
    ]
    sentence = "is the unlearned model of split random_10: on random_05 other subjects are to be forgotten"
    assert [sentence in text for text in asked] == [False, True]


def test_the_same_run_twice(medunlearn: Medunlearn, graddiff: Path, bench: Path) -> None:
    result = evaluate(medunlearn, graddiff.parent, bench, *QUICK, "--against", graddiff, code=2)
    assert "One run is named twice" in result.text


def test_ctrl_c_says_how_to_go_on(
    medunlearn: Medunlearn, runs: Path, bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.data.responses import ResponseStore

    add = ResponseStore.add

    def add_and_stop(store: ResponseStore, responses: Any) -> None:
        add(store, responses)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ResponseStore, "add", add_and_stop)
        result = evaluate(medunlearn, runs, bench, *QUICK, "--batch-size=4", code=130)
    assert "give the same command again" in result.text
    (record,) = (runs / "graddiff" / "evaluations").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "interrupted"
    evaluate(medunlearn, runs, bench, *QUICK, "--batch-size=4")
    assert json.loads(record.read_text())["status"] == "complete"


def test_a_model_that_takes_none_of_the_cheap_ways_is_said(
    medunlearn: Medunlearn, runs: Path, bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.generation import sharing
    from medunlearn.models import layouts
    from medunlearn.models.decoder import LayoutSupport

    result = evaluate(medunlearn, runs, bench, *QUICK, "--context=note", "--limit=1")
    assert "slower than it could be" not in result.text
    monkeypatch.setattr(layouts, "_probe", lambda model: LayoutSupport("padded", head=True))
    monkeypatch.setattr(sharing, "_agrees", lambda model, way: False)
    words = ("--against", runs / "target", *QUICK, "--context=note", "--limit=1")
    shutil.rmtree(runs / "graddiff" / "responses")
    shutil.rmtree(runs / "graddiff" / "evaluations")
    result = evaluate(medunlearn, runs, bench, *words)
    for label in ("GradDiff", "target"):
        assert f"{label}: slower than it could be; batches were padded: the model takes no layout" in result.text
        assert f"{label}: slower than it could be; answers were decoded from whole prompts" in result.text
    (record,) = (runs / "graddiff" / "evaluations").glob("*/run.json")
    results = json.loads(record.read_text())["results"]
    assert results["batches"].startswith("padded")
    assert results["generation"].startswith("whole prompts")
