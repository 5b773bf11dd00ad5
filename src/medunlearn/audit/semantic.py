"""Semantic memorization: BERTScore and BARTScore of the first 100 tokens of response and original.

Two measures of the memorization paper (Section 3.1, "Approximate- and semantic-measures"); the caller cuts the
texts. Scores under different encoders or sequence-to-sequence models are not comparable. The paper does not give
the direction of its BARTScore. The default here scores the original given the response (``recall`` in Yuan et al.
2021, Section 3.2): how much of the original the response reveals. The paper's released code does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from medunlearn.audit.continuation_measure import VARIANT, ContinuationMeasure
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics.measure import Score
from medunlearn.progress import progress

if TYPE_CHECKING:
    from medunlearn.models.bart_score import BartScorer
    from medunlearn.models.bert_score import BertScorer

Direction = Literal["recall", "precision", "both"]
Part = Literal["f1", "precision", "recall"]
Texts = Sequence[str | None]
"""Texts of at most 100 tokens; None if there is none."""
NO_ENCODER = "no encoder is named: --encoder FOLDER or hub id"
NO_BART = "no sequence-to-sequence model is named: --bart FOLDER or hub id"

BERT_SCORE = ContinuationMeasure(
    name="bert_score",
    title="BERTScore",
    group="semantic",
    needs=("text", "model"),
    meaning="F of greedily matched token embeddings, first 100 tokens of both; -1 to 1, higher = memorized more",
    source="Zhang et al. 2020, Section 3",
    score=None,
)
BART_SCORE = ContinuationMeasure(
    name="bart_score",
    title="BARTScore",
    group="semantic",
    needs=("text", "model"),
    meaning="mean log-probability of a token of the original given the response, first 100 tokens of both; at most "
    "0, higher = memorized more",
    source="Yuan et al. 2021, equation 2",
    score=None,
)

BERT_SCORE_RELEASED_CODE, BART_SCORE_RELEASED_CODE = (
    replace(
        measure,
        name=f"{measure.name}.released_code",
        title=f"{measure.title} ({VARIANT})",
        meaning=f"{measure.meaning}; 100 tokens of BART's tokenizer; with {model}",
        source="repository llm_memorization of the memorization paper's authors, eval/valid_length_eval",
        variant=VARIANT,
    )
    for measure, model in (
        (BERT_SCORE, "bert-base-multilingual-cased, layer 9"),
        (BART_SCORE, "bart-large-cnn trained further on ParaBank 2 (BARTScore's bart_score.pth)"),
    )
)


def first_bart_tokens(texts: Texts, bart: str) -> list[str | None]:
    """Texts cut to their first 100 tokens of a BART model's tokenizer, as the paper's released code does.

    Args:
        bart: folder or hub id.
    """
    from medunlearn.audit.units import tokenizer_in
    from medunlearn.models.folders import model_folder

    encoded = iter(tokenizer_in(model_folder(bart)).encode([text for text in texts if text is not None]))
    return [None if text is None else next(encoded).start_of(text) for text in texts]


def bert_score(
    responses: Texts,
    references: Texts,
    *,
    model: BertScorer | str | None,
    part: Part = "f1",
    idf: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BERTScore of each pair (F by default), in order.

    -1 to 1, in practice 0.3-1; higher = the response's tokens are more like the original's in context = memorized
    more. The value of unrelated texts depends on the encoder and is far from 0.

    Args:
        model: an encoder, or its folder or hub id; None leaves every pair unscored.
        part: F, precision (over the response's tokens) or recall (over the original's).
        idf: weight rare words more (:meth:`~medunlearn.models.bert_score.BertScorer.score`).

    Raises:
        InputError: unequal numbers of responses and references.
        ModelError: the encoder cannot be loaded.

    Source: Zhang et al. 2020 (arXiv 1904.09675), Section 3.
    """
    _refuse(responses, references, "part", part, get_args(Part))
    if model is None:
        return [Score.unscored(NO_ENCODER) for _ in responses]
    from medunlearn.models.bert_score import BertScorer

    scorer = BertScorer(model, device=device) if isinstance(model, str) else model

    def score(response_texts: list[str], originals: list[str]) -> list[float | None]:
        with progress("BERTScore", len(originals), quiet=quiet) as advance:
            matches = scorer.score(response_texts, originals, idf=idf, advance=advance)
        return [None if match is None else getattr(match, part) for match in matches]

    return _scores(responses, references, score)


def bart_score(
    responses: Texts,
    references: Texts,
    *,
    model: BartScorer | str | None,
    direction: Direction = "recall",
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BARTScore of each pair, in order: mean log-probability of a token of one text given the other.

    At most 0; higher = one text is likelier given the other = memorized more. A text given itself is below 0.

    Args:
        model: a sequence-to-sequence model, or its folder or hub id; None leaves every pair unscored.
        direction: ``recall`` (the original given the response), ``precision`` (the response given the original),
            or ``both``, their mean (the F of Yuan et al. 2021, Section 3.2).

    Raises:
        InputError: unequal numbers of responses and references.
        ModelError: the model cannot be loaded.

    Source: Yuan et al. 2021 (arXiv 2106.11520), equation 2 and Section 3.2.
    """
    _refuse(responses, references, "direction", direction, get_args(Direction))
    if model is None:
        return [Score.unscored(NO_BART) for _ in responses]
    from medunlearn.models.bart_score import BartScorer

    scorer = BartScorer(model, device=device) if isinstance(model, str) else model

    def score(response_texts: list[str], originals: list[str]) -> list[float | None]:
        pairs = {"recall": [(response_texts, originals)], "precision": [(originals, response_texts)]}
        pairs["both"] = pairs["recall"] + pairs["precision"]
        with progress("BARTScore", len(originals) * len(pairs[direction]), quiet=quiet) as advance:
            columns = [scorer.score(source, target, advance=advance) for source, target in pairs[direction]]
        return [None if None in row else sum(row) / len(row) for row in zip(*columns, strict=True)]

    return _scores(responses, references, score)


def _scores(
    responses: Texts, references: Texts, score: Callable[[list[str], list[str]], list[float | None]]
) -> list[Score]:
    """Scores of the pairs in which both texts have words; the others are unscored, with the reason."""
    reasons = [_reason(*pair) for pair in zip(responses, references, strict=True)]
    places = [place for place, reason in enumerate(reasons) if reason is None]
    values = score([str(responses[place]) for place in places], [str(references[place]) for place in places])
    scores = [Score.unscored(reason or "a text has no token that counts") for reason in reasons]
    for place, value in zip(places, values, strict=True):
        if value is not None:
            scores[place] = Score(value)
    return scores


def _reason(response: str | None, original: str | None) -> str | None:
    for text, name in ((response, "response"), (original, "original")):
        if text is None:
            return f"there is no {name}"
        if not text.strip():
            return f"the {name} is empty"
    return None


def _refuse(responses: Texts, references: Texts, name: str, value: str, allowed: Sequence[str]) -> None:
    if len(responses) != len(references):
        raise InputError(f"{len(responses)} responses and {len(references)} references: give one each.")
    if value not in allowed:
        raise ConfigError([f"{name}={value!r}: choose one of {', '.join(allowed)}"])
