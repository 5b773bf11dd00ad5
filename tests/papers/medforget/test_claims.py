"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from controls import check_controls, of_method
from sweep_folders import DAMAGES, IMITATIONS, MakeSweep

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.claims import CASES, findings
from medunlearn.papers.medforget.measures import CLASSIFICATION, CLOZE, ROUGE
from medunlearn.papers.medforget.models import LevelModels
from medunlearn.papers.medforget.report import report_of
from medunlearn.papers.medforget.scopes import Scope
from medunlearn.papers.medforget.sequence import sequence_numbers
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.sweeps.page import reopened
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.reports.claims import Finding

from .conftest import COARSE, SEEDS, About, LevelFolder

UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
ENDS = ("institution_50", "section_50")
Gather = Callable[..., LevelResults]


def by_name(results: LevelResults) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(results)}


LEVEL_CASES = [name for name in CASES if name != "sequence"]
"""Findings of sweeps whose requests are not in sequence."""


def verdicts(results: LevelResults) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in findings(results)}


def test_the_papers_pattern_holds(results: LevelResults) -> None:
    claims = by_name(results)
    # Of five to eight patients without a difference between them the smallest effects stay open; so few do not show
    # that a target of 0.95 is above 0.9, since one other in three may not be memorized.
    assert verdicts(results) == dict.fromkeys(LEVEL_CASES, "holds") | {"hierarchy": "open", "memorized": "open"}
    assert {case.verdict for case in claims["hierarchy"].cases} == {"holds", "open"}
    # Three measures; those of reconstruction at two levels, of rephrased at four.
    assert [len(claims[name].cases) for name in list(CASES)[1:6]] == [12, 3, 3, 6, 12]
    assert {case.labels["split"] for case in claims["deletion"].cases} == {"institution_50 against section_50"}
    (table,) = (block for block in report_of(results).view().blocks if getattr(block, "title", "") == "Findings")
    rows = {row[1].text: (row[0].text, row[2].text) for row in table.rows}
    assert rows["Coarser levels cost more utility."] == (
        "holds",
        "Holds in 3 of 3 cases, does not hold in 0, open in 0.",
    )


def opposite(about: About) -> float:
    """Fine levels are forgotten best and cost most, names take away, other words bring more, flat leaves less."""
    strength = COARSE[about.level]
    if about.role == "retrained" and about.side == "forget":
        return 0.05
    if about.role in ("target", "retrained"):
        return 0.5
    if about.role == "flat" or about.names == "institution":
        return 0.02 if about.side == "forget" else 0.5
    if about.side == "retain":
        return 0.3 + 0.2 * strength
    return 0.5 * strength if about.fold == "train" else 0.7


def test_the_opposite_does_not_hold(make_sweep: MakeSweep, gather: Gather) -> None:
    results = gather(make_sweep(opposite).all(ENDS, ["NPO"], flat="flat_50", seeds=SEEDS))
    assert verdicts(results) == dict.fromkeys(LEVEL_CASES, "does not hold")


def test_without_retrained_models_nothing_is_decided(make_sweep: MakeSweep, gather: Gather) -> None:
    results = gather(make_sweep(attacked=False).all(ENDS, ["NPO"], retrained=False, seeds=SEEDS))
    # But for the paper's own reading, which needs none.
    own = {"memorized": "open", "suppressed": "holds"}
    assert verdicts(results) == dict.fromkeys(LEVEL_CASES, "not measurable") | own
    assert [len(finding.cases) for finding in findings(results)] == [6, 6, 0, 0, 0, 0, 0]


def test_one_training_seed_or_nineteen_documents_decide_nothing(results: LevelResults) -> None:
    few = tuple(replace(scope, sections=19, shared=19) for scope in results.splits)
    for changed, reason in (
        (replace(results, seeds=(0,)), "one training seed"),
        (replace(results, splits=few, common=19), "19 documents"),
    ):
        assert set(verdicts(changed).values()) == {"open"}
        for before, after in zip(findings(results), findings(changed), strict=True):
            pairs = [
                (old, new) for old, new in zip(before.cases, after.cases, strict=True) if old.verdict == "holds"
            ]
            assert pairs or before.name == "memorized"
            assert all(new.says.startswith(reason) and old.says in new.says for old, new in pairs)


