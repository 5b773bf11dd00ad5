"""Convert audits' tables into the content of their report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, AuditTables, leaves_chat_template, of_prefixes, shared_probes
from medunlearn.audit.extraction import labelled_probes, unseen_corpora
from medunlearn.audit.first_screen import FirstScreen, first_screen
from medunlearn.audit.kinds import kinds
from medunlearn.audit.kinds.kind_summary import sorter_agreement
from medunlearn.audit.kinds.memorized_spans import number_spans
from medunlearn.audit.kinds.sorting import judge_of, sorted_by
from medunlearn.audit.worst_cases import pseudonyms
from medunlearn.config.audit import AuditRelations
from medunlearn.data.data_use import UNKNOWN, recorded_use, tightest
from medunlearn.data.origins import is_marked
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_frame
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.models.health import banner
from medunlearn.papers.memorization.compare import places, ratios, trends
from medunlearn.papers.memorization.compare.ratios import Resampling, greedy_runs
from medunlearn.papers.memorization.report.content import (
    ACCURACY,
    COLUMNS,
    GREEDY,
    AuditContent,
    AuditedModel,
    Row,
    stacked,
)
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.formatting import flat
from medunlearn.reports.rank_tables import UNUSED_CHAT
from medunlearn.results.runs import RunRecord

_EXAMPLES_A_KIND = 2
CASES_WITH_TEXT = 300
"""Worst cases whose words a report shows: 300 of them keep a page of 1,000 patients below 1.5 MB."""
FEW = 30
"""Below so many subjects per interval is wide: of 29 of whom none leaks, 11.9% may."""
_STAGES = {"identifiers": "findings", "kinds": "kinds", "options": "options"}
"""Optional stage -> its table."""
Audits = Mapping[str, AuditTables]
"""Audits by their labels."""


def gather_audits(
    audits: Sequence[AuditTables],
    relations: AuditRelations,
    draws: Resampling,
    *,
    title: str,
    show_text: bool = False,
) -> AuditContent:
    """Gather everything that a report shows; :func:`.report.audit_content` reads the audits for it."""
    whole = _by_label(audits)
    _check(relations, whole)
    # The paper's tables are of beginnings of texts; the first screen counts every way of asking.
    audits = [of_prefixes(audit) for audit in audits]
    by_label = _by_label(audits)
    parts = {
        "epochs": [_epochs(relations)],
        "accuracy": [_accuracy(relations)],
        **_own_tables(audits, draws),
        **_relation_tables(by_label, relations, draws),
    }
    tables = {name: stacked(name, parts[name]) for name in COLUMNS}
    return AuditContent(
        title=title,
        models=tuple(_audited_model(audit, relations) for audit in audits),
        tables=tables,
        data_use=tightest(recorded_use(audit.folder) for audit in audits) or UNKNOWN,
        clinical=relations.clinical,
        datasets=relations.datasets,
        caveats=tuple(caveats(audits, relations, tables["ratios"])),
        missing=tuple(missing(audits, relations, tables)),
        searches={
            stage: tuple(audit.label for audit in audits if getattr(audit, table) is not None)
            for stage, table in _STAGES.items()
        },
        screens=_screens(whole, relations, show_text),
        examples=tuple(chain.from_iterable(map(_examples, audits))) if show_text else (),
        near_examples=tuple(chain.from_iterable(map(_near_examples, audits))) if show_text else (),
        show_text=show_text,
        replicates=draws["replicates"],
        provenance=tuple(dict.fromkeys(entry for audit in audits for entry in sorted_by(audit.folder))),
    )


def _by_label(audits: Sequence[AuditTables]) -> Audits:
    if not audits:
        raise InputError("There is nothing to report: name at least one audit.")
    by_label: dict[str, AuditTables] = {}
    for audit in audits:
        if by_label.setdefault(audit.label, audit) is not audit:
            raise InputError(
                f"{by_label[audit.label].folder} and {audit.folder} have the same label, {audit.label!r}. Audit "
                "one of "
                "them with another --label, or leave it out."
            )
    return by_label


def _check(relations: AuditRelations, audits: Audits) -> None:
    corpora = {str(name) for audit in audits.values() for name in audit.probes["corpus"].unique()}
    problems = [unknown_name("audited model", label, audits) for label in sorted(relations.labels() - set(audits))]
    declared = (*relations.clinical, *relations.datasets, *chain.from_iterable(relations.trained.values()))
    problems += [unknown_name("corpus", name, corpora) for name in declared if name not in corpora]
    if problems:
        raise ConfigError(problems)


def _screens(audits: Audits, relations: AuditRelations, show_text: bool) -> tuple[FirstScreen, ...]:
    """First screens of the selected models, each with its baselines."""
    names = pseudonyms(audits.values())
    beside = {other for others in relations.baselines.values() for other in others}
    return tuple(
        first_screen(
            audit,
            [audits[other] for other in relations.baselines.get(label, ())],
            names,
            show_text=CASES_WITH_TEXT if show_text else 0,
        )
        for label, audit in audits.items()
        if label not in beside or label in relations.baselines
    )


def _audited_model(audit: AuditTables, relations: AuditRelations) -> AuditedModel:
    facts = flat({name: value for name, value in audit.info.items() if name != "results"})
    facts |= flat({"probe_set": audit.info.get("results", {}).get("probe_set", {})})
    baselines = tuple(relations.baselines.get(audit.label, ()))
    unseen, trained = set(unseen_corpora(audit)), tuple(relations.trained.get(audit.label, ()))
    if audit.label in relations.trained:
        unseen |= set(audit.probes["corpus"].astype(str)) - set(trained)
    problems = RunRecord.of(audit.info).problems
    return AuditedModel(audit.label, audit.unit, baselines, facts, problems, tuple(sorted(unseen)), trained)


def _own_tables(audits: Sequence[AuditTables], draws: Resampling) -> dict[str, list[pd.DataFrame]]:
    """Tables of each audit on its own."""
    makers = {
        "ratios": ratios.ratios,
        "duplication": ratios.ratios_by_copies,
        "positions": places.position_table,
        "kinds": _kinds,
        "agreement": _agreement,
        "identifiers": places.identifier_table,
        "options": ratios.option_table,
        "answers": ratios.answer_table,
        "near": ratios.near_table,
    }
    return {name: [make(audit, draws) for audit in audits] for name, make in makers.items()}


def _relation_tables(audits: Audits, relations: AuditRelations, draws: Resampling) -> dict[str, list[pd.DataFrame]]:
    """Tables that compare audits."""
    baselines = [(model, other) for model, others in relations.baselines.items() for other in others]
    tuned = [(after, before) for before, after in relations.persistence]
    pairs = {"baseline": baselines, "size": relations.larger, "persistence": tuned}
    runs = {label: greedy_runs(audit) for label, audit in audits.items()}
    series = {name: {n: audits[label] for label, n in line.items()} for name, line in relations.epochs.items()}
    makers = (trends.prefix_trends, trends.duplication_trends)
    rows = [row for make in makers for label in runs for row in make(label, runs[label], draws)]
    rows += [row for audit in audits.values() for row in trends.position_trends(audit, draws)]
    rows += [row for name, line in series.items() for row in trends.epoch_trends(name, line, draws)]
    return {
        "differences": [
            *(
                ratios.differences(audits[label], audits[other], name, draws)
                for name, labels in pairs.items()
                for label, other in labels
            ),
            *(part for audit in audits.values() for part in ratios.decoding_differences(audit, draws)),
        ],
        "trends": [pd.DataFrame(rows)],
        "beyond": [trends.beyond_baselines(audits, relations.baselines, relations.persistence, draws)],
        "persistence": [
            places.persistence_table(audits[before], audits[after], draws, by=by)
            for before, after in relations.persistence
            for by in ("probe", "span", "token")
        ],
        "option_differences": [
            ratios.option_differences(audits[label], audits[other], draws)
            for label, other in dict.fromkeys([*baselines, *tuned])
        ],
    }


def _kinds(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Number of spans by corpus, sorter and kind, including spans without a kind."""
    if audit.kinds is None:
        return pd.DataFrame()
    titles, ways = {name: kind.title for name, kind in kinds().items()}, _ways(audit)
    placed = audit.kinds.merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    counts = placed.groupby(["by", "corpus", "group", "kind"], dropna=False, sort=False).size()
    table = counts.rename("n").reset_index()
    places = {kind: place for place, kind in enumerate(titles)}
    table = table.assign(
        model=audit.label,
        by=table["by"].replace(ways),
        title=table["kind"].map(titles).fillna("Without a kind"),
        place=table["kind"].map(places).fillna(len(places)),
        **{name: table[name].astype(object).where(table[name].notna(), None) for name in ("group", "kind")},
    )
    return table.sort_values(["by", "corpus", "place"], kind="stable")


