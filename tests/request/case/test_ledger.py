"""The ledger: a chain that goes on with the model, told from another model's, and no list of patients."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_evidence import SECRET
from forking import Forked

from medunlearn.errors import InputError
from medunlearn.models.folders import model_identity
from medunlearn.request.case.ledger import (
    LEDGER,
    LedgerEntry,
    RequestLedger,
    append_request,
    carry_ledger,
    earlier_records,
    read_ledger,
    read_ledger_file,
)
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.results.record import RunRecord

Model = Callable[[str], Path]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """``model("a")``: a run with a model of these weights."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "config.json").write_text("{}")
        (folder / "model" / "model.safetensors").write_text(name)
        RunRecord("train", name, "key", "complete", results={"steps": 1}).write(folder)
        return folder

    return make


def entry(before: Path, after: Path, *patients: str, case: str = "c0", secret: OwnerSecret = SECRET) -> LedgerEntry:
    return LedgerEntry(
        tuple(map(secret.pseudonym, patients)), "2026-03-02", "2026-03-09", "no residual found", case,
        model_identity(str(before)), model_identity(str(after)), secret.secret_id,
    )  # fmt: skip


@pytest.fixture
def three(model: Model) -> list[Path]:
    """Runs a, b and c: b forgot Ada, c Bo and Cy as well."""
    a, b, c = map(model, "abc")
    append_request(a, b, entry(a, b, "ada", case="c1"))
    append_request(b, c, entry(b, c, "bo", "cy", case="c2"))
    return [a, b, c]


def test_requests_add_up_along_the_models(three: list[Path]) -> None:
    a, b, c = three
    assert read_ledger(a) == RequestLedger()
    first, second = read_ledger(b), read_ledger(c / "model")
    assert second.rows[0] == first.rows[0]
    assert second.rows[1].previous == first.head
    assert [len(row.entry.patients) for row in second.rows] == [1, 2]
    assert second.model == model_identity(str(c))
    assert second.row_of("c2") == second.rows[1]
    record = RunRecord.read(c)
    assert record.results["requests"] == {"rows": 2, "head": second.head}
    assert record.results["steps"] == 1
    assert {**(record.tables or {})}.keys() == {LEDGER}
    assert oct((c / LEDGER).stat().st_mode)[-3:] == "600"


def test_the_same_case_is_written_once(three: list[Path]) -> None:
    _, b, c = three
    before = (c / LEDGER).read_bytes()
    append_request(b, c, entry(b, c, "bo", "cy", case="c2"))
    assert (c / LEDGER).read_bytes() == before
    with pytest.raises(InputError, match="contains other requests"):
        append_request(b, c, entry(b, c, "dee", case="c3"))


def test_earlier_patients_are_told_by_the_secret_and_the_notes(three: list[Path]) -> None:
    owners = [("n1", "ada"), ("n2", "eve"), ("n3", "bo"), ("n4", "ada")]
    earlier = earlier_records(read_ledger(three[2]), SECRET, owners)
    assert earlier.records == ("n1", "n3", "n4")
    assert earlier.subjects == {"ada": 0, "bo": 1}
    assert earlier.absent == (SECRET.pseudonym("cy"),)
    assert earlier_records(RequestLedger(), SECRET, owners).records == ()
    with pytest.raises(InputError, match="another secret"):
        earlier_records(read_ledger(three[2]), OwnerSecret(bytes(32)), owners)
    content = (three[2] / LEDGER).read_bytes() + (three[2] / "run.json").read_bytes()
    assert not any(name in content for name in (b"ada", b"n1"))


def test_an_earlier_patient_whose_id_had_the_zero_of_a_spreadsheet_stays_out(model: Model) -> None:
    a, b = map(model, "ab")
    append_request(a, b, entry(a, b, "4711.0", "12"))
    earlier = earlier_records(read_ledger(b), SECRET, [("n1", "4711"), ("n2", "12"), ("n3", "471")])
    assert (earlier.records, earlier.subjects, earlier.absent) == (("n1", "n2"), {"4711": 0, "12": 0}, ())


