"""A case is written whole or not at all: killed at every event, on a full disk, twice, and with a trace in it."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from case_evidence import case_evidence
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from forking import Forked

from medunlearn.errors import InputError, StorageError
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.case import case_folder
from medunlearn.request.case.case_checks import verify_case
from medunlearn.request.case.case_folder import CaseFolder, write_case
from medunlearn.request.case.evidence import CaseEvidence
from medunlearn.request.case.statement import verified_payload
from medunlearn.request.holders.traces import subject_traces


def test_the_statement_names_everything(case: CaseFolder, signer: Ed25519PrivateKey) -> None:
    content = (case.folder / "statement.dsse.json").read_bytes()
    assert case.sha256 == sha256(content).hexdigest()
    statement = json.loads(verified_payload(content, signer.public_key()))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    named = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in case.folder.iterdir()}
    del files["statement.dsse.json"]
    assert files.items() <= named.items()
    assert {*named} - {*files} == {"model-in/model.safetensors", "model-out/model.safetensors", "notes"}
    assert statement["predicate"]["verdict"] == "no residual found"
    assert {stat.S_IMODE(path.stat().st_mode) for path in case.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(case.folder.stat().st_mode) == 0o700
    bill = json.loads((case.folder / "sbom.cdx.json").read_text())
    assert "cryptography" in {component["name"] for component in bill["components"]}


def test_the_same_case_again_is_left_and_another_one_refused(case: CaseFolder, signer: Ed25519PrivateKey) -> None:
    later = case.evidence.model_copy(update={"created": case.evidence.created.replace(year=2027)})
    upgraded = later.model_copy(update={"software": later.software.model_copy(update={"version": "9.0"})})
    before = {path: path.read_bytes() for path in case.folder.iterdir()}
    assert write_case(case.folder, later, signer) == case == write_case(case.folder, upgraded, signer)
    with pytest.raises(InputError, match=r"holds another case \(other: method\)"):
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
    whole, exit_code, event = 0, -signal.SIGKILL, 0
    while exit_code == -signal.SIGKILL:
        event += 1
        folder = tmp_path / str(event) / "case"
        folder.parent.mkdir()
        exit_code = Forked(lambda folder=folder, event=event: _killed(folder, evidence, signer, event)).wait()
        assert [path.name for path in folder.parent.glob("[!.]*")] in ([], ["case"])
        whole += folder.exists()
        case = write_case(folder, evidence, signer)
        assert verify_case(folder, public_key=signer.public_key()).wrong == []
        assert sorted(path.name for path in folder.parent.iterdir()) == ["case"]
        assert case.evidence == evidence
    assert exit_code == 0
    assert event > 20
    assert whole >= 2


def _killed(folder: Path, evidence: CaseEvidence, signer: Ed25519PrivateKey, at: int) -> None:
    """Write a case; at event number ``at`` the process is killed: a file opened, synced, renamed, a folder made."""
    events, busy, real = 0, False, os.fsync
    inside = str(folder.parent)

    def reached() -> None:
        nonlocal events
        events += 1
        if events == at:
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
    """Ids, identifiers and runs of words; in settings and titles."""
    benchmark = build(AmnesiaSettings(synthetic=12))
    record = benchmark.records[3]
    patient = record.groups["patient"]
    traces = replace(subject_traces(benchmark, f"patient={patient}"), exact=frozenset({"7"}))
    name = next(identifier.value for identifier in record.identifiers if identifier.type == "name")
    evidence = case_evidence()
    words = {"reason": " ".join(record.text.split()[:40])}
    untested = (evidence.battery.untested[0].model_copy(update=words),)
    for traced in (
        case_evidence(settings={"of": patient}),
        case_evidence(settings={"of": "7"}),
        case_evidence(method=name),
        case_evidence(battery=evidence.battery.model_copy(update={"untested": untested})),
    ):
        with pytest.raises(InputError, match="trace of the patient") as refused:
            write_case(tmp_path / "case", traced, signer, traces=traces)
        assert name not in str(refused.value)
        assert patient not in str(refused.value)
        assert list(tmp_path.iterdir()) == []
    assert write_case(tmp_path / "case", evidence, signer, traces=traces).folder.is_dir()


def test_what_is_no_case_is_not_opened(case: CaseFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no case"):
        CaseFolder.open(tmp_path)
    (case.folder / "evidence.json").unlink()
    with pytest.raises(InputError, match=r"evidence\.json is missing"):
        CaseFolder.open(case.folder)
