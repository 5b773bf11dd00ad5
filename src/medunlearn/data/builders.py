"""Registry of benchmark builders: how records become questions and splits, and default metrics; one file per
benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The knowledge questions of a personal biography, in the order of their numbers (LUME, Section 2.3).
PII_FIELDS = ("birth_date", "ssn", "phone", "email", "address")

BENCHMARKS: Mapping[str, str] = {
    "amnesia": "medunlearn.papers.amnesia.build:build",
    "diagnosis": "medunlearn.papers.memorization.diagnosis.build:build",
    "lume": "medunlearn.papers.lume.build:build",
    "medforget": "medunlearn.papers.medforget.build:build",
    "muse": "medunlearn.papers.muse.build:build",
    "notes": "medunlearn.notes.note_benchmark:build",
    "options": "medunlearn.audit.options.option_benchmark:build",
    "tofu": "medunlearn.papers.tofu.build:build",
}

DEFAULT_METRICS: Mapping[str, tuple[str, ...]] = {
    "amnesia": ("rouge_l", "em", "te", "degenerate", "cs", "es", "token_f1", "answer_probability", "ls"),
    "diagnosis": ("top_1", "top_2", "top_3", "rouge_l", "em", "te", "token_f1", "answer_probability"),
    "lume": ("rouge_l", "exact_match", "em", "te", "token_f1", "answer_probability"),
    "medforget": (
        *("rouge_l_f", "exact_match", "exact_match.rouge_l", "option_accuracy"),
        *("rouge_l", "em", "te", "token_f1", "answer_probability"),
    ),
    "muse": ("rouge_l_f", "rouge_l_f.verbmem", "rouge_l_f.knowmem", "rouge_l", "em", "te", "answer_probability"),
    "notes": ("rouge_l", "exact_match", "em", "te", "token_f1", "answer_probability"),
    "options": ("choice_probability", "exact_match", "rouge_l", "answer_probability", "em", "te"),
    "tofu": (
        *("rouge_l", "answer_probability", "truth_ratio", "truth_ratio_utility"),
        *("truth_ratio.geometric", "truth_ratio_utility.geometric", "choice_probability", "em", "te"),
    ),
}


IDENTIFIER = "identifier"
"""Level of rows that show once more, by type of identifier, what other rows of a grouping hold already."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Breakdown of numbers in a benchmark's paper.

    Attributes:
        level: one group of numbers per node of this level.
        measures: kind of question -> (metric, the paper's name for it on that kind).
        of_identifiers: the same, shown again for each type of identifier that questions ask for.
        kinds: nodes of the level are kinds of documents, and a membership attack compares documents of one kind.
    """

    level: str
    measures: Mapping[str, tuple[str, str]]
    of_identifiers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    kinds: bool = True


GROUPINGS: Mapping[str, Grouping] = {
    # LUME, Section 2.3: both per task; knowledge of personal biographies also by field.
    "lume": Grouping(
        "task",
        {"completion": ("rouge_l", "regurgitation"), "knowledge": ("exact_match", "knowledge")},
        {"knowledge": ("exact_match", "knowledge")},
    ),
    # MUSE, Section 3: on forget for forgetting, knowledge on retain for utility. Sets hold documents of one kind.
    "muse": Grouping(
        "set",
        {"completion": ("rouge_l_f.verbmem", "VerbMem"), "knowledge": ("rouge_l_f.knowmem", "KnowMem")},
        kinds=False,
    ),
}


ANSWERS_RECUR = frozenset(("medforget",))
"""Benchmarks whose questions are on short texts that recur: they are marked private or not."""


def identifier_asked(provenance: str) -> str | None:
    """The type of identifier that a question asks for, from its provenance
    (``released:personal_biography:ssn``).
    """
    parts = provenance.split(":")
    return parts[2] if len(parts) == 3 and parts[2] in PII_FIELDS else None


EVERYWHERE = ("ranked_first",)
"""Metrics of every evaluation besides those of the paper: what a model knows, whatever it says."""


def default_metrics_of(builder: str) -> tuple[str, ...]:
    """The metrics of the paper behind a benchmark (AMNESIA's for third-party builders), and the universal ones."""
    return (*DEFAULT_METRICS.get(builder, DEFAULT_METRICS["amnesia"]), *EVERYWHERE)
