"""``build medforget`` into a folder, with questions from templates or a language model.

Prompts show only report sections. Names of institutions, patients and studies are invented, and template questions
ask about them; templates also replace items that the model failed to write. In addition to the files of
:mod:`medunlearn.papers.llm_build`, the folder gets ``images/`` and ``images.parquet``, ``studies.parquet`` (the
source study of each node) and ``excluded.parquet`` (excluded items, with reasons).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from medunlearn.config import check
from medunlearn.data.benchmark import MANIFEST, PROVENANCE, Benchmark
from medunlearn.data.image_files import NOTE, verify_images, write_image_table
from medunlearn.data.storage import write_table
from medunlearn.judging.writing import Source, WritingTask
from medunlearn.llm import CostEstimate
from medunlearn.papers.llm_build import (
    BuildResult,
    Say,
    Writer,
    WritingSession,
    build_facts,
    build_key,
    recorded,
    refuse_another,
)
from medunlearn.papers.medforget.build import assemble, open_source, source_use
from medunlearn.papers.medforget.items import SectionItem
from medunlearn.papers.medforget.pictures import Gallery
from medunlearn.papers.medforget.prompts import MedforgetParaphrase, MedforgetSection
from medunlearn.papers.medforget.questions import Items, Phrasing, templated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, select
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.sources.openi import REPORTS
from medunlearn.sources.vqa import read_general
from medunlearn.study.benchmark_builds import keep_tighter, refuse_foreign, save_new

SECTION, PARAPHRASE = MedforgetSection(), MedforgetParaphrase()
STUDIES_FILE, EXCLUDED_FILE = "studies.parquet", "excluded.parquet"

_STUDY_COLUMNS = (
    "study",
    "patient",
    "institution",
    "source_study",
    "source_patient",
    "source_image",
    "position",
    "labels",
)
_STUDIES, _EXCLUDED = (
    pa.schema([(name, pa.string()) for name in names]) for names in (_STUDY_COLUMNS, ("what", "id", "reason"))
)


def build_medforget(values: Mapping[str, Any], out: Path, *, quiet: bool = True, say: Say = print) -> BuildResult:
    """Build MedForget into a folder; an existing build is checked and left unchanged.

    Args:
        values: settings of :class:`~medunlearn.papers.medforget.settings.MedforgetSettings`.
        quiet: no progress bars and no messages.
        say: called with a line on excluded items.

    Raises:
        ConfigError, SourceError: wrong settings, or a source or image that cannot be read.
        InputError: the folder has other content, or too few patients are eligible.
        MedunlearnError: server, network or budget failed for some texts; the rest is stored.
    """
    settings = check(MedforgetSettings, values)
    refuse_foreign(out)
    key = _key(settings)
    refuse_another(out, key, again=settings.again)
    if (out / MANIFEST).exists():
        benchmark = keep_tighter(Benchmark.load(out), settings.data_use)
        verify_images(benchmark)
        return BuildResult(benchmark, (), {"key": key})
    source = open_source(settings)
    # Before anything is read at length: a server that may not have the data is refused.
    use = source_use(source, settings)
    writer = Writer.of(settings, out, data_use=use) if settings.llm else None
    selection = select(source, settings)
    general, excluded_rows = (
        read_general(settings.general, settings.general_rows, settings.seed) if settings.general else ((), ())
    )
    facts = build_facts(key, settings)
    with recorded(out, facts):
        items, notes = templated(selection, settings), dict[str, Any]()
        if writer is not None:
            with writer.session(out, facts, quiet=quiet) as session:
                items = write_items(selection, settings, session)
            notes = {"prompts": facts["prompts"], "by templates instead": facts["rejects"]}
            notes[PROVENANCE] = facts["provenance"]
        images = Gallery(out, settings).illustrate(selection, general, quiet=quiet)
        if images.files:
            notes[NOTE] = dict(write_image_table(out, images.files))
        excluded = (*source.excluded, *selection.excluded, *excluded_rows)
        benchmark = assemble(source, selection, settings, items, images, general, notes)
        rows = [_study_row(study, settings.images_per_study) for study in selection.studies]
        write_table(out / STUDIES_FILE, rows, _STUDIES)
        write_table(out / EXCLUDED_FILE, [asdict(exclusion) for exclusion in excluded], _EXCLUDED)
        saved = save_new(benchmark, out)
    if excluded and not quiet:
        say(f"{len(excluded):,} studies, patients and rows were left out; {out / EXCLUDED_FILE} says why")
    return BuildResult(saved, (), facts)


def plan_medforget(values: Mapping[str, Any], out: Path) -> dict[str, CostEstimate]:
    """Cost of :func:`build_medforget` by task, empty without a server; sends and writes nothing."""
    settings = check(MedforgetSettings, values)
    if not settings.llm:
        return {}
    source = open_source(settings)
    writer = Writer.of(settings, out, data_use=source_use(source, settings))
    return _cost(select(source, settings), settings, writer)


def _cost(selection: Selection, settings: MedforgetSettings, writer: Writer) -> dict[str, CostEstimate]:
    """Cost by task; sends nothing. Paraphrases are counted for the templates' questions."""
    sources: dict[WritingTask, Sequence[Source]] = {SECTION: _section_sources(selection)}
    if settings.rephrase != "none":
        sources[PARAPHRASE] = list(_stems(selection, settings, templated(selection, settings)))
    return writer.estimates(sources)


