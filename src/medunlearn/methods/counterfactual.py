"""Counterfactual unlearning: answer about a patient as about a stranger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.errors import ConfigError
from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class Counterfactual:
    """Learns the target's answers about strangers, and lowers the true answer's tokens to a stranger's level, not
    below.

    ``L(A) + gamma mean_F [max(0, log p(y_t|x, y_<t) - c_t) + hold max(0, f_t - log p(y_t|x, y_<t))]
    + alpha mean_t KL(p_ref(. | x_<t) || p(. | x_<t))``.
    A are the target's own answers to the same prompts about invented people, with the patient's name and redrawn
    numbers and dates; c_t is the log-probability of the true token as a continuation of such an answer
    (:mod:`medunlearn.generation.counterfactuals`); the divergence is over the retain set's answers.

    The first term alone teaches other answers but leaves the true ones known: they still rank first among
    alternatives. The second acts on tokens specific to the patient, since generic tokens are likely for strangers
    too, and stops at the stranger's level: pushing further down would leave a trace of forgetting.

    It does not restore tokens that the first steps push too far. With ``hold``, whole-value caps are also lower
    bounds: f_t is c_t there and -inf elsewhere. (The cap of a single token is an average over strangers: a true
    answer held there in every token would be likelier than theirs.) A value held at a stranger's level has no
    margin: later training, without the patient, may raise it above again.

    Source: ours. AltPO (Mekala et al. 2024, arXiv 2409.13474) learns alternative answers by preference, which
    pushes the whole true answer down without a floor; the inverted hinge loss (Cha et al. 2025, arXiv 2408.06621)
    stops at the next likeliest token; WGA (Wang et al. 2025, arXiv 2502.19301) and SatImp (Yang et al. 2025, arXiv
    2505.11953) weigh tokens by how well they are known; UNDIAL (Dong et al. 2024, arXiv 2402.10052) distils from
    the model itself with the true token's logit lowered by a constant. None of them uses answers about strangers.

    Weights that were never far from the target's relearn fast. With ``noise`` the run starts from the target's
    matrices mixed with random ones, and the same terms distil the target into that, after UNDO (arXiv 2506.06278).

    Attributes:
        alternatives: number of alternatives per forget sequence; each epoch uses another. The caps use as many
            strangers.
        gamma: weight of the capped likelihood.
        alpha: weight of the divergence on the retain set.
        whole_values: whether names, dates, identifiers and numbers get whole-value caps
            (:mod:`medunlearn.generation.value_caps`); False: token by token, where an identifier may stay known,
            since behind its first digits the target is sure of the next, and a number that the target gives for
            strangers too.
        hold: weight of the term that raises whole values to their caps, as a share of gamma; 0 disables it. Only
            with ``whole_values``.
        noise: share of fresh random weights in the matrices that the run starts from; 0 starts from the target. A
            larger share needs a longer run.
    """

    title: ClassVar[str] = "Counterfactual"
    family: ClassVar[str] = "alternative answers"
    retain_term: ClassVar[str] = "divergence"
    capped: ClassVar[bool] = True

    alternatives: Annotated[int, Field(ge=1)] = 8
    gamma: Annotated[float, Field(ge=0)] = 4.0
    alpha: Annotated[float, Field(ge=0)] = 4.0
    whole_values: bool = True
    hold: Annotated[float, Field(ge=0)] = 0.0
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def __post_init__(self) -> None:
        if self.hold and not self.whole_values:
            raise ConfigError(["counterfactual.hold needs whole-value caps: leave out whole_values=false"])

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        log_probs = forget.token_log_probs()
        astray = (log_probs - forget.caps()).relu() + self.hold * (forget.floors() - log_probs).relu()
        return {
            "alternatives": alternatives.nll(),
            "forget": self.gamma * forget.mean_over_tokens(astray),
            "retain_kl": self.alpha * retain.mean_over_tokens(retain.divergence_from_reference()),
        }
