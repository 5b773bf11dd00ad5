"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from controls import check_controls, of_method
from sweep_folders import DAMAGES, IMITATIONS

from medunlearn.papers.amnesia.claims import CASES, findings
from medunlearn.papers.amnesia.contrasts import GROWTH
from medunlearn.papers.amnesia.sweep import SizeResults, Step
from medunlearn.papers.sweeps.page import reopened
from medunlearn.reports.claims import Finding
from medunlearn.reports.finding_blocks import findings_view
from medunlearn.reports.terminal_blocks import block_lines

from .conftest import SEEDS, SPLITS

UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
HALF_WAY, KEPT = "forgetting past half-way", "utility above 0.8 of target"
Gather = Callable[..., SizeResults]


def by_name(results: SizeResults) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(results)}


def made(contrasts: dict[tuple[str, str, str], Any], *, split: str = "random_05") -> SizeResults:
    """One method on one split, with the intervals given: (name, fold, kind) -> low and high."""
    rows = [
        {"contrast": name, "context": "note", "split": split, "method": "NPO", "fold": fold, "kind": kind}
        | {"n_subjects": 9, "reason": "" if span else "no model"}
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        for (name, fold, kind), span in contrasts.items()
    ]
    scope = split.partition("_")[0]
    step = Step(split, scope, 5, None if scope == "random" else "Cancer", "patient", 5, 50, 12)
    steps = (step,) if scope == "random" else (replace(step, split=f"{scope}_01", percent=1), step)
    number = {"context": "note", "role": "unlearned", "method": "NPO", "group": "all", "side": "forget"}
    number |= {"fold": "train", "kind": "all", "measure": "DS", "value": 0.0, "low": 0.0, "high": 0.0}
    numbers = pd.DataFrame([number | {"split": step.split, "n_subjects": 9} for step in steps])
    return SizeResults(
        splits=steps, numbers=numbers, contrasts=pd.DataFrame(rows), methods=("NPO",), contexts=("note",)
    )


def test_the_papers_pattern_is_read_from_it(make_sweep: Callable[..., Any], gather: Gather) -> None:
    results = gather(make_sweep().all(SPLITS, ("kl_min", "rmu"), seeds=SEEDS))
    of = by_name(results)
    growth = {case.labels["method"]: case.verdict for case in of["growth with the set"].cases}
    assert growth["RMU"] == "holds"
    assert {case.labels["method"] for case in of["leakage and collapse"].cases} == {"KL-Min"}
    for name in ("random forgetting", "same-disease cost", "leakage and collapse"):
        assert (of[name].verdict, of[name].counts["does not hold"]) == ("holds", 0)
    assert "questions, not notes" in of
    text = "\n".join(line for block in findings_view(findings(results), ()).blocks for line in block_lines(block))
    assert text.count("Rule: ") == len(CASES) == 5
    assert "holds: Forgetting patients drawn at random fails or collapses. (closed_book)" in text
    case = results.contrast(HALF_WAY, "closed_book", "random_10", "RMU", "train", "all")
    assert f"forgetting past half-way −{abs(case.value or 0):.3f} [" in text


@pytest.fixture(scope="module")
def controls(make_sweep: Callable[..., Any], gather: Gather) -> dict[str, dict[str, Finding]]:
    """Findings of methods that are the target, the retrained model, and broken."""
    swept = gather(make_sweep().all(("random_25", "cancer_10", "cancer_20"), IMITATIONS, seeds=SEEDS))
    return {method: of_method(findings(swept), method) for method in IMITATIONS}


def test_no_claim_is_forced_by_its_design(controls: dict[str, dict[str, Finding]]) -> None:
    check_controls(nothing=controls["target"].values(), everything=controls["retrained"].values())


@pytest.mark.parametrize(
    ("name", "nothing", "everything", "broken"),
    [
        # Broken output is a collapse; what is said of the cost to others, of notes and of repetition is not.
        ("random forgetting", "open", "does not hold", "holds"),
        ("growth with the set", "open", "open", "does not hold"),
        ("same-disease cost", "open", "open", "does not hold"),
        ("questions, not notes", "open", "does not hold", "does not hold"),
        ("leakage and collapse", "not measurable", "not measurable", "open"),
    ],
)
def test_three_controls(
    name: str, nothing: str, everything: str, broken: str, controls: dict[str, dict[str, Finding]]
) -> None:
    verdicts = [controls[role][name].verdict for role in IMITATIONS]
    assert verdicts == [nothing, everything, broken]


def test_a_model_that_did_nothing_and_one_that_did_everything_are_named(
    controls: dict[str, dict[str, Finding]],
) -> None:
    says = {role: controls[role]["random forgetting"].cases[0].says for role in controls}
    assert says["target"].startswith("did nothing")
    assert says["retrained"] == "forgets and keeps utility"
    assert says["scrambled"].startswith("collapses")


def test_forgetting_is_said_of_no_damage_and_of_nothing_without_ranks(
    make_sweep: Callable[..., Any], gather: Gather
) -> None:
    verdicts = {}
    # Without ranks no damage is read: the least is enough there.
    for ranked, damages in ((True, DAMAGES), (False, DAMAGES[:1])):
        methods = (*damages, "retrained")
        results = gather(make_sweep(ranked=ranked).all(("random_25",), methods, seeds=SEEDS), 200)
        own = reopened("amnesia", findings(results), results)
        for method in methods:
            case = of_method(own, method)["random forgetting"].cases[0]
            verdicts[method, ranked] = case.verdict
    assert verdicts["retrained", True] == "does not hold"
    assert verdicts["retrained", False] == "open"
    assert all(verdict != "does not hold" for (method, _), verdict in verdicts.items() if method in DAMAGES)


