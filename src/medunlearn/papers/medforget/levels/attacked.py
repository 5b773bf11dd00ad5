"""What the reconstruction attack found of a sweep's models, looked for beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from medunlearn.attacks.attacked import FOLDER
from medunlearn.papers.medforget.levels.cells import Attacks
from medunlearn.results.evaluated import Evaluated

SCORES = "reconstruction_scores.parquet"
"""As :mod:`medunlearn.attacks.reconstruction` says; ``context`` is the coarsest level that is named."""


def attacks_of(models: Sequence[Evaluated]) -> Attacks:
    """Scores under the attack by run folder and split; nothing of a model that was not attacked."""
    found: dict[tuple[Path, str], pd.DataFrame] = {}
    for model in models:
        split = str(model.record.info["config"]["split"])
        for record in model.run.complete_below(FOLDER):
            if record.info["config"]["split"] == split and (record.folder / SCORES).exists():
                # The last one is what was asked for last.
                found[model.run.folder, split] = _rows(pd.read_parquet(record.folder / SCORES))
    return found


def _rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Questions of the forget set as they were trained, with the names that stood before them."""
    kept = scores[(scores["side"] == "forget") & (scores["fold"] == "train")]
    return kept.rename(columns={"identifiers": "named", "context": "identifiers"})[
        ["question_id", "identifiers", "metric", "value"]
    ]
