"""Questions on a section and on its owner: items, and their wording.

Source: MedForget, Sections 3.2 (Task Design) and 3.3, Table 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medunlearn.data.records import Fold, Question
from medunlearn.papers.medforget.items import SectionItem, SentencePool, choice, gap
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, stream
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.papers.paper_files import paper_yaml

LETTERS = "ABCDEFGH"

Items = dict[str, Sequence[SectionItem]]
"""Section node -> its three questions: generation, cloze, classification."""


def templated(selection: Selection, settings: MedforgetSettings) -> Items:
    """Rule-based items on every section; wrong options come from the same section of other reports, closest
    first.
    """
    everywhere: dict[tuple[str, ...], list[str]] = defaultdict(list)
    of_patient: dict[str, list[ChosenStudy]] = defaultdict(list)
    for study in selection.studies:
        of_patient[study.patient].append(study)
    for _, study, section, text in selection.sections():
        everywhere[section,].append(text)
        everywhere[section, study.institution].append(text)
    pools = {place: SentencePool(texts) for place, texts in everywhere.items()}
    items: Items = {}
    for node, study, section, text in selection.sections():
        of_kin = [
            other.sections[section]
            for other in of_patient[study.patient]
            if other is not study and section in other.sections
        ]
        others = (SentencePool(of_kin), pools[section, study.institution], pools[section,])
        rng = stream(settings, "items", node)
        options = choice(section, text, others, settings.options, rng)
        items[node] = (SectionItem("generation", text), gap(text, rng), options)
    return items


@dataclass(frozen=True)
class Phrasing:
    """Wording of the questions on one study, which is shown or named."""

    study: ChosenStudy
    settings: MedforgetSettings
    with_image: bool
    origin: str = ""

    @property
    def folds(self) -> list[tuple[Fold, str]]:
        """Each fold with the suffix of its records and questions."""
        return [("train", ""), ("rephrase", "-rephrased")] if self.settings.rephrase != "none" else [("train", "")]

    def on_section(self, node: str, section: str, items: Sequence[SectionItem]) -> Iterator[Question]:
        """The questions of the fold train, and their paraphrases of the fold rephrase."""
        for fold, suffix in self.folds:
            for item in items:
                options = (f"{letter}) {option}" for letter, option in zip(LETTERS, item.options, strict=False))
                yield Question(
                    question_id=f"{node}-{item.kind}{suffix}",
                    record_id=f"{node}{suffix}",
                    fold=fold,
                    kind=item.kind,
                    level="section",
                    question="\n".join([self.stem(item, section, fold), *options]),
                    answer=item.answer,
                    options=item.options,
                    answer_index=item.answer_index,
                    provenance=f"{self.origin}:{item.rewriter if suffix else item.writer}:{item.kind}",
                )

    def paraphrased(self, question: Question, items: Sequence[SectionItem], number: int) -> Question:
        """A question of the fold train in a further paraphrase that the fold rephrase lacks; numbered from 1."""
        name = f"{question.question_id}-paraphrase-{number}"
        record = f"{question.record_id}-paraphrase-{number}"
        if question.kind == "identity":
            rng = stream(self.settings, "wording", question.record_id, "train")
            wordings = paper_yaml("medforget", "wording")["identity"][question.level]
            text = self._phrased(wordings, rng, "train", hide=question.level == "study", further=number)
        else:
            item = next(item for item in items if item.kind == question.kind)
            section = question.record_id.removeprefix(f"{self.study.node}-")
            stem = self.stem(item, section, "train", further=number)
            _, *options = question.question.split("\nA) ", 1) if question.options else (question.question,)
            text = "\nA) ".join([stem, *options])
        return replace(question, question_id=name, record_id=record, question=text)

    def stem(self, item: SectionItem, section: str, fold: Fold, further: int = 0) -> str:
        """A question without its options, worded by a model or a random template; with ``further``, always by that
        paraphrase's template.
        """
        by_model = item.reworded if fold == "rephrase" else item.question
        if by_model is not None and not further:
            return by_model
        rng = stream(self.settings, "wording", self.study.node, section, item.kind, fold)
        text = self._phrased(paper_yaml("medforget", "wording")[item.kind], rng, fold, further=further)
        # What a report says may hold braces, so it is put in last.
        return text.replace("{section}", section.replace("_", " ")).replace("{statement}", item.statement)

    def on_identity(self, node: str, level: str) -> Iterator[Question]:
        """Questions on the institution, patient or study of an image, for both folds."""
        for fold, suffix in self.folds:
            rng = stream(self.settings, "wording", node, fold)
            wordings = paper_yaml("medforget", "wording")["identity"][level]
            text = self._phrased(wordings, rng, fold, hide=level == "study")
            name, about = f"{node}{suffix}", f"{self.origin}:template:identity-{level}"
            yield Question(name, name, fold, "identity", level, text, self.study.names[level], provenance=about)

    def _phrased(
        self, wordings: Sequence[str], rng: np.random.Generator, fold: Fold, *, hide: bool = False, further: int = 0
    ) -> str:
        """A wording from the first half of the templates, or from the second for paraphrases, about the image.

        ``further`` selects another wording of the same half, as long as there is one. Without an image the study is
        named, or quoted to ``hide`` its name.
        """
        it, sections = self.study.node, self.study.sections
        if self.with_image:
            images = paper_yaml("medforget", "wording")["images"]
            it = images[int(rng.integers(len(images)))]
        elif hide:
            section = "findings" if "findings" in sections else next(iter(sections))
            it = f'the radiograph whose {section} section reads "{sections[section]}"'
        half = len(wordings) // 2
        place = int(
            rng.integers(half, len(wordings)) if fold == "rephrase" else (rng.integers(half) + further) % half
        )
        return wordings[place].replace("{it}", it)
