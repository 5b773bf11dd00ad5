"""Multiple-choice questions to train on and to forget: MedQA, MedMCQA, or any file of the same form.

A record is a question with its options and the right one, as in fine-tuning sets; its question shows the same
options and asks for the right one. So a model that is trained on the benchmark sees every option, and
:func:`medunlearn.audit.options.option_audit.audit_options` measures which ones it regenerates. Held-out questions
(``nonmembers``) are records of the fold ``holdout``, which no model is trained on and nothing else is asked about.

Source: the memorization paper, Section 3.2 (fine-tuning over medical benchmarks).
"""

from __future__ import annotations

from dataclasses import replace

from medunlearn.audit.options.option_prompts import choice_question
from medunlearn.config.options import OptionsSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Record
from medunlearn.data.splits import nested_splits, shuffled
from medunlearn.errors import ConfigError
from medunlearn.sources.multiple_choice import MultipleChoice, draw_sample, read_options


def build(settings: OptionsSettings) -> Benchmark:
    """The file as a benchmark with random splits; a question without a known answer becomes a record without
    question.
    """
    file = read_options(settings.file, count_from=settings.count_from, skip_bad_rows=settings.skip_bad_rows)
    sample = draw_sample(file.questions, settings.limit, settings.seed)
    names = [choice.question_id for choice in sample]
    outside = set(shuffled(names, "options", "nonmembers", settings.seed)[: settings.nonmembers])
    if len(sample) - len(outside) < 2:
        raise ConfigError(
            [f"nonmembers={settings.nonmembers}: of {len(sample)} questions, at least two must remain"]
        )
    by_subject = all(choice.subject for choice in sample)
    records = tuple(_record(choice, by_subject, held_out=choice.question_id in outside) for choice in sample)
    trained_on = Hierarchy(("question",), [record for record in records if record.fold == "train"])
    splits = nested_splits(trained_on, "question", settings.percents, prefix="random", seed=settings.seed)
    answerable = [choice for choice in sample if choice.question_id not in outside and choice.gold is not None]
    return Benchmark(
        name=f"Multiple-choice questions of {settings.file.name}",
        builder="options",
        levels=("subject", "question") if by_subject else ("question",),
        subject_level="question",
        records=records,
        questions=tuple(replace(choice_question(choice, "text"), provenance="file") for choice in answerable),
        splits={name: replace(split, retain=(*split.retain, *sorted(outside))) for name, split in splits.items()},
        seed=settings.seed,
        source=settings.file.name,
        licence=settings.licence,
        data_use=build_use(settings.data_use, {f"file {settings.file}": use_of_file(settings.file)}),
        notes={
            "questions without a known answer": sum(choice.gold is None for choice in sample),
            **({"questions that no model is trained on": len(outside)} if outside else {}),
            **({"skipped rows": list(file.skipped)} if file.skipped else {}),
        },
    )


def _record(choice: MultipleChoice, by_subject: bool, *, held_out: bool) -> Record:
    answer = (
        "" if choice.answer_index is None else f"\nAnswer: {choice.gold}. {choice.options[choice.answer_index]}"
    )
    groups = {"subject": str(choice.subject)} if by_subject else {}
    return Record(
        choice.question_id,
        f"{choice.question}\n{choice.lines()}{answer}",
        {**groups, "question": choice.question_id},
        fold="holdout" if held_out else "train",
    )
