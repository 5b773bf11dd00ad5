"""Sections of a panel's report: numbers and names, without record text or judges' text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.data.origins import DRAWN, NOT_RECORDED, marked
from medunlearn.judging.controls import control_counts, remarks
from medunlearn.judging.judges import PANEL
from medunlearn.judging.panel_tables import ALL, NONE, JudgePanel, agreements, criteria, distribution, ratings
from medunlearn.reports.blocks import Cell, Report, Section, Table, Text
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.provenance import mark_blocks

_MEASURES = {
    "agreement": "Agreement",
    "cohen_kappa": "Cohen's kappa",
    "weighted_kappa": "Cohen's kappa, quadratic weights",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha, verdicts may be missing",
    "row_agreement": "Average agreement a case",
    "both_positive": "Both positive, of all labelled",
}
_CONTROLS = "Invented cases with known verdicts, asked with the same prompt. They count in no other table."
_KAPPA = (
    "A kappa is low wherever nearly all cases are of one class, however well raters agree; read it beside the raw "
    "agreement. The words for kappas are a convention (Landis & Koch 1977)."
)


def panel_title(panel: JudgePanel) -> str:
    """Task, numbers of cases, subjects and judges, and the mark of drawn verdicts."""
    counts = f"{len(panel.cases)} cases, {len(set(panel.subjects))} subjects, {len(panel.judges)} judges"
    title = f"{panel.task.title}: {counts}"
    return marked(title) if panel.drawn else title


def panel_about(panel: JudgePanel) -> str:
    """Prompt, source, and explanation of the intervals."""
    return f"Prompt {panel.task.version}; after {panel.task.source}. Brackets: 95% intervals over subjects."


def panel_sections(panel: JudgePanel) -> list[Section]:
    """Sections on verdicts, groups, agreement, missing verdicts (AMNESIA, Tables 8-10, 12 and 13), and control
    cases. Drawn verdicts are marked.
    """
    sections = _panel_sections(panel)
    if not panel.drawn:
        return sections
    return [replace(part, blocks=mark_blocks(part.blocks, whole=True)) for part in sections]


def _panel_sections(panel: JudgePanel) -> list[Section]:
    agreement_rows = [
        (
            _MEASURES[row["measure"]],
            row["on"],
            f"{row['first']} and {row['second']}" if row["second"] else "all judges",
            _number_cell(row, percent=not row["measure"].endswith(("kappa", "alpha"))),
            row["words"],
            row["n_cases"],
        )
        for row in agreements(panel).to_dict("records")
    ]
    criteria_rows = [
        (row["judge"], row["criterion"], _number_cell(row, "share"), row["n_cases"])
        for row in criteria(panel).to_dict("records")
    ]
    lacking = panel.judgements[panel.judgements["verdict"].isna()]
    counts = Counter(zip(lacking["judge"], lacking["status"], lacking["reason"], strict=True)).most_common()
    missing = [(*key, n) for key, n in counts]
    none = "" if missing else "None: every judge gave a verdict on every case."
    sections = _rating_sections(panel) if panel.task.rates else _verdict_sections(panel)
    if agreement_rows:
        head = ("measure", "on", "who", "value", "", "cases")
        sections.append(_section("Agreement of the judges", head, agreement_rows, _KAPPA))
    if criteria_rows:
        sections.append(_section("Criteria met", ("judge", "criterion", "share", "cases"), criteria_rows))
    without = _section("Without a verdict", ("judge", "what", "why", "cases"), missing, none)
    return [*sections, without, _control_section(panel)]


def _control_section(panel: JudgePanel) -> Section:
    """Control cases with the expected verdict, by judge, and remarks on judges that cannot be trusted."""
    counts = control_counts(panel.controls)
    rows = [(judge, right, asked) for judge, (right, asked) in counts.items()]
    aside = _CONTROLS if rows else f"Control cases: {NOT_RECORDED}."
    part = _section("Control cases", ("judge", "as expected", "asked"), rows, aside)
    return replace(part, blocks=(*(Text(line) for line in remarks(panel)), *part.blocks))


def people_sections(panel: JudgePanel, confusion: pd.DataFrame, measured: pd.DataFrame) -> list[Section]:
    """Sections that compare judges and panel with annotators (AMNESIA, Table 11)."""
    rows = [
        (
            _MEASURES[row["measure"]],
            row["annotator"],
            row["other"],
            _number_cell(row, percent=row["measure"] in ("agreement", "both_positive")),
            row["words"],
            row["n_cases"],
            row["n_excluded"],
        )
        for row in measured.to_dict("records")
    ]
    left_out = (
        ""
        if panel.task.rates
        else " Left out of agreement and kappa are labelled cases on which the other side said neither "
        f"{panel.task.positive} nor {panel.task.negative}."
    )
    head = ("measure", "annotator", "against", "value", "", "cases", "left out")
    sections = [_section("Judges against people", head, rows, _KAPPA + left_out)]
    for (person, judge), cells in confusion.groupby(["annotator", "judge"], sort=False):
        names = list(dict.fromkeys(cells["human"]))
        table = cells.pivot(index="human", columns="verdict", values="n").loc[names, names]
        body = [(human, *table.loc[human]) for human in names]
        sections.append(_section(f"{person} (rows) and {judge} (columns)", ("", *names), body))
    return sections


def panel_words(panel: JudgePanel) -> str:
    """:func:`panel_sections` as Markdown."""
    return to_markdown(Report(panel_title(panel), (Text(panel_about(panel)), *panel_sections(panel))))


def people_words(panel: JudgePanel, confusion: pd.DataFrame, measured: pd.DataFrame) -> str:
    """:func:`people_sections` as Markdown."""
    title, sections = panel.task.title, tuple(people_sections(panel, confusion, measured))
    return to_markdown(Report(title, sections, drawn=DRAWN if panel.drawn else ""))


def _section(title: str, head: Iterable[object], rows: Iterable[Sequence[object]], aside: str = "") -> Section:
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row) for row in rows)
    table = Table(tuple(Cell(str(name)) for name in head), cells)
    return Section(title, (*((table,) if cells else ()), *((Text(aside, "aside"),) if aside else ())))


def _verdict_sections(panel: JudgePanel) -> list[Section]:
    """Verdicts of every judge on all cases, and by group for the last one (the panel, if there is one)."""
    verdicts = distribution(panel)
    judges = list(dict.fromkeys(verdicts["judge"]))
    rank = {verdict: place for place, verdict in enumerate((*panel.task.verdicts, panel.task.split, NONE))}
    verdicts = verdicts.sort_values("verdict", key=lambda names: names.map(rank), kind="stable")
    of_all, of_groups = (
        verdicts[verdicts["group"] == ALL],
        verdicts[(verdicts["group"] != ALL) & (verdicts["judge"] == judges[-1])],
    )
    sections = [_section("Verdicts", ("verdict", *judges), _cross_rows(of_all, "verdict", "judge", judges))]
    if len(of_groups):
        is_missing = of_groups["verdict"] == NONE
        if not of_groups.loc[is_missing, "n"].any():
            of_groups = of_groups[~is_missing]
        heads = list(dict.fromkeys(of_groups["verdict"]))
        body = _cross_rows(of_groups, "group", "verdict", heads)
        sections.append(_section(f"{judges[-1].capitalize()} by group", ("group", *heads), body))
    return sections


def _cross_rows(verdicts: pd.DataFrame, index: str, columns: str, names: Sequence[str]) -> list[tuple[object, ...]]:
    """A row per value of one label, a cell per value of another; without a row for missing verdicts if there are
    none.
    """
    rows: list[tuple[object, ...]] = []
    for value, own in verdicts.groupby(index, sort=False):
        if value != NONE or own["n"].any():
            cells = {row[columns]: _count_cell(row) for row in own.to_dict("records")}
            rows.append((value, *(cells.get(name, Cell("")) for name in names)))
    return rows


def _rating_sections(panel: JudgePanel) -> list[Section]:
    rows = [
        (row["group"], row["judge"], _number_cell(row, "mean", percent=False), row["n_scored"], row["n_unscored"])
        for row in ratings(panel).to_dict("records")
    ]
    return [_section("Ratings, 1 to 10", ("group", "judge", "mean", "rated", "not rated"), rows)]


def _count_cell(row: Mapping[Any, Any]) -> Cell:
    share = _number_cell(row, "share")
    return Cell(f"{row['n']} ({share.text})", share.note if row["judge"] == PANEL else "")


def _number_cell(row: Mapping[Any, Any], name: str = "value", *, percent: bool = True) -> Cell:
    show = "{:.1%}".format if percent else "{:.3f}".format
    if pd.isna(row[name]):
        return Cell("none")
    return Cell(show(row[name]), "" if pd.isna(row["low"]) else f"[{show(row['low'])}, {show(row['high'])}]")
