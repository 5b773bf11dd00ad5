"""Counterfactual unlearning with one part left out at a time, and what relearning brings back.

python benchmarks_perf/ablation.py OUT [--read]

OUT is the folder of hospitals.py, whose target and retrained model of one hospital are taken; they are trained
where they are missing. Each variant forgets the same ten patients with the settings of the tiny model's preset.
Writes the table of docs/results.md and prints it. About ten minutes of CPU where both models are there; a
second call goes on. --read makes the table of what is there.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
from hospitals import settings_of
from page_tables import markdown, replace_table, with_interval
from suppressed import first_with_interval

from medunlearn.attacks.attack_run import attack_each
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.config import AttackSettings, EvaluateSettings, check
from medunlearn.methods.counterfactual import Counterfactual
from medunlearn.methods.protocol import Terms, View
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.runs import Run
from medunlearn.study.benchmark_builds import from_section
from medunlearn.study.experiment import benchmark_folder, plan, run_folder
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

SPLIT, SEED = "random_10", 0
FACTS, RELEARNED = "facts.parquet", "relearned.parquet"
ABLATED = "ablation"
"""Begins the names of the variants' runs."""


@dataclass(frozen=True)
class WithoutCaps(Counterfactual):
    """Lowers the true tokens without a floor."""

    title: ClassVar[str] = "Counterfactual without caps"

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        lowered = self.gamma * forget.mean_over_tokens(forget.token_log_probs())
        return {**super().loss_with(forget, retain, alternatives), "forget": lowered}


@dataclass(frozen=True)
class CapsAlone(Counterfactual):
    """Lowers the true tokens down to their caps and teaches nothing instead."""

    title: ClassVar[str] = "Counterfactual without alternatives"

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        terms = super().loss_with(forget, retain, alternatives)
        return {**terms, "alternatives": 0.0 * terms["alternatives"]}


VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "counterfactual": ("counterfactual", {}),
    "no floor": ("ablation:WithoutCaps", {}),
    "gamma 0: nothing is lowered": ("counterfactual", {"gamma": 0.0}),
    "caps alone, no alternatives": ("ablation:CapsAlone", {}),
    "alpha 0: no divergence": ("counterfactual", {"alpha": 0.0}),
    "4 alternatives": ("counterfactual", {"alternatives": 4}),
    "1 alternative": ("counterfactual", {"alternatives": 1}),
}
"""Row of the table -> method and its hyperparameters."""


def run(out: Path, *, changes: Mapping[str, Any] | None = None, epochs: int | None = None, steps: int = 20) -> None:
    """Unlearn, evaluate and attack every variant, the target and the retrained model; two tables a model.

    Args:
        changes: settings of the experiment in place of those of hospitals.py, by section.
        epochs: of each unlearning run; None: the preset's.
        steps: of relearning.
    """
    experiment = plan(settings_of(out, SPLIT, SEED, {}) | dict(changes or {}))
    benchmark = from_section(experiment.settings.benchmark, benchmark_folder(experiment.settings))
    assert experiment.retrained is not None
    models: dict[str, Run] = {}
    for name, training in (("target", experiment.target), ("retrained", experiment.retrained)):
        folder = run_folder(benchmark, training, name, training.model, experiment.settings.out)
        models[name] = train(benchmark, training, folder)
    for name, (method, arguments) in VARIANTS.items():
        values = {"method": "counterfactual", "split": SPLIT, "seed": SEED, "arguments": dict(arguments)}
        settings = unlearn_settings(values | ({} if epochs is None else {"epochs": epochs}), tiny=True)
        # By its own name it would not get the preset of the method that it varies.
        settings = settings.model_copy(update={"method": method})
        kind = name if name == "counterfactual" else ABLATED
        folder = run_folder(benchmark, settings, kind, models["target"].folder, experiment.settings.out)
        models[name] = unlearn(models["target"], benchmark, settings, folder)
    asked = check(EvaluateSettings, {**experiment.settings.evaluate, "split": SPLIT, "seed": SEED})
    attack = relearning(steps)
    for name, model in models.items():
        place = out / "ablation" / str([*models].index(name))
        place.mkdir(parents=True, exist_ok=True)
        evaluate_one(model, benchmark, asked).facts.to_parquet(place / FACTS)
        attacks = attack_each([model], benchmark, attack)
        (summary,) = attacks.models[0].record.folder.glob("relearning_summary.parquet")
        pd.read_parquet(summary).to_parquet(place / RELEARNED)


def relearning(steps: int) -> AttackSettings:
    """On retained patients, and on half of the forgotten ones; ten patients a side are asked about."""
    values = {"split": SPLIT, "attacks": ["relearning"], "seed": SEED, "allow_broken": True}
    own = {"relearning.steps": steps, "relearning.subjects": 10, "relearning.alternatives": 49}
    return attack_settings(values | own)


def row(out: Path, name: str, place: int) -> dict[str, str]:
    """Share of facts ranked first, before and after relearning."""
    folder = out / "ablation" / str(place)
    facts, relearned = pd.read_parquet(folder / FACTS).assign(seed=SEED), pd.read_parquet(folder / RELEARNED)
    return {
        "model": name,
        "forget": first_with_interval(facts, "forget"),
        "retain": first_with_interval(facts, "retain"),
        "relearned on retained patients": after(relearned, "relearning.retain"),
        "relearned on half of the forgotten": after(relearned, "relearning.forget_half"),
    }


def after(relearned: pd.DataFrame, attack: Literal["relearning.retain", "relearning.forget_half"]) -> str:
    """The share of forgotten facts ranked first after the last step of an attack, with its interval."""
    rows = relearned[relearned["attack"].eq(attack) & relearned["side"].eq("forget") & relearned["kind"].eq("all")]
    rows = rows[rows["measure"] == "ranked_first"]
    if rows.empty:
        return "–"
    last = rows.assign(steps=rows["strength"].astype(int)).sort_values("steps").iloc[-1]
    return with_interval(last["value"], last["low"], last["high"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    if not chosen.read:
        run(chosen.out)
    table = markdown(
        [row(chosen.out, name, place) for place, name in enumerate(("target", "retrained", *VARIANTS))]
    )
    replace_table("results.md", "ablation", table)
    print(table)


if __name__ == "__main__":
    main()
