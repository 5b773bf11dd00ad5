"""A panel's tables as Markdown: numbers and names, no text of a record and nothing that a judge said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from medunlearn.llm.judging.judges import PANEL
from medunlearn.llm.judging.tables import ALL, NONE, Panel, agreements, criteria, distribution, ratings

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


def panel_words(panel: Panel) -> str:
    """Verdicts, groups, agreement, and what is missing (AMNESIA, Tables 8-10, 12 and 13)."""
    subjects = len(set(panel.subjects))
    parts = [
        f"# {panel.task.title}: {len(panel.cases)} cases, {subjects} subjects, {len(panel.judges)} judges",
        f"Prompt {panel.task.version}; after {panel.task.source}. Brackets: 95% bootstrap over subjects.",
        *(_rating_parts(panel) if panel.task.rates else _verdict_parts(panel)),
        *_agreement_parts(panel),
        *_criteria_parts(panel),
        "## Without a verdict",
        _missing(panel),
    ]
    return "\n\n".join(parts) + "\n"


def people_words(panel: Panel, confusion: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Judges and panel against annotators (AMNESIA, Table 11)."""
    parts = [f"# {panel.task.title}: judges against people"]
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
    parts += [table(("measure", "annotator", "against", "value", "", "cases", "left out"), rows), _KAPPA]
    if not panel.task.rates:
        parts.append(
            "Left out of agreement and kappa are labelled cases on which the other side said neither "
            f"{panel.task.positive} nor {panel.task.negative}."
        )
    for (person, judge), group in confusion.groupby(["annotator", "judge"], sort=False):
        names = list(dict.fromkeys(group["human"]))
        cells = {(row["human"], row["verdict"]): row["n"] for row in group.to_dict("records")}
        body = [(human, *(cells[human, verdict] for verdict in names)) for human in names]
        parts += [f"## {_plain(person)} (rows) and {_plain(judge)} (columns)", table(("", *names), body)]
    return "\n\n".join(parts) + "\n"


def _verdict_parts(panel: Panel) -> list[str]:
    found = distribution(panel)
    judges = list(dict.fromkeys(found["judge"]))
    of_all = {(row["judge"], row["verdict"]): row for row in found[found["group"] == ALL].to_dict("records")}
    verdicts = [v for v in (*panel.task.verdicts, panel.task.split, NONE) if any((j, v) in of_all for j in judges)]
    rows = [
        (verdict, *(_counted(of_all.get((judge, verdict))) for judge in judges))
        for verdict in verdicts
        if verdict != NONE or any(of_all[judge, verdict]["n"] for judge in judges)
    ]
    parts = ["## Verdicts", table(("verdict", *judges), rows)]
    last = judges[-1]
    groups = found[(found["group"] != ALL) & (found["judge"] == last)]
    groups = groups[(groups["verdict"] != NONE) | (groups.groupby("verdict")["n"].transform("sum") > 0)]
    if len(groups):
        body = [
            (group, *(_counted(row) for row in own.to_dict("records")))
            for group, own in groups.groupby("group", sort=False)
        ]
        heads = list(dict.fromkeys(groups["verdict"]))
        parts += [f"## {_plain(str(last)).capitalize()} by group", table(("group", *heads), body)]
    return parts


def _rating_parts(panel: Panel) -> list[str]:
    rows = [
        (row["group"], row["judge"], _share(row, "mean", percent=False), row["n_scored"], row["n_unscored"])
        for row in ratings(panel).to_dict("records")
    ]
    return ["## Ratings, 1 to 10", table(("group", "judge", "mean", "rated", "not rated"), rows)]


def _agreement_parts(panel: Panel) -> list[str]:
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
    return ["## Agreement of the judges", table(("measure", "on", "who", "value", "", "cases"), rows), _KAPPA]


def _criteria_parts(panel: Panel) -> list[str]:
    rows = [
        (row["judge"], row["criterion"], _share(row, "share"), row["n_cases"])
        for row in criteria(panel).to_dict("records")
    ]
    return ["## Criteria met", table(("judge", "criterion", "share", "cases"), rows)] if rows else []


def _missing(panel: Panel) -> str:
    lacking = panel.judgements[panel.judgements["verdict"].isna()]
    counts = Counter(zip(lacking["judge"], lacking["status"], lacking["reason"], strict=True))
    if not counts:
        return "None: every judge gave a verdict on every case."
    return table(("judge", "what", "why", "cases"), [(*key, n) for key, n in counts.most_common()])


def _counted(row: Any) -> str:
    if row is None:
        return ""
    shown = _share(row, "share") if row["judge"] == PANEL else _percent(row["share"])
    return f"{row['n']} ({shown})"


def _share(row: Any, name: str = "value", *, percent: bool = True) -> str:
    show = _percent if percent else lambda value: f"{value:.3f}"
    if pd.isna(row[name]):
        return "none"
    return show(row[name]) + ("" if pd.isna(row["low"]) else f" [{show(row['low'])}, {show(row['high'])}]")


def _percent(value: Any) -> str:
    return "none" if pd.isna(value) else f"{100 * value:.1f}%"


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; names come from users and files, so nothing in a cell ends it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines)


def _plain(cell: object) -> str:
    return " ".join(str(cell).replace("|", "\\|").replace("<", "&lt;").split())
