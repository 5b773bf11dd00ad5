"""Ratings of a rehearsal in MedForget's report: shown with their mark, and no finding is decided by them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sweep_folders import MakeSweep

from medunlearn.data.origins import DRAWN, is_drawn, is_marked
from medunlearn.papers.medforget.claims import findings
from medunlearn.papers.medforget.figures import figure_5, figure_6
from medunlearn.papers.medforget.measures import DRAWN_GEN_SCORE, GEN_SCORE, ROUGE
from medunlearn.papers.medforget.report import report_of
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.medforget.tables import attack_table, table_3, table_5, variants_table
from medunlearn.reports.blocks import Table, figures_of
from medunlearn.reports.claims import Finding
from medunlearn.reports.provenance import watermarked
from medunlearn.reports.write import write_report

from .conftest import METHODS, SEEDS, SPLITS

Gather = Callable[..., LevelResults]


@pytest.fixture(scope="module")
def rehearsed(make_sweep: MakeSweep, gather: Gather) -> LevelResults:
    return gather(make_sweep(rehearsed=True).all(SPLITS, METHODS, flat="flat_50", seeds=SEEDS))


def decided(found: Sequence[Finding]) -> list[tuple[str, list[tuple[Any, str]]]]:
    return [(finding.name, [(dict(case.labels), case.verdict) for case in finding.cases]) for finding in found]


def test_findings_are_those_without_a_judge(rehearsed: LevelResults, results: LevelResults) -> None:
    assert (rehearsed.tasks[0], rehearsed.shown_tasks[0]) == (ROUGE, DRAWN_GEN_SCORE)
    assert decided(findings(rehearsed)) == decided(findings(results))
    assert not any(map(is_drawn, rehearsed.contrasts["measure"]))


def test_ratings_of_a_judge_decide(make_sweep: MakeSweep, gather: Gather) -> None:
    """The same numbers, rated: what the test above forbids is what the report does with real ratings."""
    judged = gather(make_sweep(judged=True, attacked=False).all(SPLITS[:1], METHODS, seeds=SEEDS[:1]))
    assert judged.tasks[0] == judged.shown_tasks[0] == GEN_SCORE
    assert "Gen Score" in {case.labels["measure"] for finding in findings(judged) for case in finding.cases}


def heads(table: Table | None) -> list[str]:
    assert table is not None
    return [f"{cell.text} {cell.note}" for cell in table.columns]


def test_every_table_and_figure_of_them_is_marked(rehearsed: LevelResults, tmp_path: Path) -> None:
    for table in (table_3(rehearsed), table_5(rehearsed), attack_table(rehearsed)):
        assert any("Gen Score" in head for head in heads(table))
        assert all(is_marked(head) for head in heads(table) if "Gen Score" in head or "Factuality" in head)
    # Never beside a published number.
    variants = variants_table(rehearsed)
    assert variants is None or not any("Gen Score" in head for head in heads(variants))
    rows = [*figure_5(rehearsed, rehearsed.shown_tasks), *figure_6(rehearsed)]
    axes = {spec["layout"]["yaxis"]["title"]["text"] for _, panels in rows for _, spec in panels}
    assert {axis for axis in axes if "Gen Score" in axis} == {"Gen Score (drawn), %"}

    report = report_of(rehearsed).report
    page = write_report(report, tmp_path)
    specs = [figure.spec for figure in figures_of(watermarked(report).blocks)]
    gen = [spec for spec in specs if "(drawn)" in spec["layout"]["yaxis"]["title"]["text"]]
    assert len(gen) == sum("Gen Score" in s["layout"]["yaxis"]["title"]["text"] for _, p in rows for _, s in p)
    assert all(DRAWN in [note["text"] for note in spec["layout"]["annotations"]] for spec in gen)
    others = [spec for spec in specs if spec not in gen]
    assert not any(note["text"] == DRAWN for spec in others for note in spec["layout"].get("annotations", ()))
    drawings = re.findall(r"<svg\b.*?</svg>", page.read_text("utf-8"), flags=re.DOTALL)
    assert sum(DRAWN in drawing for drawing in drawings) >= len(gen)

    text = (tmp_path / "report.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line]
    tables = [
        (before, head)
        for before, head, below in zip(lines, lines[1:], lines[2:], strict=False)
        if set(below) == set("|- ")
    ]
    marked = [(before, head) for before, head in tables if "(drawn at random" in head]
    assert len(marked) >= 3
    assert all(DRAWN in before for before, _ in marked)
    assert "no judge rated" not in text.lower()
    assert not any("Gen Score" in first and "holds" in first for first, _ in pairwise(lines))

    data = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert {name for name in data["numbers"]["measure"] if "factuality" in name} == {"factuality.drawn"}
    assert {name for name in data["attacked"]["measure"] if "gen_score" in name} == {"gen_score.drawn"}
