"""Comparison of ``case.html`` with the page that its evidence gives.

The signature covers the page as it was written, and so also one that says something else than the evidence. A page
of another version of the software cannot be rendered anew; its headline has to be the verdict all the same.
"""

from __future__ import annotations

import hashlib
from html.parser import HTMLParser
from itertools import zip_longest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import medunlearn
from medunlearn.reports.html import to_html
from medunlearn.request.case.evidence import CaseEvidence
from medunlearn.request.case.officer_page import TITLES, officer_report
from medunlearn.request.case.signing_keys import key_id
from medunlearn.results.machine import code
from medunlearn.results.verify import State


def render_page(evidence: CaseEvidence, content: bytes, public_key: Ed25519PublicKey) -> bytes:
    """The page of a case that is signed with a key; ``content`` is its ``evidence.json``."""
    digest = hashlib.sha256(content).hexdigest()
    return to_html(officer_report(evidence, digest, key_id(public_key))).encode()


def compare_page(page: bytes, content: bytes, public_key: Ed25519PublicKey) -> tuple[State, str]:
    """State of a page beside the ``evidence.json`` of its case, and the first line that differs.

    Raises:
        InputError: the evidence cannot be read.
    """
    evidence = CaseEvidence.of(content, "evidence.json")
    expected = render_page(evidence, content, public_key)
    if page == expected:
        return "ok", "rendered anew from the evidence"
    lines = _lines(page)
    title, headline = TITLES[evidence.decision.verdict], _headline(lines)
    if not headline.startswith(title):
        return "differs", f"its headline is {headline!r}, and the evidence gives {title!r}"
    software = evidence.software
    if (software.version, software.commit) != (medunlearn.__version__, code()["commit"]):
        maker = f"version {software.version}" + (f", commit {software.commit[:12]}" if software.commit else "")
        return "not checked", f"made by {maker}: it cannot be rendered anew; its headline is the verdict"
    for ours, its in zip_longest(_lines(expected), lines, fillvalue=""):
        if ours != its:
            start = next((place for place, pair in enumerate(zip(ours, its, strict=False)) if len({*pair}) > 1), 0)
            near = slice(max(0, start - 20), start + 60)
            return "differs", f"it says {its[near]!r} where the evidence gives {ours[near]!r}"
    return "differs", "its text is that of the evidence, and its markup or scripts are not"


def _headline(lines: list[str]) -> str:
    """The first line that begins with the title of a verdict; "" if there is none."""
    return next((line for line in lines if line.startswith(tuple(TITLES.values()))), "")


def _lines(page: bytes) -> list[str]:
    reader = _PageText()
    reader.feed(page.decode(errors="replace"))
    return reader.lines


class _PageText(HTMLParser):
    """Text of a page, a line for each element; without styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._in_code = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._in_code = False

    def handle_data(self, data: str) -> None:
        if not self._in_code and (text := " ".join(data.split())):
            self.lines.append(text)
