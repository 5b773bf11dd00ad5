"""``evidence.json``: the request, the models and notes, the measurements, and the verdict.

It contains no path, no patient id and no text: models and tables are given as SHA-256, patients as pseudonyms.
``evidence.schema.json`` beside this module is its published JSON schema (draft 2020-12), made from these classes.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from medunlearn.data.storage import json_bytes
from medunlearn.errors import InputError

FORMAT = "medunlearn-evidence/1"
SCHEMA = Path(__file__).with_name("evidence.schema.json")

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Pseudonym = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="HMAC-SHA-256 of a patient's id")]
FileName = Annotated[
    str,
    Field(
        pattern=r"^[^/\\\x00-\x1f]{1,255}(/[^/\\\x00-\x1f]{1,255})*$",
        description="a file's name, relative to the model's folder",
    ),
]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]{0,63}$")]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Unit = Literal["probes", "patients", "samples", "documents", "tokens", "questions"]
Baseline = Literal["retrained model", "unseen patients", "invented patients"]
NOTHING_TRAINED = "none"
"""Method of a case in which no check found the patient."""
Verdict = Literal["deleted", "no residual found", "residual found", "inconclusive", "no baseline"]


class EvidencePart(BaseModel):
    """A part of the evidence; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DeletionRequest(EvidencePart):
    """The request: its patients, its day, and its extent."""

    patients: tuple[Pseudonym, ...] = Field(min_length=1)
    secret: Sha256 = Field(description="id of the secret that the pseudonyms are made with")
    received: date
    asked: Literal["forget", "forget and delete files"]


class FileDigest(EvidencePart):
    sha256: Sha256
    bytes: int = Field(ge=0)


class ModelDigest(EvidencePart):
    """A model without its path: digests of every file that affects its answers, among them the weights."""

    rule: Literal[1, 2] = Field(
        default=1, description="1: weights and a list of file names; 2: all files but a list of those left out"
    )
    fingerprint: str = Field(
        description="medunlearn's fingerprint: equal for equal models, whatever their file names"
    )
    form: Literal["full", "delta", "adapter"]
    files: dict[FileName, FileDigest] = Field(min_length=1)
    base: ModelDigest | None = Field(default=None, description="of a delta or an adapter: its base model")
    hub_base: str | None = Field(
        default=None, pattern=r"^[\w.-]+/[\w.-]+$", description="of an adapter: hub id of its base"
    )


class NotesDigest(EvidencePart):
    """The table of notes used for the request."""

    sha256: Sha256
    records: int = Field(ge=1)
    patients: int = Field(ge=1)
    read: int | None = Field(
        default=None, ge=1, description="records that were read: a seeded sample of others; null: all"
    )
    forget_records: int = Field(ge=1, description="records of this request's patients")
    earlier_records: int = Field(
        0, ge=0, description="records of earlier requests' patients, never trained on again"
    )


class LedgerDigest(EvidencePart):
    """The model's ledger before this case (its next row names this case's digest)."""

    rows: int = Field(ge=0)
    head: Sha256 | None = Field(default=None, description="hash of its last row; null for an empty ledger")


class Software(EvidencePart):
    version: str
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40,64}$")
    changed: bool | None = Field(default=None, description="whether the code was changed since its commit")
    packages: dict[str, str]


