"""Whole-value caps: likelihood of a value such that its rank among alternatives reveals nothing.

Caps of single tokens are too high for a value with a unique beginning: after ``HX-1093`` a model that knows the
patient is as sure of ``85`` as before, under any name. And a value of a single vocabulary token stays likelier than
one of several tokens. And what the target says of a stranger is not what a model says that never saw the patient:
where few patients have a laboratory value, the target gives the patient's number for anybody.

So a value is capped as a whole, at the likelihood of a randomly drawn alternative in the same place
(:mod:`medunlearn.data.alternatives`). The rank of the true value is then uniform, as for an unseen patient. The
median would be a trace: no patient's values are all in the middle. A patient has few identifiers, so theirs are
drawn from as many equal parts of the levels, one from each: they are not all high by chance.

The alternatives are scored in the target, after the text before the value. The target knows the true value, which
takes probability away from the others. This is corrected where an alternative differs from the true value: its
token's probability is divided by one minus the true token's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.fact_ranks import AFTER, AT_ONCE
from medunlearn.data.facts import facts_in, facts_of, says
from medunlearn.errors import InputError
from medunlearn.generation.fact_ranking import RankSequences
from medunlearn.generation.forget_passages import ForgetPassage
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.seeds import generator

VERSION = 2
"""Of the rules below; other rules lay other caps."""
CAPPED = ("date", "name", "identifier", "number")
"""Kinds of facts that are capped as wholes."""
_LEAST = 1e-6
"""Least share of probability that a true token leaves to others, as far as single precision can tell."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ValueBranches:
    """A value of a forget sequence, and its alternatives in the same place.

    Attributes:
        start: index among the sequence's scored tokens of its first token that not all of them share.
        level: quantile of its target likelihood among the alternatives, 0 (least likely) to 1.
        branches: the true value first; scored from where they differ to ``AFTER`` tokens after.
    """

    start: int
    level: float
    branches: Sequence[TokenSequence]

    def lay(self, caps: Floats, log_probs: Sequence[Floats]) -> None:
        """Shift the caps of the value's tokens so that their sum, with the tokens after, equals the drawn level.

        Args:
            caps: of the whole sequence, changed in place.
            log_probs: log-probabilities of each branch's scored tokens in the target.
        """
        true = self._tokens(0)
        others = [without_memory(true, self._tokens(place), log_probs[0], log_probs[place])
                  for place in range(1, len(self.branches))]  # fmt: skip
        length = max(1, len(true) - AFTER)
        own = caps[self.start : self.start + length]
        behind = caps[self.start + length : self.start + len(true)]
        level = min(0.0, float(np.quantile(others, self.level)) - float(behind.sum()))
        if level < own.sum():
            own += (level - own.sum()) * self._private(length)
        else:
            own *= level / own.sum() if own.sum() < 0.0 else 1.0

    def _tokens(self, place: int) -> tuple[int, ...]:
        branch = self.branches[place]
        return branch.ids[branch.scored_from :]

    def _private(self, length: int) -> Floats:
        """Weight of each of the value's tokens: the share of alternatives without it; normalised to sum to 1."""
        others = [set(self._tokens(place)) for place in range(1, len(self.branches))]
        own = self._tokens(0)[:length]
        weights = np.array([np.mean([token not in other for other in others]) for token in own])
        return weights / weights.sum() if weights.sum() > 0 else np.full(length, 1.0 / length)


def without_memory(true: Sequence[int], other: Sequence[int], true_log_probs: Floats, log_probs: Floats) -> float:
    """Log-likelihood of an alternative as if the true value had no probability where the two differ."""
    place = next((n for n, (own, its) in enumerate(zip(true, other, strict=False)) if own != its), None)
    remainder = 1.0 if place is None else -float(np.expm1(true_log_probs[place]))
    return float(log_probs.sum() - np.log(max(remainder, _LEAST)))


@dataclass(frozen=True)
class ValueCaps:
    """Caps of the values of forget sequences.

    Attributes:
        language_model: the target.
        pool: pool of alternatives.
        seed: seed of the levels; a subject's value has the same level everywhere.
    """

    language_model: LanguageModel
    pool: AlternativePool
    rendering: Rendering
    seed: int
    batch_size: int

    def of(self, passage: ForgetPassage, caps: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Caps of a passage's tokens with whole-value caps applied, and the floors of these values' tokens.

        A floor is the cap itself; ``-inf`` for tokens outside of values.
        """
        values = [*self._values(passage)]
        branches = [branch for value in values for branch in value.branches]
        scores = iter(score_answers(self.language_model, branches, batch_size=AT_ONCE * self.batch_size))
        new_caps = np.array(caps, dtype=np.float64)
        for value in values:
            value.lay(new_caps, [np.array(next(scores).log_probs) for _ in value.branches])
        floors = np.where(new_caps != np.array(caps, dtype=np.float64), new_caps, -np.inf)
        return tuple(new_caps.tolist()), tuple(floors.tolist())

    def _values(self, passage: ForgetPassage) -> Iterator[ValueBranches]:
        """The values with alternatives whose tokens in the sequence equal those when encoded alone."""
        record, question, sequence = passage.record, passage.question, passage.sequence
        for fact in facts_in(record) if question is None else facts_of(question, record.identifiers):
            text = record.text if question is None else question.answer
            value = fact.of(text)
            # Whoever reads a value per second time knows it.
            if fact.kind not in CAPPED or says(text[: fact.start], value):
                continue
            pool = self.pool
            alternatives = pool.in_record(record, fact) if question is None else pool.of(question, fact)
            if alternatives.reason is not None:
                continue
            sequences = self._sequences(passage)
            try:
                if question is None:
                    texts = sequences.in_record(record.record_id, fact, alternatives)
                else:
                    texts = sequences.of_answer(question, fact, alternatives)
            except InputError:  # it is longer than the chunks that notes are cut into
                continue
            branches = [piece for own in texts for piece in own]
            ids, start = branches[0].ids, branches[0].scored_from - sequence.scored_from
            if ids == sequence.ids[: len(ids)] and start >= 0:
                yield ValueBranches(start, self.level(record.groups[pool.subject_level], value), branches)

    def level(self, subject: str, value: str) -> float:
        """Quantile at which a subject's value is capped, uniform on 0-1; of identifiers one in each equal part."""
        level = float(generator("level of a value", self.seed, subject, value).random())
        identifiers = self._identifiers.get(subject, [])
        if value not in identifiers:
            return level
        parts = generator("parts of the levels", self.seed, subject).permutation(len(identifiers))
        return (int(parts[identifiers.index(value)]) + level) / len(identifiers)

    @cached_property
    def _identifiers(self) -> Mapping[str, list[str]]:
        """Subject -> the distinct values of the identifiers in their records, in order."""
        values: dict[str, set[str]] = defaultdict(set)
        for record in self.pool.records:
            own = values[record.groups[self.pool.subject_level]]
            own.update(identifier.value for identifier in record.identifiers)
        return {subject: sorted(own) for subject, own in values.items()}

    def _sequences(self, passage: ForgetPassage) -> RankSequences:
        model, record = self.language_model, passage.record
        own = {record.record_id: record}
        return RankSequences(model.tokenizer, own, self.rendering, self.rendering.max_length, model.pictures)
