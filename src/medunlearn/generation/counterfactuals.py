"""Counterfactual answers: a model's answers about people it never saw, in place of a person's true answers.

Before unlearning, the model is asked about a stranger: the person's questions with invented identifiers, and the
person's notes continued after an invented beginning. Its answers give

- *alternatives*: these answers under the person's own name, with numbers and dates redrawn. Learning them makes the
  model answer as for a stranger.
- *caps*: the log-probability of each token of the true answer, as the model gives it for strangers. If the true
  token is likelier than that, the model knows it; if it is less likely, that is a trace of forgetting.

True answer and stranger's answer are aligned token by token. Shared tokens are scored inside the stranger's answer;
a span only in the true answer is scored as a continuation of the stranger's answer up to there. After the true
answer's own beginning the model would remember the person under any name. Optionally, names, dates, identifiers and
numbers are capped as whole values (:mod:`medunlearn.generation.value_caps`).

| true answer | Troponin T | 70 | ng/L and | sodium 127 | mmol/L |
|---|---|---|---|---|---|
| a stranger's | Troponin T | 31 | ng/L and | potassium 5.9 | mmol/L |
| read behind | itself | "Troponin T" | itself | "Troponin T 31 ng/L and" | itself |

If a prompt names nobody, no stranger can replace the person: the alternatives are then the true answer with redrawn
values, and tokens that differ among them are capped at equal probability.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.facts import facts_of
from medunlearn.data.strangers import Stranger, invent_strangers, redraw_values
from medunlearn.generation.decode import decode
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.forget_passages import ForgetPassage
from medunlearn.generation.sampling import TokenSampler
from medunlearn.generation.value_caps import ValueCaps
from medunlearn.models.chat import answer_text
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, encode_parts, question_sequence
from medunlearn.seeds import generator

_LONGER = 1.25
"""A stranger's answer may be so many times as long as the true one."""
_LEAST = 1e-12
"""No cap is lower, in probability."""


@dataclass(frozen=True)
class Counterfactuals:
    """Alternatives and caps of a forget set, by the keys of its sequences.

    Attributes:
        alternatives: sequences to learn instead of the true ones.
        caps: log-probability of each scored token, <= 0; empty if no caps were asked for.
        floors: for sequences with whole-value caps: the caps of these values' tokens, ``-inf`` for other tokens.
    """

    alternatives: Mapping[str, tuple[TokenSequence, ...]]
    caps: Mapping[str, tuple[float, ...]]
    floors: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class StrangerAnswer:
    """A model's answer about a stranger.

    Attributes:
        place: index of the stranger.
        ids: tokens of the answer, including the stranger's beginning of a record; with EOS last if the model
            generated it.
        text: text of the answer only.
    """

    passage: ForgetPassage
    place: int
    stranger: Stranger
    ids: tuple[int, ...]
    text: str


