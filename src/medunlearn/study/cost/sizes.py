"""Token lengths of a benchmark's sequences, from a tokenized sample and exact character counts. No torch.

Of notes, questions and answers, a seeded sample and the longest are tokenized. All others have the mean tokens per
character of their sort. What a template adds is its mean over a few questions. So sums are near the real ones,
single lengths less so; a note in pieces of ``max_length`` has as many as its estimated length gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from heapq import nlargest
from typing import Any

import numpy as np

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.models.prompts import render
from medunlearn.models.sequences import NOTE_SHARE, Rendering
from medunlearn.seeds import generator
from medunlearn.study.cost.formulas import Load

SAMPLE, LONGEST = 200, 10
"""Texts of one sort that are tokenized: a sample, and the longest ones, which decide over memory."""
RENDERED = 20
"""Prompts that are rendered."""
STEPS = 500
"""Steps at most among which the largest is looked for."""
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Lengths:
    """Lengths of token sequences in tokens, one entry per sequence.

    Attributes:
        whole: prompt, answer and end of text.
        scored: tokens of the answer; of a record all but the first.
        shared: leading tokens that all sequences of its family share.
        family: number of its family.
        record: place of its record in the benchmark.
    """

    whole: Array
    scored: Array
    shared: Array
    family: Array
    record: Array

    def __len__(self) -> int:
        return len(self.whole)

    @staticmethod
    def join(*parts: Lengths) -> Lengths:
        """The sequences of several parts, whose families differ."""
        columns = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Lengths)
        }
        starts = np.cumsum([0, *(part.family.max(initial=-1) + 1 for part in parts)])
        family = [part.family + start for part, start in zip(parts, starts, strict=False)]
        return Lengths(**columns | {"family": np.concatenate(family)})

    def only(self, which: Array) -> Lengths:
        """Some of the sequences, by truth or place."""
        return Lengths(*(getattr(self, field.name)[which] for field in fields(self)))

    def load(self, step: int, size: int | None = None) -> Load:
        """One pass over all sequences in steps of adjacent ones, or in batches of ``size`` that a step is cut in.

        Each batch runs the shared text of its families once. A step begins anywhere in a family, and is cut between
        families where ``size`` permits.
        """
        if not len(self):
            return Load()
        _, place, sizes = np.unique(self.family, return_inverse=True, return_counts=True)
        family, own = sizes[place].astype(float), self.whole - self.shared
        runs = np.minimum(family, np.maximum(1 + (family - 1) / step, family / (size or step))) / family
        longest = int(self.whole.argmax())
        return Load(
            sequences=len(self),
            tokens=float((own + self.shared * runs).sum()),
            pairs=float((own * self.whole + self.shared**2 * runs).sum()),
            read=float(self.scored.sum()),
            longest=float(self.whole[longest]),
            shared=float(self.shared[longest]),
            family=float(family[longest]) if self.shared[longest] else 1.0,
        )

    def largest(self, step: int, size: int) -> Load:
        """The largest of the batches of ``size`` that steps of ``step`` sequences are cut in, in a shuffled order.

        Families stay together in the order, and sequences of similar length in a batch.
        """
        keys = generator("batches", len(self)).random(int(self.family.max(initial=0)) + 1)
        order = np.argsort(keys[self.family.astype(int)], kind="stable")
        rows = [order[start : start + step] for start in range(0, len(order), step)][:STEPS]
        cut = [row[np.argsort(-self.whole[row], kind="stable")[:size]] for row in rows]
        _, place, sizes = np.unique(self.family, return_inverse=True, return_counts=True)
        alone = self.whole - self.shared + self.shared / sizes[place]
        return self._at_once(max(cut, key=lambda row: float(alone[row].sum()), default=order))

    def drawn(self, count: int, side: str, seed: int) -> Lengths:
        """The first ``count`` sequences in a side's order of training (:mod:`medunlearn.training.batch_plan`)."""
        if count >= len(self):
            return self
        own = np.where(self.shared > 0, self.family, self.family.max(initial=0) + 1 + np.arange(len(self)))
        _, first, kin = np.unique(own, return_index=True, return_inverse=True)
        place = np.empty(len(first), dtype=int)
        place[np.argsort(first)[generator("order", side, 0, seed).permutation(len(first))]] = np.arange(len(first))
        return self.only(np.argsort(place[kin], kind="stable")[:count])

    def longest(self, size: int) -> Load:
        """The batch of the longest sequences."""
        return self._at_once(np.argsort(-self.whole, kind="stable")[:size])

    def _at_once(self, rows: Array) -> Load:
        return self.only(rows).load(max(1, len(rows)))


@dataclass(frozen=True)
class _TokenRate:
    """Tokens per character of one sort of text, and the tokens of those that were counted."""

    rate: float
    counted: Mapping[str, int]

    @staticmethod
    def of(texts: Sequence[str], tokenizer: LightTokenizer) -> _TokenRate:
        places = generator("tokenized sample", len(texts)).permutation(len(texts))[:SAMPLE].tolist()
        sample = [texts[place] for place in places]
        longest = nlargest(LONGEST, {*texts} - {*sample}, key=lambda text: (len(text), text))
        counts = dict(zip([*sample, *longest], tokenizer.count([*sample, *longest]), strict=True))
        letters = sum(map(len, sample))
        return _TokenRate(sum(counts[text] for text in sample) / letters if letters else 0.0, counts)

    def tokens(self, texts: Sequence[str]) -> Array:
        return np.array([self.counted.get(text, self.rate * len(text)) for text in texts], dtype=float)


