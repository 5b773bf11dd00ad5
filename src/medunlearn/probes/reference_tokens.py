"""Token ids of reference answers, for measures that compare tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.errors import ModelError
from medunlearn.metrics import get_metric
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.sequences import each_rendered_together, question_sequence
from medunlearn.results.runs import Run


def reference_tokens(
    run: Run, benchmark: Benchmark, questions: Sequence[Question], settings: EvaluateSettings, names: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Question -> token ids of its reference answer behind its prompt, without EOS.

    Empty if no measure needs them, or if the model's tokenizer is not there.
    """
    if not any("reference_tokens" in get_metric(name).needs for name in names):
        return {}
    try:
        tokenizer = load_tokenizer(run.model)
    except ModelError:
        return {}
    # Neither an image nor a longest length changes the answer's own tokens.
    rendering = replace(run.rendering(settings.template, settings.context), images="ignore", max_length=None).dated(
        tokenizer
    )
    records = benchmark.record
    sequences = each_rendered_together(
        questions,
        records,
        tokenizer,
        rendering,
        lambda q: question_sequence(q, records[q.record_id], tokenizer, rendering),
    )
    return {sequence.key: sequence.ids[sequence.scored_from : -1] for sequence in sequences}
