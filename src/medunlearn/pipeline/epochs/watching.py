"""What a run's settings ask of its epochs, checked before anything runs; what ``run.json`` is told at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from medunlearn.attacks import kinds_of
from medunlearn.attacks.membership.run import check_was_trained_on_records
from medunlearn.config import EpochFields, EvaluateSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.metrics import get_metric
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering
from medunlearn.pipeline.epochs.epochs import EpochEvaluation, Measure
from medunlearn.pipeline.epochs.rows import Watch
from medunlearn.pipeline.epochs.sections import check_watched, epoch_sections
from medunlearn.pipeline.epochs.selection import VALIDATION_RULE, forgetting_rule
from medunlearn.results.runs import Recording, Run
from medunlearn.training.processes import Processes


def epoch_settings(settings: EpochFields, split: str | None) -> EvaluateSettings | None:
    """Settings of the evaluations of a run's epochs on a split; None where it has none.

    Args:
        split: the run's own; None where ``evaluate`` names one, or it is the one that was left out.

    Raises:
        ConfigError: every mistake, what has no effect without evaluations among them.
    """
    idle = _idle(settings)
    if idle:
        raise ConfigError(idle)
    if not settings.evaluate_every or (measured(settings) and not _asks_for_a_split(settings)):
        return None
    given, weights = settings.evaluate, settings.weights
    problems = []
    if split is not None and given.get("split", split) != split:
        problems.append(f"evaluate.split={given['split']!r}: the epochs are evaluated on the run's own, {split!r}.")
    if given.get("weights", weights) != weights:
        problems.append(f"evaluate.weights={given['weights']!r}: the model in training has {weights} weights.")
    usual = split or getattr(settings, "without", None)
    own = {"seed": getattr(settings, "seed", 0), "weights": weights, **({"split": usual} if usual else {})}
    try:
        checked = check(EvaluateSettings, {**own, **given})
        for name in checked.metrics:
            get_metric(name)
    except ConfigError as error:
        problems += [f"evaluate: {problem}" for problem in error.problems]
    except UnknownNameError as error:
        problems.append(f"evaluate: {error}")
    try:
        epoch_sections(settings, given.get("split", usual))
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return checked


def check_epochs(settings: EpochFields, benchmark: Benchmark, target: Run | None) -> EvaluateSettings | None:
    """:func:`epoch_settings`, and whether the benchmark and this machine can give what they ask for.

    Raises:
        InputError: an unknown split; no documents that the model never saw, to tell members from; a target that was
            trained on no documents; no such task, or lm-evaluation-harness is not installed.
    """
    evaluation = epoch_settings(settings, getattr(settings, "split", None))
    if evaluation is None:
        return None
    benchmark.split(evaluation.split)
    attack, utility = epoch_sections(settings, evaluation.split)
    check_watched(benchmark, attack, utility)
    if attack is not None and target is not None and "membership" in kinds_of(attack.attacks):
        check_was_trained_on_records(target)
    return evaluation


_OF_EPOCHS = {
    "evaluate": {},
    "attack": {},
    "utility": {},
    "keep_epochs": False,
    "select": "last",
    "stop_early": 0,
    "validation": None,
    "watch": {},
}


def measured(settings: EpochFields) -> bool:
    """Whether a run finds out something of its epochs that needs no split."""
    return isinstance(settings, TrainSettings) and (settings.validation is not None or bool(settings.watch))


def _idle(settings: EpochFields) -> list[str]:
    """What is set and has no effect, a line each."""
    given = [name for name, nothing in _OF_EPOCHS.items() if getattr(settings, name, nothing) != nothing]
    if not settings.evaluate_every:
        return [f"{name} is about evaluated epochs: set evaluate_every=1 too." for name in given]
    if isinstance(settings, TrainSettings) and settings.validation is None:
        return [
            f"{name} goes by the validation loss: set validation=... too (part=validation, or holdout)."
            for name in ("select", "stop_early")
            if name in given
        ]
    return []


def _asks_for_a_split(settings: EpochFields) -> bool:
    return bool(settings.evaluate or settings.attack or settings.utility)


def epoch_evaluation(
    recording: Recording,
    live: LanguageModel,
    rendering: Rendering,
    benchmark: Benchmark,
    settings: EpochFields,
    processes: Processes,
    *,
    target: Run | None = None,
    reload: Callable[[], LanguageModel] | None = None,
    measures: Sequence[Measure] = (),
    quiet: bool = False,
) -> EpochEvaluation | None:
    """What a run's settings ask for; None where they ask for nothing.

    Args:
        measures: what is found out besides evaluations on a split.

    Raises:
        ConfigError: see :func:`epoch_settings`.
    """
    evaluation = epoch_settings(settings, getattr(settings, "split", None))
    if evaluation is None and not measures:
        return None
    watch = Watch(benchmark, *epoch_sections(settings, evaluation.split), quiet=quiet) if evaluation else None
    by_loss = isinstance(settings, TrainSettings) and settings.validation is not None
    # Without an evaluation nothing has a number by this rule, and the last epoch is the run's.
    fold = evaluation.folds[0] if evaluation else "train"
    return EpochEvaluation(
        recording,
        live,
        rendering,
        benchmark,
        evaluation,
        VALIDATION_RULE if by_loss else forgetting_rule(fold),
        settings.evaluate_every,
        settings.epochs,
        processes,
        watch,
        measures=measures,
        target=target,
        base=target.model if target else None,
        reload=reload,
        select=getattr(settings, "select", "last"),
        patience=getattr(settings, "stop_early", 0),
        keep=settings.keep_epochs,
        quiet=quiet,
    )


def finish_epochs(epochs: EpochEvaluation, stage: str) -> None:
    """Select the epoch, and tell ``run.json``; the time of evaluations is taken out of the stage's."""
    info = epochs.recording.info
    info["results"]["epochs"] = epochs.finish()
    trained = info["stages"][stage]
    trained["seconds"] = round(trained["seconds"] - epochs.seconds, 2)
    info["stages"]["epochs"] = {
        "seconds": round(epochs.seconds, 2),
        "peak_memory_bytes": trained["peak_memory_bytes"],
    }


def evaluations(settings: EpochFields) -> int:
    """How many evaluations a run of all its epochs makes, the target's among them."""
    if not settings.evaluate_every:
        return 0
    return 1 + -(-settings.epochs // settings.evaluate_every)
