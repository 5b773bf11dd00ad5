"""Passes and reference outputs that an unlearning method uses, read from the source of its loss. No torch.

The engine runs only what a loss asks its views for. A plan does not run the loss, so it looks for the names.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, Literal

from medunlearn.methods.protocol import AlternativesMethod

View = Literal["forget", "retain", "alternatives"]
VIEWS: tuple[View, ...] = ("forget", "retain", "alternatives")
_DISTRIBUTIONS = "log_distribution|divergence_from_reference|jensen_shannon_from_reference|distillation"
_READ = rf"\.(nll|sequence_nll|token_log_probs|margin|{_DISTRIBUTIONS})\("
_WIDE = rf"\.(hidden|{_DISTRIBUTIONS})\("


@dataclass(frozen=True)
class MethodOutputs:
    """Outputs that a loss uses.

    Attributes:
        views: sides that are passed through the model.
        reference: those of them that are also passed through the model before unlearning.
        reads: False for a loss of hidden states alone, which never computes logits.
        wide: a reference output has the width of a hidden state; False for likelihoods alone.
    """

    views: tuple[View, ...] = VIEWS[:2]
    reference: tuple[View, ...] = ()
    reads: bool = True
    wide: bool = False

    @staticmethod
    def of(method: Any) -> MethodOutputs:
        """Outputs of a method's loss; both sides and both references if its source is not there."""
        views = VIEWS if isinstance(method, AlternativesMethod) else VIEWS[:2]
        try:
            source = "\n".join(
                inspect.getsource(cls) for cls in getattr(method, "sources", type(method).__mro__[:-1])
            )
        except (OSError, TypeError):
            return MethodOutputs(views, views, wide=True)
        used, reference = (
            tuple(view for view in views if re.search(rf"\b{view}\.({names})", source))
            for names in (r"[a-z_]+\(|reference\b", r"reference\b|[a-z_]+_from_reference")
        )
        return MethodOutputs(
            used or views, reference, *(bool(re.search(names, source)) for names in (_READ, _WIDE))
        )
