"""The report of unlearning runs as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.data.origins import is_drawn
from medunlearn.reports.blocks import (
    Block,
    Cell,
    Choice,
    Details,
    Facts,
    Legend,
    Notice,
    Prose,
    Quotes,
    Report,
    Section,
    Table,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.content import JudgementTables, ModelResult, ReportContent
from medunlearn.reports.epochs import epoch_figures, epoch_table
from medunlearn.reports.figures import legend
from medunlearn.reports.formatting import decimal, flat
from medunlearn.reports.headline import verdict
from medunlearn.reports.json import plain
from medunlearn.reports.models_screen import ModelsScreen
from medunlearn.reports.plots import panels, training_curves
from medunlearn.reports.provenance import provenance_data, provenance_section, undecided
from medunlearn.reports.rank_tables import rank_section
from medunlearn.reports.readings import Results, Standing, panel_planes, rows_of
from medunlearn.reports.run_pair import pair_data, pair_section
from medunlearn.reports.table_blocks import (
    breakdown_table,
    cost_table,
    facts,
    grid,
    group_table,
    measure_meanings,
    metric_table,
    other_comparisons,
    run_facts,
    utility_table,
)

if TYPE_CHECKING:
    from medunlearn.results.reference_check import ReferenceCheck

HOW_TO_READ: tuple[str, ...] = (
    "Each point is one model. Further right, it still answers questions about the retain set. Further up, it "
    "gives away less of the answers about the forget set.",
    "The target model (star) was trained on everything. The retrained model (diamond) never saw the forget set: "
    "it is the reference that each forgetting number is read against. A good unlearned model lies on the diamond.",
    "Closeness to the retrained model is what counts, not the largest forgetting. A model that knows nothing of "
    "a subject still guesses some answers right. A point well above the diamond has not forgotten better: it may "
    "be damaged, or its odd answers may show that something was removed.",
    "Bars are 95% intervals over subjects, because questions on one subject are not independent.",
)
COVERED = (
    "The report covers the questions that were asked. What other questions, other wordings or an attack on the "
    "weights would bring up is not measured here."
)
COVERED_WITH_ATTACKS = (
    "The report covers the questions that were asked and the attacks further down. What other questions, other "
    "wordings or other attacks would bring up is not measured here."
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
    "dashed line is the target model, the dotted one the retrained model."
)
EPOCHS_READING = "A method has forgotten where its line comes down to the retrained model's."
UTILITY = (
    "Tasks of lm-evaluation-harness, on as many items as were asked; higher = more useful. Intervals are "
    "over items, since these are about nobody. Utility is the plain mean of the numbers above it."
)
BREAKDOWN = (
    "The same trade-off for each fold and kind of question, all on the same axes. The retrained model moves with "
    "the questions, so each plot has its own diamond. Forgetting that shows on the train fold and not on another "
    "may be forgetting of wordings and not of facts."
)
SWITCH = "Forget set"


@dataclass(frozen=True)
class SweepPart:
    """The models of one split, training seed and context of a sweep, or of a report of runs.

    Attributes:
        title: name among the parts of a sweep.
        split, seed: of its models; the split as reports show it.
    """

    title: str
    content: ReportContent
    split: str = ""
    seed: int = 0


def unlearning_report(content: ReportContent) -> Report:
    """Every section with numbers; text of records only with ``content.show_text``.

    Raises:
        InputError: two models with one label.
    """
    part = SweepPart("", content)
    screen = ModelsScreen(content)
    page = blocks(
        Notice("Read this first", content.caveats) if content.caveats else None,
        part_blocks([part]),
        content.paper.blocks,
        judged_section(content.judged),
        _training_section(content.models),
        section("Examples, before and after", _examples(content), name="examples"),
        provenance_section(content.provenance, content.extractor),
        _runs_section(content),
    )
    drawn = undecided(content.benchmark)
    return Report(content.title, page, "Unlearning report", tuple(facts(content)), _data(screen), drawn=drawn)


def part_blocks(parts: Sequence[SweepPart]) -> tuple[Block, ...]:
    """First screen and details of runs, or of every part of a sweep with a switch between them."""
    screens = [ModelsScreen(part.content) for part in parts]
    titles = [part.title for part in parts]
    own = [list(_sections(screen)) for screen in screens]
    return blocks(
        switch(titles, [screen.blocks() for screen in screens]),
        by_split(parts, screens),
        merged(titles, own),
    )


def switch(titles: Sequence[str], options: Sequence[tuple[Block, ...]]) -> tuple[Block, ...]:
    """The blocks of a single part, or a choice among those of several."""
    if len(options) == 1:
        return options[0]
    nothing = (Text("Not measured here.", "empty"),)
    filled = tuple((title, inside or nothing) for title, inside in zip(titles, options, strict=True))
    return (Choice(SWITCH, filled),) if any(options) else ()


def merged(titles: Sequence[str], parts: Sequence[Sequence[Section]]) -> list[Section]:
    """One section for each name in the parts' sections, with a switch between the parts."""
    first: dict[str, Section] = {}
    inside: dict[str, dict[int, tuple[Block, ...]]] = {}
    for place, sections in enumerate(parts):
        for own in sections:
            name = own.name or own.title
            first.setdefault(name, own)
            inside.setdefault(name, {})[place] = own.blocks
    return [
        replace(own, blocks=switch(titles, [inside[name].get(place, ()) for place in range(len(parts))]))
        for name, own in first.items()
    ]


