"""Answer to a patient about a case, as one HTML page with gaps for what only the sender knows.

It says what the signed evidence says of this one patient, and names nobody. A word for "removed" stands in it only
if the verdict is ``deleted``. Nothing is written of a case that differs from its signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from medunlearn.data.storage import make_folder, write_text
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.request.case.case_checks import verify_case
from medunlearn.request.case.case_folder import PUBLIC_KEY, CaseFolder
from medunlearn.request.case.evidence import NOTHING_TRAINED, BatteryCheck, CaseEvidence, Verdict
from medunlearn.request.case.letter_texts import Language, LetterTexts, one_month_from
from medunlearn.request.case.officer_page import SHOWN
from medunlearn.request.case.residual_tests import found_before, residuals
from medunlearn.request.case.signing_keys import key_id, read_public_key
from medunlearn.terminal import relative_path

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_GAP = re.compile(r"(\[[^\]]+\])")


@dataclass(frozen=True)
class PatientLetter:
    """A letter on disk.

    Attributes:
        patient: pseudonym.
        verdict: of this patient.
        due: end of the month in which the request is to be answered.
        signer: id of the key that signed the case.
        signer_known: whether the key came from another source than the case.
    """

    path: Path
    language: Language
    patient: str
    verdict: Verdict
    due: date
    signer: str
    signer_known: bool

    def view(self) -> ResultView:
        """The letter's file, its verdict, and the day by which it is to be answered."""
        data = {name: getattr(self, name) for name in ("language", "patient", "verdict")}
        data |= {"due": self.due.isoformat(), "signer": self.signer, "signer_known": self.signer_known}
        place = "the letter. Fill in what stands in brackets; the browser prints it as PDF."
        blocks = (
            Facts(((relative_path(self.path), place),)),
            f"Its verdict: {self.verdict}. One month from receipt ends on {self.due.isoformat()}.",
        )
        own_key = "the case was checked with its own key: --public-key FILE of the owner tells whose it is"
        return ResultView({"letter": str(self.path), **data}, blocks, () if self.signer_known else (own_key,))


def write_letter(
    folder: Path,
    out: Path,
    *,
    language: Language = "en",
    patient: str | None = None,
    public_key: Ed25519PublicKey | None = None,
) -> PatientLetter:
    """Verify a case and write the answer to its patient.

    Args:
        out: new HTML file, outside of the case.
        patient: pseudonym or its beginning; needed where the case is about several.
        public_key: the owner's; None: the case's own.

    Raises:
        ConfigError: ``out`` is no HTML file, or exists, or lies in the case.
        InputError: no case, or not one patient of it.
        MedunlearnError: the case differs from its signature.
    """
    _check_place(folder, out)
    checked = verify_case(folder, public_key=public_key)
    if checked.wrong:
        raise MedunlearnError(f"No letter was written, for the case does not hold: {checked.wrong[0]}.")
    if not any(check.what == "signature" and check.state == "ok" for check in checked.checks):
        raise MedunlearnError("No letter was written, for nothing vouches for the case: give --public-key.")
    case = CaseFolder.open(folder)
    key = public_key or read_public_key(folder / PUBLIC_KEY)
    name = _patient_of(case.evidence, patient)
    content = _LetterContent(case, name, LetterTexts.of(language), key_id(key), public_key is not None)
    make_folder(out.parent)
    write_text(out, content.page())
    due = one_month_from(case.evidence.request.received)
    return PatientLetter(out, language, name, content.verdict, due, content.signer, content.signer_known)


def _check_place(folder: Path, out: Path) -> None:
    if out.suffix.lower() != ".html":
        raise ConfigError([f"--out {out}: the letter is a page, such as letter.html; the browser prints it as PDF"])
    if out.exists() or out.is_symlink():
        raise ConfigError([f"--out {out} is there already, and nothing is overwritten: choose another"])
    if out.resolve().is_relative_to(folder.resolve()):
        raise ConfigError([f"--out {out} lies in the case, which holds signed files alone: choose another folder"])


def _patient_of(evidence: CaseEvidence, patient: str | None) -> str:
    patients = evidence.request.patients
    if patient is None and len(patients) == 1:
        return patients[0]
    if patient is None:
        raise InputError(f"The case is about {len(patients)} patients: name one with --patient, by pseudonym.")
    if len(patient) < SHOWN:
        raise InputError(f"--patient takes a pseudonym as the case's page shows it, of {SHOWN} digits or more.")
    matches = [name for name in patients if name.startswith(patient.lower())]
    if len(matches) != 1:
        raise InputError(
            f"--patient {patient}: no patient of the case has this pseudonym. The case's page lists them."
        )
    return matches[0]


