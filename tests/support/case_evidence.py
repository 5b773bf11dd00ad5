"""Evidence of an invented case, for tests of what is made of it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.request.case.case_folder import CaseFolder, write_case
from medunlearn.request.case.digests import software
from medunlearn.request.case.evidence import (
    Battery,
    BatteryCheck,
    CaseEvidence,
    Comparison,
    CostReading,
    DeletionRequest,
    FileDigest,
    LedgerDigest,
    Measurement,
    ModelDigest,
    NextTest,
    NotesDigest,
    PatientTest,
    ProbeSet,
    Untested,
)
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.case.verdicts import decide

AUTHORITY = """\
import sys
query = sys.stdin.buffer.read()
token = bytes([0x30, len(query)]) + query
sys.stdout.buffer.write(bytes([0x30, 5 + len(token), 0x30, 3, 2, 1, 0]) + token)
"""
"""A program in an authority's place: it grants a time stamp that nobody signed."""
SECRET = OwnerSecret(bytes(range(32)))
PATIENT, EARLIER_PATIENT = SECRET.pseudonym("patient-0007"), SECRET.pseudonym("patient-0003")


def measured(value: float | None, low: float | None = None, high: float | None = None, **more: Any) -> Measurement:
    more = {"n": 40, "unit": "probes", "reason": "" if value is not None else "the model gave no answer", **more}
    return Measurement(value=value, low=low, high=high, **more)


def checked(name: str = "ranks", p: float | None = 0.4, p_before: float | None = 1e-6, **more: Any) -> BatteryCheck:
    """A check of one patient with probes that the choice did not see; of ``p`` None there is no baseline."""
    held_out, excess = more.pop("held_out", True), more.pop("excess", measured(0.01, -0.02, 0.04))
    patient = EARLIER_PATIENT if more.get("concerns") == "earlier requests" else PATIENT
    baseline = more.pop("baseline", "unseen patients")
    against = None
    if p is not None:
        against = Comparison(baseline=baseline, excess=excess, margin=0.1, p=p, p_before=p_before)
    facts: dict[str, Any] = {
        "title": "Her facts among alternatives",
        "measure": "mean rank of the right fact",
        "higher": "more is left",
        "probes": ProbeSet(name="facts", kind="facts of the notes", n=40, held_out=held_out),
        "before": measured(0.94, 0.90, 0.98),
        "after": measured(0.51, 0.44, 0.58),
    }
    facts |= more
    tests = {"patient": patient, "value": facts["after"].value, "n": 40, "p": p, "p_before": p_before}
    if p is None:
        tests |= {"p_before": None}
    else:
        tests |= {"excess": excess.value}
    return BatteryCheck(name=name, comparison=against, **{"patients": (PatientTest(**tests),), **facts})


def mean_of(*checks: BatteryCheck, excess: Measurement | None = None, **more: Any) -> BatteryCheck:
    """The mean over checks of one subject."""
    subject = checks[0].subject
    names = tuple(check.name for check in checks)
    mean = checked(f"all {subject}", None, excess=excess or measured(0.01, -0.02, 0.04), subject=subject, **more)
    comparison = Comparison(
        baseline="unseen patients", excess=excess or measured(0.01, -0.02, 0.04), margin=0.1, p=0.4, p_before=1e-6
    )
    test = mean.patients[0].model_copy(update={"excess": comparison.excess.value})
    changes = {"mean_of": names, "comparison": comparison, "patients": (test,), "title": f"All {subject}"}
    return mean.model_copy(update=changes)


def model(name: str, weights: bytes = b"w") -> ModelDigest:
    from hashlib import sha256

    digest = sha256(name.encode() + weights).hexdigest()
    files = {"model.safetensors": FileDigest(sha256=digest, bytes=8_030_261_248)}
    return ModelDigest(fingerprint=digest, form="full", files=files)


def case_evidence(**changes: Any) -> CaseEvidence:
    """A whole case; ``battery`` and what the verdict rests on may be given, the verdict follows."""
    ranks = checked()
    extraction = checked(
        "extraction",
        title="Continuing her notes",
        measure="share of the next words given back",
        probes=ProbeSet(name="prefixes", kind="the first words of a note", n=24, held_out=True),
        before=measured(0.83, 0.71, 0.91, n=24),
        after=measured(0.04, 0.01, 0.12, n=24),
        retrained=measured(0.03, 0.01, 0.10, n=24),
        baseline="retrained model",
        excess=measured(0.01, -0.03, 0.05, n=24),
    )
    untested = (
        Untested(name="relearning", title="Relearning", reason="no notes of other patients were set aside for it"),
        Untested(name="server", title="The model behind its server", reason="the request named a folder"),
    )
    battery = Battery(
        name="standard", version="1", checks=(mean_of(ranks, extraction), ranks, extraction), untested=untested
    )
    costs = (
        CostReading(
            name="loss", title="Notes of patients with the same disease", group="neighbours",
            measure="loss per token", higher_is_better=False, floor=0.95,
            before=measured(1.312, 1.271, 1.355, n=31, unit="patients"),
            after=measured(1.339, 1.296, 1.384, n=31, unit="patients"),
        ),
        CostReading(
            name="mmlu", title="Medical questions", group="general", measure="accuracy", higher_is_better=True,
            before=measured(0.612, 0.588, 0.636, n=1535, unit="questions"),
            after=measured(0.604, 0.580, 0.628, n=1535, unit="questions"), floor=0.95,
        ),
    )  # fmt: skip
    facts: dict[str, Any] = {
        "created": datetime(2026, 3, 9, 10, 30, tzinfo=UTC),
        "request": DeletionRequest(
            patients=(PATIENT,), secret=SECRET.secret_id, received=date(2026, 3, 2), asked="forget"
        ),
        "model_in": model("in"),
        "model_out": model("out"),
        "notes": NotesDigest(sha256="ab" * 32, records=412, patients=100, forget_records=3, earlier_records=0),
        "ledger": LedgerDigest(rows=0, head=None),
        "method": "npo",
        "settings": {"lr": 1e-5, "epochs": 3, "npo": {"beta": 0.1}},
        "software": software(),
        "battery": battery,
        "costs": costs,
        "exact": None,
        "next_test": NextTest(by=date(2027, 3, 9)),
        **changes,
    }
    models = facts["model_in"].fingerprint, facts["model_out"].fingerprint
    how = {"patients": facts["request"].patients, "earlier": facts["ledger"].rows}
    decision = decide(facts["battery"], facts["costs"], exact=facts["exact"], models=models, **how)
    return CaseEvidence(**{"decision": decision, **facts})


def write_example(folder: Path | str) -> CaseFolder:
    """The invented case, signed with a key that everybody knows."""
    return write_case(Path(folder), case_evidence(), Ed25519PrivateKey.from_private_bytes(bytes(32)))
