"""Rescore stored responses, without the model, and without torch unless a measure needs its own model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import IN_RECORD, rank_settings, stored_ranks
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.lineage import run_lineage
from medunlearn.data.responses import Response, ResponseStore, rated_options
from medunlearn.data.storage import sha256_of_json, write_frames
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics import (
    Item,
    distinct_metrics,
    get_metric,
    named_measures,
    own_measures,
    requested_measures,
)
from medunlearn.metrics import item_scoring as scoring
from medunlearn.metrics.leakage import keywords as disease_keywords
from medunlearn.metrics.measure import Tools, question_items, record_items
from medunlearn.metrics.needs import MISSING, TOOLS, load_tools, need_problems
from medunlearn.metrics.score_store import FOLDER, ScoreStore
from medunlearn.metrics.unscored import refuse_unscored
from medunlearn.models.folders import find_model, fingerprint
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.paper import IDENTIFIER, Grouping, paper_of
from medunlearn.probes.rank_plan import NOTES, RANKS, rank_plan
from medunlearn.probes.reference_tokens import reference_tokens
from medunlearn.probes.respondents import lacking_needs, recorded_gifts
from medunlearn.registry import refuse_unnamed
from medunlearn.results.evaluated import GROUPS, PRIVATE, SUMMARY, Evaluated, joined, summarize_evaluation
from medunlearn.results.runs import Run, find_benchmark
from medunlearn.results.scores import FILE, measured, question_labels, read_scores, record_labels, score_table
from medunlearn.results.summary import EVALUATION, summarize

POSSIBLE = frozenset(MISSING) - {"bart_starts"}
"""Needs that an evaluation can give to a measure."""
DEFAULT = "default"
"""Stands for the measures of the benchmark."""


def metric_names(benchmark: Benchmark, settings: EvaluateSettings) -> tuple[str, ...]:
    """The requested measures, or the computable ones of the benchmark's defaults; each once, however it was named.

    ``default`` stands for the benchmark's defaults; those that need a model not named in the settings are skipped.

    Raises:
        UnknownNameError: no such measure.
        InputError: two measures of one name.
        ConfigError: a measure of responses, for a benchmark without questions.
    """
    missing = {tool for tool in TOOLS if getattr(settings, tool) is None}
    own = [name for name in paper_of(benchmark.builder).default_measures if not missing & {*get_metric(name).needs}]
    if not benchmark.questions:
        own = [name for name in own if ranks_alone(name)]
    requested = settings.metrics or (DEFAULT,)
    check_names(requested)
    if not benchmark.questions and (
        wrong := [name for name in requested if name != DEFAULT and not ranks_alone(name)]
    ):
        raise ConfigError(
            [f"metrics={name}: the benchmark has no question; facts in records are ranked." for name in wrong]
        )
    each = (one for name in requested for one in (own if name == DEFAULT else [name]))
    names = tuple(distinct_metrics(each).values())
    if problems := need_problems(map(get_metric, names), POSSIBLE, POSSIBLE, {}, "an evaluation"):
        raise ConfigError([f"metrics: {problem}" for problem in problems])
    return names


def ranks_alone(name: str) -> bool:
    """True if a measure needs only ranks of facts or notes."""
    return {*get_metric(name).needs} <= {RANKS, NOTES}


def check_names(measures: Sequence[str]) -> None:
    """Refuse unknown measures; ``default`` stands for several.

    Raises:
        UnknownNameError: names the nearest valid one.
    """
    for name in measures:
        if name != DEFAULT:
            get_metric(name)


def score_evaluation(
    run: Run,
    requested: Sequence[str] = (),
    *,
    split: str | None = None,
    benchmark: Benchmark | Path | str | None = None,
    allow_broken: bool = False,
    device: str = "auto",
) -> Evaluated:
    """Rescore the stored responses of a run's evaluation, without asking a model.

    Rows of these measures are replaced, others stay. Summary and groups are updated.

    Args:
        requested: names of measures, or default; a measure of one's own by its path, or, once scored, by its name;
            none for those of the evaluation.
        split: the evaluation's split; needed only if there are several.
        benchmark: the benchmark or its folder; None for the folder that the evaluation recorded.
        allow_broken: return scores even if the answers are all empty or equal.

    Raises:
        InputError: the run was not evaluated, the benchmark is missing or another one, or responses are missing.
        UnknownNameError: no such measure.
        ModelError: a broken model, unless ``allow_broken``.
        MedunlearnError: a requested measure scored nothing.
    """
    evaluated = Evaluated.find(run, split)
    settings = check(EvaluateSettings, evaluated.record.info.config)
    refuse_unnamed("extractor", settings.extractor)
    recorded = [str(name) for name in evaluated.record.info.inputs["metrics"]]
    metric_list = named_measures(requested, recorded, evaluated.own_measures, (DEFAULT,))
    source = _benchmark(evaluated, benchmark)
    metric_list = list(metric_names(source, settings.model_copy(update={"metrics": tuple(metric_list)})))
    items, labels, records, responses = _stored_items(evaluated, source, settings, metric_list)
    lacking = lacking_needs(metric_list, recorded_gifts(evaluated.run))
    settings = _with_moved_tools(evaluated, settings, metric_list)
    store = score_store(evaluated.record.folder, settings, metric_list)
    table = score_items(items, metric_list, settings, labels, device, store=store, lacking=lacking)
    of_records = score_records(records, metric_list, source, settings)
    table = joined([table, of_records])
    with lock_folder(evaluated.record.folder, "score"):
        scores = read_scores(evaluated.record.folder)
        others = scores[~scores["measure"].isin([*distinct_metrics(metric_list)])]
        write_tables(evaluated.record.folder, source, settings, pd.concat([others, table], ignore_index=True))
        info = evaluated.record.info
        pairs = ((item.reference, responses[item.question_id]) for item in items if not item.unanswered)
        problems = answer_problems((reference, answer.response, answer.finished) for reference, answer in pairs)
        info.results["health"] = {"problems": list(dict.fromkeys((*info.problems, *problems)))}
        info.results["own_measures"] = {**evaluated.own_measures, **own_measures(metric_list)}
        info.with_tables(evaluated.record.folder).write(evaluated.record.folder)
        store.remove()
    refuse_broken({evaluated.run.label: info.problems}, allowed=allow_broken)
    foreseen = {get_metric(name).name for name in lacking}
    broken = [evaluated.run.label] if info.problems else []
    refuse_unscored({evaluated.run.label: table}, requested_measures(requested, metric_list), foreseen, broken)
    return Evaluated(evaluated.run, evaluated.record)


def score_items(
    items: Sequence[Item],
    names: Sequence[str],
    settings: EvaluateSettings,
    labels: pd.DataFrame,
    device: str,
    *,
    tools: Tools | None = None,
    store: ScoreStore | None = None,
    lacking: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The score table of some measures on an evaluation's items.

    Args:
        labels: from :func:`~medunlearn.results.scores.question_labels`.
        tools: the models of measures, if they are loaded (:func:`measure_tools`).
        store: of finished chunks.
        lacking: measure -> why it is unscored on every item (:func:`~medunlearn.probes.respondents.lacking_needs`).
    """
    measures = [get_metric(name) for name in names]
    unscored = {get_metric(name).name: reason for name, reason in (lacking or {}).items()}
    tools = tools or measure_tools(settings, names, device)
    return measured(scoring.score(items, measures, tools, store=store, unscored=unscored), labels)


