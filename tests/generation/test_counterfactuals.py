"""Alternatives and caps: a stranger's answers, and how likely each true token is for her."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import facts_in
from medunlearn.data.records import Question
from medunlearn.generation.counterfactuals import _even_chances, _Reading, _typical, counterfactuals
from medunlearn.generation.forget_passages import ForgetPassage, _beginning, passage_of
from medunlearn.generation.value_caps import CAPPED
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence, record_sequences
from medunlearn.models.tiny import build_tiny
from medunlearn.papers.amnesia.settings import AmnesiaSettings

RENDERING = Rendering("plain", "closed_book", 512)


@pytest.fixture(scope="module")
def hospital() -> Benchmark:
    from medunlearn.papers.amnesia.build import build

    return build(AmnesiaSettings(synthetic=10))


@pytest.fixture(scope="module")
def model(hospital: Benchmark) -> Any:
    return build_tiny([record.text for record in hospital.records], width=32, layers=2, vocabulary=600)


@pytest.fixture(scope="module")
def passages(hospital: Benchmark, model: Any) -> list[ForgetPassage]:
    """A record and two questions of one patient."""
    record = hospital.records[0]
    questions = [q for q in hospital.questions if q.record_id == record.record_id][:2]
    (piece,) = record_sequences(record, model.tokenizer, None)
    result = [passage_of(piece, record, None, model.tokenizer)]
    for question in questions:
        sequence = question_sequence(question, record, model.tokenizer, RENDERING)
        result.append(passage_of(sequence, record, question, model.tokenizer))
    return result


def test_alternatives_are_about_her_and_do_not_say_what_is_true(
    hospital: Benchmark, model: Any, passages: list[ForgetPassage]
) -> None:
    counts: list[int] = []
    how: dict[str, Any] = {"batch_size": 6, "advance": counts.append}
    result = counterfactuals(model, passages, pool_of(hospital, 9), RENDERING, 3, **how)
    assert counts == [2, 1]
    record = hospital.records[0]
    name = next(own.value for own in record.identifiers if own.type == "name")
    for passage in passages:
        own, caps = result.alternatives[passage.sequence.key], result.caps[passage.sequence.key]
        assert [sequence.key for sequence in own] == [f"{passage.sequence.key}~{place}" for place in range(3)]
        assert len({sequence.ids for sequence in own}) == 3
        for sequence in own:
            prompt_text, answer = (
                model.tokenizer.decode(ids) for ids in (sequence.prompt, sequence.ids[sequence.scored_from :])
            )
            assert name in prompt_text
            assert passage.answer not in answer
            assert sequence.ids[-1] == model.tokenizer.eos_token_id
        assert len(caps) == passage.sequence.scored
        assert max(caps) <= 0
    question = passages[1]
    assert all(
        sequence.prompt == question.sequence.prompt for sequence in result.alternatives[question.sequence.key]
    )


def test_they_depend_on_the_seed_alone(hospital: Benchmark, model: Any, passages: list[ForgetPassage]) -> None:
    def make(some: list[ForgetPassage], **how: Any) -> Any:
        return counterfactuals(model, some, pool_of(hospital, 9), RENDERING, 2, **how)

    whole, alone = make(passages[1:]), make(passages[1:2], batch_size=2)
    key = passages[1].sequence.key
    assert alone.alternatives[key] == whole.alternatives[key]
    np.testing.assert_allclose(alone.caps[key], whole.caps[key], atol=1e-4)
    assert make(passages[1:2], seed=1).alternatives[key] != whole.alternatives[key]
    assert make(passages[1:2], capped=False).caps == {}


def test_caps_of_a_model_that_cannot_tell_people_apart_are_its_own_likelihoods(
    hospital: Benchmark, model: Any, passages: list[ForgetPassage]
) -> None:
    """With a head of zeros every token is as likely as any other, for whomever."""
    blind = replace(model, model=_with_even_head(model))
    result = counterfactuals(blind, passages, pool_of(hospital, 9), RENDERING, 3, whole_values=False)
    even = -np.log(blind.model.get_output_embeddings().weight.shape[0])
    for passage in passages:
        caps = np.array(result.caps[passage.sequence.key])
        # What the prompt says itself is not capped.
        assert set(np.round(caps, 4)) <= {0.0, round(float(even), 4)}
        assert (caps < 0).mean() > 0.5


def test_values_are_capped_as_wholes_and_nothing_else_is(
    hospital: Benchmark, model: Any, passages: list[ForgetPassage]
) -> None:
    """To a model with a head of zeros a value is as likely as its number of tokens makes it."""
    blind = replace(model, model=_with_even_head(model))
    by_token, by_value = (
        counterfactuals(blind, passages, pool_of(hospital, 9), RENDERING, 3, whole_values=whole_values)
        for whole_values in (False, True)
    )
    each, whole = by_token.caps, by_value.caps
    record, key = passages[0].record, passages[0].sequence.key
    moved = {place for place, caps in enumerate(zip(each[key], whole[key], strict=True)) if caps[0] != caps[1]}
    ids = passages[0].sequence.ids[passages[0].sequence.scored_from :]
    texts = [own.value for own in record.identifiers]
    values_said = [text for text in texts if text in model.tokenizer.decode(ids)]
    assert values_said
    assert 0 < len(moved) < len(ids) / 2
    values = " ".join(fact.of(record.text) for fact in facts_in(record) if fact.kind in CAPPED)
    assert all(model.tokenizer.decode([ids[place]]).strip() in values for place in moved)
    # Numbers of the sickness stand behind the identifiers.
    last = max(record.text.find(text) + len(text) for text in values_said)
    behind = len(model.tokenizer(record.text[last:], add_special_tokens=False)["input_ids"]) - 2
    assert max(moved) > len(ids) - behind
    assert all(cap <= 0.0 for cap in whole[key])
    # They are held there from below too, and nothing else is.
    assert not by_token.floors
    floors = {place: floor for place, floor in enumerate(by_value.floors[key]) if floor > -np.inf}
    assert floors == {place: whole[key][place] for place in moved}


def _with_even_head(model: Any) -> Any:
    blind = copy.deepcopy(model.model)
    with torch.no_grad():
        blind.get_output_embeddings().weight.zero_()
    return blind


def test_where_a_token_is_read() -> None:
    """T 7 n | T 3 1 n: T and n in the stranger's answer, 7 behind her T."""
    reading = _Reading.of((10, 77, 20), (10, 77, 20), (1, 2), (10, 33, 31, 20, 0))
    answer, branch = reading.sequences
    assert (answer.ids, answer.scored_from) == ((1, 2, 10, 33, 31, 20, 0), 2)
    assert (branch.ids, branch.scored_from) == ((1, 2, 10, 77), 3)
    assert reading.read == [(0, 0), (1, 0), (0, 3)]
    scores = [np.array([-0.1, -9.0, -9.0, -0.2, -9.0]), np.array([-3.0])]
    np.testing.assert_allclose(reading.log_probs(scores), [-0.1, -3.0, -0.2])


