"""From attacked runs to the report's section on membership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from medunlearn.attacks import ATTACKS, attack_class
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.metrics.semeval import SemevalScore
from medunlearn.papers.lume.semeval import BUILDER, score_of
from medunlearn.registry import names
from medunlearn.reports.content import Membership
from medunlearn.results.evaluated import Evaluated


def gather_membership(models: Sequence[Evaluated], replicates: int, seed: int) -> Membership:
    """What attacks on the evaluations' split found; empty where no model was attacked on it.

    Args:
        models: of the report, with distinct labels.
    """
    found = [(model, attacked_as(model)) for model in models]
    attacked = [replace(attack, run=model.run) for model, attack in found if attack is not None]
    lume = _builder(models) == BUILDER
    scores = {model.run.label: score_of(model, attack, None) for model, attack in found} if lume else {}
    semeval = {label: score.rows() for label, score in scores.items() if _says_something(score)}
    if not attacked:
        return Membership(semeval=semeval)
    attacks = Attacks(tuple(attacked), replicates, seed)
    curves = [one.curves.assign(model=one.run.label) for one in attacked if len(one.curves)]
    known = names("attacks", ATTACKS)
    return Membership(
        table=attacks.table(),
        comparisons=attacks.comparisons,
        curves=pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(),
        titles={name: attack_class(name).title for name in attacks.table()["attack"].unique() if name in known},
        semeval=semeval,
        privacy=attacks.privacy_leaks if _builder(models) == "muse" else pd.DataFrame(),
    )


def _builder(models: Sequence[Evaluated]) -> str:
    return str(models[0].record.info["results"]["benchmark"]["builder"]) if models else ""


def attacked_as(model: Evaluated) -> Attacked | None:
    """The attack on the split and benchmark that a model was evaluated on."""
    found = Attacked.find(model.run, model.record.info["config"]["split"])
    if found is None or found.record.info["inputs"]["benchmark"] != model.record.info["inputs"]["benchmark"]:
        return None
    return found


def _says_something(score: SemevalScore) -> bool:
    return score.task_aggregate is not None or score.membership_score is not None
