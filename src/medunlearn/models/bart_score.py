"""BARTScore: log-likelihood of one text given the other under a sequence-to-sequence model.

Source: Yuan et al. 2021, "BARTScore: Evaluating Generated Text as Text Generation" (arXiv 2106.11520), equation 2
with equal weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from medunlearn.models.batching import Batching
from medunlearn.models.encoders import load_pretrained
from medunlearn.models.precision import Precision, autocast
from medunlearn.models.text_pairs import Pair, distinct_pairs, with_states

LONGEST = 1024
IGNORED = -100


class BartScorer:
    """Mean token log-likelihood of a target given a source, under one sequence-to-sequence model.

    Args:
        source: folder or hub id, e.g. ``facebook/bart-large-cnn``, which the authors use without further training.
        precision: of matrix products; fp32 gives the same digits on every machine.

    Raises:
        ModelError: it cannot be loaded.
    """

    def __init__(self, source: str, *, device: str = "auto", precision: Precision = "fp32") -> None:
        self.tokenizer, self.model = load_pretrained(source, AutoModelForSeq2SeqLM, device, "Seq2seq model")
        self._precision = precision
        longest = getattr(self.model.config, "max_position_embeddings", LONGEST)
        self._longest = min(longest, self.tokenizer.model_max_length, LONGEST)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int = 16,
        advance: Callable[[int], None] = lambda done: None,
    ) -> list[float | None]:
        """Mean over the target's tokens of their natural-log probability, in order; None where a text is blank.

        The tokens are all that the tokenizer makes of the target, those that it puts around it too (BART: ``<s>``,
        ``</s>``), as in the authors' code. At most 0, higher = the target is likelier given the source.

        Args:
            sources, targets: one target a source; what is longer than the model takes is cut.
            batch_size: pairs in one pass at most, fewer where memory runs out; changes no number.
            advance: called with the number of pairs done since the last call.

        Raises:
            InputError: not as many targets as sources.
        """
        counts = distinct_pairs(sources, targets)
        scored = [pair for pair in counts if all(text.strip() for text in pair)]
        advance(sum(counts.values()) - sum(counts[pair] for pair in scored))
        ids = self._tokens({text for pair in scored for text in pair})
        scored.sort(key=lambda pair: (len(ids[pair[1]]), pair[1], len(ids[pair[0]]), pair[0]), reverse=True)
        encoding, rating = Batching(batch_size), Batching(batch_size)
        found: dict[Pair, float] = {}
        chunks = with_states(scored, lambda pair: pair[:1], lambda some: self._states(some, ids, encoding))
        for chunk, states in chunks:
            for done in rating.over(chunk, lambda some: self._rate(some, states, ids)):  # noqa: B023
                found |= done
                advance(sum(counts[pair] for pair in done))
        return [found.get(pair) for pair in zip(sources, targets, strict=True)]

    def _tokens(self, texts: Iterable[str]) -> dict[str, list[int]]:
        some = sorted(texts)
        if not some:
            return {}
        given = self.tokenizer(some, truncation=True, max_length=self._longest, return_attention_mask=False)
        return dict(zip(some, given["input_ids"], strict=True))

    def _states(self, texts: Sequence[str], ids: Mapping[str, list[int]], batching: Batching) -> dict[str, Tensor]:
        """The encoder's last states of each text, [tokens, width]."""
        order = sorted(texts, key=lambda text: len(ids[text]), reverse=True)
        found: dict[str, Tensor] = {}
        for done in batching.over(order, lambda some: self._encode(some, ids)):
            found |= done
        return found

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str], ids: Mapping[str, list[int]]) -> dict[str, Tensor]:
        device = self.model.device
        tokens = [torch.tensor(ids[text], device=device) for text in texts]
        mask = pad_sequence([torch.ones_like(one) for one in tokens], batch_first=True)
        padded = pad_sequence(tokens, batch_first=True, padding_value=self.tokenizer.pad_token_id or 0)
        with autocast(device, self._precision):
            states = self.model.get_encoder()(input_ids=padded, attention_mask=mask).last_hidden_state
        return {text: states[row, : len(ids[text])].clone() for row, text in enumerate(texts)}

    @torch.inference_mode()
    def _rate(
        self, pairs: Sequence[Pair], states: Mapping[str, Tensor], ids: Mapping[str, list[int]]
    ) -> dict[Pair, float]:
        device = self.model.device
        seen = [states[source] for source, _ in pairs]
        mask = pad_sequence(
            [torch.ones(len(one), device=device, dtype=torch.long) for one in seen], batch_first=True
        )
        wanted = [torch.tensor(ids[target], device=device) for _, target in pairs]
        labels = pad_sequence(wanted, batch_first=True, padding_value=IGNORED)
        with autocast(device, self._precision):
            logits = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=pad_sequence(seen, batch_first=True)),
                attention_mask=mask,
                decoder_input_ids=self.model.prepare_decoder_input_ids_from_labels(labels=labels),
                use_cache=False,
            ).logits
        return {pair: _mean_log_prob(logits[row], wanted[row]) for row, pair in enumerate(pairs)}


def _mean_log_prob(logits: Tensor, wanted: Tensor) -> float:
    """Of logits [>= tokens, vocabulary] and the wanted tokens, [tokens]; one row at a time, to spare memory."""
    own = logits[: len(wanted)].float()
    log_probs = own.gather(1, wanted[:, None])[:, 0] - own.logsumexp(dim=1)
    return float(log_probs.double().mean())
