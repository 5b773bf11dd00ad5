"""The README card of a benchmark folder, in the format of dataset hubs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from medunlearn.data.escaping import markdown_cell, markdown_line
from medunlearn.data.origins import read_provenance
from medunlearn.data.records import Side
from medunlearn.data.splits import Split
from medunlearn.terminal import printable_line

_HUB_LICENCES = frozenset({
    "apache-2.0", "bsd-3-clause", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-nd-4.0",
    "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "gpl-3.0", "mit", "odbl", "pddl", "unknown",
})  # fmt: skip
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def _licence(name: str) -> dict[str, str]:
    """The keys of a licence in a card's head; one without an identifier of the hub is ``other`` with its name."""
    identifier = "-".join(name.lower().split()) or "unknown"
    if identifier in _HUB_LICENCES:
        return {"license": identifier}
    return {"license": "other", "license_name": identifier}


def _size(questions: int) -> str:
    return next((size for most, size in _SIZES if questions < most), "n>1M")


def card(manifest: Mapping[str, Any], splits: Iterable[tuple[Split, Mapping[Side, int]]]) -> str:
    """Markdown with a YAML head: description of the benchmark, its counts, its splits and sizes, and how to load
    it.
    """
    head = {
        "pretty_name": printable_line(manifest["name"]),
        **_licence(printable_line(manifest["licence"])),
        "task_categories": ["question-answering", "text-generation"],
        "size_categories": [_size(manifest["counts"].get("questions", 0))],
        "tags": ["machine-unlearning", "medunlearn", manifest["builder"]],
        "configs": [
            {"config_name": table, "data_files": f"{table}.parquet"} for table in ("records", "questions", "splits")
        ],
    }
    counts = _rows((name.replace("_", " "), f"{n:,}") for name, n in manifest["counts"].items())
    rows = _rows(
        (f"`{split.name}`", split.level, f"{sizes['forget']:,}", f"{sizes['retain']:,}") for split, sizes in splits
    )
    about = dict(manifest["notes"])
    origins = read_provenance(about.pop("provenance", ()))
    lines = [*map(str, origins), *(f"{name.replace('_', ' ')}: {value}" for name, value in about.items())]
    notes = "\n".join(markdown_line(f"- {line}") for line in lines)
    levels, subject = markdown_line(" > ".join(manifest["levels"])), markdown_line(manifest["subject_level"])
    return f"""---
{yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip()}
---

# {markdown_line(manifest["name"])}

Built by `medunlearn build {manifest["builder"]}` with seed {manifest["seed"]}
from {markdown_line(manifest["source"] or "an unnamed source")}.
Data use: **{manifest["data_use"]}**. Licence: {markdown_line(manifest["licence"] or "unknown")}.

Levels, coarse to fine: {levels}. One subject is one {subject}.

| what | count |
|---|---|
{counts}

| split | level | forget | retain |
|---|---|---|---|
{rows}
{chr(10) + notes if notes else ""}

```python
import medunlearn as mu
bench = mu.Benchmark.load("path/of/this/folder")
```
"""


def _rows(rows: Iterable[Iterable[str]]) -> str:
    """Rows of a pipe table."""
    return "\n".join(f"| {' | '.join(map(markdown_cell, row))} |" for row in rows)
