"""Trust in measures of forgetting: the table of ``benchmarks_perf/trust.py``, as data. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from medunlearn.data.storage import read_json

TABLE = "measure_trust.json"


@cache
def trust_table() -> Mapping[str, Mapping[str, Any]]:
    """Name of a measure -> its row, the most trusted first.

    ``auc``, ``low``, ``high``: how often a tiny model that knows the forgotten patients scores above one that does
    not, whatever was trained on top to hide them, with a 95% interval over trainings; 1 = always, 0.5 = the measure
    tells nothing, below 0.5 = it misleads. ``auc_int4``, ``auc_relearned``: the same with weights rounded to int4,
    and after an epoch of relearning the patients. ``stability_int4``, ``stability_relearning``: 0-1, 1 = the value
    does not change, or changes as the retrained model's. ``seconds``: CPU seconds a model. ``models``: number of
    models.
    """
    rows = read_json(Path(__file__).with_name(TABLE))
    return {str(row["measure"]): row for row in rows}


def trust(attack: str, measure: str) -> float | None:
    """The area of a measure of an attack; None if it was not tried.

    Args:
        attack: membership attacks share a measure, and have a row each.
    """
    table = trust_table()
    row = table.get(f"{attack}.{measure}", table.get(measure))
    return None if row is None else float(row["auc"])
