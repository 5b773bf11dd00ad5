"""Make a trained model forget one split's forget set."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.deletion_requests import forget_records, relatives_of
from medunlearn.data.records import SIDES
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.methods import METHODS, hyperparameters, keeps_target
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import AlternativesMethod, LossMethod, default_trainable
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.material import (
    NOTHING_LEFT,
    forgotten_before,
    loop_settings,
    record_of,
    sequences,
    training_data,
)
from medunlearn.probes.shared_work import SharedWork
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.study.alternative_answers import SIDE, answers_inputs, check_rendering, with_alternatives
from medunlearn.study.epochs.epoch_selection import TABLE
from medunlearn.study.epochs.epoch_settings import check_epochs
from medunlearn.study.epochs.rank_stop import KEY as STOP
from medunlearn.study.epochs.rank_stop import RankStop, rank_rule, recoveries, retain_part
from medunlearn.study.epochs.rank_watch import RankWatch, check_stop
from medunlearn.study.forget_loss import KEY as FORGET_LOSS
from medunlearn.study.forget_loss import ForgetSample
from medunlearn.study.part_check import check_unlearning, choose_parts, outline_of
from medunlearn.study.presets import RETRAINED, unlearning_method
from medunlearn.study.trainer import Trainer, explain_out_of_memory
from medunlearn.training.batch_plan import Plan
from medunlearn.training.objectives import Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.processes import Processes, join
from medunlearn.training.recording import open_recording
from medunlearn.training.sharding import ShardedReference, check_sharding, shard
from medunlearn.training.trackers import check_tracker
from medunlearn.training.trainable import mix_with_noise
from medunlearn.training.turns import in_turns
from medunlearn.training.views import LOG_PROBS

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.study.epochs.epoch_evaluation import EpochEvaluation, Stop

TARGET = "target"


def unlearn(
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    out: Path,
    *,
    device: str = "auto",
    quiet: bool = False,
    stop: Stop | None = None,
    work: SharedWork | None = None,
) -> Run:
    """Run one method on the target model; resumes; a complete run is returned unchanged.

    Args:
        stop: for a run with epoch evaluations: called with their table after each epoch; True ends the run.
        work: state of the process, shared with other runs from the same target.

    Raises:
        InputError: an unknown method, setting, split or node, an unusable folder, or a target that never saw what
            is to be forgotten.
        NonFiniteLossError: a loss term diverged; the last good checkpoint is kept.
        OutOfMemoryError: a single sequence per side does not fit in memory; the last good checkpoint is kept.
    """
    method = unlearning_method(settings)
    _refuse_noise(method, settings)
    _refuse_learning(settings)
    _refuse_ratio(settings)
    benchmark.split(settings.split)
    if not settings.other_texts:
        unless = ", or say --other-texts where you want that"
        target.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint, unless)
        _refuse_never_seen(target, benchmark, settings.split)
    check_epochs(settings, benchmark, target)
    loop_settings(settings, settings.seed)
    inputs = {"benchmark": benchmark.fingerprint, "model": fingerprint(target.model)}
    inputs |= answers_inputs(method, settings.method)
    other = reference_run(method, settings)
    if other is not None:
        inputs["reference"] = fingerprint(other.model)
    merged = merged_runs(method, target)
    inputs |= {f"merged {place}": fingerprint(run.model) for place, run in enumerate(merged)}
    processes = join()
    check_sharding(settings.sharding, processes)
    label = str(getattr(method, "label", None) or getattr(method, "title", settings.method))
    use = tightest(
        [benchmark.data_use, *(model_use(run.folder) for run in (target, other, *merged) if run is not None)]
    )
    check_tracker(settings.tracker, use, permitted=settings.allow_tracking)
    recording = open_recording(processes, out, "unlearn", label, settings, inputs, data_use=use)
    if recording.done:
        return Run.open(out)
    check_unlearning(settings, outline_of(str(target.model)))
    recording.info.lineage = [*target.info.lineage, str(target.folder)]
    recording.info.texts = benchmark.texts_fingerprint
    rendering = target.rendering(settings.template, settings.context, settings.max_length, settings.long_notes)
    check_rendering(method, rendering, settings.method)
    if settings.stop != "none":
        check_stop(benchmark, settings, rendering)
    with recording.running():
        if work is not None and not _leaves_as_loaded(settings, method, processes):
            work.base.drop()
            work = None
        if isinstance(method, EditMethod):
            from medunlearn.study.edit import edit

            place = processes.device(device)
            with processes.barrier():
                if processes.main:
                    edit(recording, target, benchmark, settings, method, rendering, device=place, quiet=quiet)
        else:
            trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
            with explain_out_of_memory(settings, device):
                trainer = Trainer(recording, benchmark, settings, processes, rendering, target, quiet, target.model)
                before, earlier = forgotten_before(target, benchmark, settings.split)
                with recording.stage("load"):
                    with processes.barrier():
                        live = _load_target(target, benchmark, settings, trainable, processes, device, work)
                    with trainer.prepared(live):
                        plan = _plan(trainer, settings, method, live, earlier)
                        sample = _forget_sample(trainer, plan, settings)
                        if settings.evaluate_every:
                            trainer.epochs = _epochs(trainer, plan, settings, stop)
                objective = Unlearning(method, retain_part(settings.method))
                _forget(trainer, plan, settings, objective, trainable, other, work, before, sample)
    return processes.broadcast(Run(out, recording.info))


def _load_target(
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    trainable: str,
    processes: Processes,
    device: str,
    work: SharedWork | None,
) -> LanguageModel:
    """The target's model with its trained parameters marked."""
    shared = None if work is None else work.base
    language_model = load_model(
        target.model,
        device=processes.device(device),
        weights=settings.weights,
        images=benchmark.folder,
        shared=shared,
        without_layers=settings.sharding != "none",
    )
    if shared is not None:
        shared.set_trained()
    language_model.model = choose_parts(language_model.model, trainable, settings)
    return language_model


