"""Convert evaluated runs into the content of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import UNKNOWN, tightest
from medunlearn.data.origins import read_provenance
from medunlearn.data.records import SIDES
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.judging.panel_run import JudgingRun
from medunlearn.metrics import installed_metrics
from medunlearn.metrics.leakage.leakage_score import LEAKAGE, PAPER_EXTRACTOR, extractor_words
from medunlearn.models.health import banner
from medunlearn.paper import paper_of
from medunlearn.probes.utility.numbers import gather_utility
from medunlearn.reports.content import (
    Example,
    Membership,
    ModelResult,
    ReportContent,
)
from medunlearn.reports.provenance import provenance_lines
from medunlearn.reports.rank_tables import nothing_to_forget
from medunlearn.results.composites import COMPOSITES, DEGRADATION_SCORE
from medunlearn.results.evaluated import (
    OTHER_TOKENS,
    Evaluated,
    compared,
    distinct,
    forgetting_of,
    joined,
    one_vocabulary,
    reference_of,
)
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.study.epochs.epoch_selection import TABLE
from medunlearn.study.epochs.rank_stop import RankStop
from medunlearn.study.forget_loss import ForgetLoss
from medunlearn.study.presets import is_tiny
from medunlearn.study.report.gather_attacks import attack_parts, attacks_on, find_attack
from medunlearn.study.report.gather_ranks import gather_ranks
from medunlearn.study.report.gather_ratings import distinct_entries, judgement_tables, rated_by
from medunlearn.study.report.papers import GatheredRuns, paper_part

EXAMPLES_A_SIDE = 4


def gather(
    title: str,
    models: Sequence[Evaluated],
    benchmark: Benchmark | None = None,
    *,
    judged: Sequence[JudgingRun] = (),
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ReportContent:
    """Gather everything a report shows, from models evaluated on one split of one benchmark.

    Args:
        benchmark: needed for examples, LUME's findings and TOFU's measures.
        judged: panels that judged the benchmark's labels or questions; those on the models' responses are found
            automatically.
        show_text: show questions, answers and responses of real records. Those of an invented benchmark are always
            shown.

    Raises:
        InputError: no model; models with different benchmarks, splits, questions or contexts; a retrained or
            unlearned model evaluated on another split than its own.
    """
    _check(models, benchmark)
    models = distinct(models)
    results = models[0].record.info.results
    attacked = tuple(map(find_attack, models))
    attacks = attacks_on(attacked, models, replicates, seed)
    may_show = show_text or results["benchmark"]["invented"]
    reference = reference_of(models, replicates, seed)
    broken = {model.run.label: model.record.info.problems for model in models if model.record.info.problems}
    warnings = banner(broken | _broken_epochs(models))
    written = read_provenance(results["benchmark"].get("provenance")) if benchmark is None else benchmark.provenance
    tables = judgement_tables(models, judged)
    origins = distinct_entries(
        [*written, *(entry for panel in tables for entry in panel.provenance), *rated_by(models)]
    )
    ranks = gather_ranks(models)
    content = ReportContent(
        title=title,
        benchmark={
            **results["benchmark"],
            "data_use": tightest([model.data_use for model in models]) or UNKNOWN,
            "provenance": [entry.to_json() for entry in written],
            "probes": models[0].probes,
        },
        split={**results["split"], "name": shown_split(results["split"]["name"], may_show)},
        context=results["context"],
        models=tuple(_model(model, may_show) for model in models),
        comparisons=_comparisons(models, replicates, seed),
        examples=tuple(_examples(benchmark, models)) if may_show and benchmark is not None else (),
        metrics=metric_meanings(models),
        caveats=(
            *provenance_lines(origins),
            *dict.fromkeys(line for panel in tables for line in panel.remarks),
            *warnings,
            *caveats_of(results["benchmark"], models),
            *(reference.caveats if reference else ()),
            *unchanged_runs(models),
            *stopped_runs(models),
            *nothing_to_forget(ranks),
        ),
        broken=warnings,
        reference=reference,
        forgetting=forgetting_of(models, replicates, seed),
        show_text=may_show,
        ranks=ranks,
        epochs=_epochs(models),
        utility=gather_utility([model.run for model in models]),
        groups=pd.concat([model.groups.assign(model=model.run.label) for model in models], ignore_index=True),
        judged=tables,
        provenance=origins,
        extractor=extractor_words({model.extractor for model in models} - {""}),
    )
    parts = attack_parts(content, models, replicates, seed)
    areas = next((part.areas for part in parts if part.areas is not None), Membership())
    content = replace(content, attacks=parts, membership=areas)
    runs = GatheredRuns(tuple(models), benchmark, content, attacked, attacks, replicates, seed)
    return replace(content, paper=paper_part(runs))


def _check(models: Sequence[Evaluated], benchmark: Benchmark | None) -> None:
    """Refuse models that cannot share a report, and a benchmark that is not theirs."""
    if not models:
        raise InputError(
            "There is nothing to report: name at least one evaluated run. A panel's verdicts on labels and "
            "questions are added to it; see also judged.md in the panel's folder."
        )
    first = models[0]
    questions, results = set(first.questions["question_id"]), first.record.info.results
    for other in models[1:]:
        both, info = f"{first.run.folder} and {other.run.folder} were", other.record.info
        if info.results["benchmark"]["fingerprint"] != results["benchmark"]["fingerprint"]:
            raise InputError(f"{both} evaluated on different benchmarks.")
        if info.results["split"] != results["split"]:
            raise InputError(f"{both} evaluated on different splits.")
        if other.context != first.context:
            raise InputError(
                f"{first.run.folder} was asked in context {first.context}, {other.run.folder} in "
                f"{other.context}. Evaluate them with the same --context."
            )
        if set(other.questions["question_id"]) != questions:
            raise InputError(
                f"{both} asked different questions. Evaluate them with the same folds, subjects and seed."
            )
    for model in models:
        check_made_for_this(model)
    if benchmark is not None and benchmark.fingerprint != results["benchmark"]["fingerprint"]:
        raise InputError(
            f"{benchmark.folder} is not the benchmark that {first.run.folder} was evaluated on. Use that one, or "
            "evaluate the runs on this one."
        )


def unchanged_runs(models: Sequence[Evaluated]) -> Iterator[str]:
    """Sentences on unlearned models that say of the forget set about what the target says."""
    for model in models:
        loss = ForgetLoss.of(model.run.info.results)
        if loss is not None and loss.is_unchanged:
            yield f"{model.run.label} unlearned hardly anything: {loss.words}."


def stopped_runs(models: Sequence[Evaluated]) -> Iterator[str]:
    """Sentences on unlearned models that a rule on ranks may have ended."""
    for model in models:
        if (outcome := RankStop.of(model.run.info.results)) is not None:
            yield f"{model.run.label}: {outcome.words}."


def _epochs(models: Sequence[Evaluated]) -> pd.DataFrame:
    """The tables of epochs of unlearning runs that have one for this split."""
    unlearned = [model.run for model in models if model.run.role == "unlearned"]
    paths = {run.label: run.folder / TABLE for run in unlearned if (run.folder / TABLE).exists()}
    return joined([read_frame(path).assign(model=label) for label, path in paths.items()])


def _broken_epochs(models: Sequence[Evaluated]) -> dict[str, tuple[str, ...]]:
    """``NPO, epoch 3`` -> why the model was broken then."""
    return {
        f"{model.run.label}, epoch {entry['epoch']}": (entry["problem"],)
        for model in models
        for entry in (model.run.info.results.get("epochs") or {}).get("numbers", ())
        if entry.get("problem")
    }


def _comparisons(models: Sequence[Evaluated], replicates: int, seed: int) -> pd.DataFrame:
    """Comparison of each model with the target and the retrained model; of two unlearned ones with each other."""
    anchors = [model for model in models if model.run.role != "unlearned"]
    unlearned = [model for model in models if model.run.role == "unlearned"]
    against = {id(model): [anchor for anchor in anchors if anchor is not model] for model in models}
    if len(unlearned) == 2:
        against[id(unlearned[1])].append(unlearned[0])
    return joined([compared(model, against[id(model)], replicates, seed) for model in models])


def made_for_this(model: Evaluated) -> bool:
    """True unless a model was retrained or unlearned for another split than it was evaluated on."""
    return model.run.role == "target" or model.run.info.made_for == model.record.info.split


def check_made_for_this(model: Evaluated) -> None:
    """Refuse a model that excluded or forgot other subjects than those it was evaluated on.

    Raises:
        InputError: a retrained or unlearned model evaluated on another split or benchmark than its own.
    """
    run, info = model.run, model.record.info
    if not made_for_this(model):
        raise InputError(
            f"{run.folder} is the {run.role} model of split {run.info.made_for!r}, but was evaluated on "
            f"{info.split!r}. Evaluate it on its own split, or leave it out."
        )
    if run.role != "target" and run.info.benchmark != info.benchmark:
        raise InputError(
            f"{run.folder} was made on another benchmark than it was evaluated on, where split "
            f"{run.info.made_for!r} may have other subjects. Make it again on this benchmark, or leave it out."
        )


def shown_split(split: Any, may_show: bool) -> Any:
    """A split's displayed name; that of a deletion request names patients, which is hidden unless text is shown."""
    if may_show or not isinstance(split, str) or "=" not in split:
        return split
    return f"request by {split.partition('=')[0]}"


