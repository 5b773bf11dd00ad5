"""The answer to a patient: what each verdict says in each language, and what it must not say."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from case_evidence import EARLIER_PATIENT, PATIENT, case_evidence, checked, mean_of, measured
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pages import run_line

import medunlearn as mu
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.request.case.answer_letter import write_letter
from medunlearn.request.case.case_folder import CaseFolder, write_case
from medunlearn.request.case.evidence import (
    Battery,
    CaseEvidence,
    ExactDeletion,
    FactCoverage,
    LedgerDigest,
    PatientTest,
)
from medunlearn.request.case.letter_texts import LetterTexts, one_month_from
from medunlearn.request.case.signing_keys import public_pem

LANGUAGES = ("en", "de", "fr")
REMOVED = re.compile(
    r"\b(erased|removed|deleted|destroyed|forgotten|gelöscht|entfernt|getilgt|vernichtet|vergessen (?!soll|lassen)"
    r"|effacée?s?|supprimée?s?|retirée?s?|détruite?s?|oubliée?s?)\b"
)
FOUND = {"p": 1e-6, "excess": measured(0.45, 0.4, 0.5)}


def battery(*checks: Any, **more: Any) -> Battery:
    compared = [check for check in checks if check.comparison is not None and check.concerns == "this request"]
    means = [mean_of(*compared)] if compared else []
    return Battery(name="b", version="1", checks=(*means, *checks), **more)


def exact(**changes: Any) -> ExactDeletion:
    return ExactDeletion(
        **{
            "road": "retrained without her",
            "reproduced": case_evidence().model_out.fingerprint,
            "base": "recorded",
            **changes,
        }
    )


COVERAGE = (FactCoverage(patient=PATIENT, tested=9, facts=12),)
CASES: dict[str, CaseEvidence] = {
    "deleted": case_evidence(exact=exact()),
    "no residual found": case_evidence(battery=battery(checked(), coverage=COVERAGE)),
    "others not measured": case_evidence(costs=()),
    "residual found": case_evidence(battery=battery(checked(**FOUND))),
    "residual, nothing trained": case_evidence(battery=battery(checked(**FOUND)), method="none"),
    "inconclusive": case_evidence(battery=battery(checked(p_before=0.4))),
    "broken": case_evidence(battery=battery(checked(), problems=("it repeats one word",))),
    "nothing trained": case_evidence(battery=battery(checked(p_before=0.4)), method="none"),
    "no baseline": case_evidence(battery=battery()),
    "came back": case_evidence(
        battery=battery(checked(), checked("e", concerns="earlier requests", **FOUND)),
        ledger=LedgerDigest(rows=1, head="ab" * 32),
    ),
}


@pytest.fixture
def letter(signer: Ed25519PrivateKey, tmp_path: Path) -> Any:
    def text(evidence: CaseEvidence, language: Any = "en", **more: Any) -> str:
        folder = tmp_path / f"case-{len([*tmp_path.iterdir()])}"
        case = write_case(folder, evidence, signer)
        out = folder.with_suffix(".html")
        write_letter(case.folder, out, language=language, public_key=signer.public_key(), **more)
        return " ".join(re.sub(r"<[^>]*>", " ", out.read_text(encoding="utf-8")).split())

    return text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_called_removed_unless_it_is_deleted(letter: Any, name: str, language: Any) -> None:
    text = letter(CASES[name], language)
    assert bool(REMOVED.search(text)) == (name == "deleted"), REMOVED.search(text)
    closed = LetterTexts.of(language).text("closed").split("[")[0].strip()
    opened = LetterTexts.of(language).text("open").split("[")[0].strip()
    carried_out = name in ("deleted", "no residual found")
    assert (closed in text, opened in text) == (carried_out, not carried_out)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "result"),
    [
        *((verdict, verdict) for verdict in ("deleted", "no residual found", "residual found", "no baseline")),
        ("others not measured", "no residual found"),
        ("residual, nothing trained", "residual found"),
        ("broken", "inconclusive"),
        ("nothing trained", "unchanged"),
        ("came back", "inconclusive"),
    ],
)
def test_each_verdict_has_its_text_and_no_other(letter: Any, name: str, result: str, language: Any) -> None:
    text, results = letter(CASES[name], language), LetterTexts.of(language).content["results"]
    assert [key for key, words in results.items() if " ".join(words.split()) in text] == [result]


def test_it_says_what_was_tested_and_beside_whom(letter: Any) -> None:
    text = letter(CASES["no residual found"])
    assert "We tested 9 of 12 facts of your records. Ways of asking: 1; of these, 1 found you in the model" in text
    assert "real patients whom the model never saw" in text
    assert "facts of your records were tested was not counted" in letter(CASES["others not measured"])
    assert "Ways of asking" not in letter(CASES["no baseline"])


def test_an_exact_deletion_says_its_way_and_its_doubts(letter: Any) -> None:
    assert "did so twice" in letter(CASES["deleted"])
    stated = case_evidence(exact=exact(road="adapter dropped", base="stated"), battery=battery(checked(**FOUND)))
    text = letter(stated)
    assert "We dropped the part" in text
    assert "is what its owner states" in text
    assert "Records of others may say the same" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_law_and_its_dates(letter: Any, language: Any) -> None:
    text = letter(CASES["inconclusive"], language)
    day = {"en": "2 April 2026", "de": "2. April 2026", "fr": "2 avril 2026"}[language]
    assert text.count(day) == 2
    for words in ("17", "12", "164.526", "164.530(j)"):
        assert words in text
    assert re.search({"en": "six years", "de": "sechs Jahre", "fr": "six ans"}[language], text)


@pytest.mark.parametrize(
    ("received", "due"),
    [
        ("2026-03-02", "2026-04-02"),
        ("2026-01-31", "2026-02-28"),
        ("2028-01-31", "2028-02-29"),
        ("2026-12-15", "2027-01-15"),
        ("2026-08-31", "2026-09-30"),
    ],
)
def test_a_month_from_receipt(received: str, due: str) -> None:
    assert one_month_from(date.fromisoformat(received)).isoformat() == due
    assert LetterTexts.of("fr").day(date(2026, 4, 1)) == "1er avril 2026"


def test_the_languages_have_the_same_texts_and_gaps() -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [shape(inner) for inner in value]
        return sorted(re.findall(r"\{\w+\}", str(value))), len(re.findall(r"\[", str(value)))

    first, *others = (shape(dict(LetterTexts.of(language).content)) for language in LANGUAGES)
    assert all(other == first for other in others)


def two_patients(worst: bool) -> CaseEvidence:
    plain = checked()
    other = {"p": 1e-7, "excess": 0.49} if worst else {"p": 0.5, "excess": 0.0}
    test = PatientTest(patient=EARLIER_PATIENT, value=0.9, n=40, p_before=1e-7, **other)
    both = plain.model_copy(update={"patients": (*plain.patients, test)})
    request = case_evidence().request.model_copy(update={"patients": (PATIENT, EARLIER_PATIENT)})
    return case_evidence(battery=battery(both), request=request)


def test_a_letter_is_to_one_patient_and_names_no_other(letter: Any) -> None:
    text = letter(two_patients(worst=False), patient=PATIENT[:12])
    assert f"Reference: {PATIENT[:12]}" in text
    assert EARLIER_PATIENT[:12] not in text
    assert "found nothing of you" in text
    remembered = letter(two_patients(worst=True), patient=EARLIER_PATIENT)
    assert "as one that knows you" in remembered
    # The case is open for both: what is said of the other one is no success either.
    assert "cannot tell whether anything of you is left" in letter(two_patients(worst=True), patient=PATIENT)
    for wrong in (None, "4711", "0" * 12, "patient-0007xx"):
        with pytest.raises(InputError, match=r"--patient"):
            letter(two_patients(worst=False), patient=wrong)


def test_a_case_that_differs_gets_no_letter(case: CaseFolder, tmp_path: Path) -> None:
    out = tmp_path / "letter.html"
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))).public_key()
    with pytest.raises(MedunlearnError, match="another key signed it"):
        write_letter(case.folder, out, public_key=stranger)
    evidence = case.folder / "evidence.json"
    evidence.write_text(evidence.read_text().replace('"no residual found"', '"deleted"'))
    with pytest.raises(MedunlearnError, match="does not hold"):
        write_letter(case.folder, out)
    (case.folder / "statement.dsse.json").unlink()
    with pytest.raises(MedunlearnError, match="does not hold"):
        write_letter(case.folder, out)
    assert not out.exists()


def test_nothing_is_overwritten_and_nothing_is_put_into_the_case(case: CaseFolder, tmp_path: Path) -> None:
    there = tmp_path / "there.html"
    there.write_text("mine")
    for out, why in (
        (there, "nothing is overwritten"),
        (case.folder / "letter.html", "lies in the case"),
        (tmp_path / "letter.pdf", "the browser prints it"),
    ):
        with pytest.raises(ConfigError, match=why):
            write_letter(case.folder, out)
    assert there.read_text() == "mine"
    with pytest.raises(InputError, match="holds no case"):
        write_letter(tmp_path / "nothing", tmp_path / "letter.html")


def test_the_page_loads_nothing_and_marks_its_gaps(case: CaseFolder, tmp_path: Path) -> None:
    mu.case_letter(case.folder, out=tmp_path / "letter.html")
    page = (tmp_path / "letter.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|<img|src=|https?://", page)
    assert "<mark>[Name of the hospital]</mark>" in page
    assert PATIENT not in page
    assert '<html lang="en">' in page
    assert case.sha256 in page


def test_the_command(case: CaseFolder, signer: Ed25519PrivateKey, tmp_path: Path) -> None:
    key, out = tmp_path / "owner.pub", tmp_path / "brief.html"
    key.write_bytes(public_pem(signer.public_key()))
    line = f"case letter {case.folder} --language de --out {out}"
    facts = json.loads(run_line(f"{line} --public-key {key} --json").stdout)
    assert (facts["verdict"], facts["due"], facts["language"]) == ("no residual found", "2026-04-02", "de")
    assert facts["signer_known"] is True
    assert "Damit haben wir Ihre Anfrage ausgeführt" in out.read_text(encoding="utf-8")
    assert "is there already" in run_line(line, code=2).output
    unknown = run_line(f"case letter {case.folder} --out {tmp_path / 'en.html'}").output
    assert "checked with its own key" in " ".join(unknown.split())
    assert "its own public key only" in " ".join((tmp_path / "en.html").read_text().split())
    assert "'en', 'de' or 'fr'" in run_line(f"{line} --language es", code=2).output
