"""Tables that commands show on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medunlearn.reports.blocks import Cell, Table
from medunlearn.result_view import ResultView as ResultView
from medunlearn.terminal import UNSCORED, cell_text, with_interval
from medunlearn.terminal import sentence as sentence

Row = Mapping[Any, Any]


def plain_table(columns: Iterable[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A table of texts; a number has four digits, a missing one an empty cell."""
    cells = tuple(tuple(Cell(cell_text(cell)) for cell in row) for row in rows)
    return Table(tuple(map(Cell, columns)), cells, title)


def records_table(
    records: Any, columns: Mapping[str, str | Callable[[Row], Any]] | None = None, title: str = ""
) -> Table:
    """A table of records or of a DataFrame.

    Args:
        columns: heading -> name of a field, or a function of the row; None: every field of the first record.
    """
    rows = records.to_dict("records") if hasattr(records, "to_dict") else list(records)
    fields = {name: name for name in (rows[0] if rows else ())} if columns is None else columns
    return plain_table(
        fields, ([row[of] if isinstance(of, str) else of(row) for of in fields.values()] for row in rows), title
    )


def same_names(*names: str) -> dict[str, str | Callable[[Row], Any]]:
    """Columns of :func:`records_table` under their fields' names."""
    return {name: name for name in names}


def titled(title: str, table: Table | None) -> Table | None:
    """The table under another title."""
    return None if table is None else replace(table, title=title)


def scored(row: Row) -> str:
    """``18/20``: scored items of all."""
    return f"{row['n_scored']}/{row['n_scored'] + row['n_unscored']}"


def model_tables(
    table: Any,
    by: Sequence[str],
    lines: Sequence[str],
    title: Callable[..., str],
    labels: Sequence[str],
    counts: Callable[[Row], str] | None = None,
    *,
    empty_lines: bool = False,
) -> Iterator[Table]:
    """A table for each value of the columns ``by``: a row for each value of ``lines``, a column for each model.

    Args:
        table: rows with ``model``, ``value``, ``low``, ``high``.
        title: of a table, from its values of ``by``.
        counts: last cell of a row; None for none.
        empty_lines: rows without any number are shown.
    """
    columns = (*(name.replace("_", " ") for name in lines), *labels, *(["scored"] if counts else []))
    for names, part in table.groupby(list(by), sort=False, dropna=False):
        rows = []
        for key, cells in part.groupby(list(lines), sort=False, dropna=False):
            of_models = {row["model"]: row for row in cells.to_dict("records")}
            texts = [with_interval(of_models[label]) if label in of_models else "" for label in labels]
            if empty_lines or set(texts) - {UNSCORED, ""}:
                rows.append((*key, *texts, *([counts(next(iter(of_models.values())))] if counts else [])))
        if rows:
            yield plain_table(columns, rows, title(*names))
