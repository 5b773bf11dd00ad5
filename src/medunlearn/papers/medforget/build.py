"""MedForget: institution > patient > study > section, with questions on every level, from chest X-rays and reports.

A section is a record with its study's image. A study's identities are separate records, one per level, whose groups
reach down only to that level: forgetting a study forgets its identifier and its sections, but not which institution
its patient goes to (MedForget, Table 2). Paraphrases on a turned view are records and questions of the fold
``rephrase`` in the same groups, so every split's forget set has a rephrased counterpart.

Source: MedForget (Wu et al.), Sections 3.1 to 3.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, build_use
from medunlearn.data.image_files import ImageFile
from medunlearn.data.records import Fold, Identifier, Images, Question, Record, with_images
from medunlearn.data.studies_of_patients import RadiologySource
from medunlearn.errors import ConfigError
from medunlearn.papers.medforget.items import SectionItem
from medunlearn.papers.medforget.partitions import (
    ITEM,
    LEVELS,
    PARAPHRASE,
    SUBJECT,
    TEXT,
    VARIANT,
    VIEW,
    WORDS,
    partitions,
)
from medunlearn.papers.medforget.questions import Items, Phrasing, templated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, select, unfit
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.sources.composed import Composed
from medunlearn.sources.image_table import ImageTable
from medunlearn.sources.mimic_cxr import MimicCxr
from medunlearn.sources.openi import OpenI
from medunlearn.sources.vqa import GeneralQuestion, general_use
from medunlearn.synthetic.radiology import InventedRadiology

_IDENTIFIERS = {"institution": "institution", "patient": "name", "study": "study_id"}


@dataclass(frozen=True)
class Illustrated:
    """Images of a benchmark; paths are relative to its folder.

    Attributes:
        own: study node -> its images; studies without image are missing.
        turned: study node -> turned or augmented images.
        trained: study node -> images of each training paraphrase.
        general: row of the general set -> image.
        files: image files written or referenced.
    """

    own: dict[str, Images] = field(default_factory=dict)
    turned: dict[str, Images] = field(default_factory=dict)
    trained: dict[str, list[Images]] = field(default_factory=dict)
    general: dict[str, str] = field(default_factory=dict)
    files: list[ImageFile] = field(default_factory=list)


def build(settings: MedforgetSettings) -> Benchmark:
    """The benchmark in memory, with template questions and text only, since images need a folder.

    Raises:
        ConfigError: images or a language model are requested.
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
    """The collection named in the settings.

    Raises:
        SourceError: it cannot be read.
    """
    if settings.mimic_cxr is not None:
        return MimicCxr(settings.mimic_cxr, settings.images)
    if settings.openi is not None:
        released = OpenI(settings.openi, settings.images)
        return Composed(released, lambda study: unfit(released, study, settings), settings.studies, settings.seed)
    if settings.folder is not None:
        return ImageTable(settings.folder, settings.images)
    return InventedRadiology(settings.institutions * settings.patients, settings.studies, settings.seed)


def source_use(source: RadiologySource, settings: MedforgetSettings, *, general: bool = False) -> DataUse:
    """Data use of a collection, combined with that of the general questions.

    Raises:
        ConfigError: the settings declare credentialed data open.
    """
    sources = {source.source: source.data_use}
    if general and settings.general is not None:
        sources[f"file {settings.general}"] = general_use(settings.general)
    return build_use(settings.data_use, sources)


