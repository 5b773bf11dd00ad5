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
_WIDE = re.compile(r"\.(hidden|log_distribution|divergence_from_reference)\(")


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
        try:
            sources = [inspect.getsource(cls) for cls in type(method).__mro__ if cls.__module__ != "builtins"]
        except (OSError, TypeError):
            return MethodOutputs(VIEWS[:2], VIEWS[:2], wide=True)
        source = "\n".join(sources)
        views = VIEWS if isinstance(method, AlternativesMethod) else VIEWS[:2]
        used = tuple(view for view in views if re.search(rf"\b{view}\.([a-z_]+\(|reference\b)", source)) or views
        reference = tuple(
            view for view in used if re.search(rf"\b{view}\.(reference\b|divergence_from_reference)", source)
        )
        reads = re.search(
            r"\.(nll|sequence_nll|token_log_probs|log_distribution|divergence_from_reference)\(", source
        )
        return MethodOutputs(used, reference, bool(reads), bool(_WIDE.search(source)))
