"""Token lengths of a benchmark's sequences, from a tokenized sample and exact character counts. No torch.

Of notes, questions and answers, a seeded sample and the longest are tokenized. All others have the mean tokens per
character of their sort. What a template adds is its mean over a few questions. So sums are near the real ones,
single lengths less so; a note in pieces of ``max_length`` has as many as its estimated length gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nlargest
from typing import Any, TypeVar

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
EPOCHS, STEPS = 8, 500
"""Shuffled orders, and steps at most in all, among which the largest is looked for."""
Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")


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
    def join(first: Lengths, second: Lengths) -> Lengths:
        """The sequences of both, whose families differ."""
        second = replace(second, family=second.family + first.family.max(initial=-1) + 1)
        return Lengths(*map(np.concatenate, zip(vars(first).values(), vars(second).values(), strict=True)))

    def only(self, which: Array) -> Lengths:
        """Some of the sequences, by truth or place."""
        return Lengths(*(column[which] for column in vars(self).values()))

    @property
    def kin(self) -> Array:
        """Number of sequences in the family of each."""
        _, place, sizes = np.unique(self.family, return_inverse=True, return_counts=True)
        return sizes[place].astype(float)

    def load(self, step: int, size: int | None = None) -> Load:
        """One pass over all sequences in steps of adjacent ones, or in batches of ``size`` that a step is cut in.

        Each batch runs the shared text of its families once. A step begins anywhere in a family, and is cut between
        families where ``size`` permits.
        """
        kin, own = self.kin, self.whole - self.shared
        once = self.shared * np.minimum(kin, np.maximum(1 + (kin - 1) / step, kin / (size or step))) / kin
        pairs = own * self.whole + self.shared * once
        sums = (float(column.sum()) for column in (own + once, pairs, self.scored, self.whole))
        branches = np.where((kin > 1) & (self.shared > 0), self.whole, 0)
        _, place = np.unique(self.family, return_inverse=True)
        return replace(Load(len(self), *sums), branched=float(np.bincount(place, branches).max(initial=0.0)))

    def largest(self, step: int, size: int) -> Load:
        """The largest of the batches of ``size`` that steps of ``step`` sequences are cut in, in shuffled orders.

        Families stay together in the order, and sequences of similar length in a batch.
        """
        epochs = max(1, min(EPOCHS, STEPS * step // max(1, len(self))))
        keys = generator("batches", len(self)).random((epochs, int(self.family.max(initial=0)) + 1))
        orders = np.argsort(keys[:, self.family], kind="stable")
        rows = [order[start : start + step] for order in orders for start in range(0, len(order), step)][:STEPS]
        cut = [row[np.argsort(-self.whole[row], kind="stable")[:size]] for row in rows]
        alone = self.whole - self.shared + self.shared / self.kin
        return self._at_once(max(cut, key=lambda row: float(alone[row].sum()), default=orders[0]))

    def drawn(self, count: int, side: str, seed: int) -> Lengths:
        """The first ``count`` sequences in a side's order of training (:mod:`medunlearn.training.batch_plan`)."""
        _, first, place = np.unique(self.family, return_index=True, return_inverse=True)
        order = np.argsort(first)[generator("order", side, 0, seed).permutation(len(first))]
        return self.only(np.argsort(np.argsort(order)[place], kind="stable")[:count])

    def longest(self, size: int) -> Load:
        """The batch of the longest sequences."""
        return self._at_once(np.argsort(-self.whole, kind="stable")[:size])

    def _at_once(self, rows: Array) -> Load:
        return self.only(rows).load(max(1, len(rows)))


