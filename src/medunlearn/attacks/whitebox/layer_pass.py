"""One pass of a model with the output of every decoder layer, read out and continued from any of them.

Notation: L decoder layers, N positions that are read (by default those that predict an answer's token), W width of
the hidden states, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medunlearn.data.facts import facts_of
from medunlearn.data.records import Identifier, Question
from medunlearn.errors import InputError
from medunlearn.models.batches import Batch
from medunlearn.models.decoder import Decoder, Trunk
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.head import ranked
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Positions, TokenSequence


@dataclass(frozen=True)
class LayerPass:
    """The output of every decoder layer for one batch.

    Attributes:
        states: output of each layer at every position, L tensors of [rows, tokens, W].
    """

    decoder: Decoder
    batch: Batch
    states: Sequence[Tensor]

    @staticmethod
    def of(
        language_model: LanguageModel, sequences: Sequence[TokenSequence], positions: Positions = "predicting"
    ) -> LayerPass:
        """Run a model once over sequences."""
        model = language_model.model
        decoder = decoder_of(model)
        batch = make_batch(model, sequences, language_model.tokenizer.pad_token_id, language_model.device)
        if positions != "predicting":
            batch = batch.at(positions)
        return LayerPass(decoder, batch, decoder.all_hidden(batch))

    def read(self, layer: int) -> Tensor:
        """Output of a layer at the positions that are read, [N, W], in the order of the sequences."""
        return self.states[layer][self.batch.row, self.batch.column]

    @torch.no_grad()
    def lens(self, layer: int, values: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Log-probability and rank of each target, decoded from a layer: final norm and head, [N] each.

        Args:
            values: hidden states of another model in place of the layer's own, [N, W].
        """
        states = self.states[layer] if values is None else self._with(layer, values)
        hidden = self.decoder.read_out(self.batch, Trunk(layer + 1, states))
        return ranked(self.decoder.head(), hidden, self.batch.targets)

    @torch.no_grad()
    def patched(self, layer: int, values: Tensor) -> Tensor:
        """Log-probability of each target with other hidden states at the positions that are read, [N].

        Args:
            values: take the place of the layer's output there, [N, W]; other positions and the layers above are the
                model's own.
        """
        return ForwardOutputs(self.decoder, self.batch, Trunk(layer + 1, self._with(layer, values))).log_probs

    @torch.no_grad()
    def log_probs(self) -> Tensor:
        """Log-probability of each target by the model itself, [N]."""
        return self.lens(len(self.states) - 1)[0]

    def split(self, values: Tensor) -> list[Tensor]:
        """Values at the positions that are read, [..., N], by sequence."""
        counts = torch.bincount(self.batch.sequence, minlength=self.batch.size).tolist()
        return list(torch.split(values, counts, dim=-1))

    def _with(self, layer: int, values: Tensor) -> Tensor:
        states = self.states[layer].clone()
        states[self.batch.row, self.batch.column] = values.to(states.dtype)
        return states


def check_layers(language_model: LanguageModel) -> None:
    """Refuse a model whose layers cannot be read one by one.

    Raises:
        InputError: says why.
    """
    support = decoder_of(language_model.model).support
    if not (support.layers and support.head):
        raise InputError(
            f"{language_model.source}: a layer of this model family cannot be replaced by its output, or something "
            "follows its head, so no layer can be decoded or patched"
        )


def why_unlike(language_model: LanguageModel, other: LanguageModel) -> str | None:
    """Reason why two models' hidden states cannot be put in each other's place; None if they can."""
    if language_model.tokenizer.get_vocab() != other.tokenizer.get_vocab():
        return "its tokenizer is another one, so the two models do not read the same tokens"
    shapes = [_shape(model.model) for model in (language_model, other)]
    if shapes[0] != shapes[1]:
        (layers, width), (others, other_width) = shapes
        return f"it has {layers} layers of width {width} and the other model {others} of width {other_width}"
    return None


def _shape(model: Any) -> tuple[int, int]:
    config = model.config.get_text_config()
    return int(config.num_hidden_layers), int(config.hidden_size)


def value_places(
    question: Question, identifiers: Iterable[Identifier], sequence: TokenSequence, tokenizer: Any
) -> list[int]:
    """Indices, among a sequence's scored tokens, of those that write the values in the answer, EOS never.

    Values are the facts that only this subject's data give (:func:`medunlearn.data.facts.facts_of`): the rest of an
    answer any model of the language predicts. All tokens of an answer that has none, or that the tokens do not
    spell.
    """
    tokens = sequence.ids[sequence.scored_from : -1]
    ends = [len(tokenizer.decode(tokens[: count + 1])) for count in range(len(tokens))]
    before = tokenizer.decode(tokens).find(question.answer)
    facts = facts_of(question, identifiers)
    spans = [(before + fact.start, before + fact.end) for fact in facts]
    starts = [0, *ends[:-1]]
    places = [
        place
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
        if any(start < stop and begin < end for begin, stop in spans)
    ]
    return places if before >= 0 and places else list(range(len(tokens)))


@dataclass(frozen=True, slots=True, eq=False)
class LensScores:
    """One sequence's scored tokens decoded from every layer: log-probabilities and ranks, [L, n] each."""

    log_probs: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.int64]

    def probabilities(self, places: Sequence[int]) -> list[float]:
        """Geometric mean of the probabilities of some tokens, by layer."""
        return [float(value) for value in np.exp(self.log_probs[:, list(places)].mean(axis=1))]

    def ranks_of(self, places: Sequence[int]) -> list[float]:
        """Mean reciprocal rank of some tokens, by layer; NaN where a layer gives no number."""
        undefined = np.isnan(self.log_probs[:, list(places)]).any(axis=1)
        return [float(v) for v in np.where(undefined, np.nan, (1 / self.ranks[:, list(places)]).mean(axis=1))]


@torch.no_grad()
def lens_scores(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[LensScores]:
    """Every scored token of one batch decoded from every layer."""
    layers = LayerPass.of(language_model, sequences)
    decoded = [layers.lens(layer) for layer in range(len(layers.states))]
    log_probs, ranks = (layers.split(torch.stack(table).cpu()) for table in zip(*decoded, strict=True))
    return [LensScores(a.double().numpy(), b.numpy()) for a, b in zip(log_probs, ranks, strict=True)]
