"""Groups of methods that LUME's findings are about, by what methods declare of themselves.

The paper names its four. GA, GD and KL raise the forget set's loss without a bound, the first alone, the others
with a term for the retain set; NPO's loss is bounded (Section 3, Appendix E). Every method that declares the same
counts with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.methods import family_of, retain_term_of
from medunlearn.methods.families import DIVERGENCE, GRADIENT_ASCENT, LOSS, NO_TERM, NORMALIZED_ASCENT, PREFERENCE


@dataclass(frozen=True)
class MethodGroup:
    """Methods of some families.

    Attributes:
        families: none for every method.
        retain_term: what preserves the retain set; None for anything.
    """

    title: str
    families: tuple[str, ...] = ()
    retain_term: str | None = None

    def __contains__(self, method: str) -> bool:
        of_family = not self.families or family_of(method) in self.families
        return of_family and self.retain_term in (None, retain_term_of(method))


EVERY_METHOD = MethodGroup("every method")
ASCENT = MethodGroup("gradient ascent", (GRADIENT_ASCENT,))
ASCENT_FORMS = (
    MethodGroup("gradient ascent alone (GA)", ASCENT.families, NO_TERM),
    MethodGroup("gradient ascent with a retain loss (GD)", ASCENT.families, LOSS),
    MethodGroup("gradient ascent with a retain divergence (KL)", ASCENT.families, DIVERGENCE),
)
"""The forms that the paper ran: a finding about gradient ascent is settled only with a run of each."""
DIFFERENCE = MethodGroup("ascent with a retain loss (GD)", (GRADIENT_ASCENT, NORMALIZED_ASCENT), LOSS)
"""The paper explains what it sees of GD by an objective that lowers the retain set's loss, too; bounded or not."""
PREFERENCES = MethodGroup("preference optimization (NPO)", (PREFERENCE,))