@pytest.fixture(scope="module")
def controls(make_sweep: MakeSweep, gather: Gather) -> dict[str, dict[str, Finding]]:
    """Findings of methods with the target's, the retrained model's, or no right answers."""
    swept = findings(gather(make_sweep().all(ENDS, IMITATIONS, flat="flat_50", seeds=SEEDS)))
    return {method: of_method(swept, method) for method in IMITATIONS}


def test_no_claim_is_forced_by_its_design(controls: dict[str, dict[str, Finding]]) -> None:
    check_controls(
        nothing=controls["target"].values(),
        everything=controls["retrained"].values(),
        premises={"memorized"},
        success={"rephrased", "suppressed"},
    )


@pytest.mark.parametrize("name", LEVEL_CASES[1:])
@pytest.mark.parametrize("role", IMITATIONS)
def test_a_control_decides_nothing_but_that_deletion_persists(
    name: str, role: str, controls: dict[str, dict[str, Finding]]
) -> None:
    finding = controls[role][name]
    assert finding.cases
    passes = {("rephrased", "retrained"), ("suppressed", "retrained"), ("suppressed", "scrambled")}
    assert finding.verdict == ("holds" if (name, role) in passes else "open")
    if (name, role) == ("suppressed", "scrambled"):
        assert all("answers nothing" in case.says for case in finding.cases)


def test_deletion_persists_of_no_damage_and_of_nothing_without_ranks(make_sweep: MakeSweep, gather: Gather) -> None:
    verdicts: dict[tuple[str, bool], str] = {}
    # Without ranks no damage is read: the least is enough there.
    for ranked, damages in ((True, DAMAGES), (False, DAMAGES[:1])):
        methods = (*damages, "retrained")
        results = gather(make_sweep(attacked=False, ranked=ranked).all(ENDS, methods, seeds=SEEDS))
        own = reopened("medforget", findings(results), results)
        verdicts |= {(method, ranked): of_method(own, method)["rephrased"].verdict for method in methods}
    assert verdicts["retrained", True] == "holds"
    assert verdicts["retrained", False] == "open"
    assert all(verdict != "holds" for (method, _), verdict in verdicts.items() if method in DAMAGES)


def test_a_sequence_is_decided_by_what_came_back(wards: Benchmark, tmp_path: Path) -> None:
    models = LevelFolder(tmp_path, wards, attacked=False).in_sequence(IMITATIONS)
    swept = LevelModels(models, wards)
    results = LevelResults(
        splits=tuple(swept.forget_sets.scopes.values()),
        numbers=pd.DataFrame(columns=[*LevelResults.number_labels, "value"]),
        contrasts=pd.DataFrame(columns=list(LevelResults.contrast_labels)),
        methods=swept.methods,
        contexts=swept.contexts,
        seeds=swept.seeds,
        sequence=sequence_numbers(models, swept, (ROUGE, CLASSIFICATION, CLOZE), SweepRequest(replicates=50)),
    )
    idle, perfect, broken = (of_method(findings(results), method) for method in IMITATIONS)
    check_controls(nothing=idle.values(), everything=perfect.values(), success={"sequence"})
    # A model that answers nothing has forgotten nothing in particular.
    assert [case.verdict for case in broken["sequence"].cases] == ["open"] * (2 * 3)
    one_seed = of_method(findings(replace(results, seeds=(0,))), "retrained")["sequence"]
    assert all(case.says.startswith("one training seed") for case in one_seed.cases)
    few = tuple(replace(scope, sections=9) for scope in results.splits)
    cases = of_method(findings(replace(results, splits=few)), "retrained")["sequence"].cases
    assert [case.says.partition(" ")[0] for case in cases] == ["9"] * 3 + ["18"] * 3


def longer_prompts(about: About) -> float:
    """Longer questions take the same share of every model's answers; names bring nothing back."""
    share = 0.9 if about.role == "target" or about.side == "retain" else 0.05 if about.role == "retrained" else 0.5
    return share * (0.4 if about.names not in ("", "none") else 1.0)