def test_another_secret_cannot_go_on_with_a_ledger(three: list[Path], model: Model) -> None:
    c, d = three[2], model("d")
    with pytest.raises(InputError, match="another secret"):
        append_request(c, d, entry(c, d, "dee", case="c3", secret=OwnerSecret(bytes(32))))
    assert not (d / LEDGER).exists()


def test_the_ledger_of_another_model_is_refused(three: list[Path]) -> None:
    _, b, c = three
    (b / LEDGER).write_bytes((c / LEDGER).read_bytes())
    with pytest.raises(InputError, match="another model"):
        read_ledger(b)
    (c / "model" / "model.safetensors").write_text("trained further")
    with pytest.raises(InputError, match="another model"):
        read_ledger(c)


def test_a_model_that_was_trained_further_takes_its_ledger_along(three: list[Path], model: Model) -> None:
    c, d = three[2], model("d")
    for _ in range(2):
        ledger = carry_ledger(c, d, secret=SECRET, on=date(2026, 4, 1))
    assert ledger == read_ledger(d)
    assert [row.entry.verdict for row in ledger.rows][-1] == "carried over"
    assert len(ledger.requests) == 2
    assert earlier_records(ledger, SECRET, [("n1", "ada")]).records == ("n1",)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:1],  # cut off
        lambda rows: [],
        lambda rows: rows[1:],
        lambda rows: rows[::-1],
        lambda rows: [rows[0], {**rows[1], "received": "2020-01-01"}],
        lambda rows: [{**rows[0], "patients": rows[1]["patients"]}, rows[1]],
        lambda rows: [{**rows[0], "patients": None}, rows[1]],
        lambda rows: [rows[0], {**rows[1], "verdict": None}],
        lambda rows: [rows[0], {**rows[1], "row": 7}],
    ],
)
def test_a_changed_ledger_is_refused(three: list[Path], change: Callable[[list[Any]], list[Any]]) -> None:
    path = three[2] / LEDGER
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)
    with pytest.raises(InputError, match=r"requests\.parquet"):
        read_ledger(three[2])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"text"])
def test_a_broken_ledger_is_refused_and_never_taken_for_an_empty_one(three: list[Path], content: bytes) -> None:
    (three[2] / LEDGER).write_bytes(content)
    with pytest.raises(InputError, match="Restore it from a copy"):
        read_ledger(three[2])
    (three[2] / LEDGER).unlink()
    with pytest.raises(InputError, match="truncated or replaced"):
        read_ledger(three[2])


def test_two_processes_append_one_after_the_other(three: list[Path], model: Model) -> None:
    """Of two different requests on one model into one folder, one is refused; nothing is lost or mixed."""
    c, d = three[2], model("d")
    both = [Forked(lambda n=n: append_request(c, d, entry(c, d, f"p{n}", case=f"c{n}"))) for n in (3, 4)]
    assert sorted(process.wait() for process in both) == [0, 1]
    assert len(read_ledger(d).rows) == 3


def test_a_killed_write_is_completed(three: list[Path]) -> None:
    """The ledger stands before the record names its head."""
    _, b, c = three
    record = json.loads((c / "run.json").read_text())
    record["results"]["requests"] = RunRecord.read(b).results["requests"]
    del record["tables"]
    (c / "run.json").write_text(json.dumps(record))
    assert len(read_ledger(c).rows) == 2
    append_request(b, c, entry(b, c, "bo", "cy", case="c2"))
    assert RunRecord.read(c).results["requests"]["rows"] == 2
    assert LEDGER in (RunRecord.read(c).tables or {})


def test_rows_are_hashed_over_everything_in_them(three: list[Path]) -> None:
    ledger = read_ledger_file(three[2] / LEDGER)
    own = ledger.rows[1].entry
    hashes = {ledger.extended(own).head, ledger.head}
    for name in ("received", "closed", "verdict", "case_sha256", "model_in", "model_out", "secret"):
        hashes.add(ledger.extended(replace(own, **{name: "x"})).head)
    assert len(hashes) == 9
