"""Top-k accuracy: tables by hand, the verb, its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from controls import check_controls

import medunlearn as mu
from medunlearn.cli.main import app
from medunlearn.config import AskedSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import Response
from medunlearn.errors import InputError
from medunlearn.papers.memorization.diagnosis.accuracy import (
    accuracy_table,
    difference_table,
    predictions,
    questions_of,
)
from medunlearn.papers.memorization.diagnosis.report import epochs_figure
from medunlearn.papers.memorization.diagnosis.rise import Rise, rise_finding
from medunlearn.reports.claims import VERDICTS, Finding
from medunlearn.results.runs import Run
from medunlearn.statistics import Estimate

from .conftest import best_epoch

DRAWS = {"replicates": 200, "seed": 0}


def read(*rows: tuple[str, str, int, int | None]) -> pd.DataFrame:
    """subject, specialty, named, rank."""
    table = pd.DataFrame(rows, columns=["subject", "specialty", "named", "rank"])
    table = table.assign(question_id=[f"q{place}" for place in range(len(rows))])
    return table.astype({"rank": "Int64"})


AFTER = read(("p1", "a", 2, 1), ("p2", "a", 2, 2), ("p3", "a", 3, 3), ("p4", "b", 0, None))
BEFORE = read(("p1", "a", 2, None), ("p2", "a", 2, 1), ("p3", "a", 3, None), ("p4", "b", 1, None))


def test_accuracy_by_hand() -> None:
    table = accuracy_table({"after": AFTER}, (1, 2, 3), 2, **DRAWS)
    rows = {(row["specialty"], row["k"]): row for row in table.to_dict("records")}
    assert {key: row["value"] for key, row in rows.items()} == pytest.approx(
        {("", 1): 1 / 4, ("", 2): 2 / 4, ("", 3): 3 / 4, ("a", 1): 1 / 3, ("a", 2): 2 / 3, ("a", 3): 1.0}
    )
    assert (rows["", 1]["n_unread"], rows["a", 1]["n_unread"], rows["", 1]["n_subjects"]) == (1, 0, 4)


def test_differences_are_paired_by_hand() -> None:
    table = difference_table({"after": AFTER, "before": BEFORE}, (1, 3), 2, **DRAWS)
    differences = {(row["specialty"], row["k"]): row["difference"] for row in table.to_dict("records")}
    assert differences == pytest.approx({("", 1): 0.0, ("", 3): 2 / 4, ("a", 1): 0.0, ("a", 3): 2 / 3})
    # Rows are matched by question, not by place.
    turned = {"after": AFTER, "before": BEFORE.iloc[::-1].reset_index(drop=True)}
    pd.testing.assert_frame_equal(table, difference_table(turned, (1, 3), 2, **DRAWS))


def test_responses_are_read_with_their_question(bench: Benchmark) -> None:
    questions = questions_of(bench, "test")
    answers = {question.question_id: question.answer for question in questions}

    def ranks(**settings: str) -> list[int]:
        responses = {name: Response(name, "note", 0, text, (), finished=True) for name, text in answers.items()}
        return predictions(bench, responses, AskedSettings.model_validate(settings), questions)["rank"].tolist()

    assert set(ranks()) == {1}
    second = [line.split(". ", 1)[1] for line in questions[0].answer.splitlines()]
    answers[questions[0].question_id] = f"1. nothing\n2. {second[1]}\n3. {second[0]}"
    assert (ranks()[0], ranks(gold="any")[0]) == (3, 2)


ASKED: dict[str, Any] = {"quiet": True, "least_patients": 2, "replicates": 50, "allow_broken": True}


def test_the_model_before_training_is_compared_without_asking_again(bench: Benchmark, watched: Run) -> None:
    result = mu.diagnose(watched, bench, **ASKED)
    assert result.record.info["results"]["models"] == ["target", "before training"]
    assert result.accuracy["n"].tolist()[0] == 5
    assert set(result.differences["against"]) == {"before training"}
    epochs = pd.read_parquet(watched.folder / "epochs.parquet").query("epoch == 0")
    before = result.accuracy.query("model == 'before training' and specialty == '' and k == 1")
    assert before["value"].tolist() == epochs[epochs["measure"] == "top-1 accuracy, test"]["value"].tolist()
    assert not (watched.folder / "responses").exists()
    assert mu.diagnose(watched, bench, **ASKED).record.info["started"] == result.record.info["started"]
    page, text = result.report.read_text(), result.report.with_suffix(".md").read_text()
    least = "The least validation loss is that of epoch"
    for words in ("Top-k accuracy", "Epoch by epoch", "before training", least):
        assert words in text
        assert words in page
    seven = epochs_figure(result)
    assert seven is not None
    assert page.count("<svg") >= 2
    axes = {name.replace("axis", "") for name in seven["layout"]}
    assert {trace["xaxis"] for trace in seven["data"]} == {"x", "x2", "x3"} <= axes
    assert best_epoch(watched) in {shape["x0"] for shape in seven["layout"]["shapes"]}
    kinds = ("name", "record_number", "phone", "address")
    secrets = [entry.value for record in bench.records for entry in record.identifiers if entry.type in kinds]
    assert not [secret for secret in secrets if secret in text or secret in page]


def test_another_part_needs_the_models_weights(bench: Benchmark, watched: Run) -> None:
    result = mu.diagnose(watched, bench, part="validation", max_new_tokens=4, **ASKED)
    assert result.record.info["results"]["models"] == ["target"]
    assert not len(result.differences)
    assert len(mu.diagnose(watched, bench, against=[watched.epoch(0)], part="test", **ASKED).differences)


def test_other_benchmarks_and_parts_are_refused(bench: Benchmark, watched: Run) -> None:
    with pytest.raises(InputError, match="asks for no diagnoses"):
        mu.diagnose(watched, mu.build.amnesia(synthetic=8), quiet=True)
    with pytest.raises(InputError, match="There is no part 'dev'"):
        mu.diagnose(watched, bench, part="dev", quiet=True)


def test_the_command(bench: Benchmark, watched: Run, tmp_path: Path) -> None:
    folder = bench.save(tmp_path / "bench")
    words = ["audit", "diagnosis", str(watched.folder), str(folder), "--least-patients=2", "--replicates=50"]
    # It names the same diagnosis to all five patients.
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "all of its 5 answers are the same" in result.output) == (2, True)
    words.append("--allow-broken")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "does memorization rise while the validation loss falls?" in result.output
    data: dict[str, Any] = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert {row["k"] for row in data["accuracy"]} == {1, 2, 3}
    assert data["rise"][0]["verdict"] in VERDICTS
    wrong = CliRunner().invoke(app, [*words, "--gold=best", "--kk=1"])
    assert wrong.exit_code == 2
    assert "2 settings are wrong" in wrong.output


def test_controls_of_the_rise() -> None:
    def claims(*edges: tuple[float, float] | None) -> list[Finding]:
        gaps = (None if edge is None else Estimate(sum(edge) / 2, *edge, 9, 9) for edge in edges)
        finding = rise_finding([Rise(30, 0, 3, *gaps).facts()])  # type: ignore[arg-type]
        assert finding is not None
        return [finding]

    fallen, risen, still = (-2.0, -1.0), (0.1, 0.3), (0.0, 0.0)
    memorized = claims(fallen, risen, still)
    # Not trained; trained, and held-out records come back as much; and no held-out records to tell.
    for nothing in (claims(still, still, still), claims(fallen, risen, risen), claims(fallen, risen, None)):
        check_controls(nothing=nothing, everything=memorized, success={"rise"})
