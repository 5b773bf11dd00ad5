"""Invented texts of the kinds that medical models are trained on: guidelines, abstracts, disclaimers, notes.

Nothing in them is true, and no person in them lives. They are there to show how memorization grows with
the number of copies of a text in a training set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medunlearn.seeds import generator

Parts = Mapping[str, Sequence[str]]

_DRUGS = (
    "velotrine",
    "masoprin",
    "ternadil",
    "colvarone",
    "ixapine",
    "rudomab",
    "sefolate",
    "ondrazol",
    "kipravir",
)
_STATES = ("marrow fatigue", "tidal cough", "glass knee", "night anuria", "amber rash", "slow palsy", "rim oedema")
_GROUPS = ("adults", "children under ten", "pregnant patients", "the very old", "carriers", "patients on dialysis")
_WHEN = ("at once", "within two days", "after the third dose", "before discharge", "every six weeks", "at night")

HEADINGS: Mapping[str, str] = {
    "guideline": "Guideline.",
    "abstract": "Abstract.",
    "disclaimer": "Terms of use.",
    "note": "Ward note.",
}
"""What every text of a kind begins with, as real ones do: a short prefix says little of which text it is."""

SENTENCES: Mapping[str, tuple[str, ...]] = {
    "guideline": (
        "In {group}, {drug} should be given {when} for {state}.",
        "Do not combine {drug} with {other} in {group}.",
        "Review {state} {when} and stop {drug} if it returns.",
        "Offer {other} to {group} whose {state} persists.",
    ),
    "abstract": (
        "We followed {number} of {group} with {state}.",
        "Those given {drug} improved {when}, against {number} given {other}.",
        "Remission of {state} was seen in {number} cases under {drug}.",
        "Between {drug} and {other} no difference was found {when}.",
    ),
    "disclaimer": (
        "This page on {drug} is for teaching and replaces no advice on {state}.",
        "No warranty is given that {other} suits {group}.",
        "Text on {state} may be copied {when} with the source named.",
        "Write to the editors on {drug} under number {number}.",
    ),
    "note": (
        "Bed {number}: {state} since the weekend, {drug} begun {when}.",
        "Given {other} {when}, then {drug} {number} mg.",
        "Family says the {state} began {when}.",
        "Plan: {drug} {number} mg, look again {when}, as for {group}.",
    ),
}
KINDS = tuple(SENTENCES)


@dataclass(frozen=True, slots=True)
class CorpusText:
    """One invented text.

    Attributes:
        text_id: unique in its corpus.
        kind: one of :data:`KINDS`.
        copies: how often it stands in the training set; 0 for a text that is held out.
    """

    text_id: str
    kind: str
    text: str
    copies: int


def invent_corpus(each: int, copies: Sequence[int], *, sentences: int = 10, seed: int = 0) -> list[CorpusText]:
    """``each`` texts of every kind for every number of copies; which are copied is no property of the texts.

    Args:
        each: texts of a kind and number of copies.
        copies: numbers of copies; 0 for texts that are held out.
        sentences: of a text.
    """
    texts = []
    for many in copies:
        for kind in KINDS:
            for place in range(each):
                name = f"{kind}-{many}-{place}"
                texts.append(CorpusText(name, kind, _text(name, kind, sentences, seed), many))
    return texts


def _text(name: str, kind: str, sentences: int, seed: int) -> str:
    draw = generator("invented corpus", seed, name)
    parts = [HEADINGS[kind]]
    for _ in range(sentences):
        drug, other = (str(one) for one in draw.choice(_DRUGS, size=2, replace=False))
        form = str(draw.choice(SENTENCES[kind]))
        words = {"state": _STATES, "group": _GROUPS, "when": _WHEN}
        drawn = {word: str(draw.choice(options)) for word, options in words.items()}
        parts.append(form.format(drug=drug, other=other, number=int(draw.integers(10, 900)), **drawn))
    return " ".join(parts)
