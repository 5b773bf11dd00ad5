"""Merges of task vectors by hand, and a run that merges others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from trained_target import target

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.methods import make_method
from medunlearn.models.load import load_model
from medunlearn.results.runs import Run
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.unlearn import unlearn

__all__ = ["target"]


def test_ties_by_hand() -> None:
    """Half of each vector is kept: (3, -2, ., .) and (., 4, 1, .). All sums are positive; what agrees is
    averaged.
    """
    method = make_method("merge", {"density": 0.5})
    first, second = torch.tensor([3.0, -2.0, 0.1, 0.1]), torch.tensor([-0.5, 4.0, 1.0, 0.2])
    vectors = [{"w": first}, {"w": second}]
    floors = [method.floor(vector) for vector in vectors]
    assert floors == [2.0, 1.0]
    merged = method.merged([(first, floors[0]), (second, floors[1])])
    assert merged.tolist() == [3.0, 4.0, 1.0, 0.0]
    both = make_method("merge", {"variant": "sum"})
    assert both.merged([(first, both.floor(v)) for v in vectors[:1]] + [(second, 0.0)]).tolist() == pytest.approx(
        [2.5, 2.0, 1.1, 0.3]
    )
    agree = torch.tensor([2.0, -1.0])
    assert make_method("merge", {}).merged([(agree, 0.0), (3 * agree, 0.0)]).tolist() == [4.0, -2.0]


def test_a_task_vector_is_taken_off(target: Run, hospital: Benchmark, tmp_path: Path) -> None:
    def run(method: str, out: str, **values: Any) -> Run:
        fixed = {"method": method, "split": "random_10", "precision": "fp32"}
        return unlearn(
            target, hospital, unlearn_settings({**fixed, **values}, tiny=True), tmp_path / out, quiet=True
        )

    memorized = run("memorize", "m", epochs=1)
    merged = run(
        "merge", "x", **{"merge.models": str(memorized.folder), "merge.variant": "sum", "merge.scale": -1.0}
    )
    models = [
        dict(load_model(one.model, device="cpu").model.named_parameters()) for one in (target, memorized, merged)
    ]
    for name, start in models[0].items():
        moved, ours = (model[name] - start for model in models[1:])
        assert torch.allclose(ours, -moved, atol=1e-6)
    assert merged.info.inputs["merged 0"]
    # Learning the forget set lowers its loss, and taking that off raises it.
    losses = [one.info.results["forget_loss"] for one in (memorized, merged)]
    assert losses[0]["after"] < losses[0]["before"] < losses[1]["after"]
    with pytest.raises(ConfigError, match=r"merge\.models"):
        run("merge", "none")
    with pytest.raises(InputError, match="was not made from"):
        run("merge", "self", **{"merge.models": str(target.folder)})
