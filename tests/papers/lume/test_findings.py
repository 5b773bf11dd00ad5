"""Each rule on tables whose verdict is plain from the numbers, on both sides of its threshold and on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from controls import check_controls

from medunlearn.papers.lume.findings import DOCUMENTS, SEEDS, findings
from medunlearn.papers.lume.measured import Measured
from medunlearn.papers.lume.report import report_part
from medunlearn.reports.blocks import Report, tables_of
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Finding
from medunlearn.reports.content import Membership, ModelResult
from medunlearn.reports.finding_blocks import findings_blocks, measured
from medunlearn.reports.html import to_html
from medunlearn.reports.json import to_data
from medunlearn.reports.markdown import to_markdown
from medunlearn.results.contrasts import Contrast
from medunlearn.results.reference_check import ReferenceCheck

UNBOUNDED = ("GA", "GD", "KL")
METHODS = {"GA": "ga", "GD": "graddiff", "KL": "kl_min", "NPO": "npo"}
OTHERS = {"New": "invented_method:Sink", "SimNPO": "simnpo", "NGDiff": "ngdiff", "RMU": "rmu"}
ROLES = {"target": "target", "retrained": "retrained"} | dict.fromkeys({**METHODS, **OTHERS}, "unlearned")
Row = dict[str, Any]


def epoch(model: str, number: int, measure: str, value: float, **more: Any) -> Row:
    """A row of the table of epochs, with an interval of 0.02 on either side and 20 documents."""
    place = {"level": "task", "node": "story", "side": "forget", "fold": "train", "kind": "completion"}
    counts = {"n_scored": 20, "n_unscored": 0, "n_subjects": 20, "metric": "rouge_l", "parts": ""}
    numbers = {"value": value, "low": value - 0.02, "high": value + 0.02}
    return {"model": model, "epoch": number, "measure": measure, **place, **counts, **numbers, **more}


def contrast(name: str, model: str, low: float, high: float, **more: Any) -> Row:
    """A row of the table of differences, at the middle of its interval."""
    place = {"node": "story", "about": f"{name} of {model}", "n_subjects": 20, "reason": ""}
    return {"contrast": name, "model": model, "value": (low + high) / 2, "low": low, "high": high, **place, **more}


def membership(areas: Mapping[str, float], documents: int = 20) -> Membership:
    """Areas of the loss attack, and their differences from the retrained model's with 0.02 on either side."""
    where = {"group": "public_biography", "attack": "loss"}
    counts = {"n_members": documents, "n_nonmembers": 100, "measure": "auc"}
    table = [{"model": name, "value": area, **where, **counts} for name, area in areas.items()]
    gaps = [
        {"model": name, "against": retrained, "difference": gap, "low": gap - 0.02, "high": gap + 0.02, **where}
        for name, area in areas.items()
        if (retrained := f"retrained{name[-2:]}") in areas and name != retrained
        for gap in [area - areas[retrained]]
    ]
    return Membership(pd.DataFrame(table), pd.DataFrame(gaps))


def report(
    epochs: Sequence[Row],
    contrasts: Sequence[Row] = (),
    *,
    rates: Mapping[str, float] | None = None,
    areas: Mapping[str, float] | None = None,
    seeds: int = SEEDS,
    documents: int = DOCUMENTS,
    methods: Sequence[str] = tuple(METHODS),
    reference: ReferenceCheck | None = None,
) -> tuple[Finding, ...]:
    """LUME's findings on runs of some methods, the same numbers with every training seed: GA/0, GA/1, ..."""
    nothing = pd.DataFrame()
    labels = [label for label, role in ROLES.items() if role != "unlearned" or label in methods]
    models = [
        ModelResult(
            f"{label}/{seed}",
            ROLES[label],  # type: ignore[arg-type]
            {**METHODS, **OTHERS}.get(label),
            nothing,
            nothing,
            {"config": {"lr": (rates or {}).get(label, 1e-4), "seed": seed}},
        )
        for seed in range(seeds)
        for label in labels
    ]

    def table(rows: Sequence[Row]) -> pd.DataFrame:
        own = [row for row in rows if row["model"] in labels]
        return pd.DataFrame([{**row, "model": f"{row['model']}/{seed}"} for seed in range(seeds) for row in own])

    every = {f"{label}/{seed}": area for seed in range(seeds) for label, area in (areas or {}).items()}
    of_seeds = dict.fromkeys(range(seeds), reference)
    attacks = membership(every, documents) if every else Membership()
    return findings(Measured(models, table(epochs), table(contrasts), attacks, of_seeds))


