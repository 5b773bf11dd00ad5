"""Tables of docs/results.md from results of on_gpu.py, of one call or of several on one machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_tables import DOCS, markdown, replace_table

Row = dict[str, Any]
Tables = dict[str, list[Row]]
KEYS: Mapping[str, tuple[str, ...]] = {
    "machine": ("fact",),
    "parts": ("part",),
    "commands": ("command",),
    "equality": ("family", "precision", "quantity"),
    "choices": ("family", "precision", "quantity"),
}
"""Columns that name a row; model and job in all other tables."""
OF_THE_MACHINE = ("platform", "node")
"""Facts that say where a machine stands, not what it is; they are not put together."""
SAME = ("gpus", "torch", "transformers")
SHOWN = {
    "gpus": "GPU",
    "GPU memory, GiB": "memory, GiB",
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "torch",
    "transformers": "transformers",
    "python": "Python",
    "bf16 products timed, TFLOP/s": "a large bf16 product, TFLOP/s",
    "peak of products, TFLOP/s": "peak of the data sheet, TFLOP/s",
}
OTHER_WAYS = (" by transformers", " by whole sequences")
DIFFERENCE = re.compile(r"(\w+) (\d\.\d+e[+-]\d+)")


def read(files: Sequence[Path]) -> Tables:
    """Results of several calls, put together: a later row takes an earlier one's place.

    A part that one call ended and another had no time for is done.

    Raises:
        ValueError: the calls ran on other machines, or with other libraries.
    """
    rows: dict[str, dict[tuple[str, ...], Row]] = {}
    for file in files:
        for name, own in json.loads(file.read_text(encoding="utf-8")).items():
            known = rows.setdefault(name, {})
            for row in own:
                _put(name, known, {column: value for column, value in row.items() if column != "trace"})
    return {name: [*own.values()] for name, own in rows.items()}


def _put(name: str, known: dict[tuple[str, ...], Row], row: Row) -> None:
    # A quantity's largest difference may be of another loss in another call.
    key = tuple(str(row[column]).partition(" of ")[0] for column in KEYS.get(name, ("model", "job")))
    before = known.get(key, row)
    if name == "machine" and row["fact"] in OF_THE_MACHINE:
        return
    if name == "machine" and row["fact"] in SAME and before["value"] != row["value"]:
        raise ValueError(f"The results have different {row['fact']}: {before['value']} and {row['value']}.")
    if name != "parts" or _outcome(row) >= _outcome(before):
        known[key] = row


def _outcome(part: Row) -> int:
    """Order of a part's states: skipped, failed, done."""
    return ("skipped", "failed", "done").index(part["state"].partition(":")[0])


