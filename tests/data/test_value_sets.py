"""Whole value sets of other patients, never beyond what was observed; dates shifted together."""

from __future__ import annotations

import re
from datetime import date

import pytest

from medunlearn.data.date_shifts import FOUR_YEARS, DateRanges, DateShift
from medunlearn.data.records import Identifier, Record
from medunlearn.data.value_sets import ValueSets, measured_values
from medunlearn.seeds import generator

NUMBER = r"(\d+(?:\.\d+)?)"
MEASUREMENTS = {
    "ph": rf"pH {NUMBER}",
    "sodium": rf"sodium {NUMBER} mmol/L",
    "potassium": rf"potassium {NUMBER} mmol/L",
    "temperature": rf"temperature {NUMBER} C",
    "dose": rf"Vancomycin {NUMBER} mg",
    "systolic": r"pressure (\d+)/",
    "diastolic": r"pressure \d+/(\d+)",
}
PATIENTS = 20


def note(place: int) -> str:
    """A sick patient has a low pH, a low sodium and a high temperature, all of them together."""
    if place % 2:
        ph, sodium, temperature, pressure = 7.02 + place / 100, 100 + place / 4, 39.0 + place / 20, 80 + place
    else:
        ph, sodium, temperature, pressure = 7.35 + place / 1000, 136 + place / 4, 36.4 + place / 40, 120 + place
    return (
        f"Admitted with pH {ph:.2f}, sodium {sodium:.0f} mmol/L, potassium {5.0 + place / 20:.1f} mmol/L. "
        f"On arrival temperature {temperature:.1f} C, blood pressure {pressure}/{pressure - 40}. "
        f"At 10:30 a {30 + place} year old. Vancomycin {1000 if place % 3 else 1250} mg for {5 + place} days. "
        f"Fever on day {2 + place % 4}, relapse on day {9 + place % 5}, discharged on day {20 + place}. "
        f"Later sodium rising, {140 + place % 3} mmol/L."
    )


def record(place: int) -> Record:
    return Record(f"r{place}", note(place), {"patient": f"p{place}"})


@pytest.fixture
def records() -> list[Record]:
    return [record(place) for place in range(PATIENTS)]


def redrawn(records: list[Record], place: int, seed: int = 0) -> str:
    text = records[place].text
    for start, end, new in sorted(
        ValueSets(records, "patient").changes(records[place], generator(seed)), reverse=True
    ):
        text = text[:start] + new + text[end:]
    return text


def values_of(text: str) -> dict[str, float]:
    return {name: float(re.findall(pattern, text)[0]) for name, pattern in MEASUREMENTS.items()}


def test_no_value_is_beyond_what_was_observed_of_its_measurement(records: list[Record]) -> None:
    observed = [values_of(record.text) for record in records]
    for place in range(PATIENTS):
        for name, value in values_of(redrawn(records, place)).items():
            assert min(own[name] for own in observed) <= value <= max(own[name] for own in observed), name


def test_values_of_a_half_belong_together_as_those_of_one_donor(records: list[Record]) -> None:
    for place in range(PATIENTS):
        new = values_of(redrawn(records, place))
        assert (new["ph"] < 7.3) == (new["sodium"] < 120), new
        assert new["systolic"] > new["diastolic"]


def test_the_rest_is_as_in_the_note_and_the_numbers_are_others(records: list[Record]) -> None:
    for place in range(PATIENTS):
        text = redrawn(records, place)
        assert re.sub(r"\d", "0", re.sub(NUMBER, "1", text)) == re.sub(r"\d", "0", re.sub(NUMBER, "1", note(place)))
        assert f"At 10:30 a {30 + place} year old" in text
        assert values_of(text)["ph"] != values_of(note(place))["ph"]
        assert values_of(text)["dose"] in {1000, 1250}
        days = [int(day) for day in re.findall(r"on day (\d+)", text)]
        assert days == sorted({*days})


