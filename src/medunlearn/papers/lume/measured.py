"""The numbers used by LUME's findings, by run, training seed and epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from medunlearn.papers.lume import PUBLIC
from medunlearn.papers.lume.method_groups import MethodGroup
from medunlearn.reports.claims import Evidence
from medunlearn.reports.content import Membership, ModelResult
from medunlearn.reports.readings import Reading, number, reading_of, rows_of
from medunlearn.results.reference_check import ReferenceCheck

ATTACK, AREA = "loss", "auc"

Line = dict[int, Reading]
"""Epoch -> a number."""
_COLUMNS = ["model", "measure", "fold", "node", "side", "epoch"]


class Measured:
    """Numbers of a report by run and epoch, with their table rows, and the differences between them.

    Args:
        contrasts: :func:`medunlearn.papers.lume.contrasts.contrasts`.
        membership: attacks on the final models, and their differences from the retrained model's.
        references: training seed -> the check of its target and retrained model; None if one is missing.
    """

    def __init__(
        self,
        models: Sequence[ModelResult],
        epochs: pd.DataFrame,
        contrasts: pd.DataFrame,
        membership: Membership,
        references: Mapping[int, ReferenceCheck | None],
    ) -> None:
        self.seed_of = {model.label: int(model.info["config"].get("seed", 0)) for model in models}
        self.seeds = sorted({self.seed_of[model.label] for model in models if model.role == "unlearned"})
        present = set(_column(epochs, "model")) | set(_column(membership.table, "model"))
        self.runs = {
            model.label: model.method or ""
            for model in models
            if model.role == "unlearned" and model.label in present
        }
        self.rates = {model.label: number(model.info["config"].get("lr")) for model in models}
        self.references = references
        self._role = {(self.seed_of[model.label], model.role): model.label for model in models}
        # Runs may have been attacked and not evaluated by epoch.
        self._rows = epochs.sort_values("epoch", kind="stable") if len(epochs) else pd.DataFrame(columns=_COLUMNS)
        self._contrasts = list(rows_of(contrasts))
        self._gaps = [row for row in rows_of(membership.comparisons) if _is_loss(row)]
        self._areas = {str(row["model"]): row for row in rows_of(membership.table) if _is_loss(row)}

    def of_group(self, *groups: MethodGroup, seed: int | None = None) -> list[str]:
        """Labels of the runs of some groups of methods (and one seed): by group, then by method."""
        methods = dict.fromkeys(method for group in groups for method in self.runs.values() if method in group)
        return [
            label
            for method in methods
            for label, name in self.runs.items()
            if name == method and seed in (None, self.seed_of[label])
        ]

    def line(self, run: str, measure: str) -> Line:
        """A measure of the whole split by epoch."""
        rows = self._rows[(self._rows["model"] == run) & (self._rows["measure"] == measure)]
        return {int(row["epoch"]): reading_of(row) for row in rows_of(rows)}

    def regurgitation(self, run: str) -> dict[tuple[str, str], Line]:
        """(task, side) -> regurgitation of a run by epoch."""
        rows = self._rows[(self._rows["measure"] == "regurgitation") & (self._rows["fold"] == "train")]
        lines: dict[tuple[str, str], Line] = {}
        for row in rows_of(rows[rows["model"] == run]):
            lines.setdefault((str(row["node"]), str(row["side"])), {})[int(row["epoch"])] = reading_of(row)
        return lines

    def fall(self, run: str) -> list[Evidence]:
        """Regurgitation on forget after the last epoch, minus 0.9 of the target's, for each task."""
        of_task = "regurgitation on forget of {}, 0.9 of target"
        return [
            minus(of_task.format(task.replace("_", " ")), line[max(line)], 0.9 * start)
            for (task, side), line in self.regurgitation(run).items()
            if side == "forget" and max(line) > 0 and 0 in line and (start := line[0].value) is not None
        ]

    def contrasts(self, name: str, run: str) -> dict[str, list[Evidence]]:
        """Task -> a run's differences of one name."""
        by_task: dict[str, list[Evidence]] = {}
        for row in self._contrasts:
            if row["contrast"] == name and row["model"] == run:
                value, low, high = (number(row[edge]) for edge in ("value", "low", "high"))
                evidence = Evidence(str(row["about"]), value, low, high, int(row["n_subjects"]), str(row["reason"]))
                by_task.setdefault(str(row["node"]), []).append(evidence)
        return by_task

    def area_gap(self, label: str | None, seed: int) -> Evidence | None:
        """AUC of the loss attack minus the retrained model's; None if either was not attacked."""
        retrained = self._role.get((seed, "retrained"))
        for row in self._gaps:
            if row["model"] == label and row["against"] == retrained:
                value, low, high = (number(row[edge]) for edge in ("difference", "low", "high"))
                sides = self._areas[str(label)]
                fewest = min(int(sides["n_members"]), int(sides["n_nonmembers"]))
                return None if value is None else Evidence("", value, low, high, fewest)
        return None

    def target_gap(self, seed: int) -> Evidence | None:
        """AUC of the target minus the retrained model's."""
        gap = self.area_gap(self._role.get((seed, "target")), seed)
        return None if gap is None else replace(gap, name="AUC of the target, minus the retrained model's")


def _is_loss(row: Mapping[str, object]) -> bool:
    """True for the AUC of the loss attack on public biographies (LUME, Section 2.3)."""
    return row["attack"] == ATTACK and row["group"] == PUBLIC and row.get("measure", AREA) == AREA


def _column(table: pd.DataFrame, name: str) -> list[str]:
    return table[name].tolist() if name in table else []


def minus(name: str, reading: Reading, threshold: float) -> Evidence:
    """A number minus a constant threshold."""
    return Evidence.of(f"{name}, minus {threshold:g}:", reading, threshold)