def store(tables: Tables, file: Path) -> None:
    """Write results as JSON, a row a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(_rounded(row)) for row in rows) + "\n]"
        for name, rows in tables.items()
    )
    file.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def _rounded(row: Row) -> Row:
    return {head: float(f"{value:.6g}") if isinstance(value, float) else value for head, value in row.items()}


def machine_rows(tables: Tables) -> Iterator[dict[str, str]]:
    facts = {row["fact"]: row["value"] for row in tables.get("machine", ())}
    for fact, title in SHOWN.items():
        value = facts.get(fact)
        yield {"machine": title, "": ", ".join(value) if isinstance(value, list) else number(value)}


def equality_rows(tables: Tables) -> Iterator[dict[str, str]]:
    """A row a family and precision: largest differences to fp64, each beside its bound."""
    grouped: dict[tuple[str, str], dict[str, str]] = {}
    outside: set[tuple[str, str]] = set()
    for row in (*tables.get("equality", ()), *tables.get("choices", ())):
        key, name = (row["family"], row["precision"]), row["quantity"].partition(" of ")[0]
        cell = row["other"] if "other" in row else f"{row['device to fp64']:.1e} / {row['bound']:.1e}"
        grouped.setdefault(key, {})[name] = cell
        if not row["within"]:
            outside.add(key)
    heads = dict.fromkeys(head for cells in grouped.values() for head in cells)
    for (family, precision), cells in grouped.items():
        within = "no" if (family, precision) in outside else "yes"
        shown = {head: cells.get(head, "") for head in heads}
        yield {"family": family, "precision": precision, **shown, "all within": within}


def command_rows(tables: Tables) -> Iterator[dict[str, str]]:
    """A row a command; behind a training or an unlearning the evaluation of its model on GPU and CPU."""
    rows = {row["command"]: row for row in tables.get("commands", ())}
    evaluations = {
        name.removeprefix("evaluate, "): row for name, row in rows.items() if name.startswith("evaluate, ")
    }
    for name, row in rows.items():
        if not name.startswith("evaluate, "):
            evaluation = evaluations.get(name.removeprefix("unlearn, "))
            yield {
                "command": name,
                "state": row["state"],
                "s": number(row["seconds"]),
                "largest difference of its evaluation to the CPU's": _difference(evaluation) if evaluation else "",
            }


def _difference(evaluation: Row) -> str:
    """Largest difference of a score, with the measure; the state of an evaluation without differences."""
    pairs = [(float(value), measure) for measure, value in DIFFERENCE.findall(evaluation["state"])]
    if not pairs:
        return str(evaluation["state"])
    value, measure = max(pairs)
    return f"{value:.1e} ({measure})"


def plan_rows(table: str) -> Callable[[Tables], Iterator[dict[str, str]]]:
    """Rows of what the engine did, beside its plan."""
    own = {"training": ("micro-batch", "tokens/s", "spread"), "passes": ("unit", "a second")}[table]
    heads = ("model", "job", *own, "MFU", "peak GiB", "plan GiB", "plan / peak", "plan s / s")
    titles = {"spread": "slowest / fastest step", "plan s / s": "plan's time / time"}

    def rows(tables: Tables) -> Iterator[dict[str, str]]:
        for row in tables.get(table, ()):
            if row["plan GiB"] is not None:
                shown = {titles.get(head, head): number(row[head]) for head in heads}
                yield shown | {"MFU": f"{100 * row['MFU']:.2g}%"}

    return rows


def beside_rows(tables: Tables) -> Iterator[dict[str, str]]:
    """A row for each work that was done in another way, too."""
    for name, rate in (("training", "tokens/s"), ("passes", "a second")):
        rows = {(row["model"], row["job"]): row for row in tables.get(name, ())}
        for (model, job), other in rows.items():
            for way in OTHER_WAYS:
                ours = rows.get((model, job.removesuffix(way)))
                if job.endswith(way) and ours is not None:
                    yield {
                        "model": model,
                        "work": job.removesuffix(way),
                        "other way": way.removeprefix(" by "),
                        "unit": ours.get("unit", "tokens"),
                        "ours, a second": number(ours[rate]),
                        "other, a second": number(other[rate]),
                        "ours / other": f"{ours[rate] / other[rate]:.2f}",
                        "peak GiB, ours": number(ours["peak GiB"]),
                        "peak GiB, other": number(other["peak GiB"]),
                    }


def rest_rows(tables: Tables) -> Iterator[dict[str, str]]:
    """Parts that no call ended."""
    for row in tables.get("parts", ()):
        if row["state"] != "done":
            yield {"part": row["part"], "state": "not run" if _outcome(row) == 0 else row["state"]}


PAGE_TABLES: Mapping[str, Callable[[Tables], Iterator[dict[str, str]]]] = {
    "machine": machine_rows,
    "equality": equality_rows,
    "commands": command_rows,
    "training": plan_rows("training"),
    "passes": plan_rows("passes"),
    "beside": beside_rows,
    "rest": rest_rows,
}
"""Name between the markers of the page -> its rows."""


def show(tables: Tables) -> Iterator[tuple[str, str]]:
    """Each table of the page with its name; a table without rows is left out."""
    for name, make in PAGE_TABLES.items():
        if rows := [*make(tables)]:
            yield name, markdown(rows)


def write(tables: Tables, docs: Path = DOCS) -> None:
    """Put the tables into docs/results.md."""
    shown = dict(show(tables))
    for name in PAGE_TABLES:
        replace_table("results.md", name, shown.get(name, "Nothing."), docs)


def number(value: Any) -> str:
    """A number with three digits, or whole with thousands; other values as they are."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value).replace("|", "/").replace("\n", " ")