def local_tools(settings: EvaluateSettings, names: Sequence[str]) -> dict[str, str]:
    """Fingerprints of the models in folders that measures need, by tool; those of a hub are known by their id."""
    needs = {need for name in names for need in get_metric(name).needs}
    folders = {tool: Path(str(getattr(settings, tool))) for tool in TOOLS if tool in needs}
    return {tool: fingerprint(folder) for tool, folder in folders.items() if folder.is_dir()}


def _with_moved_tools(evaluated: Evaluated, settings: EvaluateSettings, names: Sequence[str]) -> EvaluateSettings:
    """Settings with the places where the evaluation's own models lie now.

    Raises:
        InputError: another model lies at the recorded place.
    """
    recorded = evaluated.record.info.results.get("tools")
    needs = {need for name in names for need in get_metric(name).needs}
    places: dict[str, str] = {}
    for tool, identity in (recorded if isinstance(recorded, dict) else {}).items():
        if tool not in needs or tool not in TOOLS:
            continue
        name = str(getattr(settings, tool))
        place = find_model(name, evaluated.record.folder, str(identity))
        if place is None:
            raise InputError(
                f"The model {name} ({tool}) of {evaluated.record.folder} is not at its recorded place, or was "
                "changed: its scores would not compare. Move it back, or evaluate again."
            )
        places[tool] = str(place)
    return settings.model_copy(update=places)


def score_records(
    items: Sequence[Item], names: Sequence[str], benchmark: Benchmark, settings: EvaluateSettings
) -> pd.DataFrame:
    """The score table of the ranking measures on records; empty without ranks."""
    tables = []
    for name in filter(ranks_alone, names):
        need = get_metric(name).needs[0]
        those = [item for item in items if getattr(item, need) is not None]
        if those:
            ids = [item.question_id for item in those]
            labels = record_labels(benchmark, benchmark.split(settings.split), ids)
            tables.append(score_items(those, [name], settings, labels, "cpu"))
    return joined(tables)


def write_tables(folder: Path, benchmark: Benchmark, settings: EvaluateSettings, scores: pd.DataFrame) -> None:
    """Write an evaluation's scores, their summary, and the benchmark's groups."""
    table = score_table(scores)
    files = {FILE: table, SUMMARY: summarize_evaluation(table, replicates=settings.replicates, seed=settings.seed)}
    if "private" in table.columns and len(private := table[table["private"].astype("boolean").fillna(False)]):
        files[PRIVATE] = summarize_evaluation(private, replicates=settings.replicates, seed=settings.seed)
    grouping = paper_of(benchmark.builder).grouping
    if grouping is not None:
        nodes = benchmark.hierarchy.nodes(grouping.level)
        files[GROUPS] = _groups(grouping, nodes, table, settings)
    write_frames(folder, files)


