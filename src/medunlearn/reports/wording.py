"""Measures in words, for axes, heads of tables, and sentences."""

from __future__ import annotations

from medunlearn.reports.readings import Results

SIDES = {"retain": "retain set", "forget": "forget set"}


def metric_words(results: Results, metric: str | None, side: str) -> str:
    """``harmonic mean of ROUGE-L, exact memorization and token entropy``; a single metric's title."""
    if metric is None:
        return "not measured"
    if not metric.startswith("H("):
        return lower_first(results.describe(metric, side)[0])
    parts = [part.strip() for part in metric[2:-1].split(",")]
    return f"harmonic mean of {listed([_part_words(results, part, side) for part in parts])}"


def _part_words(results: Results, part: str, side: str) -> str:
    name = part.removeprefix("1-")
    title = lower_first(results.describe(name, side)[0])
    return f"1 − {title}" if name != part else title


def lower_first(text: str) -> str:
    """A title within a sentence: ``exact memorization``, but ``ROUGE-L``."""
    first = text.split(" ")[0]
    return text if any(letter.isupper() for letter in first[1:]) or len(first) < 2 else text[0].lower() + text[1:]


def listed(words: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
