"""Judges: named models on servers, from a YAML list or from one address."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.config import check, read_yaml
from medunlearn.data.origins import REHEARSAL
from medunlearn.errors import ConfigError
from medunlearn.llm.server_settings import ServerSettings

PANEL = "panel"
"""All judges together, in tables."""

Llm = str | Path | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Judge:
    """One member of a panel: its name in tables, and its server settings."""

    name: str
    settings: ServerSettings

    @property
    def identity(self) -> str:
        """Settings that affect its answers, without the server's address, as JSON."""
        return json.dumps([self.settings.name, self.settings.extra], sort_keys=True)


def read_judges(path: Path, overrides: Mapping[str, Any] | None = None) -> list[Judge]:
    """Read a panel from YAML: ``judges:`` and a list; each entry has base_url, model, and optionally a name for
    tables.

    ``overrides`` are server settings that replace those of every entry.

    Raises:
        InputError: the file cannot be read.
        ConfigError: lists every mistake in every entry, with its place.
    """
    values = read_yaml(path)
    entries = values.get("judges")
    if set(values) != {"judges"} or not isinstance(entries, list) or not entries:
        raise ConfigError([f"{path} must hold `judges:` and a list below it, each with base_url and model."])
    return panel_of(entries, overrides)


def panel_of(entries: Sequence[Any], overrides: Mapping[str, Any] | None = None) -> list[Judge]:
    """Judges from settings; see :func:`read_judges`.

    Raises:
        ConfigError: lists every mistake in every entry, with its place; duplicate names.
    """
    judges: list[Judge] = []
    problems: list[str] = []
    for place, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping):
            problems.append(f"judge {place}: write keys and values, such as base_url: ... and model: ...")
            continue
        values = {**entry, **(overrides or {})}
        name = values.pop("name", None)
        try:
            settings = check(ServerSettings, values)
        except ConfigError as error:
            problems += [f"judge {place}: {problem}" for problem in error.problems]
        else:
            judges.append(Judge(str(name or settings.name), settings))
    if any(judge.name == PANEL for judge in judges):
        problems.append(f"a judge cannot be called {PANEL!r}: that is what all of them together are called")
    for name, times in Counter(judge.name for judge in judges).items():
        if times > 1:
            problems.append(f"{times} judges are called {name!r}: give each a name of its own (name: ...)")
    for identity, times in Counter(judge.identity for judge in judges).items():
        if times > 1:
            problems.append(
                f"the model {json.loads(identity)[0]!r} is there {times} times, and would count as {times} judges: "
                "give each judge another model, or other fields (extra: ...)"
            )
    if problems:
        raise ConfigError(problems)
    return judges


def judges_of(llm: Llm, model: str | None = None, overrides: Mapping[str, Any] | None = None) -> list[Judge]:
    """Judges from an address and a model, from ``rehearsal``, from a YAML file, or from a list of settings.

    Raises:
        ConfigError: an address without a model, a file with a model, and all mistakes in the settings.
    """
    if llm == REHEARSAL:
        return panel_of([{"base_url": REHEARSAL, "model": model or REHEARSAL}], overrides)
    if isinstance(llm, str) and llm.startswith(("http://", "https://")):
        if model is None:
            raise ConfigError(["--llm.model is missing: the model to ask at --llm"])
        return panel_of([{"base_url": llm, "model": model}], overrides)
    if model is not None:
        raise ConfigError(["--llm.model goes with an address (--llm http://...); a YAML file names its models"])
    return read_judges(Path(llm), overrides) if isinstance(llm, str | Path) else panel_of(llm, overrides)
