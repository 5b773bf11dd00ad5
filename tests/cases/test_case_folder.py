"""A case is written whole or not at all: killed at every event, on a full disk, twice, and with a trace in it."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from case_evidence import case_evidence
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from forking import Forked

from medunlearn.cases import case_folder
from medunlearn.cases.case_checks import verify_case
from medunlearn.cases.case_folder import CaseFolder, write_case
from medunlearn.cases.envelope import verified_payload
from medunlearn.cases.evidence import CaseEvidence
from medunlearn.cases.holders.traces import subject_traces
from medunlearn.config import AmnesiaSettings
from medunlearn.errors import InputError, StorageError
from medunlearn.papers.amnesia.build import build


def test_the_statement_names_everything(case: CaseFolder, signer: Ed25519PrivateKey) -> None:
    content = (case.folder / "statement.dsse.json").read_bytes()
    assert case.sha256 == sha256(content).hexdigest()
    statement = json.loads(verified_payload(content, signer.public_key()))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    named = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in case.folder.iterdir()}
    del files["statement.dsse.json"]
    assert files.items() <= named.items()
    assert {*named} - {*files} == {"model-in/model.safetensors", "model-out/model.safetensors", "notes"}
    assert statement["predicate"]["verdict"] == "no residual found"
    assert {stat.S_IMODE(path.stat().st_mode) for path in case.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(case.folder.stat().st_mode) == 0o700


def test_the_bill_of_materials_and_further_files_are_signed(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    case = write_case(tmp_path / "case", case_evidence(), signer, attachments={"report/report.html": b"<p>"})
    bill = json.loads((case.folder / "sbom.cdx.json").read_text())
    assert "cryptography" in {component["name"] for component in bill["components"]}
    checks = {check.name: check.state for check in verify_case(case.folder).checks}
    assert checks["report/report.html"] == checks["sbom.cdx.json"] == "ok"
    for name in ("evidence.json", "/etc/x", "../x", ""):
        with pytest.raises(InputError, match="cannot be a further file"):
            write_case(tmp_path / "other", case_evidence(), signer, attachments={name: b""})


def test_the_same_case_again_is_left_and_another_one_refused(case: CaseFolder, signer: Ed25519PrivateKey) -> None:
    later = case.evidence.model_copy(update={"created": case.evidence.created.replace(year=2027)})
    before = {path: path.read_bytes() for path in case.folder.iterdir()}
    assert write_case(case.folder, later, signer) == case
    with pytest.raises(InputError, match="holds another case"):
        write_case(case.folder, case_evidence(method="rmu"), signer)
    assert {path: path.read_bytes() for path in case.folder.iterdir()} == before


def test_a_folder_with_something_in_it_is_refused(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="not empty"):
            write_case(folder, case_evidence(), signer)
    (tmp_path / "empty").mkdir()
    write_case(tmp_path / "empty", case_evidence(), signer)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_killed_at_every_event_there_is_a_whole_case_or_none(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    evidence = case_evidence()
    whole, ended, place = 0, -signal.SIGKILL, 0
    while ended == -signal.SIGKILL:
        place += 1
        folder = tmp_path / str(place) / "case"
        folder.parent.mkdir()
        ended = Forked(lambda folder=folder, at=place: _killed(folder, evidence, signer, at)).wait()
        assert [path.name for path in folder.parent.glob("[!.]*")] in ([], ["case"])
        if folder.exists():
            assert verify_case(folder).wrong == []
            whole += 1
        case = write_case(folder, evidence, signer)
        assert verify_case(folder, public_key=signer.public_key()).wrong == []
        assert sorted(path.name for path in folder.parent.iterdir()) == ["case"]
        assert case.evidence == evidence
    assert ended == 0
    assert place > 20
    assert whole >= 2


def _killed(folder: Path, evidence: CaseEvidence, signer: Ed25519PrivateKey, at: int) -> None:
    """Write a case; at event number ``at`` the process is killed: a file opened, synced, renamed, a folder made."""
    seen, busy, real = 0, False, os.fsync
    inside = str(folder.parent)

    def reached() -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, values: tuple[Any, ...]) -> None:
        nonlocal busy
        if not busy and event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"):
            busy = True
            if str(values[0]).startswith(inside):
                reached()
            busy = False

    def fsync(file: int) -> None:
        reached()
        real(file)
        reached()

    os.fsync = fsync
    sys.addaudithook(hook)
    write_case(folder, evidence, signer)


@pytest.mark.parametrize("file", ["evidence.json", "sbom.cdx.json", "statement.dsse.json"])
def test_a_full_disk_leaves_nothing(
    signer: Ed25519PrivateKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    real = case_folder._write

    def write(path: Path, content: bytes) -> None:
        if path.name == file:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(case_folder, "_write", write)
    with pytest.raises(StorageError, match="disk is full"):
        write_case(tmp_path / "case", case_evidence(), signer)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_of_the_patient_is_refused(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    """Ids, identifiers and runs of words; in settings, titles and further files, however they are packed."""
    benchmark = build(AmnesiaSettings(synthetic=12))
    record = benchmark.records[3]
    patient = record.groups["patient"]
    traces = subject_traces(benchmark, f"patient={patient}")
    name = next(one.value for one in record.identifiers if one.type == "name")
    words = " ".join(record.text.split()[:40])
    evidence = case_evidence()
    untested = evidence.battery.untested[0]
    hidden = [
        case_evidence(settings={"of": patient}),
        case_evidence(method=name),
        case_evidence(
            battery=evidence.battery.model_copy(
                update={"untested": (untested.model_copy(update={"reason": words}),)}
            )
        ),
    ]
    for place, one in enumerate(hidden):
        with pytest.raises(InputError, match="trace of the patient") as refused:
            write_case(tmp_path / str(place), one, signer, traces=traces)
        assert name not in str(refused.value)
        assert patient not in str(refused.value)
    page = f"<p>{name.replace(' ', '</p><p>')}</p>".encode()
    for content in (page, json.dumps({"text": words}).encode()):
        with pytest.raises(InputError, match="trace of the patient"):
            write_case(tmp_path / "x", evidence, signer, traces=traces, attachments={"report.html": content})
    assert list(tmp_path.iterdir()) == []
    assert write_case(tmp_path / "case", evidence, signer, traces=traces).folder.is_dir()


def test_what_is_no_case_is_not_opened(case: CaseFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no case"):
        CaseFolder.open(tmp_path)
    (case.folder / "evidence.json").unlink()
    with pytest.raises(InputError, match=r"evidence\.json is missing"):
        CaseFolder.open(case.folder)
