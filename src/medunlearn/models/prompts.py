"""Prompt templates and context modes.

A prompt has two parts: the text shared by all questions on a record (in ``note`` context the record's text) and the
question's own. Tokens of the shared part are computed once for all questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from medunlearn.config.prompt_files import PromptFile
from medunlearn.data.records import Question
from medunlearn.errors import ModelError
from medunlearn.models.chat import Opening, fill_template, turn_of

IMAGE = "\ufffc"
"""Stands in a prompt's text where the image is: Unicode's object replacement character."""

TemplateName = Literal["plain", "chat", "clinical"]
Template = TemplateName | PromptFile
Context = Literal["note", "closed_book"]

TEMPLATES: tuple[TemplateName, ...] = get_args(TemplateName)
CONTEXTS: tuple[Context, ...] = get_args(Context)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered question: text that all questions on the record share (or none), the rest, the reference answer.

    The first :data:`IMAGE` in ``shared`` marks the place of an image; the answer begins with the space that
    separates it from the prompt. ``end`` is the special token that ends it; None: the tokenizer's EOS.
    """

    shared: str
    own: str
    answer: str
    end: str | None = None


def render(
    question: Question,
    note: str,
    *,
    template: Template,
    context: Context,
    tokenizer: Any = None,
    marker: str | None = None,
    opening: Opening = "prompt",
    today: str | None = None,
) -> Prompt:
    """Render a question as text.

    A ``completion`` question is text to continue: it ignores template and context.

    Args:
        note: text of the question's record; used only in ``note`` context.
        marker: the chat template's marker for an image; None without an image. Other templates put the image first.
        opening: text before the answer in the chat template.
        today: date for a chat template with a clock (:func:`medunlearn.models.chat.fill_template`).

    Raises:
        ModelError: ``chat`` with a tokenizer that has no chat template.
    """
    visible_note = note if context == "note" else None
    if question.kind == "completion":
        prompt = Prompt("", question.question, _apart(question.answer))
    elif template == "chat":
        return _chat(question, visible_note, tokenizer, marker, opening, today)
    elif isinstance(template, PromptFile):
        prompt = _from_file(question, visible_note, template)
    else:
        prompt = _RENDER[template](question, visible_note)
    return prompt if marker is None else replace(prompt, shared=f"{IMAGE}\n{prompt.shared}")


def _apart(answer: str) -> str:
    return answer if answer[:1].isspace() else f" {answer}"


def _plain(question: Question, note: str | None) -> Prompt:
    shared = "" if note is None else f"{note}\n\n"
    return Prompt(shared, f"Question: {question.question}\nAnswer:", _apart(question.answer))


# After AMNESIA, Appendix D: the same fields in the same order, in our words.
_TASK = (
    "You are a language model trained for clinical work. {given} a request from a clinician{comes}. Answer it "
    "correctly and in few words.\n\n"
)
_NOTE_OPEN, _NOTE_CLOSE = "[Discharge Summary Begin]\n", "\n[Discharge Summary End]\n\n"
_ASK_OPEN, _ASK_CLOSE = "[Instruction Begin]\n", "\n[Instruction End]\n"


def _clinical(question: Question, note: str | None) -> Prompt:
    if note is None:
        shared = _TASK.format(given="You are given", comes="")
    else:
        task = _TASK.format(given="You are given part of a patient's discharge summary and", comes=" about it")
        shared = f"{task}{_NOTE_OPEN}{note}{_NOTE_CLOSE}"
    return Prompt(shared, f"{_ASK_OPEN}{question.question}{_ASK_CLOSE}", question.answer)


def _chat(
    question: Question, note: str | None, tokenizer: Any, marker: str | None, opening: Opening, today: str | None
) -> Prompt:
    if getattr(tokenizer, "chat_template", None) is None:
        raise ModelError("This tokenizer has no chat template. Use --template plain or --template clinical.")
    content, turn = chat_content(question, note), turn_of(tokenizer)
    filled = (
        fill_template(tokenizer, content, today=today)
        if marker is None
        else _with_image(tokenizer, content, marker, today)
    )
    text = turn.opened(filled, opening)
    cut = 0
    if note is not None and note in text:
        cut = text.index(note) + len(note) + len("\n\n")
    elif marker is not None:
        cut = text.index(IMAGE) + len(IMAGE)
    return Prompt(text[:cut], text[cut:], turn.lead + question.answer + turn.tail, turn.end)


def chat_content(question: Question, note: str | None) -> str:
    """The user's message in a chat template."""
    return question.question if note is None else f"{note}\n\n{question.question}"


def _with_image(tokenizer: Any, content: str, marker: str, today: str | None) -> str:
    """Render the template with an image before the content, by the template's own image support or as text."""
    try:
        text = fill_template(tokenizer, [{"type": "image"}, {"type": "text", "text": content}], today=today)
    except ModelError:
        text = ""
    if marker in text and content in text:
        return text.replace(marker, IMAGE, 1)
    return fill_template(tokenizer, f"{IMAGE}\n{content}", today=today)


_PLACE = "\ue000"
"""Stands for the question while a file is cut into its shared and its own part: a character of private use."""


def _from_file(question: Question, note: str | None, file: PromptFile) -> Prompt:
    """Render a user's template, split at the beginning of the question's line, never within the note."""
    text = file.render({"note": note or "", "question": _PLACE})
    place, note_end = text.index(_PLACE), 0
    if note and note in text[:place]:
        note_end = text.index(note) + len(note)
    cut = max(text.rfind("\n", 0, place) + 1, note_end)
    own = text[cut:].replace(_PLACE, question.question)
    return Prompt(text[:cut], own, question.answer if own[-1:].isspace() else _apart(question.answer))


_RENDER: dict[TemplateName, Callable[[Question, str | None], Prompt]] = {"plain": _plain, "clinical": _clinical}
