"""Formatting of numbers and places, equal in every output format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medunlearn.statistics.intervals import LEAST_P, LEVEL, MIN_SUBJECTS, clopper_pearson, subjects_needed, too_few
from medunlearn.terminal import size

ALL = "all"
"""Every kind of question together."""

_CONTEXTS = {
    "closed_book": "closed book (the record is not in the prompt)",
    "note": "note (the record is in the prompt)",
}
UNSCORED = "unscored"
ABSENT = "–"


def decimal(value: float) -> str:
    """A number with three decimals, a true minus sign, and no negative zero."""
    text = f"{value:.3f}"
    return text.replace("-", "−") if float(text) else "0.000"


def signed(value: float) -> str:
    """A number with three decimals and always a sign."""
    text = decimal(value)
    return text if text.startswith("−") or not float(text) else f"+{text}"


def interval(low: float | None, high: float | None) -> str:
    """``[low, high]``; empty without an interval."""
    return "" if low is None or high is None else f"[{decimal(low)}, {decimal(high)}]"


def percent_interval(low: float | None, high: float | None, form: str = ".1f") -> str:
    """``[low, high]`` of shares in percent; empty without an interval."""
    return "" if low is None or high is None else f"[{100 * low:{form}}, {100 * high:{form}}]"


def interval_note(
    low: float | None, high: float | None, n_subjects: int | None, n_effective: float | None = None
) -> str:
    """``[0.010, 0.052], 30 subjects``; with fewer than five effective subjects, why there is no interval."""
    if n_subjects is None:
        return interval(low, high)
    few = ""
    if n_subjects < MIN_SUBJECTS:
        few = " (too few for an interval)"
    elif n_effective is not None and too_few(n_effective):
        few = f" (of unequal size, they count as {n_effective:.1f}: too few for an interval)"
    return ", ".join(filter(None, (interval(low, high), f"{count(n_subjects, 'subject')}{few}")))


def share_of_subjects(hits: int, n_subjects: int, noun: str = "patient") -> str:
    """``0 of 30 patients; at most 11.6% (95%)``, ``3 of 30 patients; 2.1% to 26.5% (95%)``."""
    text = f"{hits:,} of {count(n_subjects, noun)}"
    if n_subjects < MIN_SUBJECTS:
        return f"{text}; too few for an interval"
    low, high = clopper_pearson(hits / n_subjects, n_subjects, 1.0 - LEVEL)
    bound = f"at most {high:.1%}" if not hits else f"{low:.1%} to {high:.1%}"
    return f"{text}; {bound if hits < n_subjects else f'at least {low:.1%}'} (95%)"


def subjects_for_bounds(bounds: Sequence[float] = (0.05, 0.01), noun: str = "patient") -> str:
    """``To show at most 5% needs 72 patients of whom none leaks, at most 1% needs 368.``"""
    first, *more = (f"at most {bound:.0%} needs {subjects_needed(bound):,}" for bound in bounds)
    return ", ".join((f"To show {first} {count(2, noun).partition(' ')[2]} of whom none leaks", *more)) + "."


def p_text(p: float | None) -> str:
    """``0.042``, ``3.1e-05``, ``< 1e-12``, never 0; a dash without a p-value."""
    if p is None:
        return ABSENT
    return "< 1e-12" if p <= LEAST_P else f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def kind_text(kind: str) -> str:
    """A kind in words, including the roll-up."""
    return "all kinds" if kind == ALL else kind


def place_text(fold: str, kind: str) -> str:
    """``train, reasoning``."""
    return f"{fold}, {kind_text(kind)}"


def context_text(context: str) -> str:
    """The context mode in words."""
    return _CONTEXTS.get(context, context)


def duration(seconds: float) -> str:
    """``48.2 s``, ``3 min 20 s``, ``2 h 05 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def count(value: Any, noun: str) -> str:
    """``1 patient``, ``240 patients``; the plain plural of an English noun."""
    plural = noun if noun.endswith("s") else f"{noun}s"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        plural = f"{noun[:-1]}ies"
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{text} {noun if value == 1 else plural}"


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted keys and short text."""
    texts: dict[str, str] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            texts |= flat(item, f"{name}.")
        else:
            texts[name] = _plain(name, item)
    return texts


def _plain(name: str, item: Any) -> str:
    if isinstance(item, bool) or item is None:
        return {True: "yes", False: "no", None: "none"}[item]
    if isinstance(item, (list, tuple)):
        return ", ".join(str(part) for part in item) or "none"
    if not isinstance(item, (int, float)):
        return str(item)
    if "seconds" in name:
        return duration(float(item))
    if name.split(".")[0].endswith("_bytes"):
        return size(item)
    return f"{item:,}" if abs(item) >= 10_000 else str(item)