def _refuse_noise(method: Any, settings: UnlearnSettings) -> None:
    if getattr(method, "noise", 0.0) and (settings.sharding != "none" or settings.trainable.startswith("lora")):
        raise InputError(
            f"{settings.method}.noise mixes the target's own matrices: leave out --sharding and --trainable lora."
        )


def _refuse_never_seen(target: Run, benchmark: Benchmark, split: str) -> None:
    """Refuse a target whose training left out everything that is to be forgotten."""
    training = target.training
    if training is None or training.info.texts != benchmark.texts_fingerprint:
        return
    if any(Path(name).is_dir() for name in training.info.lineage):
        return  # what its base saw, nobody recorded here
    without = str(training.info.config.get("without"))
    if without not in benchmark.splits:
        return
    if forget_records(benchmark, split) <= forget_records(benchmark, without):
        raise InputError(
            f"Nothing to forget: the model in {target.folder} was trained without {without!r}, so it never saw the "
            f"forget set of {split!r}. Begin with the target model, or say --other-texts where you want that."
        )


def _refuse_learning(settings: UnlearnSettings) -> None:
    """Refuse what would teach the model answers about the retain set that it was never trained on."""
    if (settings.train_on == "direct" or settings.relatives) and not keeps_target(settings.method):
        able = ", ".join(name for name in METHODS if keeps_target(name))
        raise InputError(
            f"train_on=direct and relatives need a method whose retain term compares with the target: {able}. "
            f"{settings.method} would learn what is known of the others."
        )


def _refuse_ratio(settings: UnlearnSettings) -> None:
    """Refuse more retained sequences than one pass holds beside a forgotten one."""
    if settings.retain_ratio > settings.micro_batch_size:
        raise InputError(
            f"retain_ratio={settings.retain_ratio}: a pass holds {settings.micro_batch_size} sequences of a side. "
            "Raise --micro-batch-size, or lower --retain-ratio."
        )
    if settings.retain_ratio > 1 and settings.micro_batch_tokens is not None:
        raise InputError("retain_ratio needs passes of equally many sequences: leave out --micro-batch-tokens.")


def reference_run(method: Any, settings: UnlearnSettings) -> Run | None:
    """The run of a method's reference model, if it is not the target; else None.

    Raises:
        InputError: no such run, or it saw the split's forget set.
    """
    name = getattr(method, "reference", TARGET)
    if name == TARGET:
        return None
    if name == RETRAINED:
        raise InputError(
            f"{settings.method}.reference=retrained is for experiments and sweeps. Here, give the run's folder: "
            f"`medunlearn train BENCHMARK --without {settings.split}` makes it."
        )
    run = Run.open(Path(name))
    if run.role != RETRAINED or run.info.made_for != settings.split:
        raise InputError(
            f"{settings.method}.reference={name}: the run must be trained without the forget set of "
            f"{settings.split!r} (`medunlearn train BENCHMARK --without {settings.split}`)."
        )
    return run


def merged_runs(method: Any, target: Run) -> list[Run]:
    """Runs whose models a method merges into the target's.

    Raises:
        InputError: one was not made from the target.
    """
    runs = [Run.open(Path(folder)) for folder in getattr(method, "runs", ())]
    for run in runs:
        if str(target.folder) not in run.info.lineage:
            raise InputError(f"The model in {run.folder} was not made from {target.folder}: they cannot be merged.")
    return runs


