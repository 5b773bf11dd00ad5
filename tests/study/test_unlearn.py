"""What unlearning sees on each side, and what it writes down."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.folders import fingerprint
from medunlearn.models.layouts import make_batch
from medunlearn.models.load import load_model
from medunlearn.probes.material import record_of
from medunlearn.results.runs import Run
from medunlearn.study import trainer as module
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import choose_parts, training_sides, unlearn
from medunlearn.training.trainable import trained
from medunlearn.training.views import ModelView, Totals


def settings(**values: Any) -> Any:
    given = {"method": "graddiff", "split": "random_10", "epochs": 1, "precision": "fp32", **values}
    return unlearn_settings(given, tiny=True)


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The keys of what each side was really given."""
    given: dict[str, set[str]] = {}
    loop = module.train_loop

    def watch(model: Any, pad: int, objective: Any, plan: Any, *rest: Any, **more: Any) -> Any:
        given.update({side: {one.key for one in sequences} for side, sequences in plan.sides.items()})
        return loop(model, pad, objective, plan, *rest, **more)

    monkeypatch.setattr(module, "train_loop", watch)
    return given


def keys(benchmark: Benchmark, split: str, side: Any) -> set[str]:
    """Records and train-fold questions of one side, told from the tables alone."""
    forget = set(benchmark.split(split).forget)
    ids = {
        record.record_id
        for record in benchmark.records
        if (record.groups["patient"] in forget) == (side == "forget")
    }
    asked = {q.question_id for q in benchmark.questions if q.record_id in ids and q.fold == "train"}
    return {f"{record_id}#0" for record_id in ids} | asked


@pytest.mark.parametrize("split", ["random_10", "cancer_05", "patient=patient-0009"])
def test_each_side_sees_its_own_train_fold(
    hospital: Benchmark, target: Run, sides: dict[str, set[str]], tmp_path: Path, split: str
) -> None:
    unlearn(target, hospital, settings(split=split), tmp_path / "r", quiet=True)
    assert sides == {side: keys(hospital, split, side) for side in ("forget", "retain")}
    assert not sides["forget"] & sides["retain"]
    unlearn(target, hospital, settings(split=split, train_on="records"), tmp_path / "records", quiet=True)
    assert sides["forget"] == {key for key in keys(hospital, split, "forget") if key.endswith("#0")}


