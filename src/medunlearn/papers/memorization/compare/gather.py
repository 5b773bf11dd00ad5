"""From audits' tables to the content of their report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from medunlearn.audit.kinds import kinds
from medunlearn.audit.kinds.sorting import AGREEMENT_COLUMNS as AGREEMENT
from medunlearn.audit.kinds.sorting import agreement_of_ways, judge_of, number_spans
from medunlearn.audit.tables import KEY, AuditTables
from medunlearn.config.audit_report import AuditRelations
from medunlearn.data.splits import shuffled
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.papers.memorization.compare import places, ratios, sensitive, trends
from medunlearn.papers.memorization.compare.ratios import Draws, table_of
from medunlearn.papers.memorization.compare.remarks import caveats, missing
from medunlearn.papers.memorization.report.content import EXACT, AuditContent, AuditedModel, SpanExample
from medunlearn.reports.words import flat

KINDS = ("model", "by", "corpus", "group", "kind", "title", "n")
EPOCHS = ("epoch", "measure", "value", "low", "high")
_EXAMPLES_A_KIND = 2


def gather_audits(
    audits: Sequence[AuditTables],
    relations: AuditRelations,
    *,
    title: str,
    show_text: bool = False,
    draws: Draws | None = None,
) -> AuditContent:
    """Everything that a report shows.

    Args:
        relations: which model is what to which other.
        show_text: put memorized spans into the report.
        draws: of the bootstrap.

    Raises:
        InputError: no audit, or two with one label.
        ConfigError: relations that name models or corpora that are not there; all at once.
    """
    by_label = _by_label(audits)
    _check(relations, by_label)
    epochs = _epochs(relations)
    draws = draws or Draws()
    numbers = table_of([ratios.ratios(audit, draws) for audit in audits], ratios.RATIOS)
    return AuditContent(
        title=title,
        models=tuple(_audited(audit, relations) for audit in audits),
        ratios=numbers,
        differences=_differences(audits, by_label, relations, draws),
        trends=_trends(audits, by_label, relations, draws),
        duplication=table_of(
            [ratios.ratios_by_copies(audit, EXACT, draws) for audit in audits], ratios.DUPLICATION
        ),
        positions=table_of([places.position_table(audit, draws) for audit in audits], places.POSITIONS),
        persistence=_persistence(by_label, relations, draws),
        kinds=table_of([_kinds(audit) for audit in audits], KINDS),
        agreement=table_of([_agreement(audit, draws) for audit in audits], ("model", *AGREEMENT)),
        identifiers=table_of([sensitive.identifier_table(audit, draws) for audit in audits], sensitive.IDENTIFIERS),
        options=table_of([ratios.option_table(audit, draws) for audit in audits], ratios.OPTIONS),
        option_differences=_option_differences(by_label, relations, draws),
        epochs=epochs,
        clinical=relations.clinical,
        datasets=relations.datasets,
        caveats=tuple(caveats(audits, relations, numbers)),
        missing=tuple(missing(audits, relations)),
        examples=tuple(chain.from_iterable(_examples(audit) for audit in audits)) if show_text else (),
        show_text=show_text,
        replicates=draws.replicates,
    )


def _by_label(audits: Sequence[AuditTables]) -> dict[str, AuditTables]:
    if not audits:
        raise InputError("There is nothing to report: name at least one audit.")
    found: dict[str, AuditTables] = {}
    for audit in audits:
        if audit.label in found:
            raise InputError(
                f"{found[audit.label].folder} and {audit.folder} have one label, {audit.label!r}. Audit one of "
                "them with another --label, or leave it out."
            )
        found[audit.label] = audit
    return found


def _check(relations: AuditRelations, audits: Mapping[str, AuditTables]) -> None:
    corpora = {str(name) for audit in audits.values() for name in audit.probes["corpus"].unique()}
    problems = [unknown_name("audited model", label, audits) for label in sorted(relations.labels() - set(audits))]
    declared = (*relations.clinical, *relations.datasets)
    problems += [unknown_name("corpus", name, corpora) for name in declared if name not in corpora]
    if problems:
        raise ConfigError(problems)


def _audited(audit: AuditTables, relations: AuditRelations) -> AuditedModel:
    facts = flat({name: value for name, value in audit.info.items() if name != "results"})
    return AuditedModel(audit.label, audit.unit, tuple(relations.baselines.get(audit.label, ())), facts)


def _differences(
    audits: Sequence[AuditTables], by_label: Mapping[str, AuditTables], relations: AuditRelations, draws: Draws
) -> pd.DataFrame:
    pairs = [("baseline", model, other) for model, others in relations.baselines.items() for other in others]
    pairs += [("size", large, small) for large, small in relations.larger]
    pairs += [("persistence", after, before) for before, after in relations.persistence]
    parts = [ratios.differences(by_label[one], by_label[other], name, draws) for name, one, other in pairs]
    parts += [ratios.decoding_differences(audit, draws) for audit in audits]
    return table_of(parts, ratios.DIFFERENCES)


def _trends(
    audits: Sequence[AuditTables], by_label: Mapping[str, AuditTables], relations: AuditRelations, draws: Draws
) -> pd.DataFrame:
    parts = [
        trends.prefix_trends(audit, EXACT, draws) for audit in audits if audit.probes["prefix_tokens"].nunique() > 1
    ]
    parts += [trends.duplication_trends(audit, EXACT, draws) for audit in audits]
    parts += [trends.position_trends(audit, draws) for audit in audits]
    for name, series in relations.epochs.items():
        of_epoch = {epoch: by_label[label] for label, epoch in series.items()}
        parts.append(trends.epoch_trends(name, of_epoch, EXACT, draws))
    return table_of(parts, trends.TRENDS)


def _persistence(by_label: Mapping[str, AuditTables], relations: AuditRelations, draws: Draws) -> pd.DataFrame:
    pairs = [(by_label[before], by_label[after]) for before, after in relations.persistence]
    parts = [places.persistence_table(*pair, draws, by=by) for pair in pairs for by in ("probe", "span", "token")]
    return table_of(parts, places.PERSISTENCE)


def _option_differences(
    by_label: Mapping[str, AuditTables], relations: AuditRelations, draws: Draws
) -> pd.DataFrame:
    pairs = [(model, other) for model, others in relations.baselines.items() for other in others]
    pairs += [(after, before) for before, after in relations.persistence]
    parts = [
        ratios.option_differences(by_label[one], by_label[other], draws) for one, other in dict.fromkeys(pairs)
    ]
    return table_of(parts, ratios.OPTION_DIFFERENCES)


def _kinds(audit: AuditTables) -> pd.DataFrame:
    """How many spans of each corpus each way put into each kind; spans without one too."""
    if audit.kinds is None:
        return pd.DataFrame(columns=list(KINDS))
    titles, ways = {name: kind.title for name, kind in kinds().items()}, _ways(audit)
    placed = audit.kinds.merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    counts = placed.groupby(["by", "corpus", "group", "kind"], dropna=False, sort=False).size()
    rows = []
    key: Any
    for key, n in counts.items():
        by, corpus, group, kind = key
        named = (_text(group), _text(kind), titles.get(kind, "Without a kind"))
        rows.append((audit.label, ways.get(by, by), corpus, *named, n))
    order: list[str | None] = [*titles, None]
    rows.sort(key=lambda row: (row[1], row[2], order.index(row[4])))
    return pd.DataFrame(rows, columns=list(KINDS))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _agreement(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    found = agreement_of_ways(audit, replicates=draws.replicates, seed=draws.seed).assign(model=audit.label)
    return found.replace({"first": _ways(audit), "second": _ways(audit)}) if len(found) else found


def _ways(audit: AuditTables) -> dict[str, str]:
    """A judge is called by its model's name as well."""
    judge = judge_of(audit.folder)
    return {} if judge is None else {"judge": f"judge {judge}"}


