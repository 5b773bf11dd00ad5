"""LUME's Figures 2 to 4 and Table 1, as its readers know them, from the numbers of a report.

The paper prints its figures without their numbers, so that none stands beside ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Record
from medunlearn.papers.lume import PUBLIC, TASKS
from medunlearn.papers.lume.measured import ATTACK
from medunlearn.reports.blocks import Block, Bullets, Cell, Figure, Legend, Section, Spec, Text, blocks, section
from medunlearn.reports.content import ReportContent
from medunlearn.reports.epochs import MEMBERSHIP, UTILITY, epoch_row, panels_of
from medunlearn.reports.figures import legend
from medunlearn.reports.table_blocks import grid

MEASURES = {"regurgitation": "Reg", "knowledge": "Kno"}
"""Measures of Figure 2, with the paper's short names."""
MISSING = {
    "Figure 2": "evaluate after every epoch (--unlearn.evaluate-every 1)",
    "Figure 3": "attack target, retrained model and every epoch by loss (--attack.attacks loss), with non-members "
    "(--benchmark.nonmember-documents 100; a released target leaves none)",
    "Figure 4": "measure utility after every epoch (--utility.tasks mmlu)",
    "Table 1": "name the benchmark (--benchmark)",
}
"""Parts that a report of LUME may lack, and how to add them."""


def paper_figures(content: ReportContent, benchmark: Benchmark | None) -> tuple[Block, ...]:
    """Figures 2 to 4 and Table 1 under the paper's numbers, and what is missing."""
    parts: dict[str, list[Block]] = {
        "Figure 2": list(_performance(content)),
        "Figure 3": list(_single(content, MEMBERSHIP, "membership AUC", "Loss attack")),
        "Figure 4": list(_single(content, UTILITY, "utility", "General tasks")),
        "Table 1": [] if benchmark is None else list(_documents(benchmark)),
    }
    titles = {
        "Figure 2": "Regurgitation and knowledge by epoch, Tasks 1 to 3",
        "Figure 3": "Membership inference by epoch",
        "Figure 4": "Utility by epoch",
        "Table 1": "Documents of each task",
    }
    key = Legend(legend(content.models))
    sections = [
        Section(titles[number], (*([key] if number.startswith("Figure") else []), *shown), number)
        for number, shown in parts.items()
        if shown
    ]
    missing = tuple(f"{number}: {how}" for number, how in MISSING.items() if not parts[number])
    lacks = section("Not in this report", Bullets(missing)) if missing else None
    return blocks(sections, lacks)


def _performance(content: ReportContent) -> Iterator[Figure]:
    """Figure 2: a row of four panels for each task, all on one scale."""
    every = list(panels_of(content))
    for number, task in enumerate(TASKS, start=1):
        chosen, titles = [], []
        for measure, short in MEASURES.items():
            for side in SIDES:
                own = [
                    p for p in every if (p.node, p.measure, p.side) == (task, measure, side) and p.fold == "train"
                ]
                chosen += own[:1]
                titles += [f"{short}, {side}"] * len(own[:1])
        spec = epoch_row(content, chosen, titles, f"Task {number}")
        if spec is not None:
            yield _wide(spec, f"Figure 2, Task {number} ({task.replace('_', ' ')}): {', '.join(titles)} by epoch")


def _single(content: ReportContent, measure: str, y: str, title: str) -> Iterator[Figure]:
    """Figures 3 and 4: one panel over all tasks, or on public biographies."""
    own = [panel for panel in panels_of(content) if panel.measure == measure]
    if measure == MEMBERSHIP:
        own = [panel for panel in own if panel.metric == ATTACK]
        own.sort(key=lambda panel: panel.node != PUBLIC)
    spec: Spec | None = epoch_row(content, own[:1], [title] * len(own[:1]), y)
    if spec is not None:
        yield _wide(spec, f"{title}: {y} by epoch")


def _documents(benchmark: Benchmark) -> Iterator[Block]:
    """Table 1: number of documents of each task, by side of a split; non-members in a row of their own."""
    titles = [task.replace("_", " ") for task in TASKS]
    for name, split in benchmark.splits.items():
        subsets: dict[str, list[Record]] = {
            side: [record for record in benchmark.records_of(split, side) if record.fold == "train"]
            for side in SIDES
        }
        subsets["non-members"] = [record for record in benchmark.records if record.fold == "holdout"]
        entries = [
            (Cell(subset), title, Cell(f"{count:,}"))
            for subset, records in subsets.items()
            for task, title in zip(TASKS, titles, strict=True)
            if (count := sum(record.groups.get("task") == task for record in records))
        ]
        table = grid("Subset", entries, titles)
        if table is not None:
            yield Text(f"Split {name}.")
            yield table


def _wide(spec: Spec, label: str) -> Figure:
    return Figure(spec, f"{label}. The numbers are in the table of epochs.", size="wide")
