"""``unlearn``: the six methods, requests on the desk, plug-ins, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.study.run_views import slow_ways

Medunlearn = Callable[..., Any]
SHORT = ("--epochs=1", "--precision=fp32")
Unlearn = Callable[..., Any]
METHODS = ("ga", "graddiff", "kl_min", "ngdiff", "npo", "rmu", "simnpo")
PLUG_IN = '''
from dataclasses import dataclass


@dataclass(frozen=True)
class Sinking:
    """Raises the forget loss, weakly."""

    weight: float = 0.5

    def loss(self, forget, retain):
        return {"sink": -self.weight * forget.nll(), "hold": retain.nll()}
'''

HUNGRY = """
import os
from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True)
class Hungry:
    calls: ClassVar[list[int]] = []

    def loss(self, forget, retain):
        self.calls.append(1)
        room = 0 if len(self.calls) > int(os.environ.get("FULL_AFTER", 10**6)) else 2
        if len(retain.sequence_nll()) > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return {"sink": -0.1 * forget.nll(), "hold": retain.nll()}
"""


def info(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return read


def weights(folder: Path) -> bytes:
    """Of the model, or of the delta that RMU leaves: it trains one layer."""
    (file,) = (folder / "model").glob("*.safetensors")
    return file.read_bytes()


@pytest.fixture
def unlearn(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path) -> Unlearn:
    """``unlearn("npo", *words)``: of the target, into ``tmp_path/run``."""

    def command(method: str, *words: object, split: str = "random_10", out: Path | None = None, **how: Any) -> Any:
        named = ("--split", split, "--method", method, "--out", out or tmp_path / "run")
        return medunlearn("unlearn", how.pop("run", target), bench, *named, *words, **how)

    return command


@pytest.mark.parametrize("method", METHODS)
def test_each_method(unlearn: Unlearn, target: Path, tmp_path: Path, method: str) -> None:
    before = weights(target)
    text, run, out = unlearn(method, *SHORT).text, info(tmp_path / "run"), tmp_path / "run"
    assert f"2 steps of {method} on random_10" in text
    assert (run["status"], run["verb"]) == ("complete", "unlearn")
    assert run["lineage"] == ["tiny", str(target)]
    assert run["results"]["split"] == {"name": "random_10", "level": "patient", "forget": 2}
    assert weights(out) != before
    delta = run["results"]["saved"]["form"] == "delta"
    assert delta == (out / "model" / "delta.json").exists() == (method == "rmu")
    assert weights(target) == before


def test_a_request_on_the_desk(medunlearn: Medunlearn, unlearn: Unlearn, bench: Path, tmp_path: Path) -> None:
    split = "patient=patient-0003, patient-0007"
    unlearn("npo", *SHORT, "--quiet", split=split)
    assert info(tmp_path / "run")["results"]["split"] == {"name": split, "level": "patient", "forget": 2}
    quick = ("--replicates=20", "--max-new-tokens=4", "--limit=1", "--allow-broken")
    result = medunlearn("evaluate", tmp_path / "run", bench, "--split", split, *quick)
    assert "forget, train fold" in result.stdout


def test_a_methods_own_settings(unlearn: Unlearn, tmp_path: Path) -> None:
    unlearn("npo", *SHORT, "--npo.beta=0.5", "--npo.lr=0.002", "--rmu.layer=0")
    config = info(tmp_path / "run")["config"]
    assert (config["arguments"], config["lr"]) == ({"beta": 0.5}, 0.002)
    result = unlearn("npo", *SHORT, "--npo.beta=0.4", "--npo.lr=0.002", code=2)
    assert "differs in arguments: {'beta': 0.5} there, {'beta': 0.4} here)" in result.text


def test_a_variant_is_recorded_with_what_follows_from_it(unlearn: Unlearn, tmp_path: Path) -> None:
    unlearn("rmu", *SHORT, "--rmu.variant=openunlearning", "--rmu.lr=0.001", "--seed=3")
    results = info(tmp_path / "run")["results"]
    # The coefficients are the tiny preset's; the direction follows the run's seed.
    method = {"name": "rmu", "variant": "openunlearning", "layer": 1, "coefficient": 20.0, "alpha": 1.0, "seed": 3}
    assert (results["method"], results["trainable"]) == (method, "through:1")


def test_given_again_it_does_nothing(unlearn: Unlearn, graddiff: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (graddiff / "model" / "model.safetensors").stat().st_mtime_ns

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("medunlearn.study.unlearn.load_model", refuse)
    unlearn("graddiff", *SHORT, out=graddiff)
    assert json.loads(unlearn("graddiff", *SHORT, "--json", out=graddiff).stdout) == info(graddiff)
    result = unlearn("graddiff", *SHORT, "--quiet", out=graddiff)
    assert (result.stdout, result.stderr) == ("", "")
    assert (graddiff / "model" / "model.safetensors").stat().st_mtime_ns == before


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"sinking_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{name}:Sinking"


def test_a_plug_in(unlearn: Unlearn, tmp_path: Path, plug_in: str) -> None:
    assert "Did you mean 'weight'?" in unlearn(plug_in, *SHORT, f"--{plug_in}.wieght=1", code=2).text
    unlearn(plug_in, *SHORT, f"--{plug_in}.weight=0.25")
    run = info(tmp_path / "run")
    assert (run["config"]["arguments"], run["status"]) == ({"weight": 0.25}, "complete")


@pytest.mark.parametrize(
    ("split", "method", "words", "parts"),
    [
        ("random_10", "npoo", (), ["no method 'npoo'", "Did you mean 'npo'?"]),
        ("randm_10", "npo", (), ["no split 'randm_10'", "Did you mean 'random_10'?"]),
        ("patient=patient-99", "npo", (), ["no patient 'patient-99'", "There is no patient 'patient-99'."]),
        ("patint=patient-0001", "npo", (), ["no level 'patint'", "Did you mean 'patient'?"]),
        ("patient=", "npo", (), ["forgets nothing", "Name at least one patient"]),
        (
            "patient=" + ",".join(f"patient-{number:04d}" for number in range(1, 21)),
            "npo",
            (),
            ["forgets every patient", "Leave out at least one patient"],
        ),
        ("random_10", "npo", ("--npo.beta=text",), ["npo.beta must be float, not 'text'"]),
        (
            "random_10",
            "npo",
            ("--npo.beta=-1", "--npo.alpha=.inf"),
            ["npo.beta must be above 0, not -1", "npo.alpha must be a finite number, not inf"],
        ),
        ("random_10", "npo", ("--batch-size=0",), ["batch_size=0: input should be greater than or equal to 1"]),
        ("random_10", "npo", ("--lr=nan",), ["lr='nan': input should be a valid number"]),
        (
            "random_10",
            "npo",
            ("--npo.btea=1", "--nppo.beta=1", "--lr=x", "--epoch=1"),
            ["4 settings are wrong", "mean 'beta'?", "mean 'npo'?", "lr='x'", "mean --epochs?"],
        ),
        ("random_10", "rmu", ("--rmu.layer=17",), ["rmu.layer=17: the model has layers 0 to 1", "Set it"]),
        ("random_10", "rmu", ("--rmu.layer=2",), ["rmu.layer=2: the model has layers 0 to 1"]),
        ("random_10", "nowhere:Method", (), ["'nowhere:Method' cannot be imported", "module:attribute"]),
        ("random_10", "os:path", (), ["must be a dataclass"]),
    ],
)
def test_wrong_input(
    unlearn: Unlearn, tmp_path: Path, split: str, method: str, words: tuple[str, ...], parts: list[str]
) -> None:
    text = unlearn(method, *words, split=split, code=2).text
    assert [part for part in parts if part not in text] == [], text
    assert not (tmp_path / "run" / "model").exists()


def test_a_target_that_was_cut_off(unlearn: Unlearn, target: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "t")
    (tmp_path / "t" / "run.json").write_text(json.dumps({**info(target), "status": "interrupted"}))
    message = "is not complete (interrupted). Run its command again"
    assert message in unlearn("npo", run=tmp_path / "t", code=2).text


def test_a_run_or_benchmark_is_not_written_over(unlearn: Unlearn, bench: Path, target: Path) -> None:
    before = weights(target)
    assert "verb: train there, unlearn here" in unlearn("npo", out=target, code=2).text
    assert "contains no run" in unlearn("npo", out=bench, code=2).text
    assert weights(target) == before


def test_a_loss_that_diverges_is_a_failure_not_bad_input(
    medunlearn: Medunlearn, unlearn: Unlearn, bench: Path, tmp_path: Path
) -> None:
    text = unlearn("ga", *SHORT, "--lr=1e30", code=1).text
    assert "at step 1" in text
    assert "Lower --lr" in text
    assert info(tmp_path / "run")["status"] == "failed"
    evaluated = medunlearn("evaluate", tmp_path / "run", bench, "--split", "random_10", code=2)
    assert "is not complete (failed)" in evaluated.text


def test_what_rounding_took_of_an_adapter_is_said(unlearn: Unlearn, tmp_path: Path) -> None:
    text = unlearn("ga", "--trainable=lora:2", "--weights=bf16", "--lr=1e-4", "--train-on=records", *SHORT).text
    share = info(tmp_path / "run")["results"]["saved"]["merge_rounding"]
    assert 0.1 < share < 1
    assert f"changed is {share:.0%} of what was learned; --weights fp32 or a larger --lr keeps it" in text


def test_a_model_that_takes_no_packing_is_said(
    unlearn: Unlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.models import layouts
    from medunlearn.models.decoder import LayoutSupport

    assert "slower than it could be" not in unlearn("npo", *SHORT, out=tmp_path / "packed").text
    monkeypatch.setattr(layouts, "_probe", lambda model: LayoutSupport("padded", head=True))
    text = unlearn("npo", *SHORT, out=tmp_path / "padded").text
    assert "slower than it could be; batches were padded" in text
    packed, padded = (info(tmp_path / name)["results"] for name in ("packed", "padded"))
    assert packed["batches"].startswith("packed: shared text once")
    assert padded["batches"].endswith("; whole layers, mlp")
    assert padded["final_loss"] == pytest.approx(packed["final_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("batches", "says"),
    [("packed: all", 0), ("packed: all; padded 1 of 3 batches: longer than the window", 1), ("padded: all", 1)],
)
def test_batches_that_were_padded_are_said(batches: str, says: int) -> None:
    assert list(slow_ways({"batches": batches})) == [f"slower than it could be; batches were {batches}"] * says


def test_memory_that_runs_out(unlearn: Unlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For good: an error that says what to change. For large passes alone: smaller ones, and the run says so."""
    (tmp_path / "hungry.py").write_text(HUNGRY)
    monkeypatch.syspath_prepend(tmp_path)
    words, out = ("hungry:Hungry", *SHORT, "--batch-size=4"), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setenv("FULL_AFTER", "5")  # two tries and the first step's two passes among them
        text = unlearn(*words, code=2).text
    assert "error: Memory runs out at step 1, with one sequence or row per side in a pass" in text
    assert "resumes from the checkpoint if more memory is free, or with --gradient-checkpointing. Or start " in text
    assert "another experiment with another --out and --optimizer adamw_8bit; or " in text
    assert "--trainable lora or --trainable layers:7" in text
    assert "micro-batch-size" not in text
    assert info(out)["status"] == "failed"
    assert [path.parent.name for path in out.glob("checkpoints/unlearn/*/state.json")] == ["step-00000001"]
    note = "memory ran out; from step 1 on passes hold 2 sequences a side instead of 8"
    assert unlearn(*words).text.count(note) == 1
    assert info(out)["results"]["micro_batch_size"] == 2
    unlearn(*words, "--micro-batch-size=2", out=tmp_path / "whole")
    assert weights(out) == weights(tmp_path / "whole")
