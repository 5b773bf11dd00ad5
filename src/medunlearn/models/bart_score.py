"""BARTScore: log-likelihood of one text given the other under a sequence-to-sequence model.

Source: Yuan et al. 2021, "BARTScore: Evaluating Generated Text as Text Generation" (arXiv 2106.11520), equation 2
with equal weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from medunlearn.models.precision import Precision, autocast
from medunlearn.models.text_pairs import Ids, Pair, PairScorer, States, distinct_pairs

LONGEST = 1024
IGNORED = -100


class BartScorer(PairScorer[float]):
    """Mean token log-likelihood of a target given a source, under one sequence-to-sequence model.

    Args:
        source: folder or hub id, e.g. ``facebook/bart-large-cnn``, which the authors use without further training.
        precision: precision of matrix products; fp32 gives the same digits on every machine.

    Raises:
        ModelError: it cannot be loaded.
    """

    encoded_sides = slice(1)

    def __init__(self, source: str, *, device: str = "auto", precision: Precision = "fp32") -> None:
        super().__init__(source, AutoModelForSeq2SeqLM, device, precision, LONGEST, "Seq2seq model")

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int = 16,
        advance: Callable[[int], None] = lambda count: None,
    ) -> list[float | None]:
        """Mean natural-log probability of the target's tokens, for each pair in order; None if a text is blank.

        The tokens include special tokens added around the target (BART: ``<s>``,
        ``</s>``), as in the authors' code. At most 0, higher = the target is likelier given the source. Texts
        longer than the model's limit are cut.

        Args:
            batch_size: most pairs per pass, fewer if memory runs out; changes no number.
            advance: called with the number of pairs done since the last call.

        Raises:
            InputError: not as many targets as sources.
        """
        counts = distinct_pairs(sources, targets)
        scored = [pair for pair in counts if all(text.strip() for text in pair)]
        ids = self._tokens({text for pair in scored for text in pair})
        values = self._score(
            counts, scored, ids, lambda pairs, states: self._rate(pairs, states, ids), batch_size, advance
        )
        return [values.get(pair) for pair in zip(sources, targets, strict=True)]

    def _states(self, padded: Tensor, mask: Tensor) -> Tensor:
        with autocast(self.model.device, self._precision):
            states: Tensor = self.model.get_encoder()(input_ids=padded, attention_mask=mask).last_hidden_state
        return states

    @torch.inference_mode()
    def _rate(self, pairs: Sequence[Pair], states: States, ids: Ids) -> dict[Pair, float]:
        device = self.model.device
        encoded = [states[source] for source, _ in pairs]
        mask = pad_sequence(
            [torch.ones(len(state), device=device, dtype=torch.long) for state in encoded], batch_first=True
        )
        targets = [torch.tensor(ids[target], device=device) for _, target in pairs]
        labels = pad_sequence(targets, batch_first=True, padding_value=IGNORED)
        with autocast(device, self._precision):
            logits = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=pad_sequence(encoded, batch_first=True)),
                attention_mask=mask,
                decoder_input_ids=self.model.prepare_decoder_input_ids_from_labels(labels=labels),
                use_cache=False,
            ).logits
        return {pair: _mean_log_prob(logits[row], targets[row]) for row, pair in enumerate(pairs)}


def _mean_log_prob(logits: Tensor, targets: Tensor) -> float:
    """Mean log-probability of the target tokens, [tokens], under logits [>= tokens, vocabulary]; row by row, to
    save memory.
    """
    target_logits = logits[: len(targets)].float()
    log_probs = target_logits.gather(1, targets[:, None])[:, 0] - target_logits.logsumexp(dim=1)
    return float(log_probs.double().mean())
