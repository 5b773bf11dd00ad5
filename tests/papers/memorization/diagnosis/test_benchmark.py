"""Admissions, invented and of one's own, as a benchmark with parts by patient."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.synthetic.admissions import SPECIALTIES, invent_admissions
from medunlearn.synthetic.knowledge import DISEASES


def parts(bench: Benchmark) -> dict[str, set[str]]:
    patients: dict[str, set[str]] = {}
    for record in bench.records:
        patients.setdefault(record.groups["part"], set()).add(record.groups["patient"])
    return patients


def test_parts_are_by_patient_and_only_one_is_trained_on(bench: Benchmark) -> None:
    by = parts(bench)
    assert {part: len(patients) for part, patients in by.items()} == {"train": 11, "validation": 4, "test": 5}
    assert all(
        record.fold == ("train" if record.groups["part"] == "train" else "holdout") for record in bench.records
    )
    assert {q.fold for q in bench.questions if bench.record[q.record_id].fold == "holdout"} == {"holdout"}
    split = bench.split("random_10")
    assert set(split.forget) <= by["train"]
    assert by["validation"] | by["test"] <= set(split.retain)


def test_shares_are_the_papers_and_a_seed_is_a_hospital(bench: Benchmark) -> None:
    sizes = {part: len(patients) for part, patients in parts(mu.build.diagnosis(synthetic=130)).items()}
    assert sizes == {"train": 100, "validation": 20, "test": 10}
    again, other = (mu.build.diagnosis(synthetic=20, validation=4, test=5, seed=seed) for seed in (0, 1))
    assert again.fingerprint == bench.fingerprint != other.fingerprint


def test_invented_admissions_are_consistent_and_do_not_give_the_answer_away() -> None:
    admissions = invent_admissions(60, seed=3)
    assert set(SPECIALTIES) == set(DISEASES)
    for stay in admissions:
        text = f"{stay.history} {stay.labs}"
        assert stay.diagnoses[0].lower() not in text.lower()
        assert stay.diagnoses[1] in text
        assert all(identifier.value in stay.history for identifier in stay.identifiers)
        values = {identifier.type: identifier.value for identifier in stay.identifiers}
        born, day = date.fromisoformat(values["birth_date"]), date.fromisoformat(values["date"])
        age = day.year - born.year - ((day.month, day.day) < (born.month, born.day))
        assert age == int(values["age"])
        readings = re.findall(r" ([\d.]+)(?:%| [^()]*)? \((high|low); reference ([\d.]+)-([\d.]+)\)", stay.labs)
        assert len(readings) == 4
        for value, flag, low, high in readings:
            assert float(value) > float(high) if flag == "high" else float(value) < float(low)
    identifiers = [identifier for stay in admissions for identifier in stay.identifiers]
    clinicians, names = ({i.value for i in identifiers if i.type == kind} for kind in ("clinician", "name"))
    assert len(names) == 60
    assert not clinicians & names
    assert len(clinicians) <= 5


ROWS: list[dict[str, Any]] = [
    {
        "id": f"a{n}",
        "patient": f"p{n}",
        "hpi": f"Cough for {n} days.",
        "hpi_date": f"2020-01-{n + 1:02d}",
        "labs": f"CRP {n} mg/L",
        "diagnoses": ["pneumonia", "asthma"],
        "specialty": "pulmonology",
    }
    for n in range(8)
]
SIZES: dict[str, Any] = {"validation": 2, "test": 2}


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        flat = [{**row, "diagnoses": "; ".join(row["diagnoses"])} for row in rows]
        lines = [",".join(flat[0]), *(",".join(str(value) for value in row.values()) for row in flat)]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_every_form_of_file_is_the_same_benchmark(tmp_path: Path, ending: str) -> None:
    rows = [
        {**row, "hpi_date": date.fromisoformat(row["hpi_date"])} if ending == ".parquet" else row for row in ROWS
    ]
    built = mu.build.diagnosis(admissions=save(tmp_path / f"f{ending}", rows), **SIZES)
    record, question = built.records[3], built.questions[3]
    assert record.text == (
        "Date: 2020-01-04\nHistory of present illness: Cough for 3 days.\nLaboratory results: CRP 3 mg/L"
    )
    assert question.answer == "1. pneumonia\n2. asthma"
    assert record.groups["specialty"] == "pulmonology"
    assert built.data_use == "credentialed"


def test_a_row_of_json_may_leave_out_what_others_have(tmp_path: Path) -> None:
    """Otherwise every stay would be another patient's, and one patient in two parts."""
    first = {name: value for name, value in ROWS[0].items() if name not in ("labs", "specialty")}
    rows = [{**row, "patient": f"p{n // 2}"} for n, row in enumerate([first, *ROWS[1:]])]
    path = save(tmp_path / "f.jsonl", rows)
    built = mu.build.diagnosis(admissions=path, stays="all", validation=1, test=1)
    assert sum(map(len, parts(built).values())) == 4
    assert built.record["a0"].text.endswith("Cough for 0 days.")
    assert built.record["a1"].text.endswith("CRP 1 mg/L")
    del rows[0]["patient"]
    with pytest.raises(SourceError, match=r"f\.jsonl:1: has nothing in 'patient'"):
        mu.build.diagnosis(admissions=save(tmp_path / "f.jsonl", rows), **SIZES)


