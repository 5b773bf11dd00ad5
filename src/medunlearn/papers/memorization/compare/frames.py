"""An audit's folder as tables, each with the columns that the audit promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError

VERB = "audit"
KEY = ["probe_id", "variant", "sample"]

_TABLES: Mapping[str, tuple[str, ...]] = {
    "probes": ("probe_id", "record_id", "subject", "corpus", "prefix_tokens"),
    "scores": (*KEY, "measure", "value", "reason"),
    "spans": (*KEY, "length", "in_response", "in_suffix", "text"),
    "findings": ("record_id", *KEY, "kind", "place", "end", "match", "value", "in_record", "in_prefix"),
    "sensitive": ("record_id", *KEY, "kind", "place", "end", "match", "value", "in_record", "in_prefix"),
    "kinds": (*KEY, "span", "kind", "group", "by"),
    "options": ("question_id", "prompt", "removed", "exact", "relaxed", "reason"),
}
_NEEDED = ("probes", "scores", "spans")


@dataclass(frozen=True)
class AuditFrames:
    """The tables of one audit.

    Attributes:
        folder: of the run.
        label: what reports call its model.
        info: the content of ``run.json``.
        probes, scores, spans: always there.
        findings, sensitive, kinds, options: None where that part of the audit was not run.
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

    @cached_property
    def responses(self) -> pd.DataFrame:
        """One row a response: probe_id, variant, sample, tokens (how long; NaN where that is not known), response.

        Read when first asked for; empty where an audit keeps none.
        """
        folder = self.folder / "responses"
        columns = [*KEY, "tokens", "response"]
        if not (folder / "settings.json").exists():
            return pd.DataFrame(columns=columns)
        store = ResponseStore(folder, ResponseStore.settings_of(folder))
        rows = [(*key, _tokens(one), one.response) for key, one in store.read().items()]
        return pd.DataFrame(rows, columns=columns)

    @property
    def unit(self) -> str:
        """What runs are counted in: ``tokens`` of the model's tokenizer, or ``words``."""
        unit = self.info.get("results", {}).get("unit", "tokens")
        return str(unit["noun"]) if isinstance(unit, Mapping) else str(unit)

    @property
    def baselines(self) -> tuple[Path, ...]:
        """The folders of the baselines that it was audited with."""
        path = self.folder / "baselines.json"
        return tuple(self.folder / one for one in read_json(path)["folders"]) if path.exists() else ()

    @cached_property
    def wide(self) -> pd.DataFrame:
        """One row a probe and decoding with a column a measure (mean over samples), and the probe's own columns."""
        values = self.scores.assign(value=pd.to_numeric(self.scores["value"]))
        means = values.groupby(["probe_id", "variant", "measure"], sort=False)["value"].mean()
        table = means.unstack("measure").reset_index().rename_axis(columns=None)
        return table.merge(self.probes[[*_TABLES["probes"], *self._copies]], on="probe_id", validate="many_to_one")

    @property
    def measures(self) -> list[str]:
        """The measures that were asked for, in the order of the table."""
        return [str(name) for name in self.scores["measure"].drop_duplicates()]

    @property
    def _copies(self) -> list[str]:
        known = "copies" in self.probes.columns and bool(self.probes["copies"].notna().any())
        return ["copies"] if known else []


def _tokens(response: Response) -> float:
    """How long a response is; NaN where it was stored as text alone."""
    return float(len(response.response_tokens)) if response.response_tokens or not response.response else math.nan


def is_audit(folder: Path) -> bool:
    """Whether a folder holds a run of ``audit``."""
    try:
        info = read_json(folder / "run.json")
    except InputError:
        return False
    return isinstance(info, dict) and info.get("verb") == VERB


def frames(folder: Path) -> AuditFrames:
    """A complete audit.

    Raises:
        InputError: no audit, one that did not finish, or a table that is missing or lacks columns.
    """
    if not is_audit(folder):
        raise InputError(f"{folder} holds no audit. `medunlearn audit --help` says how to make one.")
    info = read_json(folder / "run.json")
    if info.get("status") != "complete":
        raise InputError(
            f"The audit in {folder} is not complete ({info.get('status')}). Give its command again: it goes on "
            "where it stopped."
        )
    tables = {name: _table(folder, name) for name in _TABLES}
    if missing := [f"{name}.parquet" for name in _NEEDED if tables[name] is None]:
        raise InputError(f"{folder} lacks {', '.join(missing)}. Copy the whole folder, or audit again.")
    found = AuditFrames(folder, str(info["label"]), info, **tables)  # type: ignore[arg-type]
    strangers = set(found.scores["probe_id"]) - set(found.probes["probe_id"])
    if strangers:
        raise InputError(f"{folder}: scores.parquet has {len(strangers)} probes that probes.parquet lacks.")
    return found


def _table(folder: Path, name: str) -> pd.DataFrame | None:
    path = folder / f"{name}.parquet"
    if not path.exists():
        return None
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}).") from error
    if missing := [column for column in _TABLES[name] if column not in table.columns]:
        raise InputError(f"{path} lacks {', '.join(missing)}: it was not written by `medunlearn audit`.")
    return table
