"""Fields that a server refuses are left out, one by one where it names them; shortened prompts are noticed."""

from __future__ import annotations

from typing import Any

import pytest

from medunlearn.llm import Request
from medunlearn.llm.faults import AttemptError, fault_of_status
from medunlearn.llm.field_support import FieldSupport
from medunlearn.llm.reply import shortened

REQUEST = Request("r", "the text", fields={"top_k": (0, -1), "min_p": (0.0,)})


def refusal(message: str, status: int = 400) -> AttemptError:
    return fault_of_status(status, {}, message, "m")


def body(**fields: Any) -> dict[str, Any]:
    return {"prompt": "the text", "top_k": 0, "min_p": 0.0, "stream": True, **fields}


def test_a_named_field_has_its_other_value_tried_and_is_then_left_out() -> None:
    support = FieldSupport()
    assert support.adapt(refusal("top_k must be positive"), REQUEST, body())
    # Another request was in flight with the same value.
    assert support.adapt(refusal("top_k must be positive"), REQUEST, body())
    assert (support.refused["top_k"], support.left_out(REQUEST)) == (1, ())
    assert support.adapt(refusal("top_k must be positive"), REQUEST, body(top_k=-1))
    assert support.left_out(REQUEST) == ("top_k",)
    assert not support.adapt(refusal("top_p is wrong"), REQUEST, body())
    assert not support.adapt(refusal("min_p", 429), REQUEST, body())


def test_streams_are_given_up_in_two_steps() -> None:
    support = FieldSupport()
    assert support.stream_fields(REQUEST) == {"stream": True, "stream_options": {"include_usage": True}}
    assert support.adapt(refusal("stream_options is unknown"), REQUEST, body())
    assert support.stream_fields(REQUEST) == {"stream": True}
    assert support.adapt(refusal("stream is unknown"), REQUEST, body())
    assert support.stream_fields(REQUEST) == {}
    assert FieldSupport().stream_fields(Request("r", "text", log_probs=0)) == {}


def test_a_refusal_that_names_nothing_is_tried_without_any() -> None:
    support = FieldSupport()
    assert support.without(refusal("no"), REQUEST, body()) == {"prompt": "the text"}
    assert support.without(refusal("no", 401), REQUEST, body()) is None
    assert support.without(refusal("maximum context length"), REQUEST, body()) is None
    support.acquit()
    assert support.without(refusal("no"), REQUEST, body()) is None


@pytest.mark.parametrize(
    ("counted", "text", "is_short"),
    [
        (8, "word " * 50, True),
        (29, "word " * 50, True),
        (30, "word " * 50, False),
        (None, "word " * 50, False),
        (1, "a few words", False),
        (9, "患者は発熱と咳のため入院した。" * 8, True),
        (60, "患者は発熱と咳のため入院した。" * 8, False),
    ],
)
def test_a_shortened_prompt(counted: int | None, text: str, is_short: bool) -> None:
    assert bool(shortened(counted, [text])) == is_short
