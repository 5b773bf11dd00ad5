"""Composites: numbers computed from the means of several measures, registered by name.

A harmonic mean with missing parts is another number, usually a higher one. It is never shown under the paper's
name: ``MU`` has all parts, ``H(rouge_l, em, te)`` some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.data.records import Side
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.statistics.intervals import UNBOUNDED, Bounds

Array = npt.NDArray[np.float64]

# A mean of numbers in [0, 1] may step out of it by rounding; more than this is not rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Composite:
    """A number computed from measures' means on one side; by default their harmonic mean.

    Attributes:
        name, title: name in the paper, shown only with all parts; and title in reports.
        side: side of its definition; None for both.
        parts: its measures, in the paper's order.
        meaning, source: range and direction; paper, section and equation.
        inverted: each mean m is replaced by 1 - m.
        transform: function of each score of the single part; the composite is then the mean of its values.
    """

    name: str
    title: str
    side: Side | None
    parts: tuple[str, ...]
    meaning: str
    source: str
    inverted: bool = False
    transform: Callable[[Array], Array] | None = None

    def measured_parts(self, available: Collection[str]) -> tuple[str, ...]:
        """The parts that are available, in the paper's order."""
        return tuple(part for part in self.parts if part in available)

    def shown_as(self, parts: Sequence[str]) -> str:
        """The displayed name: the paper's with all parts (or without a value), else the parts."""
        if not parts or tuple(parts) == self.parts:
            return self.name
        return f"H({', '.join(f'1-{part}' if self.inverted else part for part in parts)})"

    def of(self, means: Array) -> Array:
        """The composite from the means of its parts, shape [..., parts] -> [...].

        Raises:
            InputError: a mean outside [0, 1].
        """
        if self.transform is not None:
            return np.asarray(means[..., 0])
        return harmonic_means(1.0 - means if self.inverted else means)


def degraded(token_entropies: Array) -> Array:
    """1 if a response's token entropy is 0, else 0; NaN stays NaN. Its mean is DS."""
    return np.where(np.isnan(token_entropies), np.nan, (token_entropies == 0.0).astype(np.float64))


DEGRADATION = "DS"
DEGRADATION_PART = "te"

COMPOSITES: tuple[Composite, ...] = (
    Composite(
        name="MU",
        title="Model utility",
        side="retain",
        parts=("rouge_l", "em", "cs", "te", "es"),
        meaning="0-1, higher = the model still knows what it should",
        source="AMNESIA, Section 5.2, equation 2",
    ),
    Composite(
        name="AFE",
        title="Answer forget efficacy",
        side="forget",
        parts=("rouge_l", "em", "cs", "es"),
        inverted=True,
        meaning="0-1, higher = the model forgot more of what it should",
        source="AMNESIA, Section 5.2, equation 3",
    ),
)
"""The harmonic means of AMNESIA."""

DEGRADATION_SCORE = Composite(
    name=DEGRADATION,
    title="Degradation score",
    side="forget",
    parts=(DEGRADATION_PART,),
    transform=degraded,
    meaning=(
        "0-1, share of forget responses that repeat one token, are empty, or are one token alone (DS less "
        "`degenerate`, by length and no collapse); higher = more output has collapsed, so that a high AFE is not "
        "forgetting"
    ),
    source="AMNESIA, Section 5.2, equation 4",
)

REGISTRY: dict[str, Composite] = {composite.name: composite for composite in (*COMPOSITES, DEGRADATION_SCORE)}
BOUNDS: dict[str, Bounds] = {
    "bart_score": UNBOUNDED,
    "bert_score": (-1.0, 1.0),
    "exposure": UNBOUNDED,
    "gen_score": (0.0, 100.0),
    "longest_run": UNBOUNDED,
    "truth_ratio": UNBOUNDED,
}
"""Measures on another scale than 0-1, whose scores may yet all lie there: their least and greatest score."""
PER_TOKEN = frozenset(
    {
        "answer_probability",
        "bleu",
        "choice_probability",
        "degenerate",
        "em",
        "extraction_strength",
        "longest_run",
        "option_accuracy",
        "partial_match_50",
        "run_30",
        "run_50",
        "te",
        "truth_ratio",
        "truth_ratio_utility",
    }
)
"""Measures that count in tokens, so that models with different tokenizers do not compare by them."""
PER_WORD = frozenset({"bleu.unsmoothed_words"})
"""Variants of them that count in words."""
RESERVED = frozenset(REGISTRY)
"""Names that no measure may have."""


def bounds_of(measure: str) -> Bounds | None:
    """The range of a measure or its variant; None if it must be derived from its scores."""
    return BOUNDS.get(measure.partition(".")[0])


def is_per_token(measure: str) -> bool:
    """True if a measure, or the one that it is a variant of, counts tokens."""
    return measure.partition(".")[0] in PER_TOKEN and measure not in PER_WORD


def composite_named(name: str) -> Composite:
    """The composite registered under a name; UnknownNameError without one."""
    if name not in REGISTRY:
        raise UnknownNameError("composite", name, [*REGISTRY])
    return REGISTRY[name]


def harmonic_mean(values: Sequence[float]) -> float:
    """Number of values over the sum of their reciprocals; 0 if one of them is 0.

    Range 0-1. It is never above the arithmetic mean and close to the smallest value, so that no part can compensate
    for a bad one.

    Raises:
        InputError: no value, or one outside [0, 1] (NaN included).

    Source: AMNESIA, Section 5.2 (H in equations 2 and 3).
    """
    return float(harmonic_means(np.asarray(values, dtype=np.float64)))


def harmonic_means(values: Array) -> Array:
    """:func:`harmonic_mean` along the last axis, shape [..., parts] -> [...].

    Raises:
        InputError: no part, or a value outside [0, 1] (NaN included).
    """
    if values.shape[-1] == 0:
        raise InputError("A harmonic mean of nothing is undefined: give at least one value.")
    inside = (values >= -_ROUNDING) & (values <= 1.0 + _ROUNDING)
    if not inside.all():
        raise InputError(
            f"A harmonic mean takes values between 0 and 1, not {values[~inside][0]}. "
            "Does the metric's score have another range?"
        )
    # 1 / 0 is infinite, and its share of the mean the 0 that is wanted; so is that of a denormal.
    with np.errstate(divide="ignore", over="ignore"):
        reciprocals = (1.0 / np.clip(values, 0.0, 1.0)).sum(axis=-1)
        return np.asarray(values.shape[-1] / reciprocals, dtype=np.float64)
