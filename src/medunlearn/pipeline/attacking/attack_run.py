"""Attack models, and compare the results with those of a retrained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from medunlearn.attacks import expand, kinds_of, make_attack
from medunlearn.attacks.attacked import FOLDER, Attacked, Attacks
from medunlearn.attacks.membership.membership_run import (
    attack_membership,
    check_was_trained_on_records,
    longest,
    reference_likelihoods,
)
from medunlearn.attacks.membership.sample import Candidate, candidates
from medunlearn.attacks.model_holder import ModelHolder
from medunlearn.attacks.reconstruction.contexts import attacked_questions
from medunlearn.attacks.recovery.recovery_attacks import RECOVERY
from medunlearn.config import AttackSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.records import SIDES
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import model_identity
from medunlearn.models.health import refuse_broken
from medunlearn.models.load import LanguageModel
from medunlearn.pipeline.attacking.reconstruction_run import attack_reconstruction
from medunlearn.pipeline.attacking.recovery_run import ask_share, attack_recovery
from medunlearn.results.evaluated import distinct_runs
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import Recording, Run, make_latest
from medunlearn.training.processes import Processes, join
from medunlearn.training.recording import open_recording


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
    """
    attacks = attack_each([run, *against], benchmark, settings, device=device, quiet=quiet)
    refuse_broken(attacks.problems, allowed=settings.allow_broken)
    return attacks


def attack_each(
    models: Sequence[Run | Path | str],
    benchmark: Benchmark,
    settings: AttackSettings,
    *,
    device: str = "auto",
    quiet: bool = False,
) -> Attacks:
    """Attack the models of runs on a split; identical answers of a model are noted in its record.

    Results are stored in each run's folder; a complete attack is not run again. Several processes (torchrun) share
    the documents of membership attacks and the questions of the others; relearning runs on rank 0.

    Raises:
        InputError: an unknown split, attack or model; a benchmark without non-members, or another one than a model
            was trained on; weights that are not finite, unless ``allow_broken``.
    """
    runs = [Run.of(model) for model in models]
    labelled = distinct_runs(runs)
    documents = membership_candidates(benchmark, settings)
    for run in labelled:
        _check_belongs(run, benchmark, settings)

    @cache
    def likelihoods(length: int | None) -> Sequence[float]:
        return reference_likelihoods(str(settings.reference), documents, length, settings, device, quiet)

    processes = join()
    how: dict[str, Any] = {"device": processes.device(device), "quiet": quiet, "processes": processes}
    attacked = [attack_one(run, benchmark, documents, settings, likelihoods, **how) for run in runs]
    models_attacked = tuple(replace(model, run=run) for model, run in zip(attacked, labelled, strict=True))
    return Attacks(models_attacked, settings.replicates, settings.seed)


def attack_settings(values: Mapping[str, Any]) -> AttackSettings:
    """Settings of `attack`; keys of the form ``ATTACK.KEY`` are that attack's own (``min_k.k``).

    Raises:
        ConfigError: every mistake.
        UnknownNameError: no such attack.
    """
    general = {key: value for key, value in values.items() if "." not in key}
    arguments = dict(check(AttackSettings, general).arguments)
    for key, value in values.items():
        # From the right: a plug-in's own name may be a dotted path.
        owner, dot, name = key.rpartition(".")
        if dot:
            arguments[owner] = {**arguments.get(owner, {}), name: value}
    settings = check(AttackSettings, {**general, "arguments": arguments})
    names = expand(settings.attacks)
    problems = [
        f"{owner}.{key}: {owner} is not among the attacks ({', '.join(names)})"
        for owner, own in arguments.items()
        for key in own
        if owner not in names
    ]
    if settings.reference is None and "reference" in settings.attacks:
        problems.append("attack reference needs --reference MODEL: a folder, a run or a hub id")
    if settings.reference is not None and "reference" not in names:
        problems.append("--reference goes with the attack reference, which is not among the attacks")
    for kind in ("reconstruction", *RECOVERY):
        several = [name for name in names if kinds_of([name]) == {kind}]
        if len(several) > 1:
            problems.append(f"attacks={','.join(several)}: one {kind} attack at a time; attack once for each")
    for name in names:
        try:
            make_attack(name, arguments.get(name, {}))
        except ConfigError as error:
            problems += error.problems
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(problems)
    return settings


