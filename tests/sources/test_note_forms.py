"""Forms of files that hospitals and data sets have: what is read of each, and what is left out."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from row_files import write_rows

from medunlearn.errors import ConfigError, SourceError
from medunlearn.sources.fhir_notes import ELSEWHERE, IN_ERROR, NO_DOCUMENT, SUPERSEDED
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import NO_PATIENT, NO_TEXT, TWICE, read_patient_notes

HAS = {name: importlib.util.find_spec(name) is not None for name in ("openpyxl", "striprtf")}
Note = tuple[str, str]
"""Patient and text."""
FEVER: list[Note] = [("4711", "Fever."), ("12", "Cough for 3 days.")]
TABLE = "patient_id,note\n4711,Fever.\n12,Cough for 3 days.\n"
ROWS = [{"patient_id": patient, "note": text} for patient, text in FEVER]
RTF = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0 Fever\par M\'fcde.}"
HTML = "<html><head><style>p {color: red}</style></head><body><p>Fever &amp; chills.</p></body></html>"


def code(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def attached(text: str | bytes = "Fever.", kind: str | None = "text/plain", **more: Any) -> dict[str, Any]:
    return {"attachment": {"data": code(text), **({"contentType": kind} if kind else {}), **more}}


def document(name: str = "d1", patient: str = "Patient/4711", *content: Any, **more: Any) -> dict[str, Any]:
    """A DocumentReference; a field that is None is left out."""
    resource = {
        "resourceType": "DocumentReference",
        "id": name,
        "status": "current",
        "subject": {"reference": patient},
        "date": "2020-03-04T10:00:00Z",
        "content": list(content) or [attached()],
        **more,
    }
    return {key: value for key, value in resource.items() if value is not None}


def bundle(*resources: Mapping[str, Any], kind: str = "collection") -> dict[str, Any]:
    entries = [{"fullUrl": f"urn:uuid:{n}", "resource": resource} for n, resource in enumerate(resources)]
    return {"resourceType": "Bundle", "type": kind, "entry": entries}


def person(patient_id: str, **more: Any) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": patient_id, **more}


def narrative(text: str) -> dict[str, Any]:
    return {"status": "generated", "div": f'<div xmlns="http://www.w3.org/1999/xhtml"><p>{text}</p></div>'}


REPORT = {
    "resourceType": "DiagnosticReport", "id": "r1", "status": "final", "subject": {"reference": "Patient/4711"},
    "effectiveDateTime": "2020-03-04", "code": {"text": "Chest X-ray"},
}  # fmt: skip
COMPOSITION = {
    "resourceType": "Composition", "id": "c1", "status": "final", "subject": [{"reference": "urn:uuid:1"}],
    "date": "2020-03-04", "title": "Letter",
    "section": [
        {"title": "History", "text": narrative("Fever.")},
        {"title": "Plan", "section": [{"title": "Drugs", "text": narrative("None.")}]},
    ],
}  # fmt: skip
CDA = """<?xml version="1.0"?><ClinicalDocument xmlns="urn:hl7-org:v3"><id root="2.16" extension="doc-1"/>
<code code="34133-9" displayName="Summary"/><effectiveTime value="20190304101500+0000"/><recordTarget><patientRole>
<id root="1.2" extension="4711"/><addr><streetAddressLine>1 Low Road</streetAddressLine></addr>
<telecom value="tel:555-0101"/><patient><name><given>Ada</given> <family>Vane</family></name>
<birthTime value="19500203"/></patient></patientRole></recordTarget><component><structuredBody><component><section>
<title>History</title><text><paragraph>Fever.</paragraph><table><tr><td>Hb</td><td>12.1</td></tr></table></text>
</section></component></structuredBody></component></ClinicalDocument>"""
I2B2 = """<?xml version="1.0"?><deIdi2b2><TEXT><![CDATA[Mr. Vane has fever.]]></TEXT><TAGS>
<NAME id="P0" start="4" end="8" text="Vane" TYPE="PATIENT" comment=""/>
<ID id="P1" start="0" end="0" text="77-1" TYPE="MEDICALRECORD"/></TAGS></deIdi2b2>"""
NOTEEVENTS = "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,ISERROR,TEXT\n"
MIMIC_IV = "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text\n"
OPENI = "uid,MeSH,Problems,image,indication,comparison,findings,impression\n"
OMOP = "note_id,person_id,note_date,note_datetime,note_type_concept_id,note_title,note_text\n"


def text(content: str, encoding: str = "utf-8") -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode(encoding))


def packed(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(gzip.compress(content.encode()))


def value(content: Any) -> Callable[[Path], object]:
    return text(json.dumps(content))


def lines(*contents: Any) -> Callable[[Path], object]:
    return text("\n".join(map(json.dumps, contents)))


def table(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    return lambda path: write_rows(path, rows)


def folder(files: Mapping[str, str | bytes]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def workbook(*sheets: Sequence[Sequence[Any]], zeros: str = "") -> Callable[[Path], object]:
    def write(path: Path) -> None:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.remove(book.active)
        for rows in sheets:
            sheet = book.create_sheet()
            for row in rows:
                sheet.append(list(row))
            for cell in sheet["A"][1:] if zeros else ():
                cell.number_format = zeros
        book.save(path)

    return write


HEADER = ("patient_id", "note")
RTF_LEFT = {} if HAS["striprtf"] else {"in RTF, which striprtf reads: pip install 'medunlearn[rtf]'": 1}
FORMS: dict[str, tuple[str, Callable[[Path], object], str, list[Note], dict[str, int]]] = {
    # what it is: (file, how it is written, form, notes, left out)
    "comma": ("n.csv", text(TABLE), "table", FEVER, {}),
    "semicolon": ("n.csv", text(TABLE.replace(",", ";")), "table", FEVER, {}),
    "semicolon, comma in a name of a column": (
        "n.csv", text("patient_id;Name, Vorname;note\n4711;x;Fever.\n12;y;Cough for 3 days.\n"), "table", FEVER, {},
    ),
    "tab": ("n.csv", text(TABLE.replace(",", "\t")), "table", FEVER, {}),
    "bar": ("n.csv", text(TABLE.replace(",", "|")), "table", FEVER, {}),
    "sep= line of Excel": ("n.csv", text("sep=;\n" + TABLE.replace(",", ";")), "table", FEVER, {}),
    "sep= line in quotation marks": ("n.csv", text('"sep=|"\r\n' + TABLE.replace(",", "|")), "table", FEVER, {}),
    "byte order mark": ("n.csv", text(TABLE, "utf-8-sig"), "table", FEVER, {}),
    "Windows-1252": ("n.csv", text("patient_id,note\n4711,Müde.\n", "cp1252"), "table", [("4711", "Müde.")], {}),
    "UTF-16, as Excel saves Unicode text": ("n.csv", text(TABLE.replace(",", "\t"), "utf-16"), "table", FEVER, {}),
    "packed CSV": ("n.csv.gz", packed(TABLE), "table", FEVER, {}),
    "TSV": ("n.tsv", text(TABLE.replace(",", "\t")), "table", FEVER, {}),
    "packed TSV": ("n.tsv.gz", packed(TABLE.replace(",", "\t")), "table", FEVER, {}),
    "JSONL": ("n.jsonl", lines(*ROWS), "table", FEVER, {}),
    "packed JSONL": ("n.jsonl.gz", packed("\n".join(map(json.dumps, ROWS))), "table", FEVER, {}),
    "JSON list": ("n.json", value(ROWS), "table", FEVER, {}),
    "packed JSON list": ("n.json.gz", packed(json.dumps(ROWS)), "table", FEVER, {}),
    "JSONL named JSON": ("n.json", lines(*ROWS), "table", FEVER, {}),
    "Parquet": ("n.parquet", table(ROWS), "table", FEVER, {}),
    "Parquet with numbers": (
        "n.parquet", table([{"patient_id": float(p), "note": t} for p, t in FEVER]), "table", FEVER, {},
    ),
    "CSV with the numbers of a spreadsheet": (
        "n.csv", text(TABLE.replace("4711", "4711.0").replace("12,", "12.0,")), "table", FEVER, {},
    ),
    "Excel": ("n.xlsx", workbook([HEADER, (4711, "Fever."), (12.0, "Cough for 3 days.")]), "table", FEVER, {}),
    "Excel with zeros in front": (
        "n.xlsx", workbook([HEADER, (4711, "Fever.")], zeros="0000000"), "table", [("0004711", "Fever.")], {},
    ),
    "Excel with two sheets": (
        "n.xlsx", workbook([HEADER, (4711, "Fever.")], [HEADER, (12, "Cough for 3 days.")]), "table", FEVER, {},
    ),
    "folder of tables": (
        "d", folder({"a.csv": "patient_id,note\n4711,Fever.\n", "b.csv.gz": gzip.compress(
            b"patient_id,note\n12,Cough for 3 days.\n"), "README.md": "about"}), "table", FEVER, {},
    ),
    "folder a patient": ("d", folder({"12/a.txt": "Cough for 3 days.", "4711/b.txt": "Fever."}), "text files",
                         FEVER[::-1], {}),
    "file a patient": ("d", folder({"12.txt": "Cough for 3 days.", "4711.txt": "Fever."}), "text files",
                       FEVER[::-1], {}),
    "text in Windows-1252": ("d", folder({"4711/a.txt": "Müde.".encode("cp1252")}), "text files",
                             [("4711", "Müde.")], {}),
    "MIMIC-CXR": (
        "d", folder({"p10/p10000032/s1.txt": "Clear.", "p10/p10000032/s2.txt": "Clear again.",
                     "p11/p11000011/s3.txt": " ", "index.html": "files"}), "text files",
        [("p10000032", "Clear."), ("p10000032", "Clear again.")], {NO_TEXT: 1},
    ),
    "MIMIC-CXR below files/": (
        "d", folder({"files/p10/p10000032/s1.txt": "Clear."}), "text files", [("p10000032", "Clear.")], {},
    ),
    "NOTEEVENTS": (
        "n.csv.gz", packed(f'{NOTEEVENTS}1,4711,9,2101-01-02,,,Nursing,Report,,,Fever.\n'
                           '2,4711,9,2101-01-02,,,Nursing,Report,,1,"Fever, wrong."\n'
                           "3,12,9,2101-01-03,,,Nursing,Report,,0,Cough for 3 days.\n"),
        "NOTEEVENTS", FEVER, {IN_ERROR: 1},
    ),
    "MIMIC-IV-Note": (
        "discharge.csv.gz", packed(f'{MIMIC_IV}4711-DS-1,4711,2,DS,1,2180-01-01 00:00:00,,"Fever.\n"\n'
                                   "12-DS-1,12,3,DS,1,2180-01-02 00:00:00,,Cough for 3 days.\n"),
        "MIMIC-IV-Note", [("4711", "Fever.\n"), FEVER[1]], {},
    ),
    "OMOP NOTE": (
        "note.csv", text(f"{OMOP}1,4711,2020-01-01,,5,A,Fever.\n2,12,2020-01-01,,5,B,Cough for 3 days.\n"),
        "OMOP NOTE", FEVER, {},
    ),
    "PMC-Patients": (
        "n.csv", text("patient_id,patient_uid,PMID,title,patient\n0,77-1,1,A case,Fever.\n"), "PMC-Patients",
        [("77-1", "Fever.")], {},
    ),
    "Open-i": (
        "n.csv", text(f"{OPENI}1,,,,,,Clear.,\n2,,,,,,,\n"), "Open-i", [("1", "Findings: Clear.")], {NO_TEXT: 1},
    ),
    "i2b2 2014": ("d", folder({"110-01.xml": I2B2, "110-02.xml": I2B2.replace("fever", "a cough")}), "XML",
                  [("110", "Mr. Vane has fever."), ("110", "Mr. Vane has a cough.")], {}),
    "i2b2 2006": (
        "n.xml", text('<ROOT><RECORD ID="4711"><TEXT>Seen by <PHI TYPE="DOCTOR">Ray</PHI>.</TEXT></RECORD></ROOT>'),
        "XML", [("4711", "Seen by Ray.")], {},
    ),
    "i2b2 2008": ("n.xml", text('<root><docs><doc id="4711"><text>Fever.</text></doc></docs></root>'), "XML",
                  FEVER[:1], {}),
    "C-CDA": ("n.xml", text(CDA), "XML", [("4711", "History\nFever.\nHb 12.1")], {}),
    "FHIR Bundle": (
        "b.json", value(bundle(person("4711"), document("d1", "urn:uuid:0"), document("d2", "Patient/12"))), "FHIR",
        [("4711", "Fever."), ("12", "Fever.")], {},
    ),
    "FHIR with a vendor's field, a date without zone, no status": (
        "b.json", value(document(status=None, date="2020-03-04T10:00:00", xVendor={"a": [1]}, type="Note")), "FHIR",
        FEVER[:1], {},
    ),
    "FHIR entered in error and superseded": (
        "b.json", value(bundle(document("d1"), document("d2", status="entered-in-error"),
                               document("d3", docStatus="entered-in-error"), document("d4", status="superseded"))),
        "FHIR", FEVER[:1], {IN_ERROR: 2, SUPERSEDED: 1},
    ),
    "FHIR replaced by another": (
        "b.json", value(bundle(document("d1", "Patient/4711", attached("Feve.")), document(
            "d2", relatesTo=[{"code": "replaces", "target": {"reference": "DocumentReference/d1"}}]))),
        "FHIR", FEVER[:1], {SUPERSEDED: 1},
    ),
    "FHIR in three renderings": (
        "b.json", value(document("d1", "Patient/4711", attached(RTF, "text/rtf"), attached(HTML, "text/html"),
                                 attached("Fever.", "text/plain"))), "FHIR", FEVER[:1], {},
    ),
    "FHIR in HTML": ("b.json", value(document("d1", "Patient/4711", attached(HTML, "text/html"))), "FHIR",
                     [("4711", "Fever & chills.")], {}),
    "FHIR in RTF": (
        "b.json", value(bundle(document("d0", "Patient/12"), document("d1", "Patient/4711", attached(RTF, None)))),
        "FHIR", [("12", "Fever."), *([("4711", "Fever\nMüde.")] if HAS["striprtf"] else [])], RTF_LEFT,
    ),
    "FHIR in 'ASCII Text', in no type, with a charset": (
        "b.json", value(bundle(document("d1", "Patient/1", attached("One.", "ASCII Text")), document(
            "d2", "Patient/2", attached("Two.", None)), document(
            "d3", "Patient/3", attached("é".encode("latin-1"), "text/plain; charset=iso-8859-1")))),
        "FHIR", [("1", "One."), ("2", "Two."), ("3", "é")], {},
    ),
    "FHIR with a C-CDA": ("b.json", value(document("d1", "Patient/4711", attached(CDA, "application/xml"))), "FHIR",
                          [("4711", "History\nFever.\nHb 12.1")], {}),
    "FHIR scan, text elsewhere, no text": (
        "b.json", value(bundle(document("d0"), document("d1", "Patient/1", attached(b"%PDF-1.7", "a/pdf")),
                               document("d2", "Patient/2", {"attachment": {"url": "https://h.example/note.txt"}}),
                               document("d3", "Patient/3", {"attachment": {}}))),
        "FHIR", FEVER[:1], {"in a form that is not read (PDF)": 1, ELSEWHERE: 1, NO_TEXT: 1},
    ),
    "FHIR attachment in a Binary": (
        "b.json", value(bundle({"resourceType": "Binary", "id": "b", "contentType": "text/html",
                                "data": code("<p>Fever.</p>")},
                               document("d1", "Patient/4711", {"attachment": {"url": "http://h/Binary/b"}}))),
        "FHIR", FEVER[:1], {},
    ),
    "FHIR subject by identifier": (
        "b.json", value(bundle(person("4711", identifier=[{"system": "urn:h", "value": "77"}]),
                               document("d1", subject={"identifier": {"system": "urn:h", "value": "77"}}),
                               document("d2", subject={"identifier": {"system": "urn:h", "value": "78"}}),
                               document("d3", subject={"display": "Ada Vane"}))),
        "FHIR", [("4711", "Fever."), ("78", "Fever.")], {NO_PATIENT: 1},
    ),
    "FHIR contained patient": (
        "b.json", value(document(subject={"reference": "#p"},
                                 contained=[person("p", identifier=[{"value": "4711"}])])),
        "FHIR", FEVER[:1], {},
    ),
    "FHIR DiagnosticReport": (
        "b.json", value(bundle({**REPORT, "presentedForm": [attached("Clear.")["attachment"]]},
                               {**REPORT, "id": "r2", "conclusion": "No change."},
                               {**REPORT, "id": "r3", "text": narrative("Effusion.")})),
        "FHIR", [("4711", "Clear."), ("4711", "No change."), ("4711", "Effusion.")], {},
    ),
    "FHIR report and reference to the same text": (
        "b.json", value(bundle(document(), {**REPORT, "presentedForm": [attached()["attachment"]]})), "FHIR",
        FEVER[:1], {TWICE: 1},
    ),
    "FHIR Composition": (
        "b.json", value(bundle(COMPOSITION, person("4711"), kind="document")), "FHIR",
        [("4711", "History\nFever.\nPlan\nDrugs\nNone.")], {},
    ),
    "FHIR bulk export": (
        "d", folder({"DocumentReference.ndjson": "\n".join(map(json.dumps, [
            document("d1"), document("d2", "Patient/12", attached("Cough for 3 days."))])),
            "Patient.ndjson": json.dumps(person("4711")),
            "Observation.ndjson": json.dumps({"resourceType": "Observation", "id": "o"})}),
        "FHIR", FEVER, {NO_DOCUMENT: 1},
    ),
    "FHIR bulk export, packed": ("n.ndjson.gz", packed(json.dumps(document())), "FHIR", FEVER[:1], {}),
    "FHIR folder of bundles": (
        "d", folder({"a.json": json.dumps(bundle(document())), "b.json": json.dumps(
            bundle(document("d2", "Patient/12", attached("Cough for 3 days."))))}), "FHIR", FEVER, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FORMS)
def test_what_is_read_of_a_form(tmp_path: Path, what: str) -> None:
    name, write, form, notes, left_out = FORMS[what]
    write(tmp_path / name)
    read = read_patient_notes(tmp_path / name)
    assert [(note.patient, note.text) for note in read.notes] == notes
    assert (read.form, read.excluded, read.bad_rows) == (form, left_out, ())
    assert len({note.note_id for note in read.notes}) == len(notes)
    assert read.is_open == (form in ("Open-i", "PMC-Patients"))


@pytest.mark.parametrize("what", ["NOTEEVENTS", "MIMIC-IV-Note", "OMOP NOTE"])
def test_every_note_of_a_published_table_has_its_date(tmp_path: Path, what: str) -> None:
    """Discharge summaries of NOTEEVENTS have a day and no time."""
    name, write, *_ = FORMS[what]
    write(tmp_path / name)
    assert all(note.date[:2] in ("20", "21") for note in read_patient_notes(tmp_path / name).notes)


def test_there_are_forty_forms() -> None:
    assert len(FORMS) >= 40


UNREAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "Cyrillic in Windows-1251": (
        "n.csv", text("patient_id,note\n1,Жар и кашель\n", "cp1251"), r"n\.csv is not UTF-8 text \(.* at byte 18\)",
    ),
    "Japanese in Shift-JIS": ("n.csv", text("patient_id,note\n1,熱、咳。\n", "shift-jis"), r"n\.csv is not UTF-8"),
    "one text of a folder": (
        "d", folder({"1/a.txt": "Fever.", "2/b.txt": "Жар и кашель".encode("cp1251")}),
        r"2/b\.txt: is not UTF-8 text",
    ),
    "cut off": (
        "n.csv.gz", lambda path: path.write_bytes(gzip.compress(TABLE.encode())[:-9]), r"n\.csv\.gz is cut off",
    ),
    "not packed": ("n.csv.gz", text(TABLE), r"n\.csv\.gz cannot be read"),
    "broken Excel": ("n.xlsx", lambda path: path.write_bytes(b"PK\3\4x"),
                     r"n\.xlsx cannot be read as an Excel file" if HAS["openpyxl"] else r"medunlearn\[excel\]"),
    "old Excel": ("n.xls", lambda path: path.write_bytes(b"\xd0\xcf"), r"read from \.csv, .*\.xlsx"),
    "XML that grows": ("n.xml", text('<!DOCTYPE r [<!ENTITY a "aa">]><r>&a;</r>'), r"n\.xml.* XML entities"),
    "XML of another kind": ("n.xml", text("<html/>"), r"XML of a kind that is not read \(<html>\)"),
    "cut XML": ("n.xml", text(CDA[:-9]), r"is no whole XML"),
    "JSON of no list": ("b.json", text('{"a": 1}'), "must contain a list"),
    "cut JSON": ("b.json", text("{"), "truncated or broken"),
    "empty Bundle": ("b.json", text('{"resourceType": "Bundle"}'), "no row that can be read"),
    "line that is no resource": ("n.ndjson", lines(document(), {"note": "Three."}), r"n\.ndjson:2: is no FHIR"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNREAD)
def test_a_file_that_is_not_read_is_named_with_the_reason(tmp_path: Path, what: str) -> None:
    name, write, message = UNREAD[what]
    write(tmp_path / name)
    with pytest.raises(SourceError, match=message) as error:
        read_patient_notes(tmp_path / name)
    assert "4711" not in str(error.value)


def test_sheets_with_different_columns_are_for_the_user(tmp_path: Path) -> None:
    workbook([HEADER, (1, "Fever.")], [("code", "title"), ("A", "B")])(tmp_path / "n.xlsx")
    with pytest.raises(SourceError, match="several sheets with different columns"):
        read_patient_notes(tmp_path / "n.xlsx")


def test_which_folder_is_the_patient_is_asked(tmp_path: Path) -> None:
    folder({"2019/4711/a.txt": "Fever.", "2020/4711/b.txt": "Cough.", "2020/12/c.txt": "Rash."})(tmp_path / "d")
    with pytest.raises(ConfigError, match=r"--patient-column: .*folder_1, folder_2"):
        read_patient_notes(tmp_path / "d")
    read = read_patient_notes(tmp_path / "d", NoteFields(patient="folder_2"))
    assert [note.patient for note in read.notes] == ["4711", "12", "4711"]


def test_a_patient_resource_and_a_header_give_identifiers(tmp_path: Path) -> None:
    """Whether a reference names the patient by the bundle's address, by id, or with server and version."""
    ada = person(
        "4711",
        identifier=[{"value": "H-9"}, {"type": {"coding": [{"code": "MR"}]}, "value": "77"}],
        name=[{"given": ["Ada", "May"], "family": "Vane"}, {"text": "Ada Lowe", "use": "maiden"}],
        birthDate="1950-02-03",
        telecom=[{"system": "phone", "value": "555-0101"}, {"system": "email"}],
        address=[{"line": ["1 Low Road"], "city": "Tarn"}],
    )
    references = ("urn:uuid:0", "Patient/4711", "https://h.example/Patient/4711/_history/3")
    documents = [document(f"d{n}", who, attached(f"Note {n}.")) for n, who in enumerate(references)]
    value(bundle(ada, *documents))(tmp_path / "b.json")
    text(CDA)(tmp_path / "n.xml")
    header = {"name": "Ada Vane", "birth_date": "1950-02-03", "phone": "555-0101", "address": "1 Low Road"}
    (cda,) = read_patient_notes(tmp_path / "n.xml").notes
    assert (cda.note_id, cda.date, {key: cda.values[key] for key in header}) == ("doc-1", "2019-03-04", header)
    for note in read_patient_notes(tmp_path / "b.json").notes:
        assert note.date == "2020-03-04T10:00:00Z"
        assert {key: note.values[key] for key in (*header, "record_number")} == {
            **header, "name": "Ada May Vane", "address": "1 Low Road, Tarn", "record_number": "77",
        }  # fmt: skip
        assert [(own.type, own.value) for own in note.identifiers or ()] == [
            ("name", "Ada Lowe"),
            ("identifier", "H-9"),
        ]
    folder({"110-01.xml": I2B2})(tmp_path / "i2b2")
    (i2b2,) = read_patient_notes(tmp_path / "i2b2").notes
    assert [(own.type, own.value) for own in i2b2.identifiers or ()] == [("patient", "Vane"), ("mrn", "77-1")]
