"""The table of trusted measures belongs to measures that exist, and orders the page."""

from __future__ import annotations

import pandas as pd

from medunlearn.attacks import known_attacks
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.attacks.measure_trust import trust, trust_table
from medunlearn.metrics import METRICS
from medunlearn.reports.battery import COLUMNS

HERE_ALONE = {"cka", "membership_two_sided"}
"""Measures that no attack has."""


def test_rows_are_of_measures_that_exist_and_in_order() -> None:
    own = {name for cls in known_attacks().values() for name in getattr(cls, "measures", {})}
    attacks = known_attacks()
    for name in trust_table():
        attack, _, measure = name.rpartition(".")
        assert measure in own | {*METRICS} | HERE_ALONE, name
        assert not attack or attack in attacks, name
    areas = [row["auc"] for row in trust_table().values()]
    assert areas == sorted(areas, reverse=True)
    assert all(0 <= area <= 1 for area in areas)
    assert trust("loss", "auc") == trust_table()["loss.auc"]["auc"]
    assert trust("relearning", "no such measure") is None


def test_the_page_begins_with_what_is_trusted() -> None:
    """Hidden states before what is said; an attack that was not tried comes last, and rows of one stay together."""
    rows = [
        *(("noise", "no such measure"), ("sampling", "rouge_l"), ("patching", "knowledge_kept")),
        *(("sampling", "rouge_l"), ("loss", "auc")),
    ]
    table = pd.DataFrame([{"attack": attack, "title": attack, "measure": measure} for attack, measure in rows])
    ordered = BroughtBack.ordered(table.reindex(columns=list(COLUMNS)))
    assert ordered["attack"].tolist() == ["patching", "loss", "sampling", "sampling", "noise"]
    assert BroughtBack.ordered(table.iloc[:0]).empty
