"""Needs of measures: their models, reasons for an item that lacks one, and measures that a verb cannot score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from medunlearn.errors import InputError
from medunlearn.metrics.measure import Item, Measure, Need, Tool, Tools

TOOLS: tuple[Tool, ...] = get_args(Tool)
"""Needs that are models of measures, and not inputs of an item."""
MISSING: Mapping[Need, str] = {
    "response": "there is no response",
    "response_tokens": "there are no response tokens",
    "reference_tokens": "the reference's tokens are unknown: the model has no tokenizer here",
    "answer_log_probs": "the reference answer's log-probabilities were not computed",
    "answer_hits": "the reference answer's arg-max hits were not computed: a local model, asked greedily, has them",
    "alternative_log_probs": "the question has no alternative answers, or they were not rated",
    "fact_ranks": "its facts were not ranked: it is not among those drawn (--ranked, --facts, --rank-in)",
    "note_ranks": "it is no whole note that was ranked among versions of itself",
    "encoder": "no sentence encoder was given: pass encoder=... in Tools",
    "nli": "no entailment model was given: pass nli=... in Tools",
    "bert": "no encoder of BERTScore was given: pass bert=... in Tools",
    "bart": "no sequence-to-sequence model was given: pass bart=... in Tools",
    "bart_starts": "the texts were not cut by BART's tokenizer",
    "judgement": "no judge has rated the response: `medunlearn judge` asks one",
    "keywords": "no keywords were extracted for the question",
}
"""Reason of an item without this input."""
INPUTS: Mapping[Need, str] = {
    "response": "text",
    "response_tokens": "tokens",
    "reference_tokens": "the reference's tokens",
    "answer_log_probs": "likelihoods of the reference answer",
    "answer_hits": "choices under teacher forcing",
    "alternative_log_probs": "likelihoods of options",
    "fact_ranks": "ranks of facts",
    "note_ranks": "ranks of notes",
    "encoder": "a sentence encoder",
    "nli": "an entailment model",
    "bert": "an encoder of BERTScore",
    "bart": "a sequence-to-sequence model",
    "bart_starts": "texts cut by BART's tokenizer, of an audit",
    "judgement": "judges' ratings",
    "keywords": "a question's keywords",
}
"""The inputs in words."""
GIFTS: tuple[Need, ...] = (
    *("response", "response_tokens", "answer_log_probs", "answer_hits", "alternative_log_probs"),
    *("fact_ranks", "note_ranks"),
)
"""Inputs that whoever answers may give, a model on this machine all of them; the others are computed."""


def needs_model(measure: Measure) -> bool:
    """True if a measure needs a model of its own."""
    return any(tool in measure.needs for tool in TOOLS)


def load_tools(sources: Mapping[Tool, str], device: str = "auto", *, quiet: bool = True) -> Tools:
    """The models of measures, by folder or hub id.

    Raises:
        ModelError: one cannot be loaded.
    """
    if not sources:
        return Tools()
    from medunlearn.models.bart_score import BartScorer
    from medunlearn.models.bert_score import BertScorer
    from medunlearn.models.encoders import EntailmentModel, SentenceEncoder

    classes: dict[Tool, Any] = {
        "encoder": SentenceEncoder,
        "nli": EntailmentModel,
        "bert": BertScorer,
        "bart": BartScorer,
    }
    loaded = {tool: classes[tool](source, device=device) for tool, source in sources.items()}
    return Tools(**loaded, quiet=quiet)


def reasons_unscored(measure: Measure, item: Item, tools: Tools) -> list[str]:
    """Reasons for which a measure cannot score an item; empty if all that it needs is there."""
    lacking = [need for need in measure.needs if getattr(tools if need in TOOLS else item, need) is None]
    if item.unanswered is not None and any(need not in TOOLS for need in lacking):
        return [item.unanswered]
    return [MISSING[need] for need in lacking]


def refuse_unknown_needs(measure: Measure) -> None:
    """Raise an InputError if a measure needs what no item has."""
    for need in measure.needs:
        if need not in MISSING:
            raise InputError(f"measure {measure.name!r} needs {need!r}; needs are: {', '.join(MISSING)}.")


def need_problems(
    measures: Iterable[Measure],
    possible: Collection[Need],
    given: Collection[Need],
    flags: Mapping[Need, str],
    verb: str,
) -> list[str]:
    """Reasons for which requested measures cannot be scored, by name; to be said before anything is generated.

    A measure that the verb can never score, or whose model is not named, is a problem. What only the asked model
    does not give leaves a measure unscored, with the reason in the table, unless none could be scored.

    Args:
        possible: needs that the verb can give to a measure.
        given: those of them that it gives in this run.
        flags: need -> the flag by which the user gives it.
    """
    problems, unscored, asked = list[str](), list[str](), list(measures)
    for measure in asked:
        never = [INPUTS[need] for need in measure.needs if need in INPUTS and need not in possible]
        unnamed = [
            f"{INPUTS[need]}: {flags[need]}" for need in measure.needs if need in flags and need not in given
        ]
        absent = [INPUTS[need] for need in measure.needs if need in INPUTS and need not in given]
        if never:
            problems.append(f"{measure.name} needs {' and '.join(never)}, which {verb} does not give")
        elif unnamed:
            problems.append(f"{measure.name} needs {' and '.join(unnamed)}")
        elif absent:
            unscored.append(f"{measure.name} needs {' and '.join(absent)}")
    return problems + (unscored if len(unscored) + len(problems) == len(asked) else [])