def _agreement(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    table = sorter_agreement(audit, **draws).assign(model=audit.label)
    return table.replace({"first": _ways(audit), "second": _ways(audit)}) if len(table) else table


def _ways(audit: AuditTables) -> dict[str, str]:
    """Names of an audit's sorters; a judge's includes its model's name."""
    judge = judge_of(audit.folder)
    return {} if judge is None else {"judge": f"judge {judge}"}


def _epochs(relations: AuditRelations) -> pd.DataFrame:
    path = relations.epoch_table
    if path is None:
        return pd.DataFrame()
    if not path.exists():
        raise InputError(f"There is no {path}, which epoch_table names.")
    table = read_frame(path)
    if lacks := [name for name in COLUMNS["epochs"] if name not in table.columns]:
        columns = ", ".join(COLUMNS["epochs"])
        raise InputError(f"{path} lacks {', '.join(lacks)}; a table of epochs has {columns}.")
    return _own_measures(table)


def _accuracy(relations: AuditRelations) -> pd.DataFrame:
    """Top-k accuracies of a result of `audit diagnosis`."""
    if relations.diagnosis is None:
        return pd.DataFrame()
    path = relations.diagnosis / ACCURACY
    if not path.exists():
        raise InputError(
            f"{relations.diagnosis}, which `diagnosis` names, holds no {ACCURACY} of `audit diagnosis`."
        )
    return read_frame(path, COLUMNS["accuracy"])


def _own_measures(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of measures with unique names; measures not on training texts have their fold in the name.

    A training run's table of epochs also contains the summary of every metric on every split.
    """
    if "metric" in table:
        table = table[table["measure"] != table["metric"]]
    names = table["measure"].astype(str).str.replace("_", " ")
    if "fold" in table:
        fold = table["fold"].fillna("").astype(str)
        names = names.where(fold.isin(["", "train", "trained"]), names + " (" + fold + ")")
    return table.assign(measure=names)


def _examples(audit: AuditTables) -> Iterator[Row]:
    """A few spans of every kind, the same ones every time."""
    spans = number_spans(audit).merge(audit.probes[["probe_id", "corpus", "prefix_tokens"]], on="probe_id")
    spans["kind"] = None
    if audit.kinds is not None and len(audit.kinds):
        drawn = is_marked(judge_of(audit.folder) or "")
        sorted_spans = audit.kinds[audit.kinds["by"] != "judge"] if drawn else audit.kinds
        best = sorted_spans.drop_duplicates([*KEY, "span"], keep="last")[[*KEY, "span", "kind"]]
        spans = spans.drop(columns="kind").merge(best, on=[*KEY, "span"], how="left")
    rows: list[dict[Any, Any]] = spans.to_dict("records")
    counts: Counter[str] = Counter()
    for place in shuffled([str(number) for number in range(len(rows))], "audit examples"):
        row = rows[int(place)]
        kind = row["kind"] if isinstance(row["kind"], str) else "not sorted"
        counts[kind] += 1
        if counts[kind] <= _EXAMPLES_A_KIND:
            names = ("corpus", "prefix_tokens", "length")
            yield {"model": audit.label, **{name: row[name] for name in names}, "kind": kind, "text": row["text"]}


def _near_examples(audit: AuditTables) -> Iterator[Row]:
    """Original and generated text of the nearest few by each measure, without a run of 30."""
    responses = audit.responses[audit.responses["variant"] == GREEDY].drop_duplicates("probe_id")
    texts = audit.probes.merge(responses[["probe_id", "response"]], on="probe_id")
    if "suffix" not in texts:
        return
    by_probe = texts.set_index("probe_id")[["suffix", "response"]]
    for measure, least in ratios.NEARLY.items():
        near = ratios.near_texts(audit, measure, least)
        best = near[near["near"]].sort_values(["value", "item"], ascending=[False, True], kind="stable")
        for row in best.head(_EXAMPLES_A_KIND).to_dict("records"):
            original, generated = by_probe.loc[row["item"]]
            names = ("corpus", "prefix_tokens", "value")
            place = {"model": audit.label, "measure": measure, **{str(name): row[name] for name in names}}
            yield {**place, "original": original, "generated": generated}


def caveats(audits: Sequence[AuditTables], relations: AuditRelations, ratios: pd.DataFrame) -> Iterator[str]:
    """Warnings to read before the numbers."""
    yield from banner({audit.label: RunRecord.of(audit.info).problems for audit in audits})
    if any("tiny" in audit.info.get("lineage", []) for audit in audits):
        yield "A model is tiny and was trained here: its numbers show how the measurements work, and no more."
    if any(audit.info.get("results", {}).get("invented") for audit in audits):
        yield "The records are invented. The numbers say nothing about real patients or clinical models."
    related = {label for model, others in relations.baselines.items() for label in (model, *others)}
    related |= {after for _, after in relations.persistence}
    alone = [audit for audit in audits if audit.label not in related]
    if uncontrolled := [audit.label for audit in alone if not labelled_probes(audit)["unseen"].any()]:
        yield (
            f"{', '.join(uncontrolled)}: no baseline was named, so what training added cannot be told from what "
            "any model repeats."
        )
    if in_words := [audit.label for audit in audits if audit.unit != "tokens"]:
        names = ", ".join(in_words)
        yield f"{names}: runs are counted in words, not tokens; 30 words are more text than 30 tokens."
    in_tokens = [audit for audit in audits if audit.unit == "tokens"]
    if len({audit.info.get("inputs", {}).get("unit") for audit in in_tokens} - {None}) > 1:
        names = ", ".join(audit.label for audit in in_tokens)
        yield f"{names}: their tokenizers differ, so that 30 tokens of one are not the same text as 30 of another."
    if any(leaves_chat_template(audit.info.get("results", {})) for audit in audits):
        yield UNUSED_CHAT
    if n := int(((ratios["n_subjects"] < FEW) & ratios["value"].notna()).sum()):
        yield (f"{n:,} of {len(ratios):,} numbers rest on fewer than {FEW} subjects: their intervals are wide.")


def missing(
    audits: Sequence[AuditTables], relations: AuditRelations, tables: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, str]]:
    """Parts missing from the report by the paper's numbers, and how to add each."""
    if not relations.baselines:
        yield "Comparison with baselines", "audit a baseline on the same corpora (--baseline)"
    probes = {audit.label: audit.probes for audit in audits}
    for model, others in relations.baselines.items():
        for other in others:
            if not shared_probes(probes[model], probes[other]):
                yield f"{model} − {other}", "they share no probe: audit the same records under the same corpus name"
    there = {name: len(table) > 0 for name, table in tables.items()} | {
        "decodings": (tables["ratios"]["decoding"] != GREEDY).any(),
        "prefixes": tables["ratios"]["prefix_tokens"].nunique() > 1,
        # A search that found nothing has been made.
        **{name: any(getattr(a, table) is not None for a in audits) for name, table in _STAGES.items()},
    }
    for part in paper_yaml("memorization", "report")["missing"]:
        if not there[part["needs"]]:
            yield part["name"], part["how"]
