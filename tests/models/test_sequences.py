"""Tokens of questions and records: which are shared, which are scored, one BOS, one EOS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_tokenizers import QWEN3
from tokenizers import processors

from medunlearn import template_process
from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError
from medunlearn.models.prompts import CONTEXTS, TEMPLATES, render
from medunlearn.models.sequences import TOGETHER, Rendering, question_sequence, record_sequences
from medunlearn.models.tiny import BEGIN, END

RECORD = Record("r1", "Ana Silva was admitted with chest pain on 3 May and left on 9 May.", {"patient": "p1"})
QUESTION = Question("q1", "r1", "train", "factual", "patient", "Which drug was she given?", "aspirin, 100 mg")


@pytest.fixture
def tokenizer(tiny: Callable[[], Any]) -> Any:
    return tiny().tokenizer


@pytest.fixture
def with_begin(tokenizer: Any) -> Any:
    """A tokenizer that puts BOS before every text, as Llama's does."""
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.bos_token_id)]
    )
    assert tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id
    return tokenizer


def encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_parts_follow_each_other(tokenizer: Any, template: Any, context: Any) -> None:
    sequence = question_sequence(QUESTION, RECORD, tokenizer, Rendering(template, context))
    prompt = render(QUESTION, RECORD.text, template=template, context=context, tokenizer=tokenizer)
    shared, own, answer = (encode(tokenizer, part) for part in (prompt.shared, prompt.own, prompt.answer))
    assert sequence.ids == shared + own + answer + (tokenizer.eos_token_id,)
    assert sequence.shared == len(shared)
    assert sequence.prompt == shared + own
    assert sequence.scored == len(answer) + 1
    assert sequence.key == "q1"
    text = tokenizer.decode(sequence.ids, clean_up_tokenization_spaces=False)
    assert text == prompt.shared + prompt.own + prompt.answer + END


@pytest.mark.parametrize("template", [*TEMPLATES, "another chat"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_many_questions_are_those_of_each_rendered_in_few_requests(
    tiny: Callable[[], Any], template: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, model = [], tiny()
    ask = template_process._worker.ask
    monkeypatch.setattr(template_process._worker, "ask", lambda *what: requests.append(what[1]) or ask(*what))
    if template == "another chat":
        template, model.tokenizer.chat_template = "chat", QWEN3
    records = {name: Record(name, f"{RECORD.text} {name}.", {}) for name in ("r1", "r2")}
    questions = [
        replace(QUESTION, question_id=f"q{n}", record_id=f"r{n % 2 + 1}", question=f"Which drug on day {n // 3}?")
        for n in range(TOGETHER + 6)
    ]
    questions.append(replace(questions[0], question_id="more", kind="completion"))
    rendering = Rendering(template, context)
    expected = [question_sequence(q, records[q.record_id], model.tokenizer, rendering) for q in questions]
    requests.clear()
    assert model.question_sequences(questions, records, rendering) == expected
    assert len(requests) == (2 if model.tokenizer.chat_template == QWEN3 else 0)


@pytest.mark.parametrize("template", ["plain", "clinical"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_begin_stands_once_at_the_front(with_begin: Any, template: Any, context: Any) -> None:
    sequence = question_sequence(QUESTION, RECORD, with_begin, Rendering(template, context))
    assert sequence.ids[0] == with_begin.bos_token_id
    assert sequence.ids.count(with_begin.bos_token_id) == 1
    assert sequence.shared >= 1
    assert sequence.ids.count(with_begin.eos_token_id) == 1


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_completion_begins_like_a_record(with_begin: Any, template: Any) -> None:
    question = replace(QUESTION, kind="completion", question="Ana Silva was", answer="admitted with")
    ids = question_sequence(question, RECORD, with_begin, Rendering(template, "note")).ids
    record = record_sequences(RECORD, with_begin, None)[0].ids
    assert ids[:-1] == record[: len(ids) - 1]
    assert ids[-1] == with_begin.eos_token_id


def test_too_long_names_the_question_and_the_ways_out(tokenizer: Any) -> None:
    length = len(question_sequence(QUESTION, RECORD, tokenizer, Rendering("plain", "note")).ids)
    question_sequence(QUESTION, RECORD, tokenizer, Rendering("plain", "note", length))
    with pytest.raises(
        InputError, match=rf"'q1' takes {length} tokens .* max_length={length - 1}.*closed_book"
    ) as caught:
        question_sequence(QUESTION, RECORD, tokenizer, Rendering("plain", "note", length - 1))
    assert "Ana" not in str(caught.value)


def test_an_empty_prompt_still_predicts_from_somewhere(tokenizer: Any) -> None:
    question = replace(QUESTION, kind="completion", question="")
    sequence = question_sequence(question, RECORD, tokenizer, Rendering())
    assert sequence.scored_from == 1
    assert len(sequence.prompt) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(length=st.none() | st.integers(2, 90), text=st.text(min_size=1, max_size=40) | st.just(RECORD.text))
def test_chunks_score_every_token_but_the_first_once(with_begin: Any, length: int | None, text: str) -> None:
    whole = (with_begin.bos_token_id, *encode(with_begin, text), with_begin.eos_token_id)
    chunks = record_sequences(replace(RECORD, text=text), with_begin, length)
    assert whole[:1] + tuple(token for chunk in chunks for token in chunk.ids[chunk.scored_from :]) == whole
    assert [chunk.key for chunk in chunks] == [f"r1#{place}" for place in range(len(chunks))]
    assert all(chunk.scored_from == 1 and chunk.shared == 0 for chunk in chunks)
    assert all(2 <= len(chunk.ids) <= (length or len(whole)) for chunk in chunks)


LONG = replace(RECORD, text="Ana Silva was admitted with chest pain on 3 May and left on 9 May. " * 90)


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_end_of_a_long_note_is_left_out_where_it_is_to_be_cut(with_begin: Any, template: Any) -> None:
    """At one place for all questions on the note, so that they still share it; the question stays whole."""
    others = [replace(QUESTION, question_id=f"q{n}", question=QUESTION.question * n) for n in (1, 2)]
    sequences = [
        question_sequence(asked_question, LONG, with_begin, Rendering(template, "note", 1024, "cut"))
        for asked_question in others
    ]
    assert len({sequence.ids[: sequence.shared] for sequence in sequences}) == 1
    assert 1024 * 7 // 8 - 8 < sequences[0].shared <= 1024 * 7 // 8
    for asked_question, sequence in zip(others, sequences, strict=True):
        text = with_begin.decode(sequence.ids)
        assert asked_question.question in text
        assert asked_question.answer in text
        assert "[Discharge Summary End]" in text or template != "clinical"
    whole = Rendering(template, "note", 1024)
    with pytest.raises(InputError, match="--long-notes cut"):
        question_sequence(QUESTION, LONG, with_begin, whole)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_note_that_leaves_room_is_not_cut(tokenizer: Any, context: Any) -> None:
    short = [
        question_sequence(QUESTION, RECORD, tokenizer, Rendering("clinical", context, 512, how))
        for how in ("cut", "refuse")
    ]
    assert short[0] == short[1]
    closed = Rendering("clinical", "closed_book", 512, "cut")
    assert question_sequence(QUESTION, LONG, tokenizer, closed) == question_sequence(
        QUESTION, RECORD, tokenizer, closed
    )
