"""LUME's findings as rules: each holds, is against the numbers of these runs, or stays open.

A rule is decided case by case (a run, and a task where the finding is about tasks), and only by intervals over
documents: a case holds where each of its numbers has an interval on the side of its threshold that the finding
says, is against it where one is settled on the other side, and is open otherwise. t is the target model (epoch 0).

Source: LUME, Section 3, which states the findings on figures, without intervals or thresholds; the thresholds are
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from medunlearn.papers.lume.contrasts import BOUNDED, TO_ZERO
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding, Verdict, decide, settle
from medunlearn.reports.content import ModelResult
from medunlearn.reports.readings import Reading, number, reading_of, rows_of

MEMORIZED = 0.9
CHANCE = 0.5
MEMBERSHIP, UTILITY = "membership_auc", "utility"
MEMBERS_TASK = "public_biography"
UNSETTLED = "not settled"

Line = dict[int, Reading]


class Epochs:
    """The numbers of a report by run and epoch, and the differences between them.

    Args:
        epochs: the table of :mod:`medunlearn.pipeline.epochs.epoch_evaluation`.
        contrasts: the table of :mod:`medunlearn.papers.lume.contrasts`.
    """

    def __init__(self, models: Sequence[ModelResult], epochs: pd.DataFrame, contrasts: pd.DataFrame) -> None:
        rows = list(rows_of(epochs))
        present = {str(row["model"]) for row in rows}
        self.runs = [(one.label, one.method or "") for one in models if one.label in present]
        self.rates = {one.label: number(one.info["config"].get("lr")) for one in models}
        self._rows = rows
        self._contrasts = list(rows_of(contrasts))

    def of_method(self, *methods: str) -> list[str]:
        """Labels of the runs of some methods, in the order of the methods."""
        return [label for method in methods for label, name in self.runs if name == method]

    def line(self, run: str, measure: str, node: str | None = None, metric: str | None = None) -> Line:
        """A measure by epoch; rows of one node, or of one metric, where they are named and there are such rows."""
        rows = [row for row in self._rows if row["model"] == run and row["measure"] == measure]
        for column, wanted in (("node", node), ("metric", metric)):
            rows = [row for row in rows if row[column] == wanted] or rows
        return {int(row["epoch"]): reading_of(row) for row in sorted(rows, key=lambda row: int(row["epoch"]))}

    def start(self) -> dict[tuple[str, str], Reading]:
        """(task, side) -> the target's regurgitation, the same in every run."""
        return {
            (str(row["node"]), str(row["side"])): reading_of(row)
            for row in self._rows
            if row["measure"] == "regurgitation" and row["fold"] == "train" and int(row["epoch"]) == 0
        }

    def fall(self, run: str) -> list[Evidence]:
        """Regurgitation on forget after the last epoch, minus 0.9 of the target's; a task each."""
        lines: dict[str, Line] = {}
        for row in self._rows:
            if (row["model"], row["measure"], row["side"], row["fold"]) == (
                run,
                "regurgitation",
                "forget",
                "train",
            ):
                lines.setdefault(str(row["node"]), {})[int(row["epoch"])] = reading_of(row)
        return [
            _minus(
                f"regurgitation on forget of {task.replace('_', ' ')}, 0.9 of target", line[max(line)], 0.9 * start
            )
            for task, line in lines.items()
            if max(line) > 0 and 0 in line and (start := line[0].value) is not None
        ]

    def contrasts(self, name: str, run: str) -> dict[str, list[Evidence]]:
        """Task -> the differences of one name that a run has there."""
        by_task: dict[str, list[Evidence]] = {}
        for row in self._contrasts:
            if row["contrast"] == name and row["model"] == run:
                by_task.setdefault(str(row["node"]), []).append(_evidence(row))
        return by_task


def _evidence(row: Any) -> Evidence:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    return Evidence(str(row["about"]), value, low, high, int(row["n_subjects"]), str(row["reason"]))


def _case(run: str, task: str, verdict: Verdict, says: str, evidence: Sequence[Evidence]) -> Case:
    return Case({"run": run, "task": task.replace("_", " ")}, verdict, says, tuple(evidence))


