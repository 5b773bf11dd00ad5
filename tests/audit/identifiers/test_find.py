"""The tables of an audit's folder: made once, read again, the same in parts; token offsets counted by hand."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.audit.identifiers import finding_shares
from medunlearn.audit.identifiers.finding_shares import find_identifiers
from medunlearn.audit.identifiers.outputs import RecordResponse, ResponseTokens, read_audit, read_outputs
from medunlearn.audit.identifiers.sensitive import find_sensitive
from medunlearn.audit.units import Encoded, Unit, WordsUnit
from medunlearn.config import check
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.records import Identifier, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import InputError, SourceError, UnknownNameError

TEXT = "Ada Quillstane, born 1961-04-03, is a 61-year-old woman. Call 299-555-0123. Notes alcohol abuse."
RECORDS = [
    Record("ada-1", TEXT, {}, (Identifier("name", "Ada Quillstane"),)),
    Record("ben-1", "Ben Vorndrask came.", {}, (Identifier("name", "Ben Vorndrask"),)),
]
SAID = {
    "ada-1@5": "Ada Quillstane, born April 3, 1961; Ben Vorndrask; (299) 555-0123 or 299-555-0199; alcohol abuse",
    "ben-1@5": "Nothing of note.",
}
OUTPUTS = [
    RecordResponse(probe[:5], probe, probe[:3], "greedy", 0, "This is", text) for probe, text in SAID.items()
]


def test_known_and_detected_identifiers_are_in_one_table(tmp_path: Path) -> None:
    findings = find_identifiers(OUTPUTS, RECORDS, folder=tmp_path)
    assert findings[["kind", "match", "owner", "in_record"]].to_numpy().tolist() == [
        ["name", "exact", "record", True],
        ["name", "exact", "other", False],
        ["date", "detected", "record", True],
        ["phone", "detected", "record", True],
        ["phone", "detected", "nobody", False],
    ]
    path = tmp_path / "findings.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(path), findings, check_dtype=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_call_reads_and_changed_records_are_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_identifiers(OUTPUTS, RECORDS, folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(finding_shares, "find_known", lambda *_: pytest.fail("searched again"))
        pd.testing.assert_frame_equal(find_identifiers(OUTPUTS, RECORDS, folder=tmp_path), first)
    without = find_identifiers(OUTPUTS, [Record("ada-1", TEXT, {}), RECORDS[1]], folder=tmp_path)
    assert without.query("match == 'exact'")["owner"].tolist() == ["other"]


def test_a_search_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_shares, "BATCH", 1)
    whole = find_identifiers(OUTPUTS, RECORDS)
    plain, calls = finding_shares.find_detected, []

    def dies(outputs: Any, *rest: Any) -> Any:
        calls.append(outputs)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(outputs, *rest)

    monkeypatch.setattr(finding_shares, "find_detected", dies)
    with pytest.raises(KeyboardInterrupt):
        find_identifiers(OUTPUTS, RECORDS, folder=tmp_path)
    pd.testing.assert_frame_equal(find_identifiers(OUTPUTS, RECORDS, folder=tmp_path), whole, check_dtype=False)
    assert len(calls) == 3
    assert not (tmp_path / ".findings").exists()


def test_sensitive_content_counts_where_the_record_has_it(tmp_path: Path) -> None:
    findings = find_sensitive(OUTPUTS, RECORDS, folder=tmp_path)
    assert findings[["kind", "key", "in_prefix"]].to_numpy().tolist() == [["abuse_history", "alcohol abuse", False]]
    assert (tmp_path / "sensitive.parquet").exists()


def test_an_audits_folder_is_read(tmp_path: Path) -> None:
    probes = pd.DataFrame(OUTPUTS)[["probe_id", "record_id", "subject", "prefix"]]
    probes.to_parquet(tmp_path / "probes.parquet")
    store = ResponseStore(tmp_path / "responses", {"model": "x"})
    store.add([Response(probe, "greedy", 0, text, (), True) for probe, text in reversed(SAID.items())])
    assert read_audit(tmp_path) == OUTPUTS
    probes[:1].to_parquet(tmp_path / "probes.parquet")
    with pytest.raises(InputError, match="1 responses belong to no probe"):
        read_audit(tmp_path)
    with pytest.raises(InputError, match="is not an audit"):
        read_audit(tmp_path / "responses")


def test_a_search_needs_no_torch() -> None:
    code = "import sys, medunlearn.audit.identifiers.search; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_wrong_detector_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="patterns"):
        find_identifiers(OUTPUTS, RECORDS, check(IdentifierSettings, {"detectors": "pattern"}))


def test_any_table_of_records_and_responses_is_read(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_text('record_id,response,text,prefix\nr1,"Ada, 4 May 2012","Ada came on 2012-05-04",\n')
    findings = find_identifiers(*read_outputs(path))
    assert findings[["kind", "value", "in_record"]].to_numpy().tolist() == [["date", "4 May 2012", True]]
    path.write_text("record_id,response\n")
    with pytest.raises(SourceError, match="has no row"):
        read_outputs(path)
    path.write_text("response\nx\n")
    with pytest.raises(SourceError, match="2: has no record_id"):
        read_outputs(path)


class Pairs:
    """Tokens of two characters each: 'ab', 'cd', ...; the last may be one."""

    name, noun, fingerprint = "pairs of characters", "tokens", "pairs/1"

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> Encoded:
        starts = range(0, len(text), 2)
        ids = np.array([sum(map(ord, text[at : at + 2])) for at in starts], dtype=np.uint32)
        return Encoded(ids, np.array([min(at + 2, len(text)) for at in starts], dtype=np.int64))


TWICE = "x Ada Vane, Ada Vane"
IDS = Pairs().encode([TWICE])[0].ids.tolist()


@pytest.mark.parametrize(
    ("unit", "text", "generated", "offsets"),
    [
        # It was Ada Vane , again Ada Vane .
        (WordsUnit(), " It was Ada Vane, again Ada Vane.", None, [[2, 4], [6, 8]]),
        # x_ Ad a_ Va ne _y, and xy _A da _V an e_ y
        (Pairs(), "x Ada Vane y", None, [[1, 5]]),
        (Pairs(), "xy Ada Vane y", None, [[1, 6]]),
        (Pairs(), TWICE, IDS, [[1, 5], [6, 10]]),
        # Beyond the first token that differs from the encoded text, or that was not generated, nothing is known.
        (Pairs(), TWICE, [*IDS[:6], 1, *IDS[7:]], [[1, 5], [None, None]]),
        (Pairs(), TWICE, IDS[:3], [[None, None], [None, None]]),
        (None, TWICE, None, [[None, None], [None, None]]),
    ],
)
def test_token_offsets(unit: Unit | None, text: str, generated: list[int] | None, offsets: list[Any]) -> None:
    records = [Record("r1", "Seen: Ada Vane.", {}, (Identifier("name", "Ada Vane"),))]
    output = RecordResponse("r1", "p1", "s1", "greedy", 0, "Seen", text)
    stored = {} if generated is None else {output.key: generated}
    tokens = None if unit is None else ResponseTokens(unit, stored)
    settings = IdentifierSettings(detectors=(), fuzzy="none")
    table = find_identifiers([output], records, settings, tokens=tokens, quiet=True)
    assert str(table["token"].dtype) == "Int32"
    places = table[["token", "token_end"]].astype(object)
    assert places.where(places.notna(), None).to_numpy().tolist() == offsets
