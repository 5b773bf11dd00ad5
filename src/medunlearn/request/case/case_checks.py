"""Verification of a case: signature, files, verdict, the current model, and the model's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509 import Certificate

from medunlearn.data.leftovers import is_passed_over
from medunlearn.data.storage import read_json, sha256_of
from medunlearn.errors import InputError, MedunlearnError, first_few
from medunlearn.input_files import regular_file
from medunlearn.models.folders import fingerprinted, model_folder, record_folder
from medunlearn.models.model_files import RULE, files_below, is_weights_or_code, reason_left_out
from medunlearn.request.case.case_folder import EVIDENCE, PAGE, PUBLIC_KEY, SETTINGS
from medunlearn.request.case.digests import BASE, base_folder, digest_model, weights_by_name
from medunlearn.request.case.evidence import Battery, CaseDecision, CaseEvidence, ModelDigest
from medunlearn.request.case.ledger import LEDGER, LedgerRow, RequestLedger, ledger_path, read_ledger
from medunlearn.request.case.ledger_checks import SignedCase, cases_beside, missing_requests
from medunlearn.request.case.page_checks import compare_page
from medunlearn.request.case.signing_keys import STATEMENT, key_id, public_key_of
from medunlearn.request.case.statement import (
    LEDGER_HEAD,
    MODELS,
    NOTES,
    SignatureError,
    is_as_written,
    subject_digests,
    subjects_of,
    unverified_payload,
    verified_payload,
)
from medunlearn.request.case.timestamp_checks import QUERY, REPLY, TimestampError, read_timestamp
from medunlearn.request.case.verdicts import OLDER_RULES, decide
from medunlearn.results.verify import Check, State, Verification

BatteryRunner = Callable[[CaseEvidence, Path], Battery]
"""Runs the battery of a case again, on the model in a folder as it is now."""
COPY_AGAIN = "copy the whole case again"
_NAMES = (*(f"{name}/" for name in MODELS), NOTES, LEDGER_HEAD)


def looks_like_case(folder: Path) -> bool:
    """True if a folder is a case, or the remains of one."""
    return any((folder / name).exists() for name in (STATEMENT, EVIDENCE, PAGE))


def verify_case(
    folder: Path,
    model: Path | None = None,
    *,
    public_key: Ed25519PublicKey | None = None,
    authority: Sequence[Certificate] = (),
    run_battery: BatteryRunner | None = None,
) -> Verification:
    """Check a case against its signature, and a model against the case. Changes nothing.

    Args:
        model: current run or model folder; None: the models' files are not checked.
        public_key: the owner's, from another source than the case; None: the case's own, which detects changes by
            anybody but the signer.
        authority: trusted certificates, of which one must vouch for the time stamp's; empty: the stamp's signature
            is checked, but not whose it is.
        run_battery: runs the battery again on ``model``; None: the verdict is not checked on it.

    Raises:
        InputError: the folder holds no case, or ``model`` holds no model.
    """
    if not folder.is_dir() or not looks_like_case(folder):
        raise InputError(f"{folder} holds no case (no {STATEMENT}).")
    checks = list(_CaseFiles(folder, public_key, authority).checks())
    try:
        evidence = CaseEvidence.of(regular_file(folder / EVIDENCE).read_bytes(), EVIDENCE)
    except (OSError, InputError):
        return Verification(tuple(checks))
    if model is None:
        checks.append(Check(folder, "model", "model", "not checked", "name its folder too: verify MODEL CASE"))
    else:
        checks += _model_checks(evidence.model_in, evidence.model_out, model)
        checks += _LedgerChecks(folder, model, public_key).checks()
    checks.append(_battery_check(folder, evidence, model, run_battery))
    return Verification(tuple(checks))


@dataclass(frozen=True)
class _CaseFiles:
    folder: Path
    public_key: Ed25519PublicKey | None
    authority: Sequence[Certificate]

    def checks(self) -> Iterator[Check]:
        """Checks of the signature, the signed files, the evidence and the time stamp, and of unsigned files."""
        signed: Mapping[str, str] = {}
        if (self.folder / STATEMENT).exists():
            content = regular_file(self.folder / STATEMENT).read_bytes()
            yield from self._signature(content)
            with suppress(SignatureError):
                signed = subjects_of(unverified_payload(content))
        else:
            yield self._check("signature", STATEMENT, "missing", COPY_AGAIN)
        files = {name: digest for name, digest in signed.items() if not name.startswith(_NAMES)}
        for name, digest in files.items():
            yield self._file(name, digest)
        yield from self._evidence(signed)
        if self.authority or any((self.folder / name).exists() for name in (QUERY, REPLY)):
            yield self._timestamp()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file() or path.is_symlink()):
            name = path.relative_to(self.folder).as_posix()
            if name not in (*files, STATEMENT, QUERY, REPLY) and not is_passed_over(path):
                yield self._check("file", name, "orphan", "it is not signed, and no part of the case")

    def _check(self, what: str, name: str, state: State, note: str = "") -> Check:
        return Check(self.folder, what, name, state, note)

    def _signature(self, content: bytes) -> Iterator[Check]:
        path = self.folder / PUBLIC_KEY
        own = public_key_of(path.read_bytes()) if path.is_file() else None
        key = self.public_key or own
        if key is None:
            why = "the case holds no public key: give the owner's with --public-key"
            yield self._check("signature", STATEMENT, "not checked", why)
            return
        if problem := _signature_problem(content, key):
            # Another key's signature is told from a changed statement.
            if self.public_key is not None and own is not None and not _signature_problem(content, own):
                problem = f"another key signed it: {key_id(own)}, not {key_id(key)}"
            yield self._check("signature", STATEMENT, "differs", problem)
            return
        if is_as_written(content, key):
            yield self._check("signature", STATEMENT, "ok", f"key {key_id(key)}")
        else:
            why = "the signature holds, but something around it was changed"
            yield self._check("signature", STATEMENT, "differs", why)
        if self.public_key is None:
            why = "by the case's own public key: whose it is, --public-key FILE of the owner tells"
            yield self._check("signer", PUBLIC_KEY, "not checked", why)

    def _file(self, name: str, digest: str) -> Check:
        path = self.folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            return self._check("case file", name, "differs", "it would be outside of the case")
        if not path.exists():
            return self._check("case file", name, "missing", COPY_AGAIN)
        if not path.is_file() or sha256_of(path) != digest:
            return self._check("case file", name, "differs", "it was changed after the case was signed")
        return self._check("case file", name, "ok")

    def _timestamp(self) -> Check:
        try:
            stamp = read_timestamp(self.folder, self.authority)
        except TimestampError as error:
            state: State = "differs" if (self.folder / REPLY).exists() else "missing"
            return self._check("time stamp", REPLY, state, str(error))
        return self._check("time stamp", REPLY, "ok" if stamp.trusted else "not checked", str(stamp))

    def _evidence(self, signed: Mapping[str, str]) -> Iterator[Check]:
        """Check that evidence, statement, settings and verdict agree."""
        path = self.folder / EVIDENCE
        if not path.exists():
            if EVIDENCE not in signed:
                yield self._check("case file", EVIDENCE, "missing", COPY_AGAIN)
            return
        try:
            content = regular_file(path).read_bytes()
            evidence = CaseEvidence.of(content, EVIDENCE)
            settings = read_json(self.folder / SETTINGS) if (self.folder / SETTINGS).exists() else evidence.settings
        except InputError as error:
            yield self._check("evidence", EVIDENCE, "differs", str(error))
            return
        problems = []
        materials = {name: digest for name, digest in signed.items() if name.startswith(_NAMES)}
        if materials != subject_digests(evidence, {}):
            problems.append("the statement names other models, notes or another ledger")
        if settings != evidence.settings:
            problems.append(f"{SETTINGS} has other settings")
        state, words = _verdict_state(evidence)
        if state == "differs":
            problems.append(words)
        yield self._check("evidence", EVIDENCE, "differs" if problems else state, "; ".join(problems) or words)
        yield from self._page(content)

    def _page(self, content: bytes) -> Iterator[Check]:
        """Check that the page is the one that the evidence gives; one that is not there is named elsewhere."""
        path, own = self.folder / PAGE, self.folder / PUBLIC_KEY
        key = (public_key_of(own.read_bytes()) if own.is_file() else None) or self.public_key
        if not path.is_file() or key is None:
            return
        state, note = compare_page(path.read_bytes(), content, key)
        yield self._check("page", PAGE, state, note)


def _verdict_state(evidence: CaseEvidence) -> tuple[State, str]:
    """State of a case's verdict beside the one that its numbers give by today's rules."""
    battery = evidence.battery
    if battery.name == "forget" and battery.version in OLDER_RULES:
        return "not checked", (
            f"its verdict was decided by the rules of battery version {battery.version}, which this version of the "
            "software does not have; the signature covers it"
        )
    now, then = verdict_of(evidence, battery), evidence.decision
    if _outcome(now) != _outcome(then):
        return "differs", "its numbers give another verdict by the rules of this version"
    # A verdict outlives the words of the version that wrote it.
    return "ok", "" if now.reasons == then.reasons else "this version words the reasons of the verdict otherwise"


def _outcome(decision: CaseDecision) -> tuple[object, ...]:
    """All of a decision but its words."""
    patients = {(one.patient, one.verdict) for one in decision.patients}
    return decision.verdict, decision.others, decision.bounds, patients


def _signature_problem(content: bytes, key: Ed25519PublicKey) -> str:
    try:
        verified_payload(content, key)
    except SignatureError as error:
        return str(error)
    return ""


def verdict_of(evidence: CaseEvidence, battery: Battery, model: str | None = None) -> CaseDecision:
    """The decision that the rules give for a case with a battery's numbers.

    Args:
        model: fingerprint of the model that the battery tested; None: the case's.
    """
    models = evidence.model_in.fingerprint, model or evidence.model_out.fingerprint
    how: dict[str, Any] = {"patients": evidence.request.patients, "earlier": evidence.ledger.rows}
    return decide(battery, evidence.costs, exact=evidence.exact, models=models, **how)


def _model_checks(before: ModelDigest, after: ModelDigest, model: Path) -> Iterator[Check]:
    """Check the current files of a model against those recorded in the case, by the rule of the case."""
    if not Path(model_folder(model)).is_dir():
        raise InputError(f"There is no model in {model}: name its run, or its Hugging Face folder.")
    try:
        now = digest_model(model, after.rule)
        digests, expected = weights_by_name(now), weights_by_name(after)
        unsigned = list(_unsigned_files(model, Path(model_folder(model)), after.rule))
    except MedunlearnError as error:
        yield Check(model, "model", "model", "missing", str(error))
        return
    if digests == weights_by_name(before) != expected:
        yield Check(model, "model", "model", "differs", "it is the model that went in: nothing was forgotten in it")
        return
    for name, digest in expected.items():
        if name not in digests:
            yield Check(model, "model file", name, "missing", "the case names it")
        elif digests[name] != digest:
            yield Check(model, "model file", name, "differs", "another SHA-256 than the case says")
        else:
            yield Check(model, "model file", name, "ok")
    for name in digests.keys() - expected.keys():
        yield Check(model, "model file", name, "differs", "the case does not name it")
    if after.rule != RULE:
        why = (
            "an older version wrote the case: it covers weights and some names at the top of the folder, no others"
        )
        yield Check(model, "fingerprint", after.fingerprint[:12], "not checked", why)
    yield from unsigned


def _unsigned_files(model: Path, folder: Path, rule: Literal[1, 2], prefix: str = "") -> Iterator[Check]:
    """A check of every file, at any depth, that a fingerprint of this rule does not cover; also below the bases."""
    covered = fingerprinted(folder, rule)
    for name in (name for name, _ in files_below(folder) if name not in covered and name != LEDGER):
        state: State = "orphan"
        why = reason_left_out(name)
        if is_weights_or_code(name):
            state, why = "differs", "the case does not name it, and it can change what is computed"
        elif why:
            why = f"not signed: {why}"
        else:
            state, why = "not checked", "not signed: fingerprints of older versions did not cover it"
        yield Check(model, "model file", prefix + name, state, why)
    base = base_folder(folder)
    if base is not None:
        yield from _unsigned_files(model, base, rule, prefix + BASE)


@dataclass(frozen=True)
class _LedgerChecks:
    """Checks of a model's ledger: its chain, each row against its signed case, and requests that it lacks."""

    case: Path
    model: Path
    public_key: Ed25519PublicKey | None

    def checks(self) -> Iterator[Check]:
        path, ledger = ledger_path(self.model), RequestLedger()
        folders = (record_folder(self.model).absolute().parent, self.case.absolute().parent, self.case)
        cases = cases_beside(folders, self.public_key)
        if path.exists():
            try:
                ledger = read_ledger(self.model)
            except (MedunlearnError, OSError) as error:
                yield self._check("ledger", path.name, "differs", str(error))
                return
            yield self._own_row(ledger, path.name)
        missing = list(missing_requests(ledger, self.model, cases.values()))
        lost = f"requests that its model went through: {first_few(missing)}" if missing else ""
        if not path.exists():
            note = f"earlier patients cannot be told without it{f'; it had {lost}' if lost else ''}"
            yield self._check("ledger", path.name, "missing", note)
        elif lost:
            yield self._check("ledger", path.name, "differs", f"it lacks {lost}")
        yield from (self._row(row, cases) for row in ledger.requests)

    def _check(self, what: str, name: str, state: State, note: str = "") -> Check:
        return Check(ledger_path(self.model).parent, what, name, state, note)

    def _own_row(self, ledger: RequestLedger, name: str) -> Check:
        statement = self.case / STATEMENT
        row = ledger.row_of(sha256_of(statement)) if statement.exists() else None
        if row is None:
            return self._check("ledger", name, "differs", "it has no row of this case")
        return self._check("ledger", name, "ok", f"row {row.row + 1} of {len(ledger.rows)}")

    def _row(self, row: LedgerRow, cases: Mapping[str, SignedCase]) -> Check:
        name, case = f"row {row.row + 1}", cases.get(row.entry.case_sha256)
        if case is None:
            note = "its case is not beside the model or this case: put it there, and verify again"
            return self._check("ledger row", name, "not checked", note)
        if problem := case.row_problem(row):
            return self._check("ledger row", name, "differs", problem)
        if self.public_key is not None and case.key != key_id(self.public_key):
            note = f"it is as in its case {case.folder}, which another key signed: {case.key}"
            return self._check("ledger row", name, "not checked", note)
        return self._check("ledger row", name, "ok", f"as in its signed case {case.folder.name}")


def _battery_check(folder: Path, evidence: CaseEvidence, model: Path | None, run: BatteryRunner | None) -> Check:
    name = evidence.battery.name
    if run is None or model is None:
        why = "it was not run again on the model: --work names the folder that `forget` wrote beside the case"
        return Check(folder, "battery", name, "not checked", why)
    decision = verdict_of(evidence, run(evidence, model), digest_model(model).fingerprint)
    same = decision.verdict == evidence.decision.verdict
    note = f"{decision.verdict} now, {evidence.decision.verdict} in the case"
    if decision.reasons[0] != evidence.decision.reasons[0]:
        note += f": {decision.reasons[0]}"
    return Check(folder, "battery", name, "ok" if same else "differs", note)
