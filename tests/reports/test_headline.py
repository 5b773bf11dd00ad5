"""What the report concludes: axes, distances, the closest model, and what it says when it cannot conclude."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from control_tables import Level, all_but_one, damaged, damaged_but_trained, knows, never_saw, report_content, table

from medunlearn.errors import InputError
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.headline import verdict
from medunlearn.reports.readings import Place, Results, main_plane, panel_planes, standings
from medunlearn.reports.unlearning import unlearning_report
from medunlearn.results.contrasts import Contrast
from medunlearn.results.reference_check import ReferenceCheck

UTILITY, FORGETTING = "H(rouge_l, em, te)", "H(1-rouge_l, 1-em)"


def changed(
    content: ReportContent, change: Callable[[pd.DataFrame], pd.DataFrame], only: str = ""
) -> ReportContent:
    """The summaries of all models, or of one, changed."""

    def model(one: ModelResult) -> ModelResult:
        return replace(one, summary=change(one.summary.copy())) if only in ("", one.label) else one

    return replace(content, models=tuple(map(model, content.models)))


def test_the_trade_off_is_of_the_composites_that_are_there(content: ReportContent) -> None:
    where = main_plane(Results(content))
    assert (where.fold, where.kind, where.utility, where.forgetting) == ("train", "all", UTILITY, FORGETTING)
    full = Results(changed(content, lambda table: table.replace({"measure": {UTILITY: "MU"}})))
    assert main_plane(full).utility == "MU"
    assert full.describe("MU", "retain")[0] == "Model utility"
    assert "utility" not in Results(content).describe(UTILITY, "retain")[0].lower()
    bare = changed(content, lambda table: table[table["measure"].isin(["em", "DS"])])
    where = main_plane(Results(bare))
    assert (where.utility, where.forgetting) == ("em", "em")


def test_composites_of_other_parts_are_not_put_on_one_axis(content: ReportContent) -> None:
    other = changed(content, lambda table: table.replace({"measure": {UTILITY: "H(rouge_l, em)"}}), "NPO")
    results = Results(other)
    where = main_plane(results)
    assert where.utility == UTILITY
    npo = next(one for one in standings(results, where) if one.model.label == "NPO")
    assert (npo.utility, npo.placed) == (None, False)


def test_distance_is_of_the_paired_differences(content: ReportContent) -> None:
    results = Results(content)
    ranked = standings(results, main_plane(results))
    assert [one.model.label for one in ranked[:3]] == ["target", "retrained", "RMU"]
    assert ranked[1].distance is None
    # RMU 0.79 and 0.57, retrained 0.80 and 0.62.
    assert ranked[2].distance == pytest.approx(math.sqrt(0.01**2 + 0.05**2))
    assert ranked[-1].model.label == "GA"


def test_a_comparison_is_preferred_to_the_difference_of_two_means(content: ReportContent) -> None:
    comparisons = content.comparisons.copy()
    rows = (comparisons["model"] == "RMU") & (comparisons["side"] == "retain")
    comparisons.loc[rows, ["difference", "low", "high"]] = [-0.02, -0.03, -0.01]
    results = Results(replace(content, comparisons=comparisons))
    rmu = next(model for model in content.models if model.label == "RMU")
    paired, unpaired = (results.gap(rmu, Place("retain", fold, "all"), UTILITY) for fold in ("train", "holdout"))
    assert paired is not None
    assert (paired.difference, paired.tells_apart) == (-0.02, True)
    assert unpaired is not None
    assert (unpaired.difference, unpaired.tells_apart) == (pytest.approx(-0.01), None)


def test_the_verdict_names_the_closest_and_how_sure_it_is(content: ReportContent) -> None:
    results = Results(content)
    closest, answer = verdict(standings(results, main_plane(results)), None)
    assert (closest, answer.answer) == ("RMU", "RMU")
    assert "forgetting −0.050 [−0.080, −0.020]" in answer.sentences[0]
    # The interval of utility, [-0.04, 0.02], holds 0; that of forgetting does not.
    assert answer.sentences[1].startswith("The interval of forgetting leaves 0 out")
    wide = Results(replace(content, comparisons=content.comparisons.assign(low=-0.9, high=0.9)))
    assert "no proof" in verdict(standings(wide, main_plane(wide)), None)[1].sentences[1]


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        ({"target", "NPO"}, "Not measured"),
        ({"target", "retrained"}, "No unlearned model"),
        # GA is further from the retrained model than the target model is.
        ({"target", "retrained", "GA"}, "None"),
    ],
)
def test_where_nothing_can_be_concluded_the_verdict_says_so(
    content: ReportContent, labels: set[str], answer: str
) -> None:
    few = Results(replace(content, models=tuple(one for one in content.models if one.label in labels)))
    closest, headline = verdict(standings(few, main_plane(few)), None)
    assert (closest, headline.answer) == (None, answer)


def broken(content: ReportContent, label: str) -> Results:
    """The content with one model that answers nothing."""
    problems = ("all of its 40 answers are empty",)
    models = (replace(one, problems=problems) if one.label == label else one for one in content.models)
    return Results(replace(content, models=tuple(models)))


def test_a_broken_model_is_never_the_closest(content: ReportContent) -> None:
    results = broken(content, "RMU")
    closest, headline = verdict(standings(results, main_plane(results)), None)
    assert closest not in (None, "RMU")
    assert headline.sentences[0] == "Left out, because broken: RMU."


@pytest.mark.parametrize("label", ["target", "retrained"])
def test_nothing_is_read_against_a_broken_model(content: ReportContent, label: str) -> None:
    results = broken(content, label)
    closest, headline = verdict(standings(results, main_plane(results)), None)
    assert (closest, headline.answer) == (None, "Not decided")
    assert headline.sentences[0] == f"{label} is broken: all of its 40 answers are empty."


def test_a_reference_that_failed_decides_nothing(content: ReportContent) -> None:
    """The retrained model never learned the retain set: utility 0.376 of the target's 0.951."""
    failed = Contrast(-0.48, -0.52, -0.44, 30, "", "MU")
    check = ReferenceCheck(failed, Contrast(0.9, 0.85, 0.95, 30, "", "AFE"))
    report = unlearning_report(replace(content, reference=check))
    assert report.data["headline"]["closest_to_retrained"] is None
    assert "the retain set" in report.data["headline"]["explanation"]
    assert report.data["headline"]["reference"]["passed"] is False
    assert not any(own["passed"] for own in report.data["headline"]["forgetting"].values())
    passed = ReferenceCheck(Contrast(0.08, 0.05, 0.11, 30, "", "MU"), Contrast(0.9, 0.85, 0.95, 30, "", "AFE"))
    report = unlearning_report(replace(content, reference=passed))
    assert report.data["headline"]["closest_to_retrained"] == "RMU"


