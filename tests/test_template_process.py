"""Templates and patterns of strangers: rendered apart, within limits of time, memory and length."""

from __future__ import annotations

import os
import time
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import TemplateError
from real_tokenizers import CLOCK, QWEN3, byte_level

from medunlearn import template_process
from medunlearn.config.prompt_files import PromptFile
from medunlearn.errors import InputError, ModelError
from medunlearn.models.chat import fill_template, has_clock, rendered_together, turn_of
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.template_process import match_patterns, render_prompt

LOOPS = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}" + "{% endfor %}" * 3
BEYOND = {
    "nested loops": LOOPS,
    "a long text": "{{ 'x' * 10**10 }}",
    "a doubled text": "{% set n = namespace(t='x') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
    "a padded text": "{{ '%1000000000d' % 1 }}{{ 'x'|center(10**10) }}",
    "a power": "{{ 9 ** (9 ** (9 ** 9)) }}",
    "much output": "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "a list": "{{ ([0] * 10**10)|length }}",
}
WRONG = {
    "include": "{% include 'other' %}",
    "import": "{% from 'other' import name %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "two macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "a division": "{{ 1 / 0 }}",
    "a call of nothing": "{{ nothing() }}",
    "an attribute": "{{ ().__class__.__mro__ }}{{ cycler.__init__.__globals__.os.system('false') }}",
    "text and number": "{{ 'a' + 1 }}",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_process, "SECONDS", 0.3)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return byte_level(["What is it?"], chat=QWEN3)


def chat_of(tokenizer: Any, template: str) -> Any:
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize("template", BEYOND.values(), ids=[*BEYOND])
def test_a_template_beyond_the_limits_is_refused_in_time(template: str, tokenizer: Any) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=r"more than|ended the process") as refused:
        fill_template(chat_of(tokenizer, template), "Why?")
    assert not isinstance(refused.value, ModelError)  # which is taken for a template that shows no answer
    with pytest.raises(InputError, match=r"^own\.jinja .*(more than|ended)"):
        PromptFile("own.jinja", "0", template).render({"question": "Why?"})
    assert time.monotonic() - start < template_process.PATIENCE


@pytest.mark.parametrize("template", WRONG.values(), ids=[*WRONG])
def test_a_wrong_template_is_a_clear_error(template: str, tokenizer: Any) -> None:
    with pytest.raises(ModelError, match="The chat template cannot be filled in: "):
        fill_template(chat_of(tokenizer, template), "Why?")
    assert turn_of(tokenizer).turn == ""
    with pytest.raises(InputError, match=r"own\.jinja cannot be filled in: "):
        PromptFile("own.jinja", "0", template).render({"question": "Why?"})
    message: list[dict[str, Any]] = [{"role": "user", "content": "Why?"}]
    assert LightTokenizer(None, template, {}).apply_chat_template(message) == "Why?\n\n"


def test_renderings_are_those_of_transformers(tokenizer: Any) -> None:
    for template in (QWEN3, CLOCK):
        chat = chat_of(tokenizer, template)
        message = [{"role": "user", "content": "Fièvre 🤒?"}]
        expected = chat.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        if template == QWEN3:
            assert fill_template(chat, message[0]["content"]) == expected
        else:
            assert has_clock(chat)
            assert "31 Dec 1999" in fill_template(chat, "x", today="1999-12-31")
            assert "1999" not in chat.apply_chat_template(message, tokenize=False)


def test_messages_are_rendered_in_one_request(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []
    ask = template_process._worker.ask

    def counted(what: str, way: str, arguments: Any) -> Any:
        requests.append(way)
        return ask(what, way, arguments)

    monkeypatch.setattr(template_process._worker, "ask", counted)
    texts = ["Why?", "Fièvre 🤒?", "\ud83e", "Why?"]
    for template in (QWEN3, CLOCK):
        chat = chat_of(tokenizer, template)
        alone = [fill_template(chat, text) for text in texts]
        requests.clear()
        with rendered_together(chat, texts):
            assert [fill_template(chat, text) for text in texts] == alone
            assert len(requests) == 1
            # What was not said before, an answered turn and another date are no part of it.
            assert "New?" in fill_template(chat, "New?")
            assert "Flu." in fill_template(chat, "Why?", answer="Flu.")
            assert ("1999" in fill_template(chat, "Why?", today="1999-12-31")) == (template == CLOCK)
        assert fill_template(chat, "Why?") == alone[0]


def test_a_message_that_a_template_refuses_leaves_the_others_their_renderings(tokenizer: Any) -> None:
    chat = chat_of(
        tokenizer, "{% if 'no' in messages[0]['content'] %}{{ 1 / 0 }}{% endif %}{{ messages[0]['content'] }}"
    )
    with rendered_together(chat, ["yes", "no", "2 yes"]):
        assert fill_template(chat, "2 yes") == "2 yes"
        with pytest.raises(ModelError, match="cannot be filled in"):
            fill_template(chat, "no")
        assert fill_template(chat, "yes") == "yes"


def test_the_process_answers_again_after_one_that_it_ended() -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="more than"):
            render_prompt("It", LOOPS, (), {})
        text = "{% if x %}{{ x }}{% endif %}\n"
        assert render_prompt("It", text, ("keep_trailing_newline",), {"x": "é"}) == "é\n"
    with pytest.raises(TemplateError, match="undefined"):
        render_prompt("It", "{% if x %}{% endif %}", ("strict",), {})


def test_placeholders_alone_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_process, "_worker", SimpleNamespace())
    assert render_prompt("It", "{ {{ a }} } {{b}}\n", ("strict",), {"a": "{{ b }}", "b": "2"}) == "{ {{ b }} } 2"
    for more in ("{{ a|upper }}", "{{ a * 9 }}", "{% if a %}{% endif %}", "{# no #}", "{{ a() }}", "{{- a }}"):
        with pytest.raises(AttributeError):
            render_prompt("It", more, (), {"a": "x"})


def test_a_fork_starts_its_own_process() -> None:
    assert render_prompt("It", "{{ 1 + 1 }}", (), {}) == "2"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os._exit(render_prompt("It", "{{ 1 + 2 }}", (), {}) != "3")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert render_prompt("It", "{{ 1 + 3 }}", (), {}) == "4"


def test_a_pattern_that_backtracks_is_refused() -> None:
    names = ["model.layers.0.q_proj", "model.layers.0.k_proj"]
    assert match_patterns("It", [r".*\.q_proj", "nothing"], names) == names[:1]
    for pattern in (r"(.*)*(.*)*(.*)*x", r"(\w+\.?)+!", r"(a|\w|.)*(\w|.)*\d\d\d"):
        with pytest.raises(InputError, match="more than"):
            match_patterns("It", [pattern], ["model.layers.0.self_attn.q_proj" * 2])
    with pytest.raises(TemplateError, match=r"unterminated|missing"):
        match_patterns("It", ["(a"], names)