@dataclass(frozen=True)
class _LetterContent:
    """The letter's paragraphs on one patient, in one language."""

    case: CaseFolder
    patient: str
    texts: LetterTexts
    signer: str
    signer_known: bool

    @property
    def evidence(self) -> CaseEvidence:
        return self.case.evidence

    @property
    def verdict(self) -> Verdict:
        """The patient's own verdict; where that is better than the case's, it is no more than inconclusive."""
        whole = self.evidence.decision.verdict
        own = next((one.verdict for one in self.evidence.decision.patients if one.patient == self.patient), None)
        if own is None or own == whole or whole in ("deleted", "no baseline"):
            return whole
        return "residual found" if own == "residual found" else "inconclusive"

    def page(self) -> str:
        received = self.evidence.request.received
        texts = self.texts
        days = {"received": texts.day(received), "due": texts.day(one_month_from(received))}
        plain = ("place", "greeting", "law_title", "closing", "signature", "note_title")
        note = texts.texts("note", **days)
        letter = {
            **{name: texts.text(name) for name in plain},
            **{name: texts.texts(name) for name in ("sender", "recipient")},
            "title": texts.text("title", **days),
            "reference": texts.text("reference", reference=self.patient[:SHOWN]),
            "note": note if self.signer_known else (*note, texts.text("unknown_signer")),
            "body": (texts.text("opening", **days), *self._body()),
            "law": (*texts.texts("gdpr", **days), texts.text("hipaa")),
            "proof": texts.text("proof", sha256=self.case.sha256, key=self.signer),
        }
        template = _environment().get_template("letter.html.jinja")
        return template.render(letter=letter, language=texts.language)

    def _body(self) -> Iterator[str]:
        texts, verdict, decision = self.texts, self.verdict, self.evidence.decision
        unchanged = self.evidence.method == NOTHING_TRAINED and verdict == "inconclusive"
        yield texts.text("actions", "unchanged" if unchanged else self._action())
        yield texts.text("results", "unchanged" if unchanged else verdict)
        yield from self._doubts()
        yield from self._extent()
        closed = decision.carried_out and verdict in ("deleted", "no residual found")
        if not closed and verdict in ("deleted", "no residual found"):
            yield texts.text("open_others", "not kept" if decision.others == "not kept" else "not measured")
        yield texts.text("closed" if closed else "open")
        yield texts.text("records")

    def _action(self) -> str:
        if self.evidence.method == NOTHING_TRAINED:
            return "untrained"
        return "changed" if self.evidence.exact is None else self.evidence.exact.road

    def _doubts(self) -> Iterator[str]:
        """Remarks on an exact deletion: an owner's statement, and tests that recognize something."""
        if self.verdict != "deleted" or self.evidence.exact is None:
            return
        if self.evidence.exact.base == "stated":
            yield self.texts.text("base_stated")
        found = residuals(self.evidence.battery.checks, self.evidence.battery.alpha)
        if any(test.patient.patient == self.patient for test in found):
            yield self.texts.text("repeated")

    def _extent(self) -> Iterator[str]:
        """Numbers of tested facts and of ways, and the baseline; nothing if the patient was not asked about."""
        ways = [check for check in self.evidence.battery.checks if self._is_asked(check)]
        if not ways:
            return
        before = found_before(self.evidence.battery.checks, self.evidence.battery.alpha)
        numbers = {"ways": len(ways), "able": sum((check.name, self.patient) in before for check in ways)}
        coverage = next((own for own in self.evidence.battery.coverage if own.patient == self.patient), None)
        if coverage is None:
            yield self.texts.text("extent_uncounted", **numbers)
        else:
            yield self.texts.text("extent", tested=coverage.tested, facts=coverage.facts, **numbers)
        for baseline in dict.fromkeys(check.comparison.baseline for check in ways if check.comparison is not None):
            yield self.texts.text("baselines", baseline)

    def _is_asked(self, check: BatteryCheck) -> bool:
        own = any(test.patient == self.patient for test in check.patients)
        return own and check.concerns == "this request" and not check.mean_of


@cache
def _environment() -> Environment:
    """The template environment, which escapes all values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medunlearn.request.case", "letters"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = _marked
    return environment


def _marked(text: str) -> Markup:
    """A text with its gaps, which stand in brackets, as ``<mark>``."""
    from markupsafe import Markup, escape

    gap = Markup("<mark>{}</mark>")
    return Markup("").join(gap.format(part) if _GAP.fullmatch(part) else escape(part) for part in _GAP.split(text))