def test_a_method_without_a_number_is_never_the_closest(content: ReportContent) -> None:
    def unscored(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[table["measure"] == UTILITY, ["value", "low", "high"]] = pd.NA
        return table

    results = Results(replace(changed(content, unscored, "RMU"), comparisons=pd.DataFrame()))
    ranked = standings(results, main_plane(results))
    assert verdict(ranked, None)[0] == "SimNPO"
    assert (ranked[-1].model.label, ranked[-1].distance) == ("RMU", None)


def test_any_kinds_make_panels(content: ReportContent) -> None:
    pairs = [(fold, kind) for fold in ("train", "holdout") for kind in ("factual", "reasoning")]
    assert [(one.fold, one.kind) for one in panel_planes(Results(content))] == pairs
    kinds = {"factual": "completion", "reasoning": "knowledge"}
    other = Results(changed(content, lambda table: table.replace({"kind": kinds})))
    assert {one.kind for one in panel_planes(other)} == set(kinds.values())


def test_two_models_of_one_label_are_refused(content: ReportContent) -> None:
    with pytest.raises(InputError, match="one label"):
        Results(replace(content, models=(content.models[0], content.models[0])))


CONTROLS: dict[str, Level] = {
    "did nothing": knows,
    **{f"damage {share:.0%}": damaged(share) for share in (0.05, 0.15, 0.3, 0.6)},
    "scrambled": damaged(1.0),
    "trained questions kept": damaged_but_trained,
    "one remembered": all_but_one,
}


def headline_of(models: dict[str, pd.DataFrame], without: str = "", **broken: tuple[str, ...]) -> dict[str, Any]:
    data = unlearning_report(report_content(models, broken, without)).data["headline"]
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_alone_is_never_the_closest(control: str) -> None:
    data = headline_of({control: table(CONTROLS[control], seed=7)})
    assert data["closest_to_retrained"] is None
    assert data["forgetting"][control]["passed"] is False


def test_damage_comes_nearer_in_the_plane_and_is_not_the_closest() -> None:
    """The plane of utility and forgetting rewards damage: only what exceeds it counts."""
    models = {"damage": table(damaged(0.5), seed=7)}
    data = headline_of(models)
    assert data["distance_to_retrained"]["damage"] < data["distance_to_retrained"]["target"]
    assert data["closest_to_retrained"] is None
    assert "damage" in data["forgetting"]["damage"]["obstacles"]


def test_a_model_that_forgot_is_the_closest_among_controls() -> None:
    models = {name: table(level, seed=7) for name, level in CONTROLS.items()} | {"right": table(never_saw, seed=8)}
    assert headline_of(models)["closest_to_retrained"] == "right"


def test_refusing_is_not_forgetting() -> None:
    """No answer on the forget set, and every fact still ranks first."""
    refusing = table(never_saw, ranks=knows, seed=9)
    data = headline_of({"refusing": refusing})
    assert data["closest_to_retrained"] is None
    assert "ranks" in data["forgetting"]["refusing"]["obstacles"]


@pytest.mark.parametrize(
    ("without", "obstacle"),
    [
        ("measure == 'ranked_first'", "no ranks"),
        ("side == 'retain' and fold == 'holdout'", "no control"),
        ("side == 'retain' and fold == 'train' and measure != 'ranked_first'", "not checked"),
    ],
)
def test_what_was_not_measured_is_no_success(without: str, obstacle: str) -> None:
    data = headline_of({"right": table(never_saw, seed=8)}, without=without)
    assert data["closest_to_retrained"] is None
    assert obstacle in data["forgetting"]["right"]["obstacles"]


def test_a_model_without_a_check_gets_no_verdict(content: ReportContent) -> None:
    unchecked = Results(replace(content, forgetting={}))
    closest, headline = verdict(standings(unchecked, main_plane(unchecked)), None)
    assert (closest, headline.answer) == (None, "Not checked")


def test_a_broken_model_that_answers_right_is_not_the_closest() -> None:
    data = headline_of({"right": table(never_saw, seed=8)}, right=("its weights hold NaN",))
    assert data["closest_to_retrained"] is None
    assert data["forgetting"]["right"]["passed"] is False
