"""Selection of questions and subjects for an evaluation: all, a half, or a seeded number of subjects per side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question, Side
from medunlearn.data.splits import Split, shuffled
from medunlearn.errors import ConfigError
from medunlearn.probes.probe_set import ProbeManifest, refuse_other_material, refuse_other_probes


def half_of(benchmark: Benchmark, split: Split, side: Side, settings: EvaluateSettings) -> set[str]:
    """A side's subjects in the selected half; the two halves partition the subjects.

    The halves depend only on the side's subjects and the seed, not on folds or limit. With an odd number the
    choosing half is larger.
    """
    subjects = {benchmark.subject(question.record_id) for question in benchmark.questions_of(split, side)}
    order = shuffled(subjects, "halves", side, settings.seed)
    middle = -(-len(order) // 2)
    return set(order[:middle] if settings.subjects == "choosing" else order[middle:])


def questions_of_side(benchmark: Benchmark, split: Split, side: Side, settings: EvaluateSettings) -> list[Question]:
    """Questions of the given folds about a side's subjects, or about those in its selected half."""
    questions = benchmark.questions_of(split, side, settings.folds)
    if settings.subjects == "all":
        return questions
    half = half_of(benchmark, split, side, settings)
    return [question for question in questions if benchmark.subject(question.record_id) in half]


def sample_subjects(subjects: Iterable[str], side: Side, settings: EvaluateSettings, most: int | None) -> list[str]:
    """A seeded sample of ``most`` of a side's subjects, or all; smaller samples are subsets of larger ones."""
    return shuffled(set(subjects), "evaluate", side, settings.seed)[:most]


def questions_to_ask(benchmark: Benchmark, split: Split, settings: EvaluateSettings) -> list[Question]:
    """Questions of the given folds, about all subjects or a seeded number per side.

    A benchmark without questions has none: only facts in its records are ranked.

    Raises:
        ConfigError: there are no questions of these folds.
    """
    questions = list[Question]()
    for side in SIDES:
        of_side = questions_of_side(benchmark, split, side, settings)
        subjects = {benchmark.subject(question.record_id) for question in of_side}
        sample = set(sample_subjects(subjects, side, settings, settings.limit))
        questions += [question for question in of_side if benchmark.subject(question.record_id) in sample]
    if not questions and benchmark.questions:
        raise ConfigError([f"folds={list(settings.folds)}: the benchmark has no question of these folds."])
    return questions


def probe_set(benchmark: Benchmark, settings: EvaluateSettings, questions: Sequence[Question]) -> ProbeManifest:
    """The selected questions as a probe set."""
    return ProbeManifest.make(settings, material_of(benchmark), (question.question_id for question in questions))


def recorded_probes(file: Path, benchmark: Benchmark) -> tuple[list[Question], ProbeManifest]:
    """The questions of a recorded probe set, for a command that does not evaluate.

    Raises:
        InputError: the set was made from another benchmark, or gives other questions here.
        ConfigError: the file holds no questions.
    """
    refuse_other_material(file, material_of(benchmark))
    settings = check(EvaluateSettings, {"probes": file})
    questions = questions_to_ask(benchmark, benchmark.split(settings.split), settings)
    probes = probe_set(benchmark, settings, questions)
    refuse_other_probes(file, probes)
    return questions, probes


def material_of(benchmark: Benchmark) -> dict[str, str]:
    """Fingerprint of the texts that a benchmark's probes are made from, by its name."""
    return {"benchmark": benchmark.fingerprint}
