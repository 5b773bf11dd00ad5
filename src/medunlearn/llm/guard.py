"""Guard: decides which data may go to which server.

A server on this machine may get all data. Any other may get credentialed data, and records with known identifiers,
only with explicit permission. A run records the decision.

"On this machine" is read from the address alone: ``localhost``, 127.0.0.0/8, ::1. No name is resolved, neither here
nor for the connection (:mod:`medunlearn.llm.connection` connects ``localhost`` to 127.0.0.1 or ::1 by number), so
name servers, hosts files and proxies have no influence. Unusual notations count as another machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from medunlearn.data.data_use import DataUse
from medunlearn.data.origins import REHEARSAL
from medunlearn.data.records import Record
from medunlearn.errors import InputError

FLAG = "--allow-remote-llm"


class RemoteRefusedError(InputError):
    """Data that needs permission would be sent to a server off this machine."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether a server (scheme, host and port, no credentials) may get the data, with the reason.

    ``on_this_machine``: the server is reached over the loopback interface. ``permitted``: the user passed the flag.
    """

    allowed: bool
    server: str
    on_this_machine: bool
    encrypted: bool
    data_use: DataUse | None
    records_with_identifiers: int
    permitted: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The decision for ``run.json``."""
        return asdict(self)

    def enforce(self) -> Decision:
        """Return itself if it allows; else raise a RemoteRefusedError with the reason and the flag."""
        if not self.allowed:
            raise RemoteRefusedError(self.reason)
        return self

    def why_not(self, text: str, identifiers: tuple[str, ...] | None) -> str:
        """Reason why one prompt must stay on this machine; empty if it may go. The last check before sending."""
        if not self.allowed:
            return self.reason
        if self.on_this_machine or self.permitted:
            return ""
        if identifiers is None:
            return f"nobody said which identifiers its record has, and {self.server} is off this machine ({FLAG})"
        plain = _squeeze(text)
        if any(_squeeze(value) in plain for value in identifiers if value.strip()):
            return f"it carries a known identifier, and {self.server} is off this machine ({FLAG} permits it)"
        return ""


def decide(
    base_url: str,
    *,
    data_use: DataUse | None,
    records: Iterable[Record] = (),
    permitted: bool = False,
) -> Decision:
    """Decide whether a server may get the records that prompts will be made from.

    Args:
        data_use: data use of the prompts (:mod:`medunlearn.data.data_use`); None, unknown, counts as credentialed.

    Raises:
        InputError: the address cannot be parsed safely.
    """
    server = server_name(base_url)
    here = base_url == REHEARSAL or is_loopback(read_address(base_url).host)
    identified_records = sum(bool(record.identifiers) for record in records)
    reasons = {
        "the data is credentialed": data_use == "credentialed",
        "nobody says that the data is open": data_use not in ("open", "credentialed"),
        f"{identified_records} records carry identifiers": identified_records,
    }
    why = " and ".join(reason for reason, applies in reasons.items() if applies)
    allowed = here or permitted or not why
    if base_url == REHEARSAL:
        reason = "No server is asked: answers are drawn at random for rehearsal."
    elif here:
        reason = f"{server} is on this machine."
    elif not why:
        reason = f"{server} is off this machine; the data is open and no record carries a known identifier."
    elif permitted:
        reason = f"{server} is off this machine and {why}; permitted by {FLAG}."
    else:
        reason = (
            f"{server} is off this machine, and {why}: it stays here. Use a server on this machine "
            f"(http://127.0.0.1:PORT/v1), or pass {FLAG} if you are permitted to send it there."
        )
    encrypted = server.startswith("https://")
    return Decision(allowed, server, here, encrypted, data_use, identified_records, permitted, reason)


def server_name(base_url: str) -> str:
    """Scheme, host and port of an address; ``rehearsal`` unchanged."""
    if base_url == REHEARSAL:
        return REHEARSAL
    url = read_address(base_url)
    return f"{url.scheme}://{url.netloc.decode()}"


def read_address(base_url: str) -> httpx.URL:
    """Parse a server's address with the parser that the connection uses too.

    Raises:
        InputError: it is not an http(s) address, or is ambiguous about its host.
    """
    # The address itself is not shown in full: a password may stand in it.
    if not re.fullmatch(r"[!-~]+", base_url) or re.search(r"[\\@?#<>\"^`{|}]", base_url):
        raise InputError(
            "The address of a server has forbidden characters (spaces, @, ?, #, \\, or others). "
            "Write http://HOST:PORT/v1; a key belongs in the environment (api_key_env)."
        )
    try:
        url = httpx.URL(base_url)
        port = url.port
    except (httpx.InvalidURL, ValueError) as error:
        raise InputError(f"The address of a server cannot be read: {error}. Write http://HOST:PORT/v1.") from None
    if url.scheme not in ("http", "https") or not url.host or not (port is None or 0 < port < 65536):
        shown = repr(base_url) if "://" in base_url else "The text given"  # it may be a key
        raise InputError(f"{shown} is not a server address: write http://HOST:PORT/v1 or https://HOST/v1.")
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", url.host):
        raise InputError(f"{base_url!r} is not a server address: {url.host!r} is neither a host name nor a number.")
    return url


def is_loopback(host: str) -> bool:
    """True if a host, as written, can only be this machine."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name, or a number such as 127.1 or 2130706433 that only some resolvers understand
    if isinstance(address, ipaddress.IPv6Address):
        return address == ipaddress.IPv6Address("::1")
    return address.is_loopback


def _squeeze(text: str) -> str:
    return " ".join(text.casefold().split())
