"""The report of unlearning runs: from their tables to blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medunlearn.reports.attacked import membership_section, reconstruction_section
from medunlearn.reports.blocks import (
    Bar,
    Bars,
    Block,
    Columns,
    Details,
    Facts,
    Figure,
    Headline,
    Legend,
    Notice,
    Prose,
    Quotes,
    Report,
    Section,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.content import JudgedContent, ModelResult, ReportContent
from medunlearn.reports.curves import training_curves
from medunlearn.reports.epochs import epoch_figures, epoch_table
from medunlearn.reports.figures import legend
from medunlearn.reports.headline import Plane, Standing, drawable, main_plane, panel_planes, standings, verdict
from medunlearn.reports.json import plain
from medunlearn.reports.readings import Results
from medunlearn.reports.tables import (
    benchmark_facts,
    breakdown_table,
    cost_table,
    facts,
    group_table,
    headline_table,
    metric_table,
    other_comparisons,
    run_facts,
    shared_facts,
    utility_table,
)
from medunlearn.reports.tradeoff import panels, tradeoff
from medunlearn.reports.words import place_text

HOW_TO_READ: tuple[str, ...] = (
    "Each point is one model. Further right, it still answers questions about the retain set. Further up, it "
    "gives away less of the answers about the forget set.",
    "The target model (star) was trained on everything. The retrained model (diamond) never saw the forget set: "
    "it is the reference that each forgetting number is read against. A good unlearned model lies on the diamond.",
    "Closeness to the retrained model is what counts, not the largest forgetting. A model that knows nothing of "
    "a subject still guesses some answers right. A point well above the diamond has not forgotten better: it may "
    "be damaged, or its odd answers may show that something was removed.",
    "Bars are 95% intervals over subjects, because questions on one subject are not independent.",
    "The report covers the questions that were asked. What other questions, other wordings or an attack on the "
    "weights would bring up is not measured here.",
)
RANKING_NOTE = (
    "Distance: the root of the two squared differences from the retrained model, in utility and in forgetting; "
    "0 = the same. Where intervals overlap, the order of the methods is not settled. Differences are paired on "
    "subjects; no interval here is corrected for the number of comparisons."
)
TEXT_WITHHELD = (
    "Questions and responses are not shown, because they may carry text of real records. Run the report again "
    "with --show-text to put them in; the file is then as sensitive as the records."
)
JUDGED = (
    "A panel's verdict is what more than half of its judges say; a judge without a verdict still counts as one. "
    "Judges are models, and agreeing with each other does not make them right: read that beside people's labels."
)
EPOCHS = (
    "Every method after each epoch of unlearning; epoch 0 is the target model. A band is the 95% interval. The "
    "dashed line is the target model, the dotted one the retrained model. A method has forgotten where its line "
    "comes down to the retrained model's."
)
UTILITY = (
    "Tasks of lm-evaluation-harness, on as many items as were asked; higher = more useful. Intervals are a "
    "bootstrap over items, since these are about nobody. Utility is the plain mean of the numbers above it."
)
BREAKDOWN = (
    "The same trade-off for each fold and kind of question, all on the same axes. The retrained model moves with "
    "the questions, so each plot has its own diamond. Forgetting that shows on the train fold and not on another "
    "may be forgetting of wordings and not of facts."
)
INSIDE = "The numbers are in the table below."


def unlearning_report(content: ReportContent) -> Report:
    """Every section that the runs have numbers for; text of records only where ``content.show_text``.

    Raises:
        InputError: two models with one label.
    """
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    key = Legend(legend(content.models))
    parts = blocks(
        Notice("Read this first", content.caveats) if content.caveats else None,
        _lead(content, results, where, ranked),
        _headline_section(ranked, where),
        section("How to read this", Prose(HOW_TO_READ)),
        _groups_section(content),
        _epochs_section(content, key),
        content.paper.blocks,
        _utility_section(content),
        membership_section(content),
        reconstruction_section(content),
        _breakdown_section(results, key),
        _metrics_section(content, results, where),
        _judged_section(content.judged),
        _training_section(content.models),
        _examples_section(content),
        _runs_section(content),
    )
    return Report(content.title, parts, "Unlearning report", tuple(facts(content)), _data(content, where, ranked))


def _lead(content: ReportContent, results: Results, where: Plane, ranked: Sequence[Standing]) -> Columns:
    """The answer with its ranking, beside the plot."""
    closest, bars = verdict(list(ranked)), _bars(ranked)
    place = place_text(where.fold, where.kind)
    title = f"Utility against forgetting: {place}"
    plot: list[Block | None] = [
        Text("No model has a number on both the retain set and the forget set: nothing to draw.", "empty")
    ]
    if drawable(results, where):
        label = f"Scatter plot: utility on retain against forgetting on forget, one point a model. {INSIDE}"
        unplaced = [one.model.label for one in ranked if not one.placed]
        missing = f"Not in the plot, because one of the two numbers is unscored: {', '.join(unplaced)}."
        plot = [
            Figure(tradeoff(results, where), label, title, "large"),
            Legend(legend(content.models), spare=True),
            Text(missing, "aside") if unplaced else None,
        ]
    head = Headline(closest.title, closest.name, closest.sentences)
    return Columns(blocks(head, Bars("Distance to the retrained model", bars) if bars else None), blocks(plot))


def _bars(ranked: Sequence[Standing]) -> tuple[Bar, ...]:
    """Distances to the retrained model, shortest first."""
    known = [(one.distance, one.model) for one in ranked if one.distance is not None]
    longest = max((distance for distance, _ in known), default=0.0) or 1.0
    return tuple(
        Bar(
            model.label,
            f"{distance:.3f}",
            distance / longest,
            "before unlearning" if model.role == "target" else "",
            muted=model.role == "target",
        )
        for distance, model in sorted(known, key=lambda one: one[0])
    )


def _headline_section(ranked: Sequence[Standing], where: Plane) -> Section | None:
    compared = any(one.distance is not None for one in ranked)
    return section(
        "Every model against the retrained model" if compared else "Every model",
        headline_table(ranked, where),
        Text(RANKING_NOTE, "aside") if compared else None,
        note=place_text(where.fold, where.kind),
        name="headline",
    )


def _groups_section(content: ReportContent) -> Section | None:
    table = group_table(content)
    return None if table is None else section(f"By {table.columns[0].text.lower()}", table, name="groups")


def _epochs_section(content: ReportContent, key: Legend) -> Section | None:
    table = epoch_table(content)
    if table is None:
        return None
    grid = figures(epoch_figures(content), "By epoch", columns=2)
    return section(
        "By epoch", Text(EPOCHS), key, grid, details("The numbers of these figures", table), name="epochs"
    )


def _utility_section(content: ReportContent) -> Section | None:
    table = utility_table(content)
    return None if table is None else section("Utility on general tasks", Text(UTILITY), table, name="utility")


def _breakdown_section(results: Results, key: Legend) -> Section | None:
    planes = panel_planes(results)
    if not planes:
        return section(
            "By fold and kind",
            Text("No fold and kind has a number on both the retain set and the forget set.", "empty"),
            name="breakdown",
        )
    # A row a fold, where its kinds fit side by side.
    columns = min(3, len({one.kind for one in planes}))
    grid = figures(panels(results, planes), "Utility against forgetting", columns=columns)
    return section(
        "By fold and kind",
        Text(BREAKDOWN),
        key,
        grid,
        details("The numbers of these plots", breakdown_table(results)),
        name="breakdown",
    )


def _metrics_section(content: ReportContent, results: Results, where: Plane) -> Section | None:
    table = metric_table(results, where)
    return section(
        "Every metric",
        table or Text("No scores were given to this report.", "empty"),
        details("Comparisons with models other than the retrained one", other_comparisons(content, results)),
        name="metrics",
    )


def _judged_section(panels: Sequence[JudgedContent]) -> Section | None:
    parts = [
        section(
            panel.title,
            Text(panel.about, "aside"),
            [details(one.title, *one.blocks, opened=not n) for n, one in enumerate(panel.sections)],
        )
        for panel in panels
    ]
    return section("Judged by panels", Text(JUDGED), parts, name="judged") if parts else None


def _training_section(models: Sequence[ModelResult]) -> Section | None:
    curves = figures(training_curves(models), "Loss by step")
    says = "The loss of each optimizer step. A method's terms are drawn beside their total."
    nothing = Text("No training history was given to this report.", "empty")
    return section("Training", *((Text(says), curves) if curves else (nothing,)), name="training")


def _examples_section(content: ReportContent) -> Section | None:
    examples = content.shown_examples()
    if not examples:
        missing = "No examples were kept with this run." if content.show_text else TEXT_WITHHELD
        return section("Examples, before and after", Text(missing, "empty"), name="examples")
    folded = [
        Details(
            one.question,
            (Quotes((("Reference answer", one.answer), *one.responses.items()), reference=True),),
            f"{one.fold}, {one.kind}, {one.question_id}",
            opened=not number,
            tag=one.side,
        )
        for number, one in enumerate(examples)
    ]
    return section("Examples, before and after", folded, name="examples")


def _runs_section(content: ReportContent) -> Section | None:
    shared = shared_facts(content.models)
    return section(
        "What was run",
        cost_table(content.models),
        details("Benchmark and split", Facts(tuple(benchmark_facts(content)))),
        details("The same in every run", Facts(tuple(shared.items()))) if shared else None,
        _own_facts(content.models, shared),
        name="runs",
    )


def _own_facts(models: Sequence[ModelResult], shared: Mapping[str, str]) -> Iterator[Details]:
    for model in models:
        own = tuple((key, text) for key, text in run_facts(model).items() if key not in shared)
        nothing = Text("Nothing that differs from the other runs.", "empty")
        yield Details(model.label, (Facts(own) if own else nothing,))


def _data(content: ReportContent, where: Plane, ranked: Sequence[Standing]) -> dict[str, Any]:
    """Everything that the report shows, and every row behind it; text only where ``show_text``."""
    closest, membership = verdict(list(ranked)), content.membership
    return {
        "context": content.context,
        "benchmark": content.benchmark,
        "split": content.split,
        "caveats": content.caveats,
        "metrics": {
            name: {"title": title, "meaning": meaning} for name, (title, meaning) in content.metrics.items()
        },
        "headline": {
            "fold": where.fold,
            "kind": where.kind,
            "utility_metric": where.utility,
            "forgetting_metric": where.forgetting,
            "closest_to_retrained": closest.name if closest.found else None,
            "explanation": " ".join(closest.sentences),
            "distance_to_retrained": {one.model.label: one.distance for one in ranked},
        },
        "models": [_model(model) for model in content.models],
        "comparisons": content.comparisons,
        "groups": content.groups,
        "judged": [asdict(panel) for panel in content.judged],
        "membership": {
            "table": membership.table,
            "comparisons": membership.comparisons,
            "curves": membership.curves.drop(columns="threshold", errors="ignore"),
        },
        "reconstruction": {
            "table": content.reconstruction.table,
            "comparisons": content.reconstruction.comparisons,
        },
        "epochs": content.epochs,
        "utility": content.utility,
        "findings": [],
        **content.paper.data,
        "show_text": content.show_text,
        "examples": [plain(vars(example)) for example in content.shown_examples()],
    }


def _model(model: ModelResult) -> dict[str, Any]:
    return {
        "label": model.label,
        "role": model.role,
        "method": model.method,
        "summary": model.summary,
        "history": {str(name): model.history[name].tolist() for name in model.history.columns},
        "info": {key: value for key, value in model.info.items() if key != "results"},
    }
