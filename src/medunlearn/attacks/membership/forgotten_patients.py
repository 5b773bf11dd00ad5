"""Was this patient unlearned? Features of documents for a classifier between forgotten and other patients.

An unlearned model should treat a forgotten patient like one it never saw. A classifier that tells the two apart,
each patient scored by a classifier that was fitted without him, shows who was deleted, even if nothing about him
can be extracted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from medunlearn.attacks.membership.likelihood_attacks import mean_of_lowest
from medunlearn.attacks.whitebox.layer_pass import LayerPass
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import TokenMoments
from medunlearn.models.sequences import TokenSequence

Floats = npt.NDArray[np.float64]
LOWEST = 0.2


def loss_features(moments: TokenMoments) -> Floats:
    """Of one document, [5]: mean log-probability, that of the lowest fifth, its spread, and the model's mean
    entropy and spread.
    """
    log_probs = moments.log_probs.astype(np.float64)
    return np.array(
        [
            log_probs.mean(),
            mean_of_lowest(log_probs, LOWEST),
            log_probs.std(),
            -float(moments.means.mean()),
            float(np.sqrt(moments.variances).mean()),
        ]
    )


@torch.no_grad()
def mean_states(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[Floats]:
    """Mean output of each layer over a sequence's tokens, [L * W] a sequence; one batch."""
    layers = LayerPass.of(language_model, sequences)
    stacked = torch.stack([layers.read(layer) for layer in range(len(layers.states))]).double().cpu()
    counts = [sequence.scored for sequence in sequences]
    return [part.mean(dim=1).flatten().numpy() for part in torch.split(stacked, counts, dim=1)]
