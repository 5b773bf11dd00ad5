"""Membership attacks on a document's token log-probabilities."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from medunlearn.attacks.attack_protocol import Touch
from medunlearn.attacks.membership.membership_attack import MembershipAttack
from medunlearn.attacks.membership.passage import Floats, Need, Passage
from medunlearn.metrics.measure import Score

LEAST_DEVIATION = 1e-6
"""A model that is certain of one token has no spread; its own token then scores 0."""


@dataclass(frozen=True)
class Loss(MembershipAttack):
    """Minus the loss: the mean log-probability of a token. At most 0, higher = more likely a member.

    Source: Yeom et al. 2018, "Privacy risk in machine learning"; the attack of LUME, Section 2.3.
    """

    name: ClassVar[str] = "loss"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}, "quick": {}}
    title: ClassVar[str] = "Loss"
    source: ClassVar[str] = "Yeom et al. 2018; LUME, Section 2.3"

    def score(self, passage: Passage) -> Score:
        return Score(float(passage.log_probs.mean()))


@dataclass(frozen=True)
class ZlibRatio(MembershipAttack):
    """Minus the loss over the text's length in bytes under zlib. At most 0, higher = more likely a member.

    A text of repetitions has a low loss in any model; compressed it is short, so that its ratio is not small.

    Source: Carlini et al. 2021, "Extracting training data from large language models", Section 5.2.
    """

    name: ClassVar[str] = "zlib"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}}
    title: ClassVar[str] = "Zlib"
    source: ClassVar[str] = "Carlini et al. 2021, Section 5.2"

    def score(self, passage: Passage) -> Score:
        return Score(float(passage.log_probs.mean()) / len(zlib.compress(passage.text.encode())))


@dataclass(frozen=True)
class MinK(MembershipAttack):
    """Mean log-probability of the least likely share ``k`` of the tokens. At most 0, higher = more likely a member.

    With ``eos`` the EOS that ends a document is among its tokens; OpenUnlearning leaves it out.

    Source: Shi et al. 2024, "Detecting pretraining data from large language models", with its k = 20%.
    """

    name: ClassVar[str] = "min_k"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}}
    title: ClassVar[str] = "Min-K%"
    source: ClassVar[str] = "Shi et al. 2024"
    k: Annotated[float, Field(gt=0, le=1)] = 0.2
    eos: bool = True

    def score(self, passage: Passage) -> Score:
        return _of_lowest(passage.log_probs, self.k, self.eos)


@dataclass(frozen=True)
class MuseMinK(MinK):
    """Min-K% as MUSE's PrivLeak takes it: k = 40%, without the EOS. At most 0, higher = more likely a member.

    Source: MUSE (Shi et al. 2024, arXiv 2407.06460), Section 3.3; swj0419/muse_bench, ``eval.py`` (``Min-40%`` of
    ``forget_holdout``), whose tokenizer adds no EOS.
    """

    name: ClassVar[str] = "min_k.muse"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    title: ClassVar[str] = "Min-40% without EOS"
    source: ClassVar[str] = "MUSE (arXiv 2407.06460), Section 3.3"
    variant: ClassVar[str] = "MUSE's code"
    k: Annotated[float, Field(gt=0, le=1)] = 0.4
    eos: bool = False


@dataclass(frozen=True)
class MinKPlusPlus(MembershipAttack):
    """Mean of the lowest share ``k`` of ``(log p(token) - mean) / deviation``; higher = more likely a member.

    Mean and standard deviation are those of ``log p(z)`` over tokens z that the model would draw there. No bounds.
    ``eos`` as in Min-K%.

    Source: Zhang et al. 2024, "Min-K%++: improved baseline for detecting pre-training data from large language
    models", with Min-K%'s k = 20%.
    """

    name: ClassVar[str] = "min_k_pp"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}, "quick": {}}
    title: ClassVar[str] = "Min-K%++"
    source: ClassVar[str] = "Zhang et al. 2024 (Min-K%++)"
    needs: ClassVar[tuple[Need, ...]] = ("moments",)
    k: Annotated[float, Field(gt=0, le=1)] = 0.2
    eos: bool = True

    def score(self, passage: Passage) -> Score:
        assert passage.means is not None
        assert passage.variances is not None
        deviations = np.maximum(np.sqrt(passage.variances), LEAST_DEVIATION)
        return _of_lowest((passage.log_probs - passage.means) / deviations, self.k, self.eos)


@dataclass(frozen=True)
class ReferenceRatio(MembershipAttack):
    """Log-likelihood ratio of model and reference model per token of the model; higher = more likely a member.

    ``(log p(text) - log p_reference(text)) / n``, with n the model's number of tokens: with one tokenizer the
    reference's loss minus the model's, so that texts easy for every model cancel out. Not bounded.

    Source: Carlini et al. 2021, "Extracting training data from large language models", Section 5.2 (there a smaller
    model of the same family); Mireshghallah et al. 2022 as a likelihood ratio.
    """

    name: ClassVar[str] = "reference"
    title: ClassVar[str] = "ReferenceRatio"
    source: ClassVar[str] = "Carlini et al. 2021, Section 5.2; Mireshghallah et al. 2022"
    needs: ClassVar[tuple[Need, ...]] = ("reference",)

    def score(self, passage: Passage) -> Score:
        assert passage.reference is not None
        return Score(float(passage.log_probs.sum() - passage.reference) / len(passage.log_probs))


@dataclass(frozen=True)
class GradientNorm(MembershipAttack):
    """Minus the norm of the loss's gradient. At most 0, higher = more likely a member.

    The Euclidean norm over all weights of the gradient of the document's mean token loss. An attacker needs the
    weights for it, and each document takes a backward pass of its own.

    Source: Wang et al. 2024, "Pandora's White-Box", on gradient norms; among the attacks of Dorna et al. 2026
    (OpenUnlearning).
    """

    name: ClassVar[str] = "gradient_norm"
    touches: ClassVar[tuple[Touch, ...]] = ("gradients",)
    title: ClassVar[str] = "Gradient norm"
    source: ClassVar[str] = "Wang et al. 2024; Dorna et al. 2026 (OpenUnlearning)"
    needs: ClassVar[tuple[Need, ...]] = ("gradient_norm",)

    def score(self, passage: Passage) -> Score:
        assert passage.gradient_norm is not None
        return Score(-passage.gradient_norm)


@dataclass(frozen=True)
class ReCaLL(MembershipAttack):
    """Mean log-likelihood behind documents of non-members over that of the document alone; higher = more likely a
    member.

    Both are below 0. A document that was learned by heart loses more by what stands in front of it than one that
    was not. A score above 1: the documents in front make it less likely. No bounds: the mean of
    a document that the model says with certainty is taken to be -1e-6.

    Source: Xie et al. 2024 (arXiv 2406.15968), "ReCaLL: membership inference via relative conditional
    log-likelihoods", Section 3. The documents in front are :data:`~.passes.SHOTS` of the non-members; each is
    scored behind others than itself.
    """

    name: ClassVar[str] = "conditional_ratio"
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}}
    title: ClassVar[str] = "ReCaLL"
    source: ClassVar[str] = "Xie et al. 2024 (arXiv 2406.15968)"
    needs: ClassVar[tuple[Need, ...]] = ("conditional",)

    def score(self, passage: Passage) -> Score:
        assert passage.conditional is not None
        return Score(passage.conditional / min(float(passage.log_probs.mean()), -LEAST_DEVIATION))


def _of_lowest(values: Floats, share: float, eos: bool) -> Score:
    values = values if eos else values[:-1]
    return (
        Score(mean_of_lowest(values, share)) if len(values) else Score.unscored("the document is nothing but EOS")
    )


def mean_of_lowest(values: Floats, share: float) -> float:
    """Mean of the lowest ``share`` of the values: ``floor(share * n)`` of them, at least one."""
    # 0.2 * 15 is a little above 3 and 0.29 * 100 a little below 29: neither is meant.
    count = max(1, int(round(share * len(values), 9)))
    return float(np.partition(values, count - 1)[:count].mean())
