"""Questions on a section and on who it belongs to: the items, and how they are put.

Source: MedForget, Sections 3.2 (Task Design) and 3.3, Table 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from medunlearn.config import MedforgetSettings
from medunlearn.data.records import Fold, Kind, Question
from medunlearn.papers.medforget.items import Choice, Gap, choice, gap
from medunlearn.papers.medforget.selection import ChosenPatient, ChosenStudy, Selection
from medunlearn.papers.medforget.wording import CLASSIFICATION, CLOZE, GENERATION, IDENTITY, IMAGES, choose
from medunlearn.seeds import generator

LETTERS = "ABCDEFGH"
_WORDINGS = {"generation": GENERATION, "cloze": CLOZE, "classification": CLASSIFICATION}


@dataclass(frozen=True)
class Asked:
    """One question on a section.

    Attributes:
        kind: generation, cloze or classification.
        question: as a language model put it; None to put it by a template.
        reworded: the same in other words; None for a template's other words.
        answer, options, answer_index: as in a question.
        statement: of a cloze.
        writer, rewriter: ``template`` (``template-spare`` with wrong options of no report), or the prompt of the
            model that wrote it; of the question, and of its other words.
    """

    kind: Kind
    answer: str
    question: str | None = None
    reworded: str | None = None
    options: tuple[str, ...] = ()
    answer_index: int | None = None
    statement: str = ""
    writer: str = "template"
    rewriter: str = "template"


Item = Sequence[Asked]
"""The three questions on one section."""


def templated(selection: Selection, settings: MedforgetSettings) -> dict[str, Item]:
    """Items on every section by rules: section node -> generation, cloze, classification."""
    kin = _Kin(selection)
    found: dict[str, Item] = {}
    for patient in selection.patients:
        for study in patient.studies:
            for section, text in study.sections.items():
                node = f"{study.node}-{section}"
                rng = _stream(settings, "items", node)
                chosen = choice(section, text, kin.others(patient, study, section), settings.options, rng)
                found[node] = (Asked("generation", text), _cloze(gap(text, rng)), _classification(chosen))
    return found


def section_questions(
    study: ChosenStudy, section: str, item: Item, settings: MedforgetSettings, *, with_image: bool, origin: str
) -> list[Question]:
    """The questions on a section of the fold train, and the same in other words of the fold rephrase."""
    node = f"{study.node}-{section}"
    made = []
    for fold in _folds(settings):
        for asked in item:
            shown = stem(asked, section, study, settings, fold, with_image=with_image)
            made.append(
                Question(
                    question_id=f"{node}-{asked.kind}" + ("-rephrased" if fold == "rephrase" else ""),
                    record_id=node,
                    fold=fold,
                    kind=asked.kind,
                    level="section",
                    question=_with_options(shown, asked.options),
                    answer=asked.answer,
                    options=asked.options,
                    answer_index=asked.answer_index,
                    provenance=f"{origin}:{asked.rewriter if fold == 'rephrase' else asked.writer}:{asked.kind}",
                )
            )
    return made


def stem(
    asked: Asked, section: str, study: ChosenStudy, settings: MedforgetSettings, fold: Fold, *, with_image: bool
) -> str:
    """A question without its options: as a model wrote it, or by a template drawn for it."""
    own = asked.reworded if fold == "rephrase" else asked.question
    if own is not None:
        return own
    rng = _stream(settings, "wording", study.node, section, asked.kind, fold)
    wordings = _WORDINGS[asked.kind]
    it = _it(study, rng, with_image=with_image)
    template = wordings[choose(wordings, rng, reworded=fold == "rephrase")]
    # What a report says may hold braces, so it is put in last.
    text = template.replace("{it}", it).replace("{section}", section.replace("_", " "))
    return text.replace("{statement}", asked.statement)


def identity_questions(
    study: ChosenStudy, level: str, name: str, settings: MedforgetSettings, *, with_image: bool, origin: str
) -> list[Question]:
    """Which institution, patient or study an image belongs to; of both folds."""
    node = f"{study.node}-identity-{level}"
    made = []
    for fold in _folds(settings):
        rng = _stream(settings, "wording", node, fold)
        wordings = IDENTITY[level]
        it = _it(study, rng, with_image=with_image, hide=level == "study")
        question = wordings[choose(wordings, rng, reworded=fold == "rephrase")].format(it=it)
        suffix = "-rephrased" if fold == "rephrase" else ""
        provenance = f"{origin}:template:identity-{level}"
        made.append(
            Question(f"{node}{suffix}", node, fold, "identity", level, question, name, provenance=provenance)
        )
    return made


def _folds(settings: MedforgetSettings) -> tuple[Fold, ...]:
    return ("train", "rephrase") if settings.rephrase == "all" else ("train",)


def _it(study: ChosenStudy, rng: np.random.Generator, *, with_image: bool, hide: bool = False) -> str:
    """What the question is about: the image; without one the study's name, or a quotation where that is asked."""
    if with_image:
        return IMAGES[int(rng.integers(len(IMAGES)))]
    if not hide:
        return study.node
    section = "findings" if "findings" in study.sections else next(iter(study.sections))
    return f'the radiograph whose {section} section reads "{study.sections[section]}"'


def _with_options(stem: str, options: Sequence[str]) -> str:
    lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([stem, *lines])


def _cloze(found: Gap) -> Asked:
    return Asked("cloze", found.answer, statement=found.statement)


def _classification(found: Choice) -> Asked:
    writer = "template" if not found.spare else "template-spare"
    return Asked(
        "classification",
        found.options[found.answer_index],
        options=found.options,
        answer_index=found.answer_index,
        writer=writer,
    )


class _Kin:
    """Texts of the same section elsewhere, the closest relatives first."""

    def __init__(self, selection: Selection) -> None:
        self._all: dict[str, list[str]] = {}
        self._institution: dict[tuple[str, str], list[str]] = {}
        for patient in selection.patients:
            for study in patient.studies:
                for section, text in study.sections.items():
                    self._all.setdefault(section, []).append(text)
                    self._institution.setdefault((patient.institution, section), []).append(text)

    def others(self, patient: ChosenPatient, study: ChosenStudy, section: str) -> Iterator[Sequence[str]]:
        yield [one.sections[section] for one in patient.studies if one is not study and section in one.sections]
        yield self._institution[patient.institution, section]
        yield self._all[section]


def _stream(settings: MedforgetSettings, *purpose: str) -> np.random.Generator:
    return generator("medforget", settings.seed, *purpose)