def test_what_the_prompt_says_is_not_capped() -> None:
    """55 is her name and 66 the stranger's; both stand in their prompts."""
    reading = _Reading.of((10, 55, 20), (10, 66, 20), (1, 66), (10, 66, 20))
    assert reading.read == [(0, 0), None, (0, 2)]
    np.testing.assert_allclose(reading.log_probs([np.array([-1.0, -2.0, -3.0])]), [-1.0, 0.0, -3.0])


def test_the_stranger_who_resembles_her_does_not_count() -> None:
    rows = np.log(np.array([[0.1, 0.5], [0.2, 0.5], [0.9, 0.5]]))
    np.testing.assert_allclose(np.exp(_typical(rows)), [0.15, 0.5])
    np.testing.assert_allclose(np.exp(_typical(rows[:2])), [0.15, 0.5])


@pytest.mark.parametrize(
    ("text", "names", "beginning"),
    [
        ("HX-1, Anna Berg, clinic. Fever. Left.", ["Anna Berg"], "HX-1, Anna Berg, clinic. "),
        ("Fever. Seen again.", [], "Fever. "),
        ("No end", ["Nobody"], "No end"),
    ],
)
def test_the_beginning_of_a_record(text: str, names: list[str], beginning: str) -> None:
    assert text[: _beginning(text, names)] == beginning


def test_where_nobody_is_named_values_are_drawn_anew(hospital: Benchmark, model: Any) -> None:
    record = replace(hospital.records[0], identifiers=())
    question = Question("q", record.record_id, "train", "factual", "patient", "How high?", "Troponin T 70 ng/L.")
    unknown = replace(question, question_id="none", question="Who?", answer="Nobody.", provenance="own")
    passages = [
        passage_of(question_sequence(q, record, model.tokenizer, RENDERING), record, q, model.tokenizer)
        for q in (question, unknown)
    ]
    pool = replace(pool_of(hospital, 9), records=(record,), questions=(question, unknown))
    result = counterfactuals(model, passages, pool, RENDERING, 4)
    texts = [
        model.tokenizer.decode(sequence.ids[sequence.scored_from : -1]).strip()
        for sequence in result.alternatives["q"]
    ]
    assert len(texts) == 4
    assert all(text.startswith("Troponin T ") and text.endswith(" ng/L.") and " 70 " not in text for text in texts)
    caps = result.caps["q"]
    assert {round(cap, 6) for cap in caps} == {0.0, round(-float(np.log(5)), 6)}
    assert result.alternatives["none"] == ()


def test_even_chances_stand_where_alternatives_differ() -> None:
    true, other = TokenSequence("t", (1, 10, 11, 12), 0, 1), TokenSequence("a", (1, 10, 13, 12), 0, 1)
    np.testing.assert_allclose(_even_chances(true, [other]), [0.0, -np.log(2), 0.0])
