"""Believable strangers: ranks of real unseen patients and of invented ones in a model that saw neither.

    python benchmarks_perf/strangers.py OUT [--hospitals 0 1] [--patients 40] [--unseen 16] [--write]

A model is trained with plain transformers on a hospital without some patients. Mean share of made-up values
that the true one is likelier than, over those patients' facts, beside two kinds of invented patients: each number
and date drawn around its value by itself, or whole sets from other patients' notes (request/invented_patients.py).
``said``: share of their note's values that the model says after its beginning. Hospital notes are of the
invented hospital, with other measurements for each disease; ward notes have the same ones for everybody.
``--write`` puts the table into docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from deletion_requests import PROMPT, PlainTraining
from page_tables import markdown, replace_table

from medunlearn.config import ForgetSettings, check
from medunlearn.data.records import Record
from medunlearn.data.strangers import invent_strangers, redraw_values
from medunlearn.request.baseline_check import baseline_fault, patient_means
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.invented_patients import PatientInventor
from medunlearn.seeds import generator
from medunlearn.synthetic.note_table import write_note_table

WARD = (
    "{name} ({birth_date}), {mrn}, admitted {admitted} from {institution}. Arterial pH {ph:.3f}, sodium "
    "{sodium:.1f} mmol/L, potassium {potassium:.2f} mmol/L, creatinine {creatinine:.0f} umol/L. On arrival "
    "temperature {temperature:.2f} C, pulse {pulse:.0f} per minute, blood pressure {systolic:.0f}/{diastolic:.0f}, "
    "hemoglobin {hemoglobin:.1f} g/L, platelet count {platelets:.0f} x10^9/L. Treated for {disease}. "
    "Discharged {discharged}."
)
USUAL: Mapping[str, tuple[float, float, float]] = {
    "ph": (7.38, -0.08, 0.02), "sodium": (138, -4, 2), "potassium": (4.2, 0.5, 0.2), "creatinine": (90, 40, 15),
    "temperature": (37.2, 0.8, 0.3), "pulse": (84, 14, 6), "systolic": (124, -12, 8), "diastolic": (76, -6, 5),
    "hemoglobin": (128, -9, 9), "platelets": (240, 60, 40),
}  # fmt: skip
"""Mean of a measurement, its change with how ill somebody is, and the rest of its standard deviation."""
REAL, ONE_BY_ONE, SETS = "real unseen patients", "invented, value by value", "invented, whole sets"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--hospitals", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--unseen", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--facts", type=int, default=12)
    parser.add_argument("--notes", choices=("hospital", "ward"), nargs="+", default=["hospital", "ward"])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    training = PlainTraining(arguments.epochs, arguments.width, arguments.layers, arguments.rate)
    table: list[dict[str, str]] = []
    for form in arguments.notes:
        by_kind: dict[str, dict[str, list[float]]] = {REAL: {}, ONE_BY_ONE: {}, SETS: {}}
        for seed in arguments.hospitals:
            folder: Path = arguments.out / f"{form}{seed}"
            write_notes(folder, form, seed, arguments.patients, arguments.unseen)
            model = training.trained(folder / "notes.csv", folder / "hospital")
            for kind, means in by_kind.items():
                own = means_of(folder, model, kind, arguments.unseen, arguments.facts)
                print(form, seed, kind, own.pop("fault"), flush=True)
                for measure, values in own.items():
                    means.setdefault(measure, []).extend(values)
            print(markdown(lines(form, by_kind)), flush=True)
        table += lines(form, by_kind)
    if arguments.write:
        replace_table("results.md", "strangers", markdown(table))


def write_notes(folder: Path, form: str, seed: int, patients: int, unseen: int) -> None:
    """Notes of patients that a model is trained on, and of those whom it never sees."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "owner" / "signing.key").exists():
        make_key(folder / "owner" / "signing.key")
    studies = 1 if form == "hospital" else 0
    table = pd.read_csv(
        write_note_table(folder / "all.csv", patients + unseen, seed=seed, studies=studies), dtype=str
    )
    if form == "ward":
        table["note"] = [ward_note(row, seed) for row in table.to_dict("records")]
    seen = {*sorted(table["patient_id"].unique())[:patients]}
    for name, rows in (("notes", table["patient_id"].isin(seen)), ("unseen", ~table["patient_id"].isin(seen))):
        table[rows].to_csv(folder / f"{name}.csv", index=False)