def test_what_a_run_writes_down(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    before = fingerprint(target.model)
    run = unlearn(target, hospital, settings(method="npo", arguments={"beta": 0.2}), tmp_path / "r", quiet=True)
    info = json.loads((run.folder / "run.json").read_text())
    assert (info["label"], info["verb"], info["status"]) == ("NPO", "unlearn", "complete")
    assert info["config"]["arguments"] == {"beta": 0.2}
    assert info["inputs"] == {"benchmark": hospital.fingerprint, "model": before}
    assert info["lineage"] == ["tiny", str(target.folder)]
    assert set(info["stages"]) == {"load", "keep", "unlearn"}
    assert info["results"]["split"] == {"name": "random_10", "level": "patient", "forget": 2}
    assert info["results"]["rendering"] == target.info["results"]["rendering"]
    assert info["results"]["steps"] == len(run.history()) == 2
    assert {"loss/forget", "loss/retain"} <= set(run.history().columns)
    # What NPO asks of the reference of a whole model lay on disk; of the model as it was, the head alone was held.
    head = load_model(run.model, device="cpu").model.get_output_embeddings().weight
    assert (info["results"]["reference"], info["results"]["reference_bytes"]) == ("kept numbers", head.nbytes)
    assert info["results"]["kept_bytes"] > 0
    written = (run.folder / "run.json").read_text()
    assert not [i.value for record in hospital.records for i in record.identifiers if i.value in written]
    assert fingerprint(target.model) == before != fingerprint(run.model)
    values = {"method": "npo", "trainable": "layers:1", "train_on": "records", "keep_gb": 0.0}
    results = unlearn(target, hospital, settings(**values), tmp_path / "swapped", quiet=True).info.results
    assert (results["reference"], results["kept_bytes"]) == ("swapped tensors", 0)
    assert results["reference_bytes"] == 4 * results["trained_parameters"] > 0


@pytest.fixture(scope="module")
def retrained(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("retrained") / "run"
    return train(hospital, train_settings({**small, "without": "random_10", "epochs": 1}), folder, quiet=True)


def test_what_a_model_never_saw_is_not_unlearned(
    hospital: Benchmark, target: Run, retrained: Run, tmp_path: Path
) -> None:
    """A model that was trained without a split, of whose patients one is asked for, or another patient."""
    first, *_ = sorted(hospital.split("random_10").forget)
    for split in ("random_10", f"patient={first}"):
        with pytest.raises(InputError, match="Nothing to forget"):
            unlearn(retrained, hospital, settings(split=split), tmp_path / "never", quiet=True)
    other = next(r.groups["patient"] for r in hospital.records if r.groups["patient"] != first)
    for place, (split, more) in enumerate(((f"patient={first},{other}", {}), ("random_10", {"other_texts": True}))):
        run = unlearn(retrained, hospital, settings(split=split, **more), tmp_path / f"{place}", quiet=True)
        assert run.info.verb == "unlearn"
    # The training is found beside a copied run by its model, and no other model is taken for it.
    copies = tmp_path / "copies"
    for source, name in ((retrained, "run"), (run, "npo")):
        shutil.copytree(source.folder, copies / name)
    moved = Run(copies / "npo", replace(run.info, lineage=["/elsewhere/runs/run"]))
    assert moved.training is not None
    assert moved.training.folder == copies / "run"
    shutil.rmtree(copies / "run" / "model")
    shutil.copytree(target.model, copies / "run" / "model")
    assert moved.training is None


def with_direct(hospital: Benchmark) -> Benchmark:
    """The benchmark with a plain question about each record, that settings are chosen by."""
    asked = {question.record_id: question for question in hospital.questions if question.fold == "train"}
    plain = (replace(q, question_id=f"{name}-plain", fold="choosing") for name, q in asked.items())
    return replace(hospital, questions=(*hospital.questions, *plain), folder=None)


def test_plain_questions_are_forgotten_only_beside_what_the_target_says(
    hospital: Benchmark, target: Run, sides: dict[str, set[str]], tmp_path: Path
) -> None:
    benchmark, values = with_direct(hospital), {"method": "kl_min", "train_on": "direct", "other_texts": True}
    unlearn(target, benchmark, settings(**values), tmp_path / "r", quiet=True)
    for side in ("forget", "retain"):
        plain = {key for key in sides[side] if key.endswith("-plain")}
        assert sides[side] - plain == keys(hospital, "random_10", side)
        assert len(plain) == len({key.partition("#")[0] for key in sides[side] if key.endswith("#0")}) > 0
    for more in ({"train_on": "direct"}, {"relatives": 0.25}):
        with pytest.raises(InputError, match="kl_min"):
            unlearn(target, benchmark, settings(method="npo", **more), tmp_path / "npo", quiet=True)


def test_relatives_take_their_share_of_the_retain_set(hospital: Benchmark, target: Run) -> None:
    """A retained patient who shares an identifier with a forgotten one; without any, nothing changes."""
    split = hospital.split("random_10")
    forgotten = next(r for r in hospital.records if r.groups["patient"] in split.forget)
    kin = next(r for r in hospital.records if r.groups["patient"] not in split.forget)
    shared = replace(kin, identifiers=(*kin.identifiers, forgotten.identifiers[0]))
    records = tuple(shared if record is kin else record for record in hospital.records)
    model, how = load_model(target.model, device="cpu"), target.rendering()
    for benchmark, share in ((replace(hospital, records=records, folder=None), 0.25), (hospital, 0.0)):
        retained = [
            training_sides(benchmark, settings(method="kl_min", relatives=share_of), model, how)["retain"]
            for share_of in (0.0, 0.25)
        ]
        plain, more = ([record_of(one, benchmark) for one in side] for side in retained)
        near = {r.record_id for r in benchmark.records if r.groups["patient"] == kin.groups["patient"]}
        assert [name for name in more if name not in near] == [name for name in plain if name not in near]
        if share:
            assert share <= sum(name in near for name in more) / len(more) < share + len(near & {*plain}) / 10
        else:
            assert more == plain


def test_npo_reads_a_model_that_never_saw_the_forget_set(
    hospital: Benchmark, target: Run, retrained: Run, tmp_path: Path
) -> None:
    values = {"method": "npo", "train_on": "questions", "batch_size": 64}
    beta, other = 0.5, {"reference": str(retrained.folder)}
    runs = [
        unlearn(target, hospital, settings(**values, arguments={"beta": beta, **more}), tmp_path / name, quiet=True)
        for name, more in (("plain", {}), ("other", other))
    ]
    # The target is its own reference before the first step: log-ratio 0, so -(2 / beta) log sigmoid(0).
    first = [float(run.history()["loss/forget"].iloc[0]) for run in runs]
    assert first[0] == pytest.approx(2 / beta * math.log(2), rel=1e-5)
    # Against another: by its own likelihoods of the same answers.
    sides = [sequence_nll(hospital, run) for run in (target, retrained)]
    ratio = sides[1] - sides[0]
    expected = -(2 / beta) * torch.nn.functional.logsigmoid(-beta * ratio)
    assert first[1] == pytest.approx(float(expected.mean()), rel=1e-4)
    assert abs(first[1] - first[0]) > 1e-2
    assert [run.info["label"] for run in runs] == ["NPO", "NPO, retain-only reference"]
    results = [run.info["results"] for run in runs]
    assert [result["reference_model"] for result in results] == [None, str(retrained.folder)]
    assert results[1]["reference"] == "kept numbers"
    assert runs[1].info["inputs"]["reference"] == fingerprint(retrained.model)


def sequence_nll(hospital: Benchmark, run: Run) -> Any:
    """NLL of each forget answer, [S]."""
    live = load_model(run.model, device="cpu")
    live.model.eval()
    rendering = run.rendering(None, None, None, None)
    sequences = training_sides(hospital, settings(train_on="questions"), live, rendering)["forget"]
    batch = make_batch(live.model, sequences, live.tokenizer.pad_token_id, torch.device("cpu"))
    with torch.no_grad():
        return ModelView(live.model, batch, Totals.of(sequences), None).sequence_nll()


def test_another_reference_that_does_not_fit_is_refused(
    hospital: Benchmark, target: Run, retrained: Run, tmp_path: Path
) -> None:
    for reference, more, message in (
        ("retrained", {}, "give the run's folder"),
        (str(target.folder), {}, "without the forget set of"),
        (str(retrained.folder), {"split": "cancer_05"}, "without the forget set of"),
        (str(retrained.folder), {"keep_gb": 0.0}, "Raise --keep-gb"),
    ):
        wanted = settings(method="npo", arguments={"reference": reference}, **more)
        with pytest.raises(InputError, match=message):
            unlearn(target, hospital, wanted, tmp_path / "r", quiet=True)


def test_the_seed_of_a_run_is_its_adapter_s(tiny: Callable[[], Any]) -> None:
    starts = [
        trained(choose_parts(tiny().model, "lora:2", settings(trainable="lora:2", seed=seed))) for seed in (0, 1, 1)
    ]
    for name, tensor in starts[1].items():
        assert torch.equal(tensor, starts[2][name])
        assert torch.equal(tensor, starts[0][name]) == ("lora_B" in name), name


def test_a_lora_run_keeps_its_adapter_and_is_the_merged_model(
    hospital: Benchmark, target: Run, tmp_path: Path
) -> None:
    wanted = settings(method="npo", trainable="lora:2", lr=1e-2)
    run = unlearn(target, hospital, wanted, tmp_path / "r", quiet=True)
    assert (run.info["results"]["reference"], run.info["results"]["reference_bytes"]) == ("adapter off", 0)
    assert run.info["results"]["trained_parameters"] < run.info["results"]["parameters"] / 2
    # Merged, no adapter is left: the same names, of which the embedding and the norms did not change.
    before, after = (load_model(one.model, device="cpu").model.state_dict() for one in (target, run))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert list(before) == list(after)
    assert moved == {name for name in before if name.endswith("_proj.weight")}
    saved = run.info["results"]["saved"]
    assert (saved["form"], saved["adapted_tensors"]) == ("adapter", len(moved))
    assert 0 < saved["merge_rounding"] < 1e-3
    # Asked for, the merged weights are what is saved: the same model, in more bytes.
    whole = unlearn(target, hospital, wanted.model_copy(update={"merge_adapter": True}), tmp_path / "w", quiet=True)
    merged = load_model(whole.model, device="cpu").model.state_dict()
    assert all(torch.equal(after[name], merged[name]) for name in merged)
    assert (whole.info["results"]["saved"]["form"], whole.info["key"]) == ("delta", run.info["key"])
    assert whole.info["results"]["saved"]["bytes"] > 2 * saved["bytes"]
    assert fingerprint(run.model) != fingerprint(target.model)


def test_the_forget_loss_rises_under_gradient_ascent(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    run = unlearn(target, hospital, settings(method="ga", epochs=6, lr=1e-3), tmp_path / "r", quiet=True)
    loss = -run.history()["loss/forget"]
    assert loss.iloc[-1] > loss.iloc[0] + 0.5


@dataclass(frozen=True)
class Lossless:
    """A method of somebody's own, without a loss."""


def test_methods_and_layers_that_do_not_fit_are_refused(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    for wanted, message in (
        (settings(method="rmu", arguments={"layer": 9}), r"rmu.layer=9: the model has layers 0 to 1"),
        (settings(trainable="layers:5"), r"'layers:5': a LlamaForCausalLM with layers 0 to 1\.$"),
    ):
        with pytest.raises(ConfigError, match=message):
            unlearn(target, hospital, wanted, tmp_path / "r", quiet=True)
    with pytest.raises(ConfigError, match=r"has no loss\(forget, retain\)"):
        unlearn(target, hospital, settings(method=f"{__name__}:Lossless"), tmp_path / "s", quiet=True)
    assert not (tmp_path / "s").exists()
