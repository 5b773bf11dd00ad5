"""From attacked runs to the report's section on membership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from medunlearn.attacks import ATTACKS, attack_class
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.registry import names
from medunlearn.reports.content import Membership
from medunlearn.results.evaluated import Evaluated


def attacks_of(
    models: Sequence[Evaluated], attacked: Sequence[Attacked | None], replicates: int, seed: int
) -> Attacks | None:
    """The attacks on models of a report, under the models' labels; None where there is none."""
    known = [replace(one, run=model.run) for model, one in zip(models, attacked, strict=True) if one is not None]
    return Attacks(tuple(known), replicates, seed) if known else None


def gather_membership(attacks: Attacks | None) -> Membership:
    """Tables and curves of membership attacks; empty without any."""
    if attacks is None:
        return Membership()
    table = attacks.table()
    curves = [one.curves.assign(model=one.run.label) for one in attacks.models if len(one.curves)]
    known = names("attacks", ATTACKS)
    return Membership(
        table=table,
        comparisons=attacks.comparisons,
        curves=pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(),
        titles={name: attack_class(name).title for name in table["attack"].unique() if name in known},
    )


def attacked_as(model: Evaluated) -> Attacked | None:
    """The attack on the split and benchmark that a model was evaluated on."""
    found = Attacked.find(model.run, model.record.info["config"]["split"])
    if found is None or found.record.info["inputs"]["benchmark"] != model.record.info["inputs"]["benchmark"]:
        return None
    return found