def write_items(selection: Selection, settings: MedforgetSettings, session: WritingSession) -> Items:
    """Items of every section, from templates where the model gave none. Rejects are collected by the session."""
    items = templated(selection, settings)
    answers = session.write(SECTION, _section_sources(selection))
    items |= {node: list(_model_items(value)) for node, value in answers.items()}
    if settings.rephrase != "none":
        reworded = session.write(PARAPHRASE, list(_stems(selection, settings, items)))
        rewriter = f"llm:{PARAPHRASE.version}"
        for node, of_section in items.items():
            items[node] = [
                replace(item, reworded=value["question"], rewriter=rewriter) if value else item
                for item in of_section
                for value in [reworded.get(f"{node}-{item.kind}")]
            ]
    return items


def _section_sources(selection: Selection) -> list[Source]:
    return [
        Source(node, {"section": section.replace("_", " "), "text": text}, ())
        for node, _, section, text in selection.sections()
    ]


def _stems(selection: Selection, settings: MedforgetSettings, items: Items) -> Iterator[Source]:
    """Every training question without its options, to be paraphrased."""
    for node, study, section, _ in selection.sections():
        phrasing = Phrasing(study, settings, study.study.shown and not settings.text_only)
        for item in items[node]:
            question = phrasing.stem(item, section, "train")
            yield Source(f"{node}-{item.kind}", {"question": question, "answer": item.answer}, ())


def _model_items(value: Mapping[str, Any]) -> Iterator[SectionItem]:
    writer = f"llm:{SECTION.version}"
    open_item, gap, choice = value["generation"], value["cloze"], value["classification"]
    yield SectionItem("generation", open_item["answer"], open_item["question"], writer=writer)
    yield SectionItem("cloze", gap["answer"], statement=gap["statement"], writer=writer)
    options, right = tuple(choice["options"]), choice["answer_index"]
    yield SectionItem(
        "classification", options[right], choice["question"], options=options, answer_index=right, writer=writer
    )


def _study_row(node: ChosenStudy, count: int) -> dict[str, str]:
    """A study's row; files and positions of several images are joined by semicolons."""
    study = node.study
    views = study.views(count)
    names = "; ".join(view.path.name for view in views if view.path is not None)
    positions = "; ".join(view.position for view in views)
    labels = json.dumps(dict(study.labels), sort_keys=True)
    row = (node.node, node.patient, node.institution, study.study, study.patient, names, positions, labels)
    return dict(zip(_STUDY_COLUMNS, row, strict=True))


def _key(settings: MedforgetSettings) -> str:
    reports = settings.openi / REPORTS if settings.openi is not None and settings.openi.is_dir() else settings.openi
    # Folders were built when this was the default.
    keyed = settings.model_copy(update={"data_use": settings.data_use or "credentialed"})
    unset = [] if settings.max_pixels is not None else ["max_pixels"]
    unset += ["images_per_study"] if settings.images_per_study == 1 else []
    return build_key(keyed, [settings.folder, reports, settings.general], besides=unset)
