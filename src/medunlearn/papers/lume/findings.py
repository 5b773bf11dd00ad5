"""LUME's findings as rules: each holds, is against the numbers of these runs, or stays open.

A rule is decided case by case (a run, and a task where the finding is about tasks), and only by intervals over
documents: a case holds where each of its numbers has an interval on the side of its threshold that the finding
says, is against it where one is settled on the other side, and is open otherwise. t is the target model (epoch 0).
``findings.yaml`` has the claims in words.

Source: LUME, Section 3, which states the findings on figures, without intervals or thresholds; the thresholds are
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from medunlearn.config import read_yaml
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
"""Epoch -> a number."""


class Epochs:
    """The numbers of a report by run and epoch (a table with rows), and the differences between them."""

    def __init__(self, models: Sequence[ModelResult], epochs: pd.DataFrame, contrasts: pd.DataFrame) -> None:
        present = set(epochs["model"])
        self.runs = [(one.label, one.method or "") for one in models if one.label in present]
        self.rates = {one.label: number(one.info["config"].get("lr")) for one in models}
        self._rows = epochs.sort_values("epoch", kind="stable")
        self._contrasts = list(rows_of(contrasts))

    def of_method(self, *methods: str) -> list[str]:
        """Labels of the runs of some methods, in the order of the methods."""
        return [label for method in methods for label, name in self.runs if name == method]

    def line(self, run: str, measure: str, node: str | None = None, metric: str | None = None) -> Line:
        """A measure by epoch; rows of one node, or of one metric, where they are named and there are such rows."""
        rows = self._rows[(self._rows["model"] == run) & (self._rows["measure"] == measure)]
        for column, wanted in (("node", node), ("metric", metric)):
            rows = own if len(own := rows[rows[column] == wanted]) else rows
        return {int(row["epoch"]): reading_of(row) for row in rows_of(rows)}

    def regurgitation(self, run: str | None = None) -> dict[tuple[str, str], Line]:
        """(task, side) -> regurgitation of a run by epoch; without a run, of the last in the table."""
        rows = self._rows[(self._rows["measure"] == "regurgitation") & (self._rows["fold"] == "train")]
        lines: dict[tuple[str, str], Line] = {}
        for row in rows_of(rows if run is None else rows[rows["model"] == run]):
            lines.setdefault((str(row["node"]), str(row["side"])), {})[int(row["epoch"])] = reading_of(row)
        return lines

    def fall(self, run: str) -> list[Evidence]:
        """Regurgitation on forget after the last epoch, minus 0.9 of the target's; a task each."""
        of_task = "regurgitation on forget of {}, 0.9 of target"
        return [
            _minus(of_task.format(task.replace("_", " ")), line[max(line)], 0.9 * start)
            for (task, side), line in self.regurgitation(run).items()
            if side == "forget" and max(line) > 0 and 0 in line and (start := line[0].value) is not None
        ]

    def contrasts(self, name: str, run: str) -> dict[str, list[Evidence]]:
        """Task -> the differences of one name that a run has there."""
        by_task: dict[str, list[Evidence]] = {}
        for row in self._contrasts:
            if row["contrast"] == name and row["model"] == run:
                value, low, high = (number(row[edge]) for edge in ("value", "low", "high"))
                evidence = Evidence(str(row["about"]), value, low, high, int(row["n_subjects"]), str(row["reason"]))
                by_task.setdefault(str(row["node"]), []).append(evidence)
        return by_task


def _case(run: str, task: str, verdict: Verdict, says: str, evidence: Sequence[Evidence]) -> Case:
    return Case({"run": run, "task": task.replace("_", " ")}, verdict, says, tuple(evidence))


def _settled(
    run: str,
    task: str,
    evidence: Sequence[Evidence],
    says: Mapping[Verdict, str],
    side: Literal["above", "below"] = "above",
    note: str = "",
) -> Case:
    """A case that all its evidence decides; ``says`` has the words of a verdict that is settled."""
    verdict = settle(evidence, side)
    return _case(run, task, verdict, says.get(verdict, UNSETTLED) + note, evidence)


def _minus(name: str, reading: Reading, threshold: float) -> Evidence:
    return Evidence.of(f"{name}, minus {threshold:g}:", reading, threshold)


def _memorized(epochs: Epochs) -> Iterator[Case]:
    for (task, side), line in epochs.regurgitation().items():
        if 0 in line:
            above = _minus(f"regurgitation on {side}", line[0], MEMORIZED)
            says = {HOLDS: "memorized", FAILS: "not memorized"}
            yield _settled("target", task, [above], says, note=f" on {side}")


def _to_zero(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO):
        for task, evidence in epochs.contrasts("zero", run).items():
            stays = sum(one.above is True for one in evidence)
            failed = f"stays above in {stays} of {len(evidence)} numbers"
            yield _settled(run, task, evidence, {HOLDS: "falls to zero on both sides", FAILS: failed}, "below")


