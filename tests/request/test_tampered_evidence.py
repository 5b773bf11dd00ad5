"""Faults made by hand on a real case, its model and its ledger: each must be seen by ``verify`` or ``forget``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from forgetting_world import Hospital

import medunlearn as mu
from medunlearn.data.storage import json_bytes
from medunlearn.errors import InputError
from medunlearn.request.case.case_folder import PAGE, CaseFolder, case_files
from medunlearn.request.case.digests import digest_model
from medunlearn.request.case.ledger import LedgerEntry, RequestLedger, ledger_path, read_ledger_file
from medunlearn.request.case.ledger import _write as write_ledger
from medunlearn.request.case.officer_page import TITLES
from medunlearn.request.case.signing_keys import STATEMENT, read_private_key
from medunlearn.request.case.statement import IN_TOTO, sign, statement
from medunlearn.request.forget_stages import Forgotten
from medunlearn.results.verify import Check, Verification


@dataclass(frozen=True)
class Evidence:
    """Copies of two cases, one on the model of the other, with their models."""

    folder: Path
    key: Path

    @property
    def model(self) -> Path:
        return self.folder / "second-model"

    @property
    def case(self) -> Path:
        return self.folder / "second"

    def verify(self, case: str = "second", model: str = "second-model") -> Verification:
        result = mu.verify([self.folder / model, self.folder / case], public_key=self.key)
        assert isinstance(result, Verification)
        return result

    def wrong(self) -> list[Check]:
        return self.verify().wrong

    def page_check(self) -> Check:
        verified = mu.verify([self.case], public_key=self.key)
        assert isinstance(verified, Verification)
        (check,) = [check for check in verified.checks if check.what == "page"]
        assert {check.what for check in verified.wrong} <= {"page"}
        return check

    def sign_again(self, key: Path, change: Callable[[str], str], version: str | None = None, **facts: Any) -> None:
        """Sign the case with another page, and as of another version or with other facts."""
        case, private = CaseFolder.open(self.case).evidence.model_copy(update=facts), read_private_key(key)
        if version is not None:
            software = case.software.model_copy(update={"version": version})
            case = case.model_copy(update={"software": software})
        files = case_files(case, private)
        files[PAGE] = change(files[PAGE].decode()).encode()
        digests = {name: sha256(content).hexdigest() for name, content in files.items() if name != STATEMENT}
        files[STATEMENT] = sign(IN_TOTO, json_bytes(statement(case, digests)), private)
        for name, content in files.items():
            (self.case / name).write_bytes(content)

    def with_other_headline(self, page: str) -> str:
        """The page of this case under another verdict."""
        title = TITLES[CaseFolder.open(self.case).evidence.decision.verdict]
        other = next(one for one in TITLES.values() if one != title)
        assert f'<p class="name">{title}' in page
        return page.replace(f'<p class="name">{title}', f'<p class="name">{other}')

    def rewrite(self, change: Callable[[list[LedgerEntry]], list[LedgerEntry]]) -> None:
        """Change the entries of the ledger, and compute its chain anew."""
        path, ledger = ledger_path(self.model), RequestLedger()
        for entry in change([row.entry for row in read_ledger_file(path).rows]):
            ledger = ledger.extended(entry)
        write_ledger(path, ledger)


@pytest.fixture(scope="module")
def second(hospital: Hospital, forgotten: Forgotten, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases and models of two requests, one after the other. Do not change them."""
    folder = tmp_path_factory.mktemp("two")
    shutil.copytree(forgotten.case.folder, folder / "first")
    shutil.copytree(forgotten.model, folder / "first-model")
    hospital.forget(folder / "second", hospital.patients[1], folder / "first-model")
    return folder


@pytest.fixture
def evidence(hospital: Hospital, second: Path, tmp_path: Path) -> Evidence:
    for name in ("first", "second", "first-model", "second-model"):
        shutil.copytree(second / name, tmp_path / name)
    return Evidence(tmp_path, hospital.key.with_name("signing.key.pub"))


