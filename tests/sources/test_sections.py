"""Sections of reports: the headings that people write, and that no word is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.data.studies_of_patients import in_order
from medunlearn.sources.report_sections import read_report
from medunlearn.sources.table_files import read_rows

OPENI = Path(__file__).parents[3] / "shared" / "data" / "openi" / "indiana_reports.csv"

REPORT = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___ year old woman with cough  // eval pneumonia

 TECHNIQUE:   Chest PA and lateral

 COMPARISON:  ___

 FINDINGS:

 Heart size is normal.  LUNGS: Clear.
 BONES: Intact. These findings
 suggest no disease.

 IMPRESSION:

 No acute process.
 Impression of mild edema is gone.

 NOTIFICATION:   Told at 3:15 PM.
"""


def test_a_report_as_mimic_cxr_has_them() -> None:
    report = read_report(REPORT)
    assert report.sections == {
        "examination": "CHEST (PA AND LAT)",
        "indication": "___ year old woman with cough // eval pneumonia",
        "technique": "Chest PA and lateral",
        "comparison": "___",
        "findings": "Heart size is normal. LUNGS: Clear. BONES: Intact. These findings suggest no disease.",
        "impression": "No acute process. Impression of mild edema is gone.",
        "notification": "Told at 3:15 PM.",
    }
    assert not report.rest


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("findings: Clear.", {"findings": "Clear."}),
        ("  Findings :Clear.", {"findings": "Clear."}),
        ("FINDINGS\nClear.", {"findings": "Clear."}),
        ("Impression\n\nNone.", {"impression": "None."}),
        ("FINDINGS  Clear.", {"findings": "Clear."}),
        ("FINDINGS - Clear.", {"findings": "Clear."}),
        ("FINDINGS -\n Clear.", {"findings": "Clear."}),
        ("IMPRESSION No change.", {"impression": "No change."}),
        ("REASON  FOR\tEXAM: Cough.", {"indication": "Cough."}),
        ("RECOMMENDATION(S):  Repeat.", {"recommendation": "Repeat."}),
        ("FINDINGS AND IMPRESSION: Clear.", {"findings_and_impression": "Clear."}),
        ("Findings/Impression: Clear.", {"findings_and_impression": "Clear."}),
        ("FINDINGS & IMPRESSION: Clear.", {"findings_and_impression": "Clear."}),
        ("HISTORY/INDICATION: Cough.", {"indication": "Cough."}),
        ("INDICATION: A. COMPARISON: B. FINDINGS: C.", {"indication": "A.", "comparison": "B.", "findings": "C."}),
        ("FINDINGS: One.\nIMPRESSION: Two.\nFINDINGS: Three.", {"findings": "One. Three.", "impression": "Two."}),
        ("FINDINGS: One.\nFINDINGS: One.", {"findings": "One."}),
    ],
)  # fmt: skip
def test_headings_as_people_write_them(text: str, sections: dict[str, str]) -> None:
    assert read_report(text).sections == sections


def test_what_a_second_reader_replaced_is_no_section() -> None:
    report = read_report(
        "WET READ: ___ 9:15 PM\n Small effusion.\n FINAL REPORT\n HISTORY: Pain.\n FINDINGS: Clear."
    )
    assert report.sections == {"history": "Pain.", "findings": "Clear."}
    assert report.rest == {"wet_read": "___ 9:15 PM Small effusion."}
    assert read_report("WET READ VERSION #1: Fluid.").rest == {"wet_read": "Fluid."}


def test_an_unknown_heading_ends_a_section_but_for_the_parts_of_findings() -> None:
    report = read_report("INDICATION: Cough.\n CHEST, PA AND LATERAL: Lungs clear.\nIMPRESSION: None.")
    assert report.sections == {"indication": "Cough.", "impression": "None."}
    assert report.rest == {"other": "CHEST, PA AND LATERAL: Lungs clear."}


WORDS = st.text("abcdefghij0123456789", min_size=1, max_size=8)
TEXT = st.lists(WORDS, min_size=1, max_size=20).map(" ".join)
NAMES = ("examination", "indication", "history", "technique", "comparison", "findings", "impression")


PARTS = st.tuples(st.sampled_from(NAMES), TEXT, st.integers(0, 4))


@settings(max_examples=80, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=7, unique_by=lambda part: part[0]))
def test_what_was_written_is_read_whatever_the_form(parts: list[tuple[str, str, int]]) -> None:
    forms = ("{upper}:  {text}", "{title}: {text}", "{upper}\n{text}", " {name} :\n\n {text}", "\t{upper} - {text}")
    report = "\n".join(
        forms[form].format(upper=name.upper(), title=name.capitalize(), name=name, text=text)
        for name, text, form in parts
    )
    assert read_report(report).sections == {name: text for name, text, _ in parts}


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([*NAMES, "FINDINGS:", "\n", " ", "AND", "lungs", "WET READ:"]), max_size=40).map(
        " ".join
    )
)
def test_nothing_raises_and_no_word_is_lost_but_those_of_headings(text: str) -> None:
    report = read_report(text)
    words = " ".join([*report.sections.values(), *report.rest.values()]).split()
    assert set(words) <= set(text.split()) | {word.strip(":") for word in text.split()} | set(
        re.split(r"[:\s]+", text)
    )
    headings = {word.lower() for name in NAMES for word in (name, f"{name}s")} | {
        "and",
        "wet",
        "read",
        "final",
        "report",
    }
    lost = set(re.findall(r"\w{3,}", text)) - set(re.findall(r"\w{3,}", " ".join(words)))
    assert {word.lower() for word in lost} <= headings | {
        "exam",
        "exams",
        "finding",
        "study",
        "procedure",
        "addendum",
    }


def test_sections_come_in_the_order_of_reports() -> None:
    assert in_order(["impression", "zebra", "examination", "findings", "alpha"]) == [
        *("examination", "findings", "impression", "alpha", "zebra")
    ]


@pytest.mark.skipif(not OPENI.exists(), reason="the Open-i reports (../shared/data/openi) are not here")
def test_every_open_i_report_is_read_as_it_was_put_together() -> None:
    matches = 0
    for _, row in read_rows(OPENI):
        assert not isinstance(row, str)
        sections = {name: " ".join(str(row[name]).split()) for name in ("indication", "findings", "impression")}
        sections = {name: text for name, text in sections.items() if text}
        report = "FINAL REPORT\n" + "\n\n".join(f" {name.upper()}:  {text}" for name, text in sections.items())
        read = read_report(report).sections
        # A few texts hold a heading of their own, and are read by it.
        own = re.search(r"\b(?:INDICATION|FINDINGS|IMPRESSION)\s*:", " ".join(sections.values()))
        assert read == sections or own
        matches += read == sections
    assert matches > 3800
