"""The interface of measures: inputs, needs and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, Protocol

from medunlearn.data.fact_ranks import FactRank
from medunlearn.data.records import Question, Side
from medunlearn.data.responses import LogProbs, Response

Need = Literal[
    "response",
    "response_tokens",
    "reference_tokens",
    "answer_log_probs",
    "answer_hits",
    "alternative_log_probs",
    "fact_ranks",
    "note_ranks",
    "encoder",
    "nli",
    "bert",
    "bart",
    "bart_starts",
    "judgement",
    "keywords",
]
Tool = Literal["encoder", "nli", "bert", "bart"]
Direction = Literal["higher", "lower", "neither"]
"""Values that show more of what a model knows of the reference."""
Range = tuple[float, float]
FIRST = 100
"""Tokens of response and reference that measures of text compare in an audit.

Source: Memorization in Large Language Models in Medicine, Section 3.1.
"""
SHARE: Range = (0.0, 1.0)
COUNT: Range = (0.0, inf)
LOG_PROBABILITY: Range = (-inf, 0.0)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Mean rating of one response by judges, 1-10, or None and the reason."""

    rating: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Keywords:
    """The disease keywords of one question: phrases with weights above 0, or a reason without any."""

    weighted: tuple[tuple[str, float], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One question, or one probe of an audit, with all inputs of measures; None for inputs that were not computed.

    Attributes:
        question_id: id of the question or probe.
        side: ``forget`` or ``retain`` in the evaluated split; ``forget`` in an audit, which asks what leaks.
        question: the question, or the beginning that the model was given.
        reference: the reference answer, or the true continuation.
        response_tokens, reference_tokens: token ids of response and reference in the model's tokenizer, without
            EOS.
        answer_log_probs: natural-log probability of each token of the reference, teacher-forced, with the final
            EOS last unless ``ends`` is False.
        answer_hits: for each of those tokens, whether the model's arg-max was that token.
        ends: an EOS follows the reference; False for a continuation that is cut from a longer text.
        starts: response and reference as far as measures of text compare them, where these are not the whole
            texts: in audits the first 100 tokens.
        bart_starts: the first 100 tokens of both texts by BART's tokenizer.
        unanswered: reason for a missing response.
        cut: a limit on tokens ended the response to an audit's probe before the model did.
        alternative_log_probs: like ``answer_log_probs``, for each of the question's options.
        answer_index: index of the right option.
        fact_ranks: ranks of the facts in the reference answer; for a record, of those in its text.
        note_ranks: for a record, the rank of its whole text among perturbed versions.
    """

    question_id: str
    side: Side
    question: str
    reference: str
    response: str | None = None
    response_tokens: Sequence[int] | None = None
    answer_log_probs: Sequence[float] | None = None
    answer_hits: Sequence[bool] | None = None
    judgement: Judgement | None = None
    keywords: Keywords | None = None
    alternative_log_probs: Sequence[Sequence[float]] | None = None
    answer_index: int | None = None
    fact_ranks: Sequence[FactRank] | None = None
    note_ranks: Sequence[FactRank] | None = None
    reference_tokens: Sequence[int] | None = None
    starts: tuple[str, str] | None = None
    bart_starts: tuple[str, str] | None = None
    ends: bool = True
    unanswered: str | None = None
    cut: bool = False

    def answered(self, response: Response) -> Item:
        """The item with a response, and the likelihoods that came with it."""
        return replace(
            self,
            response=response.response,
            response_tokens=response.response_tokens,
            answer_log_probs=response.answer_log_probs,
            answer_hits=response.answer_hits,
        )

    @property
    def texts(self) -> tuple[str, str]:
        """Response and reference as measures of text compare them."""
        return self.starts or (self.response or "", self.reference)

    @property
    def hits(self) -> Sequence[bool]:
        """``answer_hits`` of the reference's own tokens; empty without any."""
        hits = self.answer_hits or ()
        return hits[:-1] if self.ends else hits


@dataclass(frozen=True, slots=True)
class Score:
    """One measure on one response: a value, or None and the reason (unscored)."""

    value: float | None
    reason: str | None = None

    @staticmethod
    def unscored(reason: str) -> Score:
        return Score(None, reason)


class Encoder(Protocol):
    """Sentence encoder, such as a PubMedBERT."""

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One unit vector per text, shape [len(texts), width]."""
        ...


class Entailment(Protocol):
    """A natural-language-inference model."""

    def entails(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Sequence[bool]:
        """True for each premise that is labelled as entailing its hypothesis."""
        ...


class TokenMatches(Protocol):
    """BERTScore of one pair: precision, recall and F."""

    @property
    def f1(self) -> float: ...


class TokenMatcher(Protocol):
    """BERTScore with some encoder."""

    def score(self, responses: Sequence[str], references: Sequence[str]) -> Sequence[TokenMatches | None]:
        """BERTScore of each pair; None if a text has no scored token."""
        ...


class PairLikelihood(Protocol):
    """BARTScore with some sequence-to-sequence model."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[float | None]:
        """Mean log-probability of a token of each target given its source; None if a text is blank."""
        ...


@dataclass(frozen=True, slots=True)
class Tools:
    """Models that some measures need; None for models that are not available.

    Attributes:
        quiet: no progress is shown; a model from elsewhere may not report any.
    """

    encoder: Encoder | None = None
    nli: Entailment | None = None
    bert: TokenMatcher | None = None
    bart: PairLikelihood | None = None
    quiet: bool = True


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: scores each response; its descriptions are used in every table, page and help text.

    Attributes:
        name: key in tables and on the command line.
        title: name in reports.
        needs: inputs it reads; an item that lacks one is unscored.
        meaning: one sentence, with range and direction, e.g. ``"0-1, higher = remembers more"``.
        source: paper, section or equation.
        range: least and greatest possible value, infinite without a bound; None if unknown.
        direction: the values that show more of what a model knows of the reference; None if unknown.
        least_tokens: tokens that response and reference must have to be scored at all; 0: any number.
        reads: tokens of both that it reads at most in an audit. A response that was cut before these, and before
            the reference's end, is unscored; 0: as many as there are, so that a cut does not matter.
        variant: published implementation that it reproduces where that differs from ours, such as "TOFU's code"; ""
            for our own. A variant's name is the measure's, a dot and a suffix: ``truth_ratio.geometric``.
        score: all items at once -> one score per item, in order.
        item_by_item: an item's score depends only on that item, so items can be distributed over processes.
    """

    name: str
    title: str
    needs: tuple[Need, ...]
    meaning: str
    source: str
    score: Callable[[Sequence[Item], Tools], list[Score]]
    item_by_item: bool = False
    variant: str = ""
    range: Range | None = None
    direction: Direction | None = None
    least_tokens: int = 0
    reads: int = 0

    def why_cut(self, item: Item) -> str | None:
        """The reason for which a cut response is too short for this measure; None if it is not.

        Measures of texts read the first :data:`FIRST` tokens where an audit gives them these.
        """
        reads = self.reads or (FIRST if "response" in self.needs and item.starts is not None else 0)
        if not item.cut or len(item.response_tokens or ()) >= min(reads, len(item.reference_tokens or ())):
            return None
        return f"the response was cut before the {reads} tokens that this reads"


@dataclass(frozen=True, slots=True)
class PerItem:
    """The ``score`` function of a measure defined per item. It can be pickled if the per-item function can."""

    function: Callable[[Item], Score]

    def __call__(self, items: Sequence[Item], tools: Tools) -> list[Score]:
        return [self.function(item) for item in items]


def question_items(
    questions: Sequence[Question],
    sides: Mapping[str, Side],
    responses: Mapping[str, Response] | None,
    options: Mapping[str, LogProbs] | None = None,
    keywords: Mapping[str, Keywords] | None = None,
    ranks: Mapping[str, Sequence[FactRank]] | None = None,
    reference_tokens: Mapping[str, Sequence[int]] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> list[Item]:
    """One item per question, in order.

    Args:
        sides: side of each record, by id.
        responses, options, keywords, ranks, reference_tokens: by question id.
        reasons: why questions have no response; each question has one of the two, unless none was asked (None).
    """
    items = []
    for question in questions:
        name = question.question_id
        item = Item(
            question_id=name,
            side=sides[question.record_id],
            question=question.question,
            reference=question.answer,
            reference_tokens=(reference_tokens or {}).get(name),
            keywords=(keywords or {}).get(name),
            alternative_log_probs=(options or {}).get(name),
            answer_index=question.answer_index,
            fact_ranks=(ranks or {}).get(name),
            unanswered=(reasons or {}).get(name),
        )
        items.append(item if item.unanswered or responses is None else item.answered(responses[name]))
    return items


def record_items(sides: Mapping[str, Side], ranks: Mapping[str, Sequence[FactRank]]) -> list[Item]:
    """One item per record whose facts were ranked in place; without question and response.

    Args:
        sides: side of each record, by id.
        ranks: by record id, including that of the whole note.
    """
    return [
        Item(
            question_id=name,
            side=sides[name],
            question="",
            reference="",
            fact_ranks=[rank for rank in own if rank.kind != "note"] or None,
            note_ranks=[rank for rank in own if rank.kind == "note"] or None,
        )
        for name, own in ranks.items()
    ]
