"""`forget --plan`: the stages of the graph that runs, their states, and their prices."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forgetting_world import QUICK, Hospital, request_copy
from forking import killed_after

import medunlearn as mu
from medunlearn.config import ForgetSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.lineage import LINEAGE
from medunlearn.models import packaged
from medunlearn.models.folders import base_place
from medunlearn.probes import evaluate
from medunlearn.request import forget_request
from medunlearn.request.forget_plan import ForgetPlan, foresee
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.request_pricing import IF_IN_DOUBT
from medunlearn.request.trial_search import ForgetCandidate
from medunlearn.request.verifying_attacks import with_battery
from medunlearn.results.runs import Run
from medunlearn.study.plans.forecast import PlannedStage
from medunlearn.study.stages import Inputs, LocalStage

TRIES = (ForgetCandidate("npo", 1), ForgetCandidate("npo", 1, rate=2.0), ForgetCandidate("simnpo", 1))


def plan_of(hospital: Hospital, out: Path, **settings: Any) -> ForgetPlan:
    """The plan of the first patient's request, with quick settings."""
    values = {"holdout": hospital.unseen, "patient": hospital.patients[0], "key": hospital.key, **QUICK, **settings}
    checked = with_battery(check(ForgetSettings, values))
    return foresee(hospital.model, hospital.notes, checked, out, device="cpu")


def states(plan: ForgetPlan) -> Mapping[str, str]:
    return {stage.name: stage.state for stage in plan.cost.stages}