class Measurement(EvidencePart):
    """A number with its 95% interval or, for an excess, two one-sided 95% bounds; or a reason without a value."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = Field(ge=0)
    unit: Unit
    reason: str = ""

    @model_validator(mode="after")
    def _has_a_reason(self) -> Measurement:
        if self.value is None and not self.reason:
            raise ValueError("a measurement without a value needs a reason")
        if None not in (self.low, self.high) and self.low > self.high:  # type: ignore[operator]
            raise ValueError("low is above high")
        return self


class ProbeSet(EvidencePart):
    name: Name
    kind: str = Field(min_length=1, description="in plain words: the prompts given to the model")
    n: int = Field(ge=1)
    held_out: bool = Field(description="True if they were not used to choose method and settings")


class Comparison(EvidencePart):
    """Comparison of the model afterwards with a baseline: a retrained model, or unseen patients.

    ``excess`` is the residual above that baseline: positive = something of the patient is left, whatever the
    measure's direction. Its ``low`` and ``high`` are one-sided 95% bounds: ``high`` below the margin is a test at
    5%.
    """

    baseline: Baseline
    excess: Measurement
    margin: float = Field(ge=0.0, description="an excess up to this counts as none")
    p: Share = Field(
        description="one-sided p-value: chance of an excess this large if nothing of the patient is left"
    )
    p_before: Share | None = Field(default=None, description="the same test on the model before: shows its power")


class PatientTest(EvidencePart):
    """One patient in a check, compared with single patients whom no model saw.

    ``p`` is null where the check bounds means and tests nothing, and where too few others could be asked.
    """

    patient: Pseudonym
    value: float
    n: int = Field(ge=1, description="probes of this patient")
    excess: float | None = None
    p: Share | None = None
    p_before: Share | None = Field(default=None, description="the same test on the model before")


class BatteryCheck(EvidencePart):
    """One check of the battery: a measure on some probes, before and after, and for a retrained model.

    ``unseen`` is the model afterwards on patients that no model saw: its background level.
    """

    name: Name
    title: str = Field(min_length=1, max_length=120, description="in plain words")
    measure: str = Field(min_length=1)
    higher: Literal["more is left", "less is left"]
    concerns: Literal["this request", "earlier requests"] = "this request"
    subject: Literal["identifiers", "values", "answers"] = "answers"
    mean_of: tuple[Name, ...] = Field(
        default=(),
        description="the checks over whose probes it is the mean: those that found a patient before",
    )
    patients: tuple[PatientTest, ...] = ()
    probes: ProbeSet
    before: Measurement
    after: Measurement
    retrained: Measurement | None = None
    unseen: Measurement | None = None
    comparison: Comparison | None = Field(default=None, description="null: no baseline exists")


class Untested(EvidencePart):
    name: Name
    title: str = Field(min_length=1, max_length=120)
    reason: str = Field(min_length=1)


class UntestedFacts(EvidencePart):
    """Facts of one kind that no way of asking tested, without their values."""

    kind: str = Field(min_length=1)
    type: str
    reason: str = Field(min_length=1)
    number: int = Field(ge=1)


class FactCoverage(EvidencePart):
    """Numbers of the distinct facts of a patient's notes, and of those that the checks tested."""

    patient: Pseudonym
    tested: int = Field(ge=0)
    facts: int = Field(ge=0)
    identifiers_tested: int = Field(0, ge=0)
    identifiers: int = Field(0, ge=0, description="of the facts, identifiers and dates")
    untested: tuple[UntestedFacts, ...] = ()


class CostReading(EvidencePart):
    """Cost of the deletion for other data."""

    name: Name
    title: str = Field(min_length=1, max_length=120)
    group: Literal["relatives", "neighbours", "other patients", "one patient", "general"]
    patient: Pseudonym | None = Field(default=None, description="of one patient")
    measure: str = Field(min_length=1)
    higher_is_better: bool
    before: Measurement
    after: Measurement
    retrained: Measurement | None = None
    floor: Share | None = Field(default=None, description="smallest allowed share of the value before")

    @property
    def retained_share(self) -> float | None:
        """Value after / before, inverted where lower is better; above 1 = better; None unless both are positive."""
        before, after = self.before.value, self.after.value
        if before is None or after is None or before <= 0.0 or after <= 0.0:
            return None
        return after / before if self.higher_is_better else before / after

    @property
    def within(self) -> bool | None:
        """True if the value is above the floor; None without a floor."""
        share = self.retained_share
        return None if self.floor is None or share is None else share >= self.floor


class EarlierPatients(EvidencePart):
    """Patients of earlier requests: each request asks some of them again, by turns."""

    asked: tuple[Pseudonym, ...] = ()
    not_asked: tuple[Pseudonym, ...] = Field(default=(), description="not this time: nothing is known of them")
    absent: tuple[Pseudonym, ...] = Field(
        default=(), description="not in the notes any more, or under another id, so that nobody can ask"
    )


