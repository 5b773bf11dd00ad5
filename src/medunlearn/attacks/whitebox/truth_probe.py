"""A linear probe on hidden states: whether a model's states tell a true answer from a false one.

The probe sees, layer by layer, the state at the last token of a question with its true answer and with a false one.
It is fitted on patients whom the attacker knows to be retained and tried on the forgotten ones, so that nothing
about these is needed. What it finds there the states still hold, whatever the model says.

The control: the same probe fitted on labels that were swapped at random in half of the pairs. Its accuracy beyond
chance is what the probe makes of nothing; the *selectivity* is the accuracy minus the control's.

Source: Alain & Bengio 2017 (arXiv 1610.01644) for linear probes; Hewitt & Liang 2019 (arXiv 1909.03368), Section 2,
for controls and selectivity; Patil et al. 2024 (arXiv 2309.17410) for states of deleted facts.

Notation: L layers, n pairs, W width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from medunlearn.attacks.whitebox.layer_pass import LayerPass
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import generator
from medunlearn.statistics.linear_classifier import LinearClassifier

Floats = npt.NDArray[np.float64]
CONTROLS = 8
"""Random labelings."""


@torch.no_grad()
def last_states(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[Floats]:
    """Output of each layer at the last token before the EOS, [L, W] a sequence; one batch."""
    layers = LayerPass.of(language_model, sequences, "answer")
    stacked = torch.stack([layers.read(layer) for layer in range(len(layers.states))]).double().cpu()
    counts = [sequence.scored for sequence in sequences]
    return [part[:, max(0, part.shape[1] - 2)].numpy() for part in torch.split(stacked, counts, dim=1)]


def probe_pairs(known: tuple[Floats, Floats], tried: tuple[Floats, Floats], seed: int = 0) -> tuple[Floats, Floats]:
    """Success of the probe and of its control on each pair.

    Args:
        known: states of true and of false answers to fit on, [n, W] each.
        tried: states of true and of false answers to try on, [m, W] each.

    Returns:
        1 where the true answer scores higher, 0.5 for a tie, 0 else, [m]: of the probe, and the mean over controls.
    """
    own = _successes(known, tried)
    draw = generator("probe control", seed)
    half, controls = len(known[0]) // 2, []
    for _ in range(CONTROLS):
        # Of an odd number one pair is left out: more right than wrong labels would teach the truth.
        order = draw.permutation(len(known[0]))[: 2 * half]
        swapped = (np.arange(2 * half) < half)[:, None]
        true, false = (np.where(swapped, a[order], b[order]) for a, b in ((known[1], known[0]), known))
        controls.append(_successes((true, false), tried))
    return own, np.mean(controls, axis=0)


def _successes(known: tuple[Floats, Floats], tried: tuple[Floats, Floats]) -> Floats:
    labels = [True] * len(known[0]) + [False] * len(known[1])
    classifier = LinearClassifier.fit(np.concatenate(known), labels)
    leads = classifier.scores(tried[0]) - classifier.scores(tried[1])
    return np.asarray((np.sign(leads) + 1) / 2)


def pair_states(true: Sequence[Floats], false: Sequence[Floats]) -> tuple[Floats, Floats]:
    """States of true and of false answers, n of [L, W] each -> [n, L, W] each."""
    return np.stack(true), np.stack(false)
