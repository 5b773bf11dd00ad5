"""Results of attacks on disk, and comparisons of attacked models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks import attack_class, expand, families, families_of
from medunlearn.attacks.attack_protocol import AttackFamily
from medunlearn.data.origins import is_drawn, read_provenance, why_undecided
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.registry import refuse_unnamed
from medunlearn.results.evaluated import Evaluated, joined, reference_of
from medunlearn.results.rated import with_drawn_names
from medunlearn.results.reference_check import ReferenceCheck, check_reference
from medunlearn.results.runs import Run
from medunlearn.results.scores import ATTACKS, read_scores

FOLDER = ATTACKS
FAILED = "failed"
"""Key of a record's results: name of a family -> why it has no results."""
NOT_APPLICABLE = "not_applicable"
"""Key of a record's results: name of a family -> why the benchmark or the model has nothing for it."""
UNCHECKED = (
    "Whether anything may be read against the retrained model is not known: evaluate it and the target on this "
    "split (`medunlearn evaluate RETRAINED BENCHMARK --split ... --against TARGET`)."
)


def recorded_attacks(record: Run) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of the attacks of a record, and those that cannot or may not be imported, with the reason."""
    usable, reasons = list[str](), dict[str, str]()
    # The inputs name the members of sets and families; earlier versions recorded none.
    for name in record.info.inputs.get("attacks") or record.info.config.get("attacks", ()):
        try:
            refuse_unnamed("attack", str(name))
            usable += expand([name])
        except InputError as error:
            reasons[name] = str(error)
    return tuple(usable), reasons


@dataclass(frozen=True)
class Attacked:
    """Results of one family of attacks on one model and split.

    Attributes:
        run: the run whose model it is.
        record: the attack's own run, in a folder below it.
    """

    run: Run
    record: Run
    family: AttackFamily

    @staticmethod
    def find(run: Run, split: str, family: AttackFamily | str) -> Attacked | None:
        """The latest complete attack of a family on a split; None if there is none."""
        own = families()[family] if isinstance(family, str) else family
        records = [
            Attacked(run, record, own) for record in run.complete_below(FOLDER) if record.info.split == split
        ]
        return next((attacked for attacked in reversed(records) if attacked.measured), None)

    @property
    def measured(self) -> bool:
        """True if the run has results of this family."""
        return (self.record.folder / self.family.summary_file).exists()

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The score table of this family: an item per document (membership) or a question (the others)."""
        return self.family.own_scores(with_drawn_names(read_scores(self.record.folder), self.run, self.record))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals, as the family's ``results.py`` summarizes its scores."""
        summary = read_frame(self.record.folder / self.family.summary_file, ("value", "low", "high"))
        return with_drawn_names(summary, self.run, self.record) if "measure" in summary else summary

    @cached_property
    def subjects(self) -> pd.DataFrame:
        """Means per subject of a recovery attack (:func:`~.recovery.recovery_results.subject_means`)."""
        return read_frame(self.record.folder / self.family.subjects_file, ("subject", "value"))

    @property
    def before(self) -> pd.DataFrame:
        """Scores of the unattacked model in a recovery attack, without duplicates."""
        return self.family.before(self.scores)

    @property
    def strengths(self) -> tuple[str, ...]:
        """Labels of a recovery attack's states from the weakest to the strongest, without the unattacked model."""
        recorded: Sequence[str] | None = self.facts.get("strengths")
        return tuple(self.family.strengths(self.scores) if recorded is None else recorded)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The attack's record: questions, settings, ``notes`` and ``problems`` by label."""
        facts: Mapping[str, Any] = self.record.info.results.get(self.family.name, {})
        return facts

    @property
    def arguments(self) -> list[Any]:
        """Settings given to the attacks of this family."""
        names, given = recorded_attacks(self.record)[0], self.record.info.config["arguments"]
        return [given.get(name, {}) for name in names if attack_class(name).family.name == self.family.name]

    @property
    def failed(self) -> Mapping[str, str]:
        """Families of the record that failed -> the reason."""
        failed: Mapping[str, str] = self.record.info.results.get(FAILED, {})
        return failed

    @property
    def without_result(self) -> Mapping[str, str]:
        """Families of the record that failed, or that have nothing to attack -> the reason."""
        return {**self.record.info.results.get(NOT_APPLICABLE, {}), **self.failed}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on questions that a recovery attack skipped, and on states in which the model answers
        nothing.
        """
        left_out, broken = (self.facts.get(name, {}) for name in ("notes", "problems"))
        reasons = {**left_out, **{state: "; ".join(problems) for state, problems in broken.items()}}
        return tuple(f"{self.run.label}, {what}: {why}." for what, why in reasons.items())


@dataclass(frozen=True)
class Attacks:
    """Models under the same attacks of one family: first the model in question, then the models it is compared
    with.
    """

    models: tuple[Attacked, ...]
    replicates: int
    seed: int
    family: AttackFamily

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each model -> why it is broken; healthy models have no entry."""
        return {model.run.label: model.record.info.problems for model in self.models}

    @property
    def failed(self) -> list[tuple[str, str, str]]:
        """Model, attack and reason of each attack without results."""
        return [(model.run.label, name, why) for model in self.models for name, why in model.failed.items()]

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences with intervals: model, against, against_role, and the family's columns.

        The first model is compared with each other model. Membership: every model with the retrained ones.
        Reconstruction and recovery: every unlearned model with target and retrained ones. Recovery also compares
        the target with the retrained ones.
        """
        models = self.measured_models
        pairs = [
            (model, other)
            for model in models
            for other in models
            if other is not model and (model is models[0] or self._is_anchored(model, other))
        ]
        return self._compare(pairs, self.family.compare)

    @cached_property
    def privacy_leaks(self) -> pd.DataFrame:
        """MUSE's privacy leakage of each model against each retrained one; empty without a retrained model.

        model, against, and the columns of :func:`medunlearn.attacks.membership.membership_results.privacy_leaks`.
        """
        models = self.measured_models
        pairs = [(model, other) for other in models for model in models if self._is_anchored(model, other)]
        return self._compare(pairs, self.family.privacy_leaks).drop(columns="against_role", errors="ignore")

    @property
    def reconstructions(self) -> Attacks:
        """The reconstruction attacks on the same models; empty if there were none."""
        return self.of("reconstruction")

    @cached_property
    def recoveries(self) -> Mapping[str, Attacks]:
        """Name -> the recovery attacks of that name on the same models; names without attacks are missing."""
        return {name: own for name, own in self.by_family.items() if own.family.brings_back}

    @cached_property
    def by_family(self) -> Mapping[str, Attacks]:
        """Name of a family -> its attacks on the same models, for the families that have results."""
        by_family = {family.name: self.of(family) for family in all_families(model.record for model in self.models)}
        return {name: attacks for name, attacks in by_family.items() if attacks.models}

    def of(self, family: AttackFamily | str) -> Attacks:
        """The attacks of a family on the same models; empty if there were none."""
        own = families()[family] if isinstance(family, str) else family
        models = (replace(model, family=own) for model in self.models)
        measured = tuple(model for model in models if model.measured)
        return Attacks(measured, self.replicates, self.seed, own)

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
        for family in all_families([target.record, retrained.record]):
            attacked = [replace(model, family=family) for model in (target, retrained)]
            if family.has_baseline and all(model.measured for model in attacked):
                tables = (model.before for model in attacked)
                return check_reference(*tables, replicates=self.replicates, seed=self.seed)
        return None

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings to read before the readings."""
        drawn = self.undecided
        first = (f"{drawn[0].upper()}{drawn[1:]}: no number here decides anything.",) if drawn else ()
        if self.reference is not None:
            return (*first, *self.reference.caveats)
        unchecked = {"target", "retrained"} <= {model.run.role for model in self.models}
        return (*first, UNCHECKED) if unchecked else first

    @property
    def undecided(self) -> str:
        """Reason why nothing may be read, if the benchmark's labels, texts or questions were drawn at random."""
        facts = (model.record.info.results.get("benchmark") or {} for model in self.models)
        return next(filter(None, (why_undecided(read_provenance(one.get("provenance"))) for one in facts)), "")

    def table(self) -> pd.DataFrame:
        """Summaries of all models, with ``model`` and ``role``; empty if there was no attack of this family.

        Recovery attacks have ``reading``, the words of
        :data:`medunlearn.attacks.recovery.recovery_results.READINGS`, of unlearned models. Nothing is read of a
        broken model or state, against a retrained model that is not a reference, or of what was drawn.

        Membership also has ``reading``, of the areas of unlearned models: ``over-forgotten`` where the area lies
        below the retrained model's (its interval of the difference leaves 0 out), ``still leaks`` where it lies
        above, else ``not distinguished``. Without a retrained model it is read against 0.5; of a broken model
        nothing is read.
        """
        models = self.measured_models
        table = joined([model.summary.assign(model=model.run.label, role=model.run.role) for model in models])
        if table.empty or not self.family.has_readings:
            return table
        readings = [self._read(row) for row in table.to_dict("records")]
        return table.assign(reading=pd.Series(readings, dtype="string"))

    def _read(self, row: Mapping[Any, Any]) -> str | None:
        """Reading of a row of an unlearned model that is not broken, of numbers that were not drawn."""
        is_drawn_row = bool(self.undecided) or is_drawn(str(row.get("measure", "")))
        is_readable = row["role"] == "unlearned" and not self.problems[row["model"]] and not is_drawn_row
        return self.family.read(self, row) if is_readable else None

    @property
    def measured_models(self) -> list[Attacked]:
        """The models with results."""
        return [model for model in self.models if model.measured]

    def model(self, label: str) -> Attacked:
        """The model of a label."""
        return next(model for model in self.measured_models if model.run.label == label)

    def gaps(self, label: str) -> pd.DataFrame:
        """Differences between a model and the retrained ones."""
        return self._gaps.get(label, self.comparisons.iloc[:0])

    @cached_property
    def _gaps(self) -> Mapping[str, pd.DataFrame]:
        """Label -> differences from the retrained ones, which every row that is read asks for."""
        gaps = self.comparisons
        if gaps.empty:
            return {}
        own = gaps[gaps["against_role"] == "retrained"]
        return {str(label): rows for label, rows in own.groupby("model", sort=False)}

    @property
    def is_reference_refused(self) -> bool:
        """True if nothing may be read against the retrained model."""
        return self.reference is not None and not self.reference.passed

    def _is_anchored(self, model: Attacked, other: Attacked) -> bool:
        """True if a model is compared with a reference of its kind."""
        return self.family.is_anchored(model.run.role, other.run.role)

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


def all_families(records: Iterable[Run]) -> Iterator[AttackFamily]:
    """The registered families, then those of plug-ins among the attacks of some records."""
    registered = families()
    yield from registered.values()
    others = (family for record in records for family in families_of(recorded_attacks(record)[0]))
    yield from {family.name: family for family in others if family.name not in registered}.values()
