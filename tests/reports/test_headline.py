"""What the report concludes: axes, distances, the closest model, and what it says when it cannot conclude."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from medunlearn.errors import InputError
from medunlearn.reports import ModelResult, ReportContent
from medunlearn.reports.headline import main_plane, panel_planes, standings, verdict
from medunlearn.reports.readings import Place, Results


def with_models(content: ReportContent, change: Any) -> ReportContent:
    return replace(content, models=tuple(found for model in content.models if (found := change(model)) is not None))


def renamed(model: ModelResult, names: dict[str, str]) -> ModelResult:
    summary = model.summary.copy()
    summary["metric"] = summary["metric"].replace(names)
    return replace(model, summary=summary)


def without_values(model: ModelResult, metric: str) -> ModelResult:
    summary = model.summary.copy()
    summary.loc[summary["metric"] == metric, ["value", "low", "high"]] = pd.NA
    return replace(model, summary=summary)


def test_the_trade_off_is_of_the_composites_that_are_there(content: ReportContent) -> None:
    where = main_plane(Results(content))
    assert (where.fold, where.kind) == ("train", "all")
    assert where.utility == "H(rouge_l, em, te)"
    assert where.forgetting == "H(1-rouge_l, 1-em)"


def test_the_papers_name_is_used_where_the_table_uses_it(content: ReportContent) -> None:
    full = with_models(content, lambda model: renamed(model, {"H(rouge_l, em, te)": "MU"}))
    assert main_plane(Results(full)).utility == "MU"
    assert Results(full).describe("MU", "retain")[0] == "Model utility"
    assert "utility" not in Results(content).describe("H(rouge_l, em, te)", "retain")[0].lower()


def test_composites_of_other_parts_are_not_put_on_one_axis(content: ReportContent) -> None:
    def change(model: ModelResult) -> ModelResult:
        return renamed(model, {"H(rouge_l, em, te)": "H(rouge_l, em)"}) if model.label == "NPO" else model

    results = Results(with_models(content, change))
    where = main_plane(results)
    assert where.utility == "H(rouge_l, em, te)"
    npo = next(one for one in standings(results, where) if one.model.label == "NPO")
    assert npo.utility is None
    assert not npo.placed


def test_without_a_composite_a_metric_is_the_axis(content: ReportContent) -> None:
    def change(model: ModelResult) -> ModelResult:
        return replace(model, summary=model.summary[model.summary["metric"].isin(["em", "DS"])])

    where = main_plane(Results(with_models(content, change)))
    assert (where.utility, where.forgetting) == ("em", "em")


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
    chosen = (comparisons["model"] == "RMU") & (comparisons["side"] == "retain")
    comparisons.loc[chosen, ["difference", "low", "high"]] = [-0.02, -0.03, -0.01]
    results = Results(replace(content, comparisons=comparisons))
    rmu = next(model for model in content.models if model.label == "RMU")
    gap = results.gap(rmu, Place("retain", "train", "all"), "H(rouge_l, em, te)")
    assert gap is not None
    assert (gap.difference, gap.tells_apart) == (-0.02, True)
    unpaired = results.gap(rmu, Place("retain", "holdout", "all"), "H(rouge_l, em, te)")
    assert unpaired is not None
    assert unpaired.difference == pytest.approx(-0.01)
    assert unpaired.tells_apart is None


def test_the_verdict_names_the_closest_and_how_sure_it_is(content: ReportContent) -> None:
    results = Results(content)
    found = verdict(standings(results, main_plane(results)))
    assert (found.name, found.found) == ("RMU", True)
    assert "forgetting −0.050 [−0.080, −0.020]" in found.sentences[0]
    # The interval of utility, [-0.04, 0.02], holds 0; that of forgetting does not.
    assert found.sentences[1].startswith("The interval of forgetting leaves 0 out")


def test_intervals_that_hold_0_are_no_proof(content: ReportContent) -> None:
    wide = content.comparisons.assign(low=-0.9, high=0.9)
    results = Results(replace(content, comparisons=wide))
    assert "no proof" in verdict(standings(results, main_plane(results))).sentences[1]


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        ({"target", "NPO"}, "Not measured"),
        ({"target", "retrained"}, "No unlearned model"),
        # GA is further from the retrained model than the target model is.
        ({"target", "retrained", "GA"}, "None"),
    ],
)
def test_where_nothing_can_be_concluded_the_verdict_says_so(
    content: ReportContent, kept: set[str], name: str
) -> None:
    few = Results(with_models(content, lambda model: model if model.label in kept else None))
    found = verdict(standings(few, main_plane(few)))
    assert (found.name, found.found) == (name, False)


def test_a_method_without_a_number_is_never_the_closest(content: ReportContent) -> None:
    def change(model: ModelResult) -> ModelResult:
        return without_values(model, "H(rouge_l, em, te)") if model.label == "RMU" else model

    results = Results(replace(with_models(content, change), comparisons=pd.DataFrame()))
    ranked = standings(results, main_plane(results))
    assert verdict(ranked).name == "SimNPO"
    assert ranked[-1].model.label == "RMU"
    assert ranked[-1].distance is None


def test_any_kinds_make_panels(content: ReportContent) -> None:
    assert [(one.fold, one.kind) for one in panel_planes(Results(content))] == [
        ("train", "factual"),
        ("train", "reasoning"),
        ("holdout", "factual"),
        ("holdout", "reasoning"),
    ]

    def change(model: ModelResult) -> ModelResult:
        kinds = {"factual": "completion", "reasoning": "knowledge"}
        return replace(model, summary=model.summary.replace({"kind": kinds}))

    assert {one.kind for one in panel_planes(Results(with_models(content, change)))} == {"completion", "knowledge"}


def test_two_models_of_one_label_are_refused(content: ReportContent) -> None:
    with pytest.raises(InputError, match="one label"):
        Results(replace(content, models=(content.models[0], content.models[0])))
