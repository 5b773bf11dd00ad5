"""Clinical notes in FHIR: DocumentReference, DiagnosticReport, Composition; single, in a Bundle, or one per line.

The attachments of a document are renderings of one text, of which one is read; they may lie in a Binary resource.
Patient resources give names, birth dates, numbers, telephones, e-mail and postal addresses. Only what is read is
checked: vendors add fields of their own, and leave out required ones.

Source: HL7 FHIR R4, R4B and R5: DocumentReference (``content``: "document referenced"; ``relatesTo``),
DiagnosticReport.presentedForm, Composition.section, Reference.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from medunlearn.sources.renderings import DocumentText, best_rendering, plain_html, read_rendering
from medunlearn.sources.table_files import LeftOut, Row

Resource = Mapping[str, Any]
_DOCUMENTS = ("DocumentReference", "DiagnosticReport", "Composition")
IN_ERROR, SUPERSEDED = "entered in error", "superseded by another document"
NO_DOCUMENT = "FHIR resources that hold no document"
ELSEWHERE = "with its text in another place, which is not among the files"
_NUMBER_TYPES = {"MR": "mrn", "SS": "ssn", "DL": "license_number", "NI": "national_id", "MB": "member_id"}


def is_fhir(row: object) -> bool:
    """True if a JSON object is a FHIR resource."""
    return isinstance(row, Mapping) and isinstance(row.get("resourceType"), str)


def fhir_rows(resources: Iterable[tuple[str, Resource]]) -> Iterator[tuple[str, Row | str]]:
    """One row per document: note_id, patient_id, note, date, note_type, and columns from its Patient.

    Args:
        resources: place and content of each resource; entries of a Bundle are read separately.
    """
    by_kind: dict[str, list[tuple[str, str, Resource]]] = {kind: [] for kind in (*_DOCUMENTS, "Patient", "Binary")}
    documents = []
    for entry in _unpack(resources):
        kind = entry[2].get("resourceType")
        by_kind.setdefault("" if kind not in by_kind else str(kind), []).append(entry)
        if kind in _DOCUMENTS:
            documents.append(entry)
    patients, binaries = _by_reference(by_kind["Patient"]), _by_reference(by_kind["Binary"])
    numbers = {_number_key(n): p for _, _, p in by_kind["Patient"] for n in _mappings(p.get("identifier"))}
    replaced = {name for _, _, resource in documents for name in _replaced_by(resource)}
    for place, _, resource in documents:
        if reason := _why_not(resource, replaced):
            yield place, LeftOut(reason)
            continue
        try:
            text = _text(resource, binaries)
        except ValueError as error:
            yield place, LeftOut(str(error))
            continue
        subject = _mapping(resource.get("subject"))
        patient = _patient(subject, resource, patients, numbers)
        yield (
            place,
            {
                "note_id": str(resource.get("id") or ""),
                "patient_id": _identity(subject, patient),
                "note": text,
                "date": _date(resource),
                "note_type": _type(resource),
                "resource": resource["resourceType"],
                **_identifiers(patient, str(subject.get("display") or "")),
            },
        )
    yield from ((place, LeftOut(NO_DOCUMENT)) for place, _, _ in by_kind.get("", ()))


def _mapping(value: Any) -> Resource:
    """A mapping, or the first of a list of them; an empty one for anything else."""
    return value if isinstance(value, Mapping) else next(_mappings(value), {})


def _mappings(value: Any) -> Iterator[Resource]:
    return (entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, Mapping))


def _unpack(resources: Iterable[tuple[str, Resource]]) -> Iterator[tuple[str, str, Resource]]:
    """Place, full URL and content of each resource, with bundles unpacked."""
    for place, resource in resources:
        if resource.get("resourceType") != "Bundle":
            yield place, "", resource
            continue
        for number, entry in enumerate(_mappings(resource.get("entry")), start=1):
            if is_fhir(entry.get("resource")):
                inner = f"{place} entry {number}", entry["resource"]
                address = str(entry.get("fullUrl") or "")
                nested = (
                    _unpack([inner]) if inner[1]["resourceType"] == "Bundle" else [(inner[0], address, inner[1])]
                )
                yield from nested


def _by_reference(resources: Iterable[tuple[str, str, Resource]]) -> dict[str, Resource]:
    """Resource by each of its possible references: ``Patient/1``, and its full URL in a bundle."""
    by_reference: dict[str, Resource] = {}
    for _, address, resource in resources:
        by_reference[f"{resource['resourceType']}/{resource.get('id')}"] = resource
        if address:
            by_reference[address] = resource
    return by_reference


def _resolve(reference: str, by_reference: Mapping[str, Resource]) -> Resource:
    """The resource for a reference, ignoring version and server; an empty one if missing."""
    address = reference.split("/_history/")[0]
    return by_reference.get(address) or by_reference.get("/".join(address.split("/")[-2:]), {})


def _replaced_by(resource: Resource) -> Iterator[str]:
    """References of documents that one replaces: ``DocumentReference/1``."""
    for relation in _mappings(resource.get("relatesTo")):
        code = relation.get("code")
        if (code if isinstance(code, str) else _mapping(_mapping(code).get("coding")).get("code")) == "replaces":
            target = _mapping(relation.get("target") or relation.get("targetReference"))
            yield "/".join(str(target.get("reference") or "").split("/_history/")[0].split("/")[-2:])


def _why_not(resource: Resource, replaced: set[str]) -> str | None:
    statuses = (resource.get("status"), resource.get("docStatus"))
    if "entered-in-error" in statuses:
        return IN_ERROR
    is_replaced = f"{resource['resourceType']}/{resource.get('id')}" in replaced
    return SUPERSEDED if "superseded" in statuses or is_replaced else None


def _patient(
    subject: Resource, resource: Resource, patients: Mapping[str, Resource], numbers: Mapping[str, Resource]
) -> Resource:
    """The Patient of a document: by reference, contained in it, or by a number; an empty one if missing."""
    reference = str(subject.get("reference") or "")
    contained = (r for r in _mappings(resource.get("contained")) if reference == f"#{r.get('id')}")
    number = subject.get("identifier")
    by_number = numbers.get(_number_key(number), {}) if isinstance(number, Mapping) else {}
    return next(contained, {}) or (_resolve(reference, patients) if reference else {}) or by_number


def _number_key(number: Resource) -> str:
    return f"{number.get('system') or ''}|{number.get('value')}"


def _identity(subject: Resource, patient: Resource) -> str:
    """A patient's id: the resource's own, else the end of the reference, else the number of the subject.

    Ids of contained resources are of one document alone, so these patients have their number as id.
    """
    reference = str(subject.get("reference") or "").removeprefix("urn:uuid:").split("/_history/")[0]
    number = _mapping(subject.get("identifier")).get("value")
    if reference.startswith("#"):
        return str(_mapping(patient.get("identifier")).get("value") or number or "")
    return str(patient.get("id") or reference.rpartition("/")[2] or number or "")


def _text(resource: Resource, binaries: Mapping[str, Resource]) -> str:
    """Text of a document, in one of its renderings.

    Raises:
        ValueError: it has attachments, and none that is read.
    """
    attachments = [_mapping(entry.get("attachment")) for entry in _mappings(resource.get("content"))]
    attachments += _mappings(resource.get("presentedForm"))
    renderings, reasons = [], []
    for attachment in attachments:
        try:
            renderings.append(_attached(attachment, binaries))
        except ValueError as error:
            reasons.append(str(error))
    sections = "\n".join(_section_texts(resource.get("section")))
    text = best_rendering(renderings) or sections
    if not text and resource["resourceType"] == "DiagnosticReport":
        narrated = plain_html(str(_mapping(resource.get("text")).get("div") or ""))
        text = narrated or str(resource.get("conclusion") or "").strip()
    if not text and reasons:
        raise ValueError(reasons[0])
    return text


def _attached(attachment: Resource, binaries: Mapping[str, Resource]) -> DocumentText:
    beside = _resolve(str(attachment.get("url") or ""), binaries) if attachment.get("url") else {}
    data = attachment.get("data") or beside.get("data")
    if not data:
        if attachment.get("url"):
            raise ValueError(ELSEWHERE)
        return DocumentText(0, "")
    try:
        content = base64.b64decode("".join(str(data).split()), validate=True)  # FHIR allows white space in it
    except binascii.Error:
        raise ValueError("with an attachment that is not base64") from None
    return read_rendering(content, str(attachment.get("contentType") or beside.get("contentType") or ""))


def _section_texts(sections: Any) -> Iterator[str]:
    for section in _mappings(sections):
        text = plain_html(str(_mapping(section.get("text")).get("div") or ""))
        yield from filter(None, (str(section.get("title") or "").strip(), text))
        yield from _section_texts(section.get("section"))


def _date(resource: Resource) -> str:
    for name in ("date", "effectiveDateTime", "issued"):
        if resource.get(name):
            return str(resource[name])
    periods = (
        resource.get("effectivePeriod"),
        _mapping(resource.get("context")).get("period"),
        resource.get("period"),
    )
    return next((str(start) for period in periods if (start := _mapping(period).get("start"))), "")


def _type(resource: Resource) -> str:
    """The kind of document in words."""
    concepts = (_concept(resource.get(name)) for name in ("type", "code", "category"))
    return next(filter(None, concepts), "") or str(resource.get("title") or "")


def _concept(value: Any) -> str:
    concept = _mapping(value)
    displays = (coding["display"] for coding in _mappings(concept.get("coding")) if coding.get("display"))
    return str(concept.get("text") or next(displays, ""))


def _identifiers(patient: Resource, display: str) -> Row:
    """Identifiers of a Patient: the first of each kind as columns, the others as a list."""
    names = [
        str(n.get("text") or " ".join(_words(n.get("given"), n.get("family"))))
        for n in _mappings(patient.get("name"))
    ]
    names = names or ([display] if display else [])
    lines = [
        str(a.get("text") or ", ".join(_words(a.get("line"), a.get("city"))))
        for a in _mappings(patient.get("address"))
    ]
    numbers = [
        (_NUMBER_TYPES.get(str(_mapping(_mapping(n.get("type")).get("coding")).get("code")), ""), str(n["value"]))
        for n in _mappings(patient.get("identifier"))
        if n.get("value")
    ]
    numbers.sort(key=lambda number: number[0] != "mrn")
    contacts = [(str(c.get("system")), str(c.get("value") or "")) for c in _mappings(patient.get("telecom"))]
    every: dict[str, list[str]] = {
        "name": names,
        "birth_date": [str(patient.get("birthDate") or "")],
        "record_number": [value for _, value in numbers[:1]],
        "phone": [value for system, value in contacts if system == "phone"],
        "email": [value for system, value in contacts if system == "email"],
        "address": lines,
    }
    others = [(name, value) for name, values in every.items() for value in values[1:] if value]
    others += [(kind or "identifier", value) for kind, value in numbers[1:]]
    return {
        **{name: next(iter(values), "") for name, values in every.items()},
        "identifiers": [{"type": name, "value": value} for name, value in others],
    }


def _words(several: Any, last: Any) -> list[str]:
    """The texts in a list, and one more value."""
    values = [*(several if isinstance(several, list) else (several,)), last]
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]
