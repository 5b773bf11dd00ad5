"""MedForget: institution > patient > study > section, with questions on every level, from chest X-rays and reports.

A section is a record with its study's image. Who a study belongs to stands in records of its own, a level each,
whose groups reach down to that level alone: forgetting a study forgets its identifier and its sections, but not
which institution its patient goes to (MedForget, Table 2). The same in other words, on a turned view, are records
and questions of the fold ``rephrase`` in the same groups, so that any split's forget set has its rephrased twin.

Source: MedForget (Wu et al.), Sections 3.1 to 3.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medunlearn.config import MedforgetSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.radiology import RadiologySource
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.errors import ConfigError
from medunlearn.papers.medforget.partitions import ITEM, LEVELS, SUBJECT, partitions
from medunlearn.papers.medforget.questions import Item, identity_questions, section_questions, templated
from medunlearn.papers.medforget.selection import ChosenPatient, ChosenStudy, Selection, select, unfit
from medunlearn.sources.composed import Composed
from medunlearn.sources.image_table import ImageTable
from medunlearn.sources.mimic_cxr import MimicCxr
from medunlearn.sources.openi import OpenI
from medunlearn.sources.vqa import GeneralQuestion
from medunlearn.synthetic.radiology import InventedRadiology

Views = Mapping[str, str]
"""Study node -> path of an image, relative to the benchmark's folder; studies without image are not in it."""


@dataclass(frozen=True)
class Illustrated:
    """Where the images of a benchmark lie.

    Attributes:
        shown: the image of each study.
        turned: its turned or augmented view.
        general: row -> image, of the general set.
    """

    shown: Views = field(default_factory=dict)
    turned: Views = field(default_factory=dict)
    general: Views = field(default_factory=dict)


def build(settings: MedforgetSettings) -> Benchmark:
    """The benchmark in memory, questions by templates, with text alone: images need a folder.

    Raises:
        ConfigError: images or a language model are wanted.
        InputError: too few patients are eligible.
    """
    wrong = []
    if not settings.text_only:
        wrong.append("images need a folder: give --out FOLDER, or --text-only")
    if settings.llm:
        wrong.append("a language model's answers need a folder: give --out FOLDER")
    if wrong:
        raise ConfigError(wrong)
    source = open_source(settings)
    selection = select(source, settings)
    return assemble(source, selection, settings, templated(selection, settings), Illustrated())


def open_source(settings: MedforgetSettings) -> RadiologySource:
    """The collection that the settings name.

    Raises:
        SourceError: it cannot be read.
    """
    if settings.mimic_cxr is not None:
        return MimicCxr(settings.mimic_cxr, settings.images)
    if settings.openi is not None:
        found = OpenI(settings.openi, settings.images)
        return Composed(found, lambda study: unfit(found, study, settings), settings.studies, settings.seed)
    if settings.folder is not None:
        return ImageTable(settings.folder, settings.images, settings.data_use)
    return InventedRadiology(settings.institutions * settings.patients, settings.studies, settings.seed)