def _epochs(relations: AuditRelations) -> pd.DataFrame:
    """The table of epochs.

    Raises:
        InputError: it cannot be read, or lacks a column.
    """
    path = relations.epoch_table
    if path is None:
        return pd.DataFrame(columns=list(EPOCHS))
    if not path.exists():
        raise InputError(f"There is no {path}, which epoch_table names.")
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}).") from error
    if lacks := [name for name in EPOCHS if name not in table.columns]:
        raise InputError(f"{path} lacks {', '.join(lacks)}; a table of epochs has {', '.join(EPOCHS)}.")
    return _own_measures(table)[list(EPOCHS)]


def _own_measures(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of measures with a name of their own; what is not of the training texts has its fold in the name.

    A training's own table of epochs holds the summary of every metric on every split as well.
    """
    if "metric" in table:
        table = table[table["measure"] != table["metric"]]
    names = table["measure"].astype(str).str.replace("_", " ")
    if "fold" in table:
        fold = table["fold"].fillna("").astype(str)
        elsewhere = ~fold.isin(["", "train", "trained"])
        names = names.where(~elsewhere, names + " (" + fold + ")")
    return table.assign(measure=names)


def _examples(audit: AuditTables) -> Iterator[SpanExample]:
    """A few spans of every kind, the same ones every time."""
    spans = number_spans(audit).merge(audit.probes[["probe_id", "corpus", "prefix_tokens"]], on="probe_id")
    spans["kind"] = None
    if audit.kinds is not None and len(audit.kinds):
        best = audit.kinds.drop_duplicates([*KEY, "span"], keep="last")[[*KEY, "span", "kind"]]
        spans = spans.drop(columns="kind").merge(best, on=[*KEY, "span"], how="left")
    rows = spans.to_dict("records")
    taken: dict[str, int] = {}
    for place in shuffled([str(number) for number in range(len(rows))], "audit examples"):
        row = rows[int(place)]
        kind = _text(row["kind"]) or "not sorted"
        taken[kind] = taken.get(kind, 0) + 1
        if taken[kind] <= _EXAMPLES_A_KIND:
            place_of = (audit.label, str(row["corpus"]), int(row["prefix_tokens"]), int(row["length"]))
            yield SpanExample(*place_of, kind, str(row["text"]))