def _minus(name: str, reading: Reading, threshold: float) -> Evidence:
    return Evidence.of(f"{name}, minus {threshold:g}:", reading, threshold)


def _memorized(epochs: Epochs) -> Iterator[Case]:
    for (task, side), reading in epochs.start().items():
        above = _minus(f"regurgitation on {side}", reading, MEMORIZED)
        verdict = settle([above])
        says = {HOLDS: "memorized", FAILS: "not memorized"}.get(verdict, UNSETTLED)
        yield _case("target", task, verdict, f"{says} on {side}", [above])


def _to_zero(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO):
        for task, evidence in epochs.contrasts("zero", run).items():
            verdict = settle(evidence, "below")
            stays = sum(one.above is True for one in evidence)
            says = {
                HOLDS: "falls to zero on both sides",
                FAILS: f"stays above in {stays} of {len(evidence)} numbers",
            }
            yield _case(run, task, verdict, says.get(verdict, UNSETTLED), evidence)


def _recovers(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method("graddiff"):
        fell, rose = epochs.contrasts("fell", run), epochs.contrasts("rose", run)
        for task in fell:
            verdict, says = _fall_and_rise(fell[task], rose.get(task, []))
            yield _case(run, task, verdict, says, (*fell[task], *rose.get(task, [])))


def _fall_and_rise(fell: Sequence[Evidence], rose: Sequence[Evidence]) -> tuple[Verdict, str]:
    """Only measures that fell can rise again; where none did there is nothing to recover."""
    signs = [up.above for down, up in zip(fell, rose, strict=True) if down.above]
    if not signs:
        return OPEN, "nothing to recover: no settled fall on retain"
    verdict = decide(signs)
    return verdict, {HOLDS: "falls and rises again", FAILS: "falls and stays down"}.get(verdict, UNSETTLED)


def _slower(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(BOUNDED):
        for task, evidence in epochs.contrasts("slower", run).items():
            verdict = settle(evidence)
            faster = sum(one.below is True for one in evidence)
            says = {HOLDS: "slower than each", FAILS: f"faster in {faster} of {len(evidence)} comparisons"}
            yield _case(run, task, verdict, says.get(verdict, UNSETTLED) + _rates(epochs, run), evidence)


def _rates(epochs: Epochs, run: str) -> str:
    """Learning rates where they differ: a small one slows a method, too."""
    others = {label: epochs.rates.get(label) for label in (run, *epochs.of_method(*TO_ZERO))}
    if len(set(others.values())) < 2:
        return ""
    return "; learning rates differ: " + ", ".join(f"{label} {rate:g}" for label, rate in others.items() if rate)


def _membership(epochs: Epochs, run: str) -> tuple[Line, float | None]:
    """AUC of the loss attack by epoch, on public biographies where it is known by task; half-way to chance."""
    line = epochs.line(run, MEMBERSHIP, MEMBERS_TASK, "loss")
    start = line[0].value if 0 in line else None
    return line, None if start is None else (start + CHANCE) / 2


def _last_area(epochs: Epochs, run: str) -> Evidence | None:
    """AUC after the last epoch, minus half-way from the target's to chance."""
    line, middle = _membership(epochs, run)
    if middle is None or max(line) == 0:
        return None
    return _minus(f"AUC after epoch {max(line)}", line[max(line)], middle)


def _others_membership(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO):
        if area := _last_area(epochs, run):
            yield _case(run, "", settle([area], "below"), _half_way(area), [area])


def _npo_membership(epochs: Epochs) -> Iterator[Case]:
    """A model that forgot nothing keeps its AUC, too: the case is open unless regurgitation fell."""
    for run in epochs.of_method(BOUNDED):
        if area := _last_area(epochs, run):
            fell = epochs.fall(run)
            if any(one.below for one in fell):
                yield _case(run, "", settle([area]), _half_way(area), [area, *fell])
            else:
                yield _case(run, "", OPEN, "nothing was forgotten, so its AUC says nothing", [area, *fell])


def _half_way(area: Evidence) -> str:
    says = {True: "stays above half-way to chance", False: "falls past half-way to chance"}
    return UNSETTLED if area.above is None else says[area.above]


def _over_forgotten(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method("graddiff"):
        line, _ = _membership(epochs, run)
        if not line or max(line) == 0:
            continue
        area = _minus(f"AUC after epoch {max(line)}", line[max(line)], CHANCE)
        under = [epoch for epoch, one in line.items() if epoch and one.high is not None and one.high < CHANCE]
        says = f"first below 0.5, with its interval, after epoch {under[0]}" if under else "at no epoch below 0.5"
        yield _case(run, "", settle([area], "below"), says, [area])


def _utility(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO, BOUNDED):
        line = epochs.line(run, UTILITY)
        start = line[0].value if 0 in line else None
        if start is None or max(line) == 0:
            continue
        left = _minus(f"utility after epoch {max(line)}, 0.9 of target", line[max(line)], 0.9 * start)
        verdict = settle([left], "below")
        says = {HOLDS: "loses utility", FAILS: "keeps utility"}.get(verdict, UNSETTLED)
        yield _case(run, "", verdict, says, [left])


Judge = Callable[[Epochs], Iterator[Case]]

_FINDINGS: tuple[tuple[str, str, str, str, Judge], ...] = (
    (
        "memorized",
        "The target model has memorized all three tasks.",
        f"Per task and side: the target's regurgitation is above {MEMORIZED}. Without it the others say little.",
        "evaluate the epochs of an unlearning run",
        _memorized,
    ),
    (
        "zero",
        "GA, GD and KL fall to zero on both sides.",
        "Per run and task: regurgitation and knowledge on forget and on retain, each at the epoch after which it "
        "is lowest, are below a tenth of t's. Documents are paired.",
        "evaluate epochs of GA, GradDiff or KL-Min",
        _to_zero,
    ),
    (
        "recovery",
        "GD's retain side recovers.",
        "Per run and task, for the measures on retain that fell below 0.9 of t's: the last epoch's is above the "
        "lowest epoch's by more than a tenth of t's. The tenth keeps the choice of the lowest epoch from counting "
        "as a rise.",
        "evaluate epochs of GradDiff",
        _recovers,
    ),
    (
        "slower",
        "NPO forgets more slowly than GA, GD and KL.",
        "Per task: the mean over all epochs behind the target of regurgitation and of knowledge on forget is above "
        "that of each of the three. Where learning rates differ the case says so.",
        "evaluate epochs of NPO and of GA, GradDiff or KL-Min",
        _slower,
    ),
    (
        "membership falls",
        "GA, GD and KL bring membership inference down towards chance.",
        "Per run: the loss attack's AUC after the last epoch lies below half-way from the target's to 0.5.",
        "attack the epochs of GA, GradDiff or KL-Min",
        _others_membership,
    ),
    (
        "membership stays",
        "NPO keeps a high membership AUC.",
        "The loss attack's AUC after the last epoch lies above half-way from the target's to 0.5. Open where "
        "regurgitation on forget fell below 0.9 of the target's in no task: a model that forgot nothing keeps its "
        "AUC, too.",
        "attack the epochs of NPO",
        _npo_membership,
    ),
    (
        "over-forgotten",
        "GD's membership AUC falls below 0.5.",
        "The loss attack's AUC after the last epoch lies below 0.5.",
        "attack the epochs of GradDiff",
        _over_forgotten,
    ),
    (
        "utility",
        "All methods lose utility.",
        "Per run: utility after the last epoch is below 0.9 of the target's. The interval is the epoch's alone.",
        "measure utility after the epochs",
        _utility,
    ),
)


def findings(models: Sequence[ModelResult], epochs: pd.DataFrame, contrasts: pd.DataFrame) -> tuple[Finding, ...]:
    """LUME's findings in the paper's order; none of runs without evaluated epochs."""
    if not len(epochs):
        return ()
    measured = Epochs(models, epochs, contrasts)
    return tuple(
        Finding(name, claim, rule, tuple(judge(measured)), needs=needs)
        for name, claim, rule, needs, judge in _FINDINGS
    )
