"""Verification of a case: a changed byte is found and its file named; other keys, models and ledgers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from case_evidence import case_evidence, checked, measured
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.errors import InputError
from medunlearn.request.case.case_checks import verify_case
from medunlearn.request.case.case_folder import CaseFolder, write_case
from medunlearn.request.case.digests import digest_model
from medunlearn.request.case.evidence import Battery, CaseEvidence
from medunlearn.request.case.ledger import LEDGER, LedgerEntry, append_request
from medunlearn.request.case.verdicts import RULES
from medunlearn.results.verify import Check


def wrong(case: CaseFolder, *more: Path, key: Ed25519PrivateKey | None = None) -> list[Check]:
    return verify_case(case.folder, *more, public_key=key.public_key() if key else None).wrong


def test_an_untouched_case_is_well(case: CaseFolder, signer: Ed25519PrivateKey) -> None:
    checks = verify_case(case.folder, public_key=signer.public_key()).checks
    assert {check.state for check in checks} == {"ok", "not checked"}
    assert [check.what for check in checks if check.state == "not checked"] == ["model", "battery"]
    own = verify_case(case.folder).checks
    assert ("signer", "not checked") in {(check.what, check.state) for check in own}


@pytest.mark.parametrize(
    "name",
    [
        "case.html", "evidence.json", "evidence.schema.json", "settings.json", "sbom.cdx.json", "public-key.pem",
        "statement.dsse.json",
    ],
)  # fmt: skip
def test_a_changed_byte_anywhere_is_found_and_named(case: CaseFolder, signer: Ed25519PrivateKey, name: str) -> None:
    path = case.folder / name
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 20)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert name in {check.name for check in wrong(case)}, place
        assert name in {check.name for check in wrong(case, key=signer)}, place
    for changed in (content + b"\n", content[:-1], b""):
        path.write_bytes(changed)
        assert name in {check.name for check in wrong(case, key=signer)}
    path.unlink()
    missing = [check for check in wrong(case, key=signer) if check.name == name]
    assert [check.state for check in missing][:1] == ["missing"]


def test_another_key_is_told_from_a_changed_case(case: CaseFolder) -> None:
    (check,) = wrong(case, key=Ed25519PrivateKey.generate())
    assert "another key signed it" in check.note


def test_a_case_that_was_signed_anew_is_told_by_the_owners_key(
    case: CaseFolder, signer: Ed25519PrivateKey, tmp_path: Path
) -> None:
    better = case_evidence(method="rmu")
    forged = write_case(tmp_path / "forged", better, Ed25519PrivateKey.generate())
    assert wrong(forged) == []
    assert [check.what for check in wrong(forged, key=signer)] == ["signature"]


def test_a_verdict_that_the_numbers_do_not_give_is_told(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    battery = Battery(name="b", version="1", checks=(checked(p=1e-6, excess=measured(0.5, 0.4, 0.6)),))
    honest = case_evidence(battery=battery)
    assert honest.decision.verdict == "residual found"
    lie = honest.model_copy(update={"decision": case_evidence().decision.model_copy(update={"bounds": ()})})
    (check,) = wrong(write_case(tmp_path / "case", lie, signer))
    assert (check.name, "another verdict" in check.note) == ("evidence.json", True)


@pytest.mark.parametrize("change", [{"others": "not kept"}, {"patients": ()}], ids=["others", "patients"])
def test_every_part_of_the_verdict_follows_from_the_numbers(
    signer: Ed25519PrivateKey, tmp_path: Path, change: dict[str, object]
) -> None:
    honest = case_evidence()
    assert (honest.decision.others, len(honest.decision.patients)) == ("kept", 1)
    lie = honest.model_copy(update={"decision": honest.decision.model_copy(update=change)})
    (check,) = wrong(write_case(tmp_path / "case", lie, signer))
    assert (check.name, "another verdict" in check.note) == ("evidence.json", True)


@pytest.mark.parametrize(("version", "state"), [("4", "not checked"), (RULES, "differs")])
def test_a_verdict_by_older_rules_is_signed_and_not_computed_again(
    signer: Ed25519PrivateKey, tmp_path: Path, version: str, state: str
) -> None:
    battery = case_evidence().battery.model_copy(update={"name": "forget", "version": version})
    older = case_evidence().decision.model_copy(update={"verdict": "inconclusive", "patients": ()})
    case = write_case(tmp_path / "case", case_evidence(battery=battery, decision=older), signer)
    result = verify_case(case.folder, public_key=signer.public_key())
    (check,) = [check for check in result.checks if check.what == "evidence"]
    assert (check.state, "battery version 3" in check.note) == (state, version == "3")


def test_a_verdict_outlives_the_words_of_its_version(signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    evidence = case_evidence()
    worded = evidence.decision.model_copy(update={"reasons": ("As an older version said it.",)})
    case = write_case(tmp_path / "case", evidence.model_copy(update={"decision": worded}), signer)
    assert wrong(case) == []
    (note,) = (check.note for check in verify_case(case.folder).checks if check.what == "evidence")
    assert "words the reasons" in note


def test_a_file_that_is_not_signed_is_listed(case: CaseFolder) -> None:
    (case.folder / "more.html").write_text("x")
    (case.folder / "link").symlink_to(case.folder / "more.html")
    orphans = [check.name for check in verify_case(case.folder).checks if check.state == "orphan"]
    assert orphans == ["link", "more.html"]


def test_no_case_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match="holds no case"):
            verify_case(folder)


# With models.


@pytest.fixture
def models(tmp_path: Path) -> Callable[[str], Path]:
    """``models("in")`` and ``models("out")``: folders with a config and weights; the case is about them."""
    for name in ("in", "out"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_text(name)
    return lambda name: tmp_path / name


@pytest.fixture
def closed(models: Callable[[str], Path], signer: Ed25519PrivateKey, tmp_path: Path) -> CaseFolder:
    """A case about the two models, with its row in the ledger."""
    before, after = digest_model(models("in")), digest_model(models("out"))
    case = write_case(tmp_path / "case", case_evidence(model_in=before, model_out=after), signer)
    append_request(models("in"), models("out"), LedgerEntry.of(case.evidence, case.sha256))
    return case


def test_a_model_is_checked_against_its_case(closed: CaseFolder, models: Callable[[str], Path]) -> None:
    checks = verify_case(closed.folder, models("out")).checks
    states = {(check.what, check.name): check.state for check in checks}
    assert states["model file", "model.safetensors"] == states["ledger", LEDGER] == "ok"
    assert wrong(closed, models("out")) == []
    (before,) = [check for check in wrong(closed, models("in")) if check.what == "model"]
    assert "the model that went in" in before.note
    (models("out") / "model.safetensors").write_text("quantized")
    (models("out") / "tokenizer.json").write_text("{}")
    notes = {check.name: check.note for check in wrong(closed, models("out"))}
    assert notes["model.safetensors"] == "another SHA-256 than the case says"
    assert notes["tokenizer.json"] == "the case does not name it"
    assert "another model" in notes[LEDGER]
    (models("out") / "config.json").unlink()
    assert ("config.json", "missing") in {(check.name, check.state) for check in wrong(closed, models("out"))}


def test_a_missing_or_foreign_ledger_is_told(
    closed: CaseFolder, models: Callable[[str], Path], signer: Ed25519PrivateKey, tmp_path: Path
) -> None:
    other = write_case(tmp_path / "second", closed.evidence.model_copy(update={"method": "rmu"}), signer)
    (check,) = wrong(other, models("out"))
    assert check.note == "it has no row of this case"
    (models("out") / LEDGER).unlink()
    (check,) = wrong(closed, models("out"))
    assert check.state == "missing"


def test_the_battery_is_run_again_where_somebody_can(closed: CaseFolder, models: Callable[[str], Path]) -> None:
    calls: list[tuple[str, Path]] = []

    def back(evidence: CaseEvidence, model: Path) -> Battery:
        calls.append((evidence.method, model))
        return Battery(name="b", version="1", checks=(checked(p=1e-6, excess=measured(0.5, 0.4, 0.6)),))

    again = verify_case(closed.folder, models("out"), run_battery=back)
    (check,) = again.wrong
    assert check.note.startswith("residual found now, no residual found in the case: Her facts")
    assert calls == [("npo", models("out"))]
    assert verify_case(closed.folder, models("out"), run_battery=lambda case, _: case.battery).wrong == []


def test_digests_are_of_the_files_and_not_of_what_a_run_recorded(models: Callable[[str], Path]) -> None:
    digest = digest_model(models("out"))
    assert digest.files["model.safetensors"].sha256 == sha256(b"out").hexdigest()
    shutil.copytree(models("out"), models("copy"))
    assert digest_model(models("copy")) == digest
    (models("copy") / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        digest_model(models("copy"))
    with pytest.raises(InputError, match="not a model folder"):
        digest_model(models("nothing"))
