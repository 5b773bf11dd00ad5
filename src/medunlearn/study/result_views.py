"""Benchmarks, evaluations, attacks and scores for the terminal, with the part of the benchmark's paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.data.origins import NOTE, is_drawn
from medunlearn.paper import paper_of
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import (
    ResultView,
    model_tables,
    plain_table,
    records_table,
    same_names,
    scored,
    sentence,
)

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attacked import Attacks
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.describe import Description
    from medunlearn.results.evaluated import Evaluation

LEFT_OUT = ("patients without a usable note", "patients without a probe", "notes whose text several patients have")


def paper_view(verb: str, result: Any, benchmark: Any) -> ResultView:
    """The tables that only the paper of a benchmark has of a verb's result.

    Args:
        benchmark: a benchmark or its folder.
    """
    if isinstance(benchmark, str | Path):
        from medunlearn.data.benchmark import Benchmark

        benchmark = Benchmark.load(benchmark)
    paper = paper_of(benchmark.builder)
    show = paper.view(verb)
    if show is None:
        missing = f"{paper.missing}: its own measures and pages are not shown." if paper.missing else None
        return ResultView(blocks=[missing])
    shown: ResultView = show(result, benchmark)
    return shown


def build_view(result: Benchmark, *, out: str) -> ResultView:
    """Counts of a benchmark that was built, and what was left out."""
    from medunlearn.data.storage import read_json

    file, notes = Path(out) / "build.json", result.notes
    facts = read_json(file) if file.exists() else {}
    facts.pop("status", None)
    lines = [f"{out}: " + ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in result.counts().items())]
    if reason := result.undecided:
        lines.append(f"{sentence(reason)}: no number on this benchmark decides anything")
    if skipped := notes.get("skipped rows"):
        lines.append(f"{len(skipped)} rows were left out; they are listed in {Path(out) / 'benchmark.yaml'}")
    lines += [f"left out: {n:,} notes {reason}" for reason, n in notes.get("notes left out", {}).items()]
    lines += [f"{fact}: {notes[fact]:,}" for fact in LEFT_OUT if notes.get(fact)]
    return ResultView({"folder": str(out), **result.facts(), **({"build": facts} if facts else {})}, notes=lines)


def keywords_view(result: Any, extractor: str) -> ResultView:
    """Numbers of keywords."""
    facts = result.facts
    rows = [("questions with keywords", facts["with_keywords"]), ("keywords", facts["keywords"])]
    rows += [(f"without: {why}", count) for why, count in facts["without"].items()]
    place = f"{result.path}: it holds phrases of the records; keep it where those may be"
    table = plain_table(("what", "count"), rows, f"keywords by {extractor}")
    return ResultView({"path": str(result.path), **facts}, [table], notes=[place])


def benchmark_view(benchmark: Benchmark) -> ResultView:
    """Counts, levels and splits of a benchmark."""
    paper, kinds = (
        paper_view("inspect", benchmark, benchmark),
        Counter((question.fold, question.kind) for question in benchmark.questions),
    )
    levels = [(level, len(benchmark.nodes(level))) for level in benchmark.hierarchy.groups()]
    splits = []
    for split in benchmark.splits.values():
        sizes = tuple(benchmark.split_sizes(split).values())
        splits.append((split.name, split.level, *sizes, len(benchmark.nodes(split.level)) - sum(sizes)))
    columns = ("split", "level", "forget", "retain", "never trained on")
    blocks: list[Block | str | None] = [
        plain_table(("what", "count"), benchmark.counts().items(), benchmark.name),
        plain_table(("fold", "kind", "count"), [(*key, n) for key, n in sorted(kinds.items())], "questions"),
        plain_table(("level", "nodes"), levels, "levels and groups"),
        plain_table(columns, splits, "splits: nodes with documents"),
        f"licence: {benchmark.licence or 'unknown'}; data use: {benchmark.data_use}",
    ]
    data = benchmark.facts() | {"splits": list(benchmark.splits)} | paper.data
    return ResultView(data, [*blocks, *paper.blocks])


def description_view(benchmark: Benchmark, sizes: Description) -> ResultView:
    """Sizes, lengths and splits of a benchmark."""
    people, kinds = f"{sizes.subject}s", sizes.kinds()

    def size(row: Any) -> tuple[str, ...]:
        lengths = ("" if n is None else f"{n:,.0f}" for n in (row.shortest, row.mean, row.longest))
        return (row.group, f"{row.subjects:,}", f"{row.share:.1%}", f"{row.questions:,}", *lengths)

    def means(row: Mapping[str, float]) -> list[str]:
        return [f"{row[kind]:.1f}" if kind in row else "" for kind in kinds]

    tables = [
        plain_table(
            (sizes.level, people, "share", "questions", "shortest", "mean", "longest"),
            map(size, sizes.groups),
            f"{benchmark.name}: {people} and sizes of records in {sizes.tokens}",
        ),
        plain_table(
            (sizes.level, *(f"{what} {kind}" for what in "QA" for kind in kinds)),
            [(row.group, *means(row.question), *means(row.answer)) for row in sizes.lengths],
            f"Mean length of questions (Q) and answers (A) in {sizes.tokens}",
        ),
        plain_table(
            ("side", "size", people, "questions", "available for"),
            [(r.side, r.size, f"{r.subjects:,}", f"{r.questions:,}", ", ".join(r.available)) for r in sizes.splits],
            "Splits: questions of the train fold, and the holdout",
        ),
    ]
    return ResultView(benchmark.facts() | {"splits": list(benchmark.splits), "tables": sizes.facts()}, tables)


def run_view(info: Mapping[str, Any], folder: Path, *, whole: bool) -> ResultView:
    """A run's record; of a complete audit its first screen, with ``whole`` both in full."""
    is_audit, blocks = info.get("verb") == "audit" and info.get("status") == "complete", list[Block | str | None]()
    if whole or not is_audit:
        names = ("label", "verb", "status", "error", "data_use", "started", "seconds", "key")
        facts = [(name, info[name]) for name in names if info.get(name) is not None]
        blocks.append(plain_table(("what", "value"), facts, "run"))
        blocks.append(plain_table(("key", "value"), info["config"].items(), "settings"))
        blocks.append(plain_table(("what", "value"), info["results"].items(), "results"))
    if not is_audit:
        return ResultView(info, blocks)
    from medunlearn.audit.audit_result import Audit
    from medunlearn.audit.audit_view import audit_view

    audit = audit_view(Audit.open(folder), all=whole)
    return ResultView(info, (block for part in (blocks, audit.blocks) for block in part), audit.warnings)