START = [epoch(label, 0, "regurgitation", 0.95) for label in METHODS]
AREAS = {"target": 1.0, "retrained": 0.5}
APART = {"GA": 0.5, "GD": 0.3, "KL": 0.5, "NPO": 0.9}


def by_name(rules: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.name: finding for finding in rules}


def verdicts(finding: Finding) -> list[tuple[str, str]]:
    """Run and verdict of the cases of the first seed."""
    return [
        (case.labels["run"].removesuffix("/0"), case.verdict)
        for case in finding.cases
        if case.labels.get("seed", "0") == "0"
    ]


def test_there_are_none_without_epochs() -> None:
    assert len(report(START)) == 8
    assert report([]) == ()


@pytest.mark.parametrize(("value", "verdict"), [(0.95, "holds"), (0.91, OPEN), (0.87, FAILS)])
def test_memorized(value: float, verdict: str) -> None:
    finding = by_name(report([epoch("GA", 0, "regurgitation", value)]))["memorized"]
    assert verdicts(finding) == [("target", verdict)]
    assert finding.verdict == verdict


def test_an_epoch_of_the_run_is_no_start() -> None:
    later = [epoch("GA", 3, "regurgitation", 0.1), epoch("GA", 0, "regurgitation", 0.99, fold="holdout")]
    assert len(by_name(report([*START, *later]))["memorized"].cases) == SEEDS


def test_falling_to_zero_takes_every_number_of_a_task() -> None:
    rows = [
        *(contrast("zero", "GA", -0.09, -0.05) for _ in range(4)),
        *(contrast("zero", "GD", -0.09, -0.05) for _ in range(3)),
        contrast("zero", "GD", 0.1, 0.3),
        *(contrast("zero", "KL", -0.09, -0.05) for _ in range(4)),
        contrast("zero", "NPO", 0.1, 0.3),
    ]
    finding = by_name(report(START, rows))["zero"]
    assert verdicts(finding) == [("GA", "holds"), ("GD", FAILS), ("KL", "holds")]
    gd = next(case for case in finding.cases if case.labels["run"].startswith("GD"))
    assert gd.says == "stays above in 1 of 4 numbers"
    assert gd.labels == {"run": "GD/0", "task": "story", "seed": "0", "documents": "20"}
    assert finding.verdict == FAILS


ZERO = [contrast("zero", label, -0.09, -0.05) for label in UNBOUNDED]


def test_a_claim_on_three_methods_takes_all_three() -> None:
    assert by_name(report(START, ZERO))["zero"].verdict == HOLDS
    alone = by_name(report(START, ZERO, methods=["GA"]))["zero"]
    assert alone.verdict == OPEN
    missing = "gradient ascent with a retain loss (GD), gradient ascent with a retain divergence (KL)"
    assert verdicts(alone) == [("GA", OPEN), (missing, NOT_MEASURABLE)]
    unsettled = by_name(report(START, [*ZERO[:2], contrast("zero", "KL", -0.05, 0.02)]))["zero"]
    assert unsettled.verdict == OPEN


@pytest.mark.parametrize("few", [{"seeds": 1}, {"seeds": 2}, {"documents": 4}, {"documents": 19}])
def test_few_seeds_or_documents_decide_nothing(few: dict[str, int]) -> None:
    documents = few.get("documents", DOCUMENTS)
    start, rows = ([{**row, "n_subjects": documents} for row in table] for table in (START, ZERO))
    rules = by_name(report(start, rows, areas={**AREAS, **APART}, **few))  # type: ignore[arg-type]
    assert {finding.verdict for finding in rules.values()} <= {OPEN, NOT_MEASURABLE}
    assert "seeds" not in few or "seeds decide nothing" in rules["zero"].cases[0].says
    assert rules["zero"].cases[0].labels["documents"] == str(documents)


@pytest.mark.parametrize(
    ("fell", "rose", "verdict"),
    [
        ((0.3, 0.5), (0.2, 0.4), "holds"),
        ((0.3, 0.5), (-0.09, -0.01), FAILS),
        ((0.3, 0.5), (-0.1, 0.2), OPEN),
        ((-0.1, 0.1), (0.2, 0.4), OPEN),
        ((-0.3, -0.1), (-0.2, -0.1), OPEN),
    ],
)
def test_what_did_not_fall_cannot_recover(fell: Any, rose: Any, verdict: str) -> None:
    rows = [contrast("fell", "GD", *fell), contrast("rose", "GD", *rose)]
    assert verdicts(by_name(report(START, rows))["recovery"]) == [("GD", verdict)]


