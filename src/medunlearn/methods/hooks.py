"""Hooks of methods into the engine's step: gradients by side, moved weights, and state that checkpoints keep.

A loss method (:mod:`medunlearn.methods.protocol`) may have, besides its loss:

- ``gradient_rule``: a :class:`GradientRule`, which makes the gradient to descend from those of the two sides;
- ``perturbation``: a :class:`Perturbation`, weights at which the gradient is taken in place of the current ones;
- :class:`StatefulMethod`: values that it updates after each step, as dual variables are. A gradient rule may have
  some, too.

**Names of terms.** Terms whose name begins with ``retain`` are the retain side's, all others the forget side's. A
term that begins with ``measured_`` is logged and given to :meth:`StatefulMethod.after_step`, and not minimised; one
that begins with ``inner_`` is only for a perturbation's direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from medunlearn.methods.protocol import Terms, View

if TYPE_CHECKING:
    from torch import Tensor

    Gradient = Mapping[str, Tensor]
    """Parameter name -> gradient of what this process holds of it; without those that nothing reaches."""

FORGET, RETAIN, MEASURED, INNER = "forget", "retain", "measured_", "inner_"


def is_minimised(term: str) -> bool:
    """True for a term that is part of the loss."""
    return not term.startswith((MEASURED, INNER))


def is_retained(term: str) -> bool:
    """True for a term of the retain side."""
    return term.startswith(RETAIN)


class StepGradients(Protocol):
    """Gradients of one optimizer step, summed over all processes.

    Attributes:
        number: of the step; 0 is the first.
        parts: the trained weights by name; of sharded layers, what this process holds.
        forget, retain: gradients of the sides' terms. For a perturbation, ``forget`` is that of the terms which
            give its direction, and ``retain`` is empty.
    """

    @property
    def number(self) -> int: ...

    @property
    def parts(self) -> Mapping[str, Tensor]: ...

    @property
    def forget(self) -> Gradient: ...

    @property
    def retain(self) -> Gradient: ...

    def dot(self, first: Gradient, second: Gradient) -> float:
        """Inner product over all parameters, also those that other processes hold."""
        ...


class GradientRule(Protocol):
    """The gradient to descend, made from the two sides' gradients; ``clip`` applies to it.

    The engine keeps the gradients of both sides, which takes the memory of one more set.

    Attributes:
        needs_whole: it reads whole matrices, so that layers must not be sharded.
    """

    needs_whole: ClassVar[bool]

    def combine(self, step: StepGradients) -> Gradient: ...


class Perturbation(Protocol):
    """Weights at which a step's gradient is taken; the optimizer then moves the current weights by it.

    The engine keeps a copy of the trained weights meanwhile.

    Attributes:
        needs_gradient: it needs a gradient at the current weights, one more pass and gradient; only the forget side
            is then taken at the moved weights. Otherwise both sides are, in one pass.
        needs_whole: it reads whole matrices, so that layers must not be sharded.
    """

    needs_gradient: ClassVar[bool]
    needs_whole: ClassVar[bool]

    def terms(self, forget: View) -> Terms:
        """Further terms, named ``inner_...``, that only the direction needs; usually none."""
        ...

    def directs(self, term: str) -> bool:
        """True for a term whose gradient gives the direction."""
        ...

    def moved(self, step: StepGradients) -> Mapping[str, Tensor]:
        """The weights to take the gradient at, by name; missing ones stay."""
        ...


@runtime_checkable
class StatefulMethod(Protocol):
    """A method, or gradient rule, with values of its own: checkpoints keep them, and a resumed run restores
    them.
    """

    def state_dict(self) -> Mapping[str, Tensor]:
        """The values, equal in every process."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...

    def after_step(self, terms: Mapping[str, float]) -> None:
        """Update the values after a step, from its terms summed over all micro-batches and processes."""
        ...


def gradient_rule_of(method: Any) -> GradientRule | None:
    rule: GradientRule | None = getattr(method, "gradient_rule", None)
    return rule


def perturbation_of(method: Any) -> Perturbation | None:
    perturbation: Perturbation | None = getattr(method, "perturbation", None)
    return perturbation


def stateful_parts(method: Any) -> Mapping[str, StatefulMethod]:
    """The method and its gradient rule, if they have values that checkpoints keep, by a name of each."""
    parts = {"method": method, "gradient_rule": gradient_rule_of(method)}
    return {name: part for name, part in parts.items() if isinstance(part, StatefulMethod)}


Grouping = Callable[[str], str | None]
"""Term -> name of the gradient that it is part of; None: of none."""
