"""Chat templates: the text around an answer, taken from the template's own rendering of an answered turn.

A template may end a turn with another token than the tokenizer's EOS (Gemma), put an empty reasoning block
before an answer (Qwen3) or spaces around it (Llama 2), and write today's date into the prompt (Llama 3). The date
is frozen at :data:`TODAY`, so that a model gives the same numbers every day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

from jinja2 import TemplateError

from medunlearn.errors import InputError, ModelError, first_line
from medunlearn.template_process import chat_templates_apart

Opening = Literal["prompt", "turn"]
"""Text before an answer: the template's generation prompt, or its text before the answer of an answered turn."""
CHAT = (
    "{% for message in messages %}<|begin|>{{ message['role'] }}\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)
"""Template of the tiny model, which is rendered in this process."""
TODAY = "2024-07-26"
"""The date that templates with a clock are rendered on."""
_CLOCK = "strftime_now"
_THOUGHT_ENDS = ("</think>", "</thinking>")
_QUESTION, _ANSWER = "\ue000", "\ue001"


@dataclass(frozen=True, slots=True)
class Turn:
    """Text of a chat template around the answer to a question.

    Attributes:
        prompt: text from the question's end to the end of the generation prompt.
        turn: text from the question's end to the answer of an answered turn, without ``lead``.
        lead, tail: spaces that the template puts before and after the answer; they belong to the answer.
        end: special token that ends the answer; None: the tokenizer's EOS.
    """

    prompt: str = ""
    turn: str = ""
    lead: str = ""
    tail: str = ""
    end: str | None = None

    @property
    def differs(self) -> bool:
        """True if a prompt ends otherwise than the text before an answer begins."""
        return self.prompt != self.turn

    def opened(self, text: str, opening: Opening) -> str:
        """A rendered prompt with the given opening of the answer."""
        if opening == "prompt" or not text.endswith(self.prompt):
            return text
        return text[: len(text) - len(self.prompt)] + self.turn


_TURNS: WeakKeyDictionary[Any, tuple[str, Turn]] = WeakKeyDictionary()


def turn_of(tokenizer: Any) -> Turn:
    """The text around an answer in the tokenizer's chat template; empty without a template that shows it."""
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        return Turn()
    known = _TURNS.get(tokenizer)
    if known is None or known[0] != str(template):
        known = _TURNS[tokenizer] = str(template), _turn(tokenizer)
    return known[1]


def end_token_id(tokenizer: Any, end: str | None) -> int:
    """Id of the token that ends an answer; the tokenizer's EOS for None."""
    number = tokenizer.eos_token_id if end is None else tokenizer.convert_tokens_to_ids(end)
    return int(number)


def fill_template(
    tokenizer: Any, content: str | list[dict[str, str]], *, answer: str | None = None, today: str | None = None
) -> str:
    """A user's message as text, with the generation prompt or with an answer's turn.

    Args:
        today: ISO date for templates with a clock; None: :data:`TODAY`.

    Raises:
        ModelError: the template refuses the message, or is wrong.
        InputError: it takes too long, too much memory, or makes too long a text.
    """
    if answer is not None:
        messages = [*_message(content), {"role": "assistant", "content": answer}]
    elif (batch := _BATCH.get()) and (text := batch.text(tokenizer, content, today)) is not None:
        return text
    else:
        messages = _message(content)
    try:
        rendered: str = _render(tokenizer, messages, today, asks=answer is None)
    except (TypeError, ValueError, KeyError, TemplateError) as error:
        raise ModelError(
            f"{_name(tokenizer)} cannot be filled in: {first_line(error)}. Correct it, or choose --template plain."
        ) from error
    return rendered


@contextmanager
def rendered_together(tokenizer: Any, contents: Iterable[str]) -> Iterator[None]:
    """Context in which :func:`fill_template` renders these users' messages in one request, at the first of them.

    A request to the process that renders takes several times as long as the rendering.
    """
    before = _BATCH.set(_Batch(tokenizer, dict.fromkeys(contents)))
    try:
        yield
    finally:
        _BATCH.reset(before)


@dataclass
class _Batch:
    """Messages that are rendered together. One that cannot be rendered leaves each to be rendered alone."""

    tokenizer: Any
    contents: Mapping[str, None]
    texts: dict[str | None, dict[str, str]] = field(default_factory=dict)

    def text(self, tokenizer: Any, content: str | list[dict[str, str]], today: str | None) -> str | None:
        """A message's rendering; None if it is not of the batch, or must be rendered alone."""
        if tokenizer is not self.tokenizer or not isinstance(content, str) or content not in self.contents:
            return None
        if today not in self.texts:
            self.texts[today] = self._render(today)
        return self.texts[today].get(content)

    def _render(self, today: str | None) -> dict[str, str]:
        try:
            texts = _render(self.tokenizer, [_message(content) for content in self.contents], today)
        except (TypeError, ValueError, KeyError, TemplateError, InputError):
            return {}
        return dict(zip(self.contents, texts, strict=True))


_BATCH: ContextVar[_Batch | None] = ContextVar("messages rendered together", default=None)


def _message(content: str | list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def _render(tokenizer: Any, conversations: list[Any], today: str | None, *, asks: bool = True) -> Any:
    """Text of a conversation, or the texts of several."""
    date = (today or TODAY) if _asks_clock(tokenizer) else None
    is_ours = tokenizer.chat_template == CHAT
    with nullcontext() if is_ours else chat_templates_apart(_name(tokenizer), date):
        return tokenizer.apply_chat_template(conversations, add_generation_prompt=asks, tokenize=False)


def _name(tokenizer: Any) -> str:
    folder = getattr(tokenizer, "name_or_path", None)
    return f"The chat template of {folder}" if folder else "The chat template"


def _asks_clock(tokenizer: Any) -> bool:
    return _CLOCK in str(getattr(tokenizer, "chat_template", ""))


def answer_text(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Text of a generated answer (:func:`without_reasoning`)."""
    return without_reasoning(tokenizer.decode(list(tokens), skip_special_tokens=True), turn_of(tokenizer).prompt)


def without_reasoning(text: str, prompt: str = "") -> str:
    """An answer without spaces around it and without its reasoning block; one that was not closed stays, since it
    was cut.

    Args:
        prompt: text of the chat template before the answer, which may open the block.
    """
    text = text.strip()
    thought = max((place for mark in _THOUGHT_ENDS if (place := text.find(mark)) >= 0), default=-1)
    opens = "".join((prompt, text[: len("<thinking>")]))
    if thought < 0 or "<think" not in opens:
        return text
    return text[text.index(">", thought) + 1 :].strip()


def has_clock(tokenizer: Any) -> bool:
    """True if the chat template writes the date into a prompt: renderings on two dates differ."""
    if not _asks_clock(tokenizer):
        return False
    try:
        return fill_template(tokenizer, _QUESTION) != fill_template(tokenizer, _QUESTION, today="1999-12-31")
    except ModelError:
        return False


def _turn(tokenizer: Any) -> Turn:
    try:
        asked = fill_template(tokenizer, _QUESTION)
        answered = fill_template(tokenizer, _QUESTION, answer=_ANSWER)
    except ModelError:
        return Turn()
    start, found, prompt = asked.partition(_QUESTION)
    before, answer, after = answered.partition(_ANSWER)
    if not found or not answer or not before.startswith(start + _QUESTION):
        return Turn()
    turn, lead = before[len(start + _QUESTION) :], ""
    if turn.startswith(prompt) and not turn[len(prompt) :].strip():
        turn, lead = prompt, turn[len(prompt) :]
    space, end = _end(tokenizer, after)
    return Turn(prompt, turn, lead, space, end)


def _end(tokenizer: Any, after: str) -> tuple[str, str | None]:
    """The first added token of the text after an answer, and the spaces before it; no token if words precede it."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    places = [
        (after.index(token.content), -len(token.content), token.content)
        for token in added.values()
        if token.content.strip() and token.content in after
    ]
    place, _, end = min(places, default=(0, 0, None))
    return ("", None) if end is None or after[:place].strip() else (after[:place], end)
