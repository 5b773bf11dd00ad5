"""Training objectives: functions from a micro-batch's views, by side, to named loss terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from medunlearn.errors import InputError
from medunlearn.methods.protocol import AlternativesMethod, LossMethod, SteppingMethod, Terms, WeighingMethod
from medunlearn.methods.retain_terms import KL, NLL
from medunlearn.training.views import ModelView


class Objective(Protocol):
    """Function from a micro-batch's views, by side, to named terms whose sum is minimised."""

    def terms(self, views: Mapping[str, ModelView]) -> Terms: ...


class NextToken:
    """Next-token likelihood of the scored tokens, for pretraining on records and fine-tuning on questions."""

    def terms(self, views: Mapping[str, ModelView]) -> Terms:
        return {side: view.nll() for side, view in views.items()}


class Unlearning:
    """A loss method on the sides ``forget`` and ``retain``, and ``alternatives`` if it uses them.

    Args:
        retain_part: the term of steps whose forget side rests
            (:class:`~medunlearn.training.batch_plan.UtilityRecovery`); None in a run without any.
    """

    def __init__(self, method: LossMethod | AlternativesMethod, retain_part: NLL | KL | None = None) -> None:
        self.method, self.retain_part = method, retain_part

    def terms(self, views: Mapping[str, ModelView]) -> Terms:
        """The method's terms.

        Raises:
            InputError: a method of a user's own returns something else.
        """
        if "forget" not in views and self.retain_part is not None:
            return self.retain_part.terms(views["retain"])
        if isinstance(self.method, AlternativesMethod):
            terms = self.method.loss_with(views["forget"], views["retain"], views["alternatives"])
        else:
            terms = self.method.loss(views["forget"], views["retain"])
        if not isinstance(terms, Mapping):
            raise InputError(
                f"The loss of {type(self.method).__name__} is a {type(terms).__name__}: it must be terms by name, "
                '{"forget": ...}.'
            )
        return terms

    def probe(self, views: Mapping[str, ModelView]) -> Terms:
        """Terms that a method probes while it takes a step."""
        assert isinstance(self.method, SteppingMethod)
        return self.method.probe(views["forget"], views["retain"])


def method_of(objective: Objective) -> LossMethod | AlternativesMethod | None:
    """The method of an objective; None in training that has none."""
    return objective.method if isinstance(objective, Unlearning) else None


def weighing(objective: Objective) -> WeighingMethod | None:
    """The method of an objective, if it weights its terms' gradients itself."""
    method = method_of(objective)
    return method if isinstance(method, WeighingMethod) else None


def stepping(objective: Objective) -> SteppingMethod | None:
    """The method of an objective, if it takes the optimizer's step itself."""
    method = method_of(objective)
    return method if isinstance(method, SteppingMethod) else None
