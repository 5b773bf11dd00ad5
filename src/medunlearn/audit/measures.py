"""The measures of an audit: its defaults, and what it can give a measure. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics import METRICS as MEASURES
from medunlearn.metrics import distinct_metrics, metric_targets
from medunlearn.metrics import get_metric as get_measure
from medunlearn.metrics.measure import Need, Tool
from medunlearn.metrics.needs import TOOLS, need_problems, needs_model
from medunlearn.registry import names

__all__ = [
    "MEASURES",
    "default_measures",
    "get_measure",
    "measure_problems",
    "measures_with_models",
    "plain_measures",
    "short_measures",
]

DEFAULTS = ("run_30", "run_50", "longest_run", "partial_match_50", "extraction_strength", "rouge_l", "bleu")
LIKELIHOODS: frozenset[Need] = frozenset(("answer_log_probs", "answer_hits"))
GIVEN: frozenset[Need] = frozenset(("response", "response_tokens", "reference_tokens"))
"""What every audit gives a measure; one of a model on this machine gives :data:`LIKELIHOODS` as well."""
OF_TOOLS: Mapping[Tool, tuple[str, str]] = {
    "bert": ("encoder", "bert_score"),
    "bart": ("bart", "bart_score"),
    "encoder": ("sentence_encoder", "cs"),
    "nli": ("nli", "es"),
}
"""Model of a measure -> the setting of an audit that names it, and the measure that it adds."""


def default_measures() -> tuple[str, ...]:
    """The measures of an audit that names none: ours, and those of installed packages that an audit can score."""
    ours, given = metric_targets(), GIVEN | LIKELIHOODS
    installed = []
    for name in names("measures", {}, earlier=False):
        # A broken plug-in keeps nobody from the other measures; `list measures` names it.
        with suppress(InputError):
            if name not in ours and {*get_measure(name).needs} <= given:
                installed.append(name)
    return (*DEFAULTS, *installed)


def short_measures(names: Sequence[str], max_new_tokens: int) -> list[str]:
    """Names and least lengths of the measures that responses of so many tokens are too short for."""
    measures = [get_measure(name) for name in names]
    return [f"{m.name} ({m.least_tokens})" for m in measures if m.least_tokens > max_new_tokens]


def plain_measures(settings: AuditSettings) -> list[str]:
    """The measures that need no further model, each once, however it was named; never none.

    The others are added to a table that has a row of each response already.
    """
    requested = distinct_metrics(settings.measures or default_measures()).values()
    return [name for name in requested if not needs_model(get_measure(name))] or [DEFAULTS[0]]


def measures_with_models(measures: Sequence[str], parts: AuditParts) -> list[str]:
    """The measures that need a further model, as far as these are named: requested ones, and each model's own."""
    tools = {tool for tool, (setting, _) in OF_TOOLS.items() if getattr(parts, setting)}
    requested = [name for name in measures if needs_model(get_measure(name))]
    released = ".released_code" if parts.semantic_variant == "released_code" else ""
    own = [OF_TOOLS[tool][1] for tool in OF_TOOLS if tool in tools]
    own = [variant if (variant := f"{name}{released}") in MEASURES else name for name in own]
    each = distinct_metrics([*requested, *own]).values()
    return [name for name in each if {*TOOLS} & {*get_measure(name).needs} <= tools]


def measure_problems(requested: Sequence[str], parts: AuditParts, *, local: bool) -> list[str]:
    """Reasons for which measures that the user named cannot be asked of an audit.

    Args:
        local: the audited model is on this machine.
    """
    problems, measures = [], []
    for name in requested:
        try:
            measures.append(get_measure(name))
        except MedunlearnError as error:
            problems.append(f"measures: {error}")
    tools: set[Need] = {tool for tool, (setting, _) in OF_TOOLS.items() if getattr(parts, setting)}
    flags: dict[Need, str] = {tool: f"--{setting.replace('_', '-')}" for tool, (setting, _) in OF_TOOLS.items()}
    flags["bart_starts"] = "--bart"
    given = {*GIVEN, *tools, *(LIKELIHOODS if local else ())}
    given |= {"bart_starts"} if parts.bart else set()
    texts = need_problems(measures, {*GIVEN, *LIKELIHOODS, *flags}, given, flags, "an audit")
    return [*problems, *(f"measures: {text}" for text in texts)]
