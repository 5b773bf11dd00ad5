"""Tables that several commands print: a column per model, warnings of broken models, what only a paper has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, Row
from medunlearn.paper import paper_of
from medunlearn.terminal import UNSCORED, with_interval

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.reports.view import ResultView


def warn_of_broken(output: Output, models: Mapping[str, Sequence[str]]) -> None:
    """Print first which models are broken, and why."""
    from medunlearn.models.health import banner

    output.warn(banner(models))


def by_model(
    output: Output,
    table: pd.DataFrame,
    title: Callable[..., str],
    titles: Sequence[str],
    row: Sequence[str],
    models: Iterable[Any],
    *,
    cell: Callable[[Row], str] = with_interval,
    counts: Callable[[Row], str] | None = None,
    empty_rows: bool = False,
) -> None:
    """Print a table for each value of ``titles``: one line per value of ``row``, one column per model."""
    labels = [model.run.label for model in models]
    for names, part in table.groupby(list(titles), sort=False, dropna=False):
        lines = []
        for key, cells in part.groupby(list(row), sort=False, dropna=False):
            rows = {line["model"]: line for line in cells.to_dict("records")}
            texts = [cell(rows[label]) if label in rows else "" for label in labels]
            if empty_rows or set(texts) - {UNSCORED, ""}:
                lines.append((*key, *texts, *([counts(next(iter(rows.values())))] if counts else [])))
        if lines:
            columns = (*(name.replace("_", " ") for name in row), *labels, *(["scored"] if counts else []))
            output.table(title(*names), columns, lines)


def paper_view(verb: str, result: Any, benchmark: Any) -> ResultView:
    """The tables that only the paper of a benchmark has of a verb's result.

    Args:
        benchmark: a benchmark or its folder.
    """
    from medunlearn import api
    from medunlearn.reports.view import ResultView

    if isinstance(benchmark, str):
        benchmark = api.load(benchmark)
    paper = paper_of(benchmark.builder)
    show = paper.view(verb)
    if show is None:
        return ResultView(
            lines=[f"{paper.missing}: its own measures and pages are not shown."] if paper.missing else ()
        )
    shown: ResultView = show(result, benchmark)
    return shown