def _sections(screen: ModelsScreen) -> Iterator[Section]:
    """The details of one part, in the order of the page."""
    content, results = screen.content, screen.results
    key = Legend(legend(content.models))
    groups, epochs, utility = group_table(content), epoch_table(content), utility_table(content)
    meanings = measure_meanings(results)
    by_group = f"By {groups.columns[0].text.lower()}" if groups else ""
    sections = (
        pair_section(content, screen.where),
        rank_section(content),
        screen.gaps(),
        section("How to read this", Prose((*HOW_TO_READ, _covered(content))), name="how-to-read"),
        section(by_group, groups, name="groups"),
        _epochs_section(content, key, epochs) if epochs else None,
        section("Utility on general tasks", Text(UTILITY), utility, name="utility") if utility else None,
        *(part.section for part in content.attacks),
        _breakdown_section(results, key),
        section(
            "Every metric",
            metric_table(results, screen.where) or Text("No scores were given to this report.", "empty"),
            details("What the measures mean", *([Facts(meanings)] if meanings else [])),
            details("Comparisons with models other than the retrained one", other_comparisons(content, results)),
            name="metrics",
        ),
    )
    return (own for own in sections if own is not None)


def by_split(parts: Sequence[SweepPart], screens: Sequence[ModelsScreen]) -> Section | None:
    """Every model on every split of a sweep, a table for each number of the first screen; None of a single part."""
    if len(parts) < 2:
        return None
    numbers: dict[str, list[tuple[Cell, str, tuple[float, str]]]] = {}
    for part, screen in zip(parts, screens, strict=True):
        for title, label, value, note in screen.numbers():
            numbers.setdefault(title, []).append((Cell(label), part.split, (value, note)))
    splits = list(dict.fromkeys(part.split for part in parts))
    options = tuple(
        (title, blocks(grid("Model", _over_seeds(entries), splits))) for title, entries in numbers.items()
    )
    return section("Every model on every split", Choice("Number", options), name="splits") if options else None


def _over_seeds(
    entries: Sequence[tuple[Cell, str, tuple[float, str]]],
) -> Iterator[tuple[Cell, str, Cell]]:
    """Means over training seeds with the least and the greatest; of a single seed its number and interval."""
    groups: dict[tuple[Cell, str], list[tuple[float, str]]] = {}
    for label, split, value in entries:
        groups.setdefault((label, split), []).append(value)
    for (label, split), values in groups.items():
        numbers = [value for value, _ in values]
        spread = f"{decimal(min(numbers))} to {decimal(max(numbers))}, {len(numbers)} seeds"
        yield label, split, Cell(decimal(sum(numbers) / len(numbers)), spread if len(numbers) > 1 else values[0][1])


