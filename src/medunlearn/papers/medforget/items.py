"""A gap and a choice on a section of a report, made by rules; what is written is checked by the same code that
checks a language model's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from medunlearn.data.radiology import MASK
from medunlearn.data.sentences import sentence_starts
from medunlearn.papers.medforget.checks import BLANK, normalised, said, says, stands_in, wrong_cloze

_WORD = re.compile(r"[^\W_]+(?:[-/'][^\W_]+)*(?:[.,:]\d+)*")
_MEASURE = re.compile(r"\d+(?:[.,:]\d+)*\s?(?:mm|cm|kV|mAs|days|weeks|%)(?!\w)")
_NUMBERING = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+")
_EMPTY_WORDS = """
a about after again all an and any are as at be been before both but by can compared could did do does due for
from had has have if in into is it its may more most no non not of on once or other over per seen show shows
since so some stable such than that the their then there these they this those through to too unchanged until
was were what when where which while who will with within without year old years
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_TELLING_WORDS = """
left right bilateral upper middle lower basilar apical lobe base effusion effusions opacity opacities nodule nodules
pneumothorax cardiomegaly enlarged consolidation atelectasis edema granuloma scarring fracture pacemaker catheter
drain line port pneumonia pain cough dyspnea fever portable lateral frontal spine emphysema hernia tortuous mass
"""
_TELLING = frozenset(_TELLING_WORDS.split())
LONGEST_OPTION = 160
_ALIKE = 0.75

# Lines that no report of the benchmark needs to hold, for sections that too few other studies have.
_SPARE: Mapping[str, Sequence[str]] = {
    "examination": (
        "Radiograph of the left wrist in two planes",
        "Ultrasound of the upper abdomen",
        "Tomography of the sinuses without contrast",
        "Magnetic resonance imaging of the knee",
    ),
    "indication": (
        "Twisted ankle during sports",
        "Toothache since last week",
        "Recurrent kidney stones",
        "Hearing loss after an infection",
    ),
    "technique": (
        "Axial slices after intravenous contrast",
        "Sagittal sequences without contrast",
        "Curved transducer at 3.5 MHz",
        "Digital mammography in two planes",
    ),
    "comparison": (
        "Bone scan of the previous decade",
        "Ultrasound of the thyroid",
        "Mammogram of another hospital",
        "Tomography of the pelvis",
    ),
    "findings": (
        "The gallbladder holds several stones",
        "The wrist joint is narrowed by osteophytes",
        "The sinuses are opacified throughout",
        "The meniscus is torn at its posterior horn",
    ),
    "impression": (
        "Gallstones without signs of inflammation",
        "Osteoarthritis of the wrist",
        "Chronic sinusitis",
        "Torn meniscus",
    ),
}
_SPARE_OTHER = (
    "Sent to the dental clinic",
    "Read together with an ultrasound of the abdomen",
    "Repeat mammography was refused",
    "The wrist was put in plaster",
)


@dataclass(frozen=True, slots=True)
class Gap:
    """A statement with one gap, and the words that fill it."""

    statement: str
    answer: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Options, of which one is right.

    Attributes:
        spare: how many of the wrong ones come from no report.
    """

    options: tuple[str, ...]
    answer_index: int
    spare: int


@lru_cache(maxsize=8192)
def sentences(text: str) -> tuple[str, ...]:
    """Sentences of a section without the numbers of a list, each in one line."""
    starts = [*sentence_starts(text), len(text)]
    parts = (text[start:end] for start, end in pairwise(starts))
    found = (" ".join(_NUMBERING.sub("", part).split()) for part in parts)
    return tuple(one for one in found if normalised(one))


def gap(text: str, rng: np.random.Generator) -> Gap:
    """A gap where a sentence is most telling: a measure, a side, a finding, else a content word.

    Raises:
        ValueError: no word can be left out (:func:`has_gap`; sections are chosen so that one can).
    """
    best: list[Gap] = []
    rank = -1
    for found, value in _gaps(text):
        if value >= rank and not wrong_cloze(found.statement, found.answer, text):
            best = [found] if value > rank else [*best, found]
            rank = value
    if not best:
        raise ValueError("no word of the section can be left out")
    return best[int(rng.integers(len(best)))]


def has_gap(text: str) -> bool:
    """Whether a word can be left out of a sentence that does not hold it twice."""
    return any(not wrong_cloze(found.statement, found.answer, text) for found, _ in _gaps(text))


def _gaps(text: str) -> Iterator[tuple[Gap, int]]:
    for sentence in sentences(text):
        yield from _candidates(sentence)


def choice(
    section: str,
    text: str,
    others: Iterable[Sequence[str]],
    count: int,
    rng: np.random.Generator,
) -> Choice:
    """A sentence of the section among sentences of the same section elsewhere.

    Args:
        others: texts to take wrong options from, the closest relatives first: the patient's other studies, the
            institution's, all.
        count: options in all.
    """
    own = [_shortened(one) for one in sentences(text)]
    whole = [one for one in own if MASK not in one] or own
    longest = max(min(len(said(one)), 4) for one in whole)
    best = [one for one in whole if min(len(said(one)), 4) == longest]
    right = best[int(rng.integers(len(best)))]
    wrong: list[str] = []
    for texts in others:
        _fill(wrong, texts, right, text, count - 1, rng)
        if len(wrong) == count - 1:
            break
    real = len(wrong)
    _fill(wrong, [f"{line}." for line in _SPARE.get(section, _SPARE_OTHER)], right, text, count - 1, rng)
    _fill(wrong, [f"{line}." for line in _SPARE_OTHER], right, text, count - 1, rng)
    options = [right, *wrong]
    order = rng.permutation(len(options)).tolist()
    return Choice(tuple(options[place] for place in order), order.index(0), len(wrong) - real)


def _fill(
    wrong: list[str], texts: Sequence[str], right: str, text: str, count: int, rng: np.random.Generator
) -> None:
    """Add sentences that are not true of the section and unlike all others, until there are ``count``."""
    lines = sorted({_shortened(one) for other in texts for one in sentences(other)})
    for place in rng.permutation(len(lines)).tolist() if lines else ():
        if len(wrong) >= count:
            return
        line = lines[place]
        if MASK in line or not said(line) or says(text, line) or stands_in(right, line):
            continue
        if all(_alike(line, one) < _ALIKE for one in (right, *wrong)):
            wrong.append(line)


def _alike(one: str, other: str) -> float:
    both, either = said(one) & said(other), said(one) | said(other)
    return len(both) / len(either) if either else 1.0


def _shortened(sentence: str) -> str:
    """As many whole words as an option may have."""
    if len(sentence) <= LONGEST_OPTION:
        return sentence
    cut = sentence[: LONGEST_OPTION + 1]
    return (cut.rpartition(" ")[0] or cut[:LONGEST_OPTION]).rstrip(" ,;:")


def _candidates(sentence: str) -> Iterable[tuple[Gap, int]]:
    """Gaps with how telling they are: 4 measures, 3 terms, 2 long words, 1 short ones, 0 grammar."""
    for found in _MEASURE.finditer(sentence):
        yield _cut(sentence, found), 4
    for found in _WORD.finditer(sentence):
        word = found.group().casefold()
        if not any(letter.isalpha() for letter in word):
            continue
        if word in _TELLING:
            value = 3
        elif word in _EMPTY:
            value = 0
        else:
            value = 2 if len(word) > 3 else 1
        yield _cut(sentence, found), value


def _cut(sentence: str, found: re.Match[str]) -> Gap:
    return Gap(sentence[: found.start()] + BLANK + sentence[found.end() :], found.group())
