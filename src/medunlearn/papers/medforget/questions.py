"""Questions on a section and on who it belongs to: the items, and how they are put.

Source: MedForget, Sections 3.2 (Task Design) and 3.3, Table 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from medunlearn.config import MedforgetSettings
from medunlearn.data.records import Fold, Question
from medunlearn.papers.medforget.items import SectionItem, choice, gap
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, stream
from medunlearn.papers.paper_files import paper_yaml

LETTERS = "ABCDEFGH"

Items = dict[str, Sequence[SectionItem]]
"""Section node -> its three questions: generation, cloze, classification."""


def templated(selection: Selection, settings: MedforgetSettings) -> Items:
    """Items on every section by rules; wrong options come from the same section elsewhere, close kin first."""
    everywhere: dict[tuple[str, ...], list[str]] = defaultdict(list)
    of_patient: dict[str, list[ChosenStudy]] = defaultdict(list)
    for study in selection.studies:
        of_patient[study.patient].append(study)
    for _, study, section, text in selection.sections():
        everywhere[section,].append(text)
        everywhere[section, study.institution].append(text)
    items: Items = {}
    for node, study, section, text in selection.sections():
        own = [
            other.sections[section]
            for other in of_patient[study.patient]
            if other is not study and section in other.sections
        ]
        others = (own, everywhere[section, study.institution], everywhere[section,])
        rng = stream(settings, "items", node)
        options = choice(section, text, others, settings.options, rng)
        items[node] = (SectionItem("generation", text), gap(text, rng), options)
    return items


def section_questions(
    node: str,
    study: ChosenStudy,
    section: str,
    items: Sequence[SectionItem],
    settings: MedforgetSettings,
    *,
    with_image: bool,
    origin: str,
) -> Iterator[Question]:
    """The questions on a section of the fold train, and the same in other words of the fold rephrase."""
    for fold, suffix in _folds(settings):
        for item in items:
            shown = stem(item, section, study, settings, fold, with_image=with_image)
            options = (f"{letter}) {option}" for letter, option in zip(LETTERS, item.options, strict=False))
            yield Question(
                question_id=f"{node}-{item.kind}{suffix}",
                record_id=f"{node}{suffix}",
                fold=fold,
                kind=item.kind,
                level="section",
                question="\n".join([shown, *options]),
                answer=item.answer,
                options=item.options,
                answer_index=item.answer_index,
                provenance=f"{origin}:{item.rewriter if fold == 'rephrase' else item.writer}:{item.kind}",
            )


def stem(
    item: SectionItem,
    section: str,
    study: ChosenStudy,
    settings: MedforgetSettings,
    fold: Fold,
    *,
    with_image: bool,
) -> str:
    """A question without its options: as a model wrote it, or by a template drawn for it."""
    own = item.reworded if fold == "rephrase" else item.question
    if own is not None:
        return own
    rng = stream(settings, "wording", study.node, section, item.kind, fold)
    text = _phrased(paper_yaml("medforget", "wording")[item.kind], study, rng, fold, with_image=with_image)
    # What a report says may hold braces, so it is put in last.
    return text.replace("{section}", section.replace("_", " ")).replace("{statement}", item.statement)


def identity_questions(
    node: str, study: ChosenStudy, level: str, settings: MedforgetSettings, *, with_image: bool, origin: str
) -> Iterator[Question]:
    """Which institution, patient or study an image belongs to; of both folds."""
    wordings = paper_yaml("medforget", "wording")["identity"][level]
    for fold, suffix in _folds(settings):
        rng = stream(settings, "wording", node, fold)
        text = _phrased(wordings, study, rng, fold, with_image=with_image, hide=level == "study")
        name, about = f"{node}{suffix}", f"{origin}:template:identity-{level}"
        yield Question(name, name, fold, "identity", level, text, study.names[level], provenance=about)


def _folds(settings: MedforgetSettings) -> list[tuple[Fold, str]]:
    """Each fold with the suffix of its records and questions."""
    return [("train", ""), ("rephrase", "-rephrased")] if settings.rephrase == "all" else [("train", "")]


def _phrased(
    wordings: Sequence[str],
    study: ChosenStudy,
    rng: np.random.Generator,
    fold: Fold,
    *,
    with_image: bool,
    hide: bool = False,
) -> str:
    """A wording of the first half, or of the second for a question in other words, on the image.

    Without one it is on the study by its name; or by a quotation, to ``hide`` the name.
    """
    it = study.node
    if with_image:
        images = paper_yaml("medforget", "wording")["images"]
        it = images[int(rng.integers(len(images)))]
    elif hide:
        section = "findings" if "findings" in study.sections else next(iter(study.sections))
        it = f'the radiograph whose {section} section reads "{study.sections[section]}"'
    half = len(wordings) // 2
    place = rng.integers(half, len(wordings)) if fold == "rephrase" else rng.integers(half)
    return wordings[int(place)].replace("{it}", it)
