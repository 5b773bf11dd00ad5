"""Counterfactual unlearning: say of a patient what would be said of a stranger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.errors import ConfigError
from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class Counterfactual:
    """Learns what the target says of strangers, and lowers her own tokens to a stranger's level, not below it.

    ``L(A) + gamma mean_F [max(0, log p(y_t|x, y_<t) - c_t) + hold max(0, f_t - log p(y_t|x, y_<t))]
    + alpha mean_t KL(p_ref(. | x_<t) || p(. | x_<t))``.
    A are the target's own answers to the same prompts about invented people, under her name and with numbers and
    dates drawn anew; c_t is the log-probability of her true token where such an answer leaves off
    (:mod:`medunlearn.generation.counterfactuals`); the divergence is over the retain set's answers.

    The first term alone teaches other answers and leaves the true ones known: they rank first among alternatives
    still. The second acts on tokens that are hers alone, since those that anybody's answer has are likely for
    strangers too, and ends where a stranger would be: what is pushed further down is a trace of its own.

    Nothing in it brings back what the first steps push too far, while all else is learned anew. With ``hold``,
    values that are capped as wholes are held at their caps from below as well: f_t is c_t there and -inf elsewhere.
    The cap of a single token is an average over strangers: a true answer that is held there in every token is
    likelier than theirs. What lies at a stranger's level has no room: trainings that follow, without her, bring it
    above that again.

    Source: ours. AltPO (Mekala et al. 2024, arXiv 2409.13474) learns alternative answers by preference, which
    pushes the whole true answer down without a floor; the inverted hinge loss (Cha et al. 2025, arXiv 2408.06621)
    stops at the next likeliest token; WGA (Wang et al. 2025, arXiv 2502.19301) and SatImp (Yang et al. 2025, arXiv
    2505.11953) weigh tokens by how well they are known; UNDIAL (Dong et al. 2024, arXiv 2402.10052) distils from
    the model itself with the true token's logit lowered by a constant. None of them asks what would be said of a
    stranger.

    Weights that were never far from the target's relearn fast. With ``noise`` the run starts from the target's
    matrices mixed with random ones, and the same terms distil the target into that, after UNDO (arXiv 2506.06278).

    Attributes:
        alternatives: of each forget sequence; each epoch shows another. As many strangers set the caps.
        gamma: weight of the capped likelihood.
        alpha: weight of the divergence on the retain set.
        whole_values: whether her names, dates and identifiers are capped as wholes, among others of their kind
            (:mod:`medunlearn.generation.value_caps`); False: token by token as all else.
        hold: weight of what lies below the cap of a whole value, as a share of gamma; 0 leaves it there. Only with
            ``whole_values``.
        noise: share of fresh random weights in the matrices that the run starts from; 0 starts from the target. The
            more, the longer the run has to be.
    """

    title: ClassVar[str] = "Counterfactual"
    capped: ClassVar[bool] = True

    alternatives: Annotated[int, Field(ge=1)] = 8
    gamma: Annotated[float, Field(ge=0)] = 4.0
    alpha: Annotated[float, Field(ge=0)] = 4.0
    whole_values: bool = False
    hold: Annotated[float, Field(ge=0)] = 0.0
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def __post_init__(self) -> None:
        if self.hold and not self.whole_values:
            raise ConfigError(["counterfactual.hold needs values that are capped as wholes: whole_values true"])

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        log_probs = forget.token_log_probs()
        astray = (log_probs - forget.caps()).relu() + self.hold * (forget.floors() - log_probs).relu()
        return {
            "alternatives": alternatives.nll(),
            "forget": self.gamma * forget.mean_over_tokens(astray),
            "retain_kl": self.alpha * retain.mean_over_tokens(retain.divergence_from_reference()),
        }
