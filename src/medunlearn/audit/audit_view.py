"""An audit for the terminal and as JSON; record text only on request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from medunlearn.config.audit import PREFIX
from medunlearn.reports.blocks import Block, Table
from medunlearn.reports.view import ResultView, Row, records_table, same_names, scored
from medunlearn.terminal import absent, with_interval

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.audit.audit_result import Audit, StageResults

EXAMPLES = 3
CASES = 5
LEAK = "run_30"
"""The measure that says whether text of a subject came out."""
CELL = ("corpus", "prefix_tokens", "decoding", "measure")
_of_baseline = partial(with_interval, value="difference", low="difference_low", high="difference_high")


def audit_view(
    result: Audit,
    *,
    paper_bootstrap: bool = False,
    show_text: bool = False,
    all: bool = False,  # noqa: A002
) -> ResultView:
    """
    Args:
        paper_bootstrap: also the paper's 100 x 100 bootstrap and rank-sum test
        show_text: show the longest shared runs, which are text of records
        all: every measure and stage, not the first screen alone
    """
    from medunlearn.models.health import banner

    def content() -> Iterator[Block | str | None]:
        yield from _first_screen(result, CASES if show_text else 0, whole=all)
        yield from _measures(result) if all else ()
        yield from _paper(result) if paper_bootstrap else ()
        yield from _stages(result.stages) if all and result.stages is not None else ()
        if show_text:
            spans = result.spans().sort_values("length", ascending=False, kind="stable").drop_duplicates("text")
            columns = {"probe": "probe_id", result.noun: "length", "from": "in_response", "text": "text"}
            yield records_table(spans.head(EXAMPLES), columns, "Longest shared runs")

    return ResultView(partial(_data, result, paper_bootstrap, show_text), content(), banner(result.problems))


def _data(result: Audit, paper: bool, show_text: bool) -> dict[str, Any]:
    values = {
        "folder": str(result.run.folder),
        "model": result.label,
        "results": result.run.info["results"],
        "health": result.problems,
        "first_screen": result.first_screen(show_text=CASES if show_text else 0).data(),
        "table": result.table(),
        "leaking_subjects": _leaking(result),
    }
    if (stages := result.stages) is not None:
        if stages.identifiers is not None:
            values["identifiers"] = stages.identifiers.summary()
        if stages.kinds is not None:
            values["kinds"] = _kind_counts(stages.kinds)
        if stages.options is not None:
            values["options"] = stages.options.table()
    return values | ({"paper_bootstrap": result.paper_table()} if paper else {})


def _first_screen(result: Audit, show_text: int, *, whole: bool) -> Iterator[Block | str | None]:
    """The first screen of the page: the answer with its basis, searches that were not made, and worst cases."""
    from medunlearn.audit.screen_blocks import SHOWN, answers, search_sections
    from medunlearn.reports.rank_tables import UNUSED_CHAT

    screens = (result.first_screen(show_text=show_text),)
    yield from answers(screens)
    yield from search_sections(screens, SHOWN if whole else CASES)
    yield UNUSED_CHAT if result.unused_chat_template else None
    if not whole:
        yield (
            f"--all shows every measure. The page: medunlearn report {result.run.folder} --out FOLDER. Whose "
            "a case is: Audit.patients() in Python."
        )


def _measures(result: Audit) -> Iterator[Block | str | None]:
    """Every measure next to the baselines, unscored probes, and leaking subjects."""
    titles = result.way_titles
    names = ["corpus", "decoding", *(["way"] if titles else [])]
    for (corpus, decoding, *way), part in result.table().groupby(names, sort=False):
        title = ", ".join([str(corpus), str(decoding), *(titles[str(name)] for name in way)])
        yield _measure_table(result, title, part)
    scores = result.scores()
    for (measure, reason), part in scores[scores["value"].isna()].groupby(["measure", "reason"], sort=False):
        yield f"Unscored, {len(part)} x {measure}: {reason}."
    for model in (result, *result.baselines):
        yield f"{model.label}: lengths in {model.unit}. {model.run.info.probe_set}".rstrip()
    yield from _leaking_sentences(result)
    yield (
        "Intervals: 95%, over subjects (a record is its own where no subject is known); differences are paired on "
        "probes."
    )


def _measure_table(result: Audit, title: str, part: pd.DataFrame) -> Table:
    """The model next to its baselines, measures in their fixed order."""
    own, labels = part[part["model"] == result.label], [model.label for model in result.baselines]
    columns: dict[str, Any] = {"measure": "measure", "prefix": _prefix, result.label: with_interval}
    for label in labels:
        values = {_cell(row): with_interval(row) for row in part[part["model"] == label].to_dict("records")}
        rows = own[own["baseline"] == label].to_dict("records") if "baseline" in own else []
        gaps = {_cell(row): _of_baseline(row) for row in reversed(rows) if not absent(row["difference"])}
        columns |= {label: _look_up(values), f"minus {label}" if len(labels) > 1 else "difference": _look_up(gaps)}
    places = {name: place for place, name in enumerate(dict.fromkeys(own["measure"]))}
    first = own.drop_duplicates(list(CELL)).assign(place=own["measure"].map(places))
    first = first[first["n_scored"] > 0].sort_values(["place", "prefix_tokens"], kind="stable")
    return records_table(first, {**columns, "scored": scored}, f"{title}, {own['n_subjects'].max()} subjects")


def _cell(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in CELL)


def _look_up(cells: dict[tuple[Any, ...], str]) -> Any:
    return lambda row: cells.get(_cell(row), "")


def _prefix(row: Row) -> Any:
    return row["prefix_tokens"] or ("" if str(row.get("way") or PREFIX) != PREFIX else "mixed")


def _leaking(result: Audit) -> pd.DataFrame:
    """Share of subjects whose own text leaked, with its bound."""
    from medunlearn.audit.probe_summary import leaking_subjects
    from medunlearn.audit.shared_wording import own_runs

    return leaking_subjects(own_runs(result.scores(), result.spans()), LEAK)


def _leaking_sentences(result: Audit) -> Iterator[str]:
    from medunlearn.reports.formatting import share_of_subjects, subjects_for_bounds

    if result.run.info.problems:
        yield "What a broken model does not repeat is no bound on what it memorized."
        return
    rows = _leaking(result).to_dict("records")
    for row in rows:
        visible = share_of_subjects(row["n_leaking"], row["n_subjects"], "subject")
        yield f"{row['corpus']}, {row['decoding']}: {LEAK} in the responses of {visible}."
    if any(not row["n_leaking"] for row in rows):
        yield subjects_for_bounds(noun="subject")


def _paper(result: Audit) -> Iterator[Block | str | None]:
    from medunlearn.statistics.two_sample import WARNING

    def p(row: Row) -> str:
        return "" if absent(row.get("p_rank_sum")) else f"{row['p_rank_sum']:.2g} ({row['baseline']})"

    table = result.paper_table()
    columns = {**same_names("model", "corpus", "measure"), "prefix": _prefix, "decoding": "decoding"}
    columns |= {"mean of 100 x 100": with_interval, "p (rank sum)": p}
    yield records_table(table[table["n_scored"] > 0], columns, "The paper's bootstrap and test")
    yield WARNING


def _stages(stages: StageResults) -> Iterator[Block | str | None]:
    if stages.identifiers is not None:
        yield from stages.identifiers.view().blocks
    if stages.kinds is not None:
        columns = {"sorted by": "by", **same_names("group", "kind", "runs")}
        yield records_table(_kind_counts(stages.kinds), columns, "shared runs by kind")
    if stages.options is not None:
        yield _options(stages.options)


def _kind_counts(kinds: pd.DataFrame) -> pd.DataFrame:
    """Shared runs by sorter; spans that no rule sorts get their own row."""
    groups = kinds.fillna({"group": "not sorted", "kind": ""}).groupby(["by", "group", "kind"], sort=True)
    return groups.size().rename("runs").reset_index()


def _options(options: Any) -> Table:
    table = options.table()
    # What gold and wrong options give apart is in the JSON.
    table = table[~table["measure"].str.endswith(("_gold", "_wrong"))]
    columns: dict[str, Any] = {
        **same_names(*(name for name in ("prompt", "group", "measure") if name in table.columns)),
        options.label: with_interval,
        "minus baseline": lambda row: "" if absent(row.get("difference")) else _of_baseline(row),
        "scored": lambda row: f"{row['n']}/{row['n'] + row['n_unscored']}",
    }
    return records_table(table, columns, "answer options")