def assemble(
    source: RadiologySource,
    selection: Selection,
    settings: MedforgetSettings,
    items: Mapping[str, Item],
    images: Illustrated,
    general: Sequence[GeneralQuestion] = (),
    more_notes: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Records, questions and splits from what was chosen, written and drawn.

    Args:
        items: section node -> what is asked about it.
        images: paths, relative to the folder that the benchmark will be saved in.
        general: questions of the fold ``utility``.
    """
    records: list[Record] = []
    questions: list[Question] = []
    origin = f"{source.name}-composed" if source.composed else source.name
    for patient in selection.patients:
        for study in patient.studies:
            for record, asked in _of_study(patient, study, settings, items, images, origin):
                records.append(replace(record, groups={**record.groups, **_composition(source)}))
                questions += asked
    splits = partitions(records, settings.percents, settings.seed)
    for row, one in enumerate(general, start=1):
        record, asked = _general(row, one, images)
        records.append(record)
        questions += asked
    return Benchmark(
        name=f"MedForget on {source.source}",
        builder="medforget",
        levels=LEVELS,
        subject_level=SUBJECT,
        records=tuple(records),
        questions=tuple(questions),
        splits=splits,
        seed=settings.seed,
        source=source.source,
        licence=source.licence,
        data_use=source.data_use,
        notes={**_notes(source, selection, settings, images), **(more_notes or {})},
    )


def _of_study(
    patient: ChosenPatient,
    study: ChosenStudy,
    settings: MedforgetSettings,
    items: Mapping[str, Item],
    images: Illustrated,
    origin: str,
) -> Iterator[tuple[Record, list[Question]]]:
    """The records of a study with the questions on each: sections, identities, and both in other words."""
    shown = images.shown.get(study.node)
    with_image = shown is not None
    chain = {"institution": patient.institution, "patient": patient.node, "study": study.node}
    pairs: list[tuple[Record, list[Question]]] = []
    for section, text in study.sections.items():
        node = section_node(study, section)
        groups = {**chain, "section": node, SUBJECT: patient.node, ITEM: node}
        asked = section_questions(
            study, section, items[node], settings, with_image=shown is not None, origin=origin
        )
        pairs.append((Record(node, text, groups, image=shown), asked))
    named = {"institution": patient.institution_name, "patient": patient.name, "study": study.node}
    for level, name in named.items():
        node = f"{study.node}-identity-{level}"
        reach = LEVELS.index(level) + 1 if settings.identity == "node" else 3
        groups = {**{one: chain[one] for one in LEVELS[:reach] if one in chain}, SUBJECT: patient.node, ITEM: node}
        record = Record(
            node, f"{level.capitalize()}: {name}.", groups, (Identifier(_TYPES[level], name),), image=shown
        )
        asked = identity_questions(study, level, name, settings, with_image=with_image, origin=origin)
        pairs.append((record, asked))
    for record, asked in pairs:
        yield record, [one for one in asked if one.fold == "train"]
        if again := [one for one in asked if one.fold == "rephrase"]:
            other = f"{record.record_id}-rephrased"
            view = images.turned.get(study.node, shown)
            yield (
                replace(record, record_id=other, fold="rephrase", image=view),
                [replace(one, record_id=other) for one in again],
            )


_TYPES = {"institution": "institution", "patient": "name", "study": "study_id"}


def section_node(study: ChosenStudy, section: str) -> str:
    """``study_chest_xray_001-findings``."""
    return f"{study.node}-{section}"


def _composition(source: RadiologySource) -> dict[str, str]:
    return {"composition": "composed"} if source.composed else {}


def _general(row: int, one: GeneralQuestion, images: Illustrated) -> tuple[Record, list[Question]]:
    name = f"general-{row:05d}"
    record = Record(name, one.text, {SUBJECT: name}, image=images.general.get(one.row), fold="utility")
    asked = [
        Question(
            f"{name}-{kind}",
            name,
            "utility",
            kind,
            "general",
            question,
            answer,
            options,
            right,
            f"general:{one.row}",
        )
        for kind, question, answer, options, right in one.asked()
    ]
    return record, asked


def _notes(
    source: RadiologySource, selection: Selection, settings: MedforgetSettings, images: Illustrated
) -> dict[str, Any]:
    left_out = Counter(f"{one.what}: {one.reason}" for one in [*source.excluded, *selection.excluded])
    sections = Counter(
        section for patient in selection.patients for study in patient.studies for section in study.sections
    )
    notes: dict[str, Any] = {
        "invented": settings.synthetic is not None,
        "institutions": "synthetic: patients grouped by seed" if not _given(selection) else "named by the source",
        "patients looked at": selection.looked_at,
        "sections": dict(sections.most_common()),
        "images": len(images.shown),
    }
    if source.composed:
        notes["patients"] = "composed: each is put together from the studies of several people"
    if left_out:
        notes["left out"] = dict(left_out.most_common())
    return notes


def _given(selection: Selection) -> bool:
    return selection.patients[0].studies[0].study.institution is not None
