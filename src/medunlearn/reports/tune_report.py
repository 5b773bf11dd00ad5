"""Report of a tuning: best settings with their spread over seeds, budget, and the best objective by trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.data.origins import read_provenance
from medunlearn.reports.blocks import (
    Cell,
    Figure,
    Headline,
    Notice,
    Prose,
    Report,
    Spec,
    Table,
    blocks,
    details,
    section,
)
from medunlearn.reports.figures import layout, line, plot, safe, short, turn_colour
from medunlearn.reports.formatting import ABSENT, decimal, duration
from medunlearn.reports.json import plain
from medunlearn.reports.provenance import provenance_data, provenance_section, undecided
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records
from medunlearn.reports.view import ResultView

AXES = ("utility", "forgetting", "ranks")
_CLOSEST = "Closest to the goal, on subjects that nothing was chosen by"
HOW: tuple[str, ...] = (
    "Every method had the same budget, and its first trial is the untuned method. Trials were chosen by the "
    "objective on one half of the subjects, the choosing half, on the first fold alone. The results are of the "
    "other half, about whom no trial was asked: a setting that fits the questions it was chosen by gains nothing.",
    "All methods unlearned the whole forget set; only the questions are divided. The spread is that over seeds, "
    "each with a target of its own: the mean, and the least and greatest below it. It does not say how other "
    "patients would come out.",
)


@dataclass(frozen=True)
class TuneContent:
    """Content of the report; columns as in :class:`medunlearn.study.tune.tune_result.Tuned`."""

    title: str
    best: pd.DataFrame
    trials: pd.DataFrame
    results: pd.DataFrame
    spaces: Mapping[str, Mapping[str, str]]
    objective: str
    caveats: Sequence[str]
    subjects: Mapping[str, Mapping[str, int]]
    budget: str
    benchmark: Mapping[str, Any]
    missing: Sequence[tuple[str, str]] = ()
    refused: Sequence[str] = ()

    def view(self) -> ResultView:
        """The results of each fold, budget and settings, and the method closest to the goal, for the terminal."""
        answer = headline(self)
        tables = (*(results_table(self, fold) for fold in _folds(self)), budget_table(self))
        return ResultView({"closest": answer.answer if answer else None}, [*self.caveats, *tables, answer])


@dataclass(frozen=True)
class Spread:
    """Mean over seeds, minimum and maximum; None if a seed has no number."""

    mean: float
    least: float
    greatest: float
    seeds: int

    @property
    def cell(self) -> Cell:
        """The mean, with the spread over several seeds below it."""
        note = f"{decimal(self.least)} to {decimal(self.greatest)}" if self.seeds > 1 else ""
        return Cell(decimal(self.mean), note)


def spread(results: pd.DataFrame, model: str, setting: str, fold: str, column: str) -> Spread | None:
    """A number of one model over its seeds; None without any, or if one is missing."""
    rows = results[(results["model"] == model) & (results["setting"] == setting) & (results["fold"] == fold)]
    values = [number(value) for value in rows[column]]
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    return Spread(sum(numbers) / len(numbers), min(numbers), max(numbers), len(numbers))


def ranking(content: TuneContent) -> list[tuple[str, Spread]]:
    """Methods by the objective of their best settings on the first fold, closest first, without broken ones."""
    fold = _folds(content)[0] if len(content.results) else ""
    standings = []
    for row in rows_of(content.best):
        method = str(row["method"])
        of_best = content.results[(content.results["model"] == method) & (content.results["setting"] == "best")]
        value = spread(content.results, method, "best", fold, "value")
        if value is not None and not (of_best["problem"] != "").any():
            standings.append((method, value))
    return sorted(standings, key=lambda standing: (standing[1].mean, standing[0]))


def tuning_report(content: TuneContent) -> Report:
    """The page as a report."""
    notices = (
        ("Read this first", tuple(content.caveats)),
        ("Not in this report", tuple(f"{name}: {reason}" for name, reason in content.missing)),
    )
    curve = _curve(content)
    parts = blocks(
        (Notice(title, lines) for title, lines in notices if lines),
        headline(content),
        section("Results, on the reporting half", *(results_table(content, fold) for fold in _folds(content))),
        section("Budget and settings", budget_table(content)),
        section(
            "Best objective by trial",
            Figure(curve, "Line chart: least objective so far on the choosing half, one line a method", size="wide")
            if curve["data"]
            else None,
        ),
        section("How to read this", Prose((*HOW, f"Objective: {content.objective}."))),
        provenance_section(read_provenance(content.benchmark.get("provenance"))),
        section(
            "Appendix",
            details("All trials", _trials_table(content)),
            details("Search spaces", _space_table(content)),
        ),
    )
    counts = content.subjects
    facts = (
        ("Objective", content.objective),
        ("Budget", content.budget),
        ("Choosing half", f"{counts['choosing']['forget']} forget, {counts['choosing']['retain']} retain subjects"),
        (
            "Reporting half",
            f"{counts['reporting']['forget']} forget, {counts['reporting']['retain']} retain subjects",
        ),
        ("Seeds", ", ".join(map(str, content.results["seed"].drop_duplicates()))),
        ("Benchmark", f"{content.benchmark['name']}, data use: {content.benchmark['data_use'] or 'unknown'}"),
    )
    drawn = undecided(content.benchmark)
    return Report(content.title, parts, "Tuning report", facts, _json(content), drawn=drawn)


def headline(content: TuneContent) -> Headline | None:
    """The method closest to the goal, or that none was better than doing nothing."""
    ranked = ranking(content)
    if not ranked or undecided(content.benchmark):
        return None
    (method, value), fold = ranked[0], _folds(content)[0]
    target = spread(content.results, "target", "", fold, "value")
    untuned = spread(content.results, method, "untuned", fold, "value")
    sentences = [f"{method} with its best settings: {_words(value)}."]
    if untuned:
        sentences.append(f"Its untuned settings: {_words(untuned)}.")
    if target:
        sentences.append(f"The target itself, which forgot nothing: {_words(target)}.")
        if value.mean >= target.mean:
            sentences.append("No method came closer than doing nothing.")
    if content.refused:
        return Headline(_CLOSEST, "not decided", (content.refused[0], *sentences))
    answer = "none" if target and value.mean >= target.mean else method
    return Headline(_CLOSEST, answer, tuple(sentences))


def _words(value: Spread) -> str:
    return decimal(value.mean) + (f" ({value.cell.note})" if value.cell.note else "")


def _folds(content: TuneContent) -> list[str]:
    return [str(fold) for fold in content.results["fold"].drop_duplicates()]


def results_table(content: TuneContent, fold: str) -> Table | None:
    """One row per model and setting on a fold, closest methods first, references at the top."""
    order = [method for method, _ in ranking(content)]
    rest = [str(method) for method in content.best["method"] if method not in order]
    lines = [("target", ""), ("retrained", "")]
    lines += [(method, setting) for method in (*order, *rest) for setting in ("best", "untuned")]
    columns = (Cell("Model"), Cell("Objective", "lower = closer"), *(Cell(axis.capitalize()) for axis in AXES))

    def cells() -> Iterator[tuple[Cell, ...]]:
        for model, setting in lines:
            of = content.results[(content.results["model"] == model) & (content.results["setting"] == setting)]
            if of.empty:
                continue
            spreads = [spread(content.results, model, setting, fold, column) for column in ("value", *AXES)]
            broken = "broken model" if (of["problem"] != "").any() else ""
            name = Cell(model if not setting else f"{model}, {setting}", broken)
            yield (name, *(Cell(ABSENT) if value is None else value.cell for value in spreads))

    return records(columns, cells(), title=f"Reporting half, fold {fold}")


def budget_table(content: TuneContent) -> Table | None:
    """One row per method: its best and its untuned settings, and the spent budget."""
    heads = ("Method", "Best settings", "Untuned settings", "Objective", "Trials", "Work")
    rows = (_budget_row(row) for row in rows_of(content.best))
    return records(map(Cell, heads), rows, title="Best settings and budget, choosing half")


def _budget_row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    value, untuned, flops = number(row["value"]), number(row["untuned_value"]), number(row["flops"])
    state_counts = ", ".join(
        f"{row[state]:.0f} {state}" for state in ("pruned", "failed", "broken") if number(row[state])
    )
    trial = number(row["trial"])
    at_edge = f"at an end: {row['edges']}" if row["edges"] else ""
    return (
        Cell(str(row["method"]), "" if trial is None else f"trial {trial:.0f}"),
        Cell(str(row["settings"]), at_edge),
        Cell(str(row["untuned"])),
        Cell(
            ABSENT if value is None else decimal(value),
            f"choosing half; untuned {ABSENT if untuned is None else decimal(untuned)}",
        ),
        Cell(f"{row['trials']:.0f}", state_counts),
        Cell(duration(float(row["seconds"])), "" if flops is None else f"{flops:.3g} FLOPs"),
    )


def _curve(content: TuneContent) -> Spec:
    """Lowest objective so far by trial, one line per method; the untuned trial is the first point."""
    traces = []
    for place, method in enumerate(content.trials["method"].drop_duplicates()):
        rows = content.trials[content.trials["method"] == method]
        points, least = list[tuple[int, float]](), None
        for row in rows_of(rows):
            value = number(row["value"])
            if value is not None and row["state"] == "complete" and not row["problem"]:
                least = value if least is None else min(least, value)
            if least is not None:
                points.append((int(row["number"]), least))
        colour = turn_colour(place)
        trace = line(
            str(method),
            colour,
            f"<b>{safe(str(method))}</b><br>trial %{{x}}: %{{y:.3f}}<extra></extra>",
            mode="lines+markers",
            x=[x for x, _ in points],
            y=[short(y) for _, y in points],
            marker={"size": 6, "color": colour},
            showlegend=True,
        )
        traces.append(trace | {"line": {"color": colour, "width": 1.8, "shape": "hv"}})
    frame = layout(None, "trial", "least objective so far, choosing half", small=True)
    frame["xaxis"] |= {"rangemode": "tozero"}
    return plot([trace for trace in traces if trace["x"]], frame, (52, 10, 26, 44), showlegend=True)


def _trials_table(content: TuneContent) -> Table | None:
    heads = ("Trial", "Settings", "Objective", *(axis.capitalize() for axis in AXES), "Epochs", "Ended")
    return records(map(Cell, heads), (_trial_row(row) for row in rows_of(content.trials)))


def _trial_row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    values = [number(row[name]) for name in ("value", *AXES)]
    ending = "; ".join(filter(None, (str(row["reason"]), str(row["problem"]))))
    params = str(row["params"]).strip("{}").replace('"', "") or "untuned"
    return (
        Cell(f"{row['method']} {row['number']}"),
        Cell(params),
        *(Cell(ABSENT if value is None else decimal(value)) for value in values),
        Cell(f"{row['epochs']} of {row['planned']}"),
        Cell(str(row["state"]), ending),
    )


def _space_table(content: TuneContent) -> Table | None:
    rows = (
        (Cell(method), Cell(name), Cell(text)) for method, of in content.spaces.items() for name, text in of.items()
    )
    return records(map(Cell, ("Method", "Setting", "Range")), rows)


def _json(content: TuneContent) -> dict[str, Any]:
    data: dict[str, Any] = plain(
        {
            "data_use": content.benchmark["data_use"],
            "provenance": provenance_data(read_provenance(content.benchmark.get("provenance"))),
            "objective": content.objective,
            "budget": content.budget,
            "subjects": content.subjects,
            "caveats": list(content.caveats),
            "spaces": content.spaces,
            "ranking": [
                {
                    "method": method,
                    "mean": value.mean,
                    "least": value.least,
                    "greatest": value.greatest,
                    "seeds": value.seeds,
                }
                for method, value in ranking(content)
            ],
            "best": rows_of(content.best),
            "results": rows_of(content.results),
            "trials": rows_of(content.trials),
            "missing": [{"name": name, "reason": reason} for name, reason in content.missing],
        }
    )
    return data
