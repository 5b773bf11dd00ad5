"""From attacked runs to the report's section on reconstruction."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.attacks.reconstruction.attacked import Reconstructed, Reconstructions
from medunlearn.attacks.reconstruction.results import reported
from medunlearn.reports.content import Reconstruction
from medunlearn.results.evaluated import Evaluated


def gather_reconstruction(models: Sequence[Evaluated], replicates: int, seed: int) -> Reconstruction:
    """What naming brought back, of models that were asked on the evaluations' split; empty where none was."""
    found = []
    for model in models:
        one = Reconstructed.find(model.run, str(model.record.info.split))
        if one is not None and one.record.info.benchmark == model.record.info.benchmark:
            found.append(Reconstructed(model.run, one.record))
    asked = Reconstructions(tuple(found), replicates, seed)
    return Reconstruction(reported(asked.table()), reported(asked.comparisons))
