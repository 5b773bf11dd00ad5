"""The score table: its schema, its labels, and the tables of several runs as one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from run_folders import write_run

import medunlearn as mu
from medunlearn.errors import InputError
from medunlearn.results.runs import Run, RunRecord
from medunlearn.results.scores import read_scores, replace_scores, score_table, write_scores

ROWS = pd.DataFrame(
    [("q1", "p1", "em", 0.5, None, "forget"), ("q2", "p1", "em", None, "no response", "retain")],
    columns=["item", "subject", "measure", "value", "reason", "side"],
)


def test_schema() -> None:
    table = score_table(ROWS)
    assert table.columns.tolist() == ["item", "subject", "measure", "value", "reason", "side"]
    assert str(table["value"].dtype) == "Float64"
    assert table["value"].isna().tolist() == table["reason"].notna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.drop(columns="reason"), "lacks the column reason"),
        (ROWS.assign(subject=["p1", None]), "no subject"),
        (ROWS.assign(item=["", "q2"]), "no item"),
        (ROWS.assign(reason=None), "either a value or a reason"),
        (ROWS.assign(reason="why"), "either a value or a reason"),
        (ROWS.assign(value=[float("inf"), None]), "infinite"),
        (pd.concat([ROWS, ROWS.iloc[:1]]), "more than once"),
    ],
)
def test_rows_that_break_the_schema_are_refused(rows: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_table(rows)


def test_rows_are_replaced_by_label(tmp_path: Path) -> None:
    write_scores(tmp_path, ROWS.assign(attack=["loss", "min_k"]))
    replace_scores(tmp_path, ROWS.iloc[:1].assign(attack="loss", value=0.9), attack=["loss"])
    table = read_scores(tmp_path).set_index("attack")
    assert table.loc["loss", "value"] == 0.9
    assert table.loc["min_k", "reason"] == "no response"


def test_an_older_table_is_refused(tmp_path: Path) -> None:
    ROWS.rename(columns={"item": "question_id"}).to_parquet(tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="lacks the column item"):
        read_scores(tmp_path)
    with pytest.raises(InputError, match=r"holds no scores\.parquet"):
        read_scores(tmp_path / "elsewhere")


def test_scores_of_several_runs_carry_the_runs_labels(tmp_path: Path) -> None:
    for label, seed in (("NPO", 0), ("GD", 1)):
        run = tmp_path / "runs" / label
        write_run(run, "unlearn", label, config={"method": label.lower(), "split": "random_10", "seed": seed})
        record = run / "evaluations" / "a"
        write_run(record, "evaluate", label, config={"split": "random_10"}, results={"context": "closed_book"})
        write_scores(record, ROWS)
    table = mu.scores(str(tmp_path / "runs" / "*"))
    assert len(table) == 4
    first = table.iloc[0]
    assert (first["model"], first["method"], first["seed"], first["role"]) == ("GD", "gd", 1, "unlearned")
    assert (first["verb"], first["split"], first["context"]) == ("evaluate", "random_10", "closed_book")
    assert len(mu.scores([tmp_path / "runs" / "NPO"])) == 2
    with pytest.raises(InputError, match="no scores"):
        mu.scores(write_run(tmp_path / "empty", "train", "target"))
    with pytest.raises(InputError, match="is no folder"):
        mu.scores(tmp_path / "nowhere")


def test_attacks_and_epochs_are_pooled_only_where_they_are_asked_for(tmp_path: Path) -> None:
    """An attack's rows are of another question: a mean over both would be of neither."""
    run = write_run(tmp_path / "run", "unlearn", "NPO").folder
    for place, verb in (
        ("evaluations/a", "evaluate"),
        ("attacks/a", "attack"),
        ("epochs/01/evaluations/a", "evaluate"),
    ):
        write_run(run / place, verb, "NPO")
        write_scores(run / place, ROWS)
    assert set(mu.scores(run)["verb"]) == {"evaluate"}
    assert len(mu.scores(run)) == len(ROWS)
    assert len(mu.scores(run, attacks=True)) == len(mu.scores(run, epochs=True)) == 2 * len(ROWS)
    assert set(mu.scores(run / "attacks")["verb"]) == {"attack"}
    assert len(mu.scores(run / "epochs" / "01")) == len(ROWS)
    shutil.rmtree(run / "evaluations")
    with pytest.raises(InputError, match=r"attacks=True.*epochs=True"):
        mu.scores(run)


def test_an_old_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "train", "target")
    assert Run.of(run) is run
    assert Run.of(str(run.folder)).info == run.info
    RunRecord.of({**run.info.as_dict(), "schema": 1}).write(run.folder)
    with pytest.raises(InputError, match=r"run schema 1, not 2.*another --out"):
        Run.open(run.folder)
