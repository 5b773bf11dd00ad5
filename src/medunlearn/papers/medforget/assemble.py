"""``build medforget`` into a folder.

Beside what :mod:`medunlearn.papers.llm_build` writes, the folder gets ``images/`` and ``images.parquet``,
``studies.parquet`` (which of the source's studies each node is) and ``excluded.parquet`` (what was left out, and
why).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from medunlearn.config import MedforgetSettings, check
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.image_files import NOTE, checked_images, write_image_table
from medunlearn.data.storage import make_folder, write_table
from medunlearn.llm import CostEstimate
from medunlearn.papers.llm_build import (
    BuildResult,
    Say,
    Writer,
    build_facts,
    build_key,
    record_rejects,
    recorded,
    refuse_another,
)
from medunlearn.papers.medforget.build import assemble, open_source, source_use
from medunlearn.papers.medforget.pictures import Gallery
from medunlearn.papers.medforget.questions import Items, templated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, select
from medunlearn.papers.medforget.writing import cost, write_items
from medunlearn.pipeline.benchmark_builds import keep_tighter, refuse_foreign, save_new
from medunlearn.sources.openi import REPORTS
from medunlearn.sources.vqa import read_general

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
    """Build MedForget into a folder; again, what is there is checked and left as it is.

    Args:
        values: of :class:`~medunlearn.config.MedforgetSettings`.
        quiet: no progress bars, nothing said.
        say: takes a line about what was left out.

    Raises:
        ConfigError, SourceError: wrong settings, or a source or image that cannot be read.
        InputError: the folder holds something else, or too few patients are eligible.
        MedunlearnError: server, network or budget kept something from being written; the rest is kept.
    """
    settings = check(MedforgetSettings, values)
    refuse_foreign(out)
    key = _key(settings)
    refuse_another(out, key, again=settings.again)
    if (out / MANIFEST).exists():
        benchmark = keep_tighter(Benchmark.load(out), settings.data_use)
        checked_images(benchmark)
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
        items, notes = (
            _written(selection, settings, writer, out, facts, quiet)
            if writer is not None
            else (templated(selection, settings), {})
        )
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
    """Cost of :func:`build_medforget` by task, empty without a server; nothing is sent and nothing is written."""
    settings = check(MedforgetSettings, values)
    if not settings.llm:
        return {}
    source = open_source(settings)
    writer = Writer.of(settings, out, data_use=source_use(source, settings))
    return cost(select(source, settings), settings, writer)


def _written(
    selection: Selection, settings: MedforgetSettings, writer: Writer, out: Path, facts: dict[str, Any], quiet: bool
) -> tuple[Items, dict[str, Any]]:
    """Items by a language model, and what the manifest says of them."""
    make_folder(out)
    with writer.session(facts, quiet=quiet) as session:
        items = write_items(selection, settings, session)
    rejects = record_rejects(out, session.rejects, facts)
    session.refuse_unfinished()
    return items, {"prompts": facts["prompts"], "by templates instead": rejects}


def _study_row(drawn: ChosenStudy, count: int) -> dict[str, str]:
    """A study's row; files and positions of several images are joined by semicolons."""
    study = drawn.study
    views = study.views(count)
    names = "; ".join(view.path.name for view in views if view.path is not None)
    positions = "; ".join(view.position for view in views)
    labels = json.dumps(dict(study.labels), sort_keys=True)
    row = (drawn.node, drawn.patient, drawn.institution, study.study, study.patient, names, positions, labels)
    return dict(zip(_STUDY_COLUMNS, row, strict=True))


def _key(settings: MedforgetSettings) -> str:
    reports = settings.openi / REPORTS if settings.openi is not None and settings.openi.is_dir() else settings.openi
    # Folders were built when this was the default.
    counted = settings.model_copy(update={"data_use": settings.data_use or "credentialed"})
    unset = [] if settings.max_pixels is not None else ["max_pixels"]
    unset += ["images_per_study"] if settings.images_per_study == 1 else []
    return build_key(counted, [settings.folder, reports, settings.general], besides=unset)
