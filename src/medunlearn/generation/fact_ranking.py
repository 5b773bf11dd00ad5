"""Likelihood of facts and their alternatives: one shared prompt or note, many branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medunlearn.data.alternatives import Alternatives
from medunlearn.data.fact_ranks import (
    AFTER,
    AT_ONCE,
    IN_RECORD,
    OTHER_LENGTH,
    VOCABULARY,
    FactRank,
    Facts,
    comparable,
    draws_of,
    ranks_of,
    sample_of,
    stored_ranks,
    texts_to_rate,
)
from medunlearn.data.facts import Fact, FactKind
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.value_draws import FEWEST
from medunlearn.generation.value_branches import answer_sequences, record_branches
from medunlearn.models.load import LanguageModel
from medunlearn.models.memo import TextMemo, tokens_of
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import (
    Rendering,
    SequenceImages,
    TokenSequence,
    image_tokens,
    record_sequences,
)

ANY_LENGTH: tuple[FactKind, ...] = ("statement", "option", "note")
"""Kinds of facts whose alternatives may take any number of tokens; values take as many as the true one."""
Branches = Callable[[str, Fact, Alternatives], list[list[TokenSequence]]]
"""Sequences of each text of a fact, by the id of its question or record: the true one first."""


@dataclass(frozen=True)
class RankSequences:
    """Token sequences of facts with their alternatives.

    Texts with the true value and with alternatives share their prompt or note and common tokens, so a fact costs
    one shared beginning and one branch per value.

    Attributes:
        records: by id.
        max_length: longest record in training; longer ones are chunked.
        memo: cache of sequences for a model that alternates with others; None: no cache.
    """

    tokenizer: Any
    records: Mapping[str, Record]
    rendering: Rendering
    max_length: int | None = None
    pictures: SequenceImages | None = None
    memo: TextMemo | None = None

    def comparable(self, text: str, fact: Fact, alternatives: Alternatives) -> Alternatives:
        """The alternatives of a value that take as many tokens (:func:`medunlearn.data.fact_ranks.comparable`)."""
        behind = len(text) - fact.end
        own = [other[fact.start : len(other) - behind] for other in alternatives.texts]
        values = [*dict.fromkeys((fact.of(text), *own, *alternatives.reserve))]
        begin, end = max(text.rfind(" ", 0, fact.start), 0), text.find(" ", fact.end)
        rest = text[fact.end : None if end < 0 else end]
        texts = [text[begin : fact.start] + value + rest for value in values]
        tokens = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        lengths = {value: len(ids) for value, ids in zip(values, tokens, strict=True)}
        return comparable(text, fact, alternatives, lengths)

    def of_answer(self, question: Question, fact: Fact, alternatives: Alternatives) -> list[list[TokenSequence]]:
        """The question with each text of its answer as a branch."""
        record = self.records[question.record_id]
        key = (question, record.text, fact, alternatives, self.rendering)
        return self._once(key, lambda: self._of_answer(question, fact, alternatives))

    def in_record(self, key: str, fact: Fact, alternatives: Alternatives) -> list[list[TokenSequence]]:
        """The record as in training, with other values in one place; for a whole note all its chunks."""
        record = self.records[key]
        of = (key, record.text, fact, alternatives, self.rendering, self.max_length)
        return self._once(of, lambda: self._in_record(key, fact, alternatives))

    def _once(self, key: Hashable, make: Callable[[], list[list[TokenSequence]]]) -> list[list[TokenSequence]]:
        if self.memo is None:
            return make()
        return self.memo.sequences.get(key, make, lambda texts: sum(map(tokens_of, texts)))

    def _of_answer(self, question: Question, fact: Fact, alternatives: Alternatives) -> list[list[TokenSequence]]:
        sequences = answer_sequences(
            replace(question, question_id=f"{question.question_id}#{fact.start}"),
            texts_to_rate(question.answer, alternatives),
            self.records[question.record_id],
            self.tokenizer,
            self.rendering,
            self.pictures,
            after=AFTER,
        )
        return [[sequence] for sequence in sequences]

    def _in_record(self, key: str, fact: Fact, alternatives: Alternatives) -> list[list[TokenSequence]]:
        record = self.records[key]
        texts = texts_to_rate(record.text, alternatives)
        image = image_tokens(record, self.rendering, self.pictures)
        if fact.kind == "note":
            versions = [replace(record, record_id=f"{key}#{place}", text=text) for place, text in enumerate(texts)]
            return [record_sequences(version, self.tokenizer, self.max_length, image) for version in versions]
        behind = len(record.text) - fact.end
        values = [text[fact.start : len(text) - behind] for text in texts]
        span = fact.start, fact.end
        branches = record_branches(record, values, span, self.tokenizer, self.max_length, image, after=AFTER)
        return [[replace(branch, key=f"{key}#{fact.start}#{place}")] for place, branch in enumerate(branches)]


def at_once(facts: Iterable[tuple[Fact, Alternatives]], batch_size: int) -> int:
    """Number of sequences per pass: branches are short, whole notes are as long as prompts."""
    return batch_size if any(fact.kind == "note" for fact, _ in facts) else AT_ONCE * batch_size


@dataclass(frozen=True)
class FactRanker:
    """Ranks facts by one model; ranks in its store are not computed again.

    The store keeps a fact's log-likelihoods, the true value's first, as a response without text; instead of tokens
    how often each value was drawn, the true one first. A fact that is not comparable has the reason as text.

    Attributes:
        sequences: token sequences of the facts.
        batch_size: prompts per batch; :data:`AT_ONCE` times as many branches are scored.
    """

    language_model: LanguageModel
    sequences: RankSequences
    store: ResponseStore
    batch_size: int = 64

    def of_questions(
        self,
        questions: Sequence[Question],
        facts: Mapping[str, Facts],
        *,
        variant: str | None = None,
        advance: Callable[[int], None] = lambda count: None,
    ) -> dict[str, list[FactRank]]:
        """Ranks of the facts in reference answers, by question.

        Args:
            facts: facts of every question.
            variant: variant in the store; None: the context mode.
            advance: called with the number of questions done since the last call, stored ones included.
        """
        by_id = {question.question_id: question for question in questions}
        texts = {key: question.answer for key, question in by_id.items()}

        def branches(key: str, fact: Fact, alternatives: Alternatives) -> list[list[TokenSequence]]:
            return self.sequences.of_answer(by_id[key], fact, alternatives)

        own = {key: facts[key] for key in by_id}
        return self._rank(own, texts, branches, variant or self.sequences.rendering.context, advance)

    def in_records(
        self, facts: Mapping[str, Facts], *, advance: Callable[[int], None] = lambda count: None
    ) -> dict[str, list[FactRank]]:
        """Ranks of facts in place, and of whole notes, by record; in plain text as in training.

        Args:
            facts: facts of each record.
            advance: called with the number of records done since the last call.
        """
        texts = {key: self.sequences.records[key].text for key in facts}
        return self._rank(facts, texts, self.sequences.in_record, IN_RECORD, advance)

    def _rank(
        self,
        facts: Mapping[str, Facts],
        texts: Mapping[str, str],
        branches: Branches,
        variant: str,
        advance: Callable[[int], None],
    ) -> dict[str, list[FactRank]]:
        ranks = stored_ranks(facts, self.store.read(), variant)
        advance(len(ranks))
        batch: dict[str, Facts] = {}
        missing = [key for key in facts if key not in ranks]
        for place, key in enumerate(missing):
            batch[key] = facts[key]
            count = sum(1 + len(alternatives.texts) for own in batch.values() for _, alternatives in own)
            # A few passes, which is what a crash may cost.
            if count >= 4 * AT_ONCE * self.batch_size or place == len(missing) - 1:
                ranks |= self._rate(batch, texts, branches, variant)
                advance(len(batch))
                batch = {}
        return {key: ranks[key] for key in facts}

    def _rate(
        self, facts: Mapping[str, Facts], texts: Mapping[str, str], branches: Branches, variant: str
    ) -> dict[str, list[FactRank]]:
        """Compute the ranks of a batch of texts and store their likelihoods."""
        rated = [
            self._branched(key, texts[key], fact, alternatives, branches)
            for key, own in facts.items()
            for fact, alternatives in own
            if alternatives.texts
        ]
        sequences = [piece for fact in rated for pieces in fact.branches for piece in pieces]
        size = at_once(((fact.fact, fact.alternatives) for fact in rated), self.batch_size)
        scores = iter(score_answers(self.language_model, sequences, batch_size=size))
        responses = []
        for fact in rated:
            sums = [math.fsum(part for _ in pieces for part in next(scores).log_probs) for pieces in fact.branches]
            # As the store keeps them, so that ranks are the same when they are read again.
            likelihoods = tuple(float(np.float32(value)) for value in sums)
            draws = draws_of(fact.alternatives) if likelihoods else ()
            reason = fact.alternatives.reason if not likelihoods else None
            sample = sample_of(fact.fact)
            responses.append(Response(fact.key, variant, sample, reason or "", draws, True, likelihoods))
        self.store.add(responses)
        stored = {(response.question_id, response.variant, response.sample): response for response in responses}
        return {key: ranks_of(key, own, stored, variant) or [] for key, own in facts.items()}

    def _branched(
        self, key: str, text: str, fact: Fact, alternatives: Alternatives, branches: Branches
    ) -> _BranchedFact:
        """A fact with the branches that the tokenizer makes comparable."""
        if fact.kind not in ANY_LENGTH:
            alternatives = self.sequences.comparable(text, fact, alternatives)
        if not alternatives.texts:
            return _BranchedFact(key, fact, alternatives, ())
        sequences = branches(key, fact, alternatives)
        own, *others = (sum(len(piece.ids) for piece in pieces) for pieces in sequences)
        if fact.kind in ("statement", "note") and own < min(others):
            return _BranchedFact(key, fact, Alternatives((), VOCABULARY), ())
        if fact.kind not in ANY_LENGTH and {*others} != {own}:
            # In its place a value may take other tokens than alone.
            distinct = zip(dict.fromkeys(alternatives.texts), others, strict=True)
            alike = {other for other, length in distinct if length == own}
            alternatives = replace(
                alternatives, texts=tuple(other for other in alternatives.texts if other in alike)
            )
            sequences = [sequences[0], *(s for s, n in zip(sequences[1:], others, strict=True) if n == own)]
            if len(alternatives.texts) + alternatives.equal < FEWEST:
                return _BranchedFact(key, fact, Alternatives((), OTHER_LENGTH), ())
        return _BranchedFact(key, fact, alternatives, sequences)


@dataclass(frozen=True)
class _BranchedFact:
    """A fact, its comparable alternatives, and their sequences, the true one first; none with a reason."""

    key: str
    fact: Fact
    alternatives: Alternatives
    branches: Sequence[Sequence[TokenSequence]]
