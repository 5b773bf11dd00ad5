"""What a run minimises: views by side in, named terms out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from medunlearn.methods.protocol import LossMethod, Terms
from medunlearn.training.views import ModelView


class Objective(Protocol):
    """Turns the views of a micro-batch, by side, into named terms whose sum is minimised."""

    def terms(self, views: Mapping[str, ModelView]) -> Terms: ...


class NextToken:
    """The likelihood of the scored tokens: pretraining on records, fine-tuning on questions."""

    def terms(self, views: Mapping[str, ModelView]) -> Terms:
        return {side: view.nll() for side, view in views.items()}


class Unlearning:
    """A loss method on the sides ``forget`` and ``retain``."""

    def __init__(self, method: LossMethod) -> None:
        self.method = method

    def terms(self, views: Mapping[str, ModelView]) -> Terms:
        return self.method.loss(views["forget"], views["retain"])
