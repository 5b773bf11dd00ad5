"""From text to a value: never a guess, never an exception of another kind, never slow."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.errors import InputError
from medunlearn.llm.structured import UnusableError, check_schema, read

SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": ["a", "b"]}, "score": {"type": "integer", "minimum": 1, "maximum": 10}},
    "required": ["label"],
    "additionalProperties": False,
}
GOOD = '{"label": "a", "score": 3}'
VALUE = {"label": "a", "score": 3}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  \n{GOOD}\n ",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here you are:\n```json\r\n{GOOD}\n```\nAnything else?",
        f"Sure. {GOOD} That is all.",
        f"As in [1] and {{this}}: {GOOD}",
        f'<think>is it {{"label": "b"}}?</think>\n{GOOD}',
    ],
)
def test_the_one_value_is_found(text: str) -> None:
    assert read(text, SCHEMA) == VALUE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("I think that it is a.", "no JSON value"),
        ("a", "no JSON value"),
        ('"a"', "no JSON value"),
        ('{"label": "a", "sco', "breaks off"),
        ('{"label": "a", "score": 3', "breaks off"),
        ('The answer: {"label": "a"', "breaks off"),
        ('{"items": [{"label": "a"}, {"lab', "breaks off"),
        ("{'label': 'a'}", "no JSON value"),
        (f"{GOOD} or {GOOD}", "2 JSON values"),
        (f"```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```", "2 JSON values"),
        ('{"label": "a", "label": "b"}', "given twice"),
        ('Well: {"label": "a", "label": "a"}', "given twice"),
        ('{"label": "a", "score": NaN}', "NaN is no JSON number"),
        ('{"label": "a", "score": -Infinity}', "Infinity is no JSON number"),
        ('{"label": "a", "score": 1e999}', "too large"),
        ('{"label": "a\\ud800"}', "broken characters"),
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ("{} " * 100, "no single JSON value"),
        ("x" * 1_000_001, "more than 1000000 characters"),
        ("{}", r'\$ must have the keys \["label"\]'),
        ('{"label": "Ana Silva, 61"}', r'\$\.label must be one of \["a", "b"\]'),
        ('{"label": "a", "score": 11}', r"\$\.score must be at most 10"),
        ('{"label": "a", "score": "3"}', r'\$\.score must be of type "integer"'),
        ('{"label": "a", "score": true}', r'\$\.score must be of type "integer"'),
        ('{"label": "a", "Ana Silva": 1}', "a key that the schema does not know$"),
        ("[]", r'\$ must be of type "object"'),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(UnusableError, match=reason) as caught:
        read(text, SCHEMA)
    assert "Ana Silva" not in str(caught.value)


def test_a_hostile_answer_costs_no_time() -> None:
    for text in ('{"a' * 300_000, "[" * 999_999, '{"a": [' * 100_000, "```json\n" * 100_000, "<think>" * 100_000):
        start = time.perf_counter()
        with pytest.raises(UnusableError):
            read(text, SCHEMA)
        assert time.perf_counter() - start < 2


PLAIN: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=4), PLAIN, max_size=4))
def test_any_object_comes_back_from_within_prose(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), f"So: {json.dumps(value, indent=1)} Good?"):
        assert read(text, {"type": "object"}) == value


@given(text=st.text(alphabet=st.sampled_from('{}[]":,a1 \n`\\e-.tfn')))
def test_any_text_is_a_matching_value_or_a_refusal(text: str) -> None:
    try:
        value = read(text, SCHEMA)
    except UnusableError:
        return
    jsonschema.validate(value, SCHEMA)


def test_schemas_are_checked_and_never_go_to_the_network() -> None:
    with pytest.raises(InputError, match="JSON schema is not one"):
        check_schema({"type": "objekt"})
    with pytest.raises(Exception, match=r"(?i)unresolvable"):
        read("{}", {"$ref": "http://127.0.0.1:9/schema.json"})
