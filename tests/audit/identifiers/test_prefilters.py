"""Checks that save searches: what they let through is all that a search of every place finds."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medunlearn.audit.identifiers import written_dates
from medunlearn.audit.identifiers.detectors import DETECTORS
from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan
from medunlearn.audit.identifiers.detectors.patterns import Patterns, rules
from medunlearn.audit.identifiers.finding_shares import find_identifiers
from medunlearn.audit.identifiers.normalized_text import lowered, matches_at, number_starts
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.sensitive import term_lists
from medunlearn.config import check
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import MedunlearnError

SPOKEN = st.characters(max_codepoint=0x17F)


def holds_for_matches(form: re.Pattern[str], holds: Callable[[str, re.Match[str]], object]) -> None:
    """Checks a condition of every match in texts that were made from the expression itself."""

    @settings(
        max_examples=6, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.from_regex(form, alphabet=SPOKEN))
    def run(text: str) -> None:
        for match in form.finditer(text):
            assert holds(text, match), (form.pattern, text)

    run()


def has_any(piece: str, pieces: Sequence[str]) -> bool:
    shape = re.sub(r"\d", "0", lowered(piece).translate(str.maketrans("İıſ", "iis")))
    return any(part in shape for part in pieces)


def test_a_form_that_is_not_searched_has_no_match() -> None:
    for form in rules().forms:
        if form.part is not None:
            part = form.part
            holds_for_matches(form.expression, lambda text, match: part.search(text, max(0, match.start() - 1)))  # noqa: B023
    for (expression, pieces), forms in rules().cued.items():
        holds_for_matches(expression, lambda _, match: has_any(match[0], pieces))  # noqa: B023
        for cued in forms:
            holds_for_matches(cued.cue, lambda _, match: has_any(match[0], cued.needs))  # noqa: B023
    for content in (form for row in term_lists().values() for form in row.forms if form.heads):
        heads = content.heads
        holds_for_matches(content.expression, lambda _, match: match[0].lower().startswith(heads))  # noqa: B023


PIECES = st.sampled_from(
    (
        *(
            "12",
            "3",
            "04",
            "2019",
            "20190304",
            "20190304T1200",
            "-",
            "/",
            ".",
            "年",
            "月",
            "日",
            "IV",
            "X",
            "12345",
        ),
        *(
            "MAR",
            "Mar.",
            "march",
            "mayor",
            "märz",
            "Août",
            "sept",
            "ſept",
            "İ",
            "e\u0301",
            "of",
            "the",
            "a",
            "third",
        ),
        *("two", "thousand", "nineteen"),
    )
)


@settings(max_examples=150, database=None, deadline=None, derandomize=True)
@given(st.lists(st.tuples(PIECES, st.sampled_from(["", " ", " ", "-", "/", "."])), max_size=12))
def test_dates_start_where_a_search_of_every_place_finds_them(pieces: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, pieces))
    starts = number_starts(written_dates._START, text)
    for form in (*written_dates._DIGITS, written_dates._SPACED):
        found = [match.span() for match in matches_at(form, text, starts)]
        assert found == [match.span() for match in form.finditer(text)]
    months = [match.span() for match in written_dates._months(text)]
    assert months == [match.span() for match in written_dates._MONTH.finditer(text) if "ſ" not in match[0]]
    written_dates.dates_in(text)  # a long s was a KeyError


class Deadly(Patterns):
    """Detector that ends a process which is not the first."""

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().find(texts)


def test_a_killed_process_ends_the_search_and_what_was_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DETECTORS, "deadly", f"{Deadly.__module__}:Deadly")
    record = Record("r", "Ada Vane was born on 3 April 1961.", {}, (Identifier("name", "Ada Vane"),))
    outputs = [
        RecordResponse("r", f"p{n:03d}", "r", "greedy", 0, "", f"Ada Vane, {n} May 2019") for n in range(401)
    ]
    several = check(IdentifierSettings, {"detectors": ["deadly"], "processes": 2})
    with pytest.raises(MedunlearnError, match="Was it killed"):
        find_identifiers(outputs, [record], several, folder=tmp_path, quiet=True)
    saved = sorted(path.stem for path in tmp_path.rglob("*.parquet"))
    assert len(saved) == 2
    assert not (tmp_path / "findings.parquet").exists()
    alone = check(IdentifierSettings, {"detectors": ["deadly"], "processes": 1})
    resumed = find_identifiers(outputs, [record], alone, folder=tmp_path, quiet=True)
    plain = check(IdentifierSettings, {"detectors": ["patterns"], "processes": 2})
    pd.testing.assert_frame_equal(
        resumed, find_identifiers(outputs, [record], plain, quiet=True), check_dtype=False
    )
    assert len(resumed) == 2 * len(outputs)
