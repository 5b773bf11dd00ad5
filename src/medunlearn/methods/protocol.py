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

**Family.** A method declares how it forgets, ``family``, and what preserves the retain set, ``retain_term``, as
strings of its class (:mod:`medunlearn.methods.families` lists them). Findings about a family count every method
that declares it. A method that declares nothing is of the family ``other``.

Notation: N positions and S sequences in the view, V vocabulary, W width of the hidden states. *Answer
positions* are those whose output predicts an answer token: the prompt's last token is one, the final EOS is
not. For a record trained as plain text, every token but the first is an answer token. A view uses these positions
unless told otherwise (:meth:`View.at`).

A method's file imports torch inside its functions: names and settings are read from it before anything heavy is
loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from medunlearn.models.sequences import Positions

Terms: TypeAlias = "dict[str, Tensor]"


class View(Protocol):
    """Lazy outputs of one side's micro-batch: computed on first use, and cached."""

    @property
    def reference(self) -> View:
        """The same micro-batch under the model before unlearning; without gradient."""
        ...

    def at(self, positions: Positions) -> View:
        """The same micro-batch at other positions: N, and every mean, then refers to these.

        ``answer``: the answer tokens themselves, EOS included, one later than the answer positions. ``all``: every
        token, prompt included. Likelihoods are those of answer tokens, and are available only at the answer
        positions.
        """
        ...

    def token_log_probs(self) -> Tensor:
        """Log-probability of each answer token, [N], <= 0."""
        ...

    def log_distribution(self) -> Tensor:
        """Log-probabilities of the whole vocabulary at each answer position, [N, V]."""
        ...

    def caps(self) -> Tensor:
        """Target log-probability of each answer token for unlearning, [N], <= 0.

        Only for the forget side of a method that trains on alternative answers (:class:`AlternativesMethod`).
        """
        ...

    def floors(self) -> Tensor:
        """Lower bound of each answer token's log-probability in unlearning, [N], ``-inf`` without one.

        For tokens with whole-value caps it is their cap. Only for the forget side, like :meth:`caps`.
        """
        ...

    def divergence_from_reference(self) -> Tensor:
        """``KL(p_ref || p)`` of the whole vocabulary's distributions at each answer position, [N], >= 0.

        Equal to the value from two :meth:`log_distribution`, without storing either.
        """
        ...

    def jensen_shannon_from_reference(self) -> Tensor:
        """Jensen-Shannon divergence from the reference's distributions at each answer position, [N], 0 to log 2."""
        ...

    def distillation(self, teacher: View, lowered: float) -> Tensor:
        """Cross-entropy with a teacher's distributions whose true token is less likely, [N], >= 0.

        Args:
            teacher: a view of the same micro-batch, :attr:`reference` or this one; no gradient flows into it.
            lowered: what is taken off the true token's logit; ``inf`` leaves it no probability.
        """
        ...

    def margin(self) -> Tensor:
        """Squared difference of the largest and the mean logit at each answer position, [N], >= 0; 0 = uniform."""
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

    def sequence_means(self, values: Tensor) -> Tensor:
        """Mean over each sequence's positions: [N, W] -> [S, W]."""
        ...

    def of_sequences(self, values: Tensor) -> Tensor:
        """The value of each position's sequence: [S, ...] -> [N, ...]."""
        ...

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        """This micro-batch's contribution to a mean over the step's answer tokens: [N] -> scalar."""
        ...

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        """This micro-batch's contribution to a mean over the step's sequences: [S] -> scalar."""
        ...

    def mean_inverse_tokens(self) -> float:
        """Mean over the step's sequences of 1 / number of answer tokens."""
        ...

    def nll(self) -> Tensor:
        """Masked negative log-likelihood: the mean over answer tokens of ``-token_log_probs``, scalar."""
        ...


@runtime_checkable
class LossMethod(Protocol):
    """An unlearning method that trains. Its fields are its hyperparameters; defaults come from its paper."""

    def loss(self, forget: View, retain: View) -> Terms:
        """Named terms; their sum is minimised. Every term is logged under its name."""
        ...


@runtime_checkable
class AlternativesMethod(Protocol):
    """A method that also trains on other answers to the forget set's prompts.

    The engine makes them before the first step (:mod:`medunlearn.study.alternative_answers`), from what its
    ``answers`` names: ``strangers``, the default, are the target's answers about people it never saw; ``refusal``
    are refusals of our own words; else a JSONL file of the user's.

    Attributes:
        alternatives: number of answers per forget sequence; each epoch uses another.
        capped: whether it uses :meth:`View.caps` of the forget side; only for ``strangers``.
    """

    alternatives: int
    capped: bool

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        """Named terms, like those of a loss method; ``alternatives`` has one sequence for each of ``forget``, in
        order.
        """
        ...


@runtime_checkable
class WeighingMethod(LossMethod, Protocol):
    """A loss method that combines the gradients of its terms itself, instead of summing them.

    The engine keeps a separate gradient per term for the whole step, which takes the memory of one more set of
    gradients per term. The combined gradient is not rescaled: ``clip`` is not applied.
    """

    def weigh(self, products: Mapping[tuple[str, str], float]) -> Mapping[str, float]:
        """Weight of each term's gradient in the sum to descend; missing terms have weight 0.

        Args:
            products: inner product of the gradients of each pair of terms; with itself, the squared norm.
        """
        ...


class OptimizerStep(Protocol):
    """The step of the optimizer that follows this step's gradient; not yet taken.

    Attributes:
        number: 0 is the first.
        terms: of the loss on this step's sequences, at the current weights.
        parts: the weights that the optimizer changes, by name; of sharded layers, what this process holds.
        scheduled_rate: the settings' learning rate of this step.
        last_rate: the learning rate of the previous step; at the first one the settings', without schedule.
    """

    number: int
    terms: Mapping[str, float]
    parts: Mapping[str, Tensor]
    scheduled_rate: float
    last_rate: float

    def take(self, rate: float) -> float:
        """Change the weights by the optimizer's step at a learning rate, and return the rate. Only once."""
        ...

    def probe(self) -> dict[str, float]:
        """The terms of :meth:`SteppingMethod.probe` on this step's sequences, with the weights as they are now.

        They may be infinite or NaN.
        """
        ...


@runtime_checkable
class SteppingMethod(LossMethod, Protocol):
    """A loss method that takes the optimizer's step itself, for instance at a learning rate that it finds."""

    def step(self, step: OptimizerStep) -> float:
        """Take the step; returns its learning rate, which is logged and is the next step's ``last_rate``."""
        ...

    def looks(self, step: int) -> bool:
        """True if step ``step`` (0 is the first) probes twice; for the estimate of a run's cost."""
        ...

    def probe(self, forget: View, retain: View) -> Terms:
        """The terms to probe: some of those of ``loss``, under the same names."""
        ...


STRANGERS, REFUSAL = "strangers", "refusal"
"""Values of a method's ``answers`` besides a file's name."""


def answers_of(method: Any) -> str:
    """Source of a method's answers to learn: its ``answers``, or its answers about strangers."""
    return str(getattr(method, "answers", STRANGERS))


def default_trainable(method: Any) -> str:
    """Default trainable parameters of a method (see ``training.trainable``)."""
    trainable = getattr(method, "trainable", "all")
    return str(trainable() if callable(trainable) else trainable)
