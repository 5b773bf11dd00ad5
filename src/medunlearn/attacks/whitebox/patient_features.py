"""Features of documents for a classifier between forgotten and other patients.

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
from medunlearn.attacks.membership.passes import document_moments, document_sequences
from medunlearn.attacks.whitebox.layer_pass import LayerPass
from medunlearn.data.records import Record
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import TokenMoments, in_batches
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.vision.pictures import Pictures
from medunlearn.statistics.linear_classifier import cross_fitted_scores

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


def told_apart(
    language_model: LanguageModel,
    records: Sequence[Record],
    subjects: Sequence[str],
    forgotten: int,
    *,
    max_length: int | None,
    batch_size: int,
    seed: int,
    pictures: Pictures | None = None,
) -> list[float]:
    """Share of the other patients' documents that score lower than each forgotten one, ties half, [forgotten].

    Args:
        records: the forgotten ones first.
        forgotten: their number.
        pictures: of a model that is shown the documents' images.
    """
    documents = document_sequences(records, language_model.tokenizer, max_length, pictures)
    losses = [loss_features(m) for m in document_moments(language_model, documents, batch_size=batch_size)]
    pieces = iter(in_batches(mean_states, language_model, [p for d in documents for p in d], batch_size))
    states = [np.mean([next(pieces) for _ in document], axis=0) for document in documents]
    features = np.hstack([np.array(losses), np.array(states)])
    flags = [place < forgotten for place in range(len(records))]
    scores = cross_fitted_scores(features, flags, subjects, seed=seed)
    own, others = scores[:forgotten, None], scores[None, forgotten:]
    return [float(value) for value in ((own > others) + (own == others) / 2).mean(axis=1)]