def _model(evaluated: Evaluated, may_show: bool) -> ModelResult:
    run = evaluated.run
    hidden = {key: shown_split(run.info.config.get(key), may_show) for key in ("split", "without")}
    config = {key: hidden.get(key, value) for key, value in run.info.config.items()}
    return ModelResult(
        label=run.label,
        role=run.role,
        method=run.info.method,
        summary=evaluated.summary,
        history=run.history(),
        info={**run.info, "config": config},
        problems=evaluated.record.info.problems,
    )


def _examples(benchmark: Benchmark, models: Sequence[Evaluated]) -> Iterator[Example]:
    """A few questions per side, always the same ones, alternating between kinds and folds."""
    split = benchmark.split(str(models[0].record.info.split))
    common_questions = set.intersection(*(set(model.responses) for model in models))
    for side in SIDES:
        questions = {
            q.question_id: q for q in benchmark.questions_of(split, side) if q.question_id in common_questions
        }
        turns: dict[tuple[str, str], int] = {}
        keyed = []
        for question in (questions[name] for name in shuffled([*questions], "examples")):
            group = (question.fold, question.kind)
            turns[group] = turns.get(group, 0) + 1
            keyed.append((turns[group], question))
        for _, question in sorted(keyed, key=lambda entry: entry[0])[:EXAMPLES_A_SIDE]:
            yield Example(
                side=side,
                responses={model.run.label: model.responses[question.question_id].response for model in models},
                **{name: getattr(question, name) for name in ("question_id", "fold", "kind", "question", "answer")},
            )


