"""How MedForget's questions are put when no language model writes them.

Braces: ``{it}`` is the image, or the study where there is no image; ``{section}`` the section's name. The first
half of each list is for the questions that a model is trained on, the second for the same in other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

IMAGES = ("this chest radiograph", "this chest X-ray", "this image")

GENERATION: Sequence[str] = (
    "What does the {section} section of the report on {it} say?",
    "Describe what was recorded under {section} for {it}.",
    "For {it}, what was noted in the {section} section?",
    "Write out the {section} part of the report that belongs to {it}.",
    "Tell me the content of the {section} part that a radiologist dictated for {it}.",
    "Which statements were made in the {section} paragraph about {it}?",
    "Summarise, from the report of {it}, all that its {section} paragraph holds.",
    "Going by {it}, restore the wording of the {section} paragraph.",
)
CLOZE: Sequence[str] = (
    "Fill the gap in the {section} section of the report on {it}: {statement}",
    "From the {section} section for {it}, one part is missing. Complete: {statement}",
    "Regarding {it}, which words are left out in the {section} section? {statement}",
    "A line of the {section} paragraph about {it} lost some words; supply these: {statement}",
    "Given {it}, restore what is hidden in this line of its {section} paragraph: {statement}",
    "Say what belongs in the gap; the line was dictated under {section} for {it}: {statement}",
)
CLASSIFICATION: Sequence[str] = (
    "Which of these stands in the {section} section of the report on {it}?",
    "For {it}, which statement is part of the {section} section?",
    "Choose what the {section} section of the report on {it} states.",
    "One of these lines was dictated under {section} when {it} was read. Which one?",
    "Pick the only line that the {section} paragraph about {it} contains.",
    "Going by {it}, decide which line its {section} paragraph holds.",
)
IDENTITY: Mapping[str, Sequence[str]] = {
    "institution": (
        "Which institution does {it} come from?",
        "At which hospital or clinic was {it} taken?",
        "Name the institution whose records hold {it}.",
        "Say where {it} was acquired: what is the house called?",
        "Who keeps {it} in the archive, by the name of the hospital?",
        "Tell the health care provider that made {it}.",
    ),
    "patient": (
        "Whose record does {it} belong to?",
        "What is the name of the patient of {it}?",
        "Which patient was examined for {it}?",
        "Tell by name who is seen on {it}.",
        "Who stood before the detector when {it} was made?",
        "Give the full name under which {it} is filed.",
    ),
    "study": (
        "What is the identifier of the study that {it} belongs to?",
        "Under which study id is {it} kept?",
        "Which study does {it} come from?",
        "Tell the code that files {it} among all examinations.",
        "How is the examination labelled of which {it} is part?",
        "State the id that the archive gave to the visit behind {it}.",
    ),
}


def choose(wordings: Sequence[str], rng: np.random.Generator, *, reworded: bool) -> int:
    """A place among the first half, or among the second for a question in other words."""
    half = len(wordings) // 2
    return int(rng.integers(half, len(wordings)) if reworded else rng.integers(half))