def assemble(
    source: RadiologySource,
    selection: Selection,
    settings: MedforgetSettings,
    items: Items,
    images: Illustrated,
    general: Sequence[GeneralQuestion] = (),
    more_notes: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Assemble records, questions and splits from the selection, the items and the images.

    Args:
        general: questions of the fold ``utility``.
        more_notes: further notes for the manifest.
    """
    records: list[Record] = []
    questions: list[Question] = []
    for study in selection.studies:
        for record, questions_on in _of_study(study, source, settings, items, images):
            records.append(record)
            questions += questions_on
    splits = partitions(records, settings.percents, settings.seed, nested=settings.nested)
    for number, row in enumerate(general, start=1):
        name = f"general-{number:05d}"
        image = images.general.get(row.row)
        records.append(Record(name, row.text, {SUBJECT: name}, image=image, fold="utility"))
        for kind, question, answer, options, right in row.tasks():
            task = (kind, "general", question, answer, options, right, f"general:{row.row}")
            questions.append(Question(f"{name}-{kind}", name, "utility", *task))
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
        licence=source.licence or settings.licence,
        data_use=source_use(source, settings, general=bool(general)),
        notes={**_notes(source, selection, settings, images), **(more_notes or {})},
    )


def _of_study(
    study: ChosenStudy, source: RadiologySource, settings: MedforgetSettings, items: Items, images: Illustrated
) -> Iterator[tuple[Record, list[Question]]]:
    """The records of a study with their questions: sections, identities, their paraphrases, and other variants."""
    own_images = images.own.get(study.node, ())
    origin = f"{source.name}-composed" if source.composed else source.name
    phrasing = Phrasing(study, settings, bool(own_images), origin)
    composition = {"composition": "composed"} if source.composed else {}
    chain = {"institution": study.institution, "patient": study.patient, "study": study.node}
    pairs: list[tuple[Record, list[Question]]] = []
    for section, text in study.sections.items():
        node = f"{study.node}-{section}"
        groups = {**chain, "section": node, SUBJECT: study.patient, ITEM: node, **composition}
        questions = list(phrasing.on_section(node, section, items[node]))
        pairs.append((with_images(Record(node, text, groups), own_images), questions))
    for level, name in study.names.items():
        node = f"{study.node}-identity-{level}"
        reach = LEVELS[: LEVELS.index(level) + 1] if settings.identity == "node" else LEVELS[:3]
        groups = {**{of: chain[of] for of in reach}, SUBJECT: study.patient, ITEM: node, **composition}
        identifier = Identifier(_IDENTIFIERS[level], name)
        record = Record(node, f"{level.capitalize()}: {name}.", groups, (identifier,))
        pairs.append((with_images(record, own_images), list(phrasing.on_identity(node, level))))
    for record, questions in pairs:
        trained = [question for question in questions if question.fold == "train"]
        yield record, trained
        if reworded := [question for question in questions if question.fold == "rephrase"]:
            view = images.turned.get(study.node, own_images)
            yield with_images(replace(record, record_id=reworded[0].record_id, fold="rephrase"), view), reworded
            if settings.rephrase == "crossed" and study.node in images.turned:
                yield _variant(record, reworded, WORDS, "reworded", own_images)
                yield _variant(record, trained, VIEW, "turned", view)
        own = items.get(record.record_id, ())
        if settings.text_twin != "none" and own_images:
            yield _by_name(record, trained[0], own, phrasing)
        yield from _paraphrases(record, trained, own, phrasing, images.trained.get(study.node, []))


def _by_name(
    record: Record, question: Question, items: Sequence[SectionItem], phrasing: Phrasing
) -> tuple[Record, list[Question]]:
    """The questions on a record with the study's name instead of its image."""
    plain, node = replace(phrasing, with_image=False), record.record_id
    if question.kind == "identity":
        questions = plain.on_identity(node, question.level)
    else:
        questions = plain.on_section(node, node.removeprefix(f"{phrasing.study.node}-"), items)
    fold: Fold = "train" if phrasing.settings.text_twin == "trained" else "rephrase"
    return _variant(record, [q for q in questions if q.fold == "train"], TEXT, "text", (), fold)


def _paraphrases(
    record: Record,
    questions: Sequence[Question],
    items: Sequence[SectionItem],
    phrasing: Phrasing,
    views: Sequence[Images],
) -> Iterator[tuple[Record, list[Question]]]:
    """Further paraphrases for training, each on a separate view as long as there are some."""
    groups = {**record.groups, VARIANT: PARAPHRASE}
    for number in range(1, phrasing.settings.paraphrases + 1):
        view = views[number - 1] if number <= len(views) else record.images
        varied = [phrasing.paraphrased(question, items, number) for question in questions]
        yield with_images(replace(record, record_id=varied[0].record_id, groups=groups), view), varied


def _variant(
    record: Record,
    questions: Sequence[Question],
    what: str,
    suffix: str,
    images: Images,
    fold: Fold = "rephrase",
) -> tuple[Record, list[Question]]:
    """A record of one fold with questions from another, on other images."""
    name = f"{record.record_id}-{suffix}"
    ids = (f"{question.question_id.removesuffix('-rephrased')}-{suffix}" for question in questions)
    varied = [
        replace(question, question_id=own, record_id=name, fold=fold)
        for question, own in zip(questions, ids, strict=True)
    ]
    groups = {**record.groups, VARIANT: what}
    return with_images(replace(record, record_id=name, groups=groups, fold=fold), images), varied


def _notes(
    source: RadiologySource, selection: Selection, settings: MedforgetSettings, images: Illustrated
) -> dict[str, Any]:
    left_out = Counter(f"{item.what}: {item.reason}" for item in [*source.excluded, *selection.excluded])
    sections = Counter(section for _, _, section, _ in selection.sections())
    is_named = selection.studies[0].study.institution is not None
    notes: dict[str, Any] = {
        "invented": settings.synthetic is not None,
        "institutions": "named by the source" if is_named else "synthetic: patients grouped by seed",
        "patients looked at": selection.looked_at,
        "sections": dict(sections.most_common()),
        "images": sum(map(len, images.own.values())),
    }
    if images.own:
        views = Counter(
            view.position or "unknown"
            for study in selection.studies
            for view in study.study.views(settings.images_per_study)
        )
        notes["view positions"] = dict(views.most_common())
    if source.composed:
        notes["patients"] = "composed: each is put together from the studies of several people"
    if left_out:
        notes["left out"] = dict(left_out.most_common())
    return notes
