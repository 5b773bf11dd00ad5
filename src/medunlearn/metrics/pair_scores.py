"""BERTScore and BARTScore of pairs of texts; a pair without a score has the reason.

The paper on memorization (Section 3.1, "Approximate- and semantic-measures") does not give the direction of its
BARTScore. The default here scores the reference given the response (``recall`` in Yuan et al. 2021, Section 3.2):
how much of the reference the response reveals. The paper's released code does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics.measure import PairLikelihood, Score, TokenMatcher
from medunlearn.progress import progress
from medunlearn.registry import load

Direction = Literal["recall", "precision", "both"]
Part = Literal["f1", "precision", "recall"]
Texts = Sequence[str | None]
"""Texts; None if there is none."""
NO_ENCODER = "no encoder is named: --encoder FOLDER or hub id"
NO_BART = "no sequence-to-sequence model is named: --bart FOLDER or hub id"


def bert_score(
    responses: Texts,
    references: Texts,
    *,
    model: TokenMatcher | str | None,
    part: Part = "f1",
    idf: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BERTScore of each pair (F by default), in order.

    -1 to 1, in practice 0.3-1; higher = the response's tokens are more like the reference's in context. The value
    of unrelated texts depends on the encoder and is far from 0.

    Args:
        model: an encoder, or its folder or hub id; None leaves every pair unscored.
        part: F, precision (over the response's tokens) or recall (over the reference's).
        idf: weight rare words more (:meth:`~medunlearn.models.bert_score.BertScorer.score`).

    Raises:
        InputError: unequal numbers of responses and references.
        ModelError: the encoder cannot be loaded.

    Source: Zhang et al. 2020 (arXiv 1904.09675), Section 3.
    """
    _refuse(responses, references, "part", part, get_args(Part))

    def score(scorer: Any, response_texts: list[str], originals: list[str]) -> list[float | None]:
        with _progress("BERTScore", len(originals), quiet) as how:
            matches = scorer.score(response_texts, originals, **({"idf": True} if idf else {}), **how)
        return [None if match is None else getattr(match, part) for match in matches]

    scorer = _scorer(model, "medunlearn.models.bert_score:BertScorer", device)
    return _scores(responses, references, scorer, score, NO_ENCODER)


def bart_score(
    responses: Texts,
    references: Texts,
    *,
    model: PairLikelihood | str | None,
    direction: Direction = "recall",
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BARTScore of each pair, in order: mean log-probability of a token of one text given the other.

    At most 0; higher = one text is likelier given the other. A text given itself is below 0.

    Args:
        model: a sequence-to-sequence model, or its folder or hub id; None leaves every pair unscored.
        direction: ``recall`` (the reference given the response), ``precision`` (the response given the reference),
            or ``both``, their mean (the F of Yuan et al. 2021, Section 3.2).

    Raises:
        InputError: unequal numbers of responses and references.
        ModelError: the model cannot be loaded.

    Source: Yuan et al. 2021 (arXiv 2106.11520), equation 2 and Section 3.2.
    """
    _refuse(responses, references, "direction", direction, get_args(Direction))

    def score(scorer: Any, response_texts: list[str], originals: list[str]) -> list[float | None]:
        pairs = {"recall": [(response_texts, originals)], "precision": [(originals, response_texts)]}
        pairs["both"] = pairs["recall"] + pairs["precision"]
        with _progress("BARTScore", len(originals) * len(pairs[direction]), quiet) as how:
            columns = [scorer.score(source, target, **how) for source, target in pairs[direction]]
        return [None if None in row else sum(row) / len(row) for row in zip(*columns, strict=True)]

    scorer = _scorer(model, "medunlearn.models.bart_score:BartScorer", device)
    return _scores(responses, references, scorer, score, NO_BART)


def _scorer(model: object, target: str, device: str) -> Any:
    """The scorer itself, or the one of a folder or hub id, whose class is loaded only then."""
    return load(target)(model, device=device) if isinstance(model, str) else model


@contextmanager
def _progress(title: str, total: int, quiet: bool) -> Iterator[dict[str, Any]]:
    """Argument of a scorer that shows its progress; none if quiet, for scorers from elsewhere."""
    if quiet:
        yield {}
        return
    with progress(title, total, quiet=quiet) as advance:
        yield {"advance": advance}


def _scores(
    responses: Texts,
    references: Texts,
    scorer: Any,
    score: Callable[[Any, list[str], list[str]], list[float | None]],
    unnamed: str,
) -> list[Score]:
    """Scores of the pairs in which both texts have words; the others are unscored, with the reason.

    Args:
        unnamed: why all are unscored without a scorer.
    """
    if scorer is None:
        return [Score.unscored(unnamed) for _ in responses]
    reasons = [_reason(*pair) for pair in zip(responses, references, strict=True)]
    places = [place for place, reason in enumerate(reasons) if reason is None]
    pairs = [str(responses[place]) for place in places], [str(references[place]) for place in places]
    values = score(scorer, *pairs) if places else []
    scores = [Score.unscored(reason or "a text has no token that counts") for reason in reasons]
    for place, value in zip(places, values, strict=True):
        if value is not None:
            scores[place] = Score(value)
    return scores


def _reason(response: str | None, reference: str | None) -> str | None:
    for text, name in ((response, "response"), (reference, "reference")):
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
