"""A request that is carried out by training again: the case says deleted, and the exported model is that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.config import ForgetSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.request.forget_plan import PartedStage, foresee
from medunlearn.results.runs import Run
from medunlearn.results.verify import Verification

EXACT_STAGES = ("make the model without the patients", "make it a second time, to compare")


@pytest.fixture(scope="module")
def settings(folder: Path, bench: Benchmark) -> dict[str, Any]:
    key = folder / "owner" / "signing.key"
    mu.case_key(out=key)
    patient = bench.records[0].groups["patient"]
    quick = {"others": 3, "facts": 2, "evaluate": {"max_new_tokens": 4, "alternatives": 9}}
    return {"patient": patient, "key": key, "method": "exact", **quick}


def test_the_case_says_deleted_as_planned(folder: Path, full: Run, settings: dict[str, Any]) -> None:
    checked = check(ForgetSettings, {**settings, "utility_tasks": "mmlu"})
    cost = foresee(full.folder, folder / "bench", checked, folder / "planned", device="cpu").cost
    stages = {part.name: part for stage in cost.stages if isinstance(stage, PartedStage) for part in stage.parts}
    general = [stage for name, stage in stages.items() if name.startswith("general tasks")]
    assert [stage.note for stage in general] == ["general tasks: cost not estimated"] * 2
    result = mu.forget(full, folder / "bench", out=folder / "case", battery=[], anyway=True, quiet=True, **settings)
    steps = Run.open(result.model).info.results["steps"]
    assert [stages[name].cost.steps for name in EXACT_STAGES] == [steps, steps]
    evidence = result.case.evidence
    assert (evidence.decision.verdict, evidence.method) == ("deleted", "exact")
    assert evidence.exact is not None
    assert evidence.exact.road == "retrained without her"
    assert evidence.exact.reproduced == evidence.model_out.fingerprint != evidence.model_in.fingerprint
    checks = mu.verify([result.model, folder / "case"], work=result.work, quiet=True)
    assert isinstance(checks, Verification)
    assert not checks.wrong
    notes = {check.note for check in checks.checks if check.what == "battery"}
    assert notes == {"deleted now, deleted in the case"}


def test_what_was_not_trained_by_us_is_refused_before_anything_is_measured(
    folder: Path, full: Run, settings: dict[str, Any], tmp_path: Path
) -> None:
    exported = mu.export(full.folder, tmp_path / "exported")
    lora = {"model": str(exported), "trainable": "lora", "epochs": 1}
    adapter = mu.train(folder / "bench", out=tmp_path / "adapter", quiet=True, **lora)
    for model, problem in ((exported, "not a run of `medunlearn train`"), (adapter, "--base-unseen")):
        with pytest.raises(InputError, match=problem):
            mu.forget(model, folder / "bench", out=tmp_path / "case", quiet=True, **settings)
        assert not (tmp_path / "case-work" / "before").exists()
        assert not (tmp_path / "case").exists()