def measure_tools(settings: EvaluateSettings, names: Sequence[str], device: str) -> Tools:
    """The models that measures need, as named in the settings."""
    needs = {need for name in names for need in get_metric(name).needs}
    named = ((tool, getattr(settings, tool)) for tool in TOOLS if tool in needs)
    return load_tools({tool: source for tool, source in named if source}, device)


def score_store(folder: Path, settings: EvaluateSettings, names: Sequence[str]) -> ScoreStore:
    """The store of finished chunks in an evaluation's folder."""
    models: dict[str, object] = {tool: getattr(settings, tool) for tool in TOOLS}
    return ScoreStore(folder / FOLDER, {**models, **local_tools(settings, names)})


def _groups(
    grouping: Grouping, nodes: Iterable[str], scores: pd.DataFrame, settings: EvaluateSettings
) -> pd.DataFrame:
    """The grouping's measures for each node of its level, and for each type of identifier.

    Rows of :func:`summarize` with the measure in ``metric``, plus ``level``, ``node`` and the paper's name of the
    measure in ``measure``.
    """
    fields = scores.drop_duplicates("item")["identifier"].dropna().unique()
    tables = []
    for level, label, groups, measures in (
        (grouping.level, "node", nodes, grouping.measures),
        (IDENTIFIER, "identifier", fields, grouping.of_identifiers),
    ):
        rows = scores[scores[label].notna() & scores["measure"].isin([name for name, _ in measures.values()])]
        by = (label, *EVALUATION)
        means = summarize(rows, by, replicates=settings.replicates, seed=settings.seed)
        for node in groups if measures else ():
            for kind, (metric, title) in measures.items():
                same = (means[label] == node) & (means["kind"] == kind) & (means["measure"] == metric)
                of_node = means[same].rename(columns={"measure": "metric"}).drop(columns=[label])
                tables.append(of_node.assign(level=level, node=node, measure=title))
    return pd.concat(tables, ignore_index=True)


def _benchmark(evaluated: Evaluated, benchmark: Benchmark | Path | str | None) -> Benchmark:
    record = evaluated.record
    if benchmark is None:
        recorded = run_lineage(record.info.as_dict()).benchmark
        benchmark = find_benchmark(recorded, record.folder, record.info.benchmark)
        if benchmark is None:
            raise InputError(
                f"The benchmark of {record.folder} is not at its recorded place ({recorded}), and not beside the "
                "run. Name its folder."
            )
    elif not isinstance(benchmark, Benchmark):
        benchmark = Benchmark.load(benchmark)
    if benchmark.fingerprint != record.info.benchmark:
        raise InputError(f"{evaluated.run.folder} was evaluated on another benchmark than the one named.")
    return benchmark


def _stored_items(
    evaluated: Evaluated, benchmark: Benchmark, settings: EvaluateSettings, names: Sequence[str]
) -> tuple[list[Item], pd.DataFrame, list[Item], dict[str, Response]]:
    """The evaluation's items from stored responses, their labels, the items of records, and the responses."""
    split, context = benchmark.split(settings.split), evaluated.context
    order = {name: place for place, name in enumerate(evaluated.questions["question_id"])}
    questions = [question for question in benchmark.questions if question.question_id in order]
    questions.sort(key=lambda question: order[question.question_id])
    folder = evaluated.responses_folder
    stored = ResponseStore.read_complete(folder)
    responses = {name: response for (name, _, sample), response in stored.items() if not sample}
    answered = [question for question in questions if question.question_id not in evaluated.without_response]
    missing = [question.question_id for question in answered if question.question_id not in responses]
    if missing or len(questions) < len(order):
        raise InputError(
            f"{evaluated.run.folder} lacks responses of this evaluation. Remove "
            f"{evaluated.record.folder} and evaluate it again: only missing responses are generated."
        )
    # Options and ranks were rated in stores of their own.
    settings_of_store = ResponseStore.settings_of(folder) if questions else {}
    key = {**settings_of_store, "max_new_tokens": 0}
    rated = ResponseStore.read_complete(folder.parent / f"{context}-{sha256_of_json(key)[:12]}")
    options = rated_options(rated, [question for question in questions if question.options], context)
    keywords = disease_keywords.for_evaluation(benchmark, settings, names, evaluated.run.folder, quiet=True)
    key = {**key, **rank_settings(settings.alternatives, settings.versions)}
    ranked = folder if not questions else folder.parent / f"{context}-{sha256_of_json(key)[:12]}"
    stored = ResponseStore.read_complete(ranked)
    plan = rank_plan(benchmark, settings.split, settings, names)
    ranks, of_records = stored_ranks(plan.questions, stored, context), stored_ranks(plan.records, stored, IN_RECORD)
    sides = benchmark.sides(split)
    tokens = reference_tokens(evaluated.run, benchmark, questions, settings, names)
    items = question_items(
        questions, sides, responses, options, keywords, ranks, tokens, evaluated.without_response
    )
    return items, question_labels(benchmark, split, questions), record_items(sides, of_records), responses
