"""Lazy outputs of one forward pass at the positions of a batch.

Notation: N positions (by default of scored tokens), V vocabulary, W width of the hidden states.
"""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from medunlearn.models import head
from medunlearn.models.batches import Batch
from medunlearn.models.decoder import Decoder, Trunk
from medunlearn.models.head import Head


class ForwardOutputs:
    """Outputs of the model with its current weights for one batch; each is computed on first use."""

    def __init__(self, decoder: Decoder, batch: Batch, trunk: Trunk | None = None) -> None:
        self.decoder, self.batch, self._given = decoder, batch, trunk
        self._hidden: dict[int, Tensor] = {}

    @cached_property
    def trunk(self) -> Trunk | None:
        """Output of the frozen layers, which need not be run again."""
        return self._given

    @cached_property
    def head(self) -> Head:
        return self.decoder.head()

    @cached_property
    def final(self) -> Tensor:
        """Inputs of the head, [N, W]."""
        return self.decoder.final(self.batch, self.trunk)

    @cached_property
    def logits(self) -> Tensor:
        """Logits, [N, V] in fp32; large."""
        if self.decoder.support.head:
            return self.head.logits(self.final)
        return self.decoder.logits(self.batch, self.trunk)

    @cached_property
    def log_probs(self) -> Tensor:
        """Log-probability of each scored token, [N]."""
        if self.decoder.support.head:
            return head.token_log_probs(self.head, self.final, self.batch.targets)
        picked = self.logits.gather(1, self.batch.targets[:, None]).squeeze(1)
        return picked - self.logits.logsumexp(dim=1)

    def rated(self) -> tuple[Tensor, Tensor]:
        """Log-probability of each scored token, and the most likely token in its place, [N] each; no gradient."""
        if self.decoder.support.head:
            return head.rated(self.head, self.final, self.batch.targets)
        return self.log_probs, self.logits.argmax(dim=1)

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of each scored token, and mean and variance of log-probabilities under the model, [N]
        each; no gradient.
        """
        if self.decoder.support.head:
            return head.moments(self.head, self.final, self.batch.targets)
        return head.moments_of(self.logits.clone(), self.batch.targets)