@dataclass
class TokenSizes:
    """Lengths of the texts of a benchmark under a model's tokenizer.

    Attributes:
        images: record -> number of tokens of its images; empty without images.
    """

    benchmark: Benchmark
    tokenizer: LightTokenizer
    images: Mapping[str, int] = field(default_factory=dict)
    _overheads: dict[tuple[str, str], Array] = field(default_factory=dict, init=False, repr=False)

    def with_image_tokens(self, tokens: int) -> TokenSizes:
        """The same with so many tokens for every image."""
        counts = {
            record.record_id: tokens * len(record.images) for record in self.benchmark.records if record.image
        }
        return TokenSizes(self.benchmark, self.tokenizer, counts)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Record -> its place in the benchmark."""
        return {record.record_id: place for place, record in enumerate(self.benchmark.records)}

    @cached_property
    def notes(self) -> TextSizes:
        return TextSizes.of([record.text for record in self.benchmark.records], self.tokenizer)

    @cached_property
    def prompts(self) -> TextSizes:
        return TextSizes.of([question.question for question in self.benchmark.questions], self.tokenizer)

    @cached_property
    def answers(self) -> TextSizes:
        return TextSizes.of([f" {question.answer}" for question in self.benchmark.questions], self.tokenizer)

    @cached_property
    def longest_answer(self) -> int:
        """Default of max_new_tokens: 1.25 times the longest reference answer."""
        longest = int(self.answers.tokens([f" {q.answer}" for q in self.benchmark.questions]).max(initial=1))
        return longest + longest // 4 + 1

    def of_items(self, records: Sequence[Record], questions: Sequence[Question], rendering: Rendering) -> Lengths:
        """Records as plain text, then questions with their answers."""
        return Lengths.join(self.of_records(records, rendering.max_length), self.of_questions(questions, rendering))

    def of_records(self, records: Sequence[Record], max_length: int | None) -> Lengths:
        """Records as plain text, cut into chunks that overlap by a token."""
        image, place = self._images_of(records), self.places_of(records)
        text = np.round(self.notes.tokens([record.text for record in records])) + 1
        text += 0 if self.images else self.tokenizer.begins
        room = np.maximum((max_length or np.inf) - image, 2)
        chunks = np.maximum(np.ceil((text - 1) / (room - 1)), 1).astype(int)
        whole = np.repeat(np.minimum(text, room) + image, chunks)
        whole[np.cumsum(chunks) - 1] = text - (chunks - 1) * np.where(chunks > 1, room - 1, 0) + image
        shared, place = np.repeat(image, chunks), np.repeat(place, chunks)
        return Lengths(whole, whole - np.maximum(shared, 1), shared, _families(shared, place), place)

    def of_questions(self, questions: Sequence[Question], rendering: Rendering) -> Lengths:
        """Questions with their answers; in ``note`` context the record's text is shared."""
        records = [self.benchmark.record[question.record_id] for question in questions]
        image, place = self._images_of(records), self.places_of(records)
        shown = np.array([q.kind != "completion" for q in questions], dtype=float)
        before, around, more = self._overhead(rendering)
        note = np.zeros(len(questions))
        if rendering.context == "note":
            note = self.notes.tokens([record.text for record in records]) * shown
        if rendering.long_notes == "cut" and rendering.max_length is not None:
            note = np.minimum(note, NOTE_SHARE * rendering.max_length)
        shared = np.round(note + image + before * shown)
        texts = self.prompts.tokens([question.question for question in questions]) + around * shown
        scored = self.answers.tokens([f" {question.answer}" for question in questions]) + 1 + more * shown
        whole = shared + np.round(texts) + self.tokenizer.begins + scored
        # Without note and image all questions begin with the same words of the template.
        family = place if rendering.context == "note" or self.images else 0 * place
        return Lengths(whole, scored, shared, _families(shared, family), place)

    def _images_of(self, records: Sequence[Record]) -> Array:
        return np.array([self.images.get(record.record_id, 0) for record in records], dtype=float)

    def places_of(self, records: Sequence[Record]) -> Array:
        return np.array([self.places[record.record_id] for record in records], dtype=int)

    def _overhead(self, rendering: Rendering) -> Array:
        """Mean tokens that a template adds to the shared part of a prompt, to the rest, and to the answer."""
        key = rendering.template_name, rendering.context
        if key not in self._overheads:
            prompted = [question for question in self.benchmark.questions if question.kind != "completion"]
            added = [self._added(question, rendering) for question in sample("rendered sample", prompted, RENDERED)]
            self._overheads[key] = np.mean(added, axis=0) if added else np.zeros(3)
        return self._overheads[key]

    def _added(self, question: Question, rendering: Rendering) -> list[int]:
        note = self.benchmark.record[question.record_id].text
        how: dict[str, Any] = {"template": rendering.template, "context": rendering.context}
        prompt = render(question, note, **how, tokenizer=self.tokenizer)
        bare = (note if rendering.context == "note" else "", question.question, f" {question.answer}")
        counts = self.tokenizer.count([prompt.shared, prompt.own, prompt.answer, *bare])
        return [rendered - own for rendered, own in zip(counts[:3], counts[3:], strict=True)]


@dataclass(frozen=True)
class TextSizes:
    """Tokens of texts of one sort: those that were counted, and for others tokens per character."""

    rate: float
    counted: Mapping[str, int]

    @staticmethod
    def of(texts: Sequence[str], tokenizer: LightTokenizer) -> TextSizes:
        drawn = sample("tokenized sample", texts, SAMPLE)
        longest = nlargest(LONGEST, {*texts} - {*drawn}, key=lambda text: (len(text), text))
        counts = dict(zip([*drawn, *longest], tokenizer.count([*drawn, *longest]), strict=True))
        return TextSizes(sum(counts[text] for text in drawn) / max(1, sum(map(len, drawn))), counts)

    def tokens(self, texts: Sequence[str]) -> Array:
        return np.array([self.counted.get(text, self.rate * len(text)) for text in texts], dtype=float)


def sample(name: str, items: Sequence[T], size: int) -> list[T]:
    """A seeded sample of at most so many."""
    return [items[place] for place in generator(name, len(items)).permutation(len(items))[:size].tolist()]


def _families(shared: Array, family: Array) -> Array:
    """The families; a sequence that shares nothing has its own."""
    return np.where(shared > 0, family, family.max(initial=0) + 1 + np.arange(len(family)))
