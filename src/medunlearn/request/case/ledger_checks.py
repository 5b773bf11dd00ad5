"""Checks of a ledger against the signed cases beside its model, and against the requests that its model card lists.

A chain of hashes can be computed anew by anybody who may write the file; the signed cases cannot. They tell a row
that was rewritten, a row that was removed, and a ledger that is no longer there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, first_few
from medunlearn.input_files import regular_file
from medunlearn.models.folders import model_identity, record_folder
from medunlearn.request.case.card_section import listed_requests
from medunlearn.request.case.case_folder import EVIDENCE, PUBLIC_KEY, is_case
from medunlearn.request.case.evidence import CaseEvidence
from medunlearn.request.case.ledger import LedgerEntry, LedgerRow, RequestLedger, ledger_path
from medunlearn.request.case.signing_keys import STATEMENT, key_id, public_key_of
from medunlearn.request.case.statement import SignatureError, subjects_of, verified_payload

RESTORE = "Restore it from a copy; without it earlier patients would be trained on again."
_FIELDS = {
    "received": "date of receipt",
    "closed": "closing date",
    "model_in": "model before",
    "model_out": "model after",
    "case_sha256": "case",
}


@dataclass(frozen=True)
class SignedCase:
    """A case found beside a model.

    Attributes:
        sha256: of its signed statement.
        evidence: None for a case that was changed, or cannot be read.
        key: id of the key that signed it; "" for a case that was changed.
        problem: the reason why it has no evidence.
    """

    folder: Path
    sha256: str
    evidence: CaseEvidence | None = None
    key: str = ""
    problem: str = ""

    @staticmethod
    def read(folder: Path, public_key: Ed25519PublicKey | None = None) -> SignedCase:
        """Read a case, and check its signature by the given key, else by its own."""
        path = folder / STATEMENT
        digest = sha256_of(path)
        try:
            own = public_key_of(regular_file(folder / PUBLIC_KEY).read_bytes())
            keys = [key for key in (public_key, own) if key is not None]
            payload, key = _payload(path.read_bytes(), keys)
            content = regular_file(folder / EVIDENCE).read_bytes()
            if subjects_of(payload).get(EVIDENCE) != hashlib.sha256(content).hexdigest():
                raise SignatureError(f"its {EVIDENCE} was changed")
            return SignedCase(folder, digest, CaseEvidence.of(content, folder / EVIDENCE), key_id(key))
        except (OSError, InputError, SignatureError) as error:
            return SignedCase(folder, digest, problem=str(error))

    def row_problem(self, row: LedgerRow) -> str:
        """Difference between a ledger's row and this case; "" if they agree."""
        if self.evidence is None:
            return f"its case {self.folder} cannot be relied on: {self.problem}"
        ledger = self.evidence.ledger
        if (row.row, row.previous) != (ledger.rows, ledger.head or ""):
            return (
                "it has another place than its signed case says: rows before it were changed, removed or inserted"
            )
        entry, signed = asdict(row.entry), asdict(LedgerEntry.of(self.evidence, self.sha256))
        names = [_FIELDS.get(name, name) for name, value in signed.items() if entry[name] != value]
        return f"its {', '.join(names)} differ from the signed case {self.folder}" if names else ""


def _payload(content: bytes, keys: Iterable[Ed25519PublicKey]) -> tuple[bytes, Ed25519PublicKey]:
    """The payload of an envelope, and the first of these keys that signed it."""
    problem = SignatureError("it has no public key")
    for key in keys:
        try:
            return verified_payload(content, key), key
        except SignatureError as error:
            problem = error
    raise problem


def cases_beside(folders: Iterable[Path], public_key: Ed25519PublicKey | None = None) -> Mapping[str, SignedCase]:
    """SHA-256 of the statement -> case, of all cases in these folders, and of these folders themselves."""
    cases: dict[str, SignedCase] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        with suppress(OSError):
            places = [folder, *(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())]
            for place in sorted(filter(is_case, places)):
                case = SignedCase.read(place, public_key)
                cases.setdefault(case.sha256, case)
    return cases


def cases_behind(model: str, cases: Iterable[SignedCase]) -> Iterator[SignedCase]:
    """Cases by which a model came about: that which made it, that which made the model before, and so on.

    A case that left its model unchanged, or dropped an adapter, made no model whose ledger has to name it.

    Args:
        model: fingerprint.
    """
    makers = [(case, case.evidence) for case in cases if case.evidence is not None]
    models, open_models = {model}, [model]
    while open_models:
        name = open_models.pop()
        for case, evidence in makers:
            before, after = evidence.model_in.fingerprint, evidence.model_out.fingerprint
            dropped = evidence.exact is not None and evidence.exact.road == "adapter dropped"
            if after == name != before and not dropped:
                yield case
                if before not in models:
                    models.add(before)
                    open_models.append(before)


def missing_requests(ledger: RequestLedger, model: Path, cases: Iterable[SignedCase]) -> Iterator[str]:
    """Requests that the model went through and its ledger lacks, by its card and by the cases.

    A request that was carried out twice with the same result is in the ledger once.
    """
    rows = {row.entry.case_sha256 for row in ledger.requests}
    results = {(row.entry.patients, row.entry.model_in, row.entry.model_out) for row in ledger.requests}
    for case in cases_behind(model_identity(str(model)), cases):
        assert case.evidence is not None
        entry = LedgerEntry.of(case.evidence, case.sha256)
        if case.sha256 not in rows and (entry.patients, entry.model_in, entry.model_out) not in results:
            yield f"the case {case.folder}"
    listed = listed_requests(model)
    yield from (f"case {sha256[:12]}, which {card} lists" for card, sha256 in listed if sha256 not in rows)


def refuse_lost_requests(ledger: RequestLedger, model: Path, beside: Iterable[Path] = ()) -> None:
    """Refuse a model whose ledger was removed, shortened or rewritten, as cases beside it or its card tell.

    Args:
        beside: further folders that may hold cases, besides that of the model.

    Raises:
        InputError: names the requests that the ledger lacks, or the row that differs from its case.
    """
    path = ledger_path(model)
    cases = cases_beside([record_folder(model).absolute().parent, *beside])
    if missing := list(missing_requests(ledger, model, cases.values())):
        raise InputError(f"{path} lacks requests that its model went through: {first_few(missing)}. {RESTORE}")
    for row in ledger.requests:
        case = cases.get(row.entry.case_sha256)
        if case is not None and case.evidence is not None and (problem := case.row_problem(row)):
            raise InputError(f"{path}: row {row.row + 1} was rewritten: {problem}. {RESTORE}")
