"""``build medforget`` into a folder.

The folder gets the benchmark, ``images/`` and ``images.parquet``, ``studies.parquet`` (which of the source's
studies each node is), ``excluded.parquet`` (what was left out, and why), ``build.json`` and, with a language model,
its responses in ``llm/``, through which a build that was cut off goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import medunlearn
from medunlearn.config import MedforgetSettings, check
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.image_files import NOTE, checked_images, write_image_table
from medunlearn.data.storage import sha256_of, sha256_of_json, write_json, write_table
from medunlearn.errors import MedunlearnError
from medunlearn.judging.writing import reasons, save_rejects
from medunlearn.llm import Estimate
from medunlearn.papers.amnesia.notes_files import BUILD, REJECTS_FILE, refuse_another
from medunlearn.papers.medforget.build import assemble, open_source
from medunlearn.papers.medforget.pictures import Gallery
from medunlearn.papers.medforget.questions import Item, templated
from medunlearn.papers.medforget.selection import Selection, select
from medunlearn.papers.medforget.writing import Writing
from medunlearn.pipeline.benchmarks import refuse_foreign, save_new
from medunlearn.sources.openi import REPORTS
from medunlearn.sources.radiology import Exclusion
from medunlearn.sources.vqa import GeneralQuestion, read_general

STUDIES_FILE, EXCLUDED_FILE = "studies.parquet", "excluded.parquet"
Say = Callable[[str], None]

_STUDIES = pa.schema(
    [
        (name, pa.string())
        for name in ("study", "patient", "institution", "source_study", "source_patient", "source_image", "labels")
    ]
)
_EXCLUDED = pa.schema([(name, pa.string()) for name in ("what", "id", "reason")])


@dataclass(frozen=True)
class Built:
    """A MedForget benchmark in its folder.

    Attributes:
        excluded: what readers and filters left out.
        facts: what ``build.json`` says.
    """

    benchmark: Benchmark
    excluded: tuple[Exclusion, ...]
    facts: Mapping[str, Any]


def build_medforget(values: Mapping[str, Any], out: Path, *, quiet: bool = True, say: Say = print) -> Built:
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
        found = Benchmark.load(out)
        checked_images(found)
        return Built(found, (), {"key": key})
    source = open_source(settings)
    # Before anything is read at length: a server that may not have the data is refused.
    writing = Writing.of(settings, source.data_use, out) if settings.llm else None
    selection = select(source, settings)
    general, left_out = _general(settings)
    facts: dict[str, Any] = {
        "key": key,
        "medunlearn": medunlearn.__version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings.model_dump(mode="json"),
    }
    items = _items(selection, settings, writing, out, facts, quiet)
    gallery = Gallery(out, settings)
    images = gallery.illustrate(selection, general, quiet=quiet)
    excluded = (*source.excluded, *selection.excluded, *left_out)
    more: dict[str, Any] = {}
    if gallery.files:
        more[NOTE] = dict(write_image_table(out, gallery.files))
    if "prompts" in facts:
        more |= {"prompts": facts["prompts"], "by templates instead": facts["rejects"]}
    benchmark = assemble(source, selection, settings, items, images, general, more)
    write_table(out / STUDIES_FILE, list(_study_rows(selection)), _STUDIES)
    write_table(out / EXCLUDED_FILE, [asdict(one) for one in excluded], _EXCLUDED)
    saved = save_new(benchmark, out)
    write_json(out / BUILD, {"status": "complete", **facts})
    if excluded and not quiet:
        say(f"{len(excluded):,} studies, patients and rows were left out; {out / EXCLUDED_FILE} says why")
    return Built(saved, excluded, facts)


def plan_medforget(values: Mapping[str, Any], out: Path) -> dict[str, Estimate]:
    """What :func:`build_medforget` would send and cost, by task; nothing is sent and nothing is written.

    Empty without a server.
    """
    settings = check(MedforgetSettings, values)
    if not settings.llm:
        return {}
    source = open_source(settings)
    return Writing.of(settings, source.data_use, out).estimates(select(source, settings))


def _items(
    selection: Selection,
    settings: MedforgetSettings,
    writing: Writing | None,
    out: Path,
    facts: dict[str, Any],
    quiet: bool,
) -> Mapping[str, Item]:
    """By templates, or by the language model, whose rejects are written down.

    Raises:
        MedunlearnError: server, network or budget kept something from being written.
    """
    if writing is None:
        return templated(selection, settings)
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        done = writing.run(selection, quiet=quiet)
    except MedunlearnError:
        write_json(out / BUILD, {"status": "incomplete", **facts, **writing.facts})
        raise
    facts |= writing.facts
    save_rejects(out / REJECTS_FILE, done.rejects)
    facts["rejects"] = dict(Counter(f"{reject.task}: {reject.status}" for reject in done.rejects))
    if left := done.left:
        write_json(out / BUILD, {"status": "incomplete", **facts})
        raise MedunlearnError(
            f"{len(left)} requests were not answered to the end, so no benchmark was built. "
            f"{writing.halted or next(iter(reasons(left, most=1)))}\nWhat came back is kept: give the same command "
            "again and it goes on from there" + ("." if writing.halted else ", or add --leave-out-failed.")
        )
    return done.items


def _general(settings: MedforgetSettings) -> tuple[Sequence[GeneralQuestion], Sequence[Exclusion]]:
    if settings.general is None:
        return (), ()
    return read_general(settings.general, settings.general_rows, settings.seed)


def _study_rows(selection: Selection) -> Iterable[dict[str, str]]:
    for patient in selection.patients:
        for chosen in patient.studies:
            study = chosen.study
            yield {
                "study": chosen.node,
                "patient": patient.node,
                "institution": patient.institution,
                "source_study": study.study,
                "source_patient": study.patient,
                "source_image": study.image.name if study.image is not None else "",
                "labels": json.dumps(dict(study.labels), sort_keys=True),
            }


def _key(settings: MedforgetSettings) -> str:
    """Hash of all that the benchmark depends on besides what a model says; a large folder counts by its name."""
    how = {"llm", "store", "again", "leave_out_failed", "allow_remote_llm"}
    reports = settings.openi / REPORTS if settings.openi is not None and settings.openi.is_dir() else settings.openi
    files = [path for path in (settings.folder, reports, settings.general) if path is not None]
    model = [settings.llm.get("model_name") or settings.llm.get("model"), settings.llm.get("extra")]
    return sha256_of_json(
        [
            settings.model_dump(mode="json", exclude=how),
            [sha256_of(path) for path in files if path.is_file()],
            model,
        ]
    )