def test_only_the_measures_that_fell_are_asked_whether_they_rose() -> None:
    edges = {"fell": ((0.3, 0.5), (-0.1, 0.1)), "rose": ((0.2, 0.4), (-0.2, -0.1))}
    rows = [contrast(name, "GD", *interval) for name, intervals in edges.items() for interval in intervals]
    assert by_name(report(START, rows))["recovery"].verdict == "holds"


INVENTED = """
from typing import ClassVar

raise RuntimeError("a report runs no code that a run names")


class Sink:
    family: ClassVar[str] = "{family}"
    retain_term: ClassVar[str] = "{retain_term}"
"""


@pytest.fixture
def invent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a method from outside into the working folder, as OTHERS names it."""
    monkeypatch.chdir(tmp_path)

    def write(family: str, retain_term: str) -> None:
        (tmp_path / "invented_method.py").write_text(INVENTED.format(family=family, retain_term=retain_term))

    return write


def test_a_method_from_outside_counts_in_its_family(invent: Callable[[str, str], None]) -> None:
    """It stands for the paper's method of its form, and one number of it contradicts a finding as theirs would."""
    own = [contrast("zero", label, -0.09, -0.05) for label in ("GA", "KL")]
    new, methods = contrast("zero", "New", -0.09, -0.05), ("GA", "KL", "New")
    start = [*START, epoch("New", 0, "regurgitation", 0.95)]
    invent("gradient ascent", "loss")
    holds = by_name(report(start, [*own, new], methods=methods))["zero"]
    assert (holds.verdict, verdicts(holds)) == (HOLDS, [("GA", HOLDS), ("New", HOLDS), ("KL", HOLDS)])
    fails = by_name(report(start, [*own, contrast("zero", "New", 0.1, 0.3)], methods=methods))["zero"]
    assert (fails.verdict, dict(verdicts(fails))["New"]) == (FAILS, FAILS)
    # Beside the paper's own of its form it has to be settled, too.
    unsettled = [*own, contrast("zero", "GD", -0.09, -0.05), contrast("zero", "New", -0.09, 0.05)]
    beside = by_name(report(start, unsettled, methods=("GA", "GD", "KL", "New")))["zero"]
    assert (beside.verdict, verdicts(beside)[-1]) == (OPEN, ("invented_method:Sink", NOT_MEASURABLE))
    # Of another family it is no gradient ascent, and a retain loss is missing.
    invent("distillation", "loss")
    other = by_name(report(start, [*own, new], methods=methods))["zero"]
    assert other.verdict == OPEN
    assert [run for run, _ in verdicts(other)] == ["GA", "KL", "gradient ascent with a retain loss (GD)"]


def test_findings_on_other_groups_count_whoever_declares_them(invent: Callable[[str, str], None]) -> None:
    invent("preference", "none")
    methods = (*METHODS, *OTHERS)
    rows = [
        *(contrast("zero", label, -0.09, -0.05) for label in methods),
        *(contrast(name, label, *edges) for label in methods for name, edges in EDGES.items()),
        *(contrast("slower", label, 0.1, 0.3) for label in methods),
    ]
    utility = [epoch(m, n, "utility", value, node="") for m in methods for n, value in enumerate((0.4, 0.3))]
    fell = [epoch(m, n, "regurgitation", value) for m in methods for n, value in enumerate((0.95, 0.3))]
    areas = {**AREAS, **dict.fromkeys(methods, 0.7)}
    rules = by_name(report([*fell, *utility], rows, areas=areas, methods=methods))
    counted = {name: [run for run, _ in verdicts(finding)] for name, finding in rules.items()}
    assert counted == {
        "memorized": ["target"],
        "zero": ["GA", "GD", "KL"],
        "recovery": ["GD", "NGDiff"],
        "slower": ["NPO", "New", "SimNPO"],
        "membership falls": ["GA", "GD", "KL"],
        "membership stays": ["NPO", "New", "SimNPO"],
        "over-forgotten": ["GD", "NGDiff"],
        "utility": ["GA", "GD", "KL", "NPO", "New", "SimNPO", "NGDiff", "RMU"],
    }


EDGES = {"fell": (0.3, 0.5), "rose": (0.2, 0.4)}
SLOWER = [contrast("slower", "NPO", 0.1, 0.3) for _ in range(6)]