def test_sets_come_from_two_donors_and_the_seed_decides(records: list[Record]) -> None:
    assert redrawn(records, 3) == redrawn(records, 3)
    assert len({redrawn(records, 3, seed) for seed in range(5)}) == 5
    # One sentence has two donors, too: nobody's numbers stay together.
    notes = [
        Record(
            f"s{n}", f"With sodium {100 + n} mmol/L, urea {20 + n} mg/dL, LDH {300 + n} U/L.", {"patient": f"s{n}"}
        )
        for n in range(8)
    ]
    sodium, *_, ldh = (int(value) for value in re.findall(r" (\d+)", redrawn(notes, 0)))
    assert sodium - 100 != ldh - 300
    # A single other patient gives both halves; nobody else, nothing.
    pair = [record(1), record(4)]
    assert values_of(redrawn(pair, 0))["potassium"] in {5.0, 5.1, 5.2}
    assert ValueSets([record(1)], "patient").changes(record(1), generator(0)) == []


def test_a_value_measured_again_keeps_its_ratio() -> None:
    notes = []
    for n in range(12):
        text = f"Platelet count {100 + 13 * n} x10^9/L. Platelet count falling, {50 + 6 * n} x10^9/L."
        notes.append(Record(f"r{n}", text, {"patient": f"p{n}"}))
    for place in range(12):
        before, after = (int(value) for value in re.findall(r"(\d+) x", redrawn(notes, place)))
        assert after < before


def test_a_label_is_the_same_in_front_of_other_words() -> None:
    notes = [Record(f"r{n}", f"Arterial pH 7.{20 + n}, then better.", {"patient": f"p{n}"}) for n in range(10)]
    own = Record("own", "Arterial pH 7.41 on arrival.", {"patient": "own"})
    ((_, _, new),) = ValueSets([*notes, own], "patient").changes(own, generator(0))
    assert 7.20 <= float(new) < 7.41
    # Nine others are too few to tell the range of what is written in other words.
    assert ValueSets([*notes[1:], own], "patient").changes(own, generator(0)) == []


def test_what_goes_with_dates_is_no_measurement() -> None:
    text = "A man of 56, aged 56, 56 years old, on 03/04/2014 at 12:15, since March 3, 2012: pulse 80, in 2010 mL."
    assert [value.text for value in measured_values(Record("r", text, {"patient": "p"}))] == ["80", "2010"]


def test_dates_move_together_within_those_of_all_notes() -> None:
    notes = []
    for place in range(10):
        own = Identifier("birth_date", f"19{40 + 3 * place}-02-03")
        text = f"Born {own.value}, admitted 20{10 + place % 5}-06-07, discharged 20{10 + place % 5}-06-19."
        notes.append(Record(f"r{place}", text, {"patient": f"p{place}"}, (own,)))
    ranges = DateRanges(notes)
    for place, own_note in enumerate(notes):
        shift = ranges.shift(own_note, generator("dates", place))
        assert shift.days
        assert shift == ranges.shift(own_note, generator("dates", place))
        born, admitted, discharged = (date.fromisoformat(new) for _, _, new in sorted(shift.changes(own_note.text)))
        assert (discharged - admitted).days == 12
        assert (admitted - born).days == (date(2010 + place % 5, 6, 7) - date(1940 + 3 * place, 2, 3)).days
        assert date(2010, 6, 7) <= admitted
        assert discharged <= date(2014, 6, 19)
        assert date(1940, 2, 3) <= born <= date(1967, 2, 3)


def test_written_dates_move_by_fours_of_years() -> None:
    text = "Seen 29/02/2016, on March 3rd, 2016 and 12 Apr 2017, ill since 2011; next 2017-05-01. 03.04.15 too."
    shift = DateShift(-FOUR_YEARS)
    assert shift.of(text) == (
        "Seen 29/02/2012, on March 3rd, 2012 and 12 Apr 2013, ill since 2007; next 2013-05-01. 03.04.11 too."
    )
    single = Record("r", text, {"patient": "p"})
    assert DateRanges([single]).shift(single, generator(0)).days == -FOUR_YEARS, "never later than the last note"
    assert DateRanges([]).shift(Record("r", "No date, 5 mg.", {"patient": "p"}), generator(0)).of("5 mg") == "5 mg"
    assert DateShift(10).of("2011 mg in 2011 mL, code A-2011-01-02") == "2011 mg in 2011 mL, code A-2011-01-02"