def test_two_requests_are_well(evidence: Evidence) -> None:
    verified = evidence.verify()
    assert verified.wrong == []
    rows = [check for check in verified.checks if check.what == "ledger row"]
    assert [(check.name, check.state) for check in rows] == [("row 1", "ok"), ("row 2", "ok")]


class TestLedger:
    def test_rows_whose_case_is_elsewhere_are_not_checked(self, evidence: Evidence) -> None:
        shutil.rmtree(evidence.folder / "first")
        (check,) = [check for check in evidence.verify().checks if check.name == "row 1"]
        assert (check.state, "its case is not beside" in check.note) == ("not checked", True)

    @pytest.mark.parametrize(
        "fault",
        [
            {"verdict": "deleted"},
            {"received": "2001-01-01"},
            {"closed": "2001-01-01"},
            {"model_in": "0" * 64},
            {"patients": ("0" * 64,)},
        ],
    )
    @pytest.mark.parametrize("place", [0, 1])
    def test_a_row_that_was_rewritten(
        self, evidence: Evidence, hospital: Hospital, fault: dict[str, str], place: int
    ) -> None:
        evidence.rewrite(
            lambda entries: [
                replace(entry, **fault) if number == place else entry for number, entry in enumerate(entries)
            ]
        )
        assert f"row {place + 1}" in {check.name for check in evidence.wrong()}
        with pytest.raises(InputError, match="was rewritten"):
            hospital.forget(evidence.folder / "third", hospital.patients[2], evidence.model)

    @pytest.mark.parametrize("change", [lambda entries: entries[1:], lambda entries: entries[:-1]])
    def test_a_row_that_was_removed(
        self, evidence: Evidence, hospital: Hospital, change: Callable[[list[LedgerEntry]], list[LedgerEntry]]
    ) -> None:
        evidence.rewrite(change)
        assert "ledger" in {check.what for check in evidence.wrong()}
        with pytest.raises(InputError, match=r"requests\.parquet"):
            hospital.forget(evidence.folder / "third", hospital.patients[2], evidence.model)

    @pytest.mark.parametrize("known_by", ["cases", "card"])
    def test_a_ledger_that_was_deleted(self, evidence: Evidence, hospital: Hospital, known_by: str) -> None:
        model = evidence.model
        ledger_path(model).unlink()
        if known_by == "cases":
            (model / "README.md").unlink()
        else:
            model = shutil.copytree(model, evidence.folder / "alone" / "model")
        with pytest.raises(InputError, match=r"lacks requests that its model went through.*Restore it"):
            hospital.forget(model.parent / "third", hospital.patients[2], model)
        result = mu.verify([model, evidence.case], public_key=evidence.key)
        (check,) = result.wrong
        assert (check.what, check.state) == ("ledger", "missing")
        assert "it had requests that its model went through" in check.note

    def test_a_copy_does_not_lose_requests_that_the_card_lists(self, evidence: Evidence) -> None:
        ledger_path(evidence.model).unlink()
        with pytest.raises(InputError, match="lists a request"):
            mu.export(evidence.model, evidence.folder / "copy")


class TestPage:
    @pytest.mark.parametrize(
        ("old", "new", "note"),
        [
            ("with the method", "by the method", "by the method"),
            ("<main>", "<main hidden>", "markup"),
            ("<main>", "<main><script>hide()</script>", "markup"),
        ],
    )
    def test_a_page_that_says_something_else_than_the_evidence(
        self, evidence: Evidence, hospital: Hospital, old: str, new: str, note: str
    ) -> None:
        assert evidence.page_check().state == "ok"
        evidence.sign_again(hospital.key, lambda page: page.replace(old, new))
        check = evidence.page_check()
        assert (check.state, note in check.note) == ("differs", True), check

    def test_a_page_with_the_headline_of_another_verdict(self, evidence: Evidence, hospital: Hospital) -> None:
        evidence.sign_again(hospital.key, evidence.with_other_headline)
        check = evidence.page_check()
        assert (check.state, check.note.startswith("its headline is")) == ("differs", True), check

    def test_a_page_of_another_version_cannot_be_rendered_anew(
        self, evidence: Evidence, hospital: Hospital
    ) -> None:
        evidence.sign_again(hospital.key, lambda page: page.replace("records", "notes"), version="0.1.9")
        check = evidence.page_check()
        assert check.state == "not checked"
        assert "made by version 0.1.9" in check.note
        # Its headline is looked at whatever version it names.
        evidence.sign_again(hospital.key, evidence.with_other_headline, version="0.1.9")
        assert evidence.page_check().state == "differs"