def test_slower_than_each_of_the_others() -> None:
    finding = by_name(report(START, SLOWER, rates={"NPO": 3e-4}))["slower"]
    assert finding.verdict == "holds"
    assert finding.cases[0].says == (
        "slower than each; learning rates differ: NPO/0 0.0003, GA/0 0.0001, GD/0 0.0001, KL/0 0.0001"
    )
    finding = by_name(report(START, [*SLOWER[1:], contrast("slower", "NPO", -0.3, -0.1)]))["slower"]
    assert (finding.verdict, finding.cases[0].says) == (FAILS, "faster in 1 of 6 comparisons")
    assert by_name(report(START, SLOWER[:2], methods=["GA", "NPO"]))["slower"].verdict == OPEN, "of three, one ran"


FORGOT = [epoch("NPO", number, "regurgitation", value) for number, value in enumerate((0.95, 0.3))]


def test_membership_is_read_against_the_retrained_model() -> None:
    """The target is 0.5 above the retrained model's 0.5: half of it is 0.25, and intervals 0.02 on either side."""
    areas = {**AREAS, "GA": 0.5, "GD": 0.3, "KL": 0.7, "NPO": 0.8}
    rules = by_name(report([*START, *FORGOT], areas=areas))
    assert verdicts(rules["membership falls"]) == [("GA", "holds"), ("GD", "holds"), ("KL", "holds")]
    assert (rules["membership falls"].verdict, rules["membership stays"].verdict) == (HOLDS, HOLDS)
    assert rules["over-forgotten"].verdict == HOLDS
    assert str(rules["membership stays"].cases[0].evidence[0]) == (
        "AUC, minus the retrained model's, minus half of the target's distance +0.050 [0.030, 0.070]"
    )
    areas = {**AREAS, "GA": 0.74, "GD": 0.6, "KL": 0.9, "NPO": 0.6}
    rules = by_name(report([*START, *FORGOT], areas=areas))
    assert verdicts(rules["membership falls"])[:3] == [("GA", OPEN), ("GD", OPEN), ("KL", FAILS)]
    assert (rules["membership stays"].verdict, rules["over-forgotten"].verdict) == (FAILS, FAILS)


@pytest.mark.parametrize(
    ("target", "retrained", "area", "falls", "over_forgotten"),
    [
        # A retrained model's 0.15 need not be at chance: half-way to the target is 0.575.
        (1.0, 0.15, 0.13, HOLDS, OPEN),
        (1.0, 0.15, 0.5, HOLDS, FAILS),
        (1.0, 0.15, 0.9, FAILS, FAILS),
        # Half of the target's distance is 0.2: 0.1 is 0.5 below the retrained model's 0.6.
        (1.0, 0.6, 0.1, FAILS, HOLDS),
        # A target that is not told apart has nothing to bring down.
        (0.51, 0.5, 0.5, OPEN, OPEN),
    ],
)
def test_distance_to_the_retrained_model(
    target: float, retrained: float, area: float, falls: str, over_forgotten: str
) -> None:
    areas = {"target": target, "retrained": retrained, **dict.fromkeys(UNBOUNDED, area)}
    rules = by_name(report(START, areas=areas))
    assert (rules["membership falls"].verdict, rules["over-forgotten"].verdict) == (falls, over_forgotten)


def test_a_reference_that_failed_decides_nothing() -> None:
    """As LUME's retrained model that never learned the retain set."""
    failed = ReferenceCheck(Contrast(-0.5, -0.6, -0.4, 30, "", "MU"), Contrast(0.9, 0.8, 0.95, 30, "", "AFE"))
    rules = by_name(report([*START, *FORGOT], areas={**AREAS, **APART}, reference=failed))
    for name in ("membership falls", "membership stays", "over-forgotten"):
        assert rules[name].verdict == OPEN
        assert "the retain set" in rules[name].cases[0].says


def test_what_was_not_measured_has_no_case() -> None:
    rules = by_name(report(START))
    assert {name for name, finding in rules.items() if finding.cases} == {"memorized"}
    assert rules["membership stays"].summary.startswith("No case: ")
    assert rules["utility"].verdict == NOT_MEASURABLE


@pytest.mark.parametrize(("last", "verdict"), [(0.3, "holds"), (0.36, OPEN), (0.39, FAILS)])
def test_utility(last: float, verdict: str) -> None:
    """0.9 of 0.4 is 0.36."""
    rows = [
        epoch(label, number, "utility", value, node="")
        for label in METHODS
        for number, value in enumerate((0.4, last))
    ]
    assert by_name(report([*START, *rows]))["utility"].verdict == verdict


