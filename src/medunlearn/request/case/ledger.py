"""Ledger of a model: every deletion request carried out on it, in order.

``requests.parquet`` is in the run's folder (or the model's, without a run) and is passed on with the model: the
model after a request has the rows of the model before, and one more. Each row names the SHA-256 of the previous
row, so no row can be changed, removed or inserted without changing all later ones; the head is in ``run.json`` and,
signed, in the next case. It contains pseudonyms and dates, no ids.

The records of earlier patients are not listed anywhere. :func:`earlier_records` computes the pseudonym of every
patient in the notes and looks it up, which needs the owner's secret and the notes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.lineage import read_lineage
from medunlearn.data.storage import json_bytes, read_table, sha256_of_json, table_bytes, write_files
from medunlearn.errors import BenchmarkError, InputError
from medunlearn.models.folders import RECORD, is_model, model_identity, record_folder
from medunlearn.request.case.evidence import CaseEvidence, Verdict
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.results.record import RunRecord

LEDGER = "requests.parquet"
REQUESTS = "requests"
"""Key in the results of ``run.json``: number of rows and head."""
CARRIED = "carried over"
CLOSED: tuple[Verdict, ...] = ("deleted", "no residual found")
"""Verdicts that close a request."""
COSTLY = ", others not kept"
_TEXTS = ("received", "closed", "verdict", "case_sha256", "model_in", "model_out", "secret", "sha256")
_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("previous", pa.string()),
        ("patients", pa.list_(pa.string())),
        *((name, pa.string()) for name in _TEXTS),
    ]
)


@dataclass(frozen=True)
class LedgerEntry:
    """One completed request.

    Attributes:
        patients: pseudonyms.
        received, closed: ISO dates; the case was written on the latter.
        verdict: the case's, with :data:`COSTLY` where others were not kept; or ``carried over``: not a request, but
            a new model derived from this one.
        case_sha256: of the case's signed statement; "" for a row without a case.
        model_in, model_out: fingerprints.
        secret: id of the secret of the pseudonyms.
    """

    patients: tuple[str, ...]
    received: str
    closed: str
    verdict: str
    case_sha256: str
    model_in: str
    model_out: str
    secret: str

    @staticmethod
    def of(evidence: CaseEvidence, case_sha256: str) -> LedgerEntry:
        """The entry for a case."""
        request = evidence.request
        return LedgerEntry(
            request.patients,
            request.received.isoformat(),
            evidence.created.date().isoformat(),
            verdict_entry(evidence),
            case_sha256,
            evidence.model_in.fingerprint,
            evidence.model_out.fingerprint,
            request.secret,
        )

    @property
    def is_open(self) -> bool:
        """True if the request was not carried out, so that it can be repeated on this model."""
        return self.verdict not in (*CLOSED, CARRIED)


def verdict_entry(evidence: CaseEvidence) -> str:
    """The verdict of a case as a ledger and a card name it."""
    decision = evidence.decision
    is_costly = decision.verdict in CLOSED and not decision.carried_out and decision.others == "not kept"
    return decision.verdict + (COSTLY if is_costly else "")


@dataclass(frozen=True)
class LedgerRow:
    """An entry in its chain: ``sha256`` is over everything else in the row, ``previous`` is that of the row
    before.
    """

    row: int
    previous: str
    entry: LedgerEntry
    sha256: str

    @staticmethod
    def of(row: int, previous: str, entry: LedgerEntry) -> LedgerRow:
        return LedgerRow(row, previous, entry, sha256_of_json([row, previous, asdict(entry)]))

    def values(self) -> dict[str, Any]:
        return {**asdict(self.entry), "row": self.row, "previous": self.previous, "sha256": self.sha256}


@dataclass(frozen=True)
class RequestLedger:
    """Rows of a ledger with an intact chain."""

    rows: tuple[LedgerRow, ...] = ()

    @property
    def head(self) -> str | None:
        """Hash of the last row; None for an empty ledger."""
        return self.rows[-1].sha256 if self.rows else None

    @property
    def model(self) -> str | None:
        """Fingerprint of the model that the ledger belongs to; None for an empty ledger."""
        return self.rows[-1].entry.model_out if self.rows else None

    @property
    def requests(self) -> tuple[LedgerRow, ...]:
        return tuple(row for row in self.rows if row.entry.patients)

    def extended(self, entry: LedgerEntry) -> RequestLedger:
        return RequestLedger((*self.rows, LedgerRow.of(len(self.rows), self.head or "", entry)))

    def row_of(self, case_sha256: str) -> LedgerRow | None:
        return next((row for row in self.rows if row.entry.case_sha256 == case_sha256), None)


def ledger_path(model: Path) -> Path:
    """Path of the ledger of a run or a model folder: beside ``run.json`` if there is one."""
    return record_folder(model) / LEDGER


def read_ledger(model: Path, *, fingerprint: str | None = None) -> RequestLedger:
    """The ledger of a model; empty if there is none.

    Args:
        fingerprint: of the model, if already known.

    Raises:
        InputError: it is broken, its chain is, its end was cut off, or it is another model's.
    """
    path = ledger_path(model)
    ledger = read_ledger_file(path)
    head = read_lineage(path.parent).ledger_head
    if head not in {None, *(row.sha256 for row in ledger.rows)}:
        raise InputError(
            f"{path} lacks rows that {RECORD} beside it names: it was truncated or replaced by an older copy. "
            "Restore it from a copy; "
            "without it earlier patients would be trained on again."
        )
    if ledger.model is not None and ledger.model != fingerprint and not is_model(str(model), ledger.model):
        raise InputError(
            f"{path} is the ledger of another model. Restore the model's own; for a model derived from another by "
            "further training, carry the ledger over (docs/case.md#the-ledger)."
        )
    return ledger


def read_ledger_file(path: Path) -> RequestLedger:
    """The rows of a ledger file, whichever model it is beside; empty without a file.

    Raises:
        InputError: the file or its chain is broken: names the first row that does not follow.
    """
    if not path.exists() and not path.is_symlink():
        return RequestLedger()
    try:
        table = read_table(path, _SCHEMA)
    except BenchmarkError as error:
        raise InputError(f"{path} cannot be read as a ledger. Restore it from a copy. ({error})") from error
    names = [field.name for field in fields(LedgerEntry)]
    rows: list[LedgerRow] = []
    for place, values in enumerate(table):
        try:
            facts = {name: values[name] for name in names} | {"patients": tuple(values["patients"])}
            row = LedgerRow.of(place, rows[-1].sha256 if rows else "", LedgerEntry(**facts))
        except TypeError:
            row = None
        if row is None or row.values() != values | {"patients": tuple(values["patients"] or ())}:
            raise InputError(
                f"{path}: row {place} does not follow the row before it: a row was changed, removed or inserted. "
                "Restore the ledger from a copy."
            )
        rows.append(row)
    return RequestLedger(tuple(rows))


def append_request(source: Path, target: Path, entry: LedgerEntry) -> RequestLedger:
    """Write the ledger of the model after a request: the rows of the model before, and one more.

    Repeating it with the same case changes nothing, so a killed command can be run again. If the case was deleted
    and the request is carried out again on the same model, the new case's row replaces the old one.

    Args:
        source, target: run or model folder of the model before and after the request.

    Raises:
        InputError: a ledger of another model or owner, or the target has a different ledger.
        StorageError: the disk refused; the old ledger remains.
    """
    path = ledger_path(target)
    with lock_folder(path.parent, "forget"):
        there = read_ledger_file(path)
        if entry.case_sha256 and there.row_of(entry.case_sha256) is not None:
            _write(path, there)
            return there
        ledger = read_ledger(source, fingerprint=entry.model_in)
        refuse_other_secret(ledger, entry.secret)
        if not _is_repeated(there, ledger, entry):
            _refuse_other_requests(path, there, ledger)
        extended = ledger.extended(entry)
        _write(path, extended)
    return extended


def _is_repeated(there: RequestLedger, before: RequestLedger, entry: LedgerEntry) -> bool:
    """True if a ledger ends with the same request on the same models, from a case that no longer exists."""
    if not there.rows:
        return False
    last = there.rows[-1].entry
    same = replace(last, closed=entry.closed, verdict=entry.verdict, case_sha256=entry.case_sha256)
    return there.rows[:-1] == before.rows and same == entry


def carry_ledger(source: Path, target: Path, *, secret: OwnerSecret | None = None, on: date) -> RequestLedger:
    """Write the ledger of a model derived from another by further training, a merge or a quantization.

    The new row says that no request was carried out; the earlier patients must be tested again in the new model.
    For a model with identical files, the rows are copied unchanged.

    Args:
        secret: of the owner; None: that of the rows, which are not read. An empty ledger is then not written.

    Raises:
        InputError: as :func:`append_request`.
    """
    day = on.isoformat()
    models = model_identity(str(source)), model_identity(str(target))
    ledger = read_ledger(source, fingerprint=models[0])
    if not ledger.rows and (secret is None or models[0] == models[1]):
        return ledger
    if models[0] == models[1]:
        path = ledger_path(target)
        with lock_folder(path.parent, "forget"):
            _refuse_other_requests(path, read_ledger_file(path), ledger)
            _write(path, ledger)
        return ledger
    secret_id = ledger.rows[-1].entry.secret if secret is None else secret.secret_id
    # A name for the row, so that it is written once.
    name = sha256_of_json([CARRIED, *models])
    return append_request(source, target, LedgerEntry((), day, day, CARRIED, name, *models, secret_id))


def _refuse_other_requests(path: Path, there: RequestLedger, ledger: RequestLedger) -> None:
    if there.rows and there != ledger:
        raise InputError(f"{path} contains other requests than the source model's ledger. Choose another --out.")


def refuse_other_secret(ledger: RequestLedger, secret_id: str) -> None:
    """Refuse a secret other than that of the ledger's pseudonyms: it would not recognize earlier patients.

    Raises:
        InputError: another secret.
    """
    if any(row.entry.secret != secret_id for row in ledger.rows):
        raise InputError(
            "The ledger's pseudonyms were made with another secret, so this one does not recognize earlier "
            "patients. Put pseudonyms.key of the earlier requests beside the key."
        )


@dataclass(frozen=True)
class EarlierRecords:
    """Records of patients of earlier requests: never to be trained on, and to be tested again.

    Attributes:
        records: their ids, in the order of the notes.
        subjects: id -> its last row in the ledger.
        absent: pseudonyms of earlier patients who are not in these notes: removed from them, or under another id.
    """

    records: tuple[str, ...]
    subjects: Mapping[str, int]
    absent: tuple[str, ...]


def earlier_records(
    ledger: RequestLedger,
    secret: OwnerSecret,
    owners: Iterable[tuple[str, str]],
    level: str = "patient",
    *,
    again: Collection[str] = (),
) -> EarlierRecords:
    """Find the records of earlier patients in the notes.

    Args:
        owners: record id and subject id of every record.
        level: the level of the subjects.
        again: patients of this request; one whose last request is open is no earlier one.

    Raises:
        InputError: the ledger's pseudonyms were made with another secret.
    """
    refuse_other_secret(ledger, secret.secret_id)
    last = {name: row for row in ledger.requests for name in row.entry.patients}
    repeated = {name for patient in again if last for name in _pseudonyms(secret, patient, level)}
    rows = {name: row.row for name, row in last.items() if not (name in repeated and row.entry.is_open)}
    pairs = list(owners) if rows else []
    pseudonyms = {owner: _pseudonyms(secret, owner, level) for owner in dict.fromkeys(own for _, own in pairs)}
    subjects = {owner: rows[name] for owner, names in pseudonyms.items() for name in names if name in rows}
    present = {name for names in pseudonyms.values() for name in names}
    absent = tuple(name for name in rows if name not in present)
    return EarlierRecords(tuple(record for record, owner in pairs if owner in subjects), subjects, absent)


def _pseudonyms(secret: OwnerSecret, subject: str, level: str) -> list[str]:
    """Pseudonyms of a subject: versions before 0.2.0 kept the ``.0`` that spreadsheets add to whole numbers."""
    forms = (subject, f"{subject}.0") if subject.isdecimal() else (subject,)
    return [secret.pseudonym(form, level) for form in forms]


def _write(path: Path, ledger: RequestLedger) -> None:
    """Write a ledger, and its head and hash into the run's record; a killed write is completed by the next one."""
    content = table_bytes([row.values() for row in ledger.rows], _SCHEMA)
    files = {path.name: content}
    if (path.parent / RECORD).exists():
        record = RunRecord.read(path.parent)
        record.results[REQUESTS] = {"rows": len(ledger.rows), "head": ledger.head}
        record.tables = {**(record.tables or {}), LEDGER: hashlib.sha256(content).hexdigest()}
        files[RECORD] = json_bytes(record.as_dict())
    write_files(path.parent, files)
