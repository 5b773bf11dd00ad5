"""Clinical notes in XML: C-CDA documents, and the files of the i2b2 and n2c2 challenges.

Source: HL7 CDA R2, sections 4.2 and 4.3 (header and narrative); i2b2 2006, 2008 and 2014, n2c2 2018 (files as they
are handed out).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from medunlearn.errors import SourceError
from medunlearn.input_files import LONGEST_TEXT, path_text, regular_file, told_unreadable
from medunlearn.sources.renderings import narrative, parse_xml, read_rendering
from medunlearn.sources.table_files import Row, Rows

_PATIENT_NUMBER = re.compile(r"(\d+)-\d+")
_I2B2_TYPES = {"medicalrecord": "mrn", "healthplan": "health_plan", "ipaddr": "ip", "location-other": "location"}
_NOBODYS = ("state", "country", "")


def xml_rows(folder: Path, path: Path) -> Rows:
    """Rows of one file: note_id, patient_id, note, and columns from a C-CDA's header or i2b2's tags.

    Args:
        folder: where the notes lie; ids of notes are paths in it.
    """
    name = path.relative_to(folder)
    with told_unreadable(path, SourceError):
        if regular_file(path, SourceError).stat().st_size > LONGEST_TEXT:
            yield path_text(name), f"has more than {LONGEST_TEXT:,} bytes"
            return
        content = path.read_bytes()
    try:
        root = parse_xml(content)
        rows = list(_rows(root, name))
    except ValueError as error:
        yield path_text(name), f"is a document {error}"
        return
    yield from ((path_text(name), row) for row in rows)


def _rows(root: Element, name: Path) -> Iterator[Row | str]:
    entries = [
        entry for entry in root.iter() if entry.tag in ("RECORD", "doc") and "ID" in map(str.upper, entry.attrib)
    ]
    if root.tag == "ClinicalDocument":
        yield _cda_row(root)
    elif entries:
        yield from (_i2b2_row(entry, next(iter(entry.attrib.values())), None) for entry in entries)
    elif root.find("TEXT") is not None:
        number = _PATIENT_NUMBER.fullmatch(name.stem)
        yield _i2b2_row(root, number[1] if number else name.stem, name.stem)
    else:
        yield f"is XML of a kind that is not read (<{root.tag}>)"


def _i2b2_row(entry: Element, patient: str, note_id: str | None) -> Row:
    text = next((part for part in entry if part.tag.upper() == "TEXT"), None)
    tags = [*entry.iterfind("TAGS/*"), *([] if text is None else text.iter("PHI"))]
    identifiers = []
    for tag in tags:
        kind, value = tag.get("TYPE", "").lower(), tag.get("text") or "".join(tag.itertext())
        if kind not in _NOBODYS and value.strip():
            identifiers.append({"type": _I2B2_TYPES.get(kind, kind), "value": value.strip()})
    return {
        "note_id": note_id or patient,
        "patient_id": patient,
        "note": "" if text is None else "".join(text.itertext()).strip(),
        "identifiers": identifiers,
    }


def _cda_row(root: Element) -> Row:
    patient = root.find("recordTarget/patientRole")
    role: Any = patient if patient is not None else Element("patientRole")
    code, person = root.find("code"), role.find("patient/name")
    return {
        "note_id": _id(root.find("id")),
        "patient_id": _id(role.find("id")),
        "note": narrative(root) or _attached(root),
        "date": _day(root.find("effectiveTime")),
        "note_type": (_words(root.find("title")) or (code.get("displayName", "") if code is not None else "")),
        "name": _words(person),
        "birth_date": _day(role.find("patient/birthTime")),
        "address": _words(role.find("addr")),
        "phone": next((t.get("value", "").removeprefix("tel:") for t in role.iterfind("telecom")), ""),
        "identifiers": [{"type": "mrn", "value": other} for other in map(_id, role.findall("id")[1:]) if other],
    }


def _id(element: Element | None) -> str:
    return "" if element is None else element.get("extension") or element.get("root") or ""


def _day(element: Element | None) -> str:
    """``20190304...`` as ``2019-03-04``; a shorter time as it is."""
    value = "" if element is None else element.get("value", "")
    return f"{value[:4]}-{value[4:6]}-{value[6:8]}" if re.match(r"\d{8}", value) else value


def _words(element: Element | None) -> str:
    return "" if element is None else " ".join(" ".join(element.itertext()).split())


def _attached(root: Element) -> str:
    """Text of a document whose body is another file."""
    body = root.find("component/nonXMLBody/text")
    if body is None or not (body.text or "").strip():
        return ""
    content = str(body.text).encode()
    if body.get("representation") == "B64":
        try:
            content = base64.b64decode(b"".join(content.split()), validate=True)
        except binascii.Error:
            raise ValueError("whose body is not base64") from None
    return read_rendering(content, body.get("mediaType", "")).text