def test_a_longer_prompt_alone_is_no_reconstruction(make_sweep: MakeSweep, gather: Gather) -> None:
    """The unlearned model falls by fewer points than the target, since it has fewer; not by a smaller share."""
    results = gather(make_sweep(longer_prompts).all(ENDS[1:], ["NPO"], seeds=SEEDS))
    at = ("section_50", "NPO", "given institution", "cloze")
    points, share = (results.contrast(name, *at) for name in ("brought back", "brought back in proportion"))
    assert points.value == pytest.approx(-0.3 + 0.54, abs=0.03)
    assert (points.low or 0) > 0
    assert share.value == pytest.approx(0.0, abs=0.03)
    assert (share.low or 1) < 0 < (share.high or -1)
    assert by_name(results)["reconstruction"].verdict != "holds"


def made(contrasts: dict[tuple[str, str, str, str], Any], *, n_subjects: int = 9) -> LevelResults:
    """One method at two levels with the intervals given: (name, split, method, group) -> low and high of cloze."""
    rows = [
        {"contrast": name, "split": split, "method": method, "group": group, "measure": "cloze"}
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        | {"n_subjects": n_subjects, "reason": "" if span else "no such model"}
        for (name, split, method, group), span in contrasts.items()
    ]
    number = {"split": "section_50", "role": "target", "method": "", "group": "forget", "measure": "cloze"}
    number |= {"value": 0.95, "low": 0.92, "high": 0.98, "n_subjects": n_subjects}
    unlearned = [number | {"split": split, "role": "unlearned", "method": "NPO", "value": 0.4} for split in ENDS]
    scopes = (
        Scope("institution_50", "institution", 1, 4, 20, 75, "flat_50", 20),
        Scope("section_50", "section", 20, 80, 20, 60, "flat_50", 20),
    )
    numbers = pd.DataFrame([number, *unlearned])
    return LevelResults(
        splits=scopes,
        numbers=numbers,
        contrasts=pd.DataFrame(rows),
        methods=("NPO",),
        contexts=("note",),
        seeds=SEEDS,
    )


KNOWN_FINE = ("known", "section_50", "", "forget")
WORKS, WORKS_COARSE = (("works", split, "NPO", "retain") for split in reversed(ENDS))
WORK = {WORKS: UP, WORKS_COARSE: UP}
KNOWN = {("known", "institution_50", "", "forget"): UP, KNOWN_FINE: UP, **WORK}
MORE, LEFT = ((name, "institution_50", "NPO", "forget") for name in ("forgotten more", "left less"))
LOST, BEYOND = ((name, "institution_50", "NPO", "retain") for name in ("lost more", "lost more than retrained"))
FORGOTTEN = ("forgotten", "section_50", "NPO", "forget")
GONE = {FORGOTTEN: UP, WORKS: UP}
LEAKS, LEAKS_MORE, HELP, SHARE = (
    (name, "section_50", "NPO", "given institution")
    for name in ("leaks", "leaks more", "brought back", "brought back in proportion")
)
HELPED = {HELP: UP, SHARE: UP}
REPHRASED = ("forgotten", "section_50", "NPO", "rephrase")
KNOWN_REPHRASED = ("known", "section_50", "", "rephrase")
ASKED_AGAIN = {**GONE, KNOWN_REPHRASED: UP}
FLAT = ("flat over hierarchical", "section_50", "NPO", "shared")
WORKS_FLAT = {WORKS: UP, ("works", "flat_50", "NPO", "retain"): UP}


