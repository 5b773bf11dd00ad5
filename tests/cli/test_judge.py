"""`medunlearn judge`, `annotate`, `agree`, as somebody types them."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer

from medunlearn.judging.controls import control_cases

QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--allow-broken")
Command = Callable[..., Any]


def supports(body: dict[str, Any]) -> str:
    text = next(message["content"] for message in body["messages"] if message["role"] == "user")
    own = text.partition("<assigned_category>\n")[2].partition("\n")[0]
    return json.dumps({"reasoning": "x", "verdict": "Supported", "correct_category": own})


def panel(folder: Path, server: FakeServer) -> Path:
    lines = [f"  - {{base_url: '{server.base_url}', model: {name}}}" for name in ("one", "two", "three")]
    (folder / "judges.yaml").write_text("\n".join(["judges:", *lines]))
    return folder / "judges.yaml"


def test_labels_from_dry_run_to_people(medunlearn: Command, bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels"
    with FakeServer(answer=supports) as server:
        words = (
            "judge",
            bench,
            "--task",
            "label",
            "--llm",
            panel(tmp_path, server),
            "--out",
            out,
            "--replicates=20",
            "--allow-broken",
        )
        plan = medunlearn(*words, "--dry-run")
        assert "Nothing was sent." in plan.stdout
        assert "is on this machine" in plan.stdout
        assert (server.count, out.exists()) == (0, False)
        result = medunlearn(*words)
        assert server.count == 60 + 3 * len(control_cases("label"))
        assert "| Supported | 20 (100.0%) |" in " ".join(result.stdout.split())
        again = json.loads(medunlearn(*words, "--llm.concurrency=2", "--json").stdout)
        assert server.count == 60 + 3 * len(control_cases("label"))
        assert again["outcomes"]["two"] == {"answered": 20}
    sheet = tmp_path / "sheet"
    assert "open it in a browser" in medunlearn("annotate", out, "--limit", 5, "--out", sheet).text
    assert "may contain labels" in medunlearn("annotate", out, "--out", sheet, code=2).text
    rows = list(csv.DictReader((sheet / "labels.csv").read_text(encoding="utf-8-sig").splitlines()))
    with (tmp_path / "anna.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("case_id", "label"))
        writer.writerows((row["case_id"], "yes") for row in rows)
    agreement = " ".join(medunlearn("agree", out, tmp_path / "anna.csv").stdout.split())
    assert "| Agreement | anna | panel | 100.0%" in agreement
    # All Yes on both sides: chance alone agrees, so there is no kappa, and no 0 in its place.
    assert "| Cohen's kappa | anna | panel | none |" in agreement
    payload = json.loads(medunlearn("agree", out, tmp_path / "anna.csv", "--json").stdout)
    assert {row["value"] for row in payload["agreement"] if row["measure"] == "cohen_kappa"} == {None}
    assert "no case has a label" in medunlearn("agree", out, sheet / "labels.csv", code=2).text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--task", "labels", "--out", "x"), "Did you mean 'label'?"),
        (("--task", "label"), "needs --task"),
        (("--task", "label", "--out", "x", "per_grup=3"), "Did you mean --per-group?"),
        (("--task", "label", "--out", "x", "--llm.concurency=3"), "judge 1: There is no setting 'concurency'"),
        (("--task", "label", "--out", "x", "--split=random_10"), "only for judging the responses of a run"),
    ],
)
def test_wrong_words(medunlearn: Command, bench: Path, words: tuple[str, ...], part: str) -> None:
    server = ("--llm", "http://127.0.0.1:1/v1", "--llm.model", "m")
    assert part in medunlearn("judge", bench, *server, *words, code=2).text


def test_a_server_away_needs_the_flag(medunlearn: Command, bench: Path, tmp_path: Path) -> None:
    words = ("judge", bench, "--task", "label", "--llm", "https://judge.example/v1", "--llm.model", "m")
    result = medunlearn(*words, "--out", tmp_path / "x", code=2).text
    assert "--allow-remote-llm" in result
    result = medunlearn(*words, "--out", tmp_path / "x", "--dry-run", "--allow-remote-llm").stdout
    assert "permitted by --allow-remote-llm" in " ".join(result.split())


def test_a_budget_ends_with_1(medunlearn: Command, bench: Path, tmp_path: Path) -> None:
    with FakeServer(answer=supports) as server:
        words = ("judge", bench, "--task", "label", "--llm", server.base_url, "--llm.model", "m", "--replicates=20")
        result = medunlearn(*words, "--out", tmp_path / "x", "--llm.budget-requests=3", code=1).text
        assert "17 of 20 judgements are missing" in result
        medunlearn(*words, "--out", tmp_path / "x", "--quiet")
        assert server.count == 20 + len(control_cases("label"))


def test_the_responses_of_a_run(medunlearn: Command, bench: Path, target: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses"))
    medunlearn("evaluate", run, bench, "--split", "random_10", *QUICK)
    with FakeServer(answer=lambda body: '{"reasoning": "x", "rating": 4}') as server:
        words = (
            "judge",
            run,
            "--benchmark",
            bench,
            "--llm",
            server.base_url,
            "--llm.model",
            "m",
            "--replicates=20",
            "--allow-broken",
        )
        assert "| all | m | 4.000 | 32 | 0 |" in " ".join(medunlearn(*words).stdout.split())
        assert server.count == 32 + len(control_cases("factuality"))
    result = json.loads(medunlearn("evaluate", run, bench, "--split", "random_10", *QUICK, "--json").stdout)
    means = {row["value"] for row in result["table"] if row["measure"] == "factuality"}
    assert sorted(means) == pytest.approx([0.4] * len(means))


def test_a_report_has_the_panels(medunlearn: Command, bench: Path, target: Path, tmp_path: Path) -> None:
    """Of the benchmark's labels, with a person, and of the model's responses; no text of either."""
    run, labels = tmp_path / "run", tmp_path / "labels"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses"))
    medunlearn("evaluate", run, bench, "--split", "random_10", *QUICK)
    with FakeServer(answer=lambda body: '{"reasoning": "Zanzibar", "rating": 4}') as server:
        words = ("--benchmark", bench, "--llm", panel(tmp_path, server), "--replicates=20", "--quiet")
        medunlearn("judge", run, *words, "--allow-broken")
    with FakeServer(answer=supports) as server:
        words = ("--task", "label", "--llm", panel(tmp_path, server), "--out", labels, "--replicates=20", "--quiet")
        medunlearn("judge", bench, *words)
    assert "name at least one evaluated run" in medunlearn("report", labels, "--out", tmp_path / "r", code=2).text
    case = json.loads(medunlearn("inspect", labels, "--json").stdout)["results"]["outcomes"]["one"]
    assert case == {"answered": 20}
    rows = pd.read_parquet(labels / "cases.parquet")["case_id"]
    (tmp_path / "anna.csv").write_text("case_id,label\n" + "".join(f"{name},Yes\n" for name in rows))
    medunlearn("agree", labels, tmp_path / "anna.csv", "--quiet")
    medunlearn("report", run, labels, "--out", tmp_path / "r", "--quiet")
    page, text = ((tmp_path / "r" / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    for document in (page, text):
        assert "Category label: 20 cases, 20 subjects, 3 judges" in document
        assert "target. Factuality of responses: 32 cases" in document
        assert "anna (rows) and panel (columns)" in document
        assert "Fleiss&#39; kappa" in document or "Fleiss' kappa" in document
        assert "Zanzibar" not in document
        # Every rating is 4, of control cases too, which are right or wrong.
        assert f"one gave the expected verdict on 0 of {len(control_cases('factuality'))} control cases" in document
    assert "20 (100.0%)<small>[83.2%, 100.0%]</small></td>" in page
    assert "| all | panel | 4.000 | 32" in " ".join(text.split())
    payload = json.loads((tmp_path / "r" / "report.json").read_text())["judged"]
    assert [section["title"] for section in payload[0]["sections"]][:2] == ["Verdicts", "Panel by group"]
    medunlearn("report", run, "--out", tmp_path / "s", "--quiet")
    assert "Category label" not in (tmp_path / "s" / "report.html").read_text(encoding="utf-8")


def test_a_run_that_is_none_of_these(medunlearn: Command, bench: Path) -> None:
    assert "holds no run" in medunlearn("agree", bench, bench / "benchmark.yaml", code=2).text
    assert "holds no run" in medunlearn("annotate", bench, "--out", bench / "s", code=2).text
