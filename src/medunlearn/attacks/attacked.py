"""Results of attacks on disk, and comparisons of attacked models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks.membership.membership_results import ABOVE, AUC, BELOW, MEASURE, compare, privacy_leaks
from medunlearn.attacks.reconstruction.reconstruction_results import ATTACK, compare_models
from medunlearn.attacks.recovery.recovery_attacks import BEFORE, RECOVERY
from medunlearn.attacks.recovery.recovery_results import SUBJECTS, SUMMARY, compare_strengths, reading_of
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.results.evaluated import Evaluated, joined, reference_of
from medunlearn.results.reference_check import ReferenceCheck, check_reference
from medunlearn.results.runs import Run
from medunlearn.results.scores import read_scores

FOLDER = "attacks"
CURVES = "membership_curves.parquet"
SUMMARIES: Mapping[str, str] = {
    "membership": "membership_summary.parquet",
    "reconstruction": "reconstruction_summary.parquet",
    **{kind: SUMMARY.format(kind) for kind in RECOVERY},
}
UNCHECKED = (
    "Whether anything may be read against the retrained model is not known: evaluate it and the target on this "
    "split (`medunlearn evaluate RETRAINED BENCHMARK --split ... --against TARGET`)."
)
_COMPARE: Mapping[str, Callable[..., pd.DataFrame]] = {
    "membership": compare,
    "reconstruction": compare_models,
    **dict.fromkeys(RECOVERY, compare_strengths),
}
OVER_FORGOTTEN, LEAKS, NOT_TOLD_APART = "over-forgotten", "still leaks", "not told apart"


@dataclass(frozen=True)
class Attacked:
    """Results of one kind of attack on one model and split.

    Attributes:
        run: the run whose model it is.
        record: the attack's own run, in a folder below it.
    """

    run: Run
    record: Run
    kind: str = "membership"

    @staticmethod
    def find(run: Run, split: str, kind: str = "membership") -> Attacked | None:
        """The latest complete attack of a kind on a split; None if there is none."""
        records = [
            Attacked(run, record, kind) for record in run.complete_below(FOLDER) if record.info.split == split
        ]
        return next((attacked for attacked in reversed(records) if attacked.measured), None)

    @property
    def measured(self) -> bool:
        """True if the run has results of this kind of attack."""
        return (self.record.folder / SUMMARIES[self.kind]).exists()

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The score table of this kind: an item per document (membership) or a question (the others)."""
        table = read_scores(self.record.folder)
        if self.kind in RECOVERY:
            return table[table["attack"].str.partition(".")[0] == self.kind].reset_index(drop=True)
        if self.kind == "reconstruction":
            return table[table["attack"] == ATTACK].reset_index(drop=True)
        return table[table["measure"] == MEASURE].astype({"member": "bool"}).reset_index(drop=True)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals, as the kind's ``results.py`` summarizes its scores."""
        return read_frame(self.record.folder / SUMMARIES[self.kind], ("value", "low", "high"))

    @cached_property
    def subjects(self) -> pd.DataFrame:
        """Means per subject of a recovery attack (:func:`~.recovery.recovery_results.subject_means`)."""
        return read_frame(self.record.folder / SUBJECTS.format(self.kind), ("subject", "value"))

    @property
    def before(self) -> pd.DataFrame:
        """Scores of the unattacked model in a recovery attack, without duplicates."""
        scores = self.scores[self.scores["strength"] == BEFORE[self.kind]]
        return scores[scores["attack"] == scores["attack"].iloc[0]] if len(scores) else scores

    @property
    def facts(self) -> Mapping[str, Any]:
        """The attack's record: questions, settings, ``notes`` and ``problems`` by label."""
        facts: Mapping[str, Any] = self.record.info.results.get(self.kind, {})
        return facts

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on questions that a recovery attack skipped, and on states in which the model answers
        nothing.
        """
        left_out, broken = (self.facts.get(name, {}) for name in ("notes", "problems"))
        reasons = {**left_out, **{state: "; ".join(problems) for state, problems in broken.items()}}
        return tuple(f"{self.run.label}, {what}: {why}." for what, why in reasons.items())

    @cached_property
    def curves(self) -> pd.DataFrame:
        """ROC curves (:func:`medunlearn.attacks.membership.membership_results.curves`)."""
        return read_frame(self.record.folder / CURVES)


@dataclass(frozen=True)
class Attacks:
    """Models under the same attacks of one kind: first the model in question, then the models it is compared
    with.
    """

    models: tuple[Attacked, ...]
    replicates: int
    seed: int

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each model -> why it is broken; healthy models have no entry."""
        return {model.run.label: model.record.info.problems for model in self.models}

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences with intervals: model, against, against_role, and the kind's columns.

        The first model is compared with each other model. Membership: every model with the retrained ones.
        Reconstruction and recovery: every unlearned model with target and retrained ones. Recovery also compares
        the target with the retrained ones.
        """
        models = self._measured
        pairs = [
            (model, other)
            for model in models
            for other in models
            if other is not model and (model is models[0] or _is_anchored(model, other))
        ]
        return self._compare(pairs, _COMPARE[self._kind])

    @cached_property
    def privacy_leaks(self) -> pd.DataFrame:
        """MUSE's privacy leakage of each model against each retrained one; empty without a retrained model.

        model, against, and the columns of :func:`medunlearn.attacks.membership.membership_results.privacy_leaks`.
        """
        models = self._measured
        pairs = [(model, other) for other in models for model in models if _is_anchored(model, other)]
        return self._compare(pairs, privacy_leaks).drop(columns="against_role", errors="ignore")

    @cached_property
    def reconstructions(self) -> Attacks:
        """The reconstruction attacks on the same models; empty if there were none."""
        return self.of_kind("reconstruction")

    @cached_property
    def recoveries(self) -> Mapping[str, Attacks]:
        """Kind -> the recovery attacks of that kind on the same models; kinds without attacks are missing."""
        attacks = {kind: self.of_kind(kind) for kind in RECOVERY}
        return {kind: of_kind for kind, of_kind in attacks.items() if of_kind.models}

    def of_kind(self, kind: str) -> Attacks:
        """The attacks of a kind on the same models; empty if there were none."""
        models = (replace(model, kind=kind) for model in self.models)
        return Attacks(tuple(model for model in models if model.measured), self.replicates, self.seed)

    @cached_property
    def reference(self) -> ReferenceCheck | None:
        """Check of the retrained model among these models as a reference; None if it was not made.

        From the evaluations of target and retrained model on the split, else from what a recovery attack measured
        of both before it began. None without target or retrained model.
        """
        first = {model.run.role: model for model in reversed(self.models)}
        if not {"target", "retrained"} <= set(first):
            return None
        target, retrained = first["target"], first["retrained"]
        with suppress(InputError):
            evaluated = [Evaluated.find(model.run, model.record.info.split) for model in (target, retrained)]
            if len({model.record.info.benchmark for model in evaluated}) == 1:
                return reference_of(evaluated, self.replicates, self.seed)
        for kind in ("relearning", "quantization"):
            attacked = [replace(model, kind=kind) for model in (target, retrained)]
            if all(model.measured for model in attacked):
                tables = (model.before for model in attacked)
                return check_reference(*tables, replicates=self.replicates, seed=self.seed)
        return None

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings to read before the readings."""
        if self.reference is not None:
            return self.reference.caveats
        return (UNCHECKED,) if {"target", "retrained"} <= {model.run.role for model in self.models} else ()

    def table(self) -> pd.DataFrame:
        """Summaries of all models, with ``model`` and ``role``; empty if there was no attack of this kind.

        Recovery attacks have ``reading``, the words of
        :data:`medunlearn.attacks.recovery.recovery_results.READINGS`, of unlearned models. Nothing is read of a
        broken model or state, or against a retrained model that is not a reference.

        Membership also has ``reading``, of the areas of unlearned models: ``over-forgotten`` where the area lies
        below the retrained model's (its interval of the difference leaves 0 out), ``still leaks`` where it lies
        above, else ``not distinguished``. Without a retrained model it is read against 0.5; of a broken model
        nothing is read.
        """
        models = self._measured
        table = joined([model.summary.assign(model=model.run.label, role=model.run.role) for model in models])
        if table.empty or self._kind == "reconstruction":
            return table
        read = self._recovery_reading if self._kind in RECOVERY else self._membership_reading
        return table.assign(reading=pd.Series([read(row) for row in table.to_dict("records")], dtype="string"))

    @property
    def _kind(self) -> str:
        return self.models[0].kind if self.models else "membership"

    @property
    def _measured(self) -> list[Attacked]:
        return [model for model in self.models if model.measured]

    def _compare(
        self, pairs: list[tuple[Attacked, Attacked]], function: Callable[..., pd.DataFrame]
    ) -> pd.DataFrame:
        return joined(
            [
                function(model.scores, other.scores, replicates=self.replicates, seed=self.seed).assign(
                    model=model.run.label, against=other.run.label, against_role=other.run.role
                )
                for model, other in pairs
            ]
        )

    def _is_readable(self, row: Mapping[Any, Any]) -> bool:
        """True if a row is of an unlearned model that is not broken."""
        return row["role"] == "unlearned" and not self.problems[row["model"]]

    def _is_reference_refused(self) -> bool:
        return self.reference is not None and not self.reference.passed

    def _recovery_reading(self, row: Mapping[Any, Any]) -> str | None:
        if not self._is_readable(row):
            return None
        attacked = next(model for model in self._measured if model.run.label == row["model"])
        if f"{row['attack']} {row['strength']}" in attacked.facts.get("problems", {}):
            return None
        gaps = self._gaps(str(row["model"]))
        if len(gaps) and self._is_reference_refused():
            return None
        targets = [model.run.label for model in self._measured if model.run.role == "target"]
        return reading_of(row, gaps, self._gaps(targets[0]) if targets else None)

    def _gaps(self, label: str) -> pd.DataFrame:
        """Differences between a model and the retrained ones."""
        gaps = self.comparisons
        return gaps[(gaps["model"] == label) & (gaps["against_role"] == "retrained")] if len(gaps) else gaps

    def _membership_reading(self, row: Mapping[Any, Any]) -> str | None:
        if row["measure"] != AUC or not self._is_readable(row) or self._is_reference_refused():
            return None
        sides = [row["against_chance"]]
        gaps = self.comparisons
        if len(gaps):
            same = (gaps["model"] == row["model"]) & (gaps["against_role"] == "retrained")
            same &= (gaps["group"] == row["group"]) & (gaps["attack"] == row["attack"])
            sides = gaps.loc[same, "reading"].tolist() or sides
        return reading(sides)


def _is_anchored(model: Attacked, other: Attacked) -> bool:
    """True if a model is compared with a reference of its kind."""
    if model.kind == "membership":
        return other.run.role == "retrained" and model.run.role != "retrained"
    if model.kind in RECOVERY and other.run.role == "retrained":
        return model.run.role != "retrained"
    return model.run.role == "unlearned" and other.run.role != "unlearned"


def reading(sides: list[object]) -> str | None:
    """Reading of an AUC from the sides of its references on which it lies; None if no side is known."""
    side_names = {side for side in sides if isinstance(side, str)}
    if not side_names:
        return None
    if BELOW in side_names:
        return OVER_FORGOTTEN
    return LEAKS if ABOVE in side_names else NOT_TOLD_APART