@pytest.mark.parametrize(
    ("name", "contrasts", "verdict"),
    [
        ("memorized", KNOWN, "holds"),
        ("memorized", {KNOWN_FINE: ACROSS}, "open"),
        ("memorized", {KNOWN_FINE: DOWN}, "does not hold"),
        ("deletion", {**KNOWN, MORE: UP, LEFT: UP}, "holds"),
        ("deletion", {**KNOWN, MORE: DOWN, LEFT: UP}, "does not hold"),
        ("deletion", {**KNOWN, MORE: UP, LEFT: DOWN}, "does not hold"),
        ("deletion", {**KNOWN, MORE: UP, LEFT: ACROSS}, "open"),
        ("deletion", {**KNOWN, MORE: UP, LEFT: UP, KNOWN_FINE: ACROSS}, "open"),
        ("deletion", {**KNOWN, MORE: UP, LEFT: UP, WORKS_COARSE: DOWN}, "open"),
        ("utility", {**WORK, LOST: UP, BEYOND: UP}, "holds"),
        ("utility", {**WORK, LOST: UP, BEYOND: UP, WORKS_COARSE: DOWN}, "holds"),
        ("utility", {LOST: UP, BEYOND: UP, WORKS: DOWN, WORKS_COARSE: DOWN}, "open"),
        ("utility", {**WORK, LOST: UP, BEYOND: ACROSS}, "open"),
        ("utility", {**WORK, LOST: DOWN, BEYOND: DOWN}, "does not hold"),
        ("utility", {LOST: UP, BEYOND: None}, "not measurable"),
        ("reconstruction", {**GONE, **HELPED, LEAKS: UP, LEAKS_MORE: UP}, "holds"),
        ("reconstruction", {**GONE, **HELPED, LEAKS: UP, LEAKS_MORE: ACROSS}, "open"),
        ("reconstruction", {**GONE, **HELPED, LEAKS: UP, LEAKS_MORE: DOWN}, "does not hold"),
        ("reconstruction", {**GONE, **HELPED, LEAKS: DOWN, LEAKS_MORE: UP}, "does not hold"),
        ("reconstruction", {**GONE, **HELPED, HELP: DOWN, LEAKS: UP, LEAKS_MORE: UP}, "does not hold"),
        ("reconstruction", {**GONE, **HELPED, SHARE: ACROSS, LEAKS: UP, LEAKS_MORE: UP}, "open"),
        ("reconstruction", {**GONE, **HELPED, SHARE: DOWN, LEAKS: UP, LEAKS_MORE: UP}, "does not hold"),
        ("reconstruction", {**GONE, **HELPED, LEAKS: UP, LEAKS_MORE: UP, FORGOTTEN: ACROSS}, "open"),
        ("suppressed", {FORGOTTEN: UP, REPHRASED: UP}, "holds"),
        ("suppressed", {FORGOTTEN: UP, REPHRASED: ACROSS}, "open"),
        ("suppressed", {FORGOTTEN: UP, REPHRASED: DOWN}, "does not hold"),
        ("suppressed", {FORGOTTEN: UP}, "not measurable"),
        ("rephrased", {**ASKED_AGAIN, REPHRASED: UP}, "holds"),
        ("rephrased", {**ASKED_AGAIN, REPHRASED: DOWN}, "does not hold"),
        ("rephrased", {**ASKED_AGAIN, REPHRASED: ACROSS}, "open"),
        ("rephrased", {**ASKED_AGAIN, REPHRASED: UP, KNOWN_REPHRASED: ACROSS}, "open"),
        ("rephrased", {**ASKED_AGAIN, REPHRASED: UP, WORKS: DOWN}, "open"),
        ("hierarchy", {**WORKS_FLAT, FLAT: UP}, "holds"),
        ("hierarchy", {**WORKS_FLAT, FLAT: DOWN}, "does not hold"),
        ("hierarchy", {**WORKS_FLAT, FLAT: ACROSS}, "open"),
        ("hierarchy", {FLAT: UP, WORKS: UP}, "open"),
    ],
)
def test_a_case_is_decided_by_its_intervals(name: str, contrasts: Any, verdict: str) -> None:
    finding = by_name(made(contrasts))[name]
    assert finding.verdict == verdict
    assert len(finding.cases) == (verdict != "not measurable")


def test_memorized_is_read_against_nine_tenths() -> None:
    (case,) = by_name(made(KNOWN))["memorized"].cases
    assert (case.verdict, case.labels["split"]) == ("holds", "section_50")
    assert "+0.050 [0.020, 0.080]" in str(case.evidence[0])
    # The same number of four patients settles nothing.
    assert by_name(made(KNOWN, n_subjects=4))["memorized"].verdict == "open"
