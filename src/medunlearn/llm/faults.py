"""Faults of server and network: whether to retry, whether to end the run, and how long to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from medunlearn.seeds import generator

AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
OVERLOADED = frozenset({408, 429, 503, 504, 529})
LONGEST_BACKOFF = 30.0  # seconds
_TOO_LONG = re.compile(r"context.{0,12}(length|window|size)|maximum.{0,20}tokens|too (long|many tokens)", re.I)
_NO_SCHEMA = re.compile(r"response_format|json_schema|json_object|guided|grammar|structured|schema", re.I)
_SCHEMA_FIELD = re.compile(r"response_format|json_schema|json_object|grammar", re.I)
"""Words of a refused answer format beside HTTP 500 (llama-cpp-python); other errors 500 pass."""
CORRECT = "Correct what it names, in the model's name or in a setting (llm.KEY=VALUE)."
NO_SCHEMA_FIX = "It may not take a schema: structured=prompt asks for it in words alone."
_BAD_KEY = re.compile(
    r"authentication.?error|(invalid|incorrect|missing|no|wrong|bad).{0,12}api[ _-]?key|api[ _-]?key.{0,20}"
    r"(invalid|incorrect|missing|not valid|not found|required|passed)|token_not_found|unauthorized",
    re.I,
)
_KEY_STATUSES = frozenset({400, 403, 500})
"""Further statuses with which proxies such as LiteLLM refuse a key, their own or that of the model behind."""
_NO_MODEL = re.compile(
    r"(invalid|unknown|unsupported|wrong|no such|not a valid) model|model\W.{0,60}?(not.{0,6}(found|exist|"
    r"supported|available|loaded)|unknown|is invalid)|model_not_found",
    re.I,
)
_MODEL_STATUSES = frozenset({400, 403, 404, 422, 500})
_NO_MONEY = re.compile(r"insufficient_quota|billing|insufficient.{0,12}(balance|credit|fund)", re.I)
REPEATED = 24  # characters of a prompt in a server's words that count as repeating it


@dataclass(eq=False)
class AttemptError(Exception):
    """A failed attempt.

    Attributes:
        reason: the failure, with a fix if there is one; no prompt text.
        again: worth a retry.
        ends_run: every other request would fail in the same way.
        wait: seconds that the server asked for; None if it did not.
        maybe_charged: the server may have processed it, and may bill it.
        this_alone: specific to this request, such as one that is too long.
        refuses_schema: the server does not support this way of requesting a schema.
        permanent: the same request fails again until settings change: a wrong key, name, address or field.
        overload: fewer requests in flight may help.
        status: HTTP status; 0 without one. ``message``: the server's words, cleaned.
    """

    reason: str
    again: bool = False
    ends_run: bool = False
    wait: float | None = None
    maybe_charged: bool = False
    this_alone: bool = False
    refuses_schema: bool = False
    permanent: bool = False
    overload: bool = False
    status: int = 0
    message: str = ""


def next_step(permanent: bool) -> str:
    """What to do about missing answers.

    Args:
        permanent: a request would fail again as it is.
    """
    if permanent:
        return "Correct this first; then the same command requests only the missing ones"
    return "Run the same command again to request only these"


def fault_of_status(status: int, headers: Mapping[str, str], message: str, model: str) -> AttemptError:
    """The fault for an HTTP status other than 200; ``message`` is the server's, cleaned (:func:`clean_words`)."""
    fault = _fault_of_status(status, headers, message, model)
    fault.status, fault.message = status, message
    return fault


