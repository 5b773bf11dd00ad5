"""Sorting spans into kinds by rules: first by evidence that words cannot give, then by words.

In this order, the first that applies:

1. ``patient_information``: an identifier was found in the span.
2. ``dataset_artifact``: its corpus is declared a data set of questions, or three or more lettered answer options
   stand in it.
3. ``editorial``: at least ``boilerplate`` records of the corpus hold the span. What many records share is a set
   phrase, in clinical notes too.
4. ``clinical_narrative``: its corpus is declared clinical.
5. the kind with the most weight of distinct terms, where it has ``least`` and more than any other.

A span that no rule takes is left without a kind, with the reason: a guess would be counted as knowledge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from medunlearn.audit.kinds.catalogue import Kind, kinds

_OPTION = re.compile(r"(?<!\w)\(?([A-E])[.):]\s+\S")
_OPTIONS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """One memorized span with what is known of it.

    Attributes:
        text: as the response has it.
        corpus: whose record it is from.
        identified: whether an identifier of a person was found in it.
        records: how many records of the corpus hold it; None where nobody looked.
    """

    text: str
    corpus: str
    identified: bool = False
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Sorted:
    """The kind of a span; None with a reason where no rule takes it."""

    kind: str | None
    reason: str = ""


@dataclass(frozen=True)
class Rules:
    """How spans are sorted.

    Attributes:
        clinical: corpora of patients' records.
        datasets: corpora of questions with answers.
        boilerplate: so many records share a set phrase.
        least: least weight of distinct terms that makes a kind.
    """

    clinical: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()
    boilerplate: int = 5
    least: int = 2

    def sort(self, span: Span) -> Sorted:
        """The kind of one span."""
        if span.identified:
            return Sorted("patient_information")
        if span.corpus in self.datasets or len(set(_OPTION.findall(span.text))) >= _OPTIONS:
            return Sorted("dataset_artifact")
        if span.records is not None and span.records >= self.boilerplate:
            return Sorted("editorial")
        if span.corpus in self.clinical:
            return Sorted("clinical_narrative")
        return self._by_terms(span.text)

    @cached_property
    def _worded(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in kinds().values() if kind.terms)

    def weights(self, text: str) -> Mapping[str, int]:
        """Weight of the distinct terms of each kind that stand in a text."""
        low = text.lower()
        return {
            kind.name: sum(weight for term, weight in kind.terms.items() if term.search(low))
            for kind in self._worded
        }

    def _by_terms(self, text: str) -> Sorted:
        weights = self.weights(text)
        first, second, *_ = sorted(weights.values(), reverse=True)
        if first < self.least:
            return Sorted(None, "too few terms of any kind")
        if first == second:
            tied = " and ".join(name for name, weight in weights.items() if weight == first)
            return Sorted(None, f"as many terms of {tied}")
        return Sorted(max(weights, key=lambda name: weights[name]))
