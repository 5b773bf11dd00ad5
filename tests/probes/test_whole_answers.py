"""An answer that another limit cut, or that never came, is no answer: its score would understate what is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from medunlearn.data.responses import CUT_ELSEWHERE, REASONING, Response
from medunlearn.metrics import get_metric
from medunlearn.metrics.item_scoring import scores_by_measure
from medunlearn.metrics.measure import FIRST, Item
from medunlearn.probes.response_logs import _batch
from medunlearn.probes.stored_responses import stored_response
from medunlearn.probes.text_questioning import most_tokens, reason_unscored

ASKED = 40
SERVED = Response("q", "greedy", 0, "Ada Vane, born", (), False, content="text", finish_reason="length")


@pytest.mark.parametrize(
    ("response", "is_cut"),
    [
        (replace(SERVED, completion_tokens=5), True),
        (replace(SERVED, completion_tokens=ASKED), False),  # by the limit that was asked for, as on this machine
        (SERVED, False),  # nobody counted
        (replace(SERVED, completion_tokens=5, finish_reason="stop"), False),
        (replace(SERVED, completion_tokens=5, response="", content="empty"), True),
        (stored_response(("q", "greedy", 0), "Ada Vane, born", (), "length"), True),  # by a limit that nobody knows
        (stored_response(("q", "greedy", 0), "Ada Vane, born", (), "stop"), False),
        (stored_response(("q", "greedy", 0), "Ada Vane, born", ()), False),
    ],
)
def test_an_answer_cut_by_another_limit_is_no_answer(response: Response, is_cut: bool) -> None:
    assert (reason_unscored(response, ASKED) == CUT_ELSEWHERE) == is_cut
    assert bool(reason_unscored(response, ASKED)) == is_cut


@pytest.mark.parametrize("content", ["empty", "null"])
def test_reasoning_alone_is_no_answer(content: str) -> None:
    response = replace(SERVED, response="", content=content, reasoning="She was born", finish_reason="stop")
    assert reason_unscored(response, ASKED) == REASONING
    assert not reason_unscored(replace(response, reasoning=None, content="empty"), ASKED)


def test_a_log_tells_why_a_response_ended() -> None:
    choices = [{"message": {"content": "a"}, "finish_reason": "length"}, {"text": "b", "finish_reason": "stop"}]
    row: Any = {"custom_id": "q", "response": {"body": {"choices": choices}}}
    rows: list[Any] = [content for _, content in _batch("1", row, SimpleNamespace(), {"q": {}})]  # type: ignore[arg-type]
    assert [(own["response"], own["finish_reason"]) for own in rows] == [("a", "length"), ("b", "stop")]


def test_the_default_limit_holds_answers_that_are_split_by_characters() -> None:
    answers = ("HX-242121", "two words", "高血压和糖尿病")
    benchmark: Any = SimpleNamespace(questions=[SimpleNamespace(answer=answer) for answer in answers])
    for answer in answers:
        alone: Any = SimpleNamespace(questions=[SimpleNamespace(answer=answer)])
        characters = len([c for c in answer if not (c.isascii() and c.isalpha()) and c != " "])
        assert most_tokens(alone) > max(characters, 2 * len(answer.split()))
        assert most_tokens(benchmark) >= most_tokens(alone)
    assert most_tokens(SimpleNamespace(questions=[])) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["rouge_l", "token_f1", "exact_match"])
@pytest.mark.parametrize(("tokens", "is_scored"), [(5, False), (FIRST, True)])
def test_an_audit_scores_no_text_that_was_cut_before_what_is_read(name: str, tokens: int, is_scored: bool) -> None:
    words = " ".join(f"w{n}" for n in range(FIRST))
    item = Item("q", "forget", "", words, words, range(tokens), reference_tokens=range(120), starts=(words, words))
    for cut, expected in ((True, is_scored), (False, True)):
        (score,) = scores_by_measure([replace(item, cut=cut)], [get_metric(name)])[name]
        assert (score.value is not None) == expected
        assert expected or "was cut" in str(score.reason)
