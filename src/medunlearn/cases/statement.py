"""The in-toto statement of a case: SHA-256 of its files, of both models, of the notes and of the ledger.

Source: in-toto attestation framework, Statement v1 (in-toto/attestation, ``spec/v1/statement.md``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medunlearn.cases.digests import weights_by_name
from medunlearn.cases.envelope import SignatureError
from medunlearn.cases.evidence import CaseEvidence

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:medunlearn:deletion-case:1"
NOTES, LEDGER_HEAD, MODELS = "notes", "ledger-head", ("model-in", "model-out")


def statement(evidence: CaseEvidence, files: Mapping[str, str]) -> dict[str, Any]:
    """The statement of a case.

    Args:
        files: name -> SHA-256 of each file of the case but the statement.
    """
    digests = subject_digests(evidence, files)
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "format": evidence.format,
            "created": evidence.model_dump(mode="json")["created"],
            "verdict": evidence.decision.verdict,
            "battery": {"name": evidence.battery.name, "version": evidence.battery.version},
            "software": {"version": evidence.software.version, "commit": evidence.software.commit},
        },
    }


def subject_digests(evidence: CaseEvidence, files: Mapping[str, str]) -> dict[str, str]:
    """Name -> SHA-256 of everything that the statement is about: files, models, notes and ledger."""
    digests = dict(files)
    for name, model in zip(MODELS, (evidence.model_in, evidence.model_out), strict=True):
        digests |= {f"{name}/{file}": digest.sha256 for file, digest in weights_by_name(model).items()}
    digests[NOTES] = evidence.notes.sha256
    if evidence.ledger.head is not None:
        digests[LEDGER_HEAD] = evidence.ledger.head
    return digests


def subjects_of(payload: bytes) -> dict[str, str]:
    """Name -> SHA-256 of the statement's subjects.

    Raises:
        SignatureError: it is no statement of a case.
    """
    try:
        content = json.loads(payload)
        subjects = {str(one["name"]): str(one["digest"]["sha256"]) for one in content["subject"]}
        whole = len(subjects) == len(content["subject"])
        kinds = (content["_type"], content["predicateType"])
    except (ValueError, RecursionError, KeyError, TypeError):
        raise SignatureError("it holds no in-toto statement") from None
    if not whole or kinds != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise SignatureError("it holds another statement than one of a case")
    return subjects