def _read_reference(cache_plan: CachePlan, other: Run, trainer: Trainer, settings: UnlearnSettings) -> None:
    """Load another reference model for the cache, alongside the model in training; called by every process.

    Raises:
        InputError: the method needs more than likelihoods, too many for ``keep_gb``, or has another tokenizer.
    """
    live = trainer.live
    names = set().union(*cache_plan.needs.reference.values())
    if not names <= {LOG_PROBS} or not cache_plan.complete:
        raise InputError(
            f"{settings.method}.reference: another model can only provide likelihoods, which must all be cached "
            "before the first step. Raise --keep-gb, or leave the reference at target."
        )
    how: dict[str, Any] = {"device": str(live.device), "weights": settings.weights}
    how |= {"images": trainer.benchmark.folder, "without_layers": settings.sharding != "none"}
    with trainer.processes.barrier():
        model = load_model(other.model, **how)
    if settings.sharding != "none":
        shard(model, trainer.processes, settings.precision)
    if model.tokenizer.get_vocab() != live.tokenizer.get_vocab():
        raise InputError(f"{settings.method}.reference: {other.folder} has another tokenizer than the target.")
    if model.pictures is not None and live.pictures is not None:
        model.pictures.read_tokens_of(live.pictures)
    cache_plan.read_from(model.model)


def _forget(
    trainer: Trainer,
    plan: Plan,
    settings: UnlearnSettings,
    objective: Unlearning,
    trainable: str,
    other: Run | None,
    work: SharedWork | None,
    before: Any,
    sample: ForgetSample | None,
) -> None:
    """Cache repeated outputs, train, save. The reference is the target, or the model of another run."""
    benchmark, processes, loop = trainer.benchmark, trainer.processes, trainer.loop
    split, label = benchmark.split(settings.split), trainer.recording.label
    model, pad = trainer.live.model, trainer.live.tokenizer.pad_token_id
    with trainer.recording.stage("keep"):
        budget = int(settings.keep_gb * 1e9)
        size, tokens = loop.micro_batch_size, loop.micro_batch_tokens
        how: dict[str, Any] = {"tokens": tokens, "whole": other is not None}
        with processes.barrier(), in_turns(model):
            cache_plan = CachePlan(model, pad, objective, plan, size, budget, **how)
        cache_plan.needs.check_reaches(model)
        if other is not None:
            _read_reference(cache_plan, other, trainer, settings)
        cache = None
        if work is not None and other is None:
            model_identity = trainer.recording.info.inputs["model"], settings.weights, trainable
            cache = work.activations(cache_plan, model_identity, loop.precision)
        if cache is None:
            with progress(f"{label}: what repeats, once", cache_plan.sequences, quiet=trainer.silent) as advance:
                cache = cache_plan.fill(
                    trainer.checkpoints / "kept", loop.precision, processes=processes, advance=advance
                )
        if other is not None:
            cache_plan.read_from(model)
        kind = Reference if settings.sharding == "none" else ShardedReference
        reference = kind(model, cache, complete=cache_plan.complete)
        if share := getattr(objective.method, "noise", 0.0):
            mix_with_noise(model, share, settings.seed)
            trainer.is_altered = True
    history = trainer.run("unlearn", label, plan, objective, last=True, reference=reference)
    facts = {
        "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        "forgotten_before": before,
        "method": {"name": settings.method, **hyperparameters(objective.method)},
        "trainable": trainable,
        "reference": reference.kind,
        "reference_model": None if other is None else str(other.folder),
        "reference_bytes": reference.held_bytes(),
        "kept_bytes": cache_plan.bytes,
    }
    trainer.finish(
        history,
        "unlearn",
        facts,
        lambda: _measured(trainer, settings, sample),
    )


def _measured(trainer: Trainer, settings: UnlearnSettings, sample: ForgetSample | None) -> dict[str, Any]:
    """Facts of the run's model for ``run.json``: its loss on the forget set, and why training ended by ranks."""
    facts: dict[str, Any] = {} if sample is None else {FORGET_LOSS: sample.again(trainer.live).to_json()}
    if settings.stop != "none":
        epochs = read_frame(trainer.recording.folder / TABLE)
        facts[STOP] = RankStop.after(epochs, settings.stop_floor, _epochs_with_recovery(settings)).to_json()
    return facts


def _epochs_with_recovery(settings: UnlearnSettings) -> int | None:
    """The most epochs of a run that can recover (:mod:`medunlearn.study.epochs.rank_stop`); None for another."""
    return settings.epochs if retain_part(settings.method) else None


