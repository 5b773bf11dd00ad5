"""Findings are decided by intervals alone, and recommendations by what was found alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.audit.audit_tables import read_tables
from medunlearn.papers.memorization.report import AuditContent, findings, recommendations
from medunlearn.papers.memorization.report.claims import decoding_cases, epoch_cases, least_loss
from medunlearn.papers.memorization.report.content import evidence_of
from medunlearn.papers.memorization.report.report import published_tables
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN

NAMES = (
    *("above baseline", "larger model", "longer prefix", "decoding", "first 100 tokens", "further on"),
    *("persistence", "option regeneration", "more epochs", "before overfitting", "duplication"),
)


def verdicts(content: AuditContent) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in findings(content)}


def swapped(content: AuditContent, name: str, table: pd.DataFrame) -> AuditContent:
    return replace(content, tables={**content.tables, name: table})


def test_what_was_set_is_found(content: AuditContent):
    by_name = verdicts(content)
    assert tuple(by_name) == NAMES
    holding = {"above baseline", "larger model", "longer prefix", "persistence"}
    holding |= {"option regeneration", "more epochs", "before overfitting"}
    assert {name for name, verdict in by_name.items() if verdict == HOLDS} == holding
    # top_k_50 was made to draw out a third of what greedy does.
    assert by_name["decoding"] == FAILS
    # Copies are not known, and only 60 tokens follow a prefix.
    assert {by_name[name] for name in ("duplication", "further on", "first 100 tokens")} == {NOT_MEASURABLE}
    cases = {(case.labels["where"].rpartition(", ")[2], case.verdict) for case in decoding_cases(content)}
    assert {("top_k_50", FAILS), ("temperature_0.7", HOLDS)} <= cases
    assert not {("top_k_50", HOLDS), ("temperature_0.7", FAILS)} & cases


def test_texts_that_a_model_never_saw_are_no_case_of_what_training_does(content: AuditContent):
    """Nor are those that its baseline was trained on, too."""

    def places(med: dict[str, tuple[str, ...]], base: dict[str, tuple[str, ...]]) -> set[tuple[str, str]]:
        own = {"med": med, "base": base}
        models = tuple(replace(model, **own.get(model.label, {})) for model in content.models)
        (finding,) = [each for each in findings(replace(content, models=models)) if each.name == "above baseline"]
        named = ((case.labels["model"], case.labels["where"].partition(",")[0]) for case in finding.cases)
        return {(model, corpus) for model, corpus in named if model == "med − base"}

    both = {("med − base", "guidelines"), ("med − base", "notes")}
    assert places({}, {}) == both
    assert places({"unseen": ("notes",)}, {}) == {("med − base", "guidelines")}
    assert places({}, {"trained": ("guidelines",)}) == {("med − base", "notes")}


@pytest.mark.parametrize(
    ("low", "high", "subjects", "verdict"),
    [
        (0.1, 0.3, 40, HOLDS),
        (-0.3, -0.1, 40, FAILS),
        (-0.1, 0.3, 40, OPEN),
        (0.1, 0.3, 4, NOT_MEASURABLE),
        (None, None, 1, NOT_MEASURABLE),
    ],
)
def test_an_interval_decides_and_four_subjects_do_not(
    content: AuditContent, low: float | None, high: float | None, subjects: int, verdict: str
):
    row = content.tables["differences"].query("relation == 'baseline' and measure == 'run_30'").head(1)
    values = {"difference": 0.2, "low": low, "high": high, "n_subjects": subjects}
    assert verdicts(swapped(content, "differences", row.assign(**values)))["above baseline"] == verdict


def test_a_threshold_is_taken_off_the_interval_too():
    row = {"value": 0.8, "low": 0.45, "high": 0.9, "n_subjects": 30, "reason": None}
    evidence = evidence_of("share", row, "value", minus=0.5)
    assert (evidence.value, evidence.low, evidence.high) == pytest.approx((0.3, -0.05, 0.4))
    assert evidence.above is None


def of_epochs(content: AuditContent, losses: list[float], runs: list[tuple[float, float, float]]) -> AuditContent:
    rows = [(epoch, "validation loss", loss, None, None) for epoch, loss in enumerate(losses)]
    rows += [(epoch, "run 30", *values) for epoch, values in enumerate(runs)]
    rows += [(epoch, "run 30 (held out)", 0.02, 0.01, 0.03) for epoch, _ in enumerate(runs)]
    return swapped(content, "epochs", pd.DataFrame(rows, columns=["epoch", "measure", "value", "low", "high"]))


@pytest.mark.parametrize(
    ("losses", "runs", "verdict"),
    [
        ([3, 2, 1, 2], [(0.1, 0.05, 0.15), (0.2, 0.1, 0.3), (0.5, 0.4, 0.6), (0.6, 0.5, 0.7)], HOLDS),
        ([3, 2, 1, 2], [(0.5, 0.4, 0.6), (0.2, 0.1, 0.3), (0.1, 0.05, 0.15), (0.9, 0.8, 1.0)], FAILS),
        ([3, 2, 1, 2], [(0.1, 0.0, 0.3), (0.2, 0.1, 0.3), (0.3, 0.2, 0.4), (0.9, 0.8, 1.0)], OPEN),
        ([1, 2, 3, 4], [(0.1, 0.05, 0.15)] * 4, OPEN),
    ],
)
def test_before_overfitting_ends_at_the_least_loss(content: AuditContent, losses, runs, verdict):
    (case,) = epoch_cases(of_epochs(content, losses, runs))
    assert case.verdict == verdict
    assert (least_loss(content), least_loss(of_epochs(content, [], runs))) == (3, None)


def test_a_small_ratio_is_not_little_effect_by_being_small(content: AuditContent):
    """From 0.6% to 0.1%: within one point, and most of the effect that there can be."""
    differences, ratios = content.tables["differences"].copy(), content.tables["ratios"].copy()
    decoded = differences["relation"] == "decoding"
    differences.loc[decoded, ["difference", "low", "high"]] = [-0.005, -0.009, -0.001]
    ratios.loc[ratios["measure"] == "run_30", "value"] = 0.006
    small = swapped(swapped(content, "differences", differences), "ratios", ratios)
    assert {case.verdict for case in decoding_cases(small)} == {OPEN}


def test_recommendations_come_from_what_was_found(content: AuditContent, audits: Path):
    advice = recommendations(content, findings(content))
    names = [entry.name for entry in advice]
    assert names[:2] == ["patient information", "clinical narrative"]
    assert "set phrases" in names
    assert "persistence" in names
    assert "first tokens" not in names
    patients = advice[0]
    tables = read_tables(audits / "med")
    assert tables.findings is not None
    leaks = tables.findings.merge(tables.probes[["probe_id", "subject"]], on="probe_id", suffixes=("_", ""))
    leaks = leaks[leaks["in_record"] & ~leaks["in_prefix"] & (leaks["variant"] == "greedy")]
    distinct = {(row.subject, row.kind, row.value.casefold()) for row in leaks.itertuples()}
    whose = len({subject for subject, *_ in distinct})
    assert len(distinct) < len(leaks), "several prompts give away the same"
    assert patients.observed.startswith(f"med: {len(distinct)} distinct identifiers of {whose} patients")
    assert "no baseline was searched" in patients.observed
    assert "by rules" in patients.observed


def test_no_recommendation_without_an_observation(content: AuditContent):
    bare = replace(content, screens=(), tables={name: table.iloc[:0] for name, table in content.tables.items()})
    assert recommendations(bare, findings(bare)) == ()
    assert set(verdicts(bare).values()) == {NOT_MEASURABLE}
    assert all(finding.summary.startswith("No case: ") for finding in findings(bare))


def rows(table: str, keys: int = 2, start: int = 3) -> dict:
    return {tuple(row[:keys]): row[start:] for row in paper_yaml("memorization", "published")[table]["rows"]}


def test_the_papers_numbers_fit_what_is_said_of_them():
    """Sentences about the paper follow from the printed numbers."""
    table_2, table_5, shares = rows("table_2"), rows("table_5"), rows("table_7", start=2)
    for corpus in ("MEDLINE abstracts (Meditron)", "Experience replay (Meditron)"):
        assert table_2[corpus, "Meditron-7B"][0] < table_2[corpus, "Llama-2-7B"][0]
    for table, total in (("table_3", 787), ("table_9", 3192), ("table_10", 128)):
        assert sum(count for _, count in paper_yaml("memorization", "published")[table]["rows"]) == total
    for corpus in ("Clinical guidelines", "MEDLINE abstracts"):
        for parts in zip(
            *(shares[corpus, share] for share in ("only_before", "common", "only_after")), strict=True
        ):
            assert sum(parts) == pytest.approx(100, abs=0.05)
    before, common, after = (
        shares["Clinical guidelines", share] for share in ("only_before", "common", "only_after")
    )
    for at, retained in ((0, 0.79), (4, 0.93)):
        assert common[at] / (before[at] + common[at]) == pytest.approx(retained, abs=0.005)
    # Table 7's sizes before and after are in the ratio of 8.85% and 7.90%: the text has them the wrong way round.
    assert (common[0] + after[0]) / (common[0] + before[0]) == pytest.approx(7.90 / 8.85, abs=0.001)
    abstracts = [shares["MEDLINE abstracts", share][3] for share in ("only_before", "common")]
    assert abstracts[1] / sum(abstracts) == pytest.approx(0.59, abs=0.005)
    exact = {model: table_5["MedMCQA", model][2] for corpus, model in table_5 if corpus == "MedMCQA"}
    assert exact["Me-LLaMA-13B"] - exact["LLaMA2-Chat-7B"] == pytest.approx(1.15)
    assert exact["LLaMA2-Chat-7B"] - exact["PMC-LLaMA-7B (Reproduced)"] == pytest.approx(0.69)
    assert rows("table_8", keys=3)["Med-LLaMA3-8B", "Fine-tuned", "run_30"][1] == 7.53


def test_every_published_table_can_be_shown():
    for title, table in published_tables():
        assert title.startswith("Table")
        assert {len(row) for row in table.rows} == {len(table.columns)}
    first = dict(published_tables())["Table 2, prefix of 50 tokens, greedy"].rows[0]
    assert [cell.text for cell in first[1:5]] == ["Llama-2-7B", "1.23%", "0.55%", "0.200"]
    assert first[1].note == "baseline"
    places = {entry["at"] for entry in paper_yaml("memorization", "published")["contradictions"]}
    assert places >= {"Table 2", "Table 3", "Table 7", "Figure 5", "Figure 7"}
