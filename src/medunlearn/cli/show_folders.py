"""Benchmarks, runs and notes on the terminal and as JSON: `medunlearn inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output
from medunlearn.cli.result_tables import paper_view

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.splits import Split
    from medunlearn.notes.note_inspection import NoteInspection

MOST_ROWS = 40


def inspect(result: Any, output: Output, *, folder: str, all: bool = False) -> None:  # noqa: A002
    """
    Args:
        all: of an audit also its settings and every measure
    """
    if isinstance(result, tuple):
        _show_description(result, output)
    elif isinstance(result, dict):
        _run(result, folder, output, whole=all)
    elif hasattr(result, "splits"):
        _benchmark(result, output)
    else:
        _notes(result, output)


def _benchmark(benchmark: Benchmark, output: Output) -> None:
    paper = paper_view("inspect", benchmark, benchmark)
    if output.data(lambda: benchmark.facts() | {"splits": list(benchmark.splits)} | dict(paper.data)):
        return
    output.table(benchmark.name, ("what", "count"), benchmark.counts().items())
    kinds = Counter((question.fold, question.kind) for question in benchmark.questions)
    output.table("questions", ("fold", "kind", "count"), [(*key, n) for key, n in sorted(kinds.items())])
    levels = [(level, len(benchmark.nodes(level))) for level in benchmark.hierarchy.groups()]
    output.table("levels and groups", ("level", "nodes"), levels)
    rows = [_split_row(benchmark, split) for split in benchmark.splits.values()]
    output.table("splits: nodes with documents", ("split", "level", "forget", "retain", "never trained on"), rows)
    output.line(f"licence: {benchmark.licence or 'unknown'}; data use: {benchmark.data_use}")
    output.view(paper)


def _notes(notes: NoteInspection, output: Output) -> None:
    if output.data(notes.facts):
        return
    output.table("notes", ("what", "count"), notes.counts.items())
    output.table("columns", ("field", "column"), notes.fields.items())
    if notes.read.excluded:
        output.table("left out", ("reason", "notes"), notes.read.excluded.items())
    if notes.read.bad_rows:
        output.table("rows that cannot be read", ("place", "reason"), notes.read.bad_rows[:MOST_ROWS])
    for column, counts in notes.kinds.items():
        output.table(f"kinds of documents, by {column}", (column, "notes"), [*counts.items()][:MOST_ROWS])
    output.table("identifiers by column", ("column", "kind", "notes with one", "in their texts"), notes.identifiers)
    if notes.doubles:
        pairs = [(one, other, ", ".join(why)) for one, other, why in notes.doubles]
        output.table("ids that may be one person's", ("id", "other id", "why"), pairs[:MOST_ROWS])
        output.line(
            f"{len(pairs):,} pairs. --same-person FILE says which are one person's (her ids in a line) and which "
            "are not (an id alone); `audit` joins them, and `forget` takes all of hers."
        )


def _split_row(benchmark: Benchmark, split: Split) -> tuple[str | int, ...]:
    sizes = tuple(benchmark.split_sizes(split).values())
    return (split.name, split.level, *sizes, len(benchmark.nodes(split.level)) - sum(sizes))


def _show_description(result: tuple[Benchmark, Any], output: Output) -> None:
    benchmark, sizes = result
    if output.data(lambda: benchmark.facts() | {"splits": list(benchmark.splits), "tables": sizes.facts()}):
        return
    people, kinds = f"{sizes.subject}s", sizes.kinds()

    def size(row: Any) -> tuple[str, ...]:
        lengths = ("" if n is None else f"{n:,.0f}" for n in (row.shortest, row.mean, row.longest))
        return (row.group, f"{row.subjects:,}", f"{row.share:.1%}", f"{row.questions:,}", *lengths)

    def means(row: Mapping[str, float]) -> list[str]:
        return [f"{row[kind]:.1f}" if kind in row else "" for kind in kinds]

    columns = (sizes.level, people, "share", "questions", "shortest", "mean", "longest")
    title = f"{benchmark.name}: {people} and sizes of records in {sizes.tokens}"
    output.table(title, columns, map(size, sizes.groups))
    output.table(
        f"Mean length of questions (Q) and answers (A) in {sizes.tokens}",
        (sizes.level, *(f"{what} {kind}" for what in "QA" for kind in kinds)),
        [(row.group, *means(row.question), *means(row.answer)) for row in sizes.lengths],
    )
    output.table(
        "Splits: questions of the train fold, and the holdout",
        ("side", "size", people, "questions", "available for"),
        [(r.side, r.size, f"{r.subjects:,}", f"{r.questions:,}", ", ".join(r.available)) for r in sizes.splits],
    )


def _run(info: dict[str, Any], folder: str, output: Output, *, whole: bool) -> None:
    if output.data(info):
        return
    audited = info.get("verb") == "audit" and info.get("status") == "complete"
    if whole or not audited:
        names = ("label", "verb", "status", "error", "data_use", "started", "seconds", "key")
        facts = {key: info.get(key) for key in names}
        output.table("run", ("what", "value"), [(key, value) for key, value in facts.items() if value is not None])
        output.table("settings", ("key", "value"), info["config"].items())
        output.table("results", ("what", "value"), info["results"].items())
    if audited:
        from medunlearn.audit.audit_result import Audit
        from medunlearn.cli.show_audits import audit

        audit(Audit.open(Path(folder)), output, all=whole)
