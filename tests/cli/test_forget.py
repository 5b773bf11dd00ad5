"""`forget` on the command line: what it prints, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_models import save_adapter
from row_files import write_csv

from medunlearn.data.records import RECORD
from medunlearn.data.storage import read_frame
from medunlearn.request.case.officer_page import TITLES
from medunlearn.synthetic.note_table import write_note_table

Medunlearn = Callable[..., Any]
SMALL = (
    *("--others=3", "--facts=2", "--budget=1", "--build.clozes=1", "--build.prefixes=16", "--seed=1"),
    *("--unlearn.epochs=1", "--unlearn.precision=fp32", "--evaluate.max_new_tokens=2"),
    "--evaluate.alternatives=9",
)
PATIENT = "100003"


@pytest.fixture(scope="module")
def hospital(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes.csv, unseen.csv, model/ and owner/signing.key; tests read it and never change it."""
    here = tmp_path_factory.mktemp("hospital")
    notes = write_note_table(here / "notes.csv", 6, studies=0)
    write_note_table(here / "unseen.csv", 4, seed=1, studies=0)
    medunlearn("build", "notes", notes, "--out", here / "bench", "--quiet")
    small = ("--tiny-width=32", "--tiny-layers=2", "--epochs=2", "--precision=fp32", "--train-on=records")
    medunlearn("train", here / "bench", "--model=tiny", *small, "--out", here / "run", "--quiet")
    medunlearn("export", here / "run", "--out", here / "model", "--quiet")
    medunlearn("case", "key", "--out", here / "owner" / "signing.key", "--quiet")
    return here