class TestModel:
    @pytest.mark.parametrize(
        "name",
        [
            "old/model.safetensors", "deep/er/weights.safetensors", "pytorch_model.bin", "model.gguf", "more.h5",
            "model.pt", "model.ckpt", "model.onnx", "modeling_own.py", ".cache/old.safetensors", ".git/hook.py",
            "added_tokens.json", "vocab.txt", "tokenizer.model", "chat_templates/other.jinja",
            "preprocessor_config.json", "video_preprocessor_config.json", "model.safetensors.index.json",
        ],
    )  # fmt: skip
    def test_a_file_that_is_not_signed(self, evidence: Evidence, name: str) -> None:
        (evidence.model / name).parent.mkdir(exist_ok=True, parents=True)
        (evidence.model / name).write_text("{}")
        assert ("model file", name) in {(check.what, check.name) for check in evidence.wrong()}

    def test_a_generation_config_that_was_changed_or_removed(self, evidence: Evidence) -> None:
        path = evidence.model / "generation_config.json"
        path.write_text(path.read_text() + " ")
        assert "generation_config.json" in {check.name for check in evidence.wrong()}
        path.unlink()
        assert "generation_config.json" in {check.name for check in evidence.wrong()}

    def test_a_link_to_another_folder_is_refused(self, evidence: Evidence) -> None:
        (evidence.model / "old").symlink_to(evidence.folder / "first-model")
        assert any("old cannot be read: it is a folder" in check.note for check in evidence.wrong())

    def test_ids_of_its_tokenizer_that_were_swapped(self, evidence: Evidence) -> None:
        path = evidence.model / "tokenizer.json"
        content = json.loads(path.read_text())
        words = content["model"]["vocab"]
        first, second = [word for word, number in words.items() if 20 <= number < 22]
        words[first], words[second] = words[second], words[first]
        path.write_text(json.dumps(content))
        assert "tokenizer.json" in {check.name for check in evidence.wrong()}

    def test_files_that_nothing_computes_with_are_listed(self, evidence: Evidence) -> None:
        (evidence.model / "LICENSE").write_text("free")
        verified = evidence.verify()
        assert verified.wrong == []
        unsigned = {check.name: check.note for check in verified.checks if check.state == "orphan"}
        assert unsigned.keys() == {"LICENSE", "README.md", "lineage.json"}
        assert all(note.startswith("not signed: ") for note in unsigned.values())

    def test_a_case_of_an_older_version_says_that_it_covers_less(
        self, evidence: Evidence, hospital: Hospital
    ) -> None:
        older = digest_model(evidence.model, 1)
        assert older.fingerprint == digest_model(evidence.model).fingerprint  # it has no other files
        evidence.sign_again(hospital.key, lambda page: page, model_out=older)
        ledger_path(evidence.model).unlink()
        for name in ("added_tokens.json", "old.bin"):
            (evidence.model / name).write_text("{}")
        checks = {check.name: check for check in evidence.verify().checks if check.what == "model file"}
        assert (checks["added_tokens.json"].state, checks["old.bin"].state) == ("not checked", "differs")
        assert {check.state for check in evidence.verify().checks if check.what == "fingerprint"} == {"not checked"}
        # What it does cover is checked as before.
        (evidence.model / "config.json").write_text("{}")
        assert "config.json" in {check.name for check in evidence.wrong()}