@pytest.fixture
def stages_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the stages that were run, in order."""
    names, run = list[str](), LocalStage.run

    def noted(stage: LocalStage[Any], inputs: Inputs) -> Any:
        names.append(stage.name)
        return run(stage, inputs)

    monkeypatch.setattr(LocalStage, "run", noted)
    return names


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "auto", "budget": 1, "anyway": True, "retrained": True},
    ],
    ids=["method", "auto beside a retrained model"],
)
def test_a_plan_names_the_stages_that_run(
    hospital: Hospital,
    stranger: Path,
    tmp_path: Path,
    stages_run: list[str],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
) -> None:
    monkeypatch.setattr(forget_request, "AUTO", TRIES)
    values = settings | ({"retrained": stranger} if "retrained" in settings else {})
    values |= {"unlearn": {"epochs": 1, "precision": "fp32"}}
    values |= {"evaluate": {"max_new_tokens": 2, "alternatives": 9}}
    before = plan_of(hospital, tmp_path / "case", **values)
    assert (stages_run, [*tmp_path.iterdir()]) == ([], [])
    hospital.forget(tmp_path / "case", hospital.patients[0], **values)
    assert [*states(before)] == stages_run
    assert {*states(before).values()} == {"to do"}
    after = plan_of(hospital, tmp_path / "case", **values)
    assert states(after) == dict.fromkeys(stages_run, "done")
    assert after.cost.total.flops == after.least_flops == 0.0


def test_an_exact_plan_names_the_stages_that_run(
    hospital: Hospital, folder: Path, bench: Benchmark, full: Run, tmp_path: Path, stages_run: list[str]
) -> None:
    quick = {"method": "exact", "battery": (), "anyway": True, "others": 3, "facts": 2}
    values = {"patient": bench.records[0].groups["patient"], "key": hospital.key, **quick}
    values["evaluate"] = {"max_new_tokens": 4, "alternatives": 9}
    out = tmp_path / "case"
    before = foresee(full.folder, folder / "bench", check(ForgetSettings, values), out, device="cpu")
    mu.forget(full.folder, folder / "bench", out=out, quiet=True, **values)
    assert [*states(before)] == stages_run
    (made,) = (stage for stage in before.cost.stages if stage.name == "make the model without the patients")
    assert made.cost.flops > 0.0


def test_a_packaged_model_is_planned_by_its_name(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").touch()
    (tmp_path / "some_package" / "weights.gguf").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(
        packaged.PACKAGED, "some", packaged.PackagedModel("some_package", "p==1", "weights.gguf", "M")
    )
    monkeypatch.setattr(packaged, "folder_of_gguf", lambda file, where: hospital.model)
    named, own = (
        plan_of(replace(hospital, model=model), tmp_path / "case", retrained=model)
        for model in (Path("some"), hospital.model)
    )
    parts = ("left", "stages", "questions", "patients")
    assert [named.facts()[part] for part in parts] == [own.facts()[part] for part in parts]
    request = hospital.request(tmp_path / "case", hospital.patients[0], Path("some"))
    benchmarks = request.read_notes()
    target = request.adopt_target(benchmarks)
    assert base_place(target.model).resolve() == hospital.model.resolve()
    assert request.model_in(target).is_dir()


def test_a_candidate_is_planned_if_it_can_be_reached(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_request, "AUTO", TRIES)
    plan = plan_of(hospital, tmp_path / "case", method="auto", budget=1, unlearn={})
    tries = {stage.name: stage for stage in plan.cost.stages if stage.name.startswith("try ")}
    # The second of a method is never run with this budget; the other method only if the first is passed over.
    first, other = tries.values()
    assert [*tries] == [f"try {place + 1}: {TRIES[place].words}" for place in (0, 2)]
    assert first.cost.flops > other.cost.flops == 0.0
    assert plan.least_flops == plan.cost.total.flops


def test_a_half_finished_request_is_done_as_far_as_it_stands(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path
) -> None:
    out, patient = tmp_path / "case", hospital.patients[0]
    whole = plan_of(hospital, out)
    assert killed_after(evaluate, "evaluate_one", 2, lambda: hospital.forget(out, patient)) == -signal.SIGKILL
    half = plan_of(hospital, out)
    done = [name for name, state in states(half).items() if state == "done"]
    assert done == [*states(whole)][: len(done)]
    # The kill came as the model after was evaluated.
    assert done[-4].startswith("try 1: ")
    assert done[-3:] == ["choose", "measure the model after", "compare"]
    assert half.cost.total.flops == 0.0 < whole.cost.total.flops
    assert half.cost.summary().startswith(f"Left: {len(whole.cost.stages) - len(done)} of {len(whole.cost.stages)}")
    # So it is for a request that has lost its case.
    case, model, work = request_copy(forgotten, tmp_path / "copy")
    shutil.rmtree(case)
    assert states(plan_of(hospital, case)) == states(half)
    assert model.exists()
    assert work.exists()


def test_a_stage_is_the_sum_of_its_parts(hospital: Hospital, tmp_path: Path) -> None:
    plan = plan_of(hospital, tmp_path / "case", battery=["quantization", "sampling"], utility_tasks=["mmlu"])
    stages = {stage["name"]: stage for stage in plan.facts()["stages"]}
    after = stages["measure the model after"]
    assert [part["name"] for part in after["parts"]] == [
        "ask the model after",
        "quantization of the model after",
        "sampling of the model after",
        "general tasks of the model after",
    ]
    assert after["work"]["flops"] == pytest.approx(sum(part["work"]["flops"] for part in after["parts"]))
    assert "general tasks: cost not estimated" in after["note"]
    assert after["scratch"] == max(part["scratch"] for part in after["parts"])
    free = [name for name, stage in stages.items() if not stage["parts"]]
    assert {"find the patient", "choose", "compare", "write the case", "close"} <= {*free}
    rows = [*plan.rows()]
    assert all(isinstance(row, PlannedStage) for row in rows)
    assert {"  ask the model after", "measure the model after", "close"} <= {row.name for row in rows}


def test_a_possible_second_template_is_priced(hospital: Hospital, tmp_path: Path) -> None:
    """A model with a chat template may answer as well without it; which is known once it was asked."""
    model = shutil.copytree(hospital.model, tmp_path / "model")
    (model / LINEAGE).unlink()  # names the template of the training
    (model / "chat_template.jinja").write_text(
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{{ eos_token }}"
    )
    chat = replace(hospital, model=model)
    open_, fixed = (plan_of(chat, tmp_path / f"case{n}", template=how) for n, how in enumerate((None, "chat")))
    parts = {stage["name"]: stage["parts"] for stage in open_.facts()["stages"]}["measure the model after"]
    second = [part for part in parts if part["note"] == IF_IN_DOUBT]
    assert [part["name"] for part in second] == ["ask the model after in the template plain"]
    assert second[0]["work"]["flops"] > 0
    assert IF_IN_DOUBT not in str(fixed.facts())


def test_a_plan_loads_no_torch_and_reads_no_weights(hospital: Hospital, tmp_path: Path) -> None:
    model = shutil.copytree(hospital.model, tmp_path / "model")
    (weights,) = model.glob("*.safetensors")
    header = int.from_bytes(weights.read_bytes()[:8], "little")
    with weights.open("r+b") as file:
        file.truncate(8 + header)
    words = [str(word) for word in hospital.words(tmp_path / "case", hospital.patients[0], model)]
    code = (
        "import sys\nfrom medunlearn.cli.main import app\n"
        f"app({[*words, '--plan', '--json']!r}, standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'peft'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {stage["state"] for stage in json.loads(done.stdout)["stages"]} == {"to do"}
    assert {path.name for path in tmp_path.iterdir()} == {"model"}
