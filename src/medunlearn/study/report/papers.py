"""Paper-specific report sections: one function per paper, selected by the benchmark's builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.data.benchmark import Benchmark
from medunlearn.paper import paper_of
from medunlearn.registry import load
from medunlearn.reports.blocks import Cell, Details, Prose, Table, blocks, details, section
from medunlearn.reports.content import PaperPart, ReportContent
from medunlearn.reports.formatting import UNSCORED
from medunlearn.reports.readings import number
from medunlearn.reports.table_blocks import grid, value_cell
from medunlearn.results.evaluated import Evaluated


@dataclass(frozen=True)
class GatheredRuns:
    """Runs of a report with distinct labels, and their benchmark-independent content.

    Attributes:
        attacked: membership attack of each model, None without one.
    """

    models: tuple[Evaluated, ...]
    benchmark: Benchmark | None
    content: ReportContent
    attacked: tuple[Attacked | None, ...]
    attacks: Attacks | None
    replicates: int
    seed: int


PaperReport = Callable[[GatheredRuns], PaperPart]


def paper_part(runs: GatheredRuns) -> PaperPart:
    """Sections, findings and numbers of the paper behind the benchmark; empty for other benchmarks."""
    paper = paper_of(str(runs.content.benchmark["builder"]))
    if not paper.runs_page:
        return PaperPart()
    report: PaperReport = load(paper.runs_page)
    return report(runs)


MeasureRow = Mapping[Any, Any]
"""model, measure, value, low, high, n, note; a value that is null is shown as unscored with its note."""

_COLUMNS = ("model", "measure", "value", "low", "high", "n", "note")
_REFERENCE = "the reference"


def measures_part(
    name: str, about: tuple[str, ...], rows: Sequence[MeasureRow], labels: Sequence[str]
) -> PaperPart:
    """A paper's measures: a section with one row per measure and one column per model."""
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).astype(
        {"value": "Float64", "low": "Float64", "high": "Float64"}
    )
    entries = (
        (Cell(str(row["measure"])), str(row["model"]), _measure_cell(row)) for row in table.to_dict("records")
    )
    part = section(name, Prose(about), grid("Measure", entries, labels), name="published")
    return PaperPart(blocks(part), data={"published": {"name": name, "about": about, "table": table}})


def published_numbers(published: Mapping[str, Any], key: str) -> Details | None:
    """A paper's published numbers for one split or corpus, under their variants; None without any.

    Args:
        published: ``published.yaml``: source, setting, variant, columns, ``rows`` by key (a model and its numbers).
    """
    rows = published["rows"].get(key)
    if rows is None:
        return None
    columns = (Cell("Model"), *(Cell(name, published["variant"]) for name in published["columns"]))
    lines = tuple((Cell(model), *(Cell(f"{number:.4g}") for number in numbers)) for model, *numbers in rows)
    about = f"Published, to compare with in this variant alone: {published['source']}. {published['setting']}"
    return details(about, Table(columns, lines))


def reference_row(model: str, measure: str) -> MeasureRow:
    """The reference model of a measure, which has no value itself."""
    return {"model": model, "measure": measure, "value": None, "note": _REFERENCE}


def summary_rows(model: Evaluated, measure: str, rows: pd.DataFrame) -> Iterable[MeasureRow]:
    """Rows of a summary under another name."""
    for row in rows.to_dict("records"):
        unscored = int(row["n_unscored"])
        numbers = {name: None if pd.isna(row[name]) else float(row[name]) for name in ("value", "low", "high")}
        note = f"{unscored:,} unscored" if unscored else ""
        if numbers["value"] is None:
            note = "no question has one"
        yield {"model": model.run.label, "measure": measure, **numbers, "n": int(row["n_scored"]), "note": note}


def _measure_cell(row: MeasureRow) -> Cell:
    value = number(row["value"])
    note: str = "" if pd.isna(row["note"]) else str(row["note"])
    if value is None:
        # The reference of a comparison is not a gap in the measurement.
        return Cell("reference") if note == _REFERENCE else Cell(UNSCORED, note)
    cell = value_cell(row, note)
    # A p-value of a hundredth of a thousandth is not 0.
    return Cell(f"{value:.2g}", cell.note) if 0.0 < value < 0.0005 else cell
