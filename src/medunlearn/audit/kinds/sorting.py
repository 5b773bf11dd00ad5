"""Kinds of an audit's memorized spans (``kinds.parquet``): by rules, by a judge, by a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.audit_tables import KEY, AuditTables
from medunlearn.audit.judge import UNCLEAR, AuditJudge, MemorizedKind
from medunlearn.audit.kinds.kind_rules import GROUPS, Label, kinds, records_holding, sort_span
from medunlearn.audit.sheets import refuse_existing, refuse_problems, write_sheet
from medunlearn.config import check
from medunlearn.config.audit import KindSettings
from medunlearn.data.leftovers import read_whole
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_json, read_table, write_json, write_table
from medunlearn.errors import InputError, SourceError, unknown_name
from medunlearn.judging.labels import rows_of
from medunlearn.judging.writing import Reject, Source, write
from medunlearn.llm import Client, CostEstimate
from medunlearn.statistics.agreement import Rating, cohen_kappa, in_words, observed_agreement
from medunlearn.statistics.bootstrap import REPLICATES

FILE, FACTS = "kinds.parquet", "kinds.json"
SCHEMA = pa.schema(
    [
        *(("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32()), ("span", pa.int32())),
        *(("length", pa.int32()), ("records", pa.int32())),
        *(("kind", pa.string()), ("group", pa.string()), ("by", pa.string()), ("reason", pa.string())),
    ]
)
WAYS = ("rules", "judge", "person")
AGREEMENT_COLUMNS = (
    *("first", "second", "of", "measure", "value", "low", "high", "words", "n", "n_subjects", "reason"),
)
Texts = Mapping[str, Mapping[str, str]]
"""Corpus -> record_id -> text."""


def sort_spans(audit: AuditTables, settings: KindSettings, corpora: Texts | None = None) -> pd.DataFrame:
    """Sort an audit's spans by rules and save ``kinds.parquet``; labels of a judge or a person stay.

    Args:
        corpora: texts in which records that contain a span are counted. None: the audited records only, as far as
            their probes cover them, which finds fewer set phrases.

    Returns:
        KEY, span (number among the response's spans), length, records, kind (None without a rule), group, by,
        reason.
    """
    spans = collect_spans(audit, settings, corpora)
    evidence = spans[["text", "corpus", "identified", "records"]].itertuples(name=None)
    return _save(audit, spans, "rules", {name: sort_span(settings, *row) for name, *row in evidence}, settings)


def judge_spans(
    audit: AuditTables, settings: KindSettings, client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """Sort the spans with a language model; otherwise like :func:`sort_spans`.

    Spans are records' text: the client's guard lets them go to a server off this machine only with permission.

    Returns:
        Also the rejects that a rerun may resolve (server, network or budget failed).
    """
    spans = collect_spans(audit, settings)
    outcome = write(MemorizedKind(), _sources(spans), client, quiet=quiet)
    labels: dict[str, Label] = {reject.id: (None, reject.reason) for reject in outcome.rejects}
    labels |= {name: (str(result["kind"]), None) for name, result in outcome.results.items()}
    table = _save(audit, spans, "judge", labels, settings)
    _update_facts(audit, {"judge": client.settings.name, "llm": client.facts()})
    return table, outcome.to_ask_again


def plan_kinds(audit: AuditTables, settings: KindSettings, judge: AuditJudge) -> CostEstimate:
    """Requests and tokens for a judge; sends and writes nothing."""
    return judge.estimate(MemorizedKind(), _sources(collect_spans(audit, settings)))


def _sources(spans: pd.DataFrame) -> list[Source]:
    """Prompts for the judge. Their identifiers are unknown, so the guard treats them as protected."""
    return [Source(str(name), {"span": text}) for name, text in spans["text"].items()]


def span_sheet(
    audit: AuditTables, settings: KindSettings, path: Path, *, sample: int | None = None, seed: int = 0
) -> int:
    """Write a private CSV of all spans or a random sample for a person, without the kinds from rules and judge.

    Returns:
        Number of spans.

    Raises:
        InputError: no span is long enough, or the sheet exists.
    """
    refuse_existing(path)
    texts = collect_spans(audit, settings)["text"]
    if texts.empty:
        raise InputError(
            f"{audit.folder} has no memorized span of {settings.at_least} tokens. Sort shorter ones: --at-least 30."
        )
    sample_ids = shuffled(list(texts.index), f"kinds sheet {seed}")[:sample]
    rows = [(name, "", "", " ".join(texts[name].split())) for name in sample_ids]
    write_sheet(path, [("span_id", "kind", "comment", "span"), *rows])
    return len(rows)


def read_spans(audit: AuditTables, settings: KindSettings, *paths: Path) -> pd.DataFrame:
    """Save a person's labels; otherwise like :func:`sort_spans`. A span in several sheets must have one kind.

    Raises:
        SourceError: unknown kinds or spans, or no kind at all.
    """
    spans = collect_spans(audit, settings)
    labels: dict[str, Label] = {}
    for path in paths:
        sheet_labels = read_sheet(path, list(spans.index))
        if differ := [name for name, label in sheet_labels.items() if labels.get(name, label) != label]:
            raise SourceError(
                f"{path}: {len(differ)} spans have another kind in an earlier sheet, first {differ[0]!r}."
            )
        labels |= sheet_labels
    if not labels:
        raise SourceError(f"No span has a kind yet. Write one into `kind`: {', '.join((*kinds(), UNCLEAR))}.")
    return _save(audit, spans, "person", labels, settings)


def read_sheet(path: Path, spans: Sequence[str]) -> dict[str, Label]:
    """Kinds by span id; ``unclear`` becomes None, empty rows are skipped.

    Raises:
        SourceError: no sheet, unknown kinds or spans, a span with two kinds; all with their lines.
    """
    ids = {name.strip(): name for name in spans}
    labels: dict[str, Label] = {}
    problems = []
    for line, row in rows_of(path, ("span_id", "kind")):
        kind, name = row["kind"].strip().lower(), ids.get(row["span_id"].strip())
        if not kind:
            continue
        if name is None:
            problems.append(f"line {line}: span_id {row['span_id']!r} is not among the spans")
        elif kind not in (*kinds(), UNCLEAR):
            problems.append(f"line {line}: {unknown_name('kind', kind, (*kinds(), UNCLEAR))}")
        elif name in labels:
            problems.append(f"line {line}: span_id {name!r} has a kind further up")
        else:
            unclear = (None, "the person finds that no kind fits")
            labels[name] = unclear if kind == UNCLEAR else (kind, None)
    refuse_problems(problems, f"{path}: ", most=len(problems))
    return labels


def settings_of(folder: Path) -> KindSettings:
    """Settings of the last sorting; the defaults without one."""
    return check(KindSettings, _facts(folder).get("settings", {}))


def judge_of(folder: Path) -> str | None:
    """The language model that sorted an audit's spans, if any."""
    judge: str | None = _facts(folder).get("judge")
    return judge


def agreement_of_ways(audit: AuditTables, *, replicates: int = REPLICATES, seed: int = 0) -> pd.DataFrame:
    """Agreement of the sorters in ``kinds.parquet``; empty with fewer than two."""
    if audit.kinds is None or audit.kinds["by"].nunique() < 2:
        return pd.DataFrame()
    table = audit.kinds.set_index([*KEY, "span", "by"])["kind"].unstack("by").reset_index()
    subjects = table[["probe_id"]].merge(audit.probes[["probe_id", "subject"]], on="probe_id")["subject"]
    ratings = table.astype(object).where(table.notna(), None)
    ways = {way: ratings[way].tolist() for way in WAYS if way in ratings}
    return agreement(ways, list(subjects), replicates=replicates, seed=seed)


def agreement(
    ways: Mapping[str, Sequence[Rating]], subjects: Sequence[str], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Raw agreement and Cohen's kappa of each pair of sorters, on the spans to which both gave a kind.

    Args:
        ways: ``rules``, ``judge``, ``person`` -> one kind per span, or None.

    Returns:
        One row per pair of ways, ``of`` (``kind`` or ``group``) and measure: value, low, high, words, n,
        n_subjects, reason (for a missing value). Agreement with people is accuracy.
    """
    draws: dict[str, Any] = {"replicates": replicates, "seed": seed}
    groups = {way: [kind and kinds()[kind].group for kind in ratings] for way, ratings in ways.items()}
    rows = []
    for first, second in combinations(ways, 2):
        for of, ratings, categories in (("kind", ways, tuple(kinds())), ("group", groups, GROUPS)):
            pair = (ratings[first], ratings[second], subjects)
            for measure in ("agreement", "cohen_kappa"):
                kappa = measure == "cohen_kappa"
                agreement = cohen_kappa(*pair, categories, **draws) if kappa else observed_agreement(*pair, **draws)
                words = in_words(agreement.value) if kappa else ""
                reason = "no span has a kind from both" if agreement.n == 0 else "both gave one kind throughout"
                numbers = (agreement.value, agreement.low, agreement.high, words, agreement.n, agreement.n_clusters)
                rows.append((first, second, of, measure, *numbers, reason if agreement.value is None else None))
    # As objects, so that what is missing stays None.
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS), dtype=object)


def collect_spans(audit: AuditTables, settings: KindSettings, corpora: Texts | None = None) -> pd.DataFrame:
    """Spans that are long enough, with their evidence.

    Returns:
        KEY, span, length, text, corpus, records (of its corpus that hold it; None without a text of the corpus)
        and identified (it has an identifier of a subject, :func:`_has_identifier`). The index is an id of probe,
        decoding, sample and number of the span.
    """
    spans = number_spans(audit)
    spans = spans[spans["length"] >= settings.at_least]
    spans = spans.merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    spans["records"] = _record_counts(audit, spans, corpora)
    spans["identified"] = _has_identifier(audit, spans, settings.clinical)
    ids = spans[[*KEY, "span"]].itertuples(index=False, name=None)
    return spans.set_index(pd.Index(["/".join(map(str, span_key)) for span_key in ids], dtype=object))


def number_spans(audit: AuditTables) -> pd.DataFrame:
    """The spans numbered within their response, by position."""
    ordered = audit.spans.sort_values([*KEY, "in_response", "in_suffix"], kind="stable").reset_index(drop=True)
    return ordered.assign(span=ordered.groupby(KEY).cumcount())


def _record_counts(audit: AuditTables, spans: pd.DataFrame, corpora: Texts | None) -> pd.Series:
    counts = pd.Series([None] * len(spans), index=spans.index, dtype=object)
    for corpus, corpus_spans in spans.groupby("corpus"):
        if corpora is not None and corpus in corpora:
            records = list(corpora[str(corpus)].items())
        elif "suffix" in audit.probes:
            probes = audit.probes[audit.probes["corpus"] == corpus]
            columns = probes[["record_id", "prefix", "suffix"]].itertuples(index=False, name=None)
            records = [(str(record), f"{prefix} {suffix}") for record, prefix, suffix in columns]
        else:
            continue
        counts[corpus_spans.index] = records_holding(corpus_spans["text"].tolist(), records)
    return counts


def _has_identifier(audit: AuditTables, spans: pd.DataFrame, clinical: Sequence[str]) -> list[bool]:
    """True for each span with an identifier of its record's subject that the prefix did not contain.

    Identifiers that the record declares always count. Identifiers found by a detector count only in corpora of
    patient records: in literature, ``aged 80`` and ``Johns Hopkins`` identify no patient.
    """
    if audit.findings is None:
        return [False] * len(spans)
    findings = audit.findings
    corpora = findings["probe_id"].map(audit.probes.set_index("probe_id")["corpus"])
    leaked = findings["in_record"].astype(bool) & ~findings["in_prefix"].astype(bool)
    leaks = findings[leaked & ((findings["match"] != "detected") | corpora.isin(clinical))]
    values = {key: leak_values.str.casefold().tolist() for key, leak_values in leaks.groupby(KEY)["value"]}
    rows = spans[[*KEY, "text"]].itertuples(index=False, name=None)
    return [any(value in row[3].casefold() for value in values.get(row[:3], ())) for row in rows]


def _save(
    audit: AuditTables, spans: pd.DataFrame, way: str, labels: Mapping[str, Label], settings: KindSettings
) -> pd.DataFrame:
    stored = read_whole(audit.folder / FILE, lambda path: read_table(path, SCHEMA)) or []
    rows = [row for row in stored if row["by"] != way]
    for name, *columns in spans[[*KEY, "span", "length", "records"]].itertuples(name=None):
        if name in labels:
            kind, reason = labels[name]
            label = (kind, kinds()[kind].group if kind else None, way, reason)
            rows.append(dict(zip(SCHEMA.names, (*columns, *label), strict=True)))
    write_table(audit.folder / FILE, rows, SCHEMA)
    _update_facts(audit, {"settings": settings.model_dump(mode="json")})
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _facts(folder: Path) -> dict[str, Any]:
    return dict(read_whole(folder / FACTS, read_json) or {})


def _update_facts(audit: AuditTables, facts: Mapping[str, Any]) -> None:
    write_json(audit.folder / FACTS, {**_facts(audit.folder), **facts})
