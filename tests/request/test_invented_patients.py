"""Invented patients are believable, nobody's, and the same for the same seed; of notes of any form."""

from __future__ import annotations

import csv
import json
import re
from datetime import date
from pathlib import Path

import pytest

import medunlearn as mu
from medunlearn.config import check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.date_shifts import written_years
from medunlearn.data.records import Record
from medunlearn.data.value_sets import ValueSets, measured_values
from medunlearn.request.invented_patients import PREFIX, PatientInventor, with_invented
from medunlearn.synthetic.note_table import write_note_table

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "../shared/data"
FORMS = ("hospital", "examples", "ward", "lume", "openi")


def ward_notes(path: Path) -> Path:
    """Notes with few words, which all have the same measurements and two forms of dates."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("note_id", "patient_id", "name", "birth_date", "ward", "note"))
        for n in range(14):
            name, born = f"{'ABCDEFG'[n % 7]}nna {'HIJKLMN'[n // 2]}olm", f"{1950 + 2 * n}-03-{n + 10}"
            year, ward = 2010 + n % 6, f"Ward {n % 3}"
            note = (
                f"{name}, born {born}, {ward}, aged {year - 1950 - 2 * n} years. Admitted {year}-05-{n + 10}, "
                f"discharged {year}-06-{n + 10}. First seen 1{n % 10}/04/{year - 1}. Arterial pH 7.{20 + n}, "
                f"sodium {130 + n} mmol/L, temperature {36.1 + n / 7:.1f} C. Blood pressure {110 + n}/{60 + n}."
            )
            table.writerow((f"n{n}", f"p{n:02d}", name, born, ward, note))
    return path


def public_texts(path: Path, texts: list[str]) -> Path:
    """Real texts without columns that name anybody, each with a number and of a person of its own."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("note_id", "patient_id", "note"))
        numbered = [text for text in dict.fromkeys(texts) if len(re.findall(r"\d+", text)) > 1]
        table.writerows((place, f"q{place}", text) for place, text in enumerate(numbered[:300]))
    return path


def lume_texts() -> list[str]:
    lines = [json.loads(line) for line in (SHARED / "lume" / "retain.jsonl").read_text("utf-8").splitlines()]
    return [f"{line['input']} {line['output']}" for line in lines if len(line["input"]) > 150]


def openi_texts() -> list[str]:
    with (SHARED / "openi" / "indiana_reports.csv").open(encoding="utf-8", newline="") as file:
        return [f"{row['findings']} {row['impression']}" for row in csv.DictReader(file)]


@pytest.fixture(scope="module", params=FORMS)
def notes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp(str(request.param))
    if request.param in ("lume", "openi") and not (SHARED / str(request.param)).exists():
        pytest.skip(f"needs ../shared/data/{request.param}")
    if request.param == "examples":
        table = ROOT / "examples" / "notes.csv"
    elif request.param == "hospital":
        table = write_note_table(folder / "notes.csv", 24)
    elif request.param == "ward":
        table = ward_notes(folder / "notes.csv")
    else:
        table = public_texts(folder / "notes.csv", lume_texts() if request.param == "lume" else openi_texts())
    return mu.build.notes(table, out=folder / "bench", quiet=True)


def invented(notes: Benchmark, count: int = 12, seed: int = 0) -> list[tuple[Record, Record]]:
    """Notes of retained patients, each with the one invented from it."""
    without = {notes.records[0].groups[notes.subject_level]}
    return [(notes.record[new.record_id], new) for new in PatientInventor.of(notes, seed, without).notes(count)]


Pairs = list[tuple[Record, Record]]


@pytest.fixture(scope="module")
def pairs(notes: Benchmark) -> Pairs:
    """Twelve notes, each with the one invented from it."""
    return invented(notes)


