"""Negative preference optimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class NPO:
    """Negative preference optimization: forget answers are dispreferred, relative to the reference.

    ``-(2 / beta) mean_F log sigmoid(-beta log(p(y|x) / p_ref(y|x))) + alpha L(R)``. As beta falls to 0 the
    forget term becomes gradient ascent; above 0 it saturates once an answer has become unlikely.

    Source: Zhang et al. 2024, arXiv 2404.05868 (beta = 0.1); with the retain term it
    is the paper's NPO+RT. LUME's NPO is alpha = 0.

    MedForget's NPO (Appendix A.1) uses another reference, a model fine-tuned only on the retain set, with
    beta = 0.9 and alpha = 0.

    Attributes:
        beta: inverse temperature; larger stops sooner.
        alpha: weight of the retain term; 0 leaves the retain set unused.
        reference: target; or a model that never saw the forget set: the folder of that run, in an experiment or
            sweep also ``retrained``, the split's own.
    """

    title: ClassVar[str] = "NPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"

    beta: Annotated[float, Field(gt=0)] = 0.1
    alpha: Annotated[float, Field(ge=0)] = 1.0
    reference: str = "target"

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.title if self.reference == "target" else f"{self.title}, retain-only reference"

    def loss(self, forget: View, retain: View) -> Terms:
        from torch.nn.functional import logsigmoid

        log_ratio = forget.reference.sequence_nll() - forget.sequence_nll()
        preference = -(2 / self.beta) * logsigmoid(-self.beta * log_ratio)
        terms = {"forget": forget.mean_over_sequences(preference)}
        if self.alpha:
            terms["retain"] = self.alpha * retain.nll()
        return terms
