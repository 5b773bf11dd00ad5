"""Passes and reference outputs that an unlearning method uses, read from the source of its loss. No torch.

The engine runs only what a loss asks its views for. A plan does not run the loss, so it looks for the names.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, Literal

from medunlearn.methods.editing import EditMethod
from medunlearn.methods.hooks import gradient_rule_of, perturbation_of
from medunlearn.methods.protocol import AlternativesMethod, WeighingMethod, answers_of

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
        gradient_sets: gradients, or copies of the trained weights, that a step holds at once; 1 is a plain step's.
        passes: forward and backward passes over the views in a step; 2 for a perturbation by a gradient.
    """

    views: tuple[View, ...] = VIEWS[:2]
    reference: tuple[View, ...] = ()
    reads: bool = True
    wide: bool = False
    gradient_sets: int = 1
    passes: int = 1

    @staticmethod
    def of(method: Any) -> MethodOutputs:
        """Outputs of a method's loss; both sides and both references if its source is not there."""
        views = VIEWS if isinstance(method, AlternativesMethod) else VIEWS[:2]
        perturbation = perturbation_of(method)
        rule = gradient_rule_of(method) is not None
        passes = 2 if perturbation is not None and perturbation.needs_gradient else 1
        sets = 1 + rule + (perturbation is not None)
        try:
            source = "\n".join(
                inspect.getsource(cls) for cls in getattr(method, "sources", type(method).__mro__[:-1])
            )
        except (OSError, TypeError):
            return MethodOutputs(views, views, wide=True, gradient_sets=sets, passes=passes)
        used, reference = (
            tuple(view for view in views if re.search(rf"\b{view}\.({names})", source))
            for names in (r"[a-z_]+\(|reference\b", r"reference\b|[a-z_]+_from_reference")
        )
        if getattr(method, "alpha", None) == 0 and "if self.alpha" in source:
            used = tuple(view for view in used if view != "retain")
        if isinstance(method, WeighingMethod):
            sets += len(used or views) - 1
        reads, wide = (bool(re.search(names, source)) for names in (_READ, _WIDE))
        return MethodOutputs(used or views, reference, reads, wide, sets, passes)


def method_needs(method: Any) -> dict[str, str]:
    """Needs of a method, in words: the model before unlearning, answers to learn, time and memory of a step.

    The cost is that of a step of plain fine-tuning on one side (a forward and a backward pass, the latter counted
    twice) times the number here; an edit has no steps, and reads each sample once. Reference outputs that are kept
    from the first step on cost nothing after. Memory counts sets of numbers as large as the trained weights, beside
    the weights, one gradient and the optimizer's moments.
    """
    if isinstance(method, EditMethod):
        passes = method.passes(False)
        return {"reference": "", "answers": "", "cost": f"{passes} / 3 once", "memory": "0"}
    outputs = MethodOutputs.of(method)
    learned = isinstance(method, AlternativesMethod)
    kept = len(outputs.views) * outputs.passes
    once = kept + len(outputs.reference) / 3
    cost = f"{kept}" if not outputs.reference else f"{kept} to {once:.2g}"
    sets = outputs.gradient_sets - 1
    memory = f"{sets}" if not outputs.reference else f"{sets} to {sets + 1}"
    return {
        "reference": ", ".join(outputs.reference),
        "answers": f"{method.alternatives} of {answers_of(method)}" if learned else "",
        "cost": cost,
        "memory": memory,
    }
