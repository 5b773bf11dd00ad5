"""Ids of all forms, on the command line and in a file; patients of whom too little can be asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from forgetting_world import QUICK, Hospital

from medunlearn.config import ForgetSettings, check
from medunlearn.data.deletion_requests import forget_records
from medunlearn.errors import InputError
from medunlearn.request.case.ledger import RequestLedger
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.holders.traces import subject_traces
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_benchmarks import RequestBenchmarks, make_benchmarks

IDS = ("007", "7", "Doe, Ünal", "a b", "1e5", "null", "true", "病-8")
PROMPT = "Write the {note_type} of {name}."
SHORT = "Stable, no complaints today."


@pytest.fixture(scope="module")
def renamed(hospital: Hospital, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hospital's notes under other ids."""
    table = pd.read_csv(hospital.notes, dtype=str)
    names = dict(zip(hospital.patients, IDS, strict=True))
    path = tmp_path_factory.mktemp("ids") / "notes.csv"
    table.assign(patient_id=table["patient_id"].map(names)).to_csv(path, index=False)
    return path


def benchmarks(hospital: Hospital, notes: Path, patient: str, **settings: object) -> RequestBenchmarks:
    checked = check(
        ForgetSettings,
        {
            "patient": patient,
            "same_person": "007",  # has no other id, though 7 is the same up to zeros
            "key": hospital.key,
            "holdout": hospital.unseen,
            "build": QUICK["build"],
            **settings,
        },
    )
    return make_benchmarks(notes, checked, RequestLedger(), OwnerSecret.beside(hospital.key), quiet=True)


@pytest.mark.parametrize("named", [("007",), ("a b", "1e5"), ("null", "true", "病-8"), IDS[:7]])
def test_ids_in_words_and_in_a_file(
    hospital: Hospital, renamed: Path, tmp_path: Path, named: tuple[str, ...]
) -> None:
    (tmp_path / "ids.txt").write_text("".join(f"  {name}\n\n" for name in named), encoding="utf-8")
    spellings = [str(tmp_path / "ids.txt")]
    if not any("," in name for name in named):
        spellings.append(" , ".join(named))
    for spelling in spellings:
        its = benchmarks(hospital, renamed, spelling)
        benchmark = its.benchmark
        assert its.patients == named
        assert {*benchmark.split("request").forget} == {*named}
        hers = {record.record_id for record in benchmark.records if record.groups["patient"] in named}
        assert forget_records(benchmark) == hers
        assert subject_traces(benchmark, its.patients).exact


def test_an_id_with_a_comma_needs_a_file(hospital: Hospital, renamed: Path) -> None:
    with pytest.raises(InputError, match="'Doe'"):
        benchmarks(hospital, renamed, "Doe, Ünal")


def test_attacks_without_a_prompt_are_untested(hospital: Hospital, tmp_path: Path) -> None:
    """The first patient's note is too short to be asked about but by the prompt that was trained on."""
    table = pd.read_csv(hospital.notes, dtype=str)
    table.loc[table["patient_id"] == hospital.patients[0], "note"] = SHORT
    table.to_csv(tmp_path / "short.csv", index=False)
    result = replace(hospital, notes=tmp_path / "short.csv").forget(
        tmp_path / "case", hospital.patients[0], prompt=PROMPT, battery=("quantization",), facts=2, others=3,
        anyway=True, method="npo", unlearn={"epochs": 1, "precision": "fp32"},
        evaluate={"max_new_tokens": 2, "alternatives": 9},
    )  # fmt: skip
    evidence = result.case.evidence
    reasons = {untested.name: untested.reason for untested in evidence.battery.untested}
    assert reasons["quantization"] == "no prompt for it could be made of the notes"
    assert "Quantization" in (result.case.folder / "case.html").read_text()
    assert not [check for check in evidence.battery.checks if check.name.startswith("weights")]
    assert evidence.decision.verdict in ("inconclusive", "no baseline")


def test_attacks_take_gaps_where_there_is_nothing_else(hospital: Hospital) -> None:
    build = {"prefixes": "16", "clozes": 2}
    made = benchmarks(hospital, hospital.notes, hospital.patients[0], build=build)
    both = made.benchmark
    gaps = tuple(question for question in both.questions if question.kind == "cloze")
    settings = check(ForgetSettings, {"patient": hospital.patients[0], "key": hospital.key})
    for benchmark, kinds in ((both, ("completion",)), (replace(both, questions=gaps, folder=None), ())):
        attack = ModelMeter(replace(made, benchmark=benchmark), settings, "cpu", True).attacking_settings
        assert attack is not None
        assert {own["kinds"] for own in attack.arguments.values()} == {kinds}
