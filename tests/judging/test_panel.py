"""A panel over real HTTP: verdicts, failures, and the panel's majority."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import share_of_faults

from medunlearn.config import JudgeSettings, check
from medunlearn.errors import MedunlearnError
from medunlearn.judging.controls import control_cases
from medunlearn.judging.judges import Judge, panel_of
from medunlearn.judging.panel import JudgingMaterial, ask
from medunlearn.judging.panel_run import plan, refuse_unfinished
from medunlearn.judging.panel_tables import JudgePanel, majority, mean_rating
from medunlearn.judging.tasks import JudgingCase, get_task
from medunlearn.llm import RemoteRefusedError, Store
from medunlearn.llm.faults import next_step

Bench = Callable[..., Any]


def run_panel(
    cases: list[JudgingCase], judges: list[Judge], folder: Path, **settings: Any
) -> tuple[JudgePanel, Any]:
    """The panel after all judges were asked, and the facts of each."""
    material = JudgingMaterial(
        get_task("label"), cases, ("Cancer", "Cardiovascular"), check(JudgeSettings, settings)
    )
    with Store(folder) as store:
        judgements, facts = ask(material, judges, material.decisions(judges), store, quiet=True)
    return JudgePanel(material.task, cases, [judge.name for judge in judges], judgements), facts


def own(text: str) -> str:
    return text.partition("<assigned_category>\n")[2].partition("\n")[0]


def opinion(model: str, text: str) -> dict[str, str]:
    """a supports; b supports but for title 1; c supports neither 1 nor 2, and 2 it finds ambiguous."""
    verdict, category = "Supported", own(text)
    if "Title 1:" in text and model in "bc":
        verdict, category = "Unsupported", "Unclear"
    if "Title 2:" in text and model == "c":
        verdict = "Ambiguous"
    return {"reasoning": f"{model} says so.", "verdict": verdict, "correct_category": category}


def test_every_judge_on_every_case(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    server, judges = bench(opinion, "a", "b", "c", prices={"a": [1.0, 2.0]})
    material = JudgingMaterial(get_task("label"), cases, ("Cancer", "Cardiovascular"), JudgeSettings(seed=7))
    before = plan(material, judges, tmp_path).estimates
    with_controls = 6 + len(control_cases("label"))
    assert (before["a"].requests, before["b"].requests, server.count) == (with_controls, with_controls, 0)
    assert before["a"].most.money > 0
    assert before["b"].most.money is None
    panel, facts = run_panel(cases, judges, tmp_path, seed=7)
    assert server.count == 18
    assert panel.votes["a"] == ["Supported"] * 6
    assert panel.votes["b"][1] == panel.votes["c"][1] == "Unsupported"
    judgements = panel.judgements
    assert judgements["case_id"].tolist() == [case.case_id for case in cases for _ in range(3)]
    row = judgements.iloc[0]
    assert (row["reasoning"], json.loads(row["detail"])) == ("a says so.", {"correct_category": "Cancer"})
    assert (row["status"], row["model"], row["prompt_version"]) == ("answered", "a", "judge-label@1")
    assert facts["a"]["requests"] == 6
    body = server.seen[0][0]
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 1024)
    # A second run sends nothing.
    again, facts = run_panel(cases, judges, tmp_path, seed=7)
    assert (server.count, facts["a"]["requests"]) == (18, 0)
    assert again.judgements.equals(judgements)
    left = {cost.requests for cost in plan(material, judges, tmp_path).estimates.values()}
    assert left == {len(control_cases("label"))}
    verdicts = panel.panel_verdicts()
    assert verdicts["verdict"].tolist() == ["Supported", "Unsupported", *["Supported"] * 4]
    assert verdicts["n_verdicts"].tolist() == [3] * 6


def test_a_contradiction_is_sent_back_with_the_reason(
    bench: Bench, cases: list[JudgingCase], tmp_path: Path
) -> None:
    wrong = {"reasoning": "x", "verdict": "Unsupported"}
    server, judges = bench(lambda model, text: wrong | {"correct_category": own(text)}, "a", corrections=1)
    panel, _ = run_panel(cases[:1], judges, tmp_path)
    assert server.count == 2
    assert "correct_category is the assigned category" in server.seen[1][0]["messages"][-1]["content"]
    (row,) = panel.judgements.to_dict("records")
    assert (row["status"], row["verdict"]) == ("invalid", None)
    (case,) = panel.panel_verdicts().to_dict("records")
    assert case["verdict"] is None
    assert case["reason"].startswith("0 of 1 judges gave a verdict (a: invalid, ")


def test_a_judge_that_fails_leaves_its_verdict_out(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    judges = [
        bench(opinion, name, behave=(behave,))[1][0]
        for name, behave in zip("abc", ("well", "error_500", "well"), strict=True)
    ]
    panel, _ = run_panel(cases, judges, tmp_path)
    assert set(panel.judgements.groupby("judge")["status"].unique().loc["b"]) == {"failed"}
    # Two of three left: where they differ there is no majority.
    expected = ["Supported", "Disagree", "Disagree", *["Supported"] * 3]
    assert panel.panel_verdicts()["verdict"].tolist() == expected


def test_with_faults_every_case_ends_judged_once(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    _, judges = bench(opinion, "a", "b", "c", behave=share_of_faults(0.4), retries=20, corrections=20)
    judgements = run_panel(cases, judges, tmp_path)[0].judgements
    assert set(judgements["status"]) == {"answered"}
    assert not judgements.duplicated(["case_id", "judge"]).any()
    assert len(judgements) == 18


@pytest.mark.parametrize(
    ("behave", "permanent"), [("unauthorized", True), ("bad_request", True), ("error_500", False)]
)
def test_what_is_said_about_missing_answers_can_help(
    bench: Bench, cases: list[JudgingCase], tmp_path: Path, behave: str, permanent: bool
) -> None:
    _, judges = bench(opinion, "a", behave=(behave,), retries=0)
    _, facts = run_panel(cases, judges, tmp_path)
    assert facts["a"]["permanent"] == permanent
    with pytest.raises(MedunlearnError) as missing:
        refuse_unfinished(run_panel(cases, judges, tmp_path)[0].judgements, facts)
    assert next_step(permanent) in str(missing.value)
    assert next_step(not permanent) not in str(missing.value)


def test_the_guard_is_asked_before_anything_is_sent(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    server, judges = bench(opinion, "a")
    judges = [*judges, *panel_of([{"base_url": "https://judge.example/v1", "model": "away"}])]
    with pytest.raises(RemoteRefusedError, match="--allow-remote-llm"):
        run_panel(cases, judges, tmp_path)
    assert server.count == 0


MAJORITIES = {
    "S": "SSS SSU SS- SSS--",
    # The last but one has a verdict with most votes that is not the majority.
    "Disagree": "SUA SU- SSUU SSUA SSU--",
    None: "S-- -",
}


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [(votes, verdict) for verdict, several in MAJORITIES.items() for votes in several.split()] + [("", None)],
)
def test_majority(votes: str, verdict: str | None) -> None:
    of_panel, reason = majority([None if vote == "-" else vote for vote in votes], "Disagree")
    assert of_panel == verdict
    assert (reason is None) == (verdict is not None)


def test_a_rating_needs_every_judge() -> None:
    assert mean_rating(["10", "7", "4"]) == (7.0, None)
    assert mean_rating(["10", None]) == (None, "1 of 2 judges gave a rating")
    assert mean_rating([]) == (None, "0 of 0 judges gave a rating")
