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
LONGEST_BACKOFF = 30.0  # seconds
_TOO_LONG = re.compile(r"context.{0,12}(length|window|size)|maximum.{0,20}tokens|too (long|many tokens)", re.I)
_NO_SCHEMA = re.compile(r"response_format|json_schema|json_object|guided|grammar|structured|schema", re.I)
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
    """

    reason: str
    again: bool = False
    ends_run: bool = False
    wait: float | None = None
    maybe_charged: bool = False
    this_alone: bool = False
    refuses_schema: bool = False


def fault_of_status(status: int, headers: Mapping[str, str], message: str, model: str) -> AttemptError:
    """The fault for an HTTP status other than 200; ``message`` is the server's, cleaned (:func:`clean_words`)."""
    server_text = f" The server says: {message}" if message else ""
    if _NO_MONEY.search(message) or status == 402:
        return AttemptError(f"The account has no credit left (HTTP {status}).{server_text}", ends_run=True)
    if status in AGAIN:
        wait = retry_after(headers)
        return AttemptError(f"The server answered HTTP {status}.{server_text}", again=True, wait=wait)
    if status == 401:
        fix = "Is the variable that api_key_env names the one with this server's key?"
        return AttemptError(f"The server refuses the key (HTTP 401). {fix}{server_text}", ends_run=True)
    if status == 404:
        fix = f"Does base_url end in /v1, and does the server know the model {model!r}?"
        unknown = "The server does not know the address or the model (HTTP 404)."
        return AttemptError(f"{unknown} {fix}{server_text}", ends_run=True)
    if 300 <= status < 400:
        fix = "Redirects are not followed: set base_url to the server itself."
        return AttemptError(f"The server points elsewhere (HTTP {status}). {fix}", ends_run=True)
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(message)):
        too_long = f"The prompt and max_tokens are too long for the model (HTTP {status})."
        return AttemptError(f"{too_long}{server_text}", this_alone=True)
    refuses = status in (400, 422, 501) and bool(_NO_SCHEMA.search(message))
    return AttemptError(f"The server refuses the request (HTTP {status}).{server_text}", refuses_schema=refuses)


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
            return " ".join([inside[:2000], *(str(body[key])[:80] for key in ("code",) if body.get(key))])
        if isinstance(inside, Mapping):
            return _message(inside)
        if isinstance(inside, list):  # FastAPI's: each with the whole input beside the message
            return "; ".join(
                str(detail.get("msg", ""))[:200] for detail in inside[:5] if isinstance(detail, Mapping)
            )
    return ""


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
