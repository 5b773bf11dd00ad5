"""Figure 7: memorization, validation loss and accuracy by epoch; and whether memorization rises first."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.papers.amnesia.report.cases import Evidence
from medunlearn.papers.amnesia.report.content import Contrast
from medunlearn.papers.memorization.report.cases import Case
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.reports.readings import number
from medunlearn.reports.verdicts import OPEN, decide

LOSS = "validation loss"

Value = tuple[float, float | None, float | None]


def series(content: AuditContent) -> dict[str, dict[int, Value]]:
    """Measure -> epoch -> value, low, high; epochs without a value are left out."""
    found: dict[str, dict[int, Value]] = {}
    for row in content.rows("epochs"):
        value = number(row["value"])
        if value is not None:
            line = found.setdefault(str(row["measure"]), {})
            line[int(row["epoch"])] = (value, number(row["low"]), number(row["high"]))
    return {measure: dict(sorted(line.items())) for measure, line in found.items()}


def is_memorization(measure: str) -> bool:
    """Whether a measure of the table of epochs is one of memorization."""
    return measure.startswith(("run ", "memorization", "longest run", "extraction"))


def least_loss(content: AuditContent) -> int | None:
    """The epoch with the least validation loss; the first of equals."""
    losses = series(content).get(LOSS, {})
    return min(losses, key=lambda epoch: losses[epoch][0]) if losses else None


def epoch_cases(content: AuditContent) -> Iterator[Case]:
    """One case a measure of memorization: has it risen by the epoch of least validation loss?

    A measure on texts that were not trained on carries their fold in its name, ``(held out)``, and is no case.
    """
    least = least_loss(content)
    if least is None:
        return
    for measure, line in series(content).items():
        if not is_memorization(measure) or measure.endswith(")"):
            continue
        first = min(line)
        if least not in line or first == least:
            says = "the least loss is at the first epoch" if first == least else f"epoch {least} has no value"
            yield Case(measure, f"epochs {first} to {least}", OPEN, says, ())
            continue
        found = _apart(line[first], line[least])
        verdict = decide([found.above])
        says = {True: "has risen", False: "has fallen", None: "intervals overlap or are not there"}[found.above]
        evidence = (Evidence(f"epoch {least} minus epoch {first}", found),)
        yield Case(measure, f"epochs {first} to {least}", verdict, says, evidence)


def _apart(before: Value, after: Value) -> Contrast:
    """After minus before, between the farthest ends of both intervals: wider than a paired interval would be."""
    edges = (before[1], before[2], after[1], after[2])
    if any(edge is None for edge in edges):
        return Contrast(after[0] - before[0], reason="no interval")
    low, high = after[1] - before[2], after[2] - before[1]  # type: ignore[operator]
    return Contrast(after[0] - before[0], low, high)
