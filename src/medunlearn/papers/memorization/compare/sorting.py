"""The kinds of an audit's memorized spans: by rules, by a judge, by a person; kept in ``kinds.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.kinds import Rules, Sorted, Span, group_of, kinds
from medunlearn.audit.kinds.agreement import agreement
from medunlearn.audit.kinds.asking import ask_kinds
from medunlearn.audit.kinds.frequency import records_holding
from medunlearn.audit.kinds.sheet import UNCLEAR, read_sheet, write_sheet
from medunlearn.config import check
from medunlearn.config.audit_report import KindSettings
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_json, write_json, write_table
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.writing import Reject
from medunlearn.llm.client import Client
from medunlearn.papers.memorization.compare.frames import KEY, AuditFrames
from medunlearn.statistics.bootstrap import REPLICATES

FILE, HOW = "kinds.parquet", "kinds.json"
SCHEMA = pa.schema(
    [
        *(("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32()), ("span", pa.int32())),
        *(("length", pa.int32()), ("records", pa.int32())),
        *(("kind", pa.string()), ("group", pa.string()), ("by", pa.string()), ("reason", pa.string())),
    ]
)
WAYS = ("rules", "judge", "person")


def sort_spans(
    audit: AuditFrames, settings: KindSettings, corpora: Mapping[str, Mapping[str, str]] | None = None
) -> pd.DataFrame:
    """Sort an audit's spans by rules and keep them as ``kinds.parquet``; what a judge or a person said stays.

    Args:
        corpora: corpus -> record_id -> text, to count how many records hold a span. Without it, the audited records
            alone are counted, as far as their probes show them: set phrases are then found less often.

    Returns:
        The table: KEY, span (number among the probe's spans), length, records, kind (None where no rule takes it),
        group, by, reason.
    """
    spans = material(audit, settings, corpora)
    rules = Rules(frozenset(settings.clinical), frozenset(settings.datasets), settings.boilerplate, settings.least)
    return _keep(audit, spans, "rules", {name: rules.sort(span) for name, span in spans.items()}, settings)


def judge_spans(
    audit: AuditFrames, settings: KindSettings, client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """Have a language model sort the spans; :func:`sort_spans` otherwise.

    Returns:
        Also what has no answer yet that another run may get.
    """
    spans = material(audit, settings)
    given, missing = ask_kinds(spans, client, quiet=quiet)
    table = _keep(audit, spans, "judge", given, settings)
    _remember(audit, {"judge": client.settings.name, "llm": client.facts()})
    return table, missing


def span_sheet(
    audit: AuditFrames, settings: KindSettings, path: Path, *, sample: int | None = None, seed: int = 0
) -> int:
    """Write a CSV for a person, of all spans or a drawn sample, and return how many there are.

    The file holds records' text. What rules and judge said is not in it.
    """
    spans = material(audit, settings)
    drawn = shuffled(list(spans), f"kinds sheet {seed}")[:sample]
    write_sheet(path, {name: spans[name] for name in drawn})
    return len(drawn)


def read_spans(audit: AuditFrames, settings: KindSettings, *paths: Path) -> pd.DataFrame:
    """Keep what people filled in; :func:`sort_spans` otherwise.

    Args:
        paths: sheets; a span in several of them must have one kind.

    Raises:
        SourceError: kinds or spans that are none, or no kind at all.
    """
    spans = material(audit, settings)
    given: dict[str, Sorted] = {}
    for path in paths:
        read = read_sheet(path, list(spans))
        if differ := [name for name, one in read.items() if given.get(name, one) != one]:
            raise SourceError(
                f"{path}: {len(differ)} spans have another kind in a sheet before, {differ[0]!r} first."
            )
        given |= read
    if not given:
        raise SourceError(f"No span has a kind yet. Write one into `kind`: {', '.join((*kinds(), UNCLEAR))}.")
    return _keep(audit, spans, "person", given, settings)


def settings_of(folder: Path) -> KindSettings:
    """With which settings an audit's spans were sorted last; the usual ones where they were not."""
    return check(KindSettings, _remembered(folder).get("settings", {}))


def judge_of(folder: Path) -> str | None:
    """The model that sorted an audit's spans, where one did."""
    found = _remembered(folder).get("judge")
    return None if found is None else str(found)


def agreement_of_ways(audit: AuditFrames, *, replicates: int = REPLICATES, seed: int = 0) -> pd.DataFrame:
    """How far the ways of ``kinds.parquet`` agree; empty where it has one way only."""
    if audit.kinds is None or audit.kinds["by"].nunique() < 2:
        return pd.DataFrame()
    table = audit.kinds.set_index([*KEY, "span", "by"])["kind"].unstack("by").reset_index()
    subjects = table[["probe_id"]].merge(audit.probes[["probe_id", "subject"]], on="probe_id")["subject"]
    ways = {
        way: [one if isinstance(one, str) else None for one in table[way]] for way in WAYS if way in table.columns
    }
    return agreement(ways, list(subjects), replicates=replicates, seed=seed)


def material(
    audit: AuditFrames, settings: KindSettings, corpora: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Span]:
    """Span id -> the span with what is known of it. An id names probe, decoding, sample and number of the span."""
    table = numbered(audit)
    table = table[table["length"] >= settings.at_least]
    table = table.merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    held = _held(audit, table, corpora)
    identified = _identified(audit, table)
    return {
        _id(row): Span(str(row["text"]), str(row["corpus"]), seen, count)
        for row, seen, count in zip(table.to_dict("records"), identified, held, strict=True)
    }


def numbered(audit: AuditFrames) -> pd.DataFrame:
    """The spans with their number among those of one response, in the order of their places."""
    ordered = audit.spans.sort_values([*KEY, "in_response", "in_suffix"], kind="stable").reset_index(drop=True)
    return ordered.assign(span=ordered.groupby(KEY).cumcount())


def _held(
    audit: AuditFrames, spans: pd.DataFrame, corpora: Mapping[str, Mapping[str, str]] | None
) -> list[int | None]:
    """How many records of its own corpus hold each span; None where no text of the corpus is at hand."""
    found: list[int | None] = [None] * len(spans)
    for corpus, places in spans.reset_index(drop=True).groupby("corpus").groups.items():
        if corpora is not None and corpus in corpora:
            records = list(corpora[str(corpus)].items())
        elif "suffix" in audit.probes:
            own = audit.probes[audit.probes["corpus"] == corpus]
            records = [
                (str(r), f"{p} {s}") for r, p, s in zip(own["record_id"], own["prefix"], own["suffix"], strict=True)
            ]
        else:
            continue
        texts = [str(spans["text"].iloc[place]) for place in places]
        for place, count in zip(places, records_holding(texts, records), strict=True):
            found[place] = count
    return found


def _identified(audit: AuditFrames, spans: pd.DataFrame) -> list[bool]:
    """Whether an identifier of the record that the prefix did not give was found in the text of each span."""
    if audit.findings is None:
        return [False] * len(spans)
    leaks = audit.findings[audit.findings["in_record"].astype(bool) & ~audit.findings["in_prefix"].astype(bool)]
    values: dict[tuple[str, str, int], list[str]] = {}
    for *key, value in leaks[[*KEY, "value"]].itertuples(index=False, name=None):
        values.setdefault((key[0], key[1], key[2]), []).append(str(value).casefold())
    return [
        any(value in text.casefold() for value in values.get((probe, variant, sample), ()))
        for probe, variant, sample, text in spans[[*KEY, "text"]].itertuples(index=False, name=None)
    ]


def _keep(
    audit: AuditFrames, spans: Mapping[str, Span], way: str, given: Mapping[str, Sorted], settings: KindSettings
) -> pd.DataFrame:
    table = numbered(audit)
    table = table[table["length"] >= settings.at_least]
    rows = []
    for row in table.to_dict("records"):
        name = _id(row)
        if name not in given:
            continue
        one = given[name]
        kept = {column: row[column] for column in (*KEY, "span", "length")}
        group = group_of(one.kind) if one.kind else None
        sorted_as = {"kind": one.kind, "group": group, "by": way, "reason": one.reason or None}
        rows.append(kept | {"records": spans[name].records} | sorted_as)
    others = _others(audit.folder / FILE, way)
    write_table(audit.folder / FILE, [*others, *rows], SCHEMA)
    _remember(audit, {"settings": settings.model_dump(mode="json")})
    return pd.DataFrame([*others, *rows], columns=SCHEMA.names)


def _remembered(folder: Path) -> dict[str, Any]:
    return dict(read_json(folder / HOW)) if (folder / HOW).exists() else {}


def _remember(audit: AuditFrames, facts: Mapping[str, Any]) -> None:
    write_json(audit.folder / HOW, {**_remembered(audit.folder), **facts})


def _others(path: Path, way: str) -> list[dict[str, object]]:
    if not path.exists():
        return []
    table = pd.read_parquet(path)
    if missing := set(SCHEMA.names) - set(table.columns):
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; move it away and sort again.")
    kept = table[table["by"] != way]
    rows = kept.astype(object).where(kept.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _id(row: Mapping[Any, Any]) -> str:
    return f"{row['probe_id']}/{row['variant']}/{row['sample']}/{row['span']}"
