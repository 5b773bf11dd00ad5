"""Semantic memorization: does a response mean what the original says, in other words?

Two measures of the memorization paper (Section 3.1, "Approximate- and semantic-measures"), both on the first 100
tokens of response and original; the caller cuts them. Any encoder and any sequence-to-sequence model will do, and
numbers under different ones cannot be compared.

The paper does not say which way its BART score goes. Here it is by default that of the original given the response
(``recall`` in Yuan et al. 2021, Section 3.2): memorization asks how much of the original the response gives away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from medunlearn.audit.protocol import Measure
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics.base import Score
from medunlearn.progress import progress

if TYPE_CHECKING:
    from medunlearn.models.bart_score import BartScorer
    from medunlearn.models.bert_score import BertScorer

Direction = Literal["recall", "precision", "both"]
Part = Literal["f1", "precision", "recall"]
KEYS = ("probe_id", "variant", "sample")
NO_ENCODER = "no encoder is named: encoder=FOLDER or hub id"
NO_BART = "no sequence-to-sequence model is named: bart=FOLDER or hub id"

BERT_SCORE = Measure(
    name="bert_score",
    title="BERTScore",
    group="semantic",
    needs=("text", "model"),
    meaning="F of greedily matched token embeddings, first 100 tokens of both; -1 to 1, higher = memorized more",
    source="Zhang et al. 2020, Section 3",
    score=None,
)
BART_SCORE = Measure(
    name="bart_score",
    title="BARTScore",
    group="semantic",
    needs=("text", "model"),
    meaning="mean log-probability of a token of the original given the response, first 100 tokens of both; at most "
    "0, higher = memorized more",
    source="Yuan et al. 2021, equation 2",
    score=None,
)


def bert_score(
    responses: Sequence[str | None],
    references: Sequence[str | None],
    *,
    model: BertScorer | str | None,
    part: Part = "f1",
    idf: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BERTScore of each pair (F by default), in order.

    -1 to 1, in practice 0.3-1; higher = the response's tokens are more like the original's in context = memorized
    more. What of two texts that have nothing to do with each other depends on the encoder and is far from 0.

    Args:
        responses, references: texts of at most 100 tokens; None where there is none.
        model: an encoder, or where it is; None leaves every pair unscored.
        part: F, precision (over the response's tokens) or recall (over the original's).
        idf: weigh rare words more (:meth:`~medunlearn.models.bert_score.BertScorer.score`).

    Raises:
        InputError: not as many references as responses.
        ModelError: the encoder cannot be loaded.

    Source: Zhang et al. 2020 (arXiv 1904.09675), Section 3.
    """
    _refuse_unequal(responses, references)
    if part not in get_args(Part):
        raise ConfigError([f"part={part!r}: it is one of {', '.join(get_args(Part))}"])
    if model is None:
        return [Score.unscored(NO_ENCODER) for _ in responses]
    if isinstance(model, str):
        from medunlearn.models.bert_score import BertScorer

        model = BertScorer(model, device=device)
    given, places = _both(responses, references)
    with progress("BERTScore", len(places), quiet=quiet) as advance:
        found = model.score(*given, idf=idf, advance=advance)
    values = {place: None if one is None else getattr(one, part) for place, one in zip(places, found, strict=True)}
    return [_score(values.get(place), pair) for place, pair in enumerate(zip(responses, references, strict=True))]


