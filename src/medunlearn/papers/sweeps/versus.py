"""Two sweeps beside each other: each method's numbers, the second minus the first, paired on common questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import RECORD
from medunlearn.errors import InputError
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import UNLEARNED, Seeds, SweepModels, Who, shown_splits
from medunlearn.papers.sweeps.report import evaluated_models, read_sweep, sweep_benchmark
from medunlearn.reports.blocks import (
    Block,
    Cell,
    Headline,
    Notice,
    Prose,
    Report,
    Table,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.figures import turn_colour, turn_mark
from medunlearn.reports.formatting import ABSENT, context_text, interval, p_text, signed
from medunlearn.reports.json import plain
from medunlearn.reports.plots import Dot, dot_plot
from medunlearn.reports.rank_tables import MEASURE
from medunlearn.reports.readings import Reading, is_composite, number, rows_of
from medunlearn.reports.table_blocks import records
from medunlearn.reports.unlearning import switch
from medunlearn.reports.view import ResultView, titled
from medunlearn.results.evaluated import COMPOSITES, comparable, joined
from medunlearn.results.summary import EVALUATION, compare
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.statistics.intervals import holm
from medunlearn.study.report.gather import made_for_this

ALPHA = 0.05
NUMBERS = ("Utility", "Forgetting", "Facts ranked first")
HOW: tuple[str, ...] = (
    "Every difference is the second sweep's model minus the first one's, of the same method on the same split, "
    "paired on the questions that both were asked. Intervals are 95%, drawn over subjects; several training seeds "
    "are drawn together with their subjects.",
    "p is corrected by Holm over the methods of a split, for each number apart. The references of both sweeps "
    "stand above the methods and are not among them: where the target models differ, so may everything below.",
)


@dataclass(frozen=True)
class Versus:
    """Differences of two sweeps.

    Attributes:
        names: of the first and the second sweep.
        differences: context, split, role, model, number (one of :data:`NUMBERS`, or empty), measure, side, fold,
            kind, difference, low, high, p, p_holm, n_pairs, n_subjects, n_seeds.
        only: sentences on what only one of the sweeps has.
    """

    title: str
    names: tuple[str, str]
    benchmark: Mapping[str, Any]
    differences: pd.DataFrame
    only: tuple[str, ...] = ()

    @property
    def main(self) -> pd.DataFrame:
        """Rows of the three numbers."""
        return self.differences[self.differences["number"] != ""]

    @property
    def headline(self) -> Headline:
        """Number of methods that differ in some number after correction."""
        methods = self.main[(self.main["role"] == UNLEARNED) & self.main["p_holm"].notna()]
        first, second = self.names
        label = f"{second} minus {first}"
        if methods.empty:
            return Headline(label, "Not measured", ("No method of both sweeps has a difference with a p-value.",))
        tested = methods.groupby(["context", "split", "model"], sort=False)["p_holm"].min()
        apart = int((tested < ALPHA).sum())
        answer = f"{apart} of {len(tested)} models differ" if apart else f"None of {len(tested)} models differs"
        told = tested[tested < ALPHA].reset_index()
        which = ", ".join(f"{row['model']} ({row['split']})" for row in rows_of(told))
        return Headline(
            label,
            answer,
            (
                *([f"With Holm's correction at {ALPHA:g}: {which}."] if apart else []),
                "A difference that is not told from 0 is no proof that the two are alike.",
            ),
        )

    def report(self) -> Report:
        """The page."""
        places = list(dict.fromkeys(zip(self.main["context"], self.main["split"], strict=True)))
        several = len(set(self.main["context"])) > 1
        titles = [f"{split}, {context_text(context)}" if several else split for context, split in places]
        page = blocks(
            Notice("Not compared", self.only) if self.only else None,
            self.headline,
            switch(titles, [blocks(self._part(*place)) for place in places]) if places else None,
            section("How to read this", Prose(HOW)),
            section("Appendix", details("Every measure", self._every())),
        )
        facts = (
            ("First", self.names[0]),
            ("Second", self.names[1]),
            ("Benchmark", f"{self.benchmark['name']}, data use: {self.benchmark['data_use']}"),
        )
        data = plain(
            {
                "sweeps": self.names,
                "benchmark": self.benchmark,
                "headline": self.headline.answer,
                "only": self.only,
                "differences": self.differences,
            }
        )
        return Report(self.title, page, "Comparison of sweeps", facts, data)

    def view(self) -> ResultView:
        """The main table of each split, for the terminal."""
        places = dict.fromkeys(zip(self.main["context"], self.main["split"], strict=True))
        tables = [titled(split, self._table(context, split)) for context, split in places]
        answer = self.headline
        return ResultView({"headline": answer.answer}, [*tables, answer, *self.only])

    def _part(self, context: str, split: str) -> Iterator[Block | None]:
        rows = self._rows(context, split)
        plots = [
            (number, dot_plot(dots, looks, f"{number}, difference", _span(dots), [_ZERO]))
            for number in NUMBERS
            if (dots := [_dot(row) for row in rows_of(rows[rows["number"] == number])])
            and (looks := _looks(list(dict.fromkeys(rows["model"]))))
        ]
        yield figures(plots, f"Dot plot of differences, {split}", 3)
        yield self._table(context, split)

    def _rows(self, context: str, split: str) -> pd.DataFrame:
        main = self.main
        return main[(main["context"] == context) & (main["split"] == split)]

    def _table(self, context: str, split: str) -> Table | None:
        """One row per model, a column per number."""
        rows = self._rows(context, split)
        cells = {(row["model"], row["number"]): _difference_cell(row) for row in rows_of(rows)}
        subjects = {str(row["model"]): Cell(f"{int(row['n_subjects']):,}") for row in rows_of(rows)}
        columns = (Cell("Model"), *(Cell(name, "difference, Holm's p") for name in NUMBERS), Cell("Subjects"))
        lines = [
            (Cell(label), *(cells.get((label, name), Cell(ABSENT)) for name in NUMBERS), subjects[label])
            for label in dict.fromkeys(map(str, rows["model"]))
        ]
        table = records(columns, lines)
        return None if table is None else Table(table.columns, table.rows, name="differences", cards=True)

    def _every(self) -> Table | None:
        columns = ("Model", "Split", "Measure", "Questions", "Difference", "p", "Pairs")
        lines = (
            (
                Cell(str(row["model"])),
                Cell(str(row["split"])),
                Cell(str(row["measure"])),
                Cell(f"{row['side']}, {row['fold']}, {row['kind']}"),
                _gap(row),
                Cell(p_text(number(row["p"]))),
                Cell(f"{int(row['n_pairs']):,}"),
            )
            for row in rows_of(self.differences)
            if number(row["difference"]) is not None
        )
        return records(map(Cell, columns), lines)


_ZERO = {
    "type": "line",
    "xref": "x",
    "yref": "paper",
    "x0": 0,
    "x1": 0,
    "y0": 0,
    "y1": 1,
    "line": {"color": "--muted", "width": 1, "dash": "dot"},
}


def _gap(row: Mapping[str, Any]) -> Cell:
    value = number(row["difference"])
    return Cell(ABSENT if value is None else signed(value), interval(number(row["low"]), number(row["high"])))


def _difference_cell(row: Mapping[str, Any]) -> Cell:
    cell, p = _gap(row), number(row["p_holm"])
    return Cell(cell.text, f"{cell.note}, p {p_text(p)}" if p is not None else cell.note)


def _dot(row: Mapping[str, Any]) -> Dot:
    value, low, high = (number(row[name]) for name in ("difference", "low", "high"))
    return Dot(str(row["model"]), Reading(value, low, high, 0, 0, 0), 12)


def _span(dots: Sequence[Dot]) -> list[float]:
    edges = [
        edge for dot in dots for edge in (dot.reading.value, dot.reading.low, dot.reading.high) if edge is not None
    ]
    most = 1.1 * max(0.05, *map(abs, edges)) if edges else 1.0
    return [-most, most]


def _looks(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {label: (turn_colour(place), turn_mark(place)[0]) for place, label in enumerate(labels)}


def versus_report(
    first: Path,
    second: Path,
    benchmark: Benchmark | None = None,
    *,
    title: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    **_: Any,
) -> Versus:
    """Two sweeps' folders, compared.

    Raises:
        InputError: they were evaluated on different benchmarks, or have no model in common.
    """
    infos = [read_sweep(folder) for folder in (first, second)]
    models = [
        [model for model in evaluated_models(folder, info) if made_for_this(model)]
        for folder, info in zip((first, second), infos, strict=True)
    ]
    benchmark = benchmark or sweep_benchmark(first, infos[0]["settings"], models[0])
    names = tuple(str(folder.resolve().name) for folder in (first, second))
    prints = {model.record.info.benchmark for own in models for model in own}
    if len(prints) > 1:
        raise InputError(
            f"{first} and {second} were evaluated on different benchmarks; their questions do not pair."
        )
    swept = [SweepModels(own, benchmark) for own in models]
    ours, theirs = ({(c, s, who): seeds for c, s, who, seeds in of} for of in swept)
    common = [key for key in ours if key in theirs and ours[key].keys() & theirs[key].keys()]
    if not common:
        raise InputError(f"{first} and {second} have no method with the same split, context and training seed.")
    labels = shown_splits(swept[0].splits)
    tables = [
        _compared(ours[key], theirs[key], replicates, seed).assign(
            context=key[0], split=labels[key[1]], role=key[2][0], model=name_of(key[2])
        )
        for key in sorted(common, key=lambda key: key[2][0] == UNLEARNED)
    ]
    facts = {**benchmark.facts(), "data_use": swept[0].data_use or "unknown"}
    only = (*_only(names[0], ours, theirs), *_only(names[1], theirs, ours))
    together = _corrected(_numbered(pd.concat(tables, ignore_index=True)))
    return Versus(title or f"{names[1]} beside {names[0]}", (names[0], names[1]), facts, together, only)


def _compared(ours: Seeds, theirs: Seeds, replicates: int, seed: int) -> pd.DataFrame:
    """The second minus the first on common questions of common training seeds."""
    first, second = list[pd.DataFrame](), list[pd.DataFrame]()
    seeds = sorted(ours.keys() & theirs.keys())
    for number_of_seed in seeds:
        pair = comparable([ours[number_of_seed], theirs[number_of_seed]])
        items = set(pair[0]["item"]) & set(pair[1]["item"])
        for own, table in zip((first, second), pair, strict=True):
            rows = table[table["item"].isin(items)]
            own.append(rows.assign(item=f"{number_of_seed}:" + rows["item"].astype(str)))
    before, after = (pd.concat(tables, ignore_index=True) for tables in (first, second))
    draws: dict[str, Any] = {"replicates": replicates, "seed": seed}
    parts = []
    for of_records in (False, True):
        second_part, first_part = (t[(t["kind"] == RECORD) == of_records] for t in (after, before))
        if len(second_part) and len(first_part):
            more: dict[str, Any] = {} if of_records else {"composites": COMPOSITES, "rollup": "kind"}
            parts.append(compare(second_part, first_part, EVALUATION, **more, **draws))
    return joined(parts).assign(n_seeds=len(seeds))


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``number``; utility and forgetting: the composites that most models have a difference in."""
    main = table[(table["fold"] == "train") & (table["kind"] == "all") & table["difference"].notna()]
    numbers = pd.Series("", index=table.index)
    for title, side in (("Utility", "retain"), ("Forgetting", "forget")):
        counts = main[(main["side"] == side) & main["measure"].map(is_composite)]["measure"].value_counts()
        if len(counts):
            best = max(counts.index, key=lambda name: (counts[name], str(name).count(",")))
            numbers[main.index[(main["side"] == side) & (main["measure"] == best)]] = title
    ranks = main[(main["side"] == "forget") & (main["measure"] == MEASURE)]
    numbers[ranks.index] = "Facts ranked first"
    return table.assign(number=numbers)


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """The table with Holm's correction of each number over the methods of a split; null elsewhere."""
    corrected = pd.Series(pd.NA, index=table.index, dtype="Float64")
    methods = table[(table["role"] == UNLEARNED) & (table["number"] != "") & table["p"].notna()]
    for _, rows in methods.groupby(["context", "split", "number"], sort=False):
        corrected[rows.index] = holm([float(p) for p in rows["p"]])
    return table.assign(p_holm=corrected)


Keys = Mapping[tuple[str, str, Who], Seeds]


def _only(name: str, own: Keys, other: Keys) -> Iterator[str]:
    missing = [f"{name_of(who)} on {split}" for (context, split, who) in own if (context, split, who) not in other]
    if missing:
        yield f"Only in {name}: {', '.join(dict.fromkeys(missing))}."