def test_laboratory_results_keep_their_digits(tmp_path: Path) -> None:
    labs = {"viral load": 1250000.0, "platelets": 123456.7, "sodium": 3.200000047683716, "ratio": 0.25}
    path = save(tmp_path / "f.jsonl", [{**ROWS[0], "labs": labs}, *ROWS[1:]])
    text = mu.build.diagnosis(admissions=path, **SIZES).record["a0"].text
    assert text.endswith("viral load 1250000; platelets 123456.7; sodium 3.2; ratio 0.25")


def test_the_latest_stay_of_a_patient_counts(tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[0], "id": "later", "hpi_date": "2021-05-01"}]
    path = save(tmp_path / "f.jsonl", rows)
    built = mu.build.diagnosis(admissions=path, **SIZES)
    assert "later" in built.record
    assert "a0" not in built.record
    assert built.notes["earlier stays left out"] == 1
    assert len(mu.build.diagnosis(admissions=path, **SIZES, stays="all").records) == 9
    undated = save(tmp_path / "g.jsonl", [*ROWS, {**ROWS[0], "id": "later", "hpi_date": "May"}])
    with pytest.raises(InputError, match="--stays all"):
        mu.build.diagnosis(admissions=undated, **SIZES)


def test_a_partition_of_ones_own(tmp_path: Path) -> None:
    def file(*named: str) -> Path:
        rows = [{**row, "part": part} for row, part in zip(ROWS, named, strict=True)]
        return save(tmp_path / "f.jsonl", rows)

    built = mu.build.diagnosis(admissions=file(*["train"] * 5, "validation", "test", "test"))
    assert [len(parts(built)[part]) for part in ("train", "validation", "test")] == [5, 1, 2]
    with pytest.raises(InputError, match="no patient in: test"):
        mu.build.diagnosis(admissions=file(*["train"] * 7, "validation"))
    with pytest.raises(InputError, match="'a7' is in part 'dev'"):
        mu.build.diagnosis(admissions=file(*["train"] * 6, "test", "dev"))


def test_what_cannot_be_used_is_told_with_its_place(tmp_path: Path) -> None:
    bad = [*ROWS, {**ROWS[0], "id": "x", "diagnoses": []}, {**ROWS[1], "id": "y", "hpi": 3.5}]
    path = save(tmp_path / "f.jsonl", bad)
    with pytest.raises(SourceError) as caught:
        mu.build.diagnosis(admissions=path)
    assert "f.jsonl:9: has no diagnosis" in str(caught.value)
    assert "f.jsonl:10: has a float instead of text in 'hpi'" in str(caught.value)
    built = mu.build.diagnosis(admissions=path, skip_bad_rows=True, **SIZES)
    assert (len(built.records), len(built.notes["skipped rows"])) == (8, 2)
    with pytest.raises(ConfigError, match="hpi: There is no column 'hpi'"):
        mu.build.diagnosis(admissions=save(tmp_path / "g.jsonl", [{"hpl": "x", "diagnoses": ["y"]}]))


def test_settings_that_do_not_go(tmp_path: Path) -> None:
    both: dict[str, Any] = {"synthetic": 20, "admissions": tmp_path / "f.csv"}
    for settings in ({}, both):
        with pytest.raises(ConfigError, match="either a file"):
            mu.build.diagnosis(**settings)
    with pytest.raises(InputError, match="leave none"):
        mu.build.diagnosis(synthetic=20, validation=10, test=10)
