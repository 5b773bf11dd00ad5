"""Sections of a panel's report: numbers and names, no text of a record and nothing that a judge said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from medunlearn.judging.judges import PANEL
from medunlearn.judging.tables import ALL, NONE, JudgePanel, agreements, criteria, distribution, ratings
from medunlearn.reports.blocks import Cell, Report, Section, Table, Text
from medunlearn.reports.markdown import to_markdown

_MEASURES = {
    "agreement": "Agreement",
    "cohen_kappa": "Cohen's kappa",
    "weighted_kappa": "Cohen's kappa, quadratic weights",
    "fleiss_kappa": "Fleiss' kappa",
    "row_agreement": "Average agreement a case",
    "both_positive": "Both positive, of all labelled",
}
_KAPPA = (
    "A kappa is low wherever nearly all cases are of one class, however well raters agree; read it beside the raw "
    "agreement. The words for kappas are a convention (Landis & Koch 1977)."
)


def panel_title(panel: JudgePanel) -> str:
    """What was judged, how much of it and by how many."""
    return f"{panel.task.title}: {len(panel.cases)} cases, {len(set(panel.subjects))} subjects, " + (
        f"{len(panel.judges)} judges"
    )


def panel_about(panel: JudgePanel) -> str:
    """Prompt, source, and how intervals are to be read."""
    return f"Prompt {panel.task.version}; after {panel.task.source}. Brackets: 95% bootstrap over subjects."


def panel_sections(panel: JudgePanel) -> list[Section]:
    """Verdicts, groups, agreement, and what is missing (AMNESIA, Tables 8-10, 12 and 13)."""
    return [
        *(_rating_parts(panel) if panel.task.rates else _verdict_parts(panel)),
        *_agreement_parts(panel),
        *_criteria_parts(panel),
        _missing(panel),
    ]


def people_sections(panel: JudgePanel, confusion: pd.DataFrame, measured: pd.DataFrame) -> list[Section]:
    """Judges and panel against annotators (AMNESIA, Table 11)."""
    rows = [
        (
            _MEASURES[row["measure"]],
            row["annotator"],
            row["other"],
            _share(row, percent=row["measure"] in ("agreement", "both_positive")),
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
    parts = [_section("Judges against people", head, rows, _KAPPA + left_out)]
    for (person, judge), group in confusion.groupby(["annotator", "judge"], sort=False):
        names = list(dict.fromkeys(group["human"]))
        cells = {(row["human"], row["verdict"]): row["n"] for row in group.to_dict("records")}
        body = [(human, *(cells[human, verdict] for verdict in names)) for human in names]
        parts.append(_section(f"{person} (rows) and {judge} (columns)", ("", *names), body))
    return parts


def panel_words(panel: JudgePanel) -> str:
    """:func:`panel_sections` as Markdown."""
    return to_markdown(Report(panel_title(panel), (Text(panel_about(panel)), *panel_sections(panel))))


def people_words(panel: JudgePanel, confusion: pd.DataFrame, measured: pd.DataFrame) -> str:
    """:func:`people_sections` as Markdown."""
    return to_markdown(Report(panel.task.title, tuple(people_sections(panel, confusion, measured))))


def _section(title: str, head: Iterable[object], rows: Iterable[Sequence[object]], aside: str = "") -> Section:
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row) for row in rows)
    table = Table(tuple(Cell(str(name)) for name in head), cells)
    return Section(title, (*((table,) if cells else ()), *((Text(aside, "aside"),) if aside else ())))


def _verdict_parts(panel: JudgePanel) -> list[Section]:
    found = distribution(panel)
    judges = list(dict.fromkeys(found["judge"]))
    of_all = {(row["judge"], row["verdict"]): row for row in found[found["group"] == ALL].to_dict("records")}
    verdicts = [v for v in (*panel.task.verdicts, panel.task.split, NONE) if any((j, v) in of_all for j in judges)]
    rows = [
        (verdict, *(_counted(of_all.get((judge, verdict))) for judge in judges))
        for verdict in verdicts
        if verdict != NONE or any(of_all[judge, verdict]["n"] for judge in judges)
    ]
    parts = [_section("Verdicts", ("verdict", *judges), rows)]
    last = judges[-1]
    groups = found[(found["group"] != ALL) & (found["judge"] == last)]
    groups = groups[(groups["verdict"] != NONE) | (groups.groupby("verdict")["n"].transform("sum") > 0)]
    if len(groups):
        body = [
            (group, *(_counted(row) for row in own.to_dict("records")))
            for group, own in groups.groupby("group", sort=False)
        ]
        heads = list(dict.fromkeys(groups["verdict"]))
        parts.append(_section(f"{str(last).capitalize()} by group", ("group", *heads), body))
    return parts


def _rating_parts(panel: JudgePanel) -> list[Section]:
    rows = [
        (row["group"], row["judge"], _share(row, "mean", percent=False), row["n_scored"], row["n_unscored"])
        for row in ratings(panel).to_dict("records")
    ]
    return [_section("Ratings, 1 to 10", ("group", "judge", "mean", "rated", "not rated"), rows)]


def _agreement_parts(panel: JudgePanel) -> list[Section]:
    found = agreements(panel)
    if found.empty:
        return []
    rows = [
        (
            _MEASURES[row["measure"]],
            row["on"],
            f"{row['first']} and {row['second']}" if row["second"] else "all judges",
            _share(row, percent="kappa" not in row["measure"]),
            row["words"],
            row["n_cases"],
        )
        for row in found.to_dict("records")
    ]
    return [_section("Agreement of the judges", ("measure", "on", "who", "value", "", "cases"), rows, _KAPPA)]


def _criteria_parts(panel: JudgePanel) -> list[Section]:
    rows = [
        (row["judge"], row["criterion"], _share(row, "share"), row["n_cases"])
        for row in criteria(panel).to_dict("records")
    ]
    return [_section("Criteria met", ("judge", "criterion", "share", "cases"), rows)] if rows else []


def _missing(panel: JudgePanel) -> Section:
    lacking = panel.judgements[panel.judgements["verdict"].isna()]
    counts = Counter(zip(lacking["judge"], lacking["status"], lacking["reason"], strict=True))
    none = "" if counts else "None: every judge gave a verdict on every case."
    rows = [(*key, n) for key, n in counts.most_common()]
    return _section("Without a verdict", ("judge", "what", "why", "cases"), rows, none)


def _counted(row: Any) -> Cell:
    if row is None:
        return Cell("")
    share = _share(row, "share")
    return Cell(f"{row['n']} ({share.text})", share.note if row["judge"] == PANEL else "")


def _share(row: Any, name: str = "value", *, percent: bool = True) -> Cell:
    show = _percent if percent else lambda value: f"{value:.3f}"
    if pd.isna(row[name]):
        return Cell("none")
    return Cell(show(row[name]), "" if pd.isna(row["low"]) else f"[{show(row['low'])}, {show(row['high'])}]")


def _percent(value: Any) -> str:
    return f"{100 * value:.1f}%"
