"""Time stamps of a case's statement by an authority that the user names; otherwise nothing is sent.

The authority gets the SHA-256 of ``statement.dsse.json`` and a random number, and nothing else.

Source: RFC 3161 (time stamp protocol): section 2.4.1 the query, 2.4.2 the reply, 3.4 its transport over HTTP.
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
import subprocess
from pathlib import Path

from medunlearn.cases.signing_keys import STATEMENT
from medunlearn.data.storage import write_together, writer
from medunlearn.errors import ConfigError, InputError, MedunlearnError, first_line

QUERY, REPLY = "statement.tsq", "statement.tsr"
_SHA256 = bytes.fromhex("300d06096086480165030402010500")
"""AlgorithmIdentifier of SHA-256 in DER."""
_PATIENCE = 60.0
_LONGEST = 1 << 20


class TimestampError(MedunlearnError):
    """The authority gave no time stamp; the case is complete without it."""


def timestamp_case(folder: Path, *, url: str | None = None, command: str | None = None) -> Path:
    """Request a time stamp of a case's statement from an authority; store query and reply in the case.

    Args:
        url: the authority's address, ``http://`` or ``https://``; or instead
        command: reads the query (DER) from standard input and writes the reply to standard output.

    Raises:
        ConfigError: not exactly one authority, or an invalid address.
        InputError: no case, or one with a time stamp already.
        TimestampError: no answer, a refusal, or a reply for another statement.
    """
    if (url is None) == (command is None):
        raise ConfigError(["the authority is missing: give either --url or --command"])
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError([f"--url {url}: an address begins with http:// or https://"])
    if not (folder / STATEMENT).exists():
        raise InputError(f"{folder} holds no case (no {STATEMENT}).")
    if (folder / REPLY).exists():
        raise InputError(f"{folder} has a time stamp already ({REPLY}).")
    query = timestamp_query((folder / STATEMENT).read_bytes(), secrets.randbits(63))
    reply = _from_command(command, query) if command is not None else _from_address(str(url), query)
    if problem := reply_problem(query, reply):
        raise TimestampError(
            f"The time stamp was not taken: {problem}. The case is complete without it; try again."
        )
    write_together({folder / QUERY: writer(query), folder / REPLY: writer(reply)})
    return folder / REPLY


def timestamp_query(content: bytes, nonce: int) -> bytes:
    """A TimeStampReq in DER: version 1, SHA-256 of a content, a nonce of at most 63 bits, certificates wanted."""
    imprint = _der(0x30, _SHA256, _der(0x04, hashlib.sha256(content).digest()))
    number = nonce.to_bytes(nonce.bit_length() // 8 + 1, "big")
    return _der(0x30, _der(0x02, b"\x01"), imprint, _der(0x02, number), _der(0x01, b"\xff"))


def timestamp_problem(folder: Path) -> str:
    """Reason why a case's time stamp does not match its statement; "" if it matches.

    The authority's signature is not checked: that takes its certificate (``openssl ts -verify``).
    """
    if not (folder / QUERY).exists():
        return f"{QUERY} is missing"
    query = (folder / QUERY).read_bytes()
    if _imprint(query) != hashlib.sha256((folder / STATEMENT).read_bytes()).digest():
        return "it is of another statement"
    return reply_problem(query, (folder / REPLY).read_bytes())


def reply_problem(query: bytes, reply: bytes) -> str:
    """Reason why a reply does not answer a query; "" if it does."""
    try:
        tag, content, rest = _read(reply)
        _, status, _ = _read(content)
        kind, number, _ = _read(status)
        token = content[len(content) - len(_read(content)[2]) :]
    except (IndexError, ValueError):
        return "the reply is no RFC 3161 time stamp"
    if tag != 0x30 or kind != 0x02 or rest:
        return "the reply is no RFC 3161 time stamp"
    if number not in (b"\x00", b"\x01"):
        return f"the authority refused (status {int.from_bytes(number, 'big')})"
    if _imprint(query) not in token or _nonce(query) not in token:
        return "the reply is of something else"
    return ""


def _imprint(query: bytes) -> bytes:
    """The hash in a query; b"" if the bytes are not a query."""
    place = query.find(_SHA256) + len(_SHA256)
    return query[place + 2 : place + 34] if query[place : place + 2] == b"\x04\x20" else b""


def _nonce(query: bytes) -> bytes:
    """The nonce of a query, DER-encoded with its tag and length."""
    place = query.find(_SHA256) + len(_SHA256) + 34
    return query[place : place + 2 + query[place + 1]]


def _der(tag: int, *parts: bytes) -> bytes:
    """Encode a value of fewer than 128 bytes in DER."""
    content = b"".join(parts)
    return bytes([tag, len(content)]) + content


def _read(data: bytes) -> tuple[int, bytes, bytes]:
    """Split DER into the first value's tag and content, and the rest.

    Raises:
        IndexError: it is empty.
        ValueError: cut off.
    """
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("cut off")
    return tag, data[start : start + length], data[start + length :]


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