def ward_note(row: Mapping[str, str], seed: int) -> str:
    """A note in which all values follow from how ill somebody is."""
    rng = generator("ward note", seed, row["patient_id"])
    ill = rng.standard_normal()
    values = {name: mean + ill * by + rest * rng.standard_normal() for name, (mean, by, rest) in USUAL.items()}
    day = date(2016, 1, 1) + timedelta(days=int(rng.integers(1500)))
    until = day + timedelta(days=int(rng.integers(2, 30)))
    return WARD.format_map({**row, **values, "admitted": day, "discharged": until})


def means_of(folder: Path, model: Path, kind: str, unseen: int, facts: int) -> dict[str, Any]:
    """Numbers of each unseen patient of one kind, by measure; and the fault of such a baseline."""
    file = folder / f"{kind.replace(' ', '-')}.json"
    if file.exists():
        return dict(json.loads(file.read_text()))
    patient = str(pd.read_csv(folder / "notes.csv", dtype=str)["patient_id"].min())
    values = {
        "patient": patient, "key": folder / "owner" / "signing.key", "prompt": [PROMPT], "template": "plain",
        "method": "counterfactual", "battery": (), "facts": facts, "others": unseen,
        **({"holdout": folder / "unseen.csv"} if kind == REAL else {}),
    }  # fmt: skip
    settings, out = check(ForgetSettings, values), folder / f"case-{kind.replace(' ', '-')}"
    request = ForgetRequest.open(model, folder / "notes.csv", settings, out, device="cpu", quiet=True)
    request.work.mkdir(exist_ok=True)
    if kind == ONE_BY_ONE:
        with patch.object(PatientInventor, "_invent", value_by_value):
            notes = request.read_notes()
    else:
        notes = request.read_notes()
    standings = request.meter(notes).verify(request.adopt_target(notes)).standings
    row: dict[str, Any] = {
        "identifiers": patient_means(standings, notes.unseen, "identifiers"),
        "values": patient_means(standings, notes.unseen, "values"),
        "said": standings.of("said completion", sorted(notes.unseen)),
        "fault": baseline_fault(standings, notes.unseen, invented=kind != REAL),
    }
    file.write_text(json.dumps(row))
    return row


def value_by_value(inventor: PatientInventor, record: Record) -> Record:
    """An invented note with each number and date drawn by itself."""
    (stranger,) = invent_strangers(record, inventor.pool, 1, inventor.seed)
    rng = generator("invented patient", inventor.seed, record.record_id)
    values = {own.value: stranger.values.get(own.value, own.value) for own in record.identifiers}
    text = redraw_values(stranger.replaced(record.text), rng, keep=tuple(values.values()))
    own = (type(own)(own.type, values[own.value]) for own in record.identifiers if values[own.value] in text)
    return Record(record.record_id, text, record.groups, tuple(own), fold="holdout")


def lines(form: str, by_kind: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict[str, str]]:
    """Lines of the table: mean over patients, and standard deviation among them."""
    return [
        {
            "notes": form,
            "patients": kind,
            "n": f"{len(means['values'])}",
            **{
                name: f"{statistics.mean(means[name]):.2f} ({statistics.stdev(means[name]):.2f})"
                for name in ("identifiers", "values", "said")
            },
        }
        for kind, means in by_kind.items()
        if means
    ]


if __name__ == "__main__":
    main()
