"""How a question becomes text: every template, and both context modes, in one place.

A prompt is kept in two parts: what all questions on a record share (in ``note`` context the record's text)
and what is the question's own. They are tokenized apart, so that the shared part is the same tokens for
every question and can be computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from medunlearn.data.records import Question
from medunlearn.errors import ModelError

Template = Literal["plain", "chat", "clinical"]
Context = Literal["note", "closed_book"]

TEMPLATES: tuple[Template, ...] = get_args(Template)
CONTEXTS: tuple[Context, ...] = get_args(Context)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered question.

    Attributes:
        shared: what every question on the same record begins with; may be empty.
        own: the rest of the prompt.
        answer: the reference answer, with the space that parts it from the prompt.
    """

    shared: str
    own: str
    answer: str


def render(question: Question, note: str, *, template: Template, context: Context, tokenizer: Any = None) -> Prompt:
    """A question as text.

    A ``completion`` question is text to go on from: it is given bare, whatever template and context say.

    Args:
        note: text of the record that the question is about; used in ``note`` context alone.
        tokenizer: needed by ``chat``, for its chat template.

    Raises:
        ModelError: ``chat`` with a tokenizer that has no chat template.
    """
    if question.kind == "completion":
        return Prompt("", question.question, _apart(question.answer))
    shown = note if context == "note" else None
    return _RENDER[template](question, shown, tokenizer)


def _apart(answer: str) -> str:
    return answer if answer[:1].isspace() else f" {answer}"


def _plain(question: Question, note: str | None, tokenizer: Any) -> Prompt:
    shared = "" if note is None else f"{note}\n\n"
    return Prompt(shared, f"Question: {question.question}\nAnswer:", _apart(question.answer))


# After AMNESIA, Appendix D: the same fields in the same order, in our words.
_TASK = (
    "You are a language model trained for clinical work. {given} a request from a clinician{comes}. Answer it "
    "correctly and in few words.\n\n"
)
_NOTE_OPEN, _NOTE_CLOSE = "[Discharge Summary Begin]\n", "\n[Discharge Summary End]\n\n"
_ASK_OPEN, _ASK_CLOSE = "[Instruction Begin]\n", "\n[Instruction End]\n"


def _clinical(question: Question, note: str | None, tokenizer: Any) -> Prompt:
    if note is None:
        shared = _TASK.format(given="You are given", comes="")
    else:
        task = _TASK.format(given="You are given part of a patient's discharge summary and", comes=" about it")
        shared = f"{task}{_NOTE_OPEN}{note}{_NOTE_CLOSE}"
    return Prompt(shared, f"{_ASK_OPEN}{question.question}{_ASK_CLOSE}", question.answer)


def _chat(question: Question, note: str | None, tokenizer: Any) -> Prompt:
    if getattr(tokenizer, "chat_template", None) is None:
        raise ModelError("This tokenizer has no chat template. Use template=plain or template=clinical.")
    content = question.question if note is None else f"{note}\n\n{question.question}"
    text: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
    )
    if note is None or note not in text:
        return Prompt("", text, question.answer)
    cut = text.index(note) + len(note) + len("\n\n")
    return Prompt(text[:cut], text[cut:], question.answer)


_RENDER: dict[Template, Callable[[Question, str | None, Any], Prompt]] = {
    "plain": _plain,
    "clinical": _clinical,
    "chat": _chat,
}
