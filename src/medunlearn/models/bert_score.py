"""BERTScore: greedy matching of token embeddings.

Source: Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT" (arXiv 1904.09675), Section 3. Baseline
rescaling (Section 3, last paragraph) is left out: it is a monotone transformation and changes no order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel

from medunlearn.errors import ConfigError
from medunlearn.models.precision import Precision, autocast
from medunlearn.models.text_pairs import Pair, PairScorer, States, distinct_pairs

BEST_LAYERS: Mapping[str, int] = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "bert-base-multilingual-cased": 9,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "scibert_scivocab_uncased": 8,
    "scibert_scivocab_cased": 9,
    "deberta-xlarge-mnli": 40,
}
"""Layers that the authors found to agree best with people (their Appendix B and released table)."""


@dataclass(frozen=True, slots=True)
class BertScore:
    """BERTScore precision, recall and F1; each in -1 to 1 (in practice 0.3-1), higher = more alike.

    Precision is the mean over the response's tokens of the greatest cosine with a token of the reference, recall
    the reverse, F1 their harmonic mean, which papers report.
    """

    precision: float
    recall: float
    f1: float


class BertScorer(PairScorer[BertScore]):
    """BERTScore under one encoder.

    Special tokens around a text (CLS, SEP) may be matched but are not counted themselves,
    as in the ``bert-score`` package. White space around a text is stripped, as there.

    Args:
        source: folder or hub id of an encoder.
        layer: hidden layer to compare, counted from 1; None for the authors' choice (:data:`BEST_LAYERS`), or the
            last layer for other models.
        precision: precision of matrix products; fp32 gives the same digits on every machine.

    Raises:
        ModelError: it cannot be loaded.
        ConfigError: it has no such layer.
    """

    encoded_sides = slice(2)

    def __init__(
        self, source: str, *, layer: int | None = None, device: str = "auto", precision: Precision = "fp32"
    ) -> None:
        super().__init__(source, AutoModel, device, precision, 512, "Encoder")
        layers: int = self.model.config.num_hidden_layers
        self.layer = layer or min(BEST_LAYERS.get(source.rstrip("/").split("/")[-1], layers), layers)
        if not 1 <= self.layer <= layers:
            raise ConfigError([f"layer={layer}: {source} has the layers 1 to {layers}"])
        self._cut = _drop_layers_behind(self.model, self.layer)
        self._around = {self.tokenizer.cls_token_id, self.tokenizer.sep_token_id}

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str],
        *,
        idf: bool = False,
        batch_size: int = 64,
        advance: Callable[[int], None] = lambda count: None,
    ) -> list[BertScore | None]:
        """A score per pair, in order; None if a text has no scored token. Long texts are cut.

        Args:
            idf: weight each token by its inverse document frequency among the references (Section 3, equation 7),
                so that rare words count more; a score then depends on the set of references.
            batch_size: most texts per pass, fewer if memory runs out; changes no number.
            advance: called with the number of pairs done since the last call.

        Raises:
            InputError: not as many references as responses.
        """
        counts = distinct_pairs(responses, references)
        ids = self._tokens({text for pair in counts for text in pair}, str.strip)
        weigh = self._weights([ids[text] for text in references] if idf else None)
        weights = {text: weigh(tokens) for text, tokens in ids.items()}
        scored = [pair for pair in counts if all(float(weights[text].sum()) > 0 for text in pair)]
        scores = self._score(
            counts, scored, ids, lambda pairs, states: _match(pairs, states, weights), batch_size, advance
        )
        return [scores.get(pair) for pair in zip(responses, references, strict=True)]

    def _weights(self, references: Sequence[Sequence[int]] | None) -> Callable[[Sequence[int]], Tensor]:
        """Function from a text's tokens to their weights, [tokens]."""
        if references is None:
            return lambda ids: torch.tensor([float(token not in self._around) for token in ids])
        counts = Counter(token for ids in references for token in set(ids))
        rare = {token: log((len(references) + 1) / (times + 1)) for token, times in counts.items()}
        unseen = log(len(references) + 1)
        return lambda ids: torch.tensor([rare.get(token, unseen) for token in ids])

    def _states(self, padded: Tensor, mask: Tensor) -> Tensor:
        with autocast(self.model.device, self._precision):
            output = self.model(input_ids=padded, attention_mask=mask, output_hidden_states=not self._cut)
        states = output.last_hidden_state if self._cut else output.hidden_states[self.layer]
        return torch.nn.functional.normalize(states.float(), dim=-1)


def _drop_layers_behind(model: Any, layer: int) -> bool:
    """Drop the layers above the needed one; False if that is impossible, so that all are run."""
    stack: Any = getattr(model, "encoder", None) or getattr(model, "transformer", None)
    layers = getattr(stack, "layer", None)
    if not isinstance(layers, torch.nn.ModuleList):
        return False
    stack.layer = layers[:layer]
    return True


@torch.inference_mode()
def _match(pairs: Sequence[Pair], states: States, weights: Mapping[str, Tensor]) -> dict[Pair, BertScore]:
    """Precision, recall and F of a batch, from unit-length states and token weights."""
    ours, theirs = (pad_sequence([states[pair[side]] for pair in pairs], batch_first=True) for side in (0, 1))
    real = [
        torch.arange(padded.shape[1], device=padded.device)
        < torch.tensor([len(states[pair[side]]) for pair in pairs], device=padded.device)[:, None]
        for side, padded in enumerate((ours, theirs))
    ]
    cosines = torch.bmm(ours, theirs.transpose(1, 2))
    cosines = cosines.masked_fill(~(real[0][:, :, None] & real[1][:, None, :]), -torch.inf)
    means = []
    for side in (0, 1):
        best = cosines.amax(dim=2 - side).masked_fill(~real[side], 0.0).double().cpu()
        counts = pad_sequence([weights[pair[side]] for pair in pairs], batch_first=True).double()
        means.append(((best * counts).sum(1) / counts.sum(1)).tolist())
    return {
        pair: BertScore(p, r, 2 * p * r / (p + r) if p + r else 0.0)
        for pair, p, r in zip(pairs, *means, strict=True)
    }
