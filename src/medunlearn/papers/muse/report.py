"""MUSE's measures in the report of runs on it."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.attacks.membership.membership_results import AUC
from medunlearn.errors import InputError
from medunlearn.metrics.privacy_leak import privacy_leak
from medunlearn.pipeline.report.papers import GatheredRuns, MeasureRow, measures_part, reference_row, summary_rows
from medunlearn.reports.blocks import Cell, Section, blocks, section
from medunlearn.reports.content import PaperPart
from medunlearn.reports.formatting import UNSCORED, interval, signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records

PARTS = (("forget", "VerbMem"), ("forget", "KnowMem"), ("retain", "KnowMem"))
PRIVACY_LEAK = "PrivLeak"
ABOUT = (
    "VerbMem and KnowMem are ROUGE-L F1, 0-1, higher = remembers more; on retain that is utility.",
    "PrivLeak: AUC of Min-K% minus the retrained model's, over the latter; 0 = leaks as little, above 0 = still "
    "gives members away, below 0 = over-unlearned. The paper's tables have the other sign, times 100.",
)


def paper_part(runs: GatheredRuns) -> PaperPart:
    """VerbMem, KnowMem and PrivLeak, and privacy leakage of every attack with intervals."""
    rows = [
        row
        for side, measure in PARTS
        for model in runs.models
        for row in summary_rows(
            model,
            f"{measure} on {side}",
            model.groups[(model.groups["measure"] == measure) & (model.groups["side"] == side)],
        )
    ]
    labels = [model.run.label for model in runs.models]
    part = measures_part("MUSE", ABOUT, [*rows, *_leak_rows(runs)], labels)
    leaks = rows_of(runs.attacks.privacy_leaks) if runs.attacks else []
    data = {**part.data, "privacy_leakage": list(leaks)}
    return PaperPart(blocks(part.blocks, _leakage_section(runs)), data=data)


def _leak_rows(runs: GatheredRuns) -> Iterator[MeasureRow]:
    areas = {
        str(row["model"]): float(row["value"])
        for row in rows_of(runs.content.membership.table)
        if row["attack"] == "min_k" and row["measure"] == AUC and number(row["value"]) is not None
    }
    retrained = next((model.run.label for model in runs.models if model.run.role == "retrained"), None)
    for label in (model.run.label for model in runs.models):
        if label == retrained:
            yield reference_row(label, PRIVACY_LEAK)
        else:
            value, note = _leak(areas.get(label), areas.get(retrained or ""), retrained)
            yield {"model": label, "measure": PRIVACY_LEAK, "value": value, "note": note}


def _leak(own: float | None, reference: float | None, retrained: str | None) -> tuple[float | None, str]:
    if retrained is None:
        return None, "no retrained model"
    if own is None or reference is None:
        return None, "not attacked: `medunlearn attack RUN BENCH --split forget --attack min_k`"
    try:
        return privacy_leak(own, reference), ""
    except InputError as error:
        return None, str(error)


def _leakage_section(runs: GatheredRuns) -> Section | None:
    """One row a model and attack."""
    if runs.attacks is None:
        return None
    titles = runs.content.membership.titles
    columns = (Cell("Model"), Cell("Attack"), Cell("Privacy leakage", "0 = as the retrained model"))
    rows = (
        (
            Cell(str(row["model"]), f"against {row['against']}"),
            Cell(titles.get(row["attack"], row["attack"])),
            Cell(
                UNSCORED if (value := number(row["value"])) is None else signed(value),
                interval(number(row["low"]), number(row["high"])),
            ),
        )
        for row in rows_of(runs.attacks.privacy_leaks)
    )
    return section("Privacy leakage (MUSE)", records(columns, rows))
