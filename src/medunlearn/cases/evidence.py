"""``evidence.json``: what was asked, what went in and came out, what was measured, and the verdict.

It names no path, no patient and no text: models and tables stand there as SHA-256, patients as pseudonyms.
``evidence.schema.json`` beside this module is its published JSON schema (draft 2020-12), made from these classes.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from medunlearn.errors import InputError

FORMAT = "medunlearn-evidence/1"
SCHEMA = Path(__file__).with_name("evidence.schema.json")

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Pseudonym = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="HMAC-SHA-256 of a patient's id")]
FileName = Annotated[str, Field(pattern=r"^[^/\\\x00-\x1f]{1,255}$", description="a file's name without a folder")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]{0,63}$")]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Unit = Literal["probes", "patients", "samples", "documents", "tokens", "questions"]
Baseline = Literal["retrained model", "unseen patients", "invented patients"]
NOTHING_TRAINED = "none"
"""Method of a case in which no check found the patient."""
Verdict = Literal["deleted", "no residual found", "residual found", "inconclusive", "no baseline"]


class EvidencePart(BaseModel):
    """A part of the evidence; a key that it does not know is refused."""

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
    """A model without its place: every file that decides over its answers, every file of weights among them."""

    fingerprint: str = Field(description="medunlearn's: of equal models the same, whatever their files are called")
    form: Literal["full", "delta", "adapter"]
    files: dict[FileName, FileDigest] = Field(min_length=1)
    base: ModelDigest | None = Field(default=None, description="of a delta or an adapter: the model under it")
    hub_base: str | None = Field(
        default=None, pattern=r"^[\w.-]+/[\w.-]+$", description="of an adapter: a hub's base"
    )


class NotesDigest(EvidencePart):
    """The table of notes that the request was carried out with."""

    sha256: Sha256
    records: int = Field(ge=1)
    patients: int = Field(ge=1)
    forget_records: int = Field(ge=1, description="records of this request's patients")
    earlier_records: int = Field(
        0, ge=0, description="records of earlier requests' patients, never trained on again"
    )


class LedgerDigest(EvidencePart):
    """The model's ledger as it was before this case (its row names this case's digest, so it follows it)."""

    rows: int = Field(ge=0)
    head: Sha256 | None = Field(default=None, description="hash of its last row; null of an empty ledger")


class Software(EvidencePart):
    version: str
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40,64}$")
    changed: bool | None = Field(default=None, description="whether the code was changed since its commit")
    packages: dict[str, str]


class Measurement(EvidencePart):
    """A number with its 95% interval, or, of an excess, two one-sided 95% bounds; without a value per reason."""

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
    kind: str = Field(min_length=1, description="in plain words: what the model was given")
    n: int = Field(ge=1)
    held_out: bool = Field(description="the choice of method and settings did not see them")


class Comparison(EvidencePart):
    """The model afterwards against a baseline: a model that never saw her, or patients whom no model saw.

    ``excess`` is what is left of her above that baseline: positive = something is left, whatever the measure's
    direction is. Its ``low`` and ``high`` are one-sided 95% bounds: ``high`` below the margin is a test at 5%.
    """

    baseline: Baseline
    excess: Measurement
    margin: float = Field(ge=0.0, description="an excess up to this counts as none")
    p: Share = Field(description="one-sided: chance of an excess this large where nothing of hers is left")
    p_before: Share | None = Field(
        default=None, description="the same test on the model before: what it can see at all"
    )


TOGETHER = "together"
"""Name of the check that is the mean over all probes of the ways of asking that found the patients before."""


class BatteryCheck(EvidencePart):
    """One check of the battery: a measure on some probes, before and after, and of a retrained model.

    ``unseen`` is the model afterwards on patients whom no model saw: what it says of anybody.
    """

    name: Name
    title: str = Field(min_length=1, max_length=120, description="in plain words")
    measure: str = Field(min_length=1)
    higher: Literal["more is left", "less is left"]
    concerns: Literal["this request", "earlier requests"] = "this request"
    probes: ProbeSet
    before: Measurement
    after: Measurement
    retrained: Measurement | None = None
    unseen: Measurement | None = None
    comparison: Comparison | None = Field(default=None, description="null: there is no baseline for it")


class Untested(EvidencePart):
    name: Name
    title: str = Field(min_length=1, max_length=120)
    reason: str = Field(min_length=1)


class CostReading(EvidencePart):
    """Cost of the deletion to others."""

    name: Name
    title: str = Field(min_length=1, max_length=120)
    group: Literal["neighbours", "other patients", "general"]
    measure: str = Field(min_length=1)
    higher_is_better: bool
    before: Measurement
    after: Measurement
    retrained: Measurement | None = None
    floor: Share | None = Field(default=None, description="least share of before that was allowed")

    @property
    def retained_share(self) -> float | None:
        """Value after / before, inverted where lower is better; above 1 = better; None unless both are positive."""
        before, after = self.before.value, self.after.value
        if before is None or after is None or before <= 0.0 or after <= 0.0:
            return None
        return after / before if self.higher_is_better else before / after

    @property
    def within(self) -> bool | None:
        """True if the floor was kept; None without one."""
        share = self.retained_share
        return None if self.floor is None or share is None else share >= self.floor


class Battery(EvidencePart):
    """The checks that the verdict rests on, and those that were left out."""

    name: Name
    version: str = Field(min_length=1)
    alpha: float = Field(
        0.05, gt=0.0, lt=0.5, description="chance of finding a residual where none is, of all checks"
    )
    checks: tuple[BatteryCheck, ...] = ()
    untested: tuple[Untested, ...] = ()
    problems: tuple[str, ...] = Field(
        default=(), description="why the model afterwards is broken; none of a healthy one"
    )

    @model_validator(mode="after")
    def _has_distinct_names(self) -> Battery:
        names = [*(check.name for check in self.checks), *(untested.name for untested in self.untested)]
        if len({*names}) < len(names):
            raise ValueError("two checks have one name")
        return self


class ExactDeletion(EvidencePart):
    """The model was made without her: an adapter that holds her was dropped or trained again without her."""

    road: Literal["adapter dropped", "retrained without her"]
    reproduced: str = Field(description="fingerprint of the same training without her, run a second time")
    base: Literal["made in memory", "recorded", "stated"] | None = Field(
        default=None,
        description="how it is known that the base never saw her; stated: by its owner, and nobody recorded it",
    )


class PassedOver(EvidencePart):
    """A method that could not be used on the patient's notes."""

    method: str = Field(min_length=1)
    reason: str = Field(min_length=1)


