"""Parts that a command needs and this machine lacks: models, tokenizers, packages, keys. Loads and fetches none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from medunlearn.config import TINIES, EvaluateSettings, UtilitySettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics import get_metric
from medunlearn.models.folders import local_folder
from medunlearn.probes.score import metric_names

NAMED = ("encoder", "nli", "bert", "bart")
"""Settings of `evaluate` that name a model, which a measure needs."""
NOT_BUILT = (
    "The benchmark is not built yet, so costs are not known. Build it first (benchmark.folder), or say its size "
    "for the plan of a sweep: expected: {patients: 8820, note_tokens: 716}."
)


def missing_parts(
    benchmark: Benchmark | None,
    model: str,
    evaluation: EvaluateSettings,
    utility: UtilitySettings | None = None,
    judges: Sequence[Any] = (),
    *,
    extracts_here: bool = True,
) -> Iterator[str]:
    """Lines on parts that are missing or not named.

    Args:
        benchmark: its kinds of question determine the measures; None if it is not built yet.
        extracts_here: False if another environment finds the keywords.
    """
    if model not in TINIES and local_folder(model) is None:
        yield f"train.model: {model} and its tokenizer are not on this machine; they are fetched at the start."
    names = metric_names(benchmark, evaluation) if benchmark is not None else evaluation.metrics
    needs = {need: name for name in names for need in get_metric(name).needs}
    for part in NAMED:
        source = getattr(evaluation, part)
        if source is None and part in needs:
            yield f"evaluate.{part}: none is named, and {needs[part]} is left unscored without one."
        elif source is not None and local_folder(source) is None:
            yield f"evaluate.{part}: {source} is not on this machine; it is fetched when it is first needed."
    scispacy = evaluation.extractor == "scispacy" and extracts_here and evaluation.keywords is None
    if scispacy and find_spec("scispacy") is None:
        yield "evaluate.extractor: scispaCy is not installed; `medunlearn build keywords` elsewhere makes a file."
    if utility is not None and find_spec("lm_eval") is None:
        yield "utility: lm-evaluation-harness is not installed: pip install 'medunlearn[utility]'."
    for judge in judges:
        if (key := judge.settings.api_key_env) and not os.environ.get(key):
            yield f"judge: {judge.name} judges nothing: the variable of its key (api_key_env) is not set."