ALL = ("train", "all")
TO_GAIN, GAINED, UTILITY = "forgetting to gain", "forgetting gained", "utility gained"
SAME = (
    *("lost by same disease", "lost by same more than by other", "lost by same disease beyond retrained"),
    "utility of others above 0.8 of target",
)
LEAKS, COLLAPSED = "leakage below a tenth of target", "degradation above half"


def forgetting(forgets: Any, keeps: Any, to_gain: Any = UP, gained: Any = UP, utility: Any = ACROSS) -> Any:
    moved = {(GAINED, *ALL): gained, (UTILITY, *ALL): utility}
    return {(TO_GAIN, *ALL): to_gain, (HALF_WAY, *ALL): forgets, (KEPT, *ALL): keeps} | moved


def growth(*spans: Any) -> Any:
    names = [(name, *ALL) for name in GROWTH] + [(SAME[-1], "train", "mean of kinds")]
    return dict(zip(names, spans, strict=True))


def same(*spans: Any) -> Any:
    return {(name, "train", "mean of kinds"): span for name, span in zip(SAME, spans, strict=True)}


def notes(to_gain: Any, train: Any, holdout: Any) -> Any:
    half_way = {(HALF_WAY, *ALL): train, (HALF_WAY, "holdout", "all"): holdout}
    return {(TO_GAIN, *ALL): UP, (TO_GAIN, "holdout", "all"): to_gain} | half_way


def leaks(clean: Any, collapsed: Any, keeps: Any = DOWN) -> Any:
    return {(LEAKS, *ALL): clean, (COLLAPSED, *ALL): collapsed, (KEPT, *ALL): keeps}


@pytest.mark.parametrize(
    ("name", "split", "contrasts", "verdict", "says"),
    [
        ("random forgetting", "random_05", forgetting(DOWN, UP), "holds", "fails"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, UP, ACROSS, DOWN), "holds", "fails"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, UP, ACROSS, UP), "open", "did nothing"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, UP, DOWN), "open", "did nothing"),
        ("random forgetting", "random_05", forgetting(UP, DOWN), "holds", "collapses"),
        ("random forgetting", "random_05", forgetting(UP, UP), "does not hold", "forgets and keeps"),
        ("random forgetting", "random_05", forgetting(DOWN, DOWN), "holds", "loses utility, and does not forget"),
        ("random forgetting", "random_05", forgetting(ACROSS, UP), "open", "an interval"),
        ("random forgetting", "random_05", forgetting(UP, None), "open", "an interval"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, ACROSS), "open", "not settled that there"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, DOWN), "open", "nothing to forget on train"),
        ("random forgetting", "random_05", forgetting(DOWN, UP, None), "open", "cannot be read: no model"),
        ("random forgetting", "cancer_05", growth(UP, UP, UP), None, ""),
        ("growth with the set", "cancer_05", growth(UP, UP, UP), "holds", "grows"),
        ("growth with the set", "cancer_05", growth(DOWN, UP, UP), "does not hold", "shrinks"),
        ("growth with the set", "cancer_05", growth(UP, DOWN, UP), "does not hold", "no more than"),
        ("growth with the set", "cancer_05", growth(UP, UP, DOWN), "does not hold", "others lose"),
        ("growth with the set", "cancer_05", growth(ACROSS, UP, UP), "open", "no growth"),
        ("growth with the set", "cancer_05", growth(UP, None, UP), "open", "no growth"),
        ("same-disease cost", "cancer_05", same(DOWN, DOWN, DOWN, UP), "holds", "others keep"),
        ("same-disease cost", "cancer_05", same(DOWN, DOWN, DOWN, DOWN), "does not hold", "others lose too"),
        ("same-disease cost", "cancer_05", same(UP, DOWN, DOWN, UP), "does not hold", "do not lose more"),
        ("same-disease cost", "cancer_05", same(DOWN, DOWN, UP, UP), "does not hold", "do not lose more"),
        ("same-disease cost", "cancer_05", same(DOWN, ACROSS, DOWN, UP), "open", "not settled"),
        ("questions, not notes", "random_05", notes(UP, UP, DOWN), "holds", "the note is not"),
        ("questions, not notes", "random_05", notes(UP, UP, UP), "does not hold", "forgotten with them"),
        ("questions, not notes", "random_05", notes(UP, UP, ACROSS), "open", "not settled"),
        ("questions, not notes", "random_05", notes(UP, ACROSS, DOWN), "open", "were not forgotten"),
        (
            "questions, not notes",
            "random_05",
            notes(ACROSS, UP, DOWN),
            "open",
            "not settled that there is something",
        ),
        ("questions, not notes", "random_05", notes(None, UP, DOWN), "open", "no model"),
        ("leakage and collapse", "random_05", leaks(UP, UP), "holds", "collapsed"),
        ("leakage and collapse", "random_05", leaks(UP, DOWN, UP), "does not hold", "utility is kept"),
        ("leakage and collapse", "random_05", leaks(UP, DOWN, DOWN), "open", "broken in another way"),
        ("leakage and collapse", "random_05", leaks(UP, ACROSS, UP), "open", "not settled"),
        ("leakage and collapse", "random_05", leaks(ACROSS, UP), None, ""),
        ("leakage and collapse", "random_05", leaks(None, None), None, ""),
    ],
)
def test_a_case_is_decided_by_its_intervals(
    name: str, split: str, contrasts: Any, verdict: str | None, says: str
) -> None:
    cases = by_name(made(contrasts, split=split))[name].cases
    assert [case.verdict for case in cases] == ([verdict] if verdict else [])
    assert all(says in case.says for case in cases)
