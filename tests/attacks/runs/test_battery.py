"""The battery on models that did nothing, forgot everything, refuse and are damaged: only the difference counts."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from medunlearn.attacks import attack_class, attack_sets, expand, known_attacks
from medunlearn.attacks.attack_run import attack
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import FAILED, NOT_APPLICABLE, Attacks
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.attacks.recovery.image_changes_attack import NO_IMAGES
from medunlearn.attacks.recovery.recovery_results import DAMAGED, NO_POWER, NOT_TOLD_APART, STILL_THERE
from medunlearn.attacks.workbench import Workbench
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, NotApplicableError
from medunlearn.models.load import load_model
from medunlearn.models.tiny import build_tiny
from medunlearn.reports.battery import COLUMNS, NAME
from medunlearn.reports.write import write_report
from medunlearn.request.verifying_attacks import verifying_attacks
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes

FEW: dict[str, Any] = {
    "replicates": 50,
    "relearning.steps": 2,
    "relearning.alternatives": 9,
    "quantization.alternatives": 9,
    "collateral.alternatives": 9,
    "extraction_strength.alternatives": 9,
    "sampling.samples": 2,
    "prompt_transforms.rules": ("few_shot", "json"),
    "prompt_transforms.alternatives": 9,
}
UNREAD = ["checkpoint_difference", "hidden_distance"]
"""What the old checkpoint adds, and where states moved: not whether something came back."""


def changed(run: Run, folder: Path, label: str, change: Any) -> Run:
    """A copy of a run with other weights."""
    shutil.copytree(run.folder / "model", folder / label / "model")
    model = load_model(run.model, device="cpu")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for tensor in model.model.parameters():
            change(tensor)
    shutil.rmtree(folder / label / "model")
    model.save(folder / label / "model")
    results = {**run.info.results, "fingerprint": f"{label}-weights"}
    replace(run.info, label=label, key=label, model_files=None, results=results).write(folder / label)
    return Run.open(folder / label)


@pytest.fixture(scope="module")
def attacked(knowing: dict[str, Run], pulses: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Attacks:
    settings = attack_settings({"split": "gone", "attacks": "quick", "allow_broken": True, **FEW})
    folder = tmp_path_factory.mktemp("battery")
    damaged = changed(knowing["nothing"], folder, "damaged", lambda t: t.add_(3 * t.std() * torch.randn_like(t)))
    others = [knowing["perfect"], damaged, knowing["target"], knowing["retrained"]]
    return attack(knowing["nothing"], pulses, settings, against=others, device="cpu", quiet=True)


@pytest.fixture(scope="module")
def battery(attacked: Attacks) -> BroughtBack:
    return BroughtBack.of(attacked)


def rows(battery: BroughtBack, label: str) -> pd.DataFrame:
    table = battery.table
    assert tuple(table.columns) == COLUMNS
    own = table[(table["model"] == label) & (table["side"] == "forget")].set_index("attack")
    return own[own["value"].notna()]


def test_controls(attacked: Attacks, battery: BroughtBack) -> None:
    nothing = rows(battery, attacked.models[0].run.label)
    assert {"relearning.retain", "quantization", "sampling", "prompt_transforms", "extraction_strength"} <= set(
        nothing.index
    )
    told = nothing.loc[["quantization", "extraction_strength"]]
    assert (told["value"] > 0.8).all()
    assert (told["difference_low"] > 0).all()
    assert set(told["reading"]) == {STILL_THERE}
    target = rows(battery, "target")
    assert target["difference"].tolist() == pytest.approx(nothing["difference"].tolist())
    perfect = rows(battery, "perfect")
    assert perfect["difference"].tolist() == pytest.approx([0.0] * len(perfect))
    assert (perfect["difference_low"] <= 0).all()
    assert (perfect["difference_high"] >= 0).all()
    assert set(perfect["reading"].drop(UNREAD)) <= {NOT_TOLD_APART, NO_POWER}
    # A model whose answers about everybody are gone is not read as one that forgot.
    damaged = rows(battery, "damaged")
    assert set(damaged["reading"].drop(UNREAD)) <= {DAMAGED, NO_POWER}
    assert (damaged["reading"] == DAMAGED).sum() >= 7
    assert damaged.loc[UNREAD, "reading"].isna().all()


def test_the_page_in_every_format(attacked: Attacks, battery: BroughtBack, tmp_path: Path) -> None:
    write_report(battery.page(attacked, "pulses"), tmp_path)
    data = json.loads((tmp_path / "report.json").read_text())[NAME]
    assert len(data["table"]) == len(battery.table)
    text = (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    for attack_name in ("relearning", "quantization", "sampling", "prompt_transforms", "extraction_strength"):
        assert attack_class(attack_name).title in text
        assert attack_class(attack_name).title in page
    # The documents are too short to be continued: the cell says so, and the others have their numbers.
    (failed,) = {row["reason"] for row in data["table"] if row["attack"] == "verbatim"}
    assert failed in text
    # No images: the cell says so, and nothing failed by it.
    assert {row["reason"] for row in data["table"] if row["attack"] == "image_changes"} == {NO_IMAGES}
    assert NO_IMAGES in text
    assert "image_changes" not in {name for _, name, _ in attacked.failed}
    # No retrained model: every attack says what its number means then, and nothing is read as come back.
    alone = BroughtBack.of(replace(attacked, models=attacked.models[:1]))
    assert alone.table["difference"].isna().all()
    assert not {*alone.table["reading"].dropna()} & {STILL_THERE, NOT_TOLD_APART, NO_POWER}
    write_report(alone.page(attacked, "pulses"), tmp_path)
    assert attack_class("sampling").alone in (tmp_path / "report.md").read_text()


def test_a_state_without_answers_is_said_on_the_page(attacked: Attacks, battery: BroughtBack) -> None:
    first, *others = attacked.models
    facts = {**first.record.info.results["quantization"], "problems": {"quantization int4": ["one answer to all"]}}
    info = replace(first.record.info, results={**first.record.info.results, "quantization": facts})
    silent = replace(first, record=Run(first.record.folder, info))
    page = BroughtBack.of(replace(attacked, models=(silent, *others[-1:])))
    assert "quantization int4" in page.left_out[0]
    assert {*page.left_out} <= {*page.part().data["left_out"]}
    states = [own.table.set_index(["attack", "model"])["states"] for own in (battery, page)]
    place = ("quantization", first.run.label)
    assert place not in states[1] or states[1][place] < states[0][place]


def test_collateral_has_calibration(attacked: Attacks) -> None:
    table = attacked.of("collateral").table()
    briers = table[(table["measure"] == "brier") & (table["kind"] == "all")].groupby("model")["value"].mean()
    # Brier: sure of the true answers before, of none after.
    assert briers["target"] < 0.05
    assert briers["damaged"] > 0.5


def test_a_battery_that_was_cut_off_goes_on_with_the_next_attack(
    attacked: Attacks, knowing: dict[str, Run], pulses: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = attacked.models[0].record.folder / "run.json"
    facts = json.loads(record.read_text())
    done = facts["results"].pop("quantization")
    record.write_text(json.dumps({**facts, "status": "running", "digest": None}))

    def refuse(self: Any, model: Any) -> Any:
        raise AssertionError("it was done")

    for name in ("relearning", "sampling", "prompt_transforms", "extraction_strength", "collateral"):
        monkeypatch.setattr(attack_class(name), "results", refuse)
    settings = attack_settings({"split": "gone", "attacks": "quick", "allow_broken": True, **FEW})
    others = [model.run for model in attacked.models[1:]]
    again = attack(knowing["nothing"], pulses, settings, against=others, device="cpu", quiet=True)
    results = again.models[0].record.info.results
    assert FAILED not in results
    # No notes, no non-members, no images.
    assert set(results[NOT_APPLICABLE]) == {"verbatim", "membership", "forgotten_patients", "image_changes"}
    assert results["quantization"]["strengths"] == done["strengths"]


def test_an_attack_named_by_itself_that_measured_nothing_is_an_error(
    knowing: dict[str, Run], pulses: Benchmark
) -> None:
    settings = attack_settings({"split": "gone", "attacks": "verbatim", "allow_broken": True})
    with pytest.raises(NotApplicableError):
        attack(knowing["nothing"], pulses, settings, device="cpu", quiet=True)


def test_sets_and_their_settings() -> None:
    sets = attack_sets()
    assert set(sets["quick"]) <= set(sets["battery"])
    settings = attack_settings({"split": "gone", "attacks": "quick", "sampling.samples": 4})
    quick = attack_class("sampling").sets["quick"]
    assert settings.arguments["sampling"] == {**quick, "samples": 4}
    assert expand(["quick"]) == tuple(name for name in known_attacks() if name in sets["quick"])
    assert {*verifying_attacks(["battery"])} == {
        name for name in sets["battery"] if known_attacks()[name].family.verifies
    }
    assert "collateral" not in verifying_attacks(["battery"])


def test_a_second_model_has_to_be_there_with_the_same_tokenizer(
    knowing: dict[str, Run], pulses: Benchmark, tmp_path: Path
) -> None:
    settings = attack_settings({"split": "gone", "attacks": "quick"})

    def bench(others: dict[str, Run]) -> Workbench:
        return Workbench(knowing["nothing"], pulses, settings, "cpu", True, None, Processes(), others)

    with pytest.raises(InputError, match="--against"):
        bench({}).second("retrained")
    both = bench({"retrained": knowing["retrained"]})
    second = both.second("retrained")
    assert second is both.second("retrained") is not both.model
    assert bench({"target": knowing["nothing"]}).second("target").source == both.model.source
    other = tmp_path / "other"
    build_tiny(["another text of other letters: xyz"], vocabulary=280, width=32, layers=2).save(other / "model")
    results = {**knowing["retrained"].info.results, "fingerprint": "other"}
    replace(knowing["retrained"].info, results=results, model_files=None).write(other)
    with pytest.raises(InputError, match="tokenizer"):
        bench({"retrained": Run.open(other)}).second("retrained")
