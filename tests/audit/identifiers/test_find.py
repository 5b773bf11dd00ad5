"""The tables of an audit's folder: made once, read again, and the same in parts."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.audit.identifiers import search
from medunlearn.audit.identifiers.findings import Output
from medunlearn.audit.identifiers.outputs import join_probes, read_audit, read_outputs
from medunlearn.audit.identifiers.search import find_identifiers, find_sensitive
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.records import Identifier, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import InputError, SourceError, UnknownNameError

TEXT = "Ada Quillstane, born 1961-04-03, is a 61-year-old woman. Call 299-555-0123. Notes alcohol abuse."
RECORDS = [
    Record("ada-1", TEXT, {"patient": "ada"}, (Identifier("name", "Ada Quillstane"),)),
    Record("ben-1", "Ben Vorndrask came.", {"patient": "ben"}, (Identifier("name", "Ben Vorndrask"),)),
]
SAID = {
    "ada-1@5": "Ada Quillstane, born April 3, 1961; Ben Vorndrask; (299) 555-0123 or 299-555-0199; alcohol abuse",
    "ben-1@5": "Nothing of note.",
}


PROBES = pd.DataFrame(
    [(f"{record}@5", record, record[:3], "This is") for record in ("ada-1", "ben-1")],
    columns=["probe_id", "record_id", "subject", "prefix"],
)
RESPONSES = pd.DataFrame(
    [(probe, "greedy", 0, said) for probe, said in SAID.items()],
    columns=["probe_id", "variant", "sample", "response"],
)


@pytest.fixture
def audit() -> list[Output]:
    return join_probes(PROBES, RESPONSES)


def test_known_and_detected_identifiers_stand_in_one_table(audit: list[Output], tmp_path: Path) -> None:
    found = find_identifiers(audit, RECORDS, folder=tmp_path)
    told = found[["kind", "match", "owner", "in_record"]].to_numpy().tolist()
    assert told == [
        ["name", "exact", "record", True],
        ["name", "exact", "other", False],
        ["date", "detected", "record", True],
        ["phone", "detected", "record", True],
        ["phone", "detected", "nobody", False],
    ]
    kept = pd.read_parquet(tmp_path / "findings.parquet")
    pd.testing.assert_frame_equal(kept, found, check_dtype=False)
    assert stat.S_IMODE((tmp_path / "findings.parquet").stat().st_mode) == 0o600


def test_a_second_call_reads_and_changed_records_are_searched_again(
    audit: list[Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_identifiers(audit, RECORDS, folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(search, "find_known", lambda *_: pytest.fail("searched again"))
        patch.setattr(search, "find_detected", lambda *_: pytest.fail("searched again"))
        pd.testing.assert_frame_equal(find_identifiers(audit, RECORDS, folder=tmp_path), first)
    without = find_identifiers(audit, [Record("ada-1", TEXT, {}), RECORDS[1]], folder=tmp_path)
    assert without.query("match == 'exact'")["owner"].tolist() == ["other"]


def test_a_search_that_was_cut_off_goes_on(
    audit: list[Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BATCH", 1)
    whole = find_identifiers(audit, RECORDS)
    plain, calls = search.find_detected, []

    def dies(outputs: object, *rest: object) -> object:
        calls.append(outputs)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(outputs, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "find_detected", dies)
    with pytest.raises(KeyboardInterrupt):
        find_identifiers(audit, RECORDS, folder=tmp_path)
    pd.testing.assert_frame_equal(find_identifiers(audit, RECORDS, folder=tmp_path), whole, check_dtype=False)
    assert len(calls) == 3
    assert not (tmp_path / ".findings").exists()


def test_sensitive_content_counts_only_where_the_record_says_the_same(audit: list[Output], tmp_path: Path) -> None:
    found = find_sensitive(audit, RECORDS, folder=tmp_path)
    assert found[["kind", "key", "in_prefix"]].to_numpy().tolist() == [["abuse_history", "alcohol abuse", False]]
    assert (tmp_path / "sensitive.parquet").exists()


def test_an_audits_folder_is_read(audit: list[Output], tmp_path: Path) -> None:
    PROBES.to_parquet(tmp_path / "probes.parquet")
    store = ResponseStore(tmp_path / "responses", {"model": "x"})
    store.add([Response(probe, "greedy", 0, said, (), True) for probe, said in SAID.items()])
    assert read_audit(tmp_path) == audit
    with pytest.raises(InputError, match="is no audit"):
        read_audit(tmp_path / "responses")


def test_a_search_needs_no_torch() -> None:
    code = "import sys, medunlearn.audit.identifiers.search; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_tables_that_do_not_fit_are_refused(audit: list[Output]) -> None:
    with pytest.raises(InputError, match="lacks subject"):
        join_probes(PROBES.drop(columns="subject"), RESPONSES)
    with pytest.raises(InputError, match="1 responses belong to no probe"):
        join_probes(PROBES[:1], RESPONSES)
    with pytest.raises(UnknownNameError, match="patterns"):
        find_identifiers(audit, RECORDS, check(IdentifierSettings, {"detectors": "pattern"}))


def test_any_table_of_records_and_responses_will_do(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_text('record_id,response,text,prefix\nr1,"Ada, 4 May 2012","Ada came on 2012-05-04",\n')
    outputs, records = read_outputs(path)
    found = find_identifiers(outputs, records)
    assert found[["kind", "value", "in_record"]].to_numpy().tolist() == [["date", "4 May 2012", True]]


@pytest.mark.parametrize(
    ("content", "why"), [("record_id,response\n", "has no row"), ("response\nx\n", "said.csv:2: has no record_id")]
)
def test_a_table_without_what_it_needs_is_refused(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "said.csv").write_text(content)
    with pytest.raises(SourceError, match=why):
        read_outputs(tmp_path / "said.csv")
