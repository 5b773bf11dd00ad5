"""From evaluated runs to the content of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.attacks.reconstruction.gather import gather_reconstruction
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question
from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError
from medunlearn.judging.run import JudgingRun
from medunlearn.judging.sections import panel_about, panel_title
from medunlearn.metrics import METRICS, get_metric
from medunlearn.pipeline.epochs.selection import TABLE
from medunlearn.pipeline.presets import is_tiny
from medunlearn.pipeline.report.gather_attacks import attacked_as, attacks_of, gather_membership
from medunlearn.pipeline.report.papers import GatheredRuns, paper_part
from medunlearn.pipeline.utility.numbers import gather_utility
from medunlearn.reports.content import Example, JudgedContent, ModelResult, ReportContent
from medunlearn.results.composites import COMPOSITES
from medunlearn.results.evaluated import Evaluated, compared, distinct
from medunlearn.statistics.bootstrap import REPLICATES

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
    """Everything a report shows, from models evaluated on one split of one benchmark.

    Args:
        benchmark: needed to show examples, LUME's findings and TOFU's measures; without it a report has none.
        judged: panels that judged the benchmark's labels or questions; those that judged the models' responses are
            found by themselves.
        show_text: show questions, answers and responses of real records. An invented benchmark's are always
            shown: nobody stands behind them.

    Raises:
        InputError: no model; models that were evaluated on different benchmarks, splits, questions or contexts; a
            retrained or unlearned model that was made for another split than it was evaluated on.
    """
    results = models[0].record.info["results"] if models else {}
    for other in models[1:]:
        if other.record.info["results"]["benchmark"]["fingerprint"] != results["benchmark"]["fingerprint"]:
            raise InputError(
                f"{models[0].run.folder} and {other.run.folder} were evaluated on different benchmarks."
            )
        if other.record.info["results"]["split"] != results["split"]:
            raise InputError(f"{models[0].run.folder} and {other.run.folder} were evaluated on different splits.")
        if other.context != models[0].context:
            raise InputError(
                f"{models[0].run.folder} was asked in context {models[0].context}, {other.run.folder} in "
                f"{other.context}. Evaluate them with the same --context."
            )
        if set(other.questions["question_id"]) != set(models[0].questions["question_id"]):
            raise InputError(
                f"{models[0].run.folder} and {other.run.folder} were asked different questions. Evaluate them with "
                "the same folds, subjects and seed."
            )
    if not models:
        raise InputError(
            "There is nothing to report: name at least one evaluated run. What a panel said of labels and "
            "questions goes beside it; judged.md in the panel's own folder has it too."
        )
    for model in models:
        check_made_for_this(model)
    models = distinct(models)
    attacked = tuple(map(attacked_as, models))
    attacks = attacks_of(models, attacked, replicates, seed)
    may_show = show_text or results["benchmark"]["invented"]
    content = ReportContent(
        title=title,
        benchmark=results["benchmark"],
        split={**results["split"], "name": shown_split(results["split"]["name"], may_show)},
        context=results["context"],
        models=tuple(_model(model, may_show) for model in models),
        comparisons=_comparisons(models, replicates, seed),
        examples=tuple(_examples(benchmark, models)) if may_show and benchmark is not None else (),
        metrics=metric_meanings(),
        caveats=tuple(caveats_of(results["benchmark"], models)),
        show_text=may_show,
        membership=gather_membership(attacks),
        reconstruction=gather_reconstruction(models, replicates, seed),
        epochs=_epochs(models),
        utility=gather_utility([model.run for model in models]),
        groups=pd.concat([model.groups.assign(model=model.run.label) for model in models], ignore_index=True),
        judged=_judged(models, judged),
    )
    runs = GatheredRuns(tuple(models), benchmark, content, attacked, attacks, replicates, seed)
    return replace(content, paper=paper_part(runs))


def _judged(models: Sequence[Evaluated], panels: Sequence[JudgingRun]) -> tuple[JudgedContent, ...]:
    """The benchmark's panels, then those of each model's responses."""
    found = [("", panel) for panel in panels]
    for model in models:
        if where := model.record.info["results"].get("judged"):
            found.append((f"{model.run.label}. ", JudgingRun.open(model.run.folder / where)))
    return tuple(
        JudgedContent(f"{whose}{panel_title(one.panel)}", panel_about(one.panel), tuple(one.sections()))
        for whose, one in found
    )


def _epochs(models: Sequence[Evaluated]) -> pd.DataFrame:
    """The tables of epochs of the unlearning runs that have one for this split."""
    found = [
        pd.read_parquet(path).assign(model=model.run.label)
        for model in models
        if model.run.role == "unlearned" and (path := model.run.folder / TABLE).exists()
    ]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _comparisons(models: Sequence[Evaluated], replicates: int, seed: int) -> pd.DataFrame:
    """Each model against the target and the retrained model."""
    anchors = [model for model in models if model.run.role != "unlearned"]
    tables = [
        compared(model, [anchor for anchor in anchors if anchor is not model], replicates, seed) for model in models
    ]
    tables = [table for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def made_for_this(model: Evaluated) -> bool:
    """Whether a model is no retrained or unlearned one of another split than it was evaluated on."""
    role, config = model.run.role, model.run.info["config"]
    made_for = config["without"] if role == "retrained" else config.get("split")
    return role == "target" or made_for == model.record.info["config"]["split"]


def check_made_for_this(model: Evaluated) -> None:
    """A model that left out or forgot other subjects says nothing about these, whatever it is called.

    Raises:
        InputError: a retrained or unlearned model of another split or benchmark than it was evaluated on.
    """
    role, config, asked = model.run.role, model.run.info["config"], model.record.info
    if role == "target":
        return
    made_for = config["without"] if role == "retrained" else config["split"]
    if made_for != asked["config"]["split"]:
        raise InputError(
            f"{model.run.folder} is the {role} model of split {made_for!r}, but was evaluated on "
            f"{asked['config']['split']!r}. Evaluate it on its own split, or leave it out."
        )
    if model.run.info["inputs"]["benchmark"] != asked["inputs"]["benchmark"]:
        raise InputError(
            f"{model.run.folder} was made on another benchmark than it was evaluated on, where split {made_for!r} "
            "may hold other subjects. Make it again on this benchmark, or leave it out."
        )


def shown_split(split: Any, may_show: bool) -> Any:
    """A request on the desk names its patients; a report that shows no text names none."""
    if may_show or not isinstance(split, str) or "=" not in split:
        return split
    return f"request by {split.partition('=')[0]}"


def _model(evaluated: Evaluated, may_show: bool) -> ModelResult:
    info = dict(evaluated.run.info)
    hidden = {key: shown_split(info["config"].get(key), may_show) for key in ("split", "without")}
    info["config"] = {key: hidden.get(key, value) for key, value in info["config"].items()}
    return ModelResult(
        label=evaluated.run.label,
        role=evaluated.run.role,
        method=info["config"].get("method"),
        summary=evaluated.summary,
        history=evaluated.run.history(),
        info=info,
    )


def _examples(benchmark: Benchmark, models: Sequence[Evaluated]) -> list[Example]:
    """A few questions a side, of every kind and fold, the same ones every time."""
    split = benchmark.split(models[0].record.info["config"]["split"])
    asked = set.intersection(*(set(model.responses) for model in models))
    found: list[Example] = []
    for side in SIDES:
        questions = [q for q in benchmark.questions_of(split, side) if q.question_id in asked]
        order = {name: place for place, name in enumerate(shuffled([q.question_id for q in questions], "examples"))}
        questions.sort(key=lambda question: order[question.question_id])
        found += [_example(question, side, models) for question in _varied(questions)[:EXAMPLES_A_SIDE]]
    return found


def _varied(questions: Sequence[Question]) -> list[Question]:
    """The questions, so ordered that kinds and folds take turns."""
    turns: dict[tuple[str, str], int] = {}
    keyed = []
    for question in questions:
        group = (question.fold, question.kind)
        turns[group] = turns.get(group, 0) + 1
        keyed.append((turns[group], group, question))
    return [question for _, _, question in sorted(keyed, key=lambda entry: entry[0])]


def _example(question: Question, side: str, models: Sequence[Evaluated]) -> Example:
    return Example(
        question_id=question.question_id,
        side=side,
        fold=question.fold,
        kind=question.kind,
        question=question.question,
        answer=question.answer,
        responses={model.run.label: model.responses[question.question_id].response for model in models},
    )


def metric_meanings() -> dict[str, tuple[str, str]]:
    """A metric's or composite's name -> title, and meaning with range and direction."""
    metrics = {name: get_metric(name) for name in METRICS}
    return {
        **{name: (metric.title, metric.meaning) for name, metric in metrics.items()},
        **{composite.name: (composite.title, composite.meaning) for composite in COMPOSITES},
        "DS": (
            "Degradation score",
            "0-1, share of forget responses without any variety; higher = collapsed output",
        ),
    }


def caveats_of(facts: Mapping[str, Any], models: Sequence[Evaluated]) -> list[str]:
    """Sentences that a reader must know before the numbers."""
    caveats = []
    if facts["invented"]:
        caveats.append(
            "The patients are invented. These numbers show how the measurements work; they say nothing about real "
            "patients or clinical models."
        )
    if any(is_tiny(model.run) for model in models):
        caveats.append(
            "The model is tiny and was trained here from random weights. How methods rank on it need not be how "
            "they rank on a large model."
        )
    if not any(model.run.role == "retrained" for model in models):
        caveats.append(
            "There is no retrained model, so forgetting is read against nothing: a high forgetting number may "
            "mean that answers were destroyed, not forgotten."
        )
    return caveats