def counterfactuals(
    language_model: LanguageModel,
    passages: Sequence[ForgetPassage],
    pool: AlternativePool,
    rendering: Rendering,
    count: int,
    *,
    capped: bool = True,
    whole_values: bool = False,
    seed: int = 0,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda count: None,
) -> Counterfactuals:
    """Alternatives to each passage, and caps on its tokens.

    A passage without alternatives (no person is named, and no value can be redrawn) has an empty tuple.

    Args:
        count: number of strangers, and of alternatives, per passage.
        capped: whether caps are computed.
        whole_values: whether values get whole-value caps (:mod:`~medunlearn.generation.value_caps`).
        seed: seed of strangers, samples and redrawn values.
        advance: called with the number of passages done since the last call.
    """
    maker = _Maker(language_model, pool, rendering, count, seed, batch_size)
    values = ValueCaps(language_model, pool, rendering, seed, batch_size)
    alternatives: dict[str, tuple[TokenSequence, ...]] = {}
    caps: dict[str, tuple[float, ...]] = {}
    floors: dict[str, tuple[float, ...]] = {}
    at_once = max(1, batch_size // count)
    for start in range(0, len(passages), at_once):
        members = passages[start : start + at_once]
        answers = maker.answers(members)
        for passage in members:
            key = passage.sequence.key
            texts = maker.restored(answers[key]) if answers[key] else maker.redrawn(passage)
            alternatives[key] = answer_sequences(language_model, rendering, passage, texts)
        if capped:
            read = maker.caps([answer for own in answers.values() for answer in own])
            for passage in members:
                key = passage.sequence.key
                caps[key] = read[key] if answers[key] else _even_chances(passage.sequence, alternatives[key])
                if whole_values and answers[key]:
                    caps[key], floors[key] = values.of(passage, caps[key])
        advance(len(members))
    return Counterfactuals(alternatives, caps, floors)


def answer_sequences(
    language_model: LanguageModel, rendering: Rendering, passage: ForgetPassage, texts: Sequence[str]
) -> tuple[TokenSequence, ...]:
    """Other answers to a passage's prompt as training sequences, scored after it."""
    return tuple(
        _answer_sequence(language_model, rendering, passage, text, f"{passage.sequence.key}~{place}")
        for place, text in enumerate(texts)
    )


def _answer_sequence(
    language_model: LanguageModel, rendering: Rendering, passage: ForgetPassage, text: str, key: str
) -> TokenSequence:
    if passage.question is not None:
        return _question_sequence(language_model, rendering, passage, passage.prompt, text, key)
    beginning = passage.prompt.rstrip()
    before, own = encode_parts(language_model.tokenizer, (beginning, f" {text}" if beginning else text))
    prompt = (*passage.sequence.prompt, *before)
    return TokenSequence(key, (*prompt, *own, *_end(language_model, passage)), 0, len(prompt))


def _question_sequence(
    language_model: LanguageModel,
    rendering: Rendering,
    passage: ForgetPassage,
    prompt: str,
    answer: str,
    key: str = "",
) -> TokenSequence:
    assert passage.question is not None
    question = replace(passage.question, question_id=key, question=prompt, answer=answer)
    pictures = language_model.pictures
    return question_sequence(question, passage.record, language_model.tokenizer, rendering, pictures)


def _end(language_model: LanguageModel, passage: ForgetPassage) -> tuple[int, ...]:
    """The token that ends an answer to the passage's question, or a record."""
    return passage.sequence.ids[-1:] if passage.question is not None else (language_model.tokenizer.eos_token_id,)


@dataclass(frozen=True)
class _Maker:
    """Model and settings of :func:`counterfactuals`."""

    language_model: LanguageModel
    pool: AlternativePool
    rendering: Rendering
    count: int
    seed: int
    batch_size: int

    @property
    def tokenizer(self) -> Any:
        return self.language_model.tokenizer

    def answers(self, passages: Sequence[ForgetPassage]) -> dict[str, list[StrangerAnswer]]:
        """The model's answers about strangers, sampled at temperature 1, by the passages' keys."""
        questions = [
            (passage, place, stranger)
            for passage in passages
            for place, stranger in enumerate(invent_strangers(passage.record, self.pool, self.count, self.seed))
            if stranger.replaced(passage.prompt) != passage.prompt
        ]
        by_key: dict[str, list[StrangerAnswer]] = {passage.sequence.key: [] for passage in passages}
        prefixes = [self._stranger_prompt(passage, stranger) for passage, _, stranger in questions]
        # Each answer has a limit of its own, so that none depends on what is asked beside it.
        limits = [int(_LONGER * passage.sequence.scored) + 1 for passage, *_ in questions]
        most = max(limits, default=1)
        purposes = [("told", self.seed, passage.sequence.key, place) for passage, place, _ in questions]
        decoded = decode(
            self.language_model,
            [prompt + beginning for prompt, beginning in prefixes],
            max_new_tokens=most,
            batch_size=self.batch_size,
            choose=TokenSampler(Decoding(temperature=1.0), purposes, most),
        )
        rows = dict(answer for batch in decoded for answer in batch)
        for row, (passage, place, stranger) in enumerate(questions):
            tokens = rows[row].tokens[: limits[row]]
            has_ended = rows[row].finished and len(rows[row].tokens) < limits[row]
            ids = prefixes[row][1] + tokens + (self._end(passage) if has_ended else ())
            text = answer_text(self.tokenizer, tokens)
            by_key[passage.sequence.key].append(StrangerAnswer(passage, place, stranger, ids, text))
        return by_key

    def _stranger_prompt(
        self, passage: ForgetPassage, stranger: Stranger
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The prompt about a stranger, and the first tokens of the answer if the passage is from a record."""
        prompt = stranger.replaced(passage.prompt)
        if passage.question is not None:
            return self._question_sequence(passage, prompt, passage.answer).prompt, ()
        return passage.sequence.prompt, self._encoded(prompt.rstrip())

    def _question_sequence(self, passage: ForgetPassage, prompt: str, answer: str) -> TokenSequence:
        return _question_sequence(self.language_model, self.rendering, passage, prompt, answer)

    def _end(self, passage: ForgetPassage) -> tuple[int, ...]:
        return _end(self.language_model, passage)

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def restored(self, answers: Sequence[StrangerAnswer]) -> list[str]:
        """Strangers' answers with the subject's name restored, and numbers and dates redrawn."""
        texts = []
        for answer in answers:
            own = [identifier.value for identifier in answer.passage.record.identifiers]
            rng = generator("restored", self.seed, answer.passage.sequence.key, answer.place)
            texts.append(redraw_values(answer.stranger.restored(answer.text), rng, own).strip())
        return texts

    def redrawn(self, passage: ForgetPassage) -> list[str]:
        """The true answer with other values; for a question without values, other people's answers to it."""
        key, question = passage.sequence.key, passage.question
        rngs = [generator("redrawn", self.seed, key, place) for place in range(self.count)]
        texts = [text for rng in rngs if (text := redraw_values(passage.answer, rng)) != passage.answer]
        if not texts and question is not None:
            facts = facts_of(question, passage.record.identifiers)
            texts = [text for fact in facts for text in self.pool.of(question, fact).texts]
        return [text.strip() for text in texts[: self.count]]

    def caps(self, answers: Sequence[StrangerAnswer]) -> dict[str, tuple[float, ...]]:
        """Log-probability of each true token as if for a stranger, by the passages' keys.

        The mean probability over all strangers except the one for whom the token is likeliest, who may resemble the
        subject.
        """
        readings = [self._reading(answer) for answer in answers]
        sequences = [sequence for reading in readings for sequence in reading.sequences]
        scores = iter(score_answers(self.language_model, sequences, batch_size=self.batch_size))
        rows: dict[str, list[npt.NDArray[np.float64]]] = {}
        for answer, reading in zip(answers, readings, strict=True):
            own = [np.array(next(scores).log_probs) for _ in reading.sequences]
            rows.setdefault(answer.passage.sequence.key, []).append(reading.log_probs(own))
        return {key: _typical(np.stack(each)) for key, each in rows.items()}

    def _reading(self, answer: StrangerAnswer) -> _Reading:
        passage = answer.passage
        true = passage.sequence.ids[passage.sequence.scored_from :]
        prompt = passage.sequence.prompt
        renamed_ids: Sequence[int] = true
        if passage.question is not None:
            # What the prompt says itself, her name say, is the stranger's in the answer too.
            prompt_stranger = answer.stranger.named_in(passage.prompt)
            renamed = self._question_sequence(
                passage, answer.stranger.replaced(passage.prompt), prompt_stranger.replaced(passage.answer)
            )
            prompt, renamed_ids = renamed.prompt, renamed.ids[renamed.scored_from :]
        return _Reading.of(true, renamed_ids, prompt, answer.ids)


@dataclass(frozen=True)
class _Reading:
    """Positions in a stranger's answer at which the tokens of a true answer are scored.

    Attributes:
        sequences: the stranger's answer, then one for each span of the true answer that is missing from it.
        read: sequence and position among its scored tokens, for each token of the true answer; None for a token in
            the prompt.
    """

    sequences: list[TokenSequence]
    read: list[tuple[int, int] | None]

    @staticmethod
    def of(
        true: Sequence[int], renamed: Sequence[int], prompt: tuple[int, ...], answer: tuple[int, ...]
    ) -> _Reading:
        """Align a true answer with a stranger's answer.

        Args:
        """
        sequences = [TokenSequence("", prompt + answer, 0, len(prompt))]
        places: list[tuple[int, int]] = []
        for kind, start, stop, begin, _ in _opcodes(renamed, answer):
            if kind == "equal":
                places += [(0, begin + place) for place in range(stop - start)]
            elif kind != "insert":
                ids = prompt + answer[:begin] + tuple(renamed[start:stop])
                places += [(len(sequences), place) for place in range(stop - start)]
                sequences.append(TokenSequence("", ids, 0, len(ids) - (stop - start)))
        read: list[tuple[int, int] | None] = [None] * len(true)
        for kind, start, stop, begin, _ in _opcodes(true, renamed):
            if kind == "equal":
                read[start:stop] = places[begin : begin + stop - start]
        return _Reading(sequences, read)

    def log_probs(self, scores: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """Log-probability of each true token from the sequences' scored tokens; 0 for tokens in the prompt."""
        return np.array([0.0 if place is None else scores[place[0]][place[1]] for place in self.read])


def _opcodes(first: Sequence[int], second: Sequence[int]) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()


def _typical(log_probs: npt.NDArray[np.float64]) -> tuple[float, ...]:
    """Logarithm of the mean probability, [strangers, tokens] -> [tokens]; with three or more strangers the highest
    is dropped.
    """
    probabilities = np.sort(np.exp(log_probs), axis=0)
    others = probabilities[: max(2, len(probabilities) - 1)]
    return tuple(np.log(np.maximum(others.mean(axis=0), _LEAST)).tolist())


def _even_chances(sequence: TokenSequence, alternatives: Sequence[TokenSequence]) -> tuple[float, ...]:
    """Caps without strangers: equal probability where alternatives differ, else no cap."""
    true = sequence.ids[sequence.scored_from :]
    caps = np.zeros(len(true))
    for alternative in alternatives:
        other = alternative.ids[alternative.scored_from :]
        for kind, start, stop, *_ in _opcodes(true, other):
            if kind != "equal":
                caps[start:stop] = -np.log(len(alternatives) + 1)
    return tuple(caps.tolist())
