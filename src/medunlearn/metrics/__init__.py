"""Measures: scores of responses, whichever verb asked. Listing and importing them loads no model and no torch.

A measure of your own: a module with one :class:`~medunlearn.metrics.measure.Measure`, named here, or given
as ``module:attribute``, or declared as an entry point in the group ``medunlearn.measures`` (``medunlearn.metrics``
is read as well).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from medunlearn.data.origins import DRAWN, drawn_name, is_drawn, marked, real_name
from medunlearn.errors import InputError
from medunlearn.metrics.measure import Encoder, Entailment, Item, Judgement, Keywords, Measure, Need, Score, Tools
from medunlearn.paper import from_papers
from medunlearn.registry import names, refuse_unnamed, resolve

METRICS: dict[str, str] = {
    "answer_probability": "medunlearn.metrics.likelihood:ANSWER_PROBABILITY",
    "bart_score": "medunlearn.metrics.text_similarity:BART_SCORE",
    "bart_score.released_code": "medunlearn.metrics.text_similarity:BART_SCORE_RELEASED_CODE",
    "bert_score": "medunlearn.metrics.text_similarity:BERT_SCORE",
    "bert_score.released_code": "medunlearn.metrics.text_similarity:BERT_SCORE_RELEASED_CODE",
    "bleu": "medunlearn.metrics.overlap:BLEU",
    "bleu.unsmoothed_words": "medunlearn.metrics.overlap:BLEU_UNSMOOTHED_WORDS",
    "choice_probability": "medunlearn.metrics.likelihood:CHOICE_PROBABILITY",
    "cs": "medunlearn.metrics.text_similarity:COSINE",
    "degenerate": "medunlearn.metrics.text:DEGENERATE",
    "em": "medunlearn.metrics.likelihood:EXACT_MEMORIZATION",
    "es": "medunlearn.metrics.text_similarity:ENTAILMENT",
    "exact_match": "medunlearn.metrics.text:EXACT_MATCH",
    "exposure": "medunlearn.metrics.ranks:EXPOSURE",
    "extraction_strength": "medunlearn.metrics.overlap:EXTRACTION_STRENGTH",
    "extraction_strength.open_unlearning": "medunlearn.metrics.overlap:OPEN_UNLEARNING_STRENGTH",
    "factuality": "medunlearn.metrics.judged:FACTUALITY",
    "gen_score": "medunlearn.metrics.judged:GEN_SCORE",
    "ls": "medunlearn.metrics.leakage.leakage_score:LEAKAGE",
    "longest_run": "medunlearn.metrics.overlap:LONGEST_RUN",
    "note_rank": "medunlearn.metrics.ranks:NOTE_RANK",
    "option_accuracy": "medunlearn.metrics.likelihood:OPTION_ACCURACY",
    "partial_match_50": "medunlearn.metrics.overlap:PARTIAL_MATCH_50",
    "rank": "medunlearn.metrics.ranks:RANK",
    "ranked_first": "medunlearn.metrics.ranks:RANKED_FIRST",
    "rouge_l": "medunlearn.metrics.text:ROUGE_L",
    "rouge_l.unstemmed_f": "medunlearn.metrics.overlap:ROUGE_L_UNSTEMMED_F",
    "rouge_l_f": "medunlearn.metrics.text:ROUGE_L_F",
    "rouge_l_unicode": "medunlearn.metrics.text:ROUGE_L_UNICODE",
    "run_30": "medunlearn.metrics.overlap:RUN_30",
    "run_30.short_is_zero": "medunlearn.metrics.overlap:RUN_30_SHORT_IS_ZERO",
    "run_50": "medunlearn.metrics.overlap:RUN_50",
    "run_50.short_is_zero": "medunlearn.metrics.overlap:RUN_50_SHORT_IS_ZERO",
    "te": "medunlearn.metrics.text:TOKEN_ENTROPY",
    "token_f1": "medunlearn.metrics.text:TOKEN_F1",
    "truth_ratio": "medunlearn.metrics.likelihood:TRUTH_RATIO",
    "truth_ratio.geometric": "medunlearn.metrics.likelihood:TRUTH_RATIO_GEOMETRIC",
    "truth_ratio_utility": "medunlearn.metrics.likelihood:TRUTH_RATIO_UTILITY",
    "truth_ratio_utility.geometric": "medunlearn.metrics.likelihood:TRUTH_RATIO_UTILITY_GEOMETRIC",
}

__all__ = [
    "METRICS",
    "Encoder",
    "Entailment",
    "Item",
    "Judgement",
    "Keywords",
    "Measure",
    "Need",
    "Score",
    "Tools",
    "as_drawn",
    "distinct_metrics",
    "get_metric",
    "installed_metrics",
    "metric_targets",
    "named_measures",
    "own_measures",
]


def metric_targets() -> dict[str, str]:
    """Every measure by name with its target: ours, and those that only one paper has."""
    return {**from_papers("own_measures"), **METRICS}


def installed_metrics() -> dict[str, Measure]:
    """Every measure that can be loaded, those of installed packages too; a broken plug-in is left out."""
    metrics: dict[str, Measure] = {}
    for name in names("measures", metric_targets()):
        with suppress(InputError):
            metrics[name] = get_metric(name)
    return metrics | {drawn.name: drawn for drawn in map(as_drawn, metrics.values()) if "judgement" in drawn.needs}


def as_drawn(measure: Measure) -> Measure:
    """A rated measure under the name and title of drawn ratings, which decide nothing."""
    meaning = f"{measure.meaning}; {DRAWN}, so it means nothing"
    return replace(measure, name=drawn_name(measure.name), title=marked(measure.title), meaning=meaning)


def get_metric(name: str) -> Measure:
    """The measure behind a name: a key of :func:`metric_targets`, an entry point, or ``module:attribute``.

    Raises:
        UnknownNameError: no such measure; the message names the nearest valid one.
        InputError: the name leads to something that cannot be imported or is not a ``Measure``.
    """
    if is_drawn(name):
        return as_drawn(get_metric(real_name(name)))
    measure = resolve("measures", name, METRICS if name in METRICS else metric_targets())
    if not isinstance(measure, Measure):
        raise InputError(
            f"measure {name!r} leads to a {type(measure).__name__}; it must be a medunlearn.metrics.Measure."
        )
    return measure


def distinct_metrics(requested: Iterable[str]) -> dict[str, str]:
    """Measure -> name that leads to it, once for each measure, in order.

    A measure that is installed has its own name, also where its path was requested; one from elsewhere its path.

    Raises:
        UnknownNameError: no such measure.
        InputError: two measures of the same name, or one from elsewhere with the name of an installed one.
    """
    installed = names("measures", metric_targets())
    distinct: dict[str, str] = {}
    for name in requested:
        measure = get_metric(name)
        first = distinct.setdefault(measure.name, measure.name if measure.name in installed else name)
        if get_metric(first) is not measure:
            raise InputError(
                f"measure {name!r} has the name {measure.name!r}, which is also that of the measure {first!r}. "
                "Give it a name of its own."
            )
    return distinct


def requested_measures(requested: Collection[str], names: Iterable[str]) -> set[str]:
    """Those of some measures that a user requested by name or path; the others come from a record or defaults."""
    return {name for name, word in distinct_metrics(names).items() if {name, word} & {*requested}}


def own_measures(requested: Iterable[str]) -> dict[str, dict[str, str]]:
    """Title, meaning and path of measures that are not ours, by their own names, as runs record them."""
    ours = metric_targets()
    measures = ((name, get_metric(name)) for name in requested if name not in ours)
    return {
        measure.name: {"title": measure.title, "meaning": measure.meaning, "path": name}
        for name, measure in measures
    }


def named_measures(
    requested: Sequence[str],
    recorded: Sequence[str],
    own: Mapping[str, Mapping[str, str]],
    known: Collection[str] = (),
) -> list[str]:
    """The requested measures of a record, or those recorded; a measure of its own by its path.

    A path that only the record names is not imported (:func:`~medunlearn.registry.refuse_unnamed`): requested by
    its name, it is refused; otherwise its scores stay as they are.

    Args:
        recorded: names and paths of the measures that the record was scored by.
        own: title, meaning and path of its measures that are not ours, by name.
        known: words that stand for measures.

    Raises:
        UnknownNameError: no such measure.
        InputError: a measure that only the record's path leads to.
    """
    named, refused = list[str](), None
    for name in requested:
        if name in own:
            refuse_unnamed("measure", own[name]["path"])
        named.append(own[name]["path"] if name in own else name)
    for name in () if requested else recorded:
        try:
            refuse_unnamed("measure", name)
            named.append(name)
        except InputError as error:
            refused = error
    if refused is not None and not named:
        raise refused
    for name in named:
        if name not in known:
            get_metric(name)
    return named
