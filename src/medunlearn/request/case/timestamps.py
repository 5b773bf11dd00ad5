"""Requests for time stamps of a case's statement (RFC 3161), from an authority that the user names; otherwise
nothing is sent.

The authority gets the SHA-256 of ``statement.dsse.json`` and a random number, and nothing else.

Source: RFC 3161 (time stamp protocol): section 2.4.1 the query, 3.4 its transport over HTTP.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cryptography.x509 import Certificate
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from medunlearn.data.storage import write_files
from medunlearn.errors import ConfigError, InputError, first_line
from medunlearn.request.case.signing_keys import STATEMENT
from medunlearn.request.case.timestamp_checks import QUERY, REPLY, Timestamp, TimestampError, check_reply

_PATIENCE = 60.0
_LONGEST = 1 << 20


def timestamp_case(
    folder: Path,
    *,
    url: str | None = None,
    command: str | None = None,
    authority: Sequence[Certificate] = (),
) -> Timestamp:
    """Request a time stamp of a case's statement from an authority; store query and reply in the case.

    Args:
        url: the authority's address, ``http://`` or ``https://``; or instead
        command: reads the query (DER) from standard input and writes the reply to standard output.
        authority: trusted certificates, of which one must vouch for the authority's; empty: not checked.

    Raises:
        ConfigError: not exactly one authority, or an invalid address.
        InputError: no case, or one with a time stamp already.
        TimestampError: no answer, a refusal, or an invalid time stamp.
    """
    if (url is None) == (command is None):
        raise ConfigError(["the authority is missing: give either --url or --command"])
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError([f"--url {url}: an address begins with http:// or https://"])
    if not (folder / STATEMENT).exists():
        raise InputError(f"{folder} holds no case (no {STATEMENT}).")
    if (folder / REPLY).exists():
        raise InputError(f"{folder} has a time stamp already ({REPLY}).")
    statement = (folder / STATEMENT).read_bytes()
    query = TimestampRequestBuilder(statement, HashAlgorithm.SHA256).build().as_bytes()
    reply = _from_command(command, query) if command is not None else _from_address(str(url), query)
    try:
        stamp = check_reply(folder / REPLY, statement, query, reply, authority)
    except TimestampError as error:
        raise TimestampError(
            f"The time stamp was not taken: {error}. The case is complete without it; try again."
        ) from error
    write_files(folder, {QUERY: query, REPLY: reply})
    return stamp


def _from_command(command: str, query: bytes) -> bytes:
    words = shlex.split(command)
    if not words:
        raise InputError("--command is empty: give a program and its arguments.")
    try:
        process = subprocess.run(words, input=query, capture_output=True, timeout=_PATIENCE, check=True)
    except FileNotFoundError:
        raise InputError(f"There is no command {words[0]!r}.") from None
    except subprocess.TimeoutExpired:
        raise TimestampError(f"{words[0]} gave no time stamp in {_PATIENCE:.0f} s. Try again.") from None
    except (subprocess.CalledProcessError, OSError) as error:
        raise TimestampError(f"{words[0]} gave no time stamp: {first_line(error)}. Ask again.") from error
    return process.stdout[:_LONGEST]


def _from_address(address: str, query: bytes) -> bytes:
    import httpx

    kind = {"Content-Type": "application/timestamp-query"}
    try:
        answer = httpx.post(address, content=query, headers=kind, timeout=_PATIENCE)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise TimestampError(f"{address} gave no time stamp: {first_line(error)}. Ask again.") from error
    return answer.content[:_LONGEST]
