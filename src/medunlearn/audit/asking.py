"""Ways of prompting for a text: its beginning, a prompt filled from its columns, its beginning in a chat template.

A probe names its way: ``prefix``, ``prompt_1``, ``prompt_2``, ..., ``prefix_in_chat``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medunlearn.config.audit import PREFIX, PREFIX_IN_CHAT, PROMPT, AuditSettings
from medunlearn.data.records import Question, Record

CONTINUE = "Here is the beginning of a text. Write what comes next in it, word for word, and nothing else."
_SHOWN = 60
"""Letters of a prompt that a table shows."""


def prompt_way(number: int) -> str:
    """``prompt_1`` for the first prompt."""
    return f"{PROMPT}_{number}"


def is_prompt(way: object) -> bool:
    """True if a probe's way is a filled prompt; older tables have no such column."""
    return str(way).startswith(f"{PROMPT}_")


def way_title(way: str, prompts: Sequence[str] = (), template: str = "plain") -> str:
    """A way of asking in plain words, for tables: ``prompt 1 in the chat template: Write the note of {name}``."""
    if way == PREFIX:
        return "beginning of the text"
    if way == PREFIX_IN_CHAT:
        return "beginning of the text, in a chat"
    number = int(way.rpartition("_")[2])
    text = prompts[number - 1] if number <= len(prompts) else ""
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1].rstrip()}…"
    title = f"prompt {number}" if len(prompts) > 1 else "prompt"
    place = ", in a chat" if template == "chat" else ""
    return f"{title}{place}: {text}" if text else f"{title}{place}"


def short_title(way: object, length: int) -> str:
    """A way of asking for a narrow column: ``50``, ``50, chat``, ``prompt 1``, ``mixed``."""
    if is_prompt(way):
        return str(way).replace("_", " ")
    return f"{length or 'mixed'}{', chat' if way == PREFIX_IN_CHAT else ''}"


def titles_of(ways: Sequence[str], config: dict[str, Any]) -> dict[str, str]:
    """Way of asking -> its title, from the settings in an audit's ``run.json``."""
    return {way: way_title(way, config.get("prompt") or (), str(config.get("template", "plain"))) for way in ways}


def answer_to(text: str, settings: AuditSettings) -> str:
    """A text as the answer to a prompt, with the separating space that some templates need."""
    if settings.template == "chat":
        return text
    from medunlearn.models.prompts import render

    return render(_question("", text), "", template=settings.template, context="closed_book").answer


def message_of(way: str, prefix: str) -> str:
    """The user's message: the filled prompt, or a request to continue a beginning."""
    return f"{CONTINUE}\n\n{prefix}" if way == PREFIX_IN_CHAT else prefix


def prompt_text(way: str, prefix: str, settings: AuditSettings) -> str:
    """A filled prompt as text to continue, in a template that needs no tokenizer."""
    from medunlearn.models.prompts import render

    prompt = render(_question(message_of(way, prefix), ""), "", template=settings.template, context="closed_book")
    return prompt.shared + prompt.own


def prompt_tokens(tokenizer: Any, way: str, prefix: str, settings: AuditSettings) -> tuple[int, ...]:
    """Token ids of a prompt in the template, special tokens included."""
    from medunlearn.models.sequences import Rendering, question_sequence

    rendering = Rendering(settings.template, "closed_book")
    question = _question(message_of(way, prefix), "")
    return question_sequence(question, Record("text", "", {}), tokenizer, rendering).prompt


def _question(question: str, answer: str) -> Question:
    return Question("text", "text", "train", "generation", "text", question, answer)
