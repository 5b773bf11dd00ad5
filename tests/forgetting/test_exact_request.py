"""A request that is carried out by training again: the case says deleted, and the exported model is that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.config import ForgetSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.forgetting.forget_forecast import foresee
from medunlearn.forgetting.forget_run import Forgotten
from medunlearn.pipeline.verify import Verification
from medunlearn.results.runs import Run

SMALL: dict[str, Any] = {"tiny_width": 32, "tiny_layers": 1, "epochs": 1, "tiny_tokenizer": "own", "quiet": True}
EXACT_STAGES = ("make the model without the patients", "make it a second time, to compare")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("request")
    mu.build.amnesia(synthetic=20, out=folder / "bench")
    mu.train(folder / "bench", model="tiny", out=folder / "target", **SMALL)
    mu.case_key(out=folder / "owner" / "signing.key")
    return folder


def request(folder: Path, out: str, **more: Any) -> Forgotten:
    patient = Benchmark.load(folder / "bench").records[0].groups["patient"]
    values: dict[str, Any] = {
        "others": 3,
        "facts": 2,
        "battery": [],
        "method": "exact",
        "anyway": True,
        "quiet": True,
        **more,
    }
    key = folder / "owner" / "signing.key"
    done: Forgotten = mu.forget(
        folder / "target", folder / "bench", patient=patient, key=key, out=folder / out, **values
    )
    return done


def test_the_case_says_deleted(folder: Path) -> None:
    done = request(folder, "case")
    evidence = done.case.evidence
    assert evidence.decision.verdict == "deleted"
    assert evidence.method == "exact"
    assert evidence.exact is not None
    assert evidence.exact.road == "retrained without her"
    assert evidence.exact.reproduced == evidence.model_out.fingerprint != evidence.model_in.fingerprint
    checks = mu.verify([done.model, folder / "case"], work=done.work, quiet=True)
    assert isinstance(checks, Verification)
    assert not checks.wrong
    notes = {check.note for check in checks.checks if check.what == "battery"}
    assert notes == {"deleted now, deleted in the case"}


def test_what_was_not_trained_by_us_cannot_be_trained_again(folder: Path) -> None:
    mu.export(folder / "target", folder / "exported")
    patient = Benchmark.load(folder / "bench").records[0].groups["patient"]
    with pytest.raises(InputError, match="exact"):
        mu.forget(
            folder / "exported", folder / "bench", patient=patient, key=folder / "owner" / "signing.key",
            out=folder / "case2", method="exact", others=3, facts=2, battery=[], anyway=True, quiet=True,
        )  # fmt: skip
    assert not [*folder.glob("case2*")]


def test_the_plan_counts_the_training_and_an_unknown_base_is_refused_before_anything_is_measured(
    folder: Path,
) -> None:
    patient = Benchmark.load(folder / "bench").records[0].groups["patient"]
    settings = {"patient": patient, "key": folder / "owner" / "signing.key", "others": 3, "method": "exact"}
    checked = check(ForgetSettings, {**settings, "facts": 2, "utility_tasks": "mmlu"})
    cost = foresee(folder / "target", folder / "bench", checked, folder / "planned", device="cpu").cost
    stages = {stage.name: stage for stage in cost.stages}
    steps = [stages[name].work.steps for name in EXACT_STAGES]
    done = Run.open(folder / "case-model") if (folder / "case-model").exists() else None
    assert steps[0] == steps[1] == (steps[0] if done is None else done.info.results["steps"]) > 0
    general = [stage for name, stage in stages.items() if name.startswith("general tasks")]
    assert [stage.note for stage in general] == ["cost not estimated"] * 2
    over = mu.train(
        folder / "bench", model=str(mu.export(folder / "target", folder / "base")), trainable="lora", epochs=1,
        out=folder / "over", quiet=True,
    )  # fmt: skip
    with pytest.raises(InputError, match="--base-unseen"):
        mu.forget(over, folder / "bench", out=folder / "case3", quiet=True, **settings)
    assert not (folder / "case3-work" / "before").exists()
