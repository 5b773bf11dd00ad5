"""Train the target model, or the retrained model if `without` names a split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import TINIES, TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.models.load import LanguageModel, load_model, pick_device
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision.tiny import build_tiny_vision
from medunlearn.pipeline.epochs.epoch_settings import check_epochs, has_measures
from medunlearn.pipeline.estimate.capacity import explain_out_of_memory
from medunlearn.pipeline.material import (
    chosen,
    identity,
    loop_settings,
    model_folder,
    phase_plan,
    rendering_for,
    sequences,
    training_data,
)
from medunlearn.pipeline.outcome import finish, report_steps, summary
from medunlearn.progress import progress
from medunlearn.registry import load
from medunlearn.results.runs import Recording, Run
from medunlearn.training.loop import History, OnEpoch, train_loop
from medunlearn.training.objectives import NextToken
from medunlearn.training.plan import Plan
from medunlearn.training.processes import Processes, join
from medunlearn.training.recording import open_recording
from medunlearn.training.settings import LoopSettings
from medunlearn.training.sharding import check_sharding, make_whole, shard
from medunlearn.training.trainable import choose_trainable

if TYPE_CHECKING:
    from medunlearn.pipeline.epochs.epoch_evaluation import EpochEvaluation

WATCH = "medunlearn.papers.memorization.diagnosis.measures:check_watch"
EPOCH_MEASURES = "medunlearn.papers.memorization.diagnosis.measures:epoch_measures"
"""Validation loss, memorization and diagnostic accuracy after each epoch; loaded only where they are asked for."""


def train(
    benchmark: Benchmark, settings: TrainSettings, out: Path, *, device: str = "auto", quiet: bool = False
) -> Run:
    """Pretrain on the records, fine-tune on records and questions; resumes; a complete run is returned as it is.

    Raises:
        InputError: a model, split or folder that cannot be used.
        NonFiniteLossError: the loss diverged; the last good checkpoint is kept.
        OutOfMemoryError: a single sequence does not fit in memory; the last good checkpoint is kept.
    """
    loop = loop_settings(settings, settings.seed)
    check_epochs(settings, benchmark, None)
    label = "target" if settings.without is None else "retrained"
    if settings.without is not None:
        benchmark.split(settings.without)
    watch = load(WATCH)(benchmark, settings) if has_measures(settings) else None
    inputs = {"benchmark": benchmark.fingerprint, "model": identity(settings.model)}
    processes = join()
    check_sharding(settings.sharding, processes)
    recording = open_recording(processes, out, "train", label, settings, inputs)
    if recording.done:
        return Run.open(out)
    rendering = rendering_for(settings)
    recording.info.lineage = [settings.model]
    with recording.running(), explain_out_of_memory(settings, device):
        with recording.stage("load"):
            language_model, phases = processes.together(
                lambda: _load(benchmark, settings, rendering, processes.device(device))
            )
        if settings.sharding != "none":
            shard(language_model.model, processes, settings.precision)
        epochs = None
        if settings.evaluate_every:
            epochs = _epoch_evaluation(
                recording,
                language_model,
                rendering,
                benchmark,
                settings,
                processes,
                watch,
                device=device,
                quiet=quiet,
            )
        history: History = []
        for phase, (passes, items) in phases.items():
            if passes == 0:
                continue
            with recording.stage(phase):
                plan = phase_plan(settings, phase, passes, items)
                on_epoch = epochs if phase == "finetune" else None
                steps = _phase(language_model, plan, loop, out, phase, label, quiet, processes, on_epoch)
                history += [{"phase": phase, **row} for row in steps]
        recording.info.results = summary(history, language_model, rendering, loop)
        if epochs and "finetune" in recording.info.stages:
            epochs.finish("finetune")
        if settings.sharding != "none":
            make_whole(language_model.model)
        recording.info.results["saved"] = processes.on_main(lambda: finish(language_model, history, out))
    return processes.on_main(lambda: Run(out, recording.info))


def _epoch_evaluation(
    recording: Recording,
    language_model: LanguageModel,
    rendering: Rendering,
    benchmark: Benchmark,
    settings: TrainSettings,
    processes: Processes,
    watch: Any,
    *,
    device: str,
    quiet: bool,
) -> EpochEvaluation | None:
    from medunlearn.pipeline.epochs.epoch_evaluation import epoch_evaluation

    measures = ()
    if has_measures(settings):
        silent = quiet or not processes.main
        measures = load(EPOCH_MEASURES)(benchmark, settings, watch, language_model, rendering, quiet=silent)
    return epoch_evaluation(
        recording,
        language_model,
        rendering,
        benchmark,
        settings,
        processes,
        reload=lambda: _model(benchmark, settings, processes.device(device)),
        measures=measures,
        quiet=quiet,
    )


def _load(
    benchmark: Benchmark, settings: TrainSettings, rendering: Rendering, device: str
) -> tuple[LanguageModel, dict[str, tuple[int, list[TokenSequence]]]]:
    """The model to train; phase -> its epochs and sequences."""
    language_model = _model(benchmark, settings, device)
    records, questions = training_data(benchmark, settings.without)
    by_id = {record.record_id: record for record in benchmark.records}
    finetune = sequences(*chosen(records, questions, settings.train_on), by_id, language_model, rendering)
    return language_model, {
        "pretrain": (settings.pretrain_epochs, sequences(records, [], by_id, language_model, rendering)),
        "finetune": (settings.epochs, finetune),
    }


def _model(benchmark: Benchmark, settings: TrainSettings, device: str) -> LanguageModel:
    language_model = _base(benchmark, settings, device)
    language_model.model = choose_trainable(
        language_model.model, settings.trainable, seed=settings.seed, lora_dropout=settings.lora_dropout
    )
    return language_model


def _phase(
    language_model: LanguageModel,
    plan: Plan,
    loop: LoopSettings,
    out: Path,
    phase: str,
    label: str,
    quiet: bool,
    processes: Processes,
    on_epoch: OnEpoch | None,
) -> History:
    with progress(f"{label}: {phase}", plan.steps, quiet=quiet or not processes.main) as advance:
        return train_loop(
            language_model.model,
            language_model.tokenizer.pad_token_id,
            NextToken(),
            plan,
            loop,
            checkpoints=out / "checkpoints" / phase,
            keep_final=phase == "pretrain",
            processes=processes,
            on_step=report_steps(advance, loop.micro_batch_size, quiet),
            on_epoch=on_epoch,
        )


def _base(benchmark: Benchmark, settings: TrainSettings, device: str) -> LanguageModel:
    if settings.model not in TINIES:
        return load_model(
            model_folder(settings.model),
            device=device,
            weights=settings.weights,
            trust_remote_code=settings.trust_remote_code,
            images=benchmark.folder,
        )
    language_model = tiny_model(benchmark, settings)
    language_model.model.to(pick_device(device))
    return language_model


def tiny_model(benchmark: Benchmark, settings: TrainSettings) -> LanguageModel:
    """The tiny model of a benchmark.

    Every model of a benchmark gets one tokenizer, as real models get theirs from a base model.
    """
    texts = [record.text for record in benchmark.records]
    texts += [f"Question: {q.question}\nAnswer: {q.answer}" for q in benchmark.questions if q.fold == "train"]
    size: dict[str, Any] = {
        "seed": settings.seed,
        "vocabulary": settings.tiny_vocabulary,
        "width": settings.tiny_width,
        "layers": settings.tiny_layers,
        "max_length": settings.max_length,
    }
    if settings.model == "tiny":
        return build_tiny(texts, **size)
    folder = benchmark.folder
    seen = {record.image for record in benchmark.records if record.image and record.fold == "train"}
    images = [folder / image for image in sorted(seen)] if folder else []
    return build_tiny_vision(
        texts, images, folder=folder, pixels=settings.tiny_pixels, patch=settings.tiny_patch, **size
    )
