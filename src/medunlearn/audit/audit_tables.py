"""Schema-checked tables of one audit folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.config.audit import PREFIX
from medunlearn.data.lineage import read_lineage
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import read_frame, read_json
from medunlearn.errors import InputError
from medunlearn.results.record import RunRecord
from medunlearn.results.scores import COLUMNS

VERB = "audit"
PROBES, SPANS, STARTS = "probes.parquet", "spans.parquet", "starts.parquet"
ATTRIBUTES = "attributes.parquet"
RESPONSES, BASELINES, BASELINES_FILE = "responses", "baselines", "baselines.json"

UNNAMED = "responses"
"""Corpus of stored responses that name none; it is the same as any other's."""

KEY = ["probe_id", "variant", "sample"]
"""Columns that name a response."""

Key = tuple[str, str, int]
"""Probe, variant, sample."""

CELL = ["corpus", "prefix_tokens", "decoding"]
"""Labels of the score table that name a group of probes whose scores are averaged."""

WAY = "way"
"""Label of the way of asking; only audits with another way than the beginning of a text have it."""

SCORE_KEY = {"item": "probe_id", "decoding": "variant", "sample": "sample"}
"""Columns of the score table and the :data:`KEY` columns that they name."""

_KEY_FIELDS = [("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32())]
_PLACES = [(name, pa.int32()) for name in ("length", "in_response", "in_suffix")]
SPANS_SCHEMA = pa.schema(
    [*_KEY_FIELDS, *_PLACES, ("text", pa.string()), ("own", pa.bool_()), ("shared_tokens", pa.int32())]
)
STARTS_SCHEMA = pa.schema([*_KEY_FIELDS, ("response", pa.string()), ("suffix", pa.string())])

_FINDING_COLUMNS = ("record_id", *KEY, "kind", "place", "end", "match", "value", "in_record", "in_prefix")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "probes": ("probe_id", "record_id", "subject", "corpus", "prefix_tokens"),
    "scores": (*COLUMNS, *CELL, "sample"),
    "spans": (*KEY, "length", "in_response", "in_suffix", "text"),
    "findings": _FINDING_COLUMNS,
    "sensitive": _FINDING_COLUMNS,
    "kinds": (*KEY, "span", "kind", "group", "by"),
    "attributes": ("record_id", "column", "value"),
    "options": ("question_id", "prompt", "removed", "exact", "relaxed", "reason"),
    "choices": ("question_id", "form", "correct"),
}
_NEEDED = ("probes", "scores", "spans")


@dataclass(frozen=True)
class AuditTables:
    """The tables of one audit; those of an optional stage are None if it was not run.

    Attributes:
        label: model name in reports.
        info: content of ``run.json``.
    """

    folder: Path
    label: str
    info: Mapping[str, Any] = field(repr=False)
    probes: pd.DataFrame = field(repr=False)
    scores: pd.DataFrame = field(repr=False)
    spans: pd.DataFrame = field(repr=False)
    findings: pd.DataFrame | None = field(default=None, repr=False)
    sensitive: pd.DataFrame | None = field(default=None, repr=False)
    kinds: pd.DataFrame | None = field(default=None, repr=False)
    options: pd.DataFrame | None = field(default=None, repr=False)
    choices: pd.DataFrame | None = field(default=None, repr=False)
    attributes: pd.DataFrame | None = field(default=None, repr=False)

    @cached_property
    def responses(self) -> pd.DataFrame:
        """One row per response: KEY, tokens (length; NaN if only text was stored), response. Empty without
        responses.
        """
        stored = stored_responses(self.folder).items()
        rows = [(*key, _token_count(response), response.response) for key, response in stored]
        return pd.DataFrame(rows, columns=[*KEY, "tokens", "response"])

    @property
    def unit(self) -> str:
        """Unit of lengths: ``tokens`` or ``words``."""
        unit = self.info.get("results", {}).get("unit")
        return str(unit["noun"]) if unit else "tokens"

    @property
    def baselines(self) -> tuple[Path, ...]:
        """Folders of the audit's baselines."""
        return baseline_folders(self.folder)


def cell_of(scores: pd.DataFrame) -> list[str]:
    """Columns of :data:`CELL`, with the way of asking if a table has several."""
    return [*CELL, WAY] if WAY in scores.columns else list(CELL)


def of_prefixes(audit: AuditTables) -> AuditTables:
    """The audit restricted to probes that are plain beginnings of texts."""
    if WAY not in audit.probes.columns or (others := audit.probes[WAY] != PREFIX).sum() == 0:
        return audit
    left_out = set(audit.probes.loc[others, "probe_id"])
    tables = {"probes": audit.probes[~others], "scores": audit.scores[~audit.scores["item"].isin(left_out)]}
    tables["scores"] = tables["scores"].drop(columns=WAY, errors="ignore")
    for name in ("spans", "findings", "sensitive", "kinds"):
        if (table := getattr(audit, name)) is not None:
            tables[name] = table[~table["probe_id"].isin(left_out)]
    return replace(audit, **tables)  # type: ignore[arg-type]


def leaked(findings: pd.DataFrame) -> pd.DataFrame:
    """Findings of the record itself that were not in the prompt."""
    return findings[findings["in_record"].astype(bool) & ~findings["in_prefix"].astype(bool)]


def shared_probes(ours: pd.DataFrame, theirs: pd.DataFrame, item: str = "probe_id") -> set[str]:
    """Probes that two audits share: same record and prefix, in corpora of the same name or without one.

    Args:
        ours, theirs: tables with ``item`` and ``corpus``.
    """
    pairs = (
        ours[[item, "corpus"]].drop_duplicates(item).merge(theirs[[item, "corpus"]].drop_duplicates(item), on=item)
    )
    first, second = pairs["corpus_x"], pairs["corpus_y"]
    return set(pairs.loc[(first == second) | (first == UNNAMED) | (second == UNNAMED), item])


def stored_responses(folder: Path) -> dict[Key, Response]:
    """Responses of an audit; empty if it stored none."""
    return ResponseStore.read_complete(folder / RESPONSES)


def baseline_folders(folder: Path) -> tuple[Path, ...]:
    """Folders of an audit's baselines."""
    path = folder / BASELINES_FILE
    return tuple(folder / name for name in read_json(path)["folders"]) if path.exists() else ()


def leaves_chat_template(results: Mapping[str, Any]) -> bool:
    """True if an audited model's tokenizer has a chat template, which the audit does not use.

    Args:
        results: ``results`` of the audit's ``run.json``; unknown for a server and for stored responses.
    """
    return bool(results.get("model", {}).get("chat_template") == "not used")


def is_audit(folder: Path) -> bool:
    """True if a folder holds a run of ``audit``."""
    return read_lineage(folder, strict=False).command == VERB


def read_tables(folder: Path) -> AuditTables:
    """The tables of a complete audit.

    Raises:
        InputError: no audit, an incomplete one, or a table that is missing or lacks columns.
    """
    if not is_audit(folder):
        raise InputError(f"{folder} holds no audit. `medunlearn audit --help` says how to make one.")
    RunRecord.read(folder)  # refuses one without fields, or of another version
    info = read_json(folder / "run.json")
    if info.get("status") != "complete":
        raise InputError(
            f"The audit in {folder} is not complete ({info.get('status')}). Give its command again: it goes on "
            "where it stopped."
        )
    tables = {name: _read(folder, name) for name in _COLUMNS}
    if missing := [f"{name}.parquet" for name in _NEEDED if tables[name] is None]:
        raise InputError(f"{folder} lacks {', '.join(missing)}. Copy the whole folder, or audit again.")
    try:
        tables["scores"] = tables["scores"].astype({"value": "float64"})  # type: ignore[union-attr]
    except ValueError as error:
        raise InputError(f"{folder}: scores.parquet holds a value that is not a number ({error}).") from error
    audit = AuditTables(folder, str(info["label"]), info, **tables)  # type: ignore[arg-type]
    if unknown := set(audit.scores["item"]) - set(audit.probes["probe_id"]):
        raise InputError(f"{folder}: scores.parquet has {len(unknown)} probes that probes.parquet lacks.")
    return audit


def _read(folder: Path, name: str) -> pd.DataFrame | None:
    path = folder / f"{name}.parquet"
    if not path.exists():
        return None
    return read_frame(path, _COLUMNS[name])


def _token_count(response: Response) -> float:
    has_tokens = response.response_tokens or not response.response
    return float(len(response.response_tokens)) if has_tokens else math.nan