def _recovers(epochs: Epochs) -> Iterator[Case]:
    """Only measures that fell can rise again; where none did there is nothing to recover."""
    for run in epochs.of_method("graddiff"):
        for task, fell in epochs.contrasts("fell", run).items():
            rose = epochs.contrasts("rose", run).get(task, [])
            signs = [up.above for down, up in zip(fell, rose, strict=True) if down.above]
            verdict = decide(signs) if signs else OPEN
            says = {HOLDS: "falls and rises again", FAILS: "falls and stays down"}.get(verdict, UNSETTLED)
            nothing = "nothing to recover: no settled fall on retain"
            yield _case(run, task, verdict, says if signs else nothing, (*fell, *rose))


def _slower(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(BOUNDED):
        # A small learning rate slows a method, too.
        rates = {label: epochs.rates.get(label) for label in (run, *epochs.of_method(*TO_ZERO))}
        listed = ", ".join(f"{label} {rate:g}" for label, rate in rates.items() if rate)
        note = f"; learning rates differ: {listed}" if len(set(rates.values())) > 1 else ""
        for task, evidence in epochs.contrasts("slower", run).items():
            faster = sum(one.below is True for one in evidence)
            failed = f"faster in {faster} of {len(evidence)} comparisons"
            yield _settled(run, task, evidence, {HOLDS: "slower than each", FAILS: failed}, note=note)


def _areas(epochs: Epochs, *methods: str) -> Iterator[tuple[str, Line]]:
    """Runs with the loss attack's AUC by epoch, on public biographies where it is known by task."""
    for run in epochs.of_method(*methods):
        line = epochs.line(run, MEMBERSHIP, MEMBERS_TASK, "loss")
        if line and max(line) > 0:
            yield run, line


def _half_way(line: Line) -> Evidence | None:
    """AUC after the last epoch, minus half-way from the target's to chance."""
    start = line[0].value if 0 in line else None
    return None if start is None else _minus(f"AUC after epoch {max(line)}", line[max(line)], (start + CHANCE) / 2)


_STAYS, _FALLS = "stays above half-way to chance", "falls past half-way to chance"


def _others_membership(epochs: Epochs) -> Iterator[Case]:
    for run, line in _areas(epochs, *TO_ZERO):
        if area := _half_way(line):
            yield _settled(run, "", [area], {HOLDS: _FALLS, FAILS: _STAYS}, "below")


def _npo_membership(epochs: Epochs) -> Iterator[Case]:
    """A model that forgot nothing keeps its AUC, too: the case is open unless regurgitation fell."""
    for run, line in _areas(epochs, BOUNDED):
        if area := _half_way(line):
            fell = epochs.fall(run)
            case = _settled(run, "", [area], {HOLDS: _STAYS, FAILS: _FALLS})
            forgot = any(one.below for one in fell)
            verdict, says = (
                (case.verdict, case.says) if forgot else (OPEN, "nothing was forgotten, so its AUC says nothing")
            )
            yield _case(run, "", verdict, says, [area, *fell])


def _over_forgotten(epochs: Epochs) -> Iterator[Case]:
    for run, line in _areas(epochs, "graddiff"):
        area = _minus(f"AUC after epoch {max(line)}", line[max(line)], CHANCE)
        under = [epoch for epoch, one in line.items() if epoch and one.high is not None and one.high < CHANCE]
        says = f"first below 0.5, with its interval, after epoch {under[0]}" if under else "at no epoch below 0.5"
        yield _case(run, "", settle([area], "below"), says, [area])


def _utility(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO, BOUNDED):
        line = epochs.line(run, UTILITY)
        start = line[0].value if 0 in line else None
        if start is not None and max(line) > 0:
            left = _minus(f"utility after epoch {max(line)}, 0.9 of target", line[max(line)], 0.9 * start)
            yield _settled(run, "", [left], {HOLDS: "loses utility", FAILS: "keeps utility"}, "below")


_CASES: Mapping[str, Callable[[Epochs], Iterator[Case]]] = {
    "memorized": _memorized,
    "zero": _to_zero,
    "recovery": _recovers,
    "slower": _slower,
    "membership falls": _others_membership,
    "membership stays": _npo_membership,
    "over-forgotten": _over_forgotten,
    "utility": _utility,
}


def findings(models: Sequence[ModelResult], epochs: pd.DataFrame, contrasts: pd.DataFrame) -> tuple[Finding, ...]:
    """LUME's findings in the paper's order; none of runs without evaluated epochs."""
    if not len(epochs):
        return ()
    measured = Epochs(models, epochs, contrasts)
    words = read_yaml(Path(__file__).with_name("findings.yaml"))
    return tuple(Finding(name, cases=tuple(cases(measured)), **words[name]) for name, cases in _CASES.items())
