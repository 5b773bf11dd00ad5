"""Measures of teacher-forced likelihoods: of the reference answer, and of right and wrong options.

Log-probabilities are natural logarithms, one per answer token, including the final EOS: shape [tokens + 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import exp, fsum, log

from medunlearn.metrics.measure import COUNT, SHARE, Direction, Item, Measure, Need, PerItem, Range, Score

# Log-softmax in half precision may step over 0 by this much; more is not a log-probability.
_ROUNDING = 1e-2
_LARGEST = 700.0  # exp of more overflows; the score tables hold finite numbers

Options = Sequence[Sequence[float]]
"""Log-probabilities of the tokens of each option."""


def mean_log_prob(log_probs: Sequence[float]) -> float:
    """Log of the length-normalised probability P(a | q) ** (1 / |a|), EOS counted.

    Raises:
        ValueError: no token.
    """
    if len(log_probs) == 0:
        raise ValueError("the answer has no token")
    return fsum(float(value) for value in log_probs) / len(log_probs)


def answer_probability(log_probs: Sequence[float]) -> float:
    """Geometric mean of the answer tokens' probabilities, P(answer | question) ** (1 / tokens).

    Range 0-1, higher = remembers more. NaN if a log-probability is NaN.

    Raises:
        ValueError: no token.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2, "Probability".
    """
    mean = mean_log_prob(log_probs)
    # Not min(1, exp(mean)): min would turn a NaN into a perfect 1.
    return 1.0 if mean > 0.0 else exp(mean)


def _score_answer(item: Item) -> Score:
    log_probs = item.answer_log_probs
    if log_probs is None or len(log_probs) == 0:
        return Score.unscored("the reference answer has no token")
    above = next((value for value in log_probs if value > _ROUNDING), None)
    if above is not None:
        return Score.unscored(f"a log-probability is above 0 ({above:.4g})")
    return Score(answer_probability(log_probs))


ANSWER_PROBABILITY = Measure(
    name="answer_probability",
    title="Answer probability",
    needs=("answer_log_probs",),
    meaning="0-1, higher = the model finds the reference answer likelier",
    source="TOFU (arXiv 2401.06121), Section 2.2",
    score=PerItem(_score_answer),
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def exact_memorization(answer_hits: Sequence[bool], *, ends: bool = True) -> float | None:
    """Share of answer tokens whose arg-max prediction is right, position by position.

    Args:
        answer_hits: one truth value per token, shape [tokens + 1]. The EOS is excluded: every model that ends its
            answers would get it right.
        ends: the last truth value is that of an EOS; False: there is none, shape [tokens].

    Returns:
        0-1, higher = remembers more; None for an answer that is only EOS.

    Source: AMNESIA, Section 5.2 ("position-aligned token Exact Memorization"), after OpenUnlearning (Dorna et al.).
    """
    hits = [bool(hit) for hit in (answer_hits[:-1] if ends else answer_hits)]
    return sum(hits) / len(hits) if hits else None


def _score_hits(item: Item) -> Score:
    value = exact_memorization(item.answer_hits or (), ends=item.ends)
    if value is None:
        return Score.unscored("the reference answer has no token before its EOS")
    return Score(value)


EXACT_MEMORIZATION = Measure(
    name="em",
    title="Exact memorization",
    needs=("answer_hits",),
    meaning="0-1, higher = the model puts more of the answer's tokens first",
    source="AMNESIA, Section 5.2; OpenUnlearning (Dorna et al. 2025)",
    score=PerItem(_score_hits),
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def truth_ratio(right: Sequence[float], wrong: Options, *, geometric: bool = False) -> float:
    """Mean length-normalised probability of the wrong answers over that of the right one (TOFU's paraphrase).

    Args:
        geometric: take the geometric mean over wrong answers (the mean of their logarithms), as TOFU's released
            code, its logs and OpenUnlearning do; else the arithmetic mean of the paper's equation, which is never
            smaller.

    Returns:
        0 to about 1e304 (clipped). Below 1 the model prefers the right answer; around 1 it cannot distinguish them,
        like a model that never learned them.

    Raises:
        ValueError: no wrong answer, or an empty answer.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2, "Truth Ratio"; locuslab/tofu,
    ``aggregate_eval_stat.py``.
    """
    if not wrong:
        raise ValueError("a truth ratio needs at least one wrong answer")
    means = [mean_log_prob(option) for option in wrong]
    if geometric:
        numerator = fsum(means) / len(means)
    else:
        top = max(means)
        numerator = top + log(fsum(exp(mean - top) for mean in means) / len(means))
    logarithm = numerator - mean_log_prob(right)
    # Not min(logarithm, _LARGEST): min would turn a NaN into a number.
    return exp(_LARGEST if logarithm > _LARGEST else logarithm)


def _ratio_of_options(options: Options, right: int, *, geometric: bool = False) -> float:
    wrong = [option for place, option in enumerate(options) if place != right]
    return truth_ratio(options[right], wrong, geometric=geometric)


def truth_ratio_utility(ratio: float) -> float:
    """Truth-ratio utility, max(0, 1 - ratio): 0-1, higher = the right answer is likelier than wrong ones.

    Source: TOFU (arXiv 2401.06121), Section 2.2, "Model Utility".
    """
    return 1.0 - ratio if ratio < 1.0 or ratio != ratio else 0.0


def _utility_of_options(options: Options, right: int, *, geometric: bool = False) -> float:
    return truth_ratio_utility(_ratio_of_options(options, right, geometric=geometric))


def choice_probability(options: Options, right: int) -> float:
    """P(right) / sum of P(option), each length-normalised: P(a | q) ** (1 / |a|).

    Range 0-1, higher = more confident in the right answer; 1 / options = guessing.

    Source: TOFU (arXiv 2401.06121), Section 2.2, "Probability" (real authors, world facts).
    """
    means = [mean_log_prob(option) for option in options]
    top = max(means)
    weights = [exp(mean - top) for mean in means]
    return weights[right] / fsum(weights)


def chooses_right(options: Options, right: int) -> bool:
    """True if the right option is the likeliest, length-normalised as in ``choice_probability``.

    False if another is as likely: a tie is not a choice.

    Source: MedForget, Section 4.1 (Classification Accuracy: "the option with the highest probability"), which does
    not say whether options of more tokens are less probable; here they are not.
    """
    means = [mean_log_prob(option) for option in options]
    return all(means[right] > mean for place, mean in enumerate(means) if place != right)


def _score_options(function: Callable[[Options, int], float], lacking: str, item: Item) -> Score:
    options, right = item.alternative_log_probs, item.answer_index
    if options is None or right is None or len(options) < 2:
        return Score.unscored(f"the question has no {lacking}")
    if any(len(option) == 0 for option in options):
        return Score.unscored("an option has no token")
    return Score(float(function(options, right)))


def _option_measure(
    name: str,
    title: str,
    meaning: str,
    source: str,
    function: Callable[[Options, int], float],
    lacking: str,
    bounds: Range = SHARE,
    direction: Direction = "higher",
) -> Measure:
    score = PerItem(partial(_score_options, function, lacking))
    needs: tuple[Need, ...] = ("alternative_log_probs",)
    return Measure(name, title, needs, meaning, source, score, item_by_item=True, range=bounds, direction=direction)


_TOFU, _WRONG_ANSWERS = "TOFU (arXiv 2401.06121), Section 2.2", "wrong answers to compare with"
TOFU_CODE = "TOFU's released code"
"""Variant of the truth ratio with the geometric mean; published numbers of TOFU and OpenUnlearning are of it."""


def _geometric(measure: Measure, function: Callable[..., float]) -> Measure:
    """Variant of a measure of wrong answers with their geometric mean, as in TOFU's released code."""
    return replace(
        measure,
        name=f"{measure.name}.geometric",
        title=f"{measure.title} ({TOFU_CODE})",
        source="locuslab/tofu, aggregate_eval_stat.py; OpenUnlearning (Dorna et al. 2025)",
        score=PerItem(partial(_score_options, partial(function, geometric=True), _WRONG_ANSWERS)),
        variant=TOFU_CODE,
    )


TRUTH_RATIO = _option_measure(
    name="truth_ratio",
    title="Truth ratio",
    meaning="0 and up, below 1 = finds the right answer likelier than wrong ones, higher = cannot tell them apart",
    source=_TOFU,
    function=_ratio_of_options,
    lacking=_WRONG_ANSWERS,
    bounds=COUNT,
    direction="lower",
)
TRUTH_RATIO_GEOMETRIC = _geometric(TRUTH_RATIO, _ratio_of_options)
TRUTH_RATIO_UTILITY = _option_measure(
    name="truth_ratio_utility",
    title="Truth ratio as utility",
    meaning="0-1, max(0, 1 - truth ratio), higher = finds the right answer likelier than wrong ones",
    source=_TOFU,
    function=_utility_of_options,
    lacking=_WRONG_ANSWERS,
)
TRUTH_RATIO_UTILITY_GEOMETRIC = _geometric(TRUTH_RATIO_UTILITY, _utility_of_options)
CHOICE_PROBABILITY = _option_measure(
    name="choice_probability",
    title="Choice probability",
    meaning="0-1, higher = gives the right answer a larger share beside wrong ones",
    source=_TOFU,
    function=choice_probability,
    lacking="wrong answers to choose from",
)
OPTION_ACCURACY = _option_measure(
    name="option_accuracy",
    title="Classification accuracy",
    meaning="0 or 1, 1 = the right option is the most probable one; the mean of a guess is 1 / options. A choice "
    "overstates forgetting: a model may fail it and still say the answer (arXiv 2510.07626)",
    source="MedForget, Section 4.1",
    function=chooses_right,
    lacking="options to choose from",
)
