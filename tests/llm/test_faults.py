"""Faults worth a retry, messages about the others, and waiting times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from medunlearn.llm.faults import AttemptError, backoff, clean_words, fault_of_status, next_step, retry_after

REPEATED = "(its words repeat the prompt, and are left out)"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def of(status: int, message: str = "", **headers: str) -> AttemptError:
    return fault_of_status(status, headers, message, "qwen")


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_passing_faults_are_sent_again(status: int) -> None:
    fault = of(status)
    assert (fault.again, fault.ends_run) == (True, False)


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (401, "", "api_key_env"),
        (404, "", "model 'qwen'"),
        (302, "", "Redirects are not followed"),
        (307, "", "Redirects are not followed"),
        (402, "", "no credit"),
        (429, "You exceeded your quota insufficient_quota", "no credit"),
    ],
)
def test_faults_that_would_meet_every_request_end_the_run(status: int, message: str, says: str) -> None:
    fault = of(status, message)
    assert (fault.again, fault.ends_run) == (False, True)
    assert says in fault.reason


def test_a_note_that_is_too_long_says_nothing_about_others() -> None:
    for message in (
        "This model's maximum context length is 4096 tokens",
        "context_length_exceeded",
        "Requested tokens exceed context window of 2048",
        "prompt is too long",
    ):
        fault = of(400, message)
        assert (fault.again, fault.ends_run, fault.this_alone) == (False, False, True)
        assert "too long" in fault.reason


def test_a_server_without_schemas_is_told_from_other_refusals() -> None:
    assert of(400, "response_format is not supported").refuses_schema
    assert of(422, "Invalid schema for guided decoding").refuses_schema
    assert not of(400, "temperature is not supported").refuses_schema
    assert not of(500, "schema").refuses_schema


def test_a_schema_refused_as_an_internal_error_is_told_from_overload() -> None:
    """llama-cpp-python answers 500 where it does not know the type of a response_format."""
    words = "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}]"
    fault = of(500, words)
    assert (fault.refuses_schema, fault.again) == (True, True)
    assert "structured=prompt" in fault.reason
    assert "structured=prompt" not in of(500, "out of memory").reason


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Authentication Error, No api key passed in."),
        (500, "Authentication Error, Invalid proxy server token passed"),
        (403, "API key not valid"),
        (400, "AuthenticationError: OpenAIException - Incorrect API key provided: sk-1***"),
    ],
)
def test_a_proxys_words_on_a_key_end_the_run(status: int, message: str) -> None:
    fault = of(status, message)
    assert (fault.again, fault.ends_run, fault.permanent) == (False, True, True)
    assert "api_key_env" in fault.reason


def test_what_the_same_command_cannot_mend() -> None:
    permanent = [of(status).permanent for status in (400, 401, 404, 307, 413, 422)]
    assert permanent == [True] * 6
    assert not any(of(status).permanent for status in (402, 408, 429, 500, 503))
    assert next_step(True) != next_step(False)
    # Our words and the server's do not run into each other.
    assert of(401, "Invalid API Key 401").reason.endswith('says: "Invalid API Key 401"')


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_backoff_doubles_up_to_a_bound_with_jitter_of_its_own() -> None:
    waits = [backoff(0.5, attempt, "key") for attempt in range(12)]
    for attempt, wait in enumerate(waits):
        whole = min(0.5 * 2**attempt, 30)
        assert whole / 2 <= wait <= whole
    assert backoff(0.5, 3, "key") == waits[3]
    assert len({backoff(0.5, 3, f"key {n}") for n in range(20)}) == 20
    assert backoff(0.5, 10**6, "key") <= 30


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no\n  good"}}, "no good"),
        ({"message": "bad", "code": "x_y"}, "bad (x_y)"),
        ({"error": "bad"}, "bad"),
        ({"detail": [{"msg": "field required", "loc": ["a"], "input": "Ana Silva"}]}, "a: field required"),
        ("<html>", "<html>"),
        (None, ""),
        ([1], ""),
        ({"error": {"message": ["x"]}}, ""),
        ({"message": "key sk-123 is wrong"}, "key *** is wrong"),
        ({"message": "x" * 5000}, "x" * 300),
        ({"message": "cannot read 'The patient Ana Silva, 61, was seen'"}, REPEATED),
    ],
)
def test_a_servers_words_are_fit_for_a_log(body: Any, words: str) -> None:
    prompt = "Label this.\nThe patient Ana Silva,\n61, was seen in May."
    assert clean_words(body, prompt, "sk-123") == words
