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

from medunlearn.papers.lume.report.cases import Case, Evidence, Finding
from medunlearn.reports.content import ReportContent
from medunlearn.reports.readings import Reading, number, reading_of, rows_of
from medunlearn.reports.verdicts import FAILS, HOLDS, OPEN, Verdict, decide

MEMORIZED = 0.9
CHANCE = 0.5
MEMBERSHIP, UTILITY = "membership_auc", "utility"
MEMBERS_TASK = "public_biography"
TO_ZERO = ("ga", "graddiff", "kl_min")
BOUNDED = "npo"

Line = dict[int, Reading]


class Epochs:
    """The numbers of a report by run and epoch, and the differences between them.

    Args:
        content: with the tables ``epochs`` (:mod:`medunlearn.pipeline.epochs.epoch_evaluation`) and ``contrasts``
            (:mod:`medunlearn.papers.lume.contrasts`).
    """

    def __init__(self, content: ReportContent) -> None:
        rows = list(rows_of(content.epochs))
        present = {str(row["model"]) for row in rows}
        self.runs = [(one.label, one.method or "") for one in content.models if one.label in present]
        self.rates = {one.label: number(one.info["config"].get("lr")) for one in content.models}
        self._rows = rows
        self._contrasts = list(rows_of(content.contrasts))

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

    def contrasts(self, name: str, run: str) -> dict[str, list[Evidence]]:
        """Task -> the differences of one name that a run has there."""
        found: dict[str, list[Evidence]] = {}
        for row in self._contrasts:
            if row["contrast"] == name and row["model"] == run:
                found.setdefault(str(row["node"]), []).append(_evidence(row))
        return found


def _evidence(row: Any) -> Evidence:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    return Evidence(str(row["about"]), value, low, high, int(row["n_subjects"]), str(row["reason"]))


def _minus(name: str, reading: Reading, threshold: float) -> Evidence:
    """A number with its interval, minus a constant."""
    if reading.value is None:
        return Evidence(name, None, reason="unscored")
    low, high = (None if edge is None else edge - threshold for edge in (reading.low, reading.high))
    return Evidence(f"{name}, minus {threshold:g}:", reading.value - threshold, low, high, reading.n_subjects)


def _memorized(epochs: Epochs) -> Iterator[Case]:
    for (task, side), reading in epochs.start().items():
        found = _minus(f"regurgitation on {side}", reading, MEMORIZED)
        verdict = decide([found.above])
        says = {HOLDS: "memorized", FAILS: "not memorized", OPEN: "not settled"}[verdict]
        yield Case("target", task, verdict, f"{says} on {side}", (found,))


def _to_zero(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO):
        for task, found in epochs.contrasts("zero", run).items():
            verdict = decide(one.below for one in found)
            stays = [one.name for one in found if one.above]
            says = {
                HOLDS: "falls to zero on both sides",
                FAILS: f"stays above in {len(stays)} of {len(found)} numbers",
                OPEN: "not settled",
            }
            yield Case(run, task, verdict, says[verdict], tuple(found))


