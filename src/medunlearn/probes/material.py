"""Training material: convert a benchmark and settings into sequences and loop settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from medunlearn.config import LoopFields, TrainSettings, Unlearned, What
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.results.runs import Run
from medunlearn.training.batch_plan import Plan

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel
    from medunlearn.training.loop_settings import LoopSettings


def training_data(
    benchmark: Benchmark, without: str | None, what: Unlearned = "both"
) -> tuple[list[Record], list[Question]]:
    """Records and questions (or only ``what``) of the train fold, without one split's forget set.

    ``direct`` adds the plain questions of the fold ``choosing``.
    """
    folds = ("train", "choosing") if what == "direct" else ("train",)
    left_out = set()
    if without is not None:
        left_out = {record.record_id for record in benchmark.records_of(benchmark.split(without), "forget")}
    records = [r for r in benchmark.records if r.fold == "train" and r.record_id not in left_out]
    questions = [q for q in benchmark.questions if q.fold in folds and q.record_id not in left_out]
    return ([] if what == "questions" else records), ([] if what == "records" else questions)


NOTHING_LEFT = (
    "Earlier requests and this one forget everything that was trained on: nothing is left to retain. Begin with "
    "the target model, or leave a request out."
)


def forgotten_before(target: Run, benchmark: Benchmark, split: str) -> tuple[list[str], frozenset[str]]:
    """Splits of this benchmark that a run's model was unlearned on before, in order, and their records.

    Requests are sequential: records forgotten earlier must not be retained later, which would teach them again.
    Records of this split are not included.
    """
    if target.info.verb != "unlearn" or target.info.benchmark != benchmark.fingerprint:
        return [], frozenset()
    before = [*target.info.results.get("forgotten_before", ()), str(target.info.made_for)]
    records = {r.record_id for name in before for r in benchmark.records_of(benchmark.split(name), "forget")}
    return before, frozenset(
        records - {r.record_id for r in benchmark.records_of(benchmark.split(split), "forget")}
    )


def sequences(
    records: list[Record],
    questions: list[Question],
    by_id: Mapping[str, Record],
    language_model: LanguageModel,
    rendering: Rendering,
) -> list[TokenSequence]:
    """Records as plain text, then questions with their answers."""
    pieces = [piece for record in records for piece in language_model.record_sequences(record, rendering)]
    return pieces + language_model.question_sequences(questions, by_id, rendering)


def record_of(sequence: TokenSequence, benchmark: Benchmark) -> str:
    """Id of the record that a sequence of :func:`sequences` is about."""
    question = benchmark.question.get(sequence.key)
    return question.record_id if question else sequence.key.rpartition("#")[0]


def rendering_for(settings: TrainSettings) -> Rendering:
    """Rendering of questions in training."""
    return Rendering(settings.template, settings.context, settings.max_length, settings.long_notes, settings.images)


def phase_plans(benchmark: Benchmark, settings: TrainSettings, language_model: LanguageModel) -> dict[str, Plan]:
    """The order of sequences in each phase with epochs; pretraining may pack records into rows of ``max_length``
    tokens.

    Without the forget set an epoch has fewer steps. A retrained model therefore trains for more epochs, the last
    one shortened, to match the target's steps and learn the retain set as well (``retrained_length``).
    """

    def plan(without: str | None, what: What, epochs: int, row: int | None) -> Plan:
        data = training_data(benchmark, without, what)
        items = sequences(*data, benchmark.record, language_model, rendering_for(settings))
        return Plan({"train": items}, settings.batch_size, epochs, settings.seed, row)

    phases: dict[str, tuple[int, What]] = {
        "pretrain": (settings.pretrain_epochs, "records"),
        "finetune": (settings.epochs, settings.train_on),
    }
    plans = {}
    for phase, (epochs, what) in phases.items():
        if epochs:
            row = settings.max_length if phase == "pretrain" and settings.pack_records else None
            plans[phase] = plan(settings.without, what, epochs, row)
            if settings.without is not None and settings.retrained_length == "steps":
                plans[phase].stop = plan(None, what, epochs, row).steps
                plans[phase].epochs = -(-plans[phase].steps // plans[phase].steps_an_epoch)
    return plans


def loop_settings(settings: LoopFields, seed: int) -> LoopSettings:
    """Optimisation settings from a run's settings.

    Raises:
        ConfigError: an optimizer that is not installed or not compatible with the other settings.
    """
    from medunlearn.training.loop_settings import LoopSettings
    from medunlearn.training.optimizers import check_optimizer

    shared = {field.name: getattr(settings, field.name) for field in fields(LoopSettings) if field.name != "seed"}
    loop = LoopSettings(**shared, seed=seed)
    check_optimizer(loop)
    return loop
