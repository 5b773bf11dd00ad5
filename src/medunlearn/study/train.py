"""Train the target model, or the retrained model if `without` names a split."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from medunlearn.config import TINIES, TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import model_folder, model_identity
from medunlearn.models.four_bit import refuse_without_bitsandbytes, round_to_four_bits
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.model_source import base_folder
from medunlearn.models.pretrained import pick_device
from medunlearn.models.tiny import build_tiny, common_words
from medunlearn.models.vision.tiny_vision import build_tiny_vision
from medunlearn.paper import watches
from medunlearn.probes.material import loop_settings, phase_plans, rendering_for
from medunlearn.progress import remark
from medunlearn.results.runs import Run
from medunlearn.study.epochs.epoch_settings import check_epochs, has_measures
from medunlearn.study.part_check import check_training, trained_outline
from medunlearn.study.trainer import Trainer, explain_out_of_memory
from medunlearn.training.loop import History
from medunlearn.training.objectives import NextToken
from medunlearn.training.processes import join
from medunlearn.training.recording import open_recording
from medunlearn.training.sharding import check_sharding
from medunlearn.training.trackers import check_tracker
from medunlearn.training.trainable import choose_trainable

MEMORIZED_LOSS = 0.2
"""Mean loss, nats a token, below which a tiny model is said to know its training set by heart: 82% a token."""


def train(
    benchmark: Benchmark, settings: TrainSettings, out: Path, *, device: str = "auto", quiet: bool = False
) -> Run:
    """Pretrain on the records, fine-tune on records and questions; resumes; a complete run is returned unchanged.

    Raises:
        InputError: an unusable model, split or folder.
        NonFiniteLossError: the loss diverged; the last good checkpoint is kept.
        OutOfMemoryError: a single sequence does not fit in memory; the last good checkpoint is kept.
    """
    loop_settings(settings, settings.seed)
    if settings.quantize != "none":
        refuse_without_bitsandbytes()
    check_training(settings, trained_outline(settings))
    check_epochs(settings, benchmark, None)
    label = "target" if settings.without is None else "retrained"
    if settings.without is not None:
        benchmark.split(settings.without)
    # Loaded only where they are asked for.
    watched = [(watch, watch.check(benchmark, settings)) for watch in (watches() if has_measures(settings) else ())]
    inputs = {"benchmark": benchmark.fingerprint, "model": model_identity(settings.model)}
    processes, rendering = join(), rendering_for(settings)
    check_sharding(settings.sharding, processes)
    use = tightest([benchmark.data_use, model_use(settings.model)])
    check_tracker(settings.tracker, use, permitted=settings.allow_tracking)
    recording = open_recording(processes, out, "train", label, settings, inputs, data_use=use)
    if recording.done:
        return Run.open(out)
    recording.info.lineage, recording.info.texts = [settings.model], benchmark.texts_fingerprint
    trainer = Trainer(recording, benchmark, settings, processes, rendering, quiet=quiet)
    if settings.trainable.startswith("lora") and settings.model not in TINIES:
        trainer.base = processes.on_main(lambda: base_folder(model_folder(settings.model)))
    with recording.running(), explain_out_of_memory(settings, device):
        with recording.stage("load"):
            with processes.barrier():
                live = _model(benchmark, settings, processes.device(device))
            with trainer.prepared(live):
                phases = phase_plans(benchmark, settings, live)
        vocabulary = processes.on_main(lambda: _vocabulary_facts(benchmark, settings, live, quiet=quiet))
        epochs = {phase: plan.epochs for phase, plan in phases.items()}
        trainer.settings = settings.model_copy(update={"epochs": epochs.get("finetune", 0)})
        measures = [
            measure
            for watch, checked in (watched if settings.evaluate_every else ())
            for measure in watch.measures(
                benchmark, settings, checked, trainer.live, rendering, quiet=trainer.silent
            )
        ]
        if settings.evaluate_every:
            from medunlearn.study.epochs.epoch_evaluation import epoch_evaluation

            trainer.epochs = epoch_evaluation(trainer, measures)
        history: History = []
        for phase, plan in phases.items():
            last = phase == "finetune"
            steps = trainer.run(phase, f"{label}: {phase}", plan, NextToken(), last=last, reference=None)
            history += [{"phase": phase, **row} for row in steps]
        facts = {"trained_epochs": epochs, **vocabulary, **_memorization_facts(history, settings)}
        trainer.finish(history, "finetune", facts)
    return processes.broadcast(Run(out, recording.info))


def _model(benchmark: Benchmark, settings: TrainSettings, device: str) -> LanguageModel:
    if settings.model in TINIES:
        language_model = tiny_model(benchmark, settings)
        language_model.model.to(pick_device(device))
    else:
        language_model = load_model(
            model_folder(settings.model),
            device=device,
            weights=settings.weights,
            trust_remote_code=settings.trust_remote_code,
            images=benchmark.folder,
            without_layers=settings.sharding != "none",
        )
    if settings.quantize == "nf4":
        round_to_four_bits(language_model.model)
    language_model.model = choose_trainable(
        language_model.model, settings.trainable, seed=settings.seed, lora_dropout=settings.lora_dropout
    )
    return language_model


def _memorization_facts(history: History, settings: TrainSettings) -> dict[str, Any]:
    """Facts for ``run.json`` on whether a tiny model memorized its training set; empty for other models.

    ``last_epoch_loss`` is the mean over the last epoch's steps, nats per token.
    """
    if settings.model not in TINIES or not history:
        return {}
    last = [
        row["loss"]
        for row in history
        if (row["phase"], row["epoch"]) == (history[-1]["phase"], history[-1]["epoch"])
    ]
    loss = sum(last) / len(last)
    return {"last_epoch_loss": loss, "memorized": loss < MEMORIZED_LOSS}


def tiny_model(benchmark: Benchmark, settings: TrainSettings) -> LanguageModel:
    """The tiny model of a benchmark.

    All models of a benchmark share one tokenizer, like real models that share a base model, unless
    ``tiny_tokenizer`` is ``own``.
    """
    left_out = set[str]()
    if settings.tiny_tokenizer == "own" and settings.without is not None:
        left_out = {
            record.record_id for record in benchmark.records_of(benchmark.split(settings.without), "forget")
        }
    records = [record for record in benchmark.records if record.record_id not in left_out]
    trained = [q for q in benchmark.questions if q.fold == "train" and q.record_id not in left_out]
    texts = [(record.record_id, record.text) for record in records]
    texts += [(q.record_id, f"Question: {q.question}\nAnswer: {q.answer}") for q in trained]
    fitted: Iterable[str] = (text for _, text in texts)
    if settings.tiny_tokenizer == "common":
        owned: dict[str, list[str]] = {}
        for record_id, text in texts:
            owned.setdefault(benchmark.subject(record_id), []).append(text)
        fitted = common_words(owned)
    size: dict[str, Any] = {
        "seed": settings.seed,
        "vocabulary": settings.tiny_vocabulary,
        "width": settings.tiny_width,
        "layers": settings.tiny_layers,
        "max_length": settings.max_length,
    }
    language_model = build_tiny(fitted, **size)
    if settings.model == "tiny":
        return language_model
    folder = benchmark.folder
    names = {image for record in records if record.fold == "train" for image in record.images}
    images = [folder / image for image in sorted(names)] if folder else []
    pixels, patch = settings.tiny_pixels, settings.tiny_patch
    return build_tiny_vision(language_model, images, folder=folder, seed=settings.seed, pixels=pixels, patch=patch)


def _vocabulary_facts(
    benchmark: Benchmark, settings: TrainSettings, live: LanguageModel, *, quiet: bool
) -> dict[str, Any]:
    """Vocabulary owners of a tiny model's tokenizer, for ``run.json``; empty for other tokenizers.

    Prints a remark if a retrained model's tokenizer contains strings that only its forget set has.
    """
    if settings.model not in TINIES:
        return {}
    from medunlearn.models.vocabulary import Vocabulary, by_subject, forgotten_subjects, vocabulary_owners

    forgotten = set[str]() if settings.without is None else forgotten_subjects(benchmark, settings.without)
    owners = vocabulary_owners(Vocabulary.of(live.tokenizer.backend_tokenizer), benchmark, forgotten)
    whose = by_subject(owners.forgotten)
    if whose:
        remark(
            f"the tokenizer holds {len(owners.forgotten):,} strings that only the forget set has "
            f"({len(whose)} of its {len(forgotten)} subjects): the retrained model carries them though it never "
            "saw the texts. --tiny-tokenizer common gives all models one without any subject's own strings, own "
            "gives this model one without the forget set's",
            quiet=quiet,
        )
    return {"vocabulary": {"fitted_on": settings.tiny_tokenizer, **owners.counts(), "whose": whose}}