def _recovers(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method("graddiff"):
        fell, rose = epochs.contrasts("fell", run), epochs.contrasts("rose", run)
        for task in fell:
            verdict, says = _fall_and_rise(fell[task], rose.get(task, []))
            yield Case(run, task, verdict, says, (*fell[task], *rose.get(task, [])))


def _fall_and_rise(fell: Sequence[Evidence], rose: Sequence[Evidence]) -> tuple[Verdict, str]:
    """Only measures that fell can rise again; where none did there is nothing to recover."""
    told = [up.above for down, up in zip(fell, rose, strict=True) if down.above]
    if not told:
        return OPEN, "nothing to recover: no fall on retain that can be told from none"
    verdict = decide(told)
    return verdict, {HOLDS: "falls and rises again", FAILS: "falls and stays down", OPEN: "not settled"}[verdict]


def _slower(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(BOUNDED):
        for task, found in epochs.contrasts("slower", run).items():
            verdict = decide(one.above for one in found)
            faster = sum(one.below is True for one in found)
            says = {
                HOLDS: "slower than each",
                FAILS: f"faster in {faster} of {len(found)} comparisons",
                OPEN: "not settled",
            }
            yield Case(run, task, verdict, says[verdict] + _rates(epochs, run), tuple(found))


def _rates(epochs: Epochs, run: str) -> str:
    """Rates where they differ: a method is slow, too, for having been given a small one."""
    others = {label: epochs.rates.get(label) for label in (run, *epochs.of_method(*TO_ZERO))}
    if len(set(others.values())) < 2:
        return ""
    return "; learning rates differ: " + ", ".join(f"{label} {rate:g}" for label, rate in others.items() if rate)


def _membership(epochs: Epochs, run: str) -> tuple[Line, float | None]:
    """AUC of the loss attack by epoch, on public biographies where it is told by task; half-way to chance."""
    line = epochs.line(run, MEMBERSHIP, MEMBERS_TASK, "loss")
    start = line[0].value if 0 in line else None
    return line, None if start is None else (start + CHANCE) / 2


def _half_way(epochs: Epochs, methods: Sequence[str], *, high: bool) -> Iterator[Case]:
    for run in epochs.of_method(*methods):
        line, middle = _membership(epochs, run)
        if middle is None or max(line) == 0:
            continue
        found = _minus(f"AUC after epoch {max(line)}", line[max(line)], middle)
        verdict = decide([found.above if high else found.below])
        where = {
            True: "stays above half-way to chance",
            False: "falls past half-way to chance",
            None: "not settled",
        }
        yield Case(run, "", verdict, where[found.above], (found,))


def _npo_membership(epochs: Epochs) -> Iterator[Case]:
    return _half_way(epochs, (BOUNDED,), high=True)


def _others_membership(epochs: Epochs) -> Iterator[Case]:
    return _half_way(epochs, TO_ZERO, high=False)


def _over_forgotten(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method("graddiff"):
        line, _ = _membership(epochs, run)
        if not line or max(line) == 0:
            continue
        found = _minus(f"AUC after epoch {max(line)}", line[max(line)], CHANCE)
        under = [epoch for epoch, one in line.items() if epoch and one.high is not None and one.high < CHANCE]
        said = f"first below 0.5, with its interval, after epoch {under[0]}" if under else "at no epoch below 0.5"
        yield Case(run, "", decide([found.below]), said, (found,))


def _utility(epochs: Epochs) -> Iterator[Case]:
    for run in epochs.of_method(*TO_ZERO, BOUNDED):
        line = epochs.line(run, UTILITY)
        start = line[0].value if 0 in line else None
        if start is None or max(line) == 0:
            continue
        found = _minus(f"utility after epoch {max(line)}, 0.9 of target", line[max(line)], 0.9 * start)
        verdict = decide([found.below])
        says = {HOLDS: "loses utility", FAILS: "keeps utility", OPEN: "not settled"}[verdict]
        yield Case(run, "", verdict, says, (found,))


Judge = Callable[[Epochs], Iterator[Case]]

_FINDINGS: tuple[tuple[str, str, str, Judge], ...] = (
    (
        "memorized",
        "The target model has memorized all three tasks.",
        f"Per task and side: the target's regurgitation is above {MEMORIZED}. Without it the others say little.",
        _memorized,
    ),
    (
        "zero",
        "GA, GD and KL fall to zero on both sides.",
        "Per run and task: regurgitation and knowledge on forget and on retain, each at the epoch after which it "
        "is lowest, are below a tenth of t's. Documents are paired.",
        _to_zero,
    ),
    (
        "recovery",
        "GD's retain side recovers.",
        "Per run and task, for the measures on retain that fell below 0.9 of t's: the last epoch's is above the "
        "lowest epoch's by more than a tenth of t's. The tenth keeps the choice of the lowest epoch from counting "
        "as a rise.",
        _recovers,
    ),
    (
        "slower",
        "NPO forgets more slowly than GA, GD and KL.",
        "Per task: the mean over all epochs behind the target of regurgitation and of knowledge on forget is above "
        "that of each of the three. Where learning rates differ the case says so.",
        _slower,
    ),
    (
        "membership falls",
        "GA, GD and KL bring membership inference down towards chance.",
        "Per run: the loss attack's AUC after the last epoch lies below half-way from the target's to 0.5.",
        _others_membership,
    ),
    (
        "membership stays",
        "NPO keeps a high membership AUC.",
        "The loss attack's AUC after the last epoch lies above half-way from the target's to 0.5.",
        _npo_membership,
    ),
    (
        "over-forgotten",
        "GD's membership AUC falls below 0.5.",
        "The loss attack's AUC after the last epoch lies below 0.5.",
        _over_forgotten,
    ),
    (
        "utility",
        "All methods lose utility.",
        "Per run: utility after the last epoch is below 0.9 of the target's. The interval is the epoch's alone.",
        _utility,
    ),
)


def findings(content: ReportContent) -> tuple[Finding, ...]:
    """LUME's findings in the paper's order; none of runs on other benchmarks or without evaluated epochs."""
    if content.benchmark.get("builder") != "lume" or not len(content.epochs):
        return ()
    epochs = Epochs(content)
    return tuple(Finding(name, claim, rule, tuple(judge(epochs))) for name, claim, rule, judge in _FINDINGS)


def findings_text(content: ReportContent) -> str:
    """The findings for a terminal: verdict, counts, and the numbers of every case; empty where there are none."""
    lines: list[str] = []
    for found in findings(content):
        lines += [f"{found.verdict.upper()}: {found.claim}", f"  {found.summary}"]
        lines += [
            f"  {', '.join(part for part in (case.run, case.task.replace('_', ' ')) if part)}: {case.verdict}; "
            f"{case.says}; " + "; ".join(map(str, case.evidence))
            for case in found.cases
        ]
        lines += [f"  Rule: {found.rule}", ""]
    return "\n".join(lines).rstrip() + "\n" if lines else ""
