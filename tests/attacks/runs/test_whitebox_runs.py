"""White-box attacks on a model that did nothing, one that forgot all, target and retrained model."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from medunlearn.attacks.attack_run import attack
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.data.benchmark import Benchmark
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
