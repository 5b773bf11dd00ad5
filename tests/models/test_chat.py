"""Sequences have the tokens of the whole text, in plain text and in chat templates of several kinds."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from real_tokenizers import CHATML_END, CLOCK, EOS, GEMMA, GEMMA_END, LLAMA2, QWEN3, byte_level, prepending

from medunlearn.data.records import Question, Record
from medunlearn.models.chat import TODAY, answer_text, fill_template, has_clock, turn_of
from medunlearn.models.sequences import Rendering, begin_tokens, encode, encode_parts, question_sequence

NOTE = "Ana Silva, 61, was given aspirin and heparin for five days."
ASKED, ANSWER = "Which drug was Ana Silva given?", "aspirin and heparin"
QUESTION = Question("q1", "r1", "train", "factual", "patient", ASKED, ANSWER)
RECORD = Record("r1", NOTE, {})
TEXTS = [NOTE, f"Question: {ASKED}\nAnswer: {ANSWER}", "[INST] user model assistant [/INST]"]
MAKERS = {"prepending": prepending, "byte_level": byte_level}
ENDS = {"gemma": (GEMMA, GEMMA_END), "qwen3": (QWEN3, CHATML_END), "llama2": (LLAMA2, EOS)}


@pytest.fixture(params=MAKERS)
def make(request: Any) -> Any:
    return MAKERS[request.param]


@pytest.mark.parametrize("context", ["note", "closed_book"])
def test_plain_sequence_is_the_whole_text(make: Any, context: Any) -> None:
    tokenizer = make(TEXTS)
    sequence = question_sequence(QUESTION, RECORD, tokenizer, Rendering("plain", context))
    note = f"{NOTE}\n\n" if context == "note" else ""
    prompt = f"{note}Question: {ASKED}\nAnswer:"
    assert list(sequence.ids) == tokenizer(f"{prompt} {ANSWER}")["input_ids"] + [tokenizer.eos_token_id]
    assert list(sequence.prompt) == tokenizer(prompt)["input_ids"]
    shared = tokenizer(f"{NOTE}\n\n")["input_ids"] if note else begin_tokens(tokenizer)
    assert list(sequence.ids[: sequence.shared])[: len(shared) - 1] == shared[: len(shared) - 1]


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("context", ["note", "closed_book"])
def test_chat_sequence_is_an_answered_turn(make: Any, name: str, context: Any) -> None:
    template, end = ENDS[name]
    tokenizer = make(TEXTS, chat=template)
    content = f"{NOTE}\n\n{ASKED}" if context == "note" else ASKED
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": ANSWER}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    whole = tokenizer(text[: text.rindex(end) + len(end)], add_special_tokens=False)["input_ids"]
    sequence = question_sequence(QUESTION, RECORD, tokenizer, Rendering("chat", context, opening="turn"))
    assert list(sequence.ids) == whole
    assert sequence.ids[-1] == tokenizer.convert_tokens_to_ids(end)
    assert tokenizer.decode(sequence.ids[sequence.scored_from : -1]).strip() == ANSWER


def test_a_generation_prompt_differs_where_a_turn_begins_with_an_empty_reasoning_block() -> None:
    tokenizer = byte_level(TEXTS, chat=QWEN3)
    turn = turn_of(tokenizer)
    assert turn.differs
    assert turn.turn.removeprefix(turn.prompt) == "<think>\n\n</think>\n\n"
    asked, answered = (
        question_sequence(QUESTION, RECORD, tokenizer, Rendering("chat", opening=opening))
        for opening in ("prompt", "turn")
    )
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": ASKED}], add_generation_prompt=True)
    assert list(asked.prompt) == prompt["input_ids"]
    assert answered.ids[answered.scored_from :] == asked.ids[asked.scored_from :]
    assert len(answered.prompt) > len(asked.prompt)
    assert not turn_of(byte_level(TEXTS, chat=GEMMA)).differs


def test_spaces_that_a_template_puts_around_an_answer_belong_to_it() -> None:
    turn = turn_of(prepending(TEXTS, chat=LLAMA2))
    assert (turn.lead, turn.tail, turn.end, turn.differs) == (" ", " ", EOS, False)


def test_a_template_with_a_clock_is_rendered_on_one_date() -> None:
    tokenizer = byte_level(TEXTS, chat=CLOCK)
    assert has_clock(tokenizer)
    assert not has_clock(byte_level(TEXTS, chat=QWEN3))
    frozen = date.fromisoformat(TODAY).strftime("%d %b %Y")
    assert f"Today Date: {frozen}" in fill_template(tokenizer, ASKED)
    assert "Today Date: 31 Dec 1999" in fill_template(tokenizer, ASKED, today="1999-12-31")
    one, other = (
        question_sequence(QUESTION, RECORD, tokenizer, Rendering("chat", today=today))
        for today in (None, "1999-12-31")
    )
    assert one.ids != other.ids
    assert one == question_sequence(QUESTION, RECORD, tokenizer, Rendering("chat", today=TODAY))


def test_parts_of_a_text_without_offsets_are_cut_by_their_tokens(make: Any) -> None:
    fast = make(TEXTS)

    class Slow:
        """The same tokens, and no offsets."""

        is_fast = False

        def __call__(self, text: str, **options: Any) -> Any:
            assert "return_offsets_mapping" not in options
            return fast(text, **options)

    texts = (f"{NOTE}\n\n", f"Question: {ASKED}\nAnswer:", f" {ANSWER}")
    assert encode_parts(Slow(), texts)[2] == encode_parts(fast, texts)[2]
    assert [token for part in encode_parts(Slow(), texts) for token in part] == fast(
        "".join(texts), add_special_tokens=False
    )["input_ids"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\nshe was given\n</think>\n\naspirin", "aspirin"),
        ("<think>\n\n</think>\n\naspirin", "aspirin"),
        ("<think>she was", "<think>she was"),
        ("aspirin", "aspirin"),
        ("aspirin </think> heparin", "aspirin </think> heparin"),
    ],
)
def test_reasoning_is_no_part_of_an_answer(text: str, answer: str) -> None:
    tokenizer = byte_level(TEXTS, chat=QWEN3)
    assert answer_text(tokenizer, encode(tokenizer, text)) == answer


def test_reasoning_that_the_prompt_opens_is_no_part_of_an_answer() -> None:
    tokenizer = byte_level(TEXTS, chat=QWEN3.replace("<|im_start|>assistant\n{% endif %}", "<think>\n{% endif %}"))
    assert answer_text(tokenizer, encode(tokenizer, "she was given\n</think>\n\naspirin")) == "aspirin"
