"""Gradient rules: the forget side's gradient, changed so that the retain side is spared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.methods.hooks import StepGradients
from medunlearn.seeds import stable_seed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

EXACT = 1024
"""Smaller dimension up to which principal components are exact; above, they are from a randomised decomposition."""


@dataclass
class GRU:
    """Takes off the forget gradient what would raise the retain loss.

    With ``r_t = gamma g_R + (1 - gamma) r_{t-1}``: where ``<g_F, r_t> < 0`` the step's gradient is
    ``g_F - <g_F, r_t> / |r_t|^2 r_t``, else g_F. The retain set's gradient itself is not descended.

    Source: Wang et al. 2025 (Gradient Rectified Unlearning), arXiv 2503.09117; gamma = 0.8 as in
    locuslab/open-unlearning (src/trainer/unlearn/gru.py).

    Attributes:
        gamma: weight of this step's retain gradient in the running mean; 1 uses it alone.
    """

    title: ClassVar[str] = "GRU"
    slot: ClassVar[str] = "gradient_rule"
    needs_whole: ClassVar[bool] = True

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.8

    def __post_init__(self) -> None:
        self._mean: dict[str, Tensor] = {}

    def combine(self, step: StepGradients) -> Mapping[str, Tensor]:
        for name, gradient in step.retain.items():
            before = self._mean.get(name)
            self._mean[name] = self.gamma * gradient if before is None else before.lerp(gradient, self.gamma)
        product, square = step.dot(step.forget, self._mean), step.dot(self._mean, self._mean)
        share = product / square if product < 0 else 0.0
        spared = {name: self._mean[name] * -share for name in self._mean.keys() - step.forget.keys() if share}
        return spared | {
            name: gradient - share * self._mean[name] if name in self._mean else gradient
            for name, gradient in step.forget.items()
        }

    def state_dict(self) -> Mapping[str, Tensor]:
        return self._mean

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._mean = dict(state)

    def after_step(self, terms: Mapping[str, float]) -> None:
        """Nothing: the mean is updated where the gradients are."""


@dataclass
class RepSelect:
    """Collapses the principal components of the forget gradient, which are shared with much else.

    Of each matrix's forget gradient ``G = sum_i s_i u_i v_i^T`` the first k components are scaled down to
    ``s_i (s_k / s_i)^2``: once for the inputs (v_i), once for the outputs (u_i), so that none is longer than the
    k-th. What is specific to the forget set remains. The retain gradient is added as it is.

    Source: Sondej, Yang and Mahdi 2026, arXiv 2606.17168 ("soft" collapse on both sides; their 512
    components of widths about 4096 are an eighth; no retain term; SGD, so ``optimizer: sgd``). It follows CIR
    (Sondej and Yang 2025, arXiv 2509.11816), which collapses components of activations and output gradients. Theirs
    takes the components once, from the gradient summed over the forget set behind an adapter trained on it; here
    each step collapses its own gradient.

    Attributes:
        share: of the smaller dimension: the components that are collapsed.
    """

    title: ClassVar[str] = "RepSelect"
    slot: ClassVar[str] = "gradient_rule"
    needs_whole: ClassVar[bool] = True

    share: Annotated[float, Field(gt=0, lt=1)] = 0.125

    def combine(self, step: StepGradients) -> Mapping[str, Tensor]:
        collapsed = {
            name: self.collapse(gradient, (name, step.number)) if gradient.dim() == 2 else gradient
            for name, gradient in step.forget.items()
        }
        for name, gradient in step.retain.items():
            collapsed[name] = collapsed[name] + gradient if name in collapsed else gradient
        return collapsed

    def collapse(self, gradient: Tensor, purpose: tuple[Any, ...] = ()) -> Tensor:
        """A matrix with its first components scaled down; the input is not changed."""
        import torch

        count = max(1, round(self.share * min(gradient.shape)))
        exact = gradient.float() if gradient.dtype in (torch.float16, torch.bfloat16) else gradient
        if min(gradient.shape) <= EXACT:
            left, sizes, right = torch.linalg.svd(exact, full_matrices=False)
            left, sizes, right = left[:, :count], sizes[:count], right[:count]
        else:
            with torch.random.fork_rng(devices=[exact.device] if exact.device.type == "cuda" else []):
                torch.manual_seed(stable_seed("repselect", *purpose))
                left, sizes, columns = torch.svd_lowrank(exact, q=count)
                right = columns.T
        if not sizes[-1]:
            return gradient
        less = sizes - sizes[-1] ** 2 / sizes
        collapsed: Tensor = exact - (left * less) @ right
        return collapsed.to(gradient.dtype)
