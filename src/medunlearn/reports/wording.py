"""Measures in words, for axes, heads of tables, and sentences."""

from __future__ import annotations

from collections.abc import Callable

from medunlearn.reports.readings import Results

SIDES = {"retain": "retain set", "forget": "forget set"}


def metric_words(results: Results, metric: str | None, side: str) -> str:
    """``harmonic mean of ROUGE-L, exact memorization and token entropy``; a single metric's title."""
    if metric is None:
        return "not measured"
    return composite_words(metric, lambda name: results.describe(name, side)[0])


def composite_words(metric: str, title_of: Callable[[str], str]) -> str:
    """The parts of a harmonic mean in words; of any other metric its title."""
    if not metric.startswith("H("):
        return lower_first(title_of(metric))

    def words(part: str) -> str:
        name = part.removeprefix("1-")
        title = lower_first(title_of(name))
        return f"1 − {title}" if name != part else title

    return f"harmonic mean of {listed([words(part.strip()) for part in metric[2:-1].split(',')])}"


def lower_first(text: str) -> str:
    """A title within a sentence: ``exact memorization``, but ``ROUGE-L``."""
    first = text.split(" ")[0]
    return text if any(letter.isupper() for letter in first[1:]) or len(first) < 2 else text[0].lower() + text[1:]


def listed(words: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
