"""Attack models, and compare the results with those of a retrained model."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from medunlearn.attacks import attack_class, attack_sets, expand, families_of, make_attack
from medunlearn.attacks.attack_protocol import AttackFamily, AttackJob, SecondRole
from medunlearn.attacks.attacked import FAILED, FOLDER, NOT_APPLICABLE, Attacked, Attacks
from medunlearn.attacks.membership.membership_attack import MEMBERSHIP
from medunlearn.config import AttackSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.errors import (
    ConfigError,
    InputError,
    MedunlearnError,
    ModelError,
    NotApplicableError,
    ProcessError,
    StorageError,
    first_line,
)
from medunlearn.metrics import distinct_metrics, get_metric
from medunlearn.metrics.measure import Need
from medunlearn.metrics.needs import need_problems
from medunlearn.metrics.unscored import refuse_unscored
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import model_identity
from medunlearn.models.health import refuse_broken
from medunlearn.probes.probe_set import refuse_other_material
from medunlearn.probes.question_selection import material_of, recorded_probes
from medunlearn.results.evaluated import distinct_runs
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import Recording, Run, RunRecord, is_complete, make_latest
from medunlearn.results.scores import FILE as SCORES
from medunlearn.results.scores import read_outcomes
from medunlearn.training.processes import Processes, join
from medunlearn.training.recording import open_recording

ANSWERS: frozenset[Need] = frozenset(
    ("response", "response_tokens", "reference_tokens", "answer_log_probs", "answer_hits", "alternative_log_probs")
)
"""Needs of measures that an attack which asks questions gives."""

if TYPE_CHECKING:
    from medunlearn.attacks.model_holder import ModelHolder
    from medunlearn.models.load import LanguageModel


def attack(
    run: Run | Path | str,
    benchmark: Benchmark,
    settings: AttackSettings,
    *,
    against: Sequence[Run | Path | str] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Attacks:
    """Attack a run's model on a split, and the runs that it is compared with, by :func:`attack_each`.

    Raises:
        ModelError: a broken model, unless ``allow_broken``.
        MedunlearnError: no attack on any model has results, or a measure scored nothing.
    """
    battery = AttackBattery(benchmark, settings)
    attacks = battery.attack_each([run, *against], device=device, quiet=quiet)
    if battery.errors and not attacks.by_family:
        raise next(iter(battery.errors.values()))
    problems = attacks.problems
    refuse_broken(problems, allowed=settings.allow_broken)
    folders = {one.run.label: one.record.folder for one in attacks.models}
    tables = {label: read_outcomes(folder) for label, folder in folders.items() if (folder / SCORES).exists()}
    broken = [label for label, found in problems.items() if found]
    refuse_unscored(tables, distinct_metrics(settings.more_measures), broken=broken)
    return attacks


def attack_each(
    models: Sequence[Run | Path | str],
    benchmark: Benchmark,
    settings: AttackSettings,
    *,
    others: Sequence[Run] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Attacks:
    """Attack the models of runs on a split (:meth:`AttackBattery.attack_each`).

    Args:
        others: runs that are not attacked, as second models of attacks, before the attacked ones of their roles.
    """
    battery = AttackBattery(benchmark, settings, second_models(others))
    return battery.attack_each(models, device=device, quiet=quiet)


def attack_folder(run: Run, benchmark: Benchmark, settings: AttackSettings, others: Sequence[Run] = ()) -> Path:
    """Folder of the attack with these settings."""
    return AttackBattery(benchmark, settings, second_models([*others, run])).folder(run)


def second_models(runs: Sequence[Run]) -> dict[str, Run]:
    """Role -> the first of some runs with it, for attacks that use a second model."""
    return {run.role: run for run in reversed(runs) if run.role in get_args(SecondRole)}


def attack_is_done(folder: Path) -> bool:
    """True if the attack in a folder is complete, with a result of every attack."""
    return is_complete(folder) and not Run.open(folder).info.results.get(FAILED)


@dataclass
class AttackBattery:
    """Attacks with their settings on a benchmark. What all attacked models share is computed once.

    An attack that fails ends by itself: the others go on, and the record has its reason. The same call runs it
    again.

    Attributes:
        others: role -> the run of that role that attacks may use as a second model.
        errors: label of a model, and family -> the error of an attack that failed in this process.
    """

    benchmark: Benchmark
    settings: AttackSettings
    others: Mapping[str, Run] = field(default_factory=dict)
    errors: dict[tuple[str, str], MedunlearnError] = field(default_factory=dict)

    @cached_property
    def jobs(self) -> Mapping[str, AttackJob]:
        """Name of a family -> its attacks, in the order of the registry."""
        return {family.name: self._job(family) for family in families_of(self.settings.attacks)}

    @cached_property
    def probes(self) -> Mapping[str, str]:
        """Fingerprint of the probe set that is asked, for the key; empty without one."""
        file = self.settings.probes
        return {} if file is None else {"probes": recorded_probes(file, self.benchmark)[1].fingerprint}

    def _job(self, family: AttackFamily) -> AttackJob:
        names = [name for name in expand(self.settings.attacks) if attack_class(name).family.name == family.name]
        attacks = [make_attack(name, self.settings.arguments.get(name, {})) for name in names]
        return family.job(attacks, self.benchmark, self.settings)

    @cached_property
    def _required(self) -> set[str]:
        """Names of the families that were named by themselves, not by a set: what they lack is refused at once."""
        sets = attack_sets()
        return {family.name for family in families_of([n for n in self.settings.attacks if n not in sets])}

    def check(self) -> None:
        """Refuse a benchmark that cannot be attacked. An attack of a set fails by itself instead.

        Raises:
            InputError: an unknown split; a benchmark without non-members, or without questions.
            ConfigError: a measure that no attack can score.
        """
        self.benchmark.split(self.settings.split)
        refuse_other_material(self.settings.probes, material_of(self.benchmark))
        self._check_measures()
        for name, job in self.jobs.items():
            if name in self._required:
                job.check()

    def _check_measures(self) -> None:
        requested = [get_metric(name) for name in self.settings.more_measures]
        problems = need_problems(requested, ANSWERS, ANSWERS, {}, "an attack")
        if requested and not any(attack_class(name).scored_by for name in expand(self.settings.attacks)):
            problems.append(
                f"none of {', '.join(self.settings.attacks)} asks questions, so there is no answer to score"
            )
        if problems:
            raise ConfigError([f"more_measures: {problem}" for problem in problems])

    def attack_each(
        self, models: Sequence[Run | Path | str], *, device: str = "auto", quiet: bool = False
    ) -> Attacks:
        """Attack the models of runs on a split; identical answers of a model are noted in its record.

        Results are stored in each run's folder; a complete attack is not run again. Several processes (torchrun)
        share the documents and questions of attacks that can be shared; others run on rank 0.

        Raises:
            InputError: an unknown split, attack or model; a benchmark without non-members, or another one than a
                model was trained on; weights that are not finite, unless ``allow_broken``.
        """
        runs = [Run.of(model) for model in models]
        labelled = distinct_runs(runs)
        self.others = {**second_models(runs), **self.others}
        self.check()
        for run in labelled:
            self._check_belongs(run)
        processes = join()
        how: dict[str, Any] = {"device": processes.device(device), "quiet": quiet, "processes": processes}
        attacked = [self.attack_one(run, **how) for run in runs]
        models_attacked = tuple(replace(model, run=run) for model, run in zip(attacked, labelled, strict=True))
        return Attacks(models_attacked, self.settings.replicates, self.settings.seed, MEMBERSHIP)

    def attack_one(
        self,
        run: Run,
        *,
        device: str = "auto",
        quiet: bool = False,
        live: LanguageModel | None = None,
        processes: Processes | None = None,
    ) -> Attacked:
        """Attack one run's model; a complete attack is returned unchanged.

        Args:
            live: the run's model if it is already in memory, in evaluation mode; otherwise it is loaded.
            processes: processes with the same live model that share the work; each makes the same call.
        """
        from medunlearn.attacks.workbench import Workbench

        benchmark, settings, folder = self.benchmark, self.settings, self.folder(run)
        processes = processes or Processes()
        other = [] if settings.reference is None else [model_use(settings.reference)]
        use = tightest([benchmark.data_use, model_use(run.folder), *other])
        recording = open_recording(
            processes, folder, "attack", run.label, settings, self._inputs(run), data_use=use
        )
        with processes.barrier():
            stored = _stored_results(recording) if processes.main else {}
        earlier = processes.broadcast(stored)
        failed = earlier.pop(FAILED, {})
        if recording.done and not failed:
            with processes.barrier():
                if processes.main:
                    make_latest(folder)
            return Attacked(run, Run.open(folder), MEMBERSHIP)
        holder = Workbench(run, benchmark, settings, device, quiet, live, processes, self.others)
        split = benchmark.split(settings.split)
        with recording.running():
            recording.info.results = earlier or {
                "health": {"problems": list(run.info.problems)},
                "benchmark": benchmark.facts(),
                "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
            }
            for name, job in self.jobs.items():
                if name in failed or not (recording.done or self._is_complete(name, earlier, folder)):
                    self._run_job(name, job, holder, recording)
                    recording.save()
            health = recording.info.results["health"]
            health["problems"] = list(dict.fromkeys(health["problems"]))
        with processes.barrier():
            attacked = Attacked(run, Run.open(folder), MEMBERSHIP) if processes.main else None
        return processes.broadcast(attacked)

    def _is_complete(self, name: str, earlier: Mapping[str, Any], folder: Path) -> bool:
        """True if a run that was cut off had finished a family's attacks."""
        (family,) = (own for own in families_of(self.settings.attacks) if own.name == name)
        return name in earlier and all((folder / file).exists() for file in (family.summary_file, SCORES))

    def _run_job(self, name: str, job: AttackJob, holder: ModelHolder, recording: Recording) -> None:
        """Run a family's attacks; a failure is recorded, unless it concerns the model, the disk or a process."""
        import torch

        try:
            job.check()
            job.check_run(holder.run)
            job.run(holder, recording)
            recording.info.results.setdefault(name, {})
            return
        except Exception as error:
            is_lost = isinstance(error, ProcessError) and error.lost
            # The other processes have the same failure in other words, and must end or go on like this one.
            if is_lost or any(holder.processes.gather(isinstance(error, ModelError | StorageError))):
                raise
            failure = _failure_of(error, name)
        # A set leaves out what has nothing to attack; an attack that was named by itself measured nothing.
        is_fault = name in self._required or not isinstance(failure, NotApplicableError)
        recording.info.results.setdefault(FAILED if is_fault else NOT_APPLICABLE, {})[name] = str(failure)
        if not is_fault:
            return
        self.errors[holder.run.label, name] = failure
        holder.drop_others()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def folder(self, run: Run) -> Path:
        """Folder of the attack on a run."""
        key = Recording.key_of("attack", self.settings, self._inputs(run))
        return keyed_folder(run.folder / FOLDER, self.settings.split, key)

    def _inputs(self, run: Run) -> dict[str, Any]:
        reference, names = self.settings.reference, expand(self.settings.attacks)
        roles = {role for name in names for role in attack_class(name).second_models}
        others = {role: self.others[role].fingerprint for role in sorted(roles & {*self.others})}
        return {
            **self.probes,
            "benchmark": self.benchmark.fingerprint,
            "model": run.fingerprint,
            "attacks": list(names),
            "reference": None if reference is None else model_identity(reference),
            **({"others": others} if others else {}),
        }

    def _check_belongs(self, run: Run) -> None:
        """Refuse a model trained on another benchmark, for another split, or without documents."""
        if run.info.benchmark != self.benchmark.fingerprint:
            raise InputError(
                f"{run.folder} was not trained on this benchmark, so the model may have seen its non-members. "
                "Attack with the benchmark that it was trained on, or train again."
            )
        made_for, split = run.info.made_for, self.settings.split
        if made_for is not None and made_for != split:
            what = "retrained without" if run.role == "retrained" else "made to forget"
            raise InputError(
                f"{run.folder} was {what} split {made_for!r}, not {split!r}. Attack it on its own split, or leave "
                "it out."
            )
        for name, job in self.jobs.items():
            if name in self._required:
                job.check_run(run)


def _stored_results(recording: Recording) -> dict[str, Any]:
    """Results of the attacks that a record already has, also of a run that was cut off."""
    if recording.done:
        return dict(Run.open(recording.folder).info.results)
    with suppress(InputError):
        there = RunRecord.read(recording.folder)
        if there.key == recording.key and there.results:
            return dict(there.results)
    return {}


def _failure_of(error: Exception, name: str) -> MedunlearnError:
    """The error for the user; one that is meant for the user stays as it is."""
    import torch

    if isinstance(error, MedunlearnError):
        return error.with_traceback(None)
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        words = f"{name}: memory ran out ({first_line(error, 120)}). A smaller batch_size may fit."
    elif isinstance(error, ImportError):
        words = f"{name}: a package is missing: {first_line(error)}"
    else:
        words = f"{name}: {type(error).__name__}: {first_line(error)}"
    return MedunlearnError(words)
