"""Multiple-choice questions of a file."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

PAPER = Paper(
    name="options",
    title="Multiple-choice questions to train on and to forget: MedQA, MedMCQA, or any file of the same form.",
    package=__name__,
    summary="Build from multiple-choice questions of MedQA's or MedMCQA's form, with questions no model sees.",
    example="questions.jsonl --out bench/ --nonmembers 100",
    first="out limit nonmembers percents",
    argument="file",
    builds=(
        Build(
            settings="medunlearn.config.options:OptionsSettings",
            make="medunlearn.audit.options.option_benchmark:build",
        ),
    ),
    measures=("choice_probability", "exact_match", "rouge_l", "answer_probability", "em", "te"),
    sources={"options": ("FILE", "medunlearn.sources.multiple_choice")},
)
