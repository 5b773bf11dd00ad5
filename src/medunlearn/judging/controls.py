"""Control cases of a panel: invented cases with known verdicts, which show whether a judge tells right from wrong.

Every judging run asks each judge about them, with the run's own prompt. They are never in the run's tables of
verdicts; their result stands beside them. A judge with one verdict for all cases is named too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import read_yaml
from medunlearn.judging.judges import Judge
from medunlearn.judging.panel import JudgingMaterial, ask
from medunlearn.judging.panel_tables import JudgePanel
from medunlearn.judging.tasks import JudgingCase
from medunlearn.llm.guard import Decision
from medunlearn.llm.requests import UNFINISHED
from medunlearn.llm.store import Store

LEAST_CASES = 5
"""Cases from which one verdict for all of them is named."""


@dataclass(frozen=True)
class ControlCase:
    """An invented case and the verdicts that are right for it."""

    case: JudgingCase
    expected: tuple[str, ...]


@cache
def control_cases(task: str) -> tuple[ControlCase, ...]:
    """The control cases of a judging task."""
    entries = read_yaml(Path(__file__).with_name("controls.yaml"))[task]
    return tuple(
        ControlCase(
            JudgingCase(f"control {number}", f"control {number}", "control", entry["fields"], ()),
            tuple(entry["expected"]),
        )
        for number, entry in enumerate(entries, 1)
    )


def control_material(material: JudgingMaterial) -> JudgingMaterial:
    """The control cases as cases to judge: open, and with the same prompt and settings."""
    cases = [control.case for control in control_cases(material.task.name)]
    categories = tuple(sorted({case.fields["category"] for case in cases if "category" in case.fields}))
    return replace(material, cases=cases, categories=categories, data_use="open", records=())


def ask_controls(
    material: JudgingMaterial,
    judges: Sequence[Judge],
    decisions: Mapping[str, Decision],
    store: Store,
    *,
    again: bool = False,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Ask every judge about the control cases; ``again`` as for :func:`medunlearn.judging.panel.ask`.

    Returns:
        The judgements with two more columns: ``expected`` (verdicts with commas) and ``right`` (False without a
        verdict); and facts for the run's record, by judge.
    """
    judgements, facts = ask(control_material(material), judges, decisions, store, again=again, quiet=True)
    expected = {control.case.case_id: control.expected for control in control_cases(material.task.name)}
    pairs = list(zip(judgements["case_id"], judgements["verdict"], strict=True))
    controls = judgements.assign(
        expected=[", ".join(expected[case]) for case, _ in pairs],
        right=[verdict in expected[case] for case, verdict in pairs],
    )
    return controls, facts


def control_counts(controls: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Judge -> control cases with the expected verdict, and all that it was reached for; empty without controls."""
    if controls.empty:
        return {}
    reached = controls[~controls["status"].isin(UNFINISHED)]
    by_judge = reached.groupby("judge", sort=False)["right"]
    return {str(judge): (int(own.sum()), len(own)) for judge, own in by_judge}


def one_answer(verdicts: Sequence[Any]) -> str:
    """The verdict of all of at least :data:`LEAST_CASES` cases, if they have only one; else empty."""
    given = [str(verdict) for verdict in verdicts if isinstance(verdict, str)]
    return given[0] if len(given) >= LEAST_CASES and len(set(given)) == 1 else ""


def control_remarks(panel: JudgePanel) -> list[str]:
    """A sentence for each judge that failed half of the control cases or more."""
    return [
        f"{judge} gave the expected verdict on {right} of {asked} control cases: it does not tell right from "
        "wrong, so do not read its verdicts."
        for judge, (right, asked) in control_counts(panel.controls).items()
        if 2 * right <= asked
    ]


def remarks(panel: JudgePanel) -> list[str]:
    """:func:`control_remarks`, and a sentence for each judge that gave one verdict for everything."""
    given = {judge: [vote for vote in votes if vote is not None] for judge, votes in panel.votes.items()}
    alike = [
        f"{judge} gave one verdict for everything: {verdict} on all {len(votes)} cases."
        for judge, votes in given.items()
        if (verdict := one_answer(votes))
    ]
    return [*alike, *control_remarks(panel)]
