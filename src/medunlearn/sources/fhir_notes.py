"""Clinical notes in FHIR: DocumentReference resources, single, in a Bundle, or one per line (bulk export).

A note is the text of a DocumentReference's attachments (base64; ``text/plain``, ``text/html`` and other text). An
attachment may also be in a separate Binary resource. Patient resources give names, birth dates, numbers,
telephones, e-mail and postal addresses. Resources are checked by fhir.resources as R4B, else as R5 (an extra: ``pip
install 'medunlearn[fhir]'``).

Source: HL7 FHIR R4B and R5, DocumentReference and Attachment.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from medunlearn.errors import InputError
from medunlearn.sources.table_files import Row, Rows

Resource = Mapping[str, Any]
_READ = ("Bundle", "DocumentReference", "Patient", "Binary")
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<(?:br|/p|/div|/tr|/li|/h\d)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")


def is_fhir(row: object) -> bool:
    """True if a JSON object is a FHIR resource."""
    return isinstance(row, Mapping) and isinstance(row.get("resourceType"), str)


def fhir_rows(resources: Iterable[tuple[str, Resource]]) -> Rows:
    """One row per DocumentReference: note_id, patient_id, note, date, note_type, and columns from its Patient.

    Args:
        resources: place and content of each resource; entries of a Bundle are read separately.

    Raises:
        InputError: fhir.resources is not installed.
    """
    by_kind: dict[str, list[tuple[str, str, Resource]]] = {kind: [] for kind in _READ}
    for place, address, resource in _unpack(resources):
        by_kind.get(str(resource.get("resourceType")), []).append((place, address, resource))
    patients = _by_reference(by_kind["Patient"])
    binaries = _by_reference(by_kind["Binary"])
    for place, _, resource in by_kind["DocumentReference"]:
        if problem := _problem("DocumentReference", resource):
            yield place, problem
            continue
        reference = str((resource.get("subject") or {}).get("reference") or "")
        patient = _resolve(reference, patients)
        try:
            text = "\n\n".join(filter(None, _texts(resource, binaries)))
        except ValueError as error:
            yield place, str(error)
            continue
        yield (
            place,
            {
                "note_id": str(resource.get("id") or ""),
                "patient_id": _identity(reference, patient),
                "note": text,
                "date": str(resource.get("date") or ""),
                "note_type": _concept(resource.get("type")),
                **_identifiers(patient),
            },
        )


def _unpack(resources: Iterable[tuple[str, Resource]]) -> Iterator[tuple[str, str, Resource]]:
    """Place, full URL and content of each resource, with bundles unpacked."""
    for place, resource in resources:
        if resource.get("resourceType") != "Bundle":
            yield place, "", resource
            continue
        entries = resource.get("entry")
        for number, entry in enumerate(entries if isinstance(entries, list) else (), start=1):
            if isinstance(entry, Mapping) and isinstance(entry.get("resource"), Mapping):
                yield f"{place} entry {number}", str(entry.get("fullUrl") or ""), entry["resource"]


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


def _identity(reference: str, patient: Resource) -> str:
    """A patient's id: the resource's own, else the last part of the reference."""
    return str(patient.get("id") or reference.removeprefix("urn:uuid:").split("/_history/")[0].rpartition("/")[2])


def _texts(resource: Resource, binaries: Mapping[str, Resource]) -> Iterator[str]:
    """Texts of the attachments; non-text attachments are skipped.

    Raises:
        ValueError: an attachment that is not base64, or not text in its character set.
    """
    for entry in resource.get("content") or ():
        attachment = entry.get("attachment") or {}
        beside = _resolve(str(attachment.get("url") or ""), binaries)
        data = attachment.get("data") or beside.get("data")
        kind = str(attachment.get("contentType") or beside.get("contentType") or "text/plain").lower()
        if not data or not kind.startswith(("text/", "application/xhtml")):
            continue
        charset = re.search(r"charset=\"?([\w.:-]+)", kind)
        try:
            content = base64.b64decode("".join(str(data).split()), validate=True)  # FHIR allows white space in it
            text = content.decode(charset[1] if charset else "utf-8-sig")
        except (binascii.Error, UnicodeDecodeError, LookupError):
            raise ValueError("has an attachment that is not base64, or not text in its character set") from None
        yield _without_tags(text) if "html" in kind else text.strip()


def _without_tags(text: str) -> str:
    plain = _TAG.sub("", _BREAK.sub("\n", _HIDDEN.sub("", text)))
    return "\n".join(" ".join(line.split()) for line in html.unescape(plain).splitlines()).strip()


def _concept(concept: Any) -> str:
    """A CodeableConcept in words."""
    if not isinstance(concept, Mapping):
        return ""
    codings = [coding for coding in concept.get("coding") or () if isinstance(coding, Mapping)]
    return str(concept.get("text") or next((c["display"] for c in codings if c.get("display")), ""))


def _identifiers(patient: Resource) -> Row:
    """Identifiers of a Patient as columns; empty if it has none."""
    names = [name for name in patient.get("name") or () if isinstance(name, Mapping)]
    full = [str(n.get("text") or " ".join(_words(n.get("given"), n.get("family")))) for n in names]
    contacts = [c for c in patient.get("telecom") or () if isinstance(c, Mapping)]
    addresses = [a for a in patient.get("address") or () if isinstance(a, Mapping)]
    lines = [str(a.get("text") or ", ".join(_words(a.get("line"), a.get("city")))) for a in addresses]
    numbers = [str(n["value"]) for n in patient.get("identifier") or () if isinstance(n, Mapping) and "value" in n]
    return {
        "name": next(iter(full), ""),
        "birth_date": str(patient.get("birthDate") or ""),
        "record_number": next(iter(numbers), ""),
        **{
            column: next((str(c.get("value") or "") for c in contacts if c.get("system") == column), "")
            for column in ("phone", "email")
        },
        "address": next(iter(lines), ""),
    }


def _words(several: Any, last: Any) -> list[str]:
    """The texts in a list, and one more value."""
    values = [*(several if isinstance(several, list) else ()), last]
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]


def _problem(kind: str, resource: Resource) -> str | None:
    """Reason why fhir.resources rejects a resource, without its values; None if one version accepts it."""
    refusals = []
    for model in _models(kind):
        try:
            model(dict(resource))
        except Exception as error:  # pydantic's errors, and errors of the library's own checks
            refusals.append(error)
        else:
            return None
    places: list[Any] = getattr(refusals[0], "errors", lambda **_: [])(include_input=False, include_context=False)
    fields = sorted({".".join(map(str, place["loc"])) for place in places})
    return f"is no {kind} of FHIR R4B or R5: wrong in {', '.join(fields[:5]) or 'its form'}"


@cache
def _models(kind: str) -> tuple[Callable[[dict[str, Any]], Any], ...]:
    try:
        from fhir.resources import documentreference as r5
        from fhir.resources.R4B import documentreference as r4b
    except ImportError:
        raise InputError(
            f"Reading {kind} resources needs fhir.resources: pip install 'medunlearn[fhir]'. Or give the notes as "
            "CSV, TSV, JSONL, Parquet or a folder of text files."
        ) from None
    return r4b.DocumentReference.model_validate, r5.DocumentReference.model_validate