@dataclass
class TokenSizes:
    """Lengths of the texts of a benchmark under a model's tokenizer.

    Attributes:
        images: record -> number of tokens of its images; empty without images.
    """

    benchmark: Benchmark
    tokenizer: LightTokenizer
    images: Mapping[str, int] = field(default_factory=dict)
    _overheads: dict[tuple[str, str], tuple[float, float, float]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Record -> its place in the benchmark."""
        return {record.record_id: place for place, record in enumerate(self.benchmark.records)}

    @cached_property
    def _notes(self) -> _TokenRate:
        return _TokenRate.of([record.text for record in self.benchmark.records], self.tokenizer)

    @cached_property
    def _questions(self) -> _TokenRate:
        return _TokenRate.of([question.question for question in self.benchmark.questions], self.tokenizer)

    @cached_property
    def _answers(self) -> _TokenRate:
        return _TokenRate.of([f" {question.answer}" for question in self.benchmark.questions], self.tokenizer)

    def notes(self, records: Iterable[Record]) -> Array:
        """Tokens of the records' texts."""
        return self._notes.tokens([record.text for record in records])

    @cached_property
    def longest_answer(self) -> int:
        """Default of max_new_tokens: 1.25 times the longest reference answer."""
        longest = int(self._answers.tokens([f" {q.answer}" for q in self.benchmark.questions]).max(initial=1))
        return longest + longest // 4 + 1

    def of_records(self, records: Sequence[Record], max_length: int | None) -> Lengths:
        """Records as plain text, cut into chunks that overlap by a token."""
        image = np.array([float(self.images.get(record.record_id, 0)) for record in records])
        text = np.round(self.notes(records)) + 1 + (self.tokenizer.begins if not self.images else 0)
        room = np.maximum((max_length or np.inf) - image, 2)
        chunks = np.maximum(np.ceil((text - 1) / (room - 1)), 1).astype(int)
        whole = np.repeat(np.minimum(text, room) + image, chunks)
        whole[np.cumsum(chunks) - 1] = text - (chunks - 1) * np.where(chunks > 1, room - 1, 0) + image
        shared = np.repeat(image, chunks)
        place = np.repeat([self.places[record.record_id] for record in records], chunks).astype(int)
        return Lengths(whole, whole - np.maximum(shared, 1), shared, place, place)

    def of_questions(self, questions: Sequence[Question], rendering: Rendering) -> Lengths:
        """Questions with their answers; in ``note`` context the record's text is shared."""
        records = [self.benchmark.record[question.record_id] for question in questions]
        place = np.array([self.places[question.record_id] for question in questions], dtype=int)
        shown = np.array([q.kind != "completion" for q in questions], dtype=float)
        before, around, more = self._overhead(rendering)
        note = self.notes(records) * shown if rendering.context == "note" else np.zeros(len(questions))
        if rendering.long_notes == "cut" and rendering.max_length is not None:
            note = np.minimum(note, int(NOTE_SHARE * rendering.max_length))
        image = np.array([float(self.images.get(record.record_id, 0)) for record in records])
        shared = np.round(note + image + before * shown)
        texts = self._questions.tokens([question.question for question in questions]) + around * shown
        scored = self._answers.tokens([f" {question.answer}" for question in questions]) + 1 + more * shown
        whole = shared + np.round(texts) + self.tokenizer.begins + scored
        # Without note and image all questions begin with the same words of the template.
        family = place if rendering.context == "note" or self.images else np.zeros_like(place)
        return Lengths(whole, scored, shared, family, place)

    def _overhead(self, rendering: Rendering) -> tuple[float, float, float]:
        """Mean tokens that a template adds to the shared part of a prompt, to the rest, and to the answer."""
        key = rendering.template_name, rendering.context
        if key not in self._overheads:
            self._overheads[key] = self._rendered(rendering)
        return self._overheads[key]

    def _rendered(self, rendering: Rendering) -> tuple[float, float, float]:
        prompted = [question for question in self.benchmark.questions if question.kind != "completion"]
        places = generator("rendered sample", len(prompted)).permutation(len(prompted))[:RENDERED].tolist()
        sample = [prompted[place] for place in places]
        if not sample:
            return 0.0, 0.0, 0.0
        notes = [self.benchmark.record[question.record_id].text for question in sample]
        how: dict[str, Any] = {"template": rendering.template, "context": rendering.context}
        prompts = [
            render(question, note, **how, tokenizer=self.tokenizer)
            for question, note in zip(sample, notes, strict=True)
        ]
        shared, own, answer, note, asks, answers = (
            sum(self.tokenizer.count(texts))
            for texts in (
                [prompt.shared for prompt in prompts],
                [prompt.own for prompt in prompts],
                [prompt.answer for prompt in prompts],
                notes if rendering.context == "note" else [],
                [question.question for question in sample],
                [f" {question.answer}" for question in sample],
            )
        )
        count = len(sample)
        return max(shared - note, 0) / count, max(own - asks, 0) / count, (answer - answers) / count
