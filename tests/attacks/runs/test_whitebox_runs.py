"""White-box attacks on a model that did nothing, one that forgot all, target and retrained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from medunlearn.attacks import attack_class
from medunlearn.attacks.attack_run import attack, attack_each, attack_folder
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.attacks.recovery.recovery_results import READINGS, STILL_THERE
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.splits import request
from medunlearn.models.load import load_model
from medunlearn.models.tiny import build_tiny
from medunlearn.request.standings import Standings
from medunlearn.results.runs import Run

HEADLINES = {
    "logit_lens": "lens_probability",
    "patching": "knowledge_kept",
    "linear_probe": "probe_accuracy",
    "hidden_distance": "nearness_to_target",
    "checkpoint_difference": "em",
}
WHITE_BOX = ",".join(HEADLINES)


def settings(attacks: str = WHITE_BOX, **more: Any) -> Any:
    return attack_settings({"split": "gone", "attacks": attacks, "replicates": 50, **more})


@pytest.fixture(scope="module")
def attacked(knowing: dict[str, Run], pulses: Benchmark) -> Attacks:
    others = [knowing[name] for name in ("perfect", "target", "retrained")]
    return attack(knowing["nothing"], pulses, settings(), against=others, device="cpu", quiet=True)


def means(attacked: Attacks, family: str, measure: str, strength: str | None = None) -> dict[str, float]:
    """Label of a model -> its mean over the forget set; of the last strength by default."""
    table = attacked.of(family).table()
    own = table[(table["measure"] == measure) & (table["side"] == "forget") & (table["kind"] == "all")]
    own = own[own["strength"] == (strength or own["strength"].iloc[-1])]
    return {str(row["model"]): float(row["value"]) for row in own.to_dict("records")}


def test_nothing_is_erased_by_doing_nothing_and_all_by_never_learning(attacked: Attacks) -> None:
    """Depth: 0 of the target itself and of the model that did nothing; 1 of both models that never saw them."""
    kept = means(attacked, "patching", "knowledge_kept")
    nothing = attacked.models[0].run.label
    assert (kept[nothing], kept["target"]) == (pytest.approx(1.0, abs=1e-4), pytest.approx(1.0, abs=1e-4))
    assert (kept["perfect"], kept["retrained"]) == (pytest.approx(0.0, abs=1e-4), pytest.approx(0.0, abs=1e-4))
    assert means(attacked, "patching", "lens_kept") == pytest.approx(kept, abs=1e-3)
    left = means(attacked, "patching", "left_of_target")
    assert left[nothing] == pytest.approx(1.0, abs=1e-4)
    assert left["retrained"] < 0.5


def test_a_deletion_is_verified_by_patching_beside_a_retrained_model(attacked: Attacks) -> None:
    of_patients = dict[str, list[float]]()
    for model in attacked.of("patching").models:
        own = Standings()
        own.add_attack("patching", model)
        assert own.attacks["patching"] == ("patching",)
        of_patients[model.run.label] = [*own.values["patching"].values()]
    assert of_patients[attacked.models[0].run.label] == pytest.approx([1.0] * 10, abs=1e-3)
    assert of_patients["perfect"] == pytest.approx([0.0] * 10, abs=1e-3)


def test_the_lens_tells_the_models_apart(attacked: Attacks) -> None:
    """At the output the target says the values; no layer of the retrained model does."""
    said = means(attacked, "logit_lens", "lens_probability", "output")
    assert said["target"] > 0.9
    assert said["retrained"] < 0.5
    hidden = means(attacked, "logit_lens", "lens_probability", "layer 1")
    assert hidden["target"] < said["target"]


def test_the_page_reads_them(attacked: Attacks) -> None:
    table = BroughtBack.of(attacked).table
    rows = {(row["attack"], row["model"]): row for row in table.to_dict("records")}
    nothing = attacked.models[0].run.label
    for name, measure in HEADLINES.items():
        assert rows[name, nothing]["measure"] == measure
        assert rows[name, "perfect"]["difference"] == pytest.approx(0.0, abs=1e-4), name
        if name in ("logit_lens", "patching", "hidden_distance"):
            assert rows[name, nothing]["difference_low"] > 0, name
    assert set(table["attack"]) == {*HEADLINES}


def test_distance_and_both_checkpoints(attacked: Attacks) -> None:
    """States of the target are its own; with the older model at hand the retrained one gives all away."""
    nearness = means(attacked, "hidden_distance", "nearness_to_target")
    nothing = attacked.models[0].run.label
    assert (nearness[nothing], nearness["target"]) == (1.0, 1.0)
    assert (nearness["perfect"], nearness["retrained"]) == (0.0, 0.0)
    both = means(attacked, "checkpoint_difference", "answer_probability", "w = 2")
    alone = means(attacked, "checkpoint_difference", "answer_probability", "old model alone")
    assert both["retrained"] > alone["retrained"] == pytest.approx(alone["target"])
    assert not attacked.of("checkpoint_difference").table()["reading"].notna().any()


def test_without_a_retrained_model_there_is_no_scale(knowing: dict[str, Run], pulses: Benchmark) -> None:
    alone = attack(
        knowing["perfect"], pulses, settings("patching"), against=[knowing["target"]], device="cpu", quiet=True
    )
    own = alone.of("patching")
    scores: pd.DataFrame = own.models[0].scores
    kept = scores[scores["measure"] == "knowledge_kept"]
    assert kept["value"].isna().all()
    assert kept["reason"].str.contains("retrained").all()
    standings = Standings()
    standings.add_attack("patching", own.models[0])
    assert not standings.ways
    assert "retrained" in standings.missing["patching"]
    (row, *_) = BroughtBack.of(alone).table.to_dict("records")
    assert row["measure"] == "left_of_target"
    assert row["value"] < 0.5


def test_without_the_target_the_cell_says_why(knowing: dict[str, Run], pulses: Benchmark) -> None:
    names = "logit_lens,patching,hidden_distance,checkpoint_difference"
    both = attack(
        knowing["perfect"], pulses, settings(names), against=[knowing["retrained"]], device="cpu", quiet=True
    )
    rows = BroughtBack.of(both).table
    reasons = rows[rows["reason"].notna()]
    assert set(reasons["attack"]) == {"patching", "hidden_distance", "checkpoint_difference"}
    assert reasons["reason"].str.contains("target").all()
    assert set(rows[rows["value"].notna()]["attack"]) == {"logit_lens"}


def test_what_ends_one_attack_leaves_the_others(
    knowing: dict[str, Run], pulses: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(error: Exception) -> Any:
        def results(self: Any, model: Any) -> Any:
            raise error

        return results

    memory, package = torch.OutOfMemoryError("CUDA out of memory"), ModuleNotFoundError("No module named 'x'")
    for name, error in (("logit_lens", memory), ("patching", package)):
        monkeypatch.setattr(attack_class(name), "results", ending(error))
    names, target = settings("logit_lens,patching,hidden_distance", replicates=52), [knowing["target"]]
    attacks = attack(knowing["perfect"], pulses, names, against=target, device="cpu", quiet=True)
    rows = BroughtBack.of(attacks).table.to_dict("records")
    cells = {row["attack"]: row for row in rows if row["model"] == "perfect"}
    assert "memory" in cells["logit_lens"]["reason"]
    assert "package" in cells["patching"]["reason"]
    assert cells["hidden_distance"]["value"] > 0
    assert len(attacks.failed) == 4


def another_model(run: Run, folder: Path, label: str, model: Any) -> Run:
    """A copy of a run with another model."""
    model.save(folder / label / "model")
    results = {**run.info.results, "fingerprint": f"{label}-weights"}
    replace(run.info, label=label, key=label, model_files=None, results=results).write(folder / label)
    return Run.open(folder / label)


def test_a_second_model_need_not_be_attacked(knowing: dict[str, Run], pulses: Benchmark) -> None:
    target, beside, how = knowing["target"], [knowing["retrained"]], settings("patching", replicates=51)
    attacks = attack_each([target], pulses, how, others=beside, device="cpu", quiet=True)
    (model,) = attacks.of("patching").models
    assert means(attacks, "patching", "knowledge_kept") == {"target": pytest.approx(1.0, abs=1e-4)}
    assert attack_folder(target, pulses, how, beside) == model.record.folder
    assert attack_folder(target, pulses, how) != model.record.folder
    # A model that is adopted anew has the target's role, and is not its own target.
    perfect = knowing["perfect"]
    adopted = Run(perfect.folder, replace(perfect.info, verb="adopt"))
    assert adopted.role == "target"
    attacks = attack_each([adopted], pulses, how, others=[target, *beside], device="cpu", quiet=True)
    assert means(attacks, "patching", "knowledge_kept") == {"perfect": pytest.approx(0.0, abs=1e-4)}


def test_a_model_of_another_tokenizer_and_one_of_random_weights(
    knowing: dict[str, Run], pulses: Benchmark, tmp_path: Path
) -> None:
    text = build_tiny([record.text.upper() for record in pulses.records], vocabulary=290, width=32, layers=2)
    other = another_model(knowing["nothing"], tmp_path, "other", text)
    random = load_model(knowing["nothing"].model, device="cpu")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for tensor in random.model.parameters():
            tensor.normal_(0, 0.02)
    drawn = another_model(knowing["nothing"], tmp_path, "drawn", random)
    names = settings("logit_lens,patching", allow_broken=True)
    both = [drawn, knowing["target"], knowing["retrained"]]
    table = BroughtBack.of(attack(other, pulses, names, against=both, device="cpu", quiet=True)).table
    cells = {(row["attack"], row["model"]): row for row in table.to_dict("records")}
    # Two models are compared token by token: the cell says why they cannot be, and the rest goes on.
    assert "tokenizer" in cells["patching", "other"]["reason"]
    assert cells["patching", "drawn"]["value"] < 0.5
    assert {cells[name, "drawn"]["reading"] for name in ("patching", "logit_lens")} <= {*READINGS, None} - {
        STILL_THERE
    }
    assert cells["logit_lens", "drawn"]["value"] < 0.2


def test_patients_whom_a_trained_model_shows_are_told_apart(documents: list[Record], tmp_path: Path) -> None:
    """Ten forgotten, ten retained and twenty unseen patients; a model that still knows the first twenty."""
    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    records = tuple(
        Record(own.record_id, own.text, {"patient": own.record_id}, fold="train" if place < 20 else "holdout")
        for place, own in enumerate(documents)
    )
    parts = ("documents", "own", ("patient",), "patient", records, ())
    gone = request(Benchmark(*parts, {}).hierarchy, "gone", "patient", [f"d{number}" for number in range(10)])
    benchmark = Benchmark(*parts, {"gone": gone}, notes={"invented": True})
    how = {"model": "tiny", "tiny_width": 48, "tiny_layers": 2, "precision": "fp32", "train_on": "records"}
    how |= {"epochs": 80, "batch_size": 20, "micro_batch_size": 20, "lr": 5e-3, "pretrain_epochs": 0}
    target = train(benchmark, train_settings(how), tmp_path / "target", quiet=True)
    attacks = attack(target, benchmark, settings("forgotten_patients"), device="cpu", quiet=True)
    rows = {row["attack"]: row for row in BroughtBack.of(attacks).table.to_dict("records")}
    assert {*rows} == {"forgotten_patients.unseen", "forgotten_patients.retained"}
    assert rows["forgotten_patients.unseen"]["value"] > 0.8
    assert abs(rows["forgotten_patients.retained"]["value"] - 0.5) < 0.35
