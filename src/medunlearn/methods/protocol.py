"""Interfaces of loss methods: views in, loss terms out.

A method says *what* to optimise; the engine decides *how to compute it cheaply*. A loss method is an object
with hyperparameters and one function from two views to named loss terms:

    @dataclass(frozen=True)
    class GradDiff:
        alpha: float = 1.0

        def loss(self, forget: View, retain: View) -> Terms:
            return {"forget": -forget.nll(), "retain": self.alpha * retain.nll()}

**Means.** A view shows one micro-batch, but its means divide by the tokens or sequences of the *whole
optimizer step*: the terms of the micro-batches add up to the terms of one large batch, whatever its size and
however it was cut. So a method must reduce with the view's own means, never with ``tensor.mean()``.

Notation: N positions and S sequences in the view, V vocabulary, W width of the hidden states. *Answer
positions* are those whose output predicts an answer token: the prompt's last token is one, the final EOS is
not. For a record that is trained as plain text every token but the first is an answer token. A view reads these
positions unless it is asked for others (:meth:`View.at`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from medunlearn.models.sequences import Positions

Terms = dict[str, Tensor]


class View(Protocol):
    """One side's micro-batch, computed lazily: what is not asked for is not run, what is asked twice runs once."""

    @property
    def reference(self) -> View:
        """The same micro-batch as the model before unlearning saw it; carries no gradient."""
        ...

    def at(self, positions: Positions) -> View:
        """The same micro-batch, read at other positions: N then counts these, and so does every mean.

        ``answer``: the answer tokens themselves, EOS included, one later than the answer positions. ``all``: every
        token, prompt included. Likelihoods are those of answer tokens, and are had at the answer positions alone.
        """
        ...

    def token_log_probs(self) -> Tensor:
        """Log-probability of each answer token, [N], <= 0."""
        ...

    def log_distribution(self) -> Tensor:
        """Log-probabilities of the whole vocabulary at each answer position, [N, V]."""
        ...

    def caps(self) -> Tensor:
        """Log-probability of each answer token that unlearning is to reach, [N], <= 0.

        Only of the forget side of a method that trains on alternative answers (:class:`AlternativesMethod`).
        """
        ...

    def floors(self) -> Tensor:
        """Log-probability below which unlearning is not to leave an answer token, [N], ``-inf`` for one without.

        Of tokens of whole values it is their cap. Only of the forget side, as :meth:`caps`.
        """
        ...

    def divergence_from_reference(self) -> Tensor:
        """``KL(p_ref || p)`` of the whole vocabulary's distributions at each answer position, [N], >= 0.

        The same as from two :meth:`log_distribution`, without holding either.
        """
        ...

    def hidden(self, layer: int) -> Tensor:
        """Output of decoder layer ``layer`` (0 is the first) at each answer position, [N, W]."""
        ...

    def sequence_nll(self) -> Tensor:
        """Negative log-likelihood of each answer, summed over its tokens, [S], >= 0."""
        ...

    def sequence_tokens(self) -> Tensor:
        """Answer tokens in each sequence, [S]."""
        ...

    def sequence_sums(self, values: Tensor) -> Tensor:
        """Sum over each sequence's positions: [N] -> [S]."""
        ...

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        """This micro-batch's part of a mean over the step's answer tokens: [N] -> scalar."""
        ...

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        """This micro-batch's part of a mean over the step's sequences: [S] -> scalar."""
        ...

    def mean_inverse_tokens(self) -> float:
        """Mean over the step's sequences of one over their answer tokens."""
        ...

    def nll(self) -> Tensor:
        """Masked negative log-likelihood: the mean over answer tokens of ``-token_log_probs``, scalar."""
        ...


@runtime_checkable
class LossMethod(Protocol):
    """A method that trains. Its fields are its hyperparameters; defaults come from its paper."""

    def loss(self, forget: View, retain: View) -> Terms:
        """Named terms; their sum is minimised. Every term is logged under its name."""
        ...


@runtime_checkable
class AlternativesMethod(Protocol):
    """A method that trains on alternative answers as well: what the target says of people whom it never saw.

    The engine makes them before the first step (:mod:`medunlearn.generation.counterfactuals`).

    Attributes:
        alternatives: how many of each forget sequence; each epoch shows another of them.
        capped: whether it reads :meth:`View.caps` of the forget side.
    """

    alternatives: int
    capped: bool

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        """Named terms, as of a loss method; ``alternatives`` has one sequence for each of ``forget``, in order."""
        ...


@runtime_checkable
class WeighingMethod(LossMethod, Protocol):
    """A loss method that puts the gradients of its terms together itself, instead of taking their sum.

    The engine keeps the gradient of each term of the whole step apart, which costs the memory of one more set of
    gradients a term. What is put together has the length that the method gave it: ``clip`` is not applied.
    """

    def weigh(self, products: Mapping[tuple[str, str], float]) -> Mapping[str, float]:
        """The weight of each term's gradient in the sum that is descended; a term left out has none.

        Args:
            products: inner product of the gradients of each two terms; of one with itself, its squared length.
        """
        ...


@runtime_checkable
class RatingMethod(LossMethod, Protocol):
    """A loss method that finds its own learning rate, once the optimizer's step is known and before it counts.

    The rate that it finds holds until it looks again; the settings' rate is the first, and their schedule is not
    used. With ``automatic`` False rates are as the settings say.
    """

    automatic: bool

    def looks(self, step: int) -> bool:
        """True if it looks for a rate at step ``step`` (0 is the first)."""
        ...

    def probe(self, forget: View, retain: View) -> Terms:
        """The terms that decide over the rate: some of those of ``loss``, under the same names."""
        ...

    def rate(
        self, rate: float, behind: Mapping[str, float], here: Mapping[str, float], ahead: Mapping[str, float]
    ) -> float:
        """The rate to step with.

        Args:
            rate: the rate so far.
            behind, here, ahead: the probed terms of this step's sequences: where the step at that rate would lead
                if taken backwards, where the weights are, where the step leads; they may be infinite or NaN.
        """
        ...


def default_trainable(method: Any) -> str:
    """Default trainable parameters of a method (see ``training.trainable``)."""
    trainable = getattr(method, "trainable", "all")
    return str(trainable() if callable(trainable) else trainable)