class Bound(EvidencePart):
    """A number that the verdict rests on, in words."""

    check: Name
    text: str


class CaseDecision(EvidencePart):
    """The verdict and why; :func:`medunlearn.cases.verdicts.decide` alone makes it."""

    verdict: Verdict
    reasons: tuple[str, ...] = Field(min_length=1)
    bounds: tuple[Bound, ...] = ()


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
    method: str = Field(min_length=1, description="the unlearning method, or the road of an exact deletion")
    passed_over: tuple[PassedOver, ...] = Field(
        default=(), description="methods that would have come first, and could not be used"
    )
    settings: dict[str, JsonValue] = Field(
        description="of the method; a value that names a path or a patient is withheld"
    )
    software: Software
    battery: Battery
    costs: tuple[CostReading, ...] = ()
    exact: ExactDeletion | None = None
    decision: CaseDecision
    next_test: NextTest = NextTest()

    def content(self) -> bytes:
        """``evidence.json``."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()

    @staticmethod
    def of(content: bytes, source: object) -> CaseEvidence:
        """From the content of ``evidence.json``.

        Raises:
            InputError: it is not what medunlearn writes, or another version wrote it.
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
    """The schema as ``evidence.schema.json`` has it."""
    schema = CaseEvidence.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{FORMAT.replace('/', ':')}",
        **schema,
    }
