"""What the reconstruction attack found of a sweep's models, looked for beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from medunlearn.attacks.attacked import FOLDER
from medunlearn.attacks.reconstruction.attacked import Reconstructed
from medunlearn.papers.medforget.levels.cells import Attacks
from medunlearn.results.evaluated import Evaluated


def attacks_of(models: Sequence[Evaluated]) -> Attacks:
    """Scores under the attack by run folder and split; nothing of a model that was not attacked."""
    found: dict[tuple[Path, str], pd.DataFrame] = {}
    for model in models:
        split = str(model.record.info["config"]["split"])
        for record in model.run.complete_below(FOLDER):
            if record.info.split == split and "reconstruction" in record.info.results:
                # The last one is what was asked for last.
                found[model.run.folder, split] = _rows(Reconstructed(model.run, record).scores)
    return found


def _rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Questions of the forget set as they were trained, with the names that stood before them."""
    kept = scores[(scores["side"] == "forget") & (scores["fold"] == "train")]
    names = {"item": "question_id", "given": "identifiers", "measure": "metric"}
    return kept[[*names, "value"]].rename(columns=names)
