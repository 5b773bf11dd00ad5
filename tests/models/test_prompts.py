"""Each template in each context, and what every question on a record shares."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from medunlearn.data.records import Question
from medunlearn.errors import ModelError
from medunlearn.models.prompts import CONTEXTS, TEMPLATES, render

NOTE = "Ana Silva was given aspirin."
QUESTION = Question("q1", "r1", "train", "factual", "patient", "Which drug was she given?", "aspirin")


class Chatty:
    """A tokenizer with a chat template, as far as prompts look at it."""

    chat_template = "there is one"

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        assert options == {"add_generation_prompt": len(messages) == 1, "tokenize": False}
        assert [message["role"] for message in messages] == ["user", "assistant"][: len(messages)]
        answer = "".join(message["content"] for message in messages[1:])
        return f"<user>{messages[0]['content'].strip()}</user><assistant>{answer}"


def test_plain() -> None:
    closed = render(QUESTION, NOTE, template="plain", context="closed_book")
    assert (closed.shared, closed.own, closed.answer) == (
        "",
        "Question: Which drug was she given?\nAnswer:",
        " aspirin",
    )
    noted = render(QUESTION, NOTE, template="plain", context="note")
    assert (noted.shared, noted.own, noted.answer) == (f"{NOTE}\n\n", closed.own, closed.answer)


def test_clinical_keeps_the_papers_fields_in_their_order() -> None:
    noted = render(QUESTION, NOTE, template="clinical", context="note")
    fields = ["clinical work", "[Discharge Summary Begin]", NOTE, "[Discharge Summary End]"]
    places = [noted.shared.index(field) for field in fields]
    assert places == sorted(places)
    assert noted.own == "[Instruction Begin]\nWhich drug was she given?\n[Instruction End]\n"
    assert noted.answer == "aspirin"


def test_chat() -> None:
    closed = render(QUESTION, NOTE, template="chat", context="closed_book", tokenizer=Chatty())
    assert (closed.shared, closed.own) == ("", "<user>Which drug was she given?</user><assistant>")
    noted = render(QUESTION, NOTE, template="chat", context="note", tokenizer=Chatty())
    assert noted.shared == f"<user>{NOTE}\n\n"
    assert noted.own == closed.own.removeprefix("<user>")
    assert noted.answer == "aspirin"


def test_a_chat_template_that_changes_the_note_shares_nothing_but_says_all() -> None:
    noted = render(QUESTION, f"  {NOTE}", template="chat", context="note", tokenizer=Chatty())
    assert noted.shared == ""
    assert noted.own == f"<user>{NOTE}\n\nWhich drug was she given?</user><assistant>"


@pytest.mark.parametrize("tokenizer", [None, SimpleNamespace(), SimpleNamespace(chat_template=None)])
def test_no_chat_template(tokenizer: Any) -> None:
    with pytest.raises(ModelError, match=r"no chat template\. Use --template plain or --template clinical"):
        render(QUESTION, NOTE, template="chat", context="note", tokenizer=tokenizer)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("answer", "text"), [("went home", " went home"), ("\nHome", "\nHome"), ("", " ")])
def test_a_completion_is_bare(template: Any, context: Any, answer: str, text: str) -> None:
    question = replace(QUESTION, kind="completion", question="Ana Silva was", answer=answer)
    prompt = render(question, NOTE, template=template, context=context, tokenizer=None)
    assert (prompt.shared, prompt.own, prompt.answer) == ("", "Ana Silva was", text)