@pytest.fixture
def here(hospital: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with links to what the hospital has."""
    for name in ("notes.csv", "unseen.csv", "model", "owner"):
        (tmp_path / name).symlink_to(hospital / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request(
    *words: object, model: object = "model", notes: object = "notes.csv", out: str = "case/"
) -> list[object]:
    return ["forget", model, notes, "--patient", PATIENT, "--key=owner/signing.key", "--out", out, *words]


def ids(notes: Path) -> set[str]:
    """All patients of a table."""
    with notes.open(newline="", encoding="utf-8") as file:
        return {row["patient_id"] for row in csv.DictReader(file)}


def test_a_request_and_the_next(medunlearn: Medunlearn, here: Path) -> None:
    words = "--holdout=unseen.csv", "--anyway", "--battery=none", *SMALL
    result = medunlearn(*request(*words))
    assert "try 1: counterfactual" in result.text
    output = " ".join(result.stdout.split())
    assert any(title in output for title in TITLES.values())
    assert "case/case.html: the page for the privacy officer" in output
    assert "case-model: the model that came out" in output
    assert "case-work: holds notes" in output
    assert "model: still knows the patient" in output
    # Given again, it is done: the same case, as data.
    facts = json.loads(medunlearn(*request(*words, "--json")).stdout)
    assert (facts["method"], len(facts["trials"])) == ("counterfactual", 1)
    assert facts["decision"]["verdict"] in TITLES
    assert facts == {**facts, **json.loads((here / "case" / "evidence.json").read_text())}
    assert PATIENT not in json.dumps(facts["request"])
    untested = {part["name"] for part in facts["battery"]["untested"]}
    assert {"membership", "relearning", "relearning own", "quantization", "sampling"} <= untested
    assert facts["notes"]["patients"] == 6  # the four whom the model never saw are none of its notes
    assert " ok" in medunlearn("verify", "case-model", "case", "--public-key=owner/signing.key.pub").stdout
    # The ledger went with the model: the request is open, so it goes on from there.
    assert facts["decision"]["verdict"] not in ("deleted", "no residual found")
    again = json.loads(medunlearn(*request(*words, "--json", model="case-model", out="again")).stdout)
    assert again["ledger"]["rows"] == 1
    assert again["request"]["patients"] == facts["request"]["patients"]
    assert again["notes"]["earlier_records"] == 0


def test_the_plan_is_what_happens(medunlearn: Medunlearn, here: Path) -> None:
    words = request("--holdout=unseen.csv", "--anyway", "--battery=quantization", *SMALL, "--budget=2")
    there = {*here.rglob("*")}
    plan = json.loads(medunlearn(*words, "--plan", "--json").stdout)
    assert {*here.rglob("*")} == there
    stages = {stage["name"]: stage for stage in plan["stages"]}
    assert {stage["state"] for stage in stages.values()} == {"to do"}
    *tries, other = (name for name in stages if name.startswith("try "))
    assert other.startswith("try 6: npo")
    assert tries == [f"try {n}: counterfactual, about {60 * n} steps, whole values" for n in (1, 2)]
    assert plan["models"] == 4
    assert [part["name"] for part in stages[tries[1]]["parts"]] == ["unlearn try 2", "ask try 2"]
    assert plan["least_flops"] == pytest.approx(plan["left"]["flops"] - stages[tries[1]]["work"]["flops"])
    assert plan["patients"]["whom no model saw"] == 3
    medunlearn(*words[:-1], "--budget=1", "--quiet")
    run = json.loads((here / "case-work" / "trials" / "01-counterfactual" / "run.json").read_text())
    assert stages[tries[0]]["work"]["steps"] == run["results"]["steps"]
    tables = [read_frame(table) for table in (here / "case-work" / "before").glob("evaluations/*/scores.parquet")]
    question_counts = {table.loc[table["kind"] != RECORD, "item"].nunique() for table in tables}
    # Only the adopted model tells whether plain questions are asked in a second template.
    assert {*plan["questions"].values()} <= question_counts
    assert len(question_counts) <= len(plan["questions"]) + 1
    output = " ".join(medunlearn(*words, "--plan", "--all").stdout.split())
    assert "Everything is done." in output
    assert "to do" not in output
    assert "Models that are measured: at most 4" in output
    assert "FLOPs that are left: 0 to 0." in output
    shutil.rmtree(here / "case")
    half = json.loads(medunlearn(*words, "--plan", "--json").stdout)
    states = {stage["name"]: stage["state"] for stage in half["stages"]}
    assert {states[name] for name in ("adopt the model", "measure the model before", tries[0])} == {"done"}
    parts = {part["name"]: part["state"] for stage in half["stages"] for part in stage["parts"]}
    finished = ("ask the model before", "quantization of the model before", "unlearn try 1", "ask try 1")
    assert {parts[name] for name in finished} == {"done"}
    assert {states[name] for name in (tries[1], "export the model", "write the case")} == {"to do"}
    assert half["left"]["flops"] < plan["left"]["flops"]


def test_a_plan_refuses_what_a_request_refuses(medunlearn: Medunlearn, here: Path) -> None:
    assert "'999'" in medunlearn(*request("--patient=999", "--plan"), code=2).text
    assert "nowhere/at/all" in medunlearn(*request("--plan", model="nowhere/at/all"), code=2).text
    for words in (("--retrained=owner",), ("--retrained=owner", "--plan")):
        assert "Model owner cannot be read" in medunlearn(*request(*words), code=2).text
        assert not (here / "case-work").exists()
    assert "There is no flag --dry-run" in medunlearn(*request("--dry-run"), code=2).text


def test_columns_are_settings_of_the_build(medunlearn: Medunlearn, here: Path) -> None:
    odd = write_csv(here / "odd.csv", [{"Pat-Nr": PATIENT, "Befund": "A note of one sentence."}])
    problems = medunlearn(*request("--plan", notes=odd), code=2).text
    assert "--build.patient-column: name the column" in problems
    assert "--build.text-column: name the column" in problems
    problems = medunlearn(*request("--patient-column=Pat-Nr", notes=odd), code=2).text
    assert "There is no flag --patient-column. Did you mean --build.patient-column?" in problems
    words = "--build.patient-colum=Pat-Nr", "--unlearn.lrr=1", "--evaluate.batch-siz=2"
    problems = medunlearn(*request(*words, notes=odd), code=2).text
    for name in ("build.patient_column", "unlearn.lr", "evaluate.batch_size"):
        assert f"Did you mean {name}?" in problems
    assert "build.clozes=-3" in medunlearn(*request("--build.clozes=-3", "--plan"), code=2).text
    with odd.open("a") as file:
        file.write(f"{PATIENT},half a \0 character\n")
    columns = "--build.patient-column=Pat-Nr", "--build.text-column=Befund"
    assert "--build.skip-bad-rows" in medunlearn(*request(*columns, "--plan", notes=odd), code=2).text


def test_nothing_to_forget(medunlearn: Medunlearn, here: Path) -> None:
    result = medunlearn(*request("--holdout=unseen.csv", "--battery=none", *SMALL))
    assert "nothing to forget: no way of asking finds the patient in the model; nothing is trained" in result.text
    assert json.loads((here / "case" / "evidence.json").read_text())["method"] == "none"
    assert not (here / "case-work" / "trials").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--patient=",), ("patient is empty",)),
        (("--key=",), ("key is empty", "medunlearn case key")),
        (("--key=nobody/signing.key",), ("There is no nobody/signing.key", "medunlearn case key")),
        (("--patients=1",), ("There is no flag --patients", "--patient")),
        (("--received=02.03.2026",), ("received='02.03.2026'", "2026-01-31")),
        (("--received=2999-01-01",), ("still to come",)),
        (("--holdout=notes.csv",), ("--holdout: notes.csv has no note of a patient whom the model never saw",)),
        (("--method=npoo",), ("There is no method 'npoo'", "npo")),
        (("--method=npo", "--unlearn.npo.beta=-1"), ("npo.beta",)),
        (("--margin=0",), ("margin=0",)),
        (("--budget=0", "--others=2"), ("budget=0", "others=2")),
        (("--battery=relearnin",), ("'relearnin'", "'relearning'")),
        (("--battery=",), ("battery is empty", "none: no attack")),
        (("--method=exact",), ("model is not a run of `medunlearn train`", "Leave --method out")),
        (("--method=exact", "--plan"), ("model is not a run of `medunlearn train`",)),
        (("--build.holdout=x.csv",), ("build.holdout: `forget` sets it itself",)),
        (("--unlearn.method=npo",), ("unlearn.method: `forget` sets it itself",)),
        (("--received=yesterday",), ("received",)),
        (("--holdout=nowhere.csv",), ("nowhere.csv",)),
        (("--prompt=Write the note of {surname}.",), ("surname",)),
        (("--template=nothing",), ("template",)),
        (("--build.levels=ward",), ("levels",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) and str(value[0]).startswith("--") else "",
)
def test_wrong_words(medunlearn: Medunlearn, here: Path, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    result = medunlearn(*request(*words), code=2)
    assert all(part in result.text for part in parts), result.text
    assert not result.stdout
    assert not (here / "case").exists()
    assert "measured" not in result.text


def test_what_must_be_given(medunlearn: Medunlearn, here: Path) -> None:
    result = medunlearn("forget", "model", code=2).text
    assert all(f"{name} is missing" in result for name in ("NOTES", "--out", "patient", "key"))


def test_a_patient_who_is_not_there(medunlearn: Medunlearn, here: Path, hospital: Path) -> None:
    for patient in ("100013", "1000", "100003,999", "007", "1_000", "1e5", "yes", "2026-03-01", "Ünal 7"):
        result = medunlearn(*request("--patient", patient, "--holdout=unseen.csv"), code=2).text
        others = (ids(hospital / "notes.csv") | ids(hospital / "unseen.csv")) - set(patient.split(","))
        assert patient.rpartition(",")[2] in result
        assert not [name for name in others if name in result]
    result = medunlearn(*request("--patient=200001", "--holdout=unseen.csv"), code=2).text
    assert "No model is trained on" in result


def test_ids_that_may_be_hers_are_asked_about(medunlearn: Medunlearn, here: Path) -> None:
    """Her note under ``0100003``, from another export: its text would be retained without a word."""
    with open("notes.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    hers = next(row for row in rows if row["patient_id"] == PATIENT)
    write_csv(
        here / "two.csv", [*rows, {**hers, "patient_id": f"0{PATIENT}", "note": f"{hers['note']} Seen again."}]
    )
    for words in ((), ("--plan",)):
        result = medunlearn(*request(*words, notes="two.csv"), code=2).text
        assert all(
            part in result for part in (f"- 0{PATIENT}: ", f"--patient {PATIENT},0{PATIENT}", "--same-person")
        )
    assert not (here / "case").exists()
    for said in (f"{PATIENT},0{PATIENT}", PATIENT):
        medunlearn(*request("--same-person", said, "--plan", notes="two.csv"))


def test_notes_that_cannot_be_used(medunlearn: Medunlearn, here: Path) -> None:
    with open("notes.csv", newline="", encoding="utf-8") as file:
        rows = [{"note": row["note"], "ward": row["institution"]} for row in csv.DictReader(file)]
    write_csv(here / "nameless.csv", rows)
    result = medunlearn(*request(notes="nameless.csv"), code=2).text
    assert "--build.patient-column" in result
    assert "note" in result
    assert "notes.txt" in medunlearn(*request(notes="notes.txt"), code=2).text
    alone = [{"patient_id": PATIENT, "note": row["note"]} for row in rows]
    assert (
        "a benchmark needs at least two"
        in medunlearn(*request(notes=write_csv(here / "one.csv", alone)), code=2).text
    )


def test_a_folder_that_is_no_model(medunlearn: Medunlearn, here: Path, hospital: Path) -> None:
    shutil.copytree(hospital / "model", here / "two")
    save_adapter(hospital / "model", here / "two-adapter")
    for file in (here / "two-adapter").iterdir():
        shutil.copy(file, here / "two")
    (here / "empty").mkdir()
    for model, part in (
        ("two", "two"),
        ("empty", "empty"),
        ("notes.csv", "notes.csv"),
        ("nowhere/at/all", "nowhere/at/all"),
        ("owner", "owner"),
    ):
        result = medunlearn(*request(model=model), code=2)
        assert part in result.text, result.text
        assert not (here / "case").exists()


def test_a_folder_that_is_no_case(medunlearn: Medunlearn, here: Path) -> None:
    (here / "case").mkdir()
    (here / "case" / "letter.txt").write_text("x")
    assert "contains no case. Choose another --out" in medunlearn(*request(), code=2).text
    assert (here / "case" / "letter.txt").read_text() == "x"


def test_help_shows_how_to_begin(medunlearn: Medunlearn) -> None:
    result = medunlearn("forget", "--help").stdout
    assert "medunlearn forget hospital/model notes.csv --patient 4711 --key owner/signing.key --out case/" in result
    assert "(docs/forget.md)" in result
    before, _, others = result.partition("Most used")
    assert "MODEL" in before
    assert others.index("--patient") < others.index("--budget")


def test_the_demo(medunlearn: Medunlearn, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"others": 3, "facts": 2, "battery": ("quantization",), "method": "npo", "unlearn": {"epochs": 1}}
    small["evaluate"] = {"max_new_tokens": 2}
    tiny = {"model": "tiny", "template": "chat", "tiny_width": 32, "tiny_layers": 2, "precision": "fp32"}
    monkeypatch.setattr("medunlearn.request.forget_demo.REQUEST_SIZE", small)
    monkeypatch.setattr("medunlearn.request.forget_demo.TRAINING", tiny)
    words = ("demo", "forget", "--out=demo", "--synthetic=6", "--epochs=1")
    result = medunlearn(*words)
    assert [f"{step}/3" in result.text for step in (1, 2, 3)] == [True] * 3
    assert "demo/case/case.html: the page for the privacy officer" in " ".join(result.stdout.split())
    assert (here / "demo" / "case" / "case.html").exists()
    assert json.loads((here / "demo" / "case" / "evidence.json").read_text())["method"] in ("none", "npo")
    assert "at least 6" in medunlearn("demo", "forget", "--synthetic=5", code=2).text