def bart_score(
    responses: Sequence[str | None],
    references: Sequence[str | None],
    *,
    model: BartScorer | str | None,
    direction: Direction = "recall",
    device: str = "auto",
    quiet: bool = False,
) -> list[Score]:
    """BARTScore of each pair, in order: mean log-probability of a token of one text given the other.

    At most 0; higher = the one text is likelier given the other = memorized more. A text given itself is below 0.

    Args:
        responses, references: as for :func:`bert_score`.
        model: a sequence-to-sequence model, or where it is; None leaves every pair unscored.
        direction: ``recall`` (the original given the response), ``precision`` (the response given the original),
            or ``both``, their mean (the F of Yuan et al. 2021, Section 3.2).

    Raises:
        InputError: not as many references as responses.
        ModelError: the model cannot be loaded.

    Source: Yuan et al. 2021 (arXiv 2106.11520), equation 2 and Section 3.2.
    """
    _refuse_unequal(responses, references)
    if direction not in get_args(Direction):
        raise ConfigError([f"direction={direction!r}: it is one of {', '.join(get_args(Direction))}"])
    if model is None:
        return [Score.unscored(NO_BART) for _ in responses]
    if isinstance(model, str):
        from medunlearn.models.bart_score import BartScorer

        model = BartScorer(model, device=device)
    (said, meant), places = _both(responses, references)
    ways = {"recall": [(said, meant)], "precision": [(meant, said)], "both": [(said, meant), (meant, said)]}
    with progress("BARTScore", len(places) * len(ways[direction]), quiet=quiet) as advance:
        found = [model.score(source, target, advance=advance) for source, target in ways[direction]]
    values = {place: _mean(ones) for place, ones in zip(places, zip(*found, strict=True), strict=True)}
    return [_score(values.get(place), pair) for place, pair in enumerate(zip(responses, references, strict=True))]


def semantic_scores(
    pairs: pd.DataFrame,
    *,
    encoder: BertScorer | str | None = None,
    bart: BartScorer | str | None = None,
    device: str = "auto",
    quiet: bool = False,
) -> pd.DataFrame:
    """Both measures as rows of an audit's scores table.

    Args:
        pairs: a row a response, with probe_id, variant, sample, response and reference (the first 100 tokens of
            each, as text); null where there is none.
        encoder, bart: models, or where they are; a measure whose model is not named is unscored.

    Returns:
        probe_id, variant, sample, measure (``bert_score``, ``bart_score``), value (Float64), reason.

    Raises:
        InputError: a column is missing.
    """
    if missing := [name for name in (*KEYS, "response", "reference") if name not in pairs.columns]:
        raise InputError(f"The table of pairs lacks the columns {', '.join(missing)}.")
    said, meant = (_texts(pairs[name]) for name in ("response", "reference"))
    scores = {
        "bert_score": bert_score(said, meant, model=encoder, device=device, quiet=quiet),
        "bart_score": bart_score(said, meant, model=bart, device=device, quiet=quiet),
    }
    tables = [
        pairs[list(KEYS)].assign(
            measure=measure,
            value=pd.array([one.value for one in found], dtype="Float64"),
            reason=pd.Series([one.reason for one in found], index=pairs.index, dtype="object"),
        )
        for measure, found in scores.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _texts(column: pd.Series[Any]) -> list[str | None]:
    return [text if isinstance(text, str) else None for text in column]


def _both(
    responses: Sequence[str | None], references: Sequence[str | None]
) -> tuple[tuple[list[str], list[str]], list[int]]:
    """The pairs of which both texts say something, and their places."""
    kept = [
        (place, said, meant)
        for place, (said, meant) in enumerate(zip(responses, references, strict=True))
        if said and meant and said.strip() and meant.strip()
    ]
    return ([said for _, said, _ in kept], [meant for _, _, meant in kept]), [place for place, _, _ in kept]


def _score(value: float | None, pair: tuple[str | None, str | None]) -> Score:
    if value is not None:
        return Score(value)
    for text, name in zip(pair, ("response", "original"), strict=True):
        if text is None:
            return Score.unscored(f"there is no {name}")
        if not text.strip():
            return Score.unscored(f"the {name} is empty")
    return Score.unscored("a text has no token that counts")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _refuse_unequal(responses: Sequence[Any], references: Sequence[Any]) -> None:
    if len(responses) != len(references):
        raise InputError(f"{len(responses)} responses and {len(references)} references: give one each.")
