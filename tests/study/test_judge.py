"""Judging as a run: recorded, resumed, guarded, and added to a model's scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer

import medunlearn as mu
from medunlearn.config import EvaluateSettings, JudgeSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, MedunlearnError, ModelError, SourceError
from medunlearn.judging.controls import control_cases
from medunlearn.judging.judges import judges_of
from medunlearn.judging.panel_run import JudgingRun, gather_material
from medunlearn.judging.rated_responses import METRICS
from medunlearn.metrics.judged import NOT_JUDGED
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.judging_jobs import job

VALID = {"clear": True, "correct": True, "derivable": True, "meaningful": True, "valid": True}
RATINGS = {"a": 8, "b": 6}
CONTROLS = {task: len(control_cases(task)) for task in ("label", "question", "factuality")}
"""Requests per judge besides those about the cases."""


def opinion(body: dict[str, Any]) -> str:
    """Rates by model; finds one question in two of judge b unclear."""
    text = next(message["content"] for message in body["messages"] if message["role"] == "user")
    if "<response>" in text:
        return json.dumps({"reasoning": "So it is.", "rating": RATINGS[body["model"]]})
    if "<assigned_category>" in text:
        own = text.partition("<assigned_category>\n")[2].partition("\n")[0]
        return json.dumps({"reasoning": "x", "verdict": "Supported", "correct_category": own})
    bad = body["model"] == "b" and len(text) % 2
    return json.dumps({"reasoning": "x", **VALID} | ({"clear": False, "valid": False} if bad else {}))


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    with ExitStack() as stack:
        yield lambda *behave: stack.enter_context(FakeServer(behave or ("well",), answer=opinion))


def entries(server: FakeServer, *names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"base_url": server.base_url, "model": n, "backoff_seconds": 0.01, "retries": 0, **more} for n in names]


def test_questions_of_a_benchmark(hospital: Benchmark, serve: Callable[..., Any], tmp_path: Path) -> None:
    server = serve()
    how = {"llm": entries(server, "a", "b"), "task": "question", "limit": 5, "replicates": 20, "quiet": True}
    judged = mu.judge(hospital, out=tmp_path / "out", **how)
    assert server.count == 20 + 2 * CONTROLS["question"]
    info = judged.run.info
    assert (info["verb"], info["status"], info["label"]) == ("judge", "complete", "judged questions")
    assert info["results"]["outcomes"] == {"a": {"answered": 10}, "b": {"answered": 10}}
    assert info["results"]["judges"]["a"]["guard"]["on_this_machine"]
    assert set(judged.table("verdicts.parquet")["judge"]) == {"a", "b", "panel"}
    assert set(judged.table("criteria.parquet")["criterion"]) == {"clear", "correct", "derivable", "meaningful"}
    assert judged.table("panel.parquet")["verdict"].isin(["Valid", "Split"]).all()
    written = (judged.run.folder / "run.json").read_text() + judged.words
    assert not [i.value for record in hospital.records for i in record.identifiers if i.value in written]
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    # A second run asks nothing, wherever the server is now and whatever it may cost.
    again = mu.judge(hospital, out=tmp_path / "out", **{**how, "llm": entries(serve(), "a", "b", concurrency=2)})
    assert again.run.info == info
    with pytest.raises(InputError, match=r"differs in limit: 5 there, 6 here; cases"):
        mu.judge(hospital, out=tmp_path / "out", **{**how, "limit": 6})
    assert server.count == 20 + 2 * CONTROLS["question"]


def test_a_budget_stops_it_and_more_money_finishes_it(
    hospital: Benchmark, serve: Callable[..., Any], tmp_path: Path
) -> None:
    server = serve()
    how = {"task": "label", "replicates": 20, "quiet": True, "out": tmp_path / "out"}
    with pytest.raises(MedunlearnError, match=r"13 of 20 judgements are missing.*budget of 7 requests") as stopped:
        mu.judge(hospital, llm=entries(server, "a", budget_requests=7), **how)
    assert stopped.value.exit_code == 1
    assert server.count == 7
    with pytest.raises(InputError, match="not complete"):
        JudgingRun.open(tmp_path / "out")
    judged = mu.judge(hospital, llm=entries(server, "a"), **how)
    assert server.count == 20 + CONTROLS["label"]
    assert judged.run.info["results"]["outcomes"] == {"a": {"answered": 20}}
    # Stopped and resumed, every table is what it would have been.
    whole = mu.judge(hospital, llm=entries(serve(), "a"), **{**how, "out": tmp_path / "whole"})
    tables = sorted(file.name for file in whole.run.folder.glob("*.parquet"))
    assert tables == [f"{name}.parquet" for name in ("cases", "controls", "judgements", "panel", "verdicts")]
    for name in tables:
        pd.testing.assert_frame_equal(judged.table(name), whole.table(name), check_exact=True)


def test_what_a_judge_did_not_answer_is_missing_and_can_be_asked_again(
    hospital: Benchmark, serve: Callable[..., Any], tmp_path: Path
) -> None:
    how = {"task": "label", "replicates": 20, "quiet": True, "out": tmp_path / "out"}
    dying, gone = serve(*["well"] * 5, "error_500"), serve("error_500")
    with pytest.raises(MedunlearnError, match="15 of 20 judgements are missing"):
        mu.judge(hospital, llm=entries(dying, "a", concurrency=1), **how)
    judged = mu.judge(hospital, llm=entries(gone, "a"), allow_missing=True, **how)
    assert gone.count == 15 + CONTROLS["label"]
    panel = judged.table("panel.parquet")
    assert (panel["verdict"].notna().sum(), panel["reason"].notna().sum()) == (5, 15)
    assert "| a | failed |" in " ".join(judged.words.split())
    back, rest = serve(), {**how, "llm": entries(gone, "a")}
    assert mu.judge(hospital, allow_missing=True, **rest).run.info == judged.run.info
    assert gone.count == 15 + CONTROLS["label"]
    # Without the permission the missing ones are asked.
    whole = mu.judge(hospital, **{**how, "llm": entries(back, "a")})
    assert back.count == 15 + CONTROLS["label"]
    assert whole.run.info.results["outcomes"] == {"a": {"answered": 20}}
    how, better = {**how, "out": tmp_path / "unusable"}, serve()
    judged = mu.judge(hospital, llm=entries(serve("wrong_schema"), "a", corrections=0), **how)
    assert judged.run.info.results["outcomes"] == {"a": {"invalid": 20}}
    judged = mu.judge(hospital, llm=entries(better, "a"), again=True, **how)
    assert better.count == 20 + CONTROLS["label"]
    assert judged.run.info.results["outcomes"] == {"a": {"answered": 20}}


def test_identified_records_stay_here(hospital: Benchmark, tmp_path: Path) -> None:
    away = [{"base_url": "https://judge.example/v1", "model": "a"}]
    with pytest.raises(InputError, match=r"20 records carry identifiers: it stays here.*--allow-remote-llm"):
        mu.judge(hospital, llm=away, task="label", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    plan = job(hospital, judges_of(away), JudgeSettings(), "label", out=tmp_path / "out").plan()
    assert (plan.decisions["a"].allowed, plan.estimates["a"].requests) == (False, 20 + CONTROLS["label"])
    assert not (tmp_path / "out").exists()
    # Nobody said that a table is open: it counts as credentialed.
    table = tmp_path / "t.csv"
    table.write_text("case_id,title,category\n1,A mass,Cancer\n")
    with pytest.raises(InputError, match="nobody says that the data is open"):
        mu.judge(table, llm=away, task="label", out=tmp_path / "out")


def test_a_run_that_was_cut_off_is_never_loosened(
    hospital: Benchmark, serve: Callable[..., Any], tmp_path: Path
) -> None:
    how = {"task": "label", "replicates": 20, "quiet": True, "out": tmp_path / "out"}
    assert hospital.data_use == "open"
    with pytest.raises(MedunlearnError, match="judgements are missing"):
        mu.judge(replace(hospital, data_use="credentialed"), llm=entries(serve("error_500"), "a"), **how)
    with pytest.raises(InputError, match="the data is credentialed"):
        mu.judge(hospital, llm=[{"base_url": "https://judge.example/v1", "model": "a"}], **how)


def test_what_goes_with_what(hospital: Benchmark, target: Run, evaluated: Evaluated, tmp_path: Path) -> None:
    here = [{"base_url": "http://127.0.0.1:1/v1", "model": "a"}]
    judges = judges_of(here)
    for what, more, part in (
        (hospital, {"task": "label"}, "needs --task .* and --out"),
        (
            hospital,
            {"task": "label", "out": tmp_path, "benchmark": hospital},
            "only for judging the responses of a run",
        ),
        (target, {}, "--benchmark FOLDER"),
        (target, {"task": "label", "benchmark": hospital}, "task factuality"),
    ):
        with pytest.raises(InputError, match=part):
            job(what, judges, JudgeSettings(), **more)
    other = replace(hospital, questions=hospital.questions[1:])
    with pytest.raises(InputError, match="another benchmark"):
        mu.judge(evaluated.run, llm=here, benchmark=other)
    with pytest.raises(InputError, match="no responses to rate"):
        gather_material(hospital, "factuality", JudgeSettings())
    with pytest.raises(InputError, match="give one of them"):
        gather_material(hospital, "label", check(JudgeSettings, {"per_group": 1, "limit": 1}))
    with pytest.raises(InputError, match="There is no group 'cloze'"):
        gather_material(hospital, "question", check(JudgeSettings, {"groups": ("cloze",)}))
    with pytest.raises(ConfigError, match=r"--llm\.model is missing"):
        judges_of("http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="names its models"):
        judges_of("judges.yaml", "m")
    with pytest.raises(InputError, match="a run of `train`"):
        JudgingRun.open(target.folder)


@pytest.fixture
def evaluated(hospital: Benchmark, copy: Callable[..., Run]) -> Evaluated:
    """A copy of the target, asked all questions about two patients a side."""
    quick = {"split": "random_10", "replicates": 20, "limit": 2, "max_new_tokens": 4}
    return evaluate_one(copy(), hospital, check(EvaluateSettings, quick), quiet=True)


def test_factuality_goes_into_the_scores(
    hospital: Benchmark, evaluated: Evaluated, serve: Callable[..., Any]
) -> None:
    server, before = serve(), (evaluated.summary, evaluated.scores)
    how = {"benchmark": hospital, "llm": entries(server, "a", "b"), "replicates": 20, "quiet": True}
    with pytest.raises(ModelError, match=r"all of its 32 answers are the same"):
        mu.judge(evaluated.run, **how)
    how["allow_broken"] = True
    asked = job(evaluated.run, judges_of(how["llm"]), JudgeSettings(allow_broken=True), benchmark=hospital)
    assert {one.requests for one in asked.plan().estimates.values()} == {32 + CONTROLS["factuality"]}
    # A response may hold an identifier of any record.
    every = {i.value for record in hospital.records for i in record.identifiers}
    assert {*(asked.material.cases[0].identifiers or ())} == every
    judged = mu.judge(evaluated.run, **how)
    assert server.count == 64 + 2 * CONTROLS["factuality"]
    assert {one.requests for one in asked.plan().estimates.values()} == {0}
    after = Evaluated.find(evaluated.run)
    new = after.scores[after.scores["measure"].isin(["factuality", "gen_score"])]
    assert set(new["question_id"]) == set(evaluated.questions["question_id"])
    # Judges rate 8 and 6: their mean is 7.
    assert set(new[new["measure"] == "factuality"]["value"]) == {0.7}
    rouge = evaluated.scores[evaluated.scores["measure"] == "rouge_l"]["value"].mean()
    gen = new[new["measure"] == "gen_score"]["value"]
    # 75 * 0.7 and up to 25 for words in common; a model this small may well have none.
    assert 52.49 < gen.min() <= gen.max() < 77.51
    assert (gen.max() > 52.51) == (rouge > 0)
    # What was there before has not changed by a bit, intervals included.
    old = after.summary[~after.summary["measure"].isin(METRICS)].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, before[0], check_exact=True)
    assert set(judged.table("ratings.parquet")["judge"]) == {"a", "b", "panel"}
    # Twice is once.
    mu.judge(evaluated.run, **how)
    assert server.count == 64 + 2 * CONTROLS["factuality"]
    pd.testing.assert_frame_equal(Evaluated.find(evaluated.run).scores, after.scores, check_exact=True)
    # Another evaluation of the same responses costs nothing to judge.
    evaluation = {"split": "random_10", "replicates": 30, "limit": 2, "max_new_tokens": 4}
    evaluate_one(evaluated.run, hospital, check(EvaluateSettings, evaluation), quiet=True)
    mu.judge(evaluated.run, **how)
    assert server.count == 64 + 2 * CONTROLS["factuality"]
    report = mu.report([evaluated.run], out=evaluated.run.folder / "report", benchmark=hospital)
    assert "Gen Score" in (report.parent / "report.md").read_text()


def test_a_response_that_a_judge_did_not_rate_is_unscored(
    hospital: Benchmark, evaluated: Evaluated, serve: Callable[..., Any]
) -> None:
    (a,) = entries(serve(), "a")
    (b,) = entries(serve(*["well"] * 3, "refusal"), "b", concurrency=1)
    how = {"benchmark": hospital, "replicates": 20, "quiet": True, "groups": ("reasoning",), "allow_broken": True}
    mu.judge(evaluated.run, llm=[a, b], **how)
    scores = Evaluated.find(evaluated.run).scores
    found = scores[scores["measure"] == "factuality"].set_index("question_id")
    kinds = evaluated.questions.set_index("question_id")["kind"]
    assert found["value"].notna().sum() == 3
    assert (found["value"].isna() == found["reason"].notna()).all()
    reasons = found[kinds == "factual"]["reason"]
    assert set(reasons) == {NOT_JUDGED}
    assert set(found[(kinds == "reasoning") & found["value"].isna()]["reason"].str[:30]) == {
        "1 of 2 judges gave a rating (b"
    }


def test_people_check_the_judges(hospital: Benchmark, serve: Callable[..., Any], tmp_path: Path) -> None:
    judged = mu.judge(
        hospital, llm=entries(serve(), "a", "b"), task="question", limit=6, replicates=20, out=tmp_path / "out",
        quiet=True,
    )  # fmt: skip
    table, page = mu.annotate(judged, out=tmp_path / "sheet", limit=8)
    sheet = pd.read_csv(table, dtype=str, keep_default_na=False)
    assert len(sheet) == 8
    assert sheet["question"].iloc[0] in page.read_text().replace("\\u0026", "&")
    assert "Valid" not in table.read_text() + page.read_text().partition("<main>")[2].partition('id="data"')[0]
    with pytest.raises(SourceError, match="no case has a label"):
        mu.agree(judged, [table])
    sheet["label"] = ["No", *["Yes"] * 7]
    sheet.to_csv(tmp_path / "anna.csv", index=False)
    found = mu.agree(judged, [tmp_path / "anna.csv"])
    row = found.agreement[(found.agreement["measure"] == "agreement") & (found.agreement["other"] == "a")]
    assert row["value"].tolist() == [7 / 8]
    assert {"labels.parquet", "people.parquet", "confusion.parquet", "people.md"} <= {
        file.name for file in judged.run.folder.iterdir()
    }
    assert JudgingRun.open(judged.run.folder).panel.subjects == judged.panel.subjects
    # Other judgements make what was compared with them stale.
    how: dict[str, Any] = {"task": "question", "limit": 6, "replicates": 20, "out": tmp_path / "out", "quiet": True}
    mu.judge(hospital, llm=entries(serve(), "a", "b"), again=True, **how)
    assert not (tmp_path / "out" / "people.parquet").exists()
    assert (tmp_path / "out" / "labels.parquet").exists()
