"""MUSE's measures in the report of runs on it."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.attacks.attacked import Attacks
from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.blocks import Cell, Section, blocks, section
from medunlearn.reports.content import PaperPart
from medunlearn.reports.formatting import UNSCORED, interval, signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.study.report.papers import (
    GatheredRuns,
    MeasureRow,
    measures_part,
    published_numbers,
    reference_row,
    summary_rows,
)
from medunlearn.terminal import with_interval

KNOWMEM = "KnowMem"
PARTS = (("forget", "VerbMem"), ("forget", KNOWMEM), ("retain", KNOWMEM))
PRIVACY_LEAK, ATTACK = "PrivLeak, %", "min_k.muse"
_NOT_ATTACKED = f"not attacked: `medunlearn attack RUN BENCH --split forget --attacks {ATTACK} --against RETRAINED`"
ABOUT = (
    "VerbMem and KnowMem are ROUGE-L F1 as MUSE's code computes it, 0-1, higher = remembers more; on retain that "
    "is utility. KnowMem asks with the paper's in-context examples (`evaluate --context note --template plain`).",
    "PrivLeak, in percent and in the paper's orientation: of Min-40% without EOS (attack min_k.muse), 1 - AUC less "
    "the retrained model's, over the latter; 0 = leaks as little, below 0 = still gives members away, above 0 = "
    "over-unlearned. Privacy leakage further down is of AUCs as they stand, for every attack.",
)


def paper_part(runs: GatheredRuns) -> PaperPart:
    """VerbMem, KnowMem and PrivLeak, and privacy leakage of every attack with intervals."""
    bare = "" if runs.content.context == "note" else " without in-context examples"
    rows = [
        row
        for side, measure in PARTS
        for model in runs.models
        for row in summary_rows(
            model,
            f"{measure} on {side}{bare if measure == KNOWMEM else ''}",
            model.groups[(model.groups["measure"] == measure) & (model.groups["side"] == side)],
        )
    ]
    labels = [model.run.label for model in runs.models]
    part = measures_part("MUSE", ABOUT, [*rows, *_leak_rows(runs)], labels)
    leaks = rows_of(runs.attacks.privacy_leaks) if runs.attacks else []
    data = {**part.data, "privacy_leakage": list(leaks)}
    numbers = published_numbers(paper_yaml("muse", "published"), str(runs.content.benchmark.get("name")))
    published = section("Published numbers of MUSE", numbers)
    return PaperPart(blocks(part.blocks, _leakage_section(runs), published), data=data)


def attack_view(attacks: Attacks, benchmark: Benchmark) -> ResultView:
    """Privacy leakage, the fourth measure, for the terminal; it needs a retrained model."""
    if not len(attacks.table()):
        return ResultView()
    leaks = list(rows_of(attacks.privacy_leaks))
    if not leaks:
        text = "Privacy leakage (PrivLeak) is read against a retrained model: name one with --against."
        return ResultView(blocks=[text])
    columns = ("model", "against", "attack", "privacy leakage", "PrivLeak, % (MUSE)")
    rows = [
        (
            *(row[name] for name in columns[:3]),
            with_interval(row),
            with_interval(row, "muse_value", "muse_low", "muse_high", digits=1),
        )
        for row in leaks
    ]
    about = (
        "Privacy leakage: 0 = leaks as little as the retrained model, above = still gives members away. MUSE's "
        "PrivLeak has the other sign and denominator; its numbers are of the attack min_k.muse."
    )
    return ResultView(blocks=[plain_table(columns, rows, "Privacy leakage"), about])


def _leak_rows(runs: GatheredRuns) -> Iterator[MeasureRow]:
    retrained = next((model.run.label for model in runs.models if model.run.role == "retrained"), None)
    leaks = {
        str(row["model"]): row
        for row in (rows_of(runs.attacks.privacy_leaks) if runs.attacks else ())
        if row["attack"] == ATTACK and row["against"] == retrained
    }
    for label in (model.run.label for model in runs.models):
        if label == retrained:
            yield reference_row(label, PRIVACY_LEAK)
            continue
        note = "" if label in leaks else _NOT_ATTACKED if retrained else "no retrained model"
        value, low, high = (number(leaks.get(label, {}).get(f"muse_{name}")) for name in ("value", "low", "high"))
        if label in leaks and value is None:
            note = "the retrained model's AUC is 1, so nothing can be said relative to 1 - AUC"
        row = {"model": label, "measure": PRIVACY_LEAK, "value": value, "low": low, "high": high, "note": note}
        yield row | ({"n": leaks[label]["n_pairs"]} if label in leaks else {})


def _leakage_section(runs: GatheredRuns) -> Section | None:
    """One row per model and attack."""
    if runs.attacks is None:
        return None
    titles = runs.content.membership.titles
    columns = (Cell("Model"), Cell("Attack"), Cell("Privacy leakage", "0 = as the retrained model, above = leaks"))
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
    return section("Privacy leakage", records(columns, rows))
