"""Deletion requests on a model's card: number, dates and verdicts, without names, ids or pseudonyms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import get_args

from medunlearn.errors import InputError
from medunlearn.models.folders import model_folder
from medunlearn.reports.formatting import ABSENT, count
from medunlearn.request.case.evidence import Verdict
from medunlearn.request.case.ledger import (
    COSTLY,
    LedgerRow,
    RequestLedger,
    carry_ledger,
    ledger_path,
    read_ledger,
    read_ledger_file,
)
from medunlearn.study.model_card import CARD, write_section

TITLE = "## Deletion requests"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LISTED = re.compile(r"^\| \d+ \|.*\| `([0-9a-f]{64})` \|\s*$", re.MULTILINE)


def deletion_section(ledger: RequestLedger) -> str:
    """Section of a model card, in Markdown, on the model's deletion requests; "" without any.

    It lists the dates, verdict and case of each request, and notes where a new model was made since. Content that
    does not belong in a ledger is not shown.
    """
    requests = ledger.requests
    if not requests:
        return ""
    rows = [_row(number, request) for number, request in enumerate(requests, 1)]
    lines = [
        TITLE,
        "",
        f"{count(len(requests), 'deletion request')} by patients, as the model's ledger has them. The last column "
        "is the SHA-256 of the case's signed statement; `medunlearn verify CASE` checks one.",
        "",
        "| request | received | closed | verdict | case |",
        "|---|---|---|---|---|",
        *rows,
    ]
    last = ledger.rows[-1]
    if last.entry.patients == ():
        lines += [
            "",
            f"On {_day(last.entry.closed)} this model was made from that of the last request, by export, merge, "
            "quantization or further training. No request was tested in it again.",
        ]
    return "\n".join(lines) + "\n"


def _row(number: int, request: LedgerRow) -> str:
    entry = request.entry
    verdict = entry.verdict if entry.verdict.removesuffix(COSTLY) in get_args(Verdict) else ABSENT
    case = f"`{entry.case_sha256}`" if _SHA256.fullmatch(entry.case_sha256) else ABSENT
    return f"| {number} | {_day(entry.received)} | {_day(entry.closed)} | {verdict} | {case} |"


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ABSENT


def listed_requests(model: Path) -> Iterator[tuple[Path, str]]:
    """Card, and SHA-256 of the case, of each request that the card of a model or its run lists."""
    for card in dict.fromkeys((model / CARD, Path(model_folder(model)) / CARD)):
        with suppress(OSError, UnicodeDecodeError):
            _, _, section = card.read_text(encoding="utf-8").partition(TITLE)
            yield from ((card, sha256) for sha256 in _LISTED.findall(section.partition("\n## ")[0]))


def carry_to_copy(source: Path, copy: Path) -> str:
    """Copy the ledger of a model to a copy of it in other files, such as one made by `export`.

    Returns:
        The section of the copy's card; "" for a model without requests.

    Raises:
        InputError: the ledger is broken, another model's, or lacks requests that the model's card lists; the copy
            has a ledger of other requests.
    """
    rows = {row.entry.case_sha256 for row in read_ledger_file(ledger_path(source)).requests}
    for card, sha256 in listed_requests(source):
        if sha256 not in rows:
            raise InputError(
                f"{card} lists a request (case {sha256[:12]}) that the ledger lacks. Restore the ledger."
            )
    return deletion_section(carry_ledger(source, copy, on=datetime.now(UTC).date()))


def describe_requests(model: Path) -> None:
    """Write the requests of an exported model's ledger into its card; does nothing without a card.

    Raises:
        InputError: the ledger is broken, or another model's.
    """
    if (model / CARD).exists() and (section := deletion_section(read_ledger(model))):
        write_section(model / CARD, section)
