"""Token lengths from a sample: sums near the real ones, few texts tokenized, loads by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.models.load import load_model
from medunlearn.models.sequences import Rendering, tokens_once
from medunlearn.probes.material import sequences
from medunlearn.results.runs import Run
from medunlearn.study.cost.formulas import Load
from medunlearn.study.cost.sizes import LONGEST, RENDERED, SAMPLE, Lengths, TokenSizes
from medunlearn.training.batch_plan import Plan


@pytest.fixture
def sizes(hospital: Benchmark, target: Run) -> TokenSizes:
    return TokenSizes(hospital, LightTokenizer.of_folder(target.model))


def lengths(whole: list[int], scored: list[int], shared: list[int], family: list[int]) -> Lengths:
    return Lengths(*(np.array(column, dtype=float) for column in (whole, scored, shared)), *[np.array(family)] * 2)


@pytest.mark.parametrize("context", ["closed_book", "note"])
@pytest.mark.parametrize("template", ["plain", "clinical", "chat"])
def test_sums_are_near_the_real_ones(
    sizes: TokenSizes, hospital: Benchmark, target: Run, template: Any, context: Any
) -> None:
    live, rendering = load_model(target.model, device="cpu"), Rendering(template, context)
    real = [live.question_sequence(q, hospital.record[q.record_id], rendering) for q in hospital.questions]
    planned = sizes.of_questions(hospital.questions, rendering)
    assert planned.whole.sum() == pytest.approx(sum(len(one.ids) for one in real), rel=0.03)
    assert planned.scored.sum() == pytest.approx(sum(one.scored for one in real), rel=0.03)
    assert planned.shared.sum() == pytest.approx(sum(one.shared for one in real), rel=0.03)
    assert planned.load(len(real)).tokens == pytest.approx(tokens_once(real), rel=0.06)


@pytest.mark.parametrize("most", [None, 16, 50])
def test_notes_are_cut_as_in_training(
    sizes: TokenSizes, hospital: Benchmark, target: Run, most: int | None
) -> None:
    live = load_model(target.model, device="cpu")
    rendering = Rendering(max_length=most)
    real = [piece for record in hospital.records for piece in live.record_sequences(record, rendering)]
    planned = sizes.of_records(hospital.records, most)
    assert len(planned) == pytest.approx(len(real), rel=0.03)
    assert planned.whole.sum() == pytest.approx(sum(len(one.ids) for one in real), rel=0.03)
    assert planned.whole.max() == pytest.approx(max(len(one.ids) for one in real), rel=0.03)


def test_a_load_knows_its_largest_family_of_branches() -> None:
    # Three branches on 10 tokens, two on 20, and a long sequence alone.
    both = lengths([15, 15, 15, 21, 21, 90], [1] * 6, [10, 10, 10, 20, 20, 80], [0, 0, 0, 1, 1, 2])
    assert both.load(8).branched == 45
    assert both.longest(3).branched == 42
    assert both.longest(1).branched == lengths([5, 7], [2, 3], [0, 0], [0, 0]).load(8).branched == 0
    # Families are in work one after the other.
    assert (both.load(8) + both.longest(3)).branched == both.load(8).times(3).branched == 45


def test_a_load_runs_shared_text_once_in_a_pass() -> None:
    alone = lengths([5, 7], [2, 3], [0, 0], [0, 1])
    assert alone.load(8) == Load(2, 12, 25 + 49, 5, 12)
    # Three questions of 2, 3 and 4 tokens on a note of ten: 10 + 2 + 3 + 4, and attention of each to the note.
    family = lengths([12, 13, 14], [1, 1, 1], [10, 10, 10], [0, 0, 0])
    load = family.load(10**9)
    assert load.tokens == pytest.approx(19)
    assert load.pairs == pytest.approx(100 + 2 * 12 + 3 * 13 + 4 * 14)
    # One at a time, the note is run for each.
    assert family.load(1).tokens == 12 + 13 + 14
    assert (load.sequences, load.whole) == (3, 12 + 13 + 14)


def test_the_largest_batch() -> None:
    rows = lengths([3, 9, 4, 8, 5, 7], [1] * 6, [0] * 6, [*range(6)])
    assert rows.longest(2).tokens == 9 + 8
    # One step of all: its largest two.
    assert rows.largest(6, 2).tokens == 9 + 8
    assert max(rows.whole) < rows.largest(2, 2).tokens <= 9 + 8


def test_records_and_questions_that_share_nothing_are_shuffled_apart(
    sizes: TokenSizes, hospital: Benchmark, target: Run
) -> None:
    """A batch has notes and questions, so the largest one is far from one of notes alone."""
    live, rendering = load_model(target.model, device="cpu"), Rendering(max_length=512)
    items = sequences(list(hospital.records), list(hospital.questions), hospital.record, live, rendering)
    plan = Plan({"train": items}, 8, 40, 0)
    real = max(tokens_once(plan.step(step)["train"]) for step in range(plan.steps))
    planned = sizes.of_items(hospital.records, hospital.questions, rendering)
    assert planned.largest(8, 8).tokens == pytest.approx(real, rel=0.1)
    assert real < 0.8 * planned.longest(8).tokens


def test_what_unlearning_draws_is_what_the_engine_draws(
    hospital: Benchmark, target: Run, sizes: TokenSizes
) -> None:
    live, rendering = load_model(target.model, device="cpu"), target.rendering()
    for rendering in (target.rendering(), Rendering("plain", "note")):
        real = [live.question_sequence(q, hospital.record[q.record_id], rendering) for q in hospital.questions]
        plan = Plan({"forget": real[:10], "retain": real}, 4, 1, seed=3)
        drawn = [one for number in range(plan.steps) for one in plan.step(number)["retain"]]
        planned = sizes.of_questions(hospital.questions, rendering).drawn(10, "retain", 3)
        assert planned.whole.sum() == pytest.approx(sum(len(one.ids) for one in drawn), rel=0.03)


def test_few_texts_are_tokenized(hospital: Benchmark, target: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 notes with a question each, a few hundred."""
    record, question = hospital.records[0], hospital.questions[0]
    records = tuple(
        replace(record, record_id=f"r{n}", text=f"{record.text} {n}", groups={**record.groups, "patient": f"p{n}"})
        for n in range(20_000)
    )
    questions = tuple(
        replace(question, question_id=f"q{n}", record_id=f"r{n}", question=f"What is {n}?", answer=f"It is {n}.")
        for n in range(20_000)
    )
    many = replace(hospital, records=records, questions=questions, splits={}, titles={})
    counted = list[str]()
    count = LightTokenizer.count
    monkeypatch.setattr(LightTokenizer, "count", lambda self, texts: counted.extend(texts) or count(self, texts))
    sizes = TokenSizes(many, LightTokenizer.of_folder(target.model))
    notes = sizes.of_records(many.records, 512)
    asked = sizes.of_questions(many.questions, Rendering("plain", "note", 512))
    assert sizes.longest_answer > 0
    assert len(notes) >= 20_000
    assert len(asked) == 20_000
    assert 0 < len(counted) <= 3 * (SAMPLE + LONGEST) + 6 * RENDERED


def test_a_folder_without_a_fast_tokenizer_has_letters(tmp_path: Any) -> None:
    stand_in = LightTokenizer.of_folder(tmp_path)
    assert stand_in.is_stand_in
    assert stand_in.count(["", "a", "abcd", "abcde"]) == [0, 1, 1, 2]