def _covered(content: ReportContent) -> str:
    return COVERED_WITH_ATTACKS if any(part.brings_back for part in content.attacks) else COVERED


def _epochs_section(content: ReportContent, key: Legend, table: Table) -> Section | None:
    grid = figures(epoch_figures(content), "By epoch", columns=2)
    shown = details("Every measure, a panel each", grid) if content.paper.draws_epochs else grid
    numbers = details("The numbers of these figures", table)
    refused = () if content.reference is None else content.reference.reasons
    reading = Text(" ".join(refused or (EPOCHS_READING,)))
    return section("By epoch", Text(EPOCHS), reading, key, shown, numbers, name="epochs")


def _breakdown_section(results: Results, key: Legend) -> Section | None:
    planes = panel_planes(results)
    if not planes:
        nothing = Text("No fold and kind has a number on both the retain set and the forget set.", "empty")
        return section("By fold and kind", nothing, name="breakdown")
    # A row per fold, where its kinds fit side by side.
    columns = min(3, len({where.kind for where in planes}))
    grid = figures(panels(results, planes), "Utility against forgetting", columns=columns)
    numbers = details("The numbers of these plots", breakdown_table(results))
    return section("By fold and kind", Text(BREAKDOWN), key, grid, numbers, name="breakdown")


def judged_section(judged: Sequence[JudgementTables]) -> Section | None:
    """Tables of judge panels; None without any."""
    parts = [
        section(
            panel.title,
            Text(panel.about, "aside"),
            [details(part.title, *part.blocks, opened=not n) for n, part in enumerate(panel.sections)],
        )
        for panel in judged
    ]
    return section("Judged by panels", Text(JUDGED), parts, name="judged") if parts else None


def _training_section(models: Sequence[ModelResult]) -> Section | None:
    curves = figures(training_curves(models), "Loss by step")
    text = Text("The loss of each optimizer step. A method's terms are drawn beside their total.")
    nothing = Text("No training history was given to this report.", "empty")
    return section("Training", *((text, curves) if curves else (nothing,)), name="training")


def _examples(content: ReportContent) -> list[Block]:
    examples = content.shown_examples()
    if not examples:
        missing = "No examples were kept with this run." if content.show_text else TEXT_WITHHELD
        return [Text(missing, "empty")]
    return [
        Details(
            example.question,
            (Quotes((("Reference answer", example.answer), *example.responses.items()), reference=True),),
            f"{example.fold}, {example.kind}, {example.question_id}",
            opened=not number,
            tag=example.side,
        )
        for number, example in enumerate(examples)
    ]


def _runs_section(content: ReportContent) -> Section | None:
    runs = {model.label: run_facts(model) for model in content.models}
    first, *others = runs.values()
    same = {key: text for key, text in first.items() if others and all(run.get(key) == text for run in others)}
    nothing = Text("Nothing that differs from the other runs.", "empty")
    own = {label: tuple((key, run[key]) for key in run if key not in same) for label, run in runs.items()}
    facts_of_benchmark = {name: fact for name, fact in content.benchmark.items() if name != "provenance"}
    benchmark = (
        flat(facts_of_benchmark, "benchmark.") | flat(content.split, "split.") | {"context": content.context}
    )
    return section(
        "What was run",
        cost_table(content.models),
        details("Benchmark and split", Facts(tuple(benchmark.items()))),
        details("The same in every run", Facts(tuple(same.items()))) if same else None,
        [Details(label, (Facts(rows) if rows else nothing,)) for label, rows in own.items()],
        name="runs",
    )


def part_data(content: ReportContent) -> dict[str, Any]:
    """All numbers of one part of a sweep, without training curves, settings and examples, which its runs hold."""
    data = _data(ModelsScreen(content))
    data["models"] = [{k: v for k, v in model.items() if k not in ("history", "info")} for model in data["models"]]
    return {key: by_column(value) for key, value in data.items() if key not in ("examples", "judged", "metrics")}