def test_no_identifier_of_a_single_real_patient_is_left(notes: Benchmark, pairs: Pairs) -> None:
    owners: dict[str, set[str]] = {}
    for record in notes.records:
        for own in record.identifiers:
            owners.setdefault(own.value, set()).add(record.groups["patient"])
    assert len(pairs) >= 3
    assert all(base.text != new.text for base, new in pairs)
    for base, new in pairs:
        theirs = [own.value for own in base.identifiers if len(owners[own.value]) == 1]
        assert not [value for value in theirs if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", new.text)]
        assert not {own.value for own in new.identifiers if own.type in {"name", "mrn", "email"}} & owners.keys()
        assert all(own.value in new.text for own in new.identifiers)
        names = [own.value for own in base.identifiers if own.type == "name"]
        words = {word for name in names for word in name.split() if len(word) > 3}
        words -= {word for own in new.identifiers for word in re.findall(r"\w+", own.value)}
        assert not [word for word in words if re.search(rf"\b{word}\b", new.text, re.I)]


def test_no_value_is_beyond_those_observed_of_its_measurement(notes: Benchmark, pairs: Pairs) -> None:
    values = ValueSets(notes.records, "patient")
    for base, new in pairs:
        old, redrawn = measured_values(base), measured_values(new)
        assert len(old) == len(redrawn)
        for before, after in zip(old, redrawn, strict=True):
            known = values.observed(before, base.groups["patient"])
            texts = [before.text, *(text for own in (known[1].values() if known else ()) for text in own)]
            observed = [float(text.split("/")[0]) for text in texts]
            assert min(observed) <= float(after.text.split("/")[0]) <= max(observed), before


def test_dates_keep_their_differences_and_none_is_later_than_all_notes(notes: Benchmark, pairs: Pairs) -> None:
    latest = max((day for record in notes.records for day in days(record.text)), default=None)
    for base, new in pairs:
        offsets = {after - before for before, after in zip(days(base.text), days(new.text), strict=True)}
        assert len(offsets) <= 1
        assert latest is None or max(days(new.text), default=latest) <= latest
        ages = [re.findall(r"aged? (\d+)|(\d+)[- ]years?[- ]old", text) for text in (base.text, new.text)]
        assert ages[0] == ages[1]
        places = [written_years(text) for text in (base.text, new.text)]
        if offsets and places[0]:
            assert next(iter(offsets)).days % 1461 == 0
            years = [int(text[slice(*place[0])]) for text, place in zip((base.text, new.text), places, strict=True)]
            assert years[1] - years[0] == 4 * next(iter(offsets)).days // 1461


def test_the_seed_decides(notes: Benchmark, pairs: Pairs) -> None:
    assert invented(notes) == pairs
    assert invented(notes, 3) == pairs[:3]
    assert [new.text for _, new in invented(notes, seed=1)] != [new.text for _, new in pairs]


def test_most_numbers_are_new_where_others_have_the_measurement(notes: Benchmark, pairs: Pairs) -> None:
    values, changes = ValueSets(notes.records, "patient"), list[bool]()
    for base, new in pairs:
        for before, after in zip(measured_values(base), measured_values(new), strict=True):
            known = values.observed(before, base.groups["patient"])
            texts = {text for own in (known[1].values() if known else ()) for text in own}
            if len(texts) > 2:
                changes.append(before.text != after.text)
    assert sum(changes) >= 0.8 * len(changes)


def test_a_benchmark_gets_unseen_patients_with_probes(notes: Benchmark) -> None:
    first = notes.records[0].groups["patient"]
    settings = check(NotesSettings, {"notes": Path("notes.csv"), "clozes": 2})
    extended = with_invented(notes, 3, settings, without={first})
    new = [record for record in extended.records if record.groups["patient"].startswith(PREFIX)]
    assert [record.record_id for record in new] == [f"{PREFIX}{n:04d}" for n in range(1, 4)]
    assert all(record.fold == "holdout" and record.groups["patient"] == record.record_id for record in new)
    assert {q.fold for q in extended.questions if q.record_id.startswith(PREFIX)} == {"utility"}
    assert extended.notes["invented patients"] == 3
    assert extended.records[: len(notes.records)] == notes.records


def days(text: str) -> list[date]:
    return [date.fromisoformat(day) for day in re.findall(r"(?<![\w-])\d{4}-\d{2}-\d{2}(?!\d)", text)]
