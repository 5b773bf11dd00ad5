"""Make a trained model forget one split's forget set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.methods import make_method
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import LossMethod, default_trainable
from medunlearn.models.activation_cache import ActivationCache
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.pipeline.epochs.epoch_settings import check_epochs
from medunlearn.pipeline.estimate.capacity import explain_out_of_memory
from medunlearn.pipeline.material import chosen, loop_settings, sequences, training_data
from medunlearn.pipeline.outcome import finish, report_steps, summary
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run
from medunlearn.training.loop import train_loop
from medunlearn.training.objectives import Unlearning
from medunlearn.training.plan import Plan
from medunlearn.training.precompute import CachePlan
from medunlearn.training.processes import Processes, join
from medunlearn.training.recording import open_recording
from medunlearn.training.sharding import ShardedReference, check_sharding, make_whole, shard
from medunlearn.training.trainable import choose_trainable


def unlearn(
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    out: Path,
    *,
    device: str = "auto",
    quiet: bool = False,
) -> Run:
    """Run one method on the target model; resumes; a complete run is returned as it is.

    Raises:
        InputError: an unknown method, setting, split or node, or a folder that cannot be used.
        NonFiniteLossError: a loss term diverged; the last good checkpoint is kept.
        OutOfMemoryError: a single sequence a side does not fit in memory; the last good checkpoint is kept.
    """
    method = unlearning_method(settings)
    benchmark.split(settings.split)
    check_epochs(settings, benchmark, target)
    loop_settings(settings, settings.seed)
    inputs = {"benchmark": benchmark.fingerprint, "model": fingerprint(target.model)}
    processes = join()
    check_sharding(settings.sharding, processes)
    label = getattr(method, "title", settings.method)
    recording = open_recording(processes, out, "unlearn", label, settings, inputs)
    if recording.done:
        return Run.open(out)
    recording.info.lineage = [*target.info.lineage, str(target.folder)]
    with recording.running():
        if isinstance(method, EditMethod):
            from medunlearn.pipeline.edit import edit

            place = processes.device(device)
            processes.on_main(
                lambda: edit(recording, target, benchmark, settings, method, device=place, quiet=quiet)
            )
        else:
            with explain_out_of_memory(settings, device):
                _forget(recording, target, benchmark, settings, method, processes, device, quiet)
    return processes.on_main(lambda: Run(out, recording.info))


def _forget(
    recording: Recording,
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    method: LossMethod,
    processes: Processes,
    device: str,
    quiet: bool,
) -> None:
    """The run itself: load, keep what repeats, train, save."""
    out, split, loop = recording.folder, benchmark.split(settings.split), loop_settings(settings, settings.seed)
    rendering = target.rendering(settings.template, settings.context, settings.max_length, settings.long_notes)
    trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
    with recording.stage("load"):
        language_model, plan = processes.together(
            lambda: _load(target, benchmark, settings, rendering, trainable, processes.device(device))
        )
    model, pad = language_model.model, language_model.tokenizer.pad_token_id
    objective, silent = Unlearning(method), quiet or not processes.main
    with recording.stage("keep"):
        budget = int(settings.keep_gb * 1e9)
        size, tokens = loop.micro_batch_size, loop.micro_batch_tokens
        cache_plan = processes.together(lambda: CachePlan(model, pad, objective, plan, size, budget, tokens=tokens))
        cache_plan.needs.check_reaches(model)
        folder, label = out / "checkpoints" / "kept", f"{recording.label}: what repeats, once"
        with progress(label, cache_plan.sequences, quiet=silent) as advance:
            kept = cache_plan.fill(folder, loop.precision, processes=processes, advance=advance)
        reference = _reference(model, settings, processes, kept, cache_plan.complete)
    epochs = None
    if settings.evaluate_every:
        from medunlearn.pipeline.epochs.epoch_evaluation import epoch_evaluation

        epochs = epoch_evaluation(
            recording,
            language_model,
            rendering,
            benchmark,
            settings,
            processes,
            target=target,
            reload=lambda: _model(target, benchmark, settings, trainable, processes.device(device)),
            quiet=quiet,
        )
    with recording.stage("unlearn"), progress(recording.label, plan.steps, quiet=silent) as advance:
        history = train_loop(
            model,
            pad,
            objective,
            plan,
            loop,
            checkpoints=out / "checkpoints" / "unlearn",
            reference=reference,
            processes=processes,
            on_step=report_steps(advance, loop.micro_batch_size, quiet),
            on_epoch=epochs,
        )
    recording.info.results = {
        **summary(history, language_model, rendering, loop),
        "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        "trainable": trainable,
        "reference": reference.kind,
        "reference_bytes": reference.held_bytes(),
        "kept_bytes": cache_plan.bytes,
    }
    if epochs:
        epochs.finish("unlearn")
    if settings.sharding != "none":
        make_whole(language_model.model)
    recording.info.results["saved"] = processes.on_main(
        lambda: finish(language_model, history, out, base=target.model)
    )


def _reference(
    model: Any, settings: UnlearnSettings, processes: Processes, kept: ActivationCache, complete: bool
) -> Reference:
    if settings.sharding == "none":
        return Reference(model, kept, complete=complete)
    # What is kept was computed by whole models; from here on, each pass is one of all processes.
    shard(model, processes, settings.precision)
    return ShardedReference(model, kept, complete=complete)


def _load(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, rendering: Rendering, trainable: str, device: str
) -> tuple[LanguageModel, Plan]:
    language_model = _model(target, benchmark, settings, trainable, device)
    sides = training_sides(benchmark, settings, language_model, rendering)
    return language_model, Plan(sides, settings.batch_size, settings.epochs, settings.seed)


def _model(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, trainable: str, device: str
) -> LanguageModel:
    language_model = load_model(target.model, device=device, weights=settings.weights, images=benchmark.folder)
    language_model.model = choose_parts(language_model.model, trainable, settings)
    return language_model


def choose_parts(model: Any, trainable: str, settings: UnlearnSettings) -> Any:
    """The model with what the settings or the method train marked.

    Raises:
        ConfigError: the model has no such part; says how to choose another.
    """
    try:
        return choose_trainable(model, trainable, seed=settings.seed)
    except ConfigError as error:
        if settings.trainable != "default":
            raise
        layers = getattr(model.config, "num_hidden_layers", "an unknown number of")
        raise ConfigError(
            [
                f"{problem} Method {settings.method} asks for it by default; the model has {layers} layers, the "
                f"first is 0. Set {settings.method}.layer, or trainable."
                for problem in error.problems
            ]
        ) from None


def unlearning_method(settings: UnlearnSettings) -> LossMethod | EditMethod:
    """The method that the settings name: one that trains, or one that edits the weights.

    Raises:
        ConfigError: it is neither.
    """
    method = make_method(settings.method, settings.arguments)
    if not isinstance(method, LossMethod | EditMethod):
        raise ConfigError(
            [
                f"Method {settings.method!r} has no loss(forget, retain) -> terms and no edit(model, forget, "
                "retain); see medunlearn.methods.protocol and medunlearn.methods.editing."
            ]
        )
    return method


def training_sides(
    benchmark: Benchmark, settings: UnlearnSettings, language_model: Any, rendering: Rendering
) -> dict[str, list[TokenSequence]]:
    """What each side trains on: its records and its questions of the train fold, as the target saw them."""
    split = benchmark.split(settings.split)
    by_id = {record.record_id: record for record in benchmark.records}
    sides = benchmark.sides(split)
    records, questions = chosen(*training_data(benchmark, None), settings.train_on)
    return {
        side: sequences(
            [record for record in records if sides[record.record_id] == side],
            [question for question in questions if sides[question.record_id] == side],
            by_id,
            language_model,
            rendering,
        )
        for side in ("forget", "retain")
    }