def test_they_are_in_all_three_files() -> None:
    """A hostile name of a task is escaped."""
    rules = report(START, [{**row, "node": "<b>story</b>"} for row in ZERO])
    part = report_part(rules, {"GA": {"task aggregate": 0.411, "utility": None}})
    whole = Report("LUME", part.blocks, data=part.data)
    page, text, data = to_html(whole), to_markdown(whole), to_data(whole)
    assert 'id="findings"' in page
    # Findings without a measured case are named and not shown.
    decided = measured(rules)
    assert 0 < page.count('<span class="badge') == len(decided) < len(rules)
    assert all(rule.name in text for rule in rules if rule not in decided)
    assert "no case" not in page.lower()
    assert "&lt;b&gt;story" in page
    assert "### holds: Gradient ascent (GA, GD and KL) falls to zero on both sides." in text
    assert "<b>story" not in page + text
    zero = next(finding for finding in data["findings"] if finding["name"] == "zero")
    assert (zero["verdict"], zero["counts"][HOLDS]) == (HOLDS, 3 * SEEDS)
    assert zero["cases"][0]["evidence"][0]["low"] == -0.09
    assert data["semeval"] == {"GA": {"task aggregate": 0.411, "utility": None}}
    assert "0.411" in page
    assert "unscored" in page
    zero_findings = [rule for rule in report(START, ZERO) if rule.name == "zero"]
    (shown,) = tables_of(findings_blocks(zero_findings))
    row = ["GA/0", "story", "0", "20", HOLDS, "falls to zero on both sides", "zero of GA −0.070 [−0.090, −0.050]"]
    assert row in [[cell.text for cell in cells] for cells in shown.rows]


def results_of(levels: dict[str, float], steps: Sequence[Row]) -> tuple[Finding, ...]:
    """Findings where every method's epochs have one regurgitation, one AUC and one utility."""
    rows: list[Row] = []
    for label in METHODS:
        for number in (0, 1):
            at = levels if number else TARGET
            rows += [epoch(label, number, "regurgitation", at["regurgitation"])]
            rows += [epoch(label, number, "utility", at["utility"], node="")]
    areas = {"target": TARGET["auc"], "retrained": RETRAINED["auc"]} | dict.fromkeys(METHODS, levels["auc"])
    return report(rows, steps, areas=areas)


TARGET = {"regurgitation": 0.95, "auc": 0.98, "utility": 0.5}
RETRAINED = {"regurgitation": 0.2, "auc": 0.15, "utility": 0.5}
SCRAMBLED = {"regurgitation": 0.0, "auc": 0.5, "utility": 0.25}


def steps(zero: tuple[float, float], fell: tuple[float, float]) -> list[Row]:
    """Differences of epochs where nothing rises again, and NPO is as fast as the others."""
    rows = [contrast("zero", label, *zero) for label in UNBOUNDED]
    rows += [contrast("fell", "GD", *fell), contrast("rose", "GD", -0.1, -0.09)]
    return rows + [contrast("slower", "NPO", 0.0, 0.0) for _ in range(3)]


def test_controls() -> None:
    """Unlearned = target: its own contrasts are a part of the target's, those against others are exactly 0."""
    check_controls(
        nothing=results_of(TARGET, steps((0.83, 0.88), (-0.1, -0.09))),
        everything=results_of(RETRAINED, steps((0.08, 0.12), (-0.1, -0.09))),
        premises=["memorized"],
        success=["membership falls"],
    )


def test_a_scrambled_model_holds_only_what_says_damage() -> None:
    """Everything is 0 after the first epoch: the paper's own words for damage hold, nothing else does."""
    rules = by_name(results_of(SCRAMBLED, steps((-0.1, -0.09), (0.8, 0.86))))
    damage = {"zero", "utility", "membership falls"}
    assert {name for name, finding in rules.items() if finding.verdict == HOLDS} == {"memorized", *damage}
    assert {rules[name].verdict for name in ("recovery", "membership stays", "over-forgotten")} == {FAILS}
    assert "destroyed model" in rules["membership falls"].rule


def test_an_auc_that_stays_says_nothing_where_nothing_was_forgotten() -> None:
    rows = [*START, epoch("NPO", 1, "regurgitation", 0.95)]
    assert by_name(report(rows, areas={**AREAS, "NPO": 0.9}))["membership stays"].verdict == OPEN


def test_runs_that_were_attacked_and_not_evaluated_by_epoch_have_findings_on_membership_alone() -> None:
    rules = by_name(report([], areas={**AREAS, **dict.fromkeys(METHODS, 0.55)}))
    decided = {name for name, finding in rules.items() if finding.cases}
    assert "membership falls" in decided
    assert not decided & {"memorized", "zero", "recovery", "slower", "utility"}
