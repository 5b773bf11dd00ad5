"""Deletion requests from the model and the notes to the signed case: what comes out, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from broken import poison
from click.testing import CliRunner
from forgetting_world import QUICK, Hospital

from medunlearn import api
from medunlearn.cli.main import app
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError, ModelError
from medunlearn.request.case.ledger import LEDGER, RequestLedger, earlier_records, ledger_path, read_ledger
from medunlearn.request.case.ledger import _write as write_ledger
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.note_reading import ForgottenBeforeError


def patients_of(bench: Path) -> set[str]:
    return {record.groups["patient"] for record in Benchmark.load(bench).records}


def test_a_request_ends_in_a_case_a_model_and_a_ledger(hospital: Hospital, forgotten: Forgotten) -> None:
    evidence, patient = forgotten.case.evidence, hospital.patients[0]
    comparisons = [check.comparison for check in evidence.battery.checks if check.comparison]
    assert any((its.p_before or 1) < 0.01 for its in comparisons), "the model knew the patient"
    assert evidence.method == QUICK["method"]
    checks = api.verify([forgotten.model, forgotten.case.folder], work=forgotten.work, quiet=True)
    assert checks.wrong == []
    (row,) = read_ledger(forgotten.model).requests
    assert (row.entry.case_sha256, row.entry.model_out) == (forgotten.case.sha256, evidence.model_out.fingerprint)
    notes = [note for note in hospital.notes.read_text().splitlines() if patient in note]
    name, number = notes[0].split(",")[4:6]
    for path in forgotten.case.folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(word.encode() in content for word in (patient, name, number)), path
    assert forgotten.report.stat().st_size > 10_000
    assert forgotten.report.parent == forgotten.work / "report"


def test_a_case_of_other_settings_is_refused_before_anything_is_done(
    hospital: Hospital, forgotten: Forgotten
) -> None:
    lines: list[str] = []
    with pytest.raises(InputError, match="facts was 4 and is 9, seed was 0 and is 1"):
        hospital.forget(forgotten.case.folder, hospital.patients[0], facts=9, seed=1, say=lines.append)
    assert lines == []


def test_a_key_that_cannot_sign_a_model_is_refused_before_anything_is_done(
    hospital: Hospital, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"medunlearn\[signing\]|P-256"):
        hospital.forget(tmp_path / "case", hospital.patients[0], model_key=hospital.key)
    assert not [*tmp_path.iterdir()]


def test_the_next_request_leaves_the_earlier_patient_out_and_tests_whether_she_came_back(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path
) -> None:
    first, second, third = hospital.patients[:3]
    (tmp_path / "ids.txt").write_text(f"{second}\n{third}\n")
    few = {"unlearn": {"epochs": 5, "precision": "fp32"}}
    result = hospital.forget(tmp_path / "next", str(tmp_path / "ids.txt"), forgotten.model, **few)
    evidence = result.case.evidence
    assert first not in patients_of(result.work / "bench")
    assert Benchmark.load(result.work / "bench-earlier").split("earlier").forget == (first,)
    earlier = [check for check in evidence.battery.checks if check.concerns == "earlier requests"]
    assert earlier
    assert all(check.comparison is not None for check in earlier)
    assert len(evidence.request.patients) == 2
    assert (evidence.ledger.rows, evidence.notes.earlier_records) == (1, 1)
    assert [len(row.entry.patients) for row in read_ledger(result.model).requests] == [1, 2]
    back = api.verify([hospital.model, result.case.folder], work=result.work, quiet=True)
    (battery,) = [check for check in back.checks if check.what == "battery"]
    assert battery.note.startswith("residual found now")


def with_verdict(model: Path, folder: Path, verdict: str) -> Path:
    """A copy of a model whose last request ended with a verdict, without any case beside it."""
    shutil.copytree(model, folder)
    *before, last = read_ledger(folder).rows
    ledger = RequestLedger(tuple(before)).extended(replace(last.entry, verdict=verdict))
    write_ledger(ledger_path(folder), ledger)
    return folder


@pytest.mark.parametrize("verdict", ["residual found", "inconclusive", "no baseline", "deleted, others not kept"])
def test_an_open_request_is_repeated_on_the_model_that_came_out(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path, verdict: str
) -> None:
    model = with_verdict(forgotten.model, tmp_path / "open", verdict)
    secret, ledger = OwnerSecret.beside(hospital.key), read_ledger(model)
    patient, other = hospital.patients[:2]
    owners = [("a", patient), ("b", other)]
    assert earlier_records(ledger, secret, owners).subjects == {patient: 0}
    assert earlier_records(ledger, secret, owners, again=[other]).subjects == {patient: 0}
    assert earlier_records(ledger, secret, owners, again=[patient]).subjects == {}
    closed = with_verdict(forgotten.model, tmp_path / "closed", "no residual found")
    assert earlier_records(read_ledger(closed), secret, owners, again=[patient]).subjects == {patient: 0}


def test_who_was_forgotten_before_or_is_not_there_is_told_without_another_id(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path
) -> None:
    again, *others = hospital.patients
    model = with_verdict(forgotten.model, tmp_path / "closed", "no residual found")
    with pytest.raises(ForgottenBeforeError, match="row 1") as refused:
        hospital.forget(tmp_path / "again", again, model)
    assert not any(name in str(refused.value) for name in others)
    for patient in (again, "999999"):
        result = CliRunner().invoke(app, [str(word) for word in hospital.words(tmp_path / "c", patient, model)])
        assert result.exit_code == 2
        assert patient in result.stderr
        assert not any(name in result.stderr for name in others)
        assert not (tmp_path / "c").exists()


def test_a_ledger_of_another_model_is_refused(hospital: Hospital, forgotten: Forgotten, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(hospital.model, model)
    shutil.copy(forgotten.model / LEDGER, model / LEDGER)
    with pytest.raises(InputError, match="ledger"):
        hospital.forget(tmp_path / "case", hospital.patients[1], model)


def test_a_model_that_never_saw_the_notes_has_nothing_to_forget(
    hospital: Hospital, stranger: Path, tmp_path: Path
) -> None:
    result = hospital.forget(tmp_path / "case", hospital.patients[0], stranger)
    evidence = result.case.evidence
    assert (evidence.method, result.trials) == ("none", ())
    assert evidence.decision.verdict == "inconclusive"
    assert evidence.battery.checks
    page = (result.case.folder / "case.html").read_text()
    assert "nothing was trained" in page
    assert "still knows the patient" not in page


def test_a_method_that_did_nothing_leaves_a_residual_beside_a_model_that_never_saw_her(
    hospital: Hospital, stranger: Path, tmp_path: Path
) -> None:
    nothing = {"method": "npo", "unlearn": {"epochs": 0}, "retrained": stranger}
    result = hospital.forget(tmp_path / "case", hospital.patients[0], **nothing)
    evidence = result.case.evidence
    assert evidence.decision.verdict == "residual found"
    assert {check.comparison.baseline for check in evidence.battery.checks if check.comparison} == {
        "retrained model"
    }
    assert all(check.retrained is not None for check in evidence.battery.checks)
    models = [model["label"] for model in read_json(result.report.with_suffix(".json"))["models"]]
    assert models == ["target", "NPO", "retrained"]


def test_a_wrecked_model_is_inconclusive(hospital: Hospital, tmp_path: Path) -> None:
    result = hospital.forget(tmp_path / "case", hospital.patients[0], method="broken:Silence", unlearn={})
    assert result.case.evidence.decision.verdict == "inconclusive"
    assert "The model is broken" in result.case.evidence.decision.reasons[0]


def test_a_broken_model_is_refused(hospital: Hospital, tmp_path: Path) -> None:
    shutil.copytree(hospital.model, tmp_path / "model")
    with pytest.raises(ModelError, match="NaN"):
        hospital.forget(tmp_path / "case", hospital.patients[0], poison(tmp_path / "model"))
    assert not (tmp_path / "case").exists()
