"""A case on disk: evidence, settings, software, schema, page, public key, and a signed statement over all of them.

| file | content |
|---|---|
| ``case.html`` | one page for the privacy officer |
| ``evidence.json`` | everything as data (:mod:`medunlearn.request.case.evidence`) |
| ``evidence.schema.json`` | its JSON schema |
| ``settings.json`` | settings of the method, without paths and patients |
| ``sbom.cdx.json`` | all installed software (CycloneDX) |
| ``public-key.pem`` | key that the statement can be checked with |
| ``statement.dsse.json`` | in-toto statement in a DSSE envelope over all of these, models, notes and ledger |
| ``statement.tsq``, ``statement.tsr`` | a time stamp, where asked for (:mod:`~.case.timestamps`) |

It is written into a hidden folder beside the target and renamed, so a case is complete or absent.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.data.leftovers import holds_nothing, part_of, part_pattern, remove_stray_parts
from medunlearn.data.storage import as_storage_error, json_bytes, make_folder
from medunlearn.errors import InputError
from medunlearn.input_files import regular_file
from medunlearn.request.case.evidence import SCHEMA, CaseEvidence
from medunlearn.request.case.page_checks import render_page
from medunlearn.request.case.signing_keys import STATEMENT, public_pem
from medunlearn.request.case.statement import IN_TOTO, sign, statement
from medunlearn.request.holders.traces import SubjectTraces, words_of

EVIDENCE, PAGE, SETTINGS, PUBLIC_KEY = "evidence.json", "case.html", "settings.json", "public-key.pem"
SBOM = "sbom.cdx.json"


@dataclass(frozen=True)
class CaseFolder:
    """A complete case on disk.

    Attributes:
        sha256: of the signed envelope, as named in the ledger's row.
    """

    folder: Path
    evidence: CaseEvidence
    sha256: str

    @staticmethod
    def open(folder: Path) -> CaseFolder:
        """Open a case without checking it (see :func:`medunlearn.request.case.case_checks.verify_case`).

        Raises:
            InputError: the folder holds no case, or one that cannot be read.
        """
        if not is_case(folder):
            raise InputError(f"{folder} holds no case (no {STATEMENT}).")
        envelope = regular_file(folder / STATEMENT).read_bytes()
        if not (folder / EVIDENCE).exists():
            raise InputError(f"{folder / EVIDENCE} is missing. Copy the whole case again.")
        evidence = CaseEvidence.of(regular_file(folder / EVIDENCE).read_bytes(), folder / EVIDENCE)
        return CaseFolder(folder, evidence, hashlib.sha256(envelope).hexdigest())


def is_case(folder: Path) -> bool:
    """True if a folder is a case."""
    return (folder / STATEMENT).exists()


def write_case(
    folder: Path, evidence: CaseEvidence, key: Ed25519PrivateKey, *, traces: SubjectTraces | None = None
) -> CaseFolder:
    """Write and sign a case; a folder that already contains this case is left unchanged.

    Args:
        folder: new, or empty.
        traces: traces of the patient; a case that contains one is refused.

    Raises:
        InputError: the folder holds something else, or a file would hold a trace of the patient.
        StorageError: the disk refused; no case was written.
    """
    if is_case(folder):
        return _same_case(folder, evidence)
    if folder.exists() and (not folder.is_dir() or not holds_nothing(folder)):
        raise InputError(f"{folder} is not empty, and a case is written into a new folder. Choose another --out.")
    if traces is not None:
        _refuse_traces(evidence, traces)
    files = case_files(evidence, key)
    part = part_of(folder)
    try:
        make_folder(folder.parent)
        remove_stray_parts(folder.parent, part_pattern(folder.name))
        shutil.rmtree(part, ignore_errors=True)
        for name, content in files.items():
            _write(part / name, content)
        if folder.exists():
            remove_stray_parts(folder)
        _sync(part)
        part.rename(folder)
        _sync(folder.parent)
    except OSError as error:
        if folder.exists() and is_case(folder):
            return _same_case(folder, evidence)
        raise as_storage_error(error, folder) or error from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return CaseFolder(folder, evidence, hashlib.sha256(files[STATEMENT]).hexdigest())


def case_files(evidence: CaseEvidence, key: Ed25519PrivateKey) -> dict[str, bytes]:
    """Name -> content of every file of a case, the statement over all others last."""
    public, content = key.public_key(), evidence.content()
    files = {
        EVIDENCE: content,
        SCHEMA.name: SCHEMA.read_bytes(),
        SETTINGS: json_bytes(evidence.settings),
        SBOM: _software_list(),
        PUBLIC_KEY: public_pem(public),
        PAGE: render_page(evidence, content, public),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**files, STATEMENT: sign(IN_TOTO, json_bytes(statement(evidence, digests)), key)}


@cache
def _software_list() -> bytes:
    """The installed software; takes half a second, cached per process."""
    from medunlearn.results.sbom import sbom

    return f"{sbom()}\n".encode()


def _same_case(folder: Path, evidence: CaseEvidence) -> CaseFolder:
    """The existing case, if it equals this one except for the time and the software that wrote it."""
    case = CaseFolder.open(folder)
    other = [
        name
        for name, value in evidence
        if name not in ("created", "software") and getattr(case.evidence, name) != value
    ]
    if other:
        words = ", ".join(other)
        raise InputError(
            f"{folder} holds another case (other: {words}). A case is never overwritten. Choose another --out."
        )
    return case


def _write(path: Path, content: bytes) -> None:
    make_folder(path.parent)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_traces(evidence: CaseEvidence, traces: SubjectTraces) -> None:
    """Refuse evidence that contains an id, an identifier or a run of words of the patient.

    The page and the settings contain nothing beyond the evidence. A part of a name is not a trace here: Page, Rich
    and Case are surnames.
    """
    for text in _texts(evidence.model_dump(mode="json")):
        counts = traces.phrases.count(words_of(text))
        del counts["part of an identifier"]
        if counts.total() or text in traces.exact:
            raise InputError(
                f"The evidence of the case would hold a trace of the patient ({next(iter(counts), 'id')}); nothing "
                "was written. Leave it out of settings and titles."
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