def membership_candidates(benchmark: Benchmark, settings: AttackSettings) -> list[Candidate]:
    """Documents whose membership is tested; empty without membership attacks."""
    split, kinds = benchmark.split(settings.split), kinds_of(settings.attacks)
    if "reconstruction" in kinds:
        attacked_questions(benchmark, split, SIDES)
    return candidates(benchmark, split) if "membership" in kinds else []


def attack_one(
    run: Run,
    benchmark: Benchmark,
    documents: Sequence[Candidate],
    settings: AttackSettings,
    likelihoods: Callable[[int | None], Sequence[float]],
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
    processes: Processes | None = None,
) -> Attacked:
    """Attack one run's model; a complete attack is returned unchanged.

    Args:
        likelihoods: of the documents under the reference model, by maximum length.
        live: the run's model if it is already in memory, in evaluation mode; otherwise it is loaded.
        processes: processes with the same live model that share the work; each makes the same call.
    """
    split, names = benchmark.split(settings.split), expand(settings.attacks)
    inputs, folder = _inputs(run, benchmark, settings), attack_folder(run, benchmark, settings)
    processes = processes or Processes()
    other = [] if settings.reference is None else [model_use(settings.reference)]
    use = tightest([benchmark.data_use, model_use(run.folder), *other])
    recording = open_recording(processes, folder, "attack", run.label, settings, inputs, data_use=use)
    if recording.done:
        make_latest(folder)
        return Attacked(run, Run.open(folder))
    attacks = {name: make_attack(name, settings.arguments.get(name, {})) for name in names}
    membership = {name: attack for name, attack in attacks.items() if attack.kind == "membership"}
    reference = None if settings.reference is None else partial(likelihoods, longest(run))
    holder = ModelHolder(run, benchmark, settings, device, quiet, live, processes)
    with recording.running():
        recording.info.results = {
            "health": {"problems": list(run.info.problems)},
            "benchmark": benchmark.facts(),
            "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        }
        if membership:
            attack_membership(holder, documents, membership, recording, reference)
        for attack in attacks.values():
            if attack.kind == "reconstruction":
                attack_reconstruction(holder, attack, recording)
            elif attack.kind in RECOVERY:
                if processes.world > 1 and live is None:
                    processes.each(partial(ask_share, holder, attack))
                processes.on_main(partial(attack_recovery, holder, attack, recording))
        health = recording.info.results["health"]
        health["problems"] = list(dict.fromkeys(health["problems"]))
    return processes.on_main(lambda: Attacked(run, Run.open(folder)))


def attack_folder(run: Run, benchmark: Benchmark, settings: AttackSettings) -> Path:
    """Folder of the attack with these settings."""
    key = Recording.key_of("attack", settings, _inputs(run, benchmark, settings))
    return keyed_folder(run.folder / FOLDER, settings.split, key)


def _inputs(run: Run, benchmark: Benchmark, settings: AttackSettings) -> dict[str, Any]:
    return {
        "benchmark": benchmark.fingerprint,
        "model": run.fingerprint,
        "attacks": list(expand(settings.attacks)),
        "reference": None if settings.reference is None else model_identity(settings.reference),
    }


def _check_belongs(run: Run, benchmark: Benchmark, settings: AttackSettings) -> None:
    """Refuse a model trained on another benchmark, for another split, or without documents."""
    if run.info.benchmark != benchmark.fingerprint:
        raise InputError(
            f"{run.folder} was not trained on this benchmark, so the model may have seen its non-members. Attack "
            "with the benchmark that it was trained on, or train again."
        )
    made_for = run.info.made_for
    if made_for is not None and made_for != settings.split:
        what = "retrained without" if run.role == "retrained" else "made to forget"
        raise InputError(
            f"{run.folder} was {what} split {made_for!r}, not {settings.split!r}. Attack it on its own split, or "
            "leave it out."
        )
    if "membership" in kinds_of(settings.attacks):
        check_was_trained_on_records(run)