def _epochs(trainer: Trainer, plan: Plan, settings: UnlearnSettings, stop: Stop | None) -> EpochEvaluation | None:
    """Measurements after epochs, with the rule that ends the run."""
    from medunlearn.study.epochs.epoch_evaluation import epoch_evaluation

    if settings.stop == "none":
        return epoch_evaluation(trainer, stop=stop)
    how = trainer.rendering, trainer.live, plan.sides["retain"]
    watch = RankWatch.of(trainer.benchmark, settings, *how, quiet=trainer.silent)
    most, floor = _epochs_with_recovery(settings), settings.stop_floor
    if most is not None:
        plan.recovery = recoveries(trainer.recording.folder / TABLE, most)

    def ends(epochs: pd.DataFrame) -> bool:
        return RankStop.after(epochs, floor, most).reason != "none" or (stop is not None and stop(epochs))

    return epoch_evaluation(trainer, [watch], ends, rank_rule(floor))


def _forget_sample(trainer: Trainer, plan: Plan, settings: UnlearnSettings) -> ForgetSample | None:
    """The target's loss on a sample of the forget set; None for a model whose layers are divided."""
    if settings.sharding != "none":
        return None
    how: dict[str, Any] = {"batch_size": trainer.loop.micro_batch_size, "seed": settings.seed}
    return ForgetSample.measure(trainer.live, plan.sides["forget"], **how)


def _leaves_as_loaded(settings: UnlearnSettings, method: Any, processes: Processes) -> bool:
    """True if training changes only weights, so that another model's can replace them in memory."""
    if isinstance(method, EditMethod) or processes.world > 1 or settings.trainable.startswith("lora"):
        return False
    plain = settings.sharding == "none" and settings.offload == "none" and not settings.gradient_checkpointing
    return plain and not getattr(method, "noise", 0.0)


def _plan(
    trainer: Trainer,
    settings: UnlearnSettings,
    method: LossMethod | AlternativesMethod,
    language_model: LanguageModel,
    earlier: frozenset[str],
) -> Plan:
    sides = training_sides(trainer.benchmark, settings, language_model, trainer.rendering, earlier)
    if not sides["retain"]:
        raise InputError(NOTHING_LEFT)
    partners = {}
    if isinstance(method, AlternativesMethod):
        sides["forget"], partners[SIDE] = with_alternatives(
            sides["forget"],
            trainer.benchmark,
            method,
            language_model,
            trainer.rendering,
            seed=settings.seed,
            # Each process makes them for itself: they are the same in all.
            keep_in=trainer.checkpoints / f"alternatives-{trainer.processes.rank}.parquet",
            title=trainer.recording.label,
            quiet=trainer.silent,
        )
    return Plan(
        sides,
        settings.batch_size,
        settings.epochs,
        settings.seed,
        partners=partners,
        chunks=settings.chunks,
        ratios={"retain": settings.retain_ratio},
    )


def training_sides(
    benchmark: Benchmark,
    settings: UnlearnSettings,
    language_model: Any,
    rendering: Rendering,
    earlier: frozenset[str] = frozenset(),
) -> dict[str, list[TokenSequence]]:
    """Each side's records and questions of the train fold, as in the target's training.

    Args:
        earlier: records of earlier requests, excluded from both sides (:func:`forgotten_before`).
    """
    sides = benchmark.sides(benchmark.split(settings.split))
    records, questions = training_data(benchmark, None, settings.train_on)
    records = [record for record in records if record.record_id not in earlier]
    questions = [question for question in questions if question.record_id not in earlier]
    own: dict[str, list[TokenSequence]] = {
        side: sequences(
            [record for record in records if sides[record.record_id] == side],
            [question for question in questions if sides[question.record_id] == side],
            benchmark.record,
            language_model,
            rendering,
        )
        for side in SIDES
    }
    if settings.relatives:
        own["retain"] = _with_more_relatives(own["retain"], benchmark, settings)
    return own


def _with_more_relatives(
    retained: list[TokenSequence], benchmark: Benchmark, settings: UnlearnSettings
) -> list[TokenSequence]:
    """The retain set with the sequences about relatives repeated, until they are the share that was asked for."""
    forgotten = {benchmark.subject(name) for name in forget_records(benchmark, settings.split)}
    relatives = relatives_of(benchmark, forgotten)
    near = [sequence for sequence in retained if benchmark.subject(record_of(sequence, benchmark)) in relatives]
    if not near:
        return retained
    wanted = settings.relatives / (1.0 - settings.relatives) * (len(retained) - len(near))
    return retained + near * (ceil(wanted / len(near)) - 1)