def _fault_of_status(status: int, headers: Mapping[str, str], message: str, model: str) -> AttemptError:
    server_text = f' The server says: "{message}"' if message else ""
    if _NO_MONEY.search(message) or status == 402:
        no_credit = f"The account has no credit left (HTTP {status}): add some.{server_text}"
        return AttemptError(no_credit, ends_run=True)
    if status == 401 or (status in _KEY_STATUSES and _BAD_KEY.search(message)):
        fix = "Is the variable that llm.api_key_env names the one with this server's key?"
        why = f"The server refuses the key (HTTP {status}). {fix}{server_text}"
        return AttemptError(why, ends_run=True, permanent=True)
    if status in _MODEL_STATUSES and _NO_MODEL.search(message):
        why = f"The server does not know the model {model!r} (HTTP {status}). Which ones has it? GET .../v1/models"
        return AttemptError(f"{why}{server_text}", ends_run=True, permanent=True)
    refusal = {400: _NO_SCHEMA, 422: _NO_SCHEMA, 501: _NO_SCHEMA, 500: _SCHEMA_FIELD}.get(status)
    refuses = refusal is not None and bool(refusal.search(message))
    if status in AGAIN:
        wait, way_out = retry_after(headers), f" {NO_SCHEMA_FIX}" if refuses else ""
        why = f"The server answered HTTP {status}.{way_out}{server_text}"
        return AttemptError(why, again=True, wait=wait, refuses_schema=refuses, overload=status in OVERLOADED)
    if status == 404:
        fix = f"Does base_url end in /v1, and does the server know the model {model!r}?"
        unknown = "The server does not know the address or the model (HTTP 404)."
        return AttemptError(f"{unknown} {fix}{server_text}", ends_run=True, permanent=True)
    if 300 <= status < 400:
        fix = "Redirects are not followed: set base_url to the server itself."
        why = f"The server points elsewhere (HTTP {status}). {fix}"
        return AttemptError(why, ends_run=True, permanent=True)
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(message)):
        fix = "Raise the server's context, or ask for less: shorter prompts, fewer tokens."
        too_long = f"The prompt and max_tokens are too long for the model (HTTP {status}). {fix}"
        return AttemptError(f"{too_long}{server_text}", this_alone=True, permanent=True)
    way_out = f" {NO_SCHEMA_FIX if refuses else CORRECT}"
    why = f"The server refuses the request (HTTP {status}).{way_out}{server_text}"
    return AttemptError(why, refuses_schema=refuses, permanent=True)


def clean_words(body: object, prompt: str, secret: str | None) -> str:
    """A server's error message cleaned for logs: one short line, without the key or text of the prompt."""
    words = _message(body)
    if secret:
        words = words.replace(secret, "***")
    words = " ".join(words.split())
    squeezed = " ".join(prompt.split())
    if any(words[at : at + REPEATED] in squeezed for at in range(max(len(words[:2000]) - REPEATED + 1, 0))):
        return "(its words repeat the prompt, and are left out)"
    return words[:300]


def _message(body: object) -> str:
    if isinstance(body, str):
        return body[:2000]
    if not isinstance(body, Mapping):
        return ""
    for name in ("error", "message", "detail"):
        inside = body.get(name)
        if isinstance(inside, str):
            code = str(body.get("code") or "")[:80]
            return f"{inside[:2000]} ({code})" if code and code not in inside else inside[:2000]
        if isinstance(inside, Mapping):
            return _message(inside)
        if isinstance(inside, list):  # FastAPI's: each with the whole input beside the message
            return "; ".join(
                f"{_place(detail)}{str(detail.get('msg', ''))[:200]}"
                for detail in inside[:12]
                if isinstance(detail, Mapping)
            )
    return ""


def _place(detail: Mapping[str, Any]) -> str:
    """``body.top_k: ``, the field that a message of FastAPI is about."""
    place = detail.get("loc")
    return f"{'.'.join(map(str, place))}: "[:80] if isinstance(place, list | tuple) and place else ""


def retry_after(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Seconds to wait by ``retry-after-ms``, or ``Retry-After`` in seconds or as an HTTP date; None without one."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, IndexError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - (now or datetime.now(UTC))).total_seconds(), 0.0)


def backoff(first: float, attempt: int, key: str) -> float:
    """Seconds before the next attempt (0 after the first): doubles up to 30, times a jitter of 0.5-1 derived from
    the key.
    """
    longest = min(first * 2.0 ** min(attempt, 32), LONGEST_BACKOFF)
    return longest * (0.5 + 0.5 * float(generator("llm backoff", key, attempt).random()))