def by_column(value: Any) -> Any:
    """Tables as column -> values, a third of the size of a mapping per row; other values unchanged."""
    match value:
        case pd.DataFrame():
            return {str(name): value[name].tolist() for name in value.columns}
        case dict():
            return {name: by_column(item) for name, item in value.items()}
        case list():
            return [by_column(item) for item in value]
        case _:
            return value


def _data(screen: ModelsScreen) -> dict[str, Any]:
    """All numbers in the report, and their rows; text only with ``show_text``."""
    content, where, ranked = screen.content, screen.where, screen.ranked
    closest, answer = verdict(ranked, content.reference, undecided(content.benchmark))
    measured = {str(name) for model in content.models for name in model.summary.get("measure", ())}
    return {
        "context": content.context,
        "benchmark": content.benchmark,
        "split": content.split,
        "caveats": content.caveats,
        "provenance": provenance_data(content.provenance),
        "drawn_measures": sorted({row["measure"] for row in _rows(content) if is_drawn(str(row["measure"]))}),
        "metrics": {
            name: {"title": title, "meaning": meaning}
            for name, (title, meaning) in content.metrics.items()
            if name in measured
        },
        "headline": {
            "fold": where.fold,
            "kind": where.kind,
            "utility_metric": where.utility,
            "forgetting_metric": where.forgetting,
            "closest_to_retrained": closest,
            "explanation": " ".join(answer.sentences),
            "reference": reference_data(content.reference),
            "distance_to_retrained": {standing.model.label: standing.distance for standing in ranked},
            "forgetting": {
                standing.model.label: forgetting_data(standing)
                for standing in ranked
                if standing.model.role == "unlearned"
            },
        },
        "standings": screen.rows(),
        "models": [_model(model) for model in content.models],
        "comparisons": content.comparisons,
        "pair": [*pair_data(content, screen.where)],
        "groups": content.groups,
        "judged": [asdict(panel) for panel in content.judged],
        **_attack_data(content),
        "ranks": asdict(content.ranks),
        "epochs": content.epochs,
        "utility": content.utility,
        "findings": [],
        **content.paper.data,
        "show_text": content.show_text,
        "examples": [plain(vars(example)) for example in content.shown_examples()],
    }


def _rows(content: ReportContent) -> Iterator[Mapping[str, Any]]:
    return (row for model in content.models for row in rows_of(model.summary))


def _attack_data(content: ReportContent) -> dict[str, Any]:
    data: dict[str, dict[str, Any]] = {}
    for part in content.attacks:
        data.setdefault(part.group, {}).update(part.data)
    return data


def reference_data(reference: ReferenceCheck | None) -> dict[str, Any] | None:
    """The reference check, for JSON; None if there is no retrained model."""
    if reference is None:
        return None
    return {**asdict(reference), "passed": reference.passed, "reasons": reference.reasons}


def forgetting_data(standing: Standing) -> dict[str, Any]:
    """A model's forgetting beside what damage explains, for JSON."""
    check = standing.check
    if check is None:
        return {"passed": False, "obstacles": ["not checked"]}
    return {
        "passed": standing.forgets,
        "obstacles": [why.obstacle for why in check.reasons],
        "reasons": [why.text for why in check.reasons],
        "forgotten": check.forgotten,
        "lost": {control.fold: control.lost for control in check.controls},
        "ranked_first": {rank.fold: rank.value.value for rank in check.ranks},
        "remembered": None if check.remembered is None else asdict(check.remembered),
        "distance_beyond_damage": standing.distance_beyond_damage,
    }


def _model(model: ModelResult) -> dict[str, Any]:
    return {
        "label": model.label,
        "role": model.role,
        "method": model.method,
        "summary": model.summary,
        "problems": model.problems,
        "history": {str(name): model.history[name].tolist() for name in model.history.columns},
        "info": {key: value for key, value in model.info.items() if key != "results"},
    }
