"""DocumentReference and Bundle as notes; needs the extra fhir."""

from __future__ import annotations

import base64
import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import InputError, SourceError
from medunlearn.sources import fhir_notes
from medunlearn.sources.patient_notes import NO_PATIENT, NO_TEXT, read_patient_notes


def encoded(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


def document(name: str, patient: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": name,
        "status": "current",
        "type": {"coding": [{"display": "Discharge summary"}]},
        "subject": {"reference": patient},
        "date": "2020-03-04T10:00:00Z",
        "content": [{"attachment": {"contentType": "text/plain", "data": encoded(text)}}],
        **more,
    }


PATIENT = {
    "resourceType": "Patient",
    "id": "4711",
    "identifier": [{"value": "MRN-77"}],
    "name": [{"given": ["Ada", "May"], "family": "Vane"}],
    "birthDate": "1950-02-03",
    "telecom": [{"system": "phone", "value": "555-0101"}],
    "address": [{"line": ["1 Low Road"], "city": "Tarn"}],
}


def bundle(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": "Bundle", "type": "collection", "entry": list(entries)}


def test_a_bundle_with_its_patient(tmp_path: Path) -> None:
    pytest.importorskip("fhir.resources")
    r4 = {"context": {"period": {"start": "2020-03-01"}}}  # an object in R4, a list in R5
    binary = {"resourceType": "Binary", "id": "b", "contentType": "text/html", "data": encoded("<p>A &amp; B</p>c")}
    folded = [{"attachment": {"data": encoded("Back again.")[:8] + "\n" + encoded("Back again.")[8:]}}]
    beside = [{"attachment": {"contentType": "text/html", "url": "Binary/b"}}]
    content = bundle(
        {"fullUrl": "urn:uuid:0-1", "resource": PATIENT},
        {"resource": binary},
        {"resource": document("d1", "urn:uuid:0-1", "Fever.", **r4)},
        {"resource": document("d2", "Patient/4711", "", content=beside)},
        {"resource": document("d3", "https://h.example/Patient/12/_history/3", "Cough.")},
        {"resource": document("d4", "https://h.example/Patient/4711/_history/3", "", content=folded)},
    )
    (tmp_path / "b.json").write_text(json.dumps(content))
    read = read_patient_notes(tmp_path / "b.json")
    assert read.form == "FHIR"
    assert [(n.note_id, n.patient, n.text, n.date[:10]) for n in read.notes] == [
        ("d1", "4711", "Fever.", "2020-03-04"),
        ("d2", "4711", "A & B\nc", "2020-03-04"),
        ("d3", "12", "Cough.", "2020-03-04"),
        ("d4", "4711", "Back again.", "2020-03-04"),
    ]
    identifiers = {
        "name": "Ada May Vane",
        "birth_date": "1950-02-03",
        "record_number": "MRN-77",
        "phone": "555-0101",
        "address": "1 Low Road, Tarn",
        "note_type": "Discharge summary",
    }
    # Whether a reference names the patient by the bundle's address, by id, or with server and version.
    for note in (read.notes[0], read.notes[1], read.notes[3]):
        assert {key: note.values[key] for key in identifiers} == identifiers


def test_a_bulk_export_and_a_folder_of_bundles(tmp_path: Path) -> None:
    pytest.importorskip("fhir.resources")
    lines = [document("d1", "Patient/1", "One."), document("d2", "Patient/2", "Two.", context=[])]
    (tmp_path / "n.ndjson").write_text("\n".join(map(json.dumps, lines)))
    assert [n.patient for n in read_patient_notes(tmp_path / "n.ndjson").notes] == ["1", "2"]
    (tmp_path / "odd.ndjson").write_text("\n".join(map(json.dumps, [*lines, {"note": "Three."}])))
    with pytest.raises(SourceError, match=r"odd\.ndjson:3: is no FHIR resource"):
        read_patient_notes(tmp_path / "odd.ndjson")
    (tmp_path / "each").mkdir()
    for line in lines:
        (tmp_path / "each" / f"{line['id']}.json").write_text(json.dumps(bundle({"resource": line})))
    assert [n.text for n in read_patient_notes(tmp_path / "each").notes] == ["One.", "Two."]


def test_what_is_no_note_is_counted_or_refused_without_its_content(tmp_path: Path) -> None:
    pytest.importorskip("fhir.resources")
    scan = [{"attachment": {"contentType": "application/pdf", "data": encoded("%PDF")}}]
    latin = [{"attachment": {"contentType": "text/plain; charset=iso-8859-1", "data": encoded("é", "latin-1")}}]
    entries = [
        document("d1", "Patient/1", "", content=scan),
        {key: value for key, value in document("d2", "x", "Nobody's.").items() if key != "subject"},
        document("d3", "Patient/3", "", content=latin),
    ]
    file = tmp_path / "b.json"
    file.write_text(json.dumps(bundle(*({"resource": entry} for entry in entries))))
    read = read_patient_notes(file)
    assert ([n.text for n in read.notes], read.excluded) == (["é"], {NO_TEXT: 1, NO_PATIENT: 1})
    broken = [
        {**document("d4", "Patient/4711", "x"), "status": 3, "custodian": "Ada Vane"},
        document("d5", "Patient/4711", "", content=[{"attachment": {"data": "***"}}]),
    ]
    file.write_text(json.dumps(bundle(*({"resource": entry} for entry in (entries[2], *broken)))))
    with pytest.raises(SourceError) as error:
        read_patient_notes(file)
    message = str(error.value)
    assert "b.json entry 2: is no DocumentReference of FHIR R4B or R5: wrong in" in message
    assert "b.json entry 3: has an attachment that is not base64" in message
    assert not any(secret in message for secret in ("4711", "Ada", "***"))
    assert read_patient_notes(file, skip_bad_rows=True).excluded == {"in rows that cannot be read": 2}


@pytest.mark.parametrize("text", ['{"a": 1}', "{", '{"resourceType": "Bundle"}'])
def test_json_that_is_no_note(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(SourceError):
        read_patient_notes(tmp_path / "b.json")


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("fhir"):
            raise ImportError(name)
        return real(name, *rest)

    fhir_notes._models.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "b.json").write_text(json.dumps(document("d", "Patient/1", "One.")))
    with pytest.raises(InputError, match=r"medunlearn\[fhir\]"):
        read_patient_notes(tmp_path / "b.json")
    fhir_notes._models.cache_clear()