class Battery(EvidencePart):
    """The checks that the verdict rests on, and skipped checks."""

    name: Name
    version: str = Field(min_length=1)
    alpha: float = Field(0.05, gt=0.0, lt=0.5, description="chance of a false residual over all checks")
    checks: tuple[BatteryCheck, ...] = ()
    untested: tuple[Untested, ...] = ()
    coverage: tuple[FactCoverage, ...] = Field(default=(), description="of each patient of the request")
    templates: tuple[str, ...] = Field(
        default=(), description="prompt templates of the questions; in the second one, direct questions"
    )
    earlier: EarlierPatients | None = Field(
        default=None, description="patients of earlier requests; null: there are none, or an older version"
    )
    problems: tuple[str, ...] = Field(
        default=(), description="why the model afterwards is broken; empty if it is healthy"
    )
    baseline_fault: str | None = Field(
        default=None, description="why the patients that no model saw are no baseline; null if they are"
    )

    @model_validator(mode="after")
    def _has_distinct_names(self) -> Battery:
        names = [*(check.name for check in self.checks), *(untested.name for untested in self.untested)]
        if len({*names}) < len(names):
            raise ValueError("two checks have one name")
        return self


class ExactDeletion(EvidencePart):
    """The model was made without the patient's notes: the adapter that contains them was dropped, or retrained
    without them.
    """

    road: Literal["adapter dropped", "retrained without her"]
    reproduced: str = Field(description="fingerprint of a second run of the same training without the patient")
    base: Literal["made in memory", "recorded", "stated"] | None = Field(
        default=None,
        description="how it is known that the base never saw the patient; stated: by its owner, without a record",
    )


class PassedOver(EvidencePart):
    """A method that could not be applied to the patient's notes."""

    method: str = Field(min_length=1)
    reason: str = Field(min_length=1)


class Bound(EvidencePart):
    """A number that the verdict rests on, with an explanation."""

    check: Name
    text: str


class PatientDecision(EvidencePart):
    """The verdict on one patient of the request."""

    patient: Pseudonym
    verdict: Literal["no residual found", "residual found", "inconclusive"]
    reason: str = Field(min_length=1)


OthersKept = Literal["kept", "not kept", "not measured"]


class CaseDecision(EvidencePart):
    """The verdict and its reasons; created only by :func:`medunlearn.request.case.verdicts.decide`.

    ``others`` is the second part of the headline: whether other patients' answers kept their floor.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = Field(min_length=1)
    bounds: tuple[Bound, ...] = ()
    patients: tuple[PatientDecision, ...] = ()
    others: OthersKept = "not measured"

    @property
    def carried_out(self) -> bool:
        """True if the request is closed: nothing was found any more, and others were kept."""
        return self.verdict in ("deleted", "no residual found") and self.others == "kept"


class NextTest(EvidencePart):
    by: date | None = None
    events: tuple[str, ...] = (
        "after any further training of the model",
        "after it was merged with another or quantized",
        "after the next deletion request",
    )


class CaseEvidence(EvidencePart):
    """The whole evidence of a case."""

    format: Literal["medunlearn-evidence/1"] = "medunlearn-evidence/1"
    created: AwareDatetime
    request: DeletionRequest
    model_in: ModelDigest
    model_out: ModelDigest
    notes: NotesDigest
    ledger: LedgerDigest
    method: str = Field(min_length=1, description="the unlearning method, or the way of exact deletion")
    passed_over: tuple[PassedOver, ...] = Field(
        default=(), description="methods of higher priority that could not be used"
    )
    settings: dict[str, JsonValue] = Field(
        description="settings of the method; a value that names a path or a patient is withheld"
    )
    software: Software
    battery: Battery
    costs: tuple[CostReading, ...] = ()
    exact: ExactDeletion | None = None
    decision: CaseDecision
    next_test: NextTest = NextTest()

    def content(self) -> bytes:
        """``evidence.json``."""
        return json_bytes(self.model_dump(mode="json"))

    @staticmethod
    def of(content: bytes, source: object) -> CaseEvidence:
        """Parse the content of ``evidence.json``.

        Raises:
            InputError: it was not written by medunlearn, or by another version.
        """
        try:
            values = json.loads(content)
        except (ValueError, RecursionError):
            raise InputError(f"{source} is no JSON. Ask for the case again.") from None
        format_name = values.get("format") if isinstance(values, dict) else None
        if format_name != FORMAT:
            raise InputError(f"{source} has format {format_name!r}; this medunlearn reads {FORMAT!r}.")
        try:
            return CaseEvidence.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"{source} does not match its schema: {where}: {first['msg']}.") from None


def json_schema() -> dict[str, Any]:
    """The JSON schema as stored in ``evidence.schema.json``."""
    schema = CaseEvidence.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{FORMAT.replace('/', ':')}",
        **schema,
    }
