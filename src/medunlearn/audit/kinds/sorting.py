"""Sorting of an audit's memorized spans into kinds: by rules, by a language model, by people.

Each sorter labels the same spans, those of :mod:`memorized_spans`. It has its own rows in
``kinds.parquet``; the rows of the others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.audit_tables import KEY, AuditTables
from medunlearn.audit.judge import UNCLEAR, AuditJudge, MemorizedKind, named_judge
from medunlearn.audit.kinds.kind_rules import Label, kinds, sort_span
from medunlearn.audit.kinds.memorized_spans import Texts, collect_spans
from medunlearn.config import check
from medunlearn.config.audit import KindSettings
from medunlearn.data.leftovers import read_whole
from medunlearn.data.origins import Provenance, is_rehearsal_model, read_provenance
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_json, read_table, refuse_existing, write_json, write_table
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.labels import LabelSheet
from medunlearn.judging.writing import Reject, Source, write
from medunlearn.llm import Client, CostEstimate

FILE, FACTS = "kinds.parquet", "kinds.json"
SCHEMA = pa.schema(
    [
        *(("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32()), ("span", pa.int32())),
        *(("length", pa.int32()), ("records", pa.int32())),
        *(("kind", pa.string()), ("group", pa.string()), ("by", pa.string()), ("reason", pa.string())),
    ]
)
SORTERS = ("rules", "judge", "person")
"""Values of the column ``by``."""

_NO_KIND_FITS: Label = (None, "the person finds that no kind fits")


def sort_spans(audit: AuditTables, settings: KindSettings, corpora: Texts | None = None) -> pd.DataFrame:
    """Sort an audit's spans by rules and save ``kinds.parquet``.

    Args:
        corpora: texts in which records that contain a span are counted. None: the audited records only, as far as
            their probes cover them, which finds fewer set phrases.

    Returns:
        KEY, span (number among the response's spans), length, records, kind (None without a rule), group, by,
        reason.
    """
    spans = collect_spans(audit, settings, corpora)
    evidence = spans[["text", "corpus", "identified", "records"]].itertuples(name=None)
    labels = {name: sort_span(settings, *row) for name, *row in evidence}
    return _save(audit.folder, spans, "rules", labels, settings)


def judge_spans(
    audit: AuditTables, settings: KindSettings, client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """Sort the spans with a language model; otherwise like :func:`sort_spans`.

    Spans are records' text: the client's guard lets them go to a server off this machine only with permission.

    Returns:
        Also the rejects that a rerun may resolve (server, network or budget failed).
    """
    spans = collect_spans(audit, settings)
    outcome = write(MemorizedKind(), _prompts(spans), client, quiet=quiet)
    labels: dict[str, Label] = {reject.id: (None, reject.reason) for reject in outcome.rejects}
    labels |= {name: (str(result["kind"]), None) for name, result in outcome.results.items()}
    task = MemorizedKind()
    origin = client.provenance(task.title, task.version, task.prompt_sha256)
    facts = {"judge": client.settings.name, "llm": client.facts(), "provenance": [origin.to_json()]}
    return _save(audit.folder, spans, "judge", labels, settings, **facts), outcome.to_ask_again


def plan_kinds(audit: AuditTables, settings: KindSettings, judge: AuditJudge) -> CostEstimate:
    """Requests and tokens for a judge; sends and writes nothing."""
    return judge.estimate(MemorizedKind(), _prompts(collect_spans(audit, settings)))


def _prompts(spans: pd.DataFrame) -> list[Source]:
    """Prompts for the judge. Their identifiers are unknown, so the guard treats them as protected."""
    return [Source(str(name), {"span": text}) for name, text in spans["text"].items()]


@cache
def kind_sheet() -> LabelSheet:
    """The sheet on which people sort spans."""
    labels = {name: name for name in (*kinds(), UNCLEAR)}
    return LabelSheet(
        labels, ("span",), ("kind", "comment"), case_column="span_id", label_column="kind", noun="the spans"
    )


def span_sheet(
    audit: AuditTables, settings: KindSettings, path: Path, *, sample: int | None = None, seed: int = 0
) -> int:
    """Write a blank sheet of all spans or of a random sample, for :func:`read_spans`.

    Returns:
        Number of spans.

    Raises:
        InputError: no span is long enough, or the sheet exists.
    """
    refuse_existing(path, why="it may contain labels")
    texts = collect_spans(audit, settings)["text"]
    if texts.empty:
        raise InputError(
            f"{audit.folder} has no memorized span of {settings.at_least} tokens. Sort shorter ones: --at-least 30."
        )
    sample_ids = shuffled(texts.index, f"kinds sheet {seed}")[:sample]
    kind_sheet().write(path, [(name, " ".join(texts[name].split())) for name in sample_ids])
    return len(sample_ids)


def read_spans(audit: AuditTables, settings: KindSettings, *sheets: Path) -> pd.DataFrame:
    """Sort the spans as people did in their sheets; otherwise like :func:`sort_spans`.

    A span without a label has no row. A span of several sheets must have one kind.

    Raises:
        SourceError: unknown kinds or spans, a span with two kinds, or no kind at all.
    """
    spans = collect_spans(audit, settings)
    verdicts = kind_sheet().read(sheets, spans.index)
    if not verdicts:
        raise SourceError(f"No span has a kind yet. Write one into `kind`: {', '.join(kind_sheet().labels)}.")
    labels = {name: _NO_KIND_FITS if kind == UNCLEAR else (kind, None) for name, kind in verdicts.items()}
    return _save(audit.folder, spans, "person", labels, settings)


def _save(
    folder: Path,
    spans: pd.DataFrame,
    sorter: str,
    labels: Mapping[str, Label],
    settings: KindSettings,
    **facts: Any,
) -> pd.DataFrame:
    """Replace the rows of one sorter, and record the settings and further facts.

    Args:
        spans: of :func:`collect_spans`.
        labels: by the spans' index; spans without a label have no row.

    Returns:
        The rows of all sorters: the columns of :data:`SCHEMA`.
    """
    stored = read_whole(folder / FILE, lambda path: read_table(path, SCHEMA)) or []
    rows = [row for row in stored if row["by"] != sorter]
    for name, *columns in spans[[*KEY, "span", "length", "records"]].itertuples(name=None):
        if name in labels:
            kind, reason = labels[name]
            group = kinds()[kind].group if kind else None
            rows.append(dict(zip(SCHEMA.names, (*columns, kind, group, sorter, reason), strict=True)))
    write_table(folder / FILE, rows, SCHEMA)
    write_json(folder / FACTS, {**_facts(folder), "settings": settings.model_dump(mode="json"), **facts})
    return pd.DataFrame(rows, columns=SCHEMA.names)


def settings_of(folder: Path) -> KindSettings:
    """Settings of the last sorting; the defaults without one."""
    return check(KindSettings, _facts(folder).get("settings", {}))


def judge_of(folder: Path) -> str | None:
    """The language model that sorted an audit's spans, if any; marked if its kinds were drawn at random."""
    facts = _facts(folder)
    judge: str | None = facts.get("judge")
    return None if judge is None else named_judge(judge, facts.get("provenance"))


def sorted_by(folder: Path) -> tuple[Provenance, ...]:
    """Origin of a language model's sorting of an audit's spans; empty if none sorted them."""
    facts = _facts(folder)
    judge = facts.get("judge")
    if judge is None:
        return ()
    older = Provenance(MemorizedKind.title, str(judge), drawn=True if is_rehearsal_model(str(judge)) else None)
    return read_provenance(facts.get("provenance")) or (older,)


def _facts(folder: Path) -> dict[str, Any]:
    return dict(read_whole(folder / FACTS, read_json) or {})
