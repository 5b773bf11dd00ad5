"""Signed statement of a case: an in-toto statement over its files, models, notes and ledger, in a DSSE envelope.

Source: in-toto attestation framework, Statement v1 (in-toto/attestation, ``spec/v1/statement.md``); Dead Simple
Signing Envelope, protocol 1.0.0 and JSON envelope (secure-systems-lab/dsse).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from medunlearn.data.storage import json_bytes
from medunlearn.errors import MedunlearnError
from medunlearn.request.case.digests import weights_by_name
from medunlearn.request.case.evidence import CaseEvidence
from medunlearn.request.case.signing_keys import key_id

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:medunlearn:deletion-case:1"
NOTES, LEDGER_HEAD, MODELS = "notes", "ledger-head", ("model-in", "model-out")
IN_TOTO = "application/vnd.in-toto+json"
"""Payload type of an in-toto statement."""
_URL_SAFE = str.maketrans("-_", "+/")


class SignatureError(MedunlearnError):
    """An envelope that cannot be read, or is not signed by the given key."""


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
    """Name -> SHA-256 of all subjects of the statement: files, models, notes and ledger."""
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
        SignatureError: it is not a statement of a case.
    """
    try:
        content = json.loads(payload)
        subjects = {str(entry["name"]): str(entry["digest"]["sha256"]) for entry in content["subject"]}
        whole = len(subjects) == len(content["subject"])
        kinds = (content["_type"], content["predicateType"])
    except (ValueError, RecursionError, KeyError, TypeError):
        raise SignatureError("it holds no in-toto statement") from None
    if not whole or kinds != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise SignatureError("its statement is not of a case")
    return subjects


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: what is signed. Lengths are those of the bytes, in decimal digits."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """An envelope with one signature, as file content; deterministic."""
    signature = key.sign(pae(payload_type, payload))
    return _envelope(payload_type, payload, signature, key_id(key.public_key()))


def _envelope(payload_type: str, payload: bytes, signature: bytes, signer: str) -> bytes:
    return json_bytes(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": [{"keyid": signer, "sig": base64.b64encode(signature).decode()}],
        }
    )


def verified_payload(content: bytes, key: Ed25519PublicKey, types: tuple[str, ...] = (IN_TOTO,)) -> bytes:
    """The payload of an envelope signed by a key; signatures of other keys are ignored.

    Both alphabets of Base64 are read, as the protocol asks. The key id is only a hint and is not trusted.

    Raises:
        SignatureError: not an envelope, an unexpected payload type, or no signature of this key.
    """
    envelope = _parse(content)
    kind, payload = envelope["payloadType"], _decode(envelope["payload"])
    if kind not in types:
        raise SignatureError(f"its payload is not of type {' or '.join(types)}")
    for signature in envelope["signatures"]:
        try:
            key.verify(_decode(signature["sig"]), pae(kind, payload))
        except InvalidSignature:
            continue
        return payload
    raise SignatureError("this key did not sign it, or it was changed since")


def unverified_payload(content: bytes) -> bytes:
    """The payload of an envelope whose signature is checked elsewhere.

    Raises:
        SignatureError: not an envelope.
    """
    return _decode(_parse(content)["payload"])


def is_as_written(content: bytes, key: Ed25519PublicKey) -> bool:
    """True if an envelope signed by the key is identical, byte by byte, to what :func:`sign` writes.

    White space, the key id and the last bits of Base64 are not covered by the signature.
    """
    envelope = _parse(content)
    (signature, *others) = envelope["signatures"]
    again = _envelope(envelope["payloadType"], _decode(envelope["payload"]), _decode(signature["sig"]), key_id(key))
    return not others and again == content


def _parse(content: bytes) -> dict[str, Any]:
    try:
        envelope = json.loads(content)
    except (ValueError, RecursionError):
        raise SignatureError("it is not JSON") from None
    if isinstance(envelope, dict):
        signatures = envelope.get("signatures")
        texts = [envelope.get("payload", ""), envelope.get("payloadType", "")]
        if isinstance(signatures, list) and signatures and all(isinstance(entry, dict) for entry in signatures):
            texts += [entry.get("sig") for entry in signatures]
            if all(isinstance(text, str) for text in texts):
                return {"payload": "", "payloadType": "", **envelope}
    raise SignatureError("it is not a DSSE envelope with a signature")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text.translate(_URL_SAFE), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureError("it contains invalid Base64") from None
