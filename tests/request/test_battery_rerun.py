"""`verify --work`: the battery of a case again, on the model as it is now."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from broken import poison, scramble
from click.testing import CliRunner
from foreign_models import save_adapter
from forgetting_world import Hospital, request_copy
from pages import Page

from medunlearn import api
from medunlearn.cli.main import app
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.load import load_model
from medunlearn.models.quantization import round_weights
from medunlearn.request import battery_rerun
from medunlearn.request.forget_stages import Forgotten
from medunlearn.results.verify import Check, Verification


def verify(model: Path, result: Forgotten, work: Path | None = None) -> Verification:
    return api.verify([model, result.case.folder], work=work or result.work, quiet=True)


def battery(verification: Verification) -> Check:
    (check,) = [check for check in verification.checks if check.what == "battery"]
    return check


def test_the_model_of_the_case_gives_its_verdict_again(hospital: Hospital, forgotten: Forgotten) -> None:
    away = hospital.model.with_name("away")
    hospital.model.rename(away)  # The model before may be gone: its numbers are kept.
    try:
        checks = verify(forgotten.model, forgotten)
    finally:
        away.rename(hospital.model)
    assert checks.wrong == []
    verdict = forgotten.case.evidence.decision.verdict
    assert battery(checks).note == f"{verdict} now, {verdict} in the case"
    without = battery(api.verify([forgotten.model, forgotten.case.folder], quiet=True))
    assert (without.state, "--work" in without.note) == ("not checked", True)


def test_a_model_in_which_the_patient_came_back_is_found_by_the_pages_command(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"finetuned": hospital.model, "case": forgotten.case.folder, "case-work": forgotten.work}
    for name, place in places.items():
        (tmp_path / name).symlink_to(place)
    monkeypatch.chdir(tmp_path)
    (line,) = [line for line in Page.read("case.md", "Check a case").commands if "--work" in line]
    result = CliRunner().invoke(app, [*shlex.split(line)[1:], "--json"])
    assert result.exit_code == 1, result.output
    checks = json.loads(result.stdout)["checks"]
    (check,) = [check for check in checks if check["what"] == "battery"]
    verdict = forgotten.case.evidence.decision.verdict
    assert check["note"].startswith(f"residual found now, {verdict} in the case")
    assert (check["state"] == "ok") == (verdict == "residual found")
    assert "model" in {check["what"] for check in checks if check["state"] == "differs"}


def test_an_adapter_over_a_base_and_a_rounded_copy_are_measured(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path
) -> None:
    adapter = save_adapter(hospital.model, tmp_path / "adapter")
    rounded = load_model(hospital.model, device="cpu")
    round_weights(rounded.model, "int8")
    for model in (adapter, rounded.save(tmp_path / "int8")):
        checks = verify(model, forgotten)
        assert battery(checks).note.startswith("residual found now"), model
        assert "model file" in {check.what for check in checks.wrong}


def test_a_broken_model_has_no_verdict(forgotten: Forgotten, tmp_path: Path) -> None:
    for name, spoil in (("nan", poison), ("random", scramble)):
        model = tmp_path / name
        shutil.copytree(forgotten.model, model)
        spoil(model)
        note = battery(verify(model, forgotten)).note
        assert note.startswith("inconclusive now"), name
        assert "The model is broken" in note or "No check can tell" in note


def test_the_work_of_another_case_is_refused(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, model, work = request_copy(forgotten, tmp_path)
    record = read_json(work / "request.json")
    with pytest.raises(InputError, match=r"contains no request\.json"):
        verify(model, forgotten, tmp_path)
    for changed, words in (
        ({**record, "case": "0" * 64}, "the work of another case"),
        ({"received": record["received"]}, "is not complete"),
        ({**record, "settings": {**record["settings"], "margin": 0.9}}, "another margin"),
    ):
        write_json(work / "request.json", changed)
        with pytest.raises(InputError, match=words):
            verify(model, forgotten, work)
    write_json(work / "request.json", record)
    with monkeypatch.context() as newer:
        newer.setattr(battery_rerun, "VERSION", "next")
        with pytest.raises(InputError, match="this medunlearn has forget, version next"):
            verify(model, forgotten, work)
    bench = Benchmark.load(work / "bench")
    changed = replace(bench.records[0], text="Another note.")
    shutil.rmtree(work / "bench")
    replace(bench, records=(changed, *bench.records[1:]), folder=None).save(work / "bench")
    with pytest.raises(InputError, match="are no longer those of") as changed_notes:
        verify(model, forgotten, work)
    # Nor does the request go on with them.
    with pytest.raises(InputError, match="contains another benchmark") as refused:
        hospital.forget(case, hospital.patients[0])
    assert not any(name in f"{changed_notes.value} {refused.value}" for name in hospital.patients)
    for folders, words in (([case], "on a model"), ([hospital.run.folder], "none of these folders")):
        with pytest.raises(ConfigError, match=words):
            api.verify(folders, work=forgotten.work)
