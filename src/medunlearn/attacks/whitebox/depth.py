"""Unlearning depth: the share of what the target knows, and a model that never learned it lacks, that is gone.

The scale needs three models: the target, the retrained model and the one in question. Hidden states of one model
(the source) are put in the place of the target's at one decoder layer, at the positions that predict the answer's
values, each model reading the same prompt and reference answer. The target's own layers go on from there. The *gap*
of a source at layer l is

    gap(l) = mean over value tokens of (log p_target(token) - log p_target with the source's states at l (token)),

in nats: above 0 where the source's states lack what the target's layers would need. With ``base(l)`` the gap of the
retrained model as source and ``own(l)`` that of the model in question,

    depth = sum over l of base(l) * clip(own(l) / base(l), 0, 1)  /  sum over l of base(l),

over the layers where ``base(l)`` exceeds 0.05. 0: the states are as good as the target's, nothing is erased,
whatever the model says; 1: they give as little as those of a model that never saw it. A question without such a
layer has no depth: the retrained model knows or guesses it as well.

Source: Lee et al. 2026 (arXiv 2605.24614), Section 3, the unlearning depth score; there over annotated entity
spans, here over the values that :func:`medunlearn.data.facts.facts_of` finds. The same formula over gaps of the
logit lens (each layer's states decoded by the target's final norm and head, nothing run in between) is its
logit-lens baseline, Section 4.2.

Notation: L layers, N positions that predict a token of an answer, n those of one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from medunlearn.attacks.whitebox.layer_pass import LayerPass
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import in_batches
from medunlearn.models.sequences import TokenSequence

Floats = npt.NDArray[np.float64]
LEAST_GAP = 0.05
"""Nats per token of the retrained model's gap, above which a layer counts."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceScores:
    """One sequence's answer tokens with a source's hidden states in a host model, layer by layer.

    Attributes:
        own: log-probability of each token by the host itself, [n].
        patched: with the source's states at each layer, [L, n].
        lens: log-probability of each token decoded from each layer of the host, by the host, [L, n].
        source_lens: the same of the source's states, decoded by the host, [L, n].
    """

    own: Floats
    patched: Floats
    lens: Floats
    source_lens: Floats

    def gaps(self, places: Sequence[int]) -> Floats:
        """Mean loss of log-probability by patching each layer over some tokens, [L], in nats."""
        return np.asarray((self.own[None, :] - self.patched)[:, list(places)].mean(axis=1))

    def lens_gaps(self, places: Sequence[int]) -> Floats:
        """The same by the logit lens, [L]."""
        return np.asarray((self.lens - self.source_lens)[:, list(places)].mean(axis=1))


@torch.no_grad()
def patch_scores(
    sequences: Sequence[TokenSequence], host: LanguageModel, source: LanguageModel
) -> list[SourceScores]:
    """Scores of one batch of sequences with a source's hidden states in a host.

    The two models have the same tokenizer, number of layers and width.
    """
    ours, theirs = LayerPass.of(host, sequences), LayerPass.of(source, sequences)
    layers = range(len(ours.states))
    lens = torch.stack([ours.lens(layer)[0] for layer in layers])
    values = [theirs.read(layer).to(lens.device) for layer in layers]
    tables = {
        "own": lens[-1],
        "patched": torch.stack([ours.patched(layer, values[layer]) for layer in layers]),
        "lens": lens,
        "source_lens": torch.stack([ours.lens(layer, values[layer])[0] for layer in layers]),
    }
    columns = {name: ours.split(table.double().cpu()) for name, table in tables.items()}
    return [
        SourceScores(**{name: column[place].numpy() for name, column in columns.items()})
        for place in range(len(sequences))
    ]


def erased_share(base: Floats, own: Floats, least: float = LEAST_GAP) -> float | None:
    """Depth of one question from the gaps of the retrained model and of the model in question, [L] each.

    0-1; None if the retrained model has no gap above ``least`` at any layer.
    """
    counted = base > least
    if not counted.any():
        return None
    ratios = np.clip(own[counted] / base[counted], 0.0, 1.0)
    return float((base[counted] * ratios).sum() / base[counted].sum())


def restored_share(own: float, patched: Floats, target: float, least: float = LEAST_GAP) -> Floats | None:
    """Share of the target's advantage that its states at each layer give back to a model, [L].

    Args:
        own: mean log-probability of the values by the model.
        patched: the same with the target's states at each layer, [L].
        target: the same by the target.

    Returns:
        0: nothing comes back, so that layers above suppress or lack it; 1: the model then says what the target
        says, so that whatever was unlearned lies at or below that layer. None if the model knows the values as well
        as the target.
    """
    lead = target - own
    return None if lead <= least else np.clip((patched - own) / lead, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Patched:
    """Results of patching for one question; None, or NaN at a layer, where a number is not defined.

    Attributes:
        kept, lens_kept: 1 - depth, by patching and by the logit lens.
        left_of_target: geometric mean over value tokens and layers of the probability ratio by patching, 0-1.
        kept_at: 1 - clip(own gap / base gap, 0, 1) at each layer.
        restored_at: :func:`restored_share` at each layer.
    """

    kept: float | None
    lens_kept: float | None
    left_of_target: float
    kept_at: list[float]
    restored_at: list[float]

    @staticmethod
    def of(
        model: LanguageModel,
        target: LanguageModel,
        retrained: LanguageModel | None,
        sequences: Sequence[TokenSequence],
        places: Sequence[Sequence[int]],
        batch_size: int,
    ) -> list[Patched]:
        """Patch a model into the target and back, and the retrained model into the target for the scale.

        Args:
            places: indices of each sequence's value tokens among its scored ones.
        """

        def scores(host: LanguageModel, source: LanguageModel) -> list[SourceScores]:
            return in_batches(partial(_patch, source), host, sequences, batch_size)

        own, back = scores(target, model), scores(model, target)
        base = [None] * len(own) if retrained is None else scores(target, retrained)
        return [_patched(*parts) for parts in zip(own, back, base, places, strict=True)]


def _patch(source: LanguageModel, sequences: Sequence[TokenSequence], host: LanguageModel) -> list[SourceScores]:
    return patch_scores(sequences, host, source)


def _patched(own: SourceScores, back: SourceScores, base: SourceScores | None, places: Sequence[int]) -> Patched:
    gaps, tokens = own.gaps(places), list(places)
    undefined = [float("nan")] * len(gaps)
    shares: list[float | None] = [None, None]
    kept_at = undefined
    if base is not None:
        pairs = ((base.gaps(places), gaps), (base.lens_gaps(places), own.lens_gaps(places)))
        shares = [None if (share := erased_share(*pair)) is None else 1.0 - share for pair in pairs]
        counted = np.where(pairs[0][0] > LEAST_GAP, pairs[0][0], np.nan)
        kept_at = (1.0 - np.clip(gaps / counted, 0.0, 1.0)).tolist()
    restored = restored_share(
        float(back.own[tokens].mean()), back.patched[:, tokens].mean(axis=1), float(own.own[tokens].mean())
    )
    left = float(np.exp(-max(0.0, float(gaps.mean()))))
    return Patched(shares[0], shares[1], left, kept_at, undefined if restored is None else restored.tolist())
