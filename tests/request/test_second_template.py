"""A model that answers about as well in two templates is asked the direct questions in both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from case_evidence import case_evidence
from forgetting_world import request_copy

from medunlearn.config import ForgetSettings, check
from medunlearn.data.storage import read_json
from medunlearn.reports.markdown import to_markdown
from medunlearn.request.case.officer_page import officer_report
from medunlearn.request.forget_request import BEFORE
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.measuring_models import ModelMeter, template_in_doubt
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.results.runs import Run


def run_with(template: str, losses: dict[str, float]) -> Run:
    choice = {"template": template, "in_doubt": True, "losses": losses}
    return cast("Run", SimpleNamespace(info=SimpleNamespace(results={"template_choice": choice})))


@pytest.mark.parametrize(
    ("template", "losses", "second"),
    [
        ("chat", {"chat": 1.0, "plain": 1.04}, "plain"),
        ("plain", {"chat": 0.96, "plain": 1.0}, "chat"),
        ("chat", {"chat": 1.0, "plain": 1.06}, None),
        ("chat", {"chat": 1.0, "own.jinja": 1.0}, None),
        ("chat", {"plain": 1.0}, None),
    ],
)
def test_the_other_template_is_one_whose_loss_is_near(
    template: str, losses: dict[str, float], second: str | None
) -> None:
    assert template_in_doubt(run_with(template, losses)) == second
    assert template_in_doubt(cast("Run", SimpleNamespace(info=SimpleNamespace(results={})))) is None


def test_direct_questions_in_both_templates_are_ways_of_their_own(forgotten: Forgotten, tmp_path: Path) -> None:
    _, _, work = request_copy(forgotten, tmp_path)
    # Among fewer made-up values identifiers alone decide nothing.
    usual = {"evaluate": {"max_new_tokens": 8}}
    settings: ForgetSettings = check(ForgetSettings, {**read_json(work / "request.json")["settings"], **usual})
    benchmarks, run = RequestBenchmarks.load(work), Run.open(work / BEFORE)
    own = run.rendering().template
    second: Any = "plain" if own == "chat" else "chat"
    first = ModelMeter(benchmarks, settings, "cpu", True)
    both = replace(first, second_template=second)
    assert not both.is_measured_in_second(run)
    one, two = first.verify(run), both.verify(run)
    assert both.is_measured_in_second(run)
    added = {*two.standings.ways} - {*one.standings.ways}
    direct = {name for name in one.standings.ways if "question" in name}
    assert direct
    assert added == {f"{name} in {second}" for name in direct}
    assert {name: two.standings.values[name] for name in one.standings.ways} == one.standings.values
    battery = RequestBattery(benchmarks, settings).compare(two, two, None)
    assert added <= {check.name for check in battery.checks}
    assert battery.templates == (own, second)
    page = to_markdown(officer_report(case_evidence(battery=battery), "ab" * 32, "cd" * 32))
    assert f"asked in the template {own}; plain questions in {second} too" in page
    assert RequestBattery(benchmarks, settings).compare(one, one, None).templates == (own,)
