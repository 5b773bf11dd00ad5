"""Perturbations: a step's gradient taken at other weights, so that what is forgotten stays so there too."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.hooks import INNER, StepGradients, is_minimised, is_retained
from medunlearn.methods.protocol import Terms, View
from medunlearn.seeds import stable_seed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


_OF_LAYER = re.compile(r"\.\d+\.")
"""In the name of a decoder layer's parameter: embeddings and the head, which stay as they are, have no number."""


@dataclass(frozen=True)
class SAM:
    """Sharpness-aware minimization: the forget gradient at ``w + rho g / |g|``, g the forget terms' gradient at w.

    There the forget loss is highest nearby: it is a step towards relearning.

    Source: Fan et al. 2025, arXiv 2502.05374 (NPO+SAM, rho = 0.01), after Foret et al. 2021, arXiv
    2010.01412.

    Attributes:
        rho: length of the move over all trained weights.
    """

    title: ClassVar[str] = "SAM"
    slot: ClassVar[str] = "perturbation"
    needs_gradient: ClassVar[bool] = True
    needs_whole: ClassVar[bool] = False

    rho: Annotated[float, Field(gt=0)] = 0.01

    def terms(self, forget: View) -> Terms:
        return {}

    def directs(self, term: str) -> bool:
        return is_minimised(term) and not is_retained(term)

    def moved(self, step: StepGradients) -> Mapping[str, Tensor]:
        length = math.sqrt(step.dot(step.forget, step.forget))
        scale = self.rho / length if length else 0.0
        return {name: step.parts[name] + scale * gradient for name, gradient in step.forget.items()}


@dataclass(frozen=True)
class Relearn:
    """One inner step of relearning: the forget gradient at ``w - rate * dL(F)/dw``, first order.

    Source: the first-order inner loop of Finn et al. 2017 (MAML), arXiv 1703.03400, used against
    relearning by Tamirisa et al. 2024 (TAR), arXiv 2408.00761, with many inner steps of many attacks.
    The rate is ours.

    Attributes:
        rate: learning rate of the inner step of gradient descent on the forget set's true answers.
    """

    title: ClassVar[str] = "relearning"
    slot: ClassVar[str] = "perturbation"
    needs_gradient: ClassVar[bool] = True
    needs_whole: ClassVar[bool] = False

    rate: Annotated[float, Field(gt=0)] = 0.01

    def terms(self, forget: View) -> Terms:
        return {"inner_nll": forget.nll()}

    def directs(self, term: str) -> bool:
        return term.startswith(INNER)

    def moved(self, step: StepGradients) -> Mapping[str, Tensor]:
        return {name: step.parts[name] - self.rate * gradient for name, gradient in step.forget.items()}


@dataclass(frozen=True)
class WeightNoise:
    """Both sides' gradients at ``w + share * rms(w) * z``, z standard normal, another one each step.

    Source: randomised smoothing of weights, one of the smoothers that Fan et al. 2025, arXiv 2502.05374,
    compare with SAM. The scale by each tensor's own size is ours.

    Attributes:
        share: standard deviation of the noise as a share of each tensor's root mean square.
    """

    title: ClassVar[str] = "noise"
    slot: ClassVar[str] = "perturbation"
    needs_gradient: ClassVar[bool] = False
    needs_whole: ClassVar[bool] = True

    share: Annotated[float, Field(gt=0)] = 0.02

    def terms(self, forget: View) -> Terms:
        return {}

    def directs(self, term: str) -> bool:
        return False

    def moved(self, step: StepGradients) -> Mapping[str, Tensor]:
        import torch

        noisy: dict[str, Tensor] = {}
        for name, part in step.parts.items():
            source = torch.Generator().manual_seed(stable_seed("weight noise", step.number, name))
            noise = torch.randn(part.shape, generator=source).to(part)
            noisy[name] = part + self.share * part.square().mean().sqrt() * noise
        return noisy


@dataclass(frozen=True)
class Int4:
    """Both sides' gradients at the weights rounded to four bits, passed straight through to the current ones.

    So what is forgotten is forgotten by the quantized model too.

    Source: the straight-through estimator of Bengio et al. 2013, arXiv 1308.3432. That quantization
    brings forgotten text back is Zhang et al. 2024, arXiv 2410.16454. Rounding as in
    :func:`medunlearn.models.quantization.rounded`: the matrices of decoder layers, in groups along their rows.
    """

    title: ClassVar[str] = "int4"
    slot: ClassVar[str] = "perturbation"
    needs_gradient: ClassVar[bool] = False
    needs_whole: ClassVar[bool] = False

    def terms(self, forget: View) -> Terms:
        return {}

    def directs(self, term: str) -> bool:
        return False

    def moved(self, step: StepGradients) -> Mapping[str, Tensor]:
        from medunlearn.models.quantization import rounded

        return {
            name: rounded(part, "int4")
            for name, part in step.parts.items()
            if part.dim() == 2 and _OF_LAYER.search(name)
        }