def metric_meanings(models: Sequence[Evaluated]) -> dict[str, tuple[str, str]]:
    """A metric's or composite's name -> title, and meaning with range and direction.

    Measures from elsewhere have the words that their runs recorded. The leakage score's title names the extractor
    of its keywords.
    """
    metrics = installed_metrics()
    if by := extractor_words({model.extractor for model in models} - {""}):
        metrics[LEAKAGE.name] = replace(LEAKAGE, title=f"{LEAKAGE.title}, {by}")
    elsewhere = {name: about for model in models for name, about in model.own_measures.items()}
    return {
        **{name: (about["title"] or name, about["meaning"]) for name, about in elsewhere.items()},
        **{name: (metric.title, metric.meaning) for name, metric in metrics.items()},
        **{composite.name: (composite.title, composite.meaning) for composite in COMPOSITES},
        DEGRADATION_SCORE.name: (DEGRADATION_SCORE.title, DEGRADATION_SCORE.meaning),
    }


def caveats_of(facts: Mapping[str, Any], models: Sequence[Evaluated]) -> list[str]:
    """Warnings to read before the numbers."""
    extractors = {model.extractor for model in models} - {""}
    missing = paper_of(str(facts["builder"])).missing
    caveats = {
        **dict.fromkeys(map(str, facts.get("remarks") or ()), True),
        f"{missing}: measures, findings and pages that only this paper has are not shown.": bool(missing),
        "The patients are invented. These numbers show how the measurements work; they say nothing about real "
        "patients or clinical models.": facts["invented"],
        "The model is tiny and was trained here from random weights. How methods rank on it need not be how they "
        "rank on a large model.": any(is_tiny(model.run) for model in models),
        "There is no retrained model, so forgetting is read against nothing: a high forgetting number may mean "
        "that answers were destroyed, not forgotten.": all(model.run.role != "retrained" for model in models),
        f"Leakage scores (ls) have {extractor_words(extractors)}, not by AMNESIA's scispaCy: they compare models "
        "with each other, not with its Table 2.": bool(extractors - {PAPER_EXTRACTOR}),
        **{model.caveat: True for model in models if model.caveat},
        OTHER_TOKENS: not one_vocabulary(models),
        "A model was trained on other texts than those that it was asked about or made to forget (--other-texts): "
        "what it never saw it cannot have forgotten.": any(
            model.record.info.results.get("other_texts") or model.run.info.config.get("other_texts")
            for model in models
        ),
        "Leakage scores by different extractors stand side by side and do not compare.": len(extractors) > 1,
    }
    return [caveat for caveat, holds in caveats.items() if holds]
