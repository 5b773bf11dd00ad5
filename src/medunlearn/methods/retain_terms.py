"""Retain terms: what holds the retain set, for any method's forget terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View

Positions = Literal["predicting", "answer", "all"]
"""As in :mod:`medunlearn.models.sequences`, which loads more than names of settings need."""


@dataclass(frozen=True)
class NLL:
    """The retain set's likelihood: ``weight L(R)``.

    Attributes:
        weight: weight of the term.
    """

    title: ClassVar[str] = "NLL"
    slot: ClassVar[str] = "retain"
    retain_term: ClassVar[str] = "loss"

    weight: Annotated[float, Field(ge=0)] = 1.0

    def terms(self, retain: View) -> Terms:
        return {"retain": self.weight * retain.nll()}


@dataclass(frozen=True)
class KL:
    """Divergence from the target: ``weight mean_R KL(p_ref || p)``.

    Attributes:
        weight: weight of the term.
        positions: tokens whose outputs are compared: those that predict an answer's, or every token.
    """

    title: ClassVar[str] = "KL"
    slot: ClassVar[str] = "retain"
    retain_term: ClassVar[str] = "divergence"

    weight: Annotated[float, Field(ge=0)] = 1.0
    positions: Positions = "predicting"

    def terms(self, retain: View) -> Terms:
        retain = retain.at(self.positions)
        return {"retain_kl": self.weight * retain.mean_over_tokens(retain.divergence_from_reference())}


@dataclass(frozen=True)
class JS(KL):
    """Jensen-Shannon divergence from the target, bounded by log 2: ``weight mean_R JS(p_ref, p)``."""

    title: ClassVar[str] = "JS"

    def terms(self, retain: View) -> Terms:
        retain = retain.at(self.positions)
        return {"retain_js": self.weight * retain.mean_over_tokens(retain.jensen_shannon_from_reference())}


@dataclass(frozen=True)
class HiddenStates:
    """Distance from the target's hidden states at one layer: ``weight mean_R |h - h_ref|^2 / W``.

    Attributes:
        weight: weight of the term.
        layer: decoder layer whose output is compared; 0 is the first.
        positions: tokens whose states are compared.
    """

    title: ClassVar[str] = "hidden states"
    slot: ClassVar[str] = "retain"
    retain_term: ClassVar[str] = "hidden states"

    weight: Annotated[float, Field(ge=0)] = 1.0
    layer: Annotated[int, Field(ge=0)] = 7
    positions: Positions = "answer"

    def terms(self, retain: View) -> Terms:
        retain = retain.at(self.positions)
        drift = retain.hidden(self.layer) - retain.reference.hidden(self.layer)
        return {"retain_hidden": self.weight * retain.mean_over_tokens(drift.square().mean(dim=1))}