def evaluate_view(result: Evaluation, *, benchmark: str) -> ResultView:
    """Measures by side, fold and model, the same for private questions, and the paper's own."""
    from medunlearn.models.health import banner

    paper, table, private = paper_view("evaluate", result, benchmark), result.table(), result.private_table()

    def data() -> dict[str, Any]:
        tables = {"table": table, "comparisons": result.comparisons, "private": private}
        tables["image_control"] = result.image_control
        facts: dict[str, Any] = {name: part.to_dict("records") for name, part in tables.items()}
        facts |= {"health": result.problems}
        if result.reference is not None:
            facts["reference"] = list(result.reference.reasons)
        if reason := next((model.undecided for model in result.models if model.undecided), ""):
            facts["drawn"] = [reason]
        return {**facts, **paper.data}

    def blocks() -> Iterator[Block | str | None]:
        yield from _measures(table, result.models)
        if len(private):
            yield "On private questions alone (no record that may be kept holds the answer):"
            yield from _measures(private, result.models)
        yield _image_control(result.image_control)
        contexts = ", ".join(sorted({model.context for model in result.models}))
        yield f"Asked in context: {contexts}. With --json or --out also by kind of question."
        yield from dict.fromkeys(model.probes for model in result.models)
        yield _extractor(result.models)
        yield from result.caveats
        yield from paper.blocks

    slow = [f"{model.run.label}: {line}" for model in result.models for line in _slow_ways(model)]
    return ResultView(data, blocks(), banner(result.problems), slow)


def _slow_ways(model: Any) -> Iterator[str]:
    from medunlearn.study.run_views import slow_ways

    return slow_ways(model.record.info["results"])


def _measures(table: pd.DataFrame, models: Sequence[Any]) -> Iterator[Block | str | None]:
    labels, title = [model.run.label for model in models], "{}, {} fold".format
    yield from model_tables(table[table["kind"] == "all"], ("side", "fold"), ("measure",), title, labels, scored)
    subjects = table.groupby("side", sort=False)["n_subjects"].max().items()
    sizes = ", ".join(f"{side} {n_subjects}" for side, n_subjects in subjects)
    yield f"Intervals: 95%, over subjects ({sizes}); none of fewer than five."
    yield NOTE if any(map(is_drawn, table["measure"].unique())) else None


def _image_control(control: pd.DataFrame) -> Block | None:
    """The loss with another patient's image and with a blank image, by kind of question."""
    main = {"generation": "rouge_l_f", "classification": "option_accuracy"}
    rows = [
        row
        for row in control.to_dict("records")
        if row["measure"] == main.get(row["kind"], "exact_match") and row["fold"] == "train"
    ]
    names = (
        "model",
        "side",
        "kind",
        "measure",
        "image",
        "true",
        "value",
        "difference",
        "low",
        "high",
        "n_subjects",
    )
    title = "Is the image needed? The true image minus another one"
    return records_table(rows, same_names(*names), title) if len(control) else None


def _extractor(models: Sequence[Any]) -> str | None:
    """The extractor of the leakage score's keywords."""
    from medunlearn.metrics.leakage.leakage_score import extractor_words

    by = extractor_words({model.extractor for model in models} - {""})
    return f"ls: {by}." if by else None


def score_view(result: Any) -> ResultView:
    """Measures of an evaluated run, or an audit, that was scored again."""
    from medunlearn.audit.audit_result import Audit
    from medunlearn.audit.audit_view import audit_view
    from medunlearn.models.health import banner

    if isinstance(result, Audit):
        return audit_view(result, all=True)
    problems = {result.run.label: result.record.info.problems}
    table = result.summary.assign(model=result.run.label)
    drawn = f"No number here decides anything: {result.undecided}." if result.undecided else None
    blocks = (*_measures(table, [result]), drawn, _extractor([result]))
    data = {"table": result.summary.to_dict("records"), "health": problems}
    return ResultView(data, blocks, banner(problems))


def attack_view(result: Attacks, *, benchmark: str) -> ResultView:
    """The sections of a report on the attacks, and the paper's own."""
    from medunlearn.attacks.attack_blocks import attacks_view

    return attacks_view(result, paper_view("attack", result, benchmark))


def annotate_view(result: tuple[Path, Path]) -> ResultView:
    """The places of the table and the page of a sheet."""
    table, page = result
    notes = (
        f"{page}: open it in a browser; it loads and sends nothing",
        f"{table}: the same to fill in with a spreadsheet. Both hold text of records: keep them private",
    )
    return ResultView({"csv": str(table), "page": str(page)}, notes=notes)
