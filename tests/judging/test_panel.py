"""A panel asked over real HTTP: what it says, what fails, and what the panel makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import share_of_faults

from medunlearn.config import check
from medunlearn.judging import TASKS
from medunlearn.judging.judges import Judge, JudgeSettings, panel_of
from medunlearn.judging.panel import Asking, ask, dry_run
from medunlearn.judging.tables import majority, mean_rating, panel_table, wide
from medunlearn.judging.task import JudgingCase
from medunlearn.llm import RemoteRefusedError, Store, decide

Bench = Callable[..., Any]
IDS = [f"t{n}" for n in range(6)]


def asking(cases: list[JudgingCase], **settings: Any) -> Asking:
    return Asking(TASKS["label"], cases, ("Cancer", "Cardiovascular"), check(JudgeSettings, settings))


def decisions(judges: list[Judge]) -> dict[str, Any]:
    return {judge.name: decide(judge.settings.base_url, data_use="credentialed") for judge in judges}


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
    server, judges = bench(opinion, "a", "b", "c")
    with Store(tmp_path) as store:
        found, facts = ask(asking(cases, seed=7), judges, decisions(judges), store, quiet=True)
        assert server.count == 18
        votes = wide(found, "abc", IDS)
        assert votes["a"] == ["Supported"] * 6
        assert votes["b"][1] == votes["c"][1] == "Unsupported"
        assert found["case_id"].tolist() == [name for name in IDS for _ in range(3)]
        row = found.iloc[0]
        assert (row["reasoning"], json.loads(row["detail"])) == ("a says so.", {"correct_category": "Cancer"})
        assert (row["status"], row["model"], row["prompt_version"]) == ("answered", "a", "judge-label@1")
        assert facts["a"]["requests"] == 6
        body = server.seen[0][0]
        assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 1024)
        # A second run, over other addresses even, sends nothing.
        again, facts = ask(asking(cases, seed=7), judges, decisions(judges), store, quiet=True)
        assert server.count == 18
        assert facts["a"]["requests"] == 0
        assert again.equals(found)
        assert all(one.requests == 0 for one in dry_run(asking(cases, seed=7), judges, store).values())
    panel = panel_table(TASKS["label"], found, "abc")
    assert panel["verdict"].tolist() == ["Supported", "Unsupported", *["Supported"] * 4]
    assert panel["n_verdicts"].tolist() == [3] * 6


def test_a_contradiction_is_sent_back_with_the_reason(
    bench: Bench, cases: list[JudgingCase], tmp_path: Path
) -> None:
    wrong = {"reasoning": "x", "verdict": "Unsupported"}
    server, judges = bench(lambda model, text: wrong | {"correct_category": own(text)}, "a", corrections=1)
    with Store(tmp_path) as store:
        found, _ = ask(asking(cases[:1]), judges, decisions(judges), store, quiet=True)
    assert server.count == 2
    assert "correct_category is the assigned category" in server.seen[1][0]["messages"][-1]["content"]
    (row,) = found.to_dict("records")
    assert (row["status"], row["verdict"]) == ("invalid", None)
    (case,) = panel_table(TASKS["label"], found, "a").to_dict("records")
    assert case["verdict"] is None
    assert case["reason"].startswith("0 of 1 judges gave a verdict (a: invalid, ")


def test_a_judge_that_fails_leaves_its_verdict_out(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    _, (good,) = bench(opinion, "a")
    _, (other,) = bench(opinion, "c")
    _, (bad,) = bench(opinion, "b", behave=("error_500",))
    judges = [good, bad, other]
    with Store(tmp_path) as store:
        found, _ = ask(asking(cases), judges, decisions(judges), store, quiet=True)
    panel = panel_table(TASKS["label"], found, "abc")
    assert set(found[found["judge"] == "b"]["status"]) == {"failed"}
    # Two of three left: where they differ there is no majority.
    assert panel["verdict"].tolist() == ["Supported", "Disagree", "Disagree", *["Supported"] * 3]


def test_with_faults_every_case_ends_judged_once(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    _, judges = bench(opinion, "a", "b", "c", behave=share_of_faults(0.4), retries=20, corrections=20)
    with Store(tmp_path) as store:
        found, _ = ask(asking(cases), judges, decisions(judges), store, quiet=True)
        assert len(store) == 18
    assert set(found["status"]) == {"answered"}
    assert not found.duplicated(["case_id", "judge"]).any()
    assert len(found) == 18


def test_the_guard_is_asked_before_anything_is_sent(bench: Bench, cases: list[JudgingCase], tmp_path: Path) -> None:
    server, judges = bench(opinion, "a")
    judges = [*judges, *panel_of([{"base_url": "https://judge.example/v1", "model": "away"}])]
    with Store(tmp_path) as store, pytest.raises(RemoteRefusedError, match="--allow-remote-llm"):
        ask(asking(cases), judges, decisions(judges), store, quiet=True)
    assert server.count == 0


def test_a_dry_run_sends_nothing(bench: Bench, cases: list[JudgingCase]) -> None:
    server, judges = bench(opinion, "a", "b", prices={"a": [1.0, 2.0]})
    found = dry_run(asking(cases), judges, None)
    assert (found["a"].requests, found["b"].requests, server.count) == (6, 6, 0)
    assert found["a"].most.money > 0
    assert found["b"].most.money is None


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [
        ("SSS", "S"),
        ("SSU", "S"),
        ("SUA", "Disagree"),
        ("SS-", "S"),
        ("SU-", "Disagree"),
        ("S--", None),
        ("S", "S"),
        ("-", None),
        ("SU", "Disagree"),
        ("SSUU", "Disagree"),
        ("SSUA", "Disagree"),  # the most votes, but not the majority
        ("SSS--", "S"),
        ("SSU--", "Disagree"),
        ("", None),
    ],
)
def test_majority(votes: str, verdict: str | None) -> None:
    found, reason = majority([None if vote == "-" else vote for vote in votes], "Disagree")
    assert found == verdict
    assert (reason is None) == (verdict is not None)


def test_a_rating_needs_every_judge() -> None:
    assert mean_rating(["10", "7", "4"]) == (7.0, None)
    assert mean_rating(["10", None]) == (None, "1 of 2 judges gave a rating")
    assert mean_rating([]) == (None, "0 of 0 judges gave a rating")
