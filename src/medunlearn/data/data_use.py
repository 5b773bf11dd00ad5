"""``data_use``: whether data may leave this machine. It is passed on to everything derived from the data.

One rule: the stricter of the known uses wins, and unknown (None) counts as credentialed wherever data could leave
the machine. A setting may make a recorded use stricter, never looser. The use is recorded in a benchmark's
manifest, in ``run.json``, in the ``settings.json`` of stored responses, and in the ``lineage.json`` of a model's
folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.input_files import yaml_content

DataUse = Literal["open", "credentialed"]
LINEAGE = "lineage.json"
"""A model folder's own record: ``data_use``, fingerprints of the benchmark and model that it was made from, and the
name of the prompt template of its training."""
UNKNOWN = "unknown, so it counts as credentialed"


def tightest(uses: Iterable[DataUse | None]) -> DataUse | None:
    """Use of data derived from several sources: credentialed if one is, else unknown if one is or there are
    none.
    """
    every = set(uses)
    return "credentialed" if "credentialed" in every else "open" if every == {"open"} else None


def tighter_record(before: DataUse | None, now: DataUse | None) -> DataUse | None:
    """The stricter of two recorded uses of the same thing, or the only one."""
    return "credentialed" if "credentialed" in (before, now) else before or now


def resolve_use(stated: DataUse | None, sources: Mapping[str, DataUse | None]) -> DataUse | None:
    """Use of data derived from several sources, combined with the run's setting; None if unknown.

    Args:
        stated: setting ``data_use``.
        sources: description -> its recorded use.

    Raises:
        ConfigError: ``open`` is stated for a source recorded as credentialed.
    """
    credentialed = [name for name, use in sources.items() if use == "credentialed"]
    if stated == "open" and credentialed:
        raise ConfigError(
            [
                f"data_use=open: recorded as credentialed: {', '.join(credentialed)}. A setting may make that "
                "stricter, not looser: leave data_use out"
            ]
        )
    return stated or tightest(sources.values())


def build_use(stated: DataUse | None, sources: Mapping[str, DataUse | None]) -> DataUse:
    """Use of a benchmark: like :func:`resolve_use`, but credentialed if unknown.

    Raises:
        ConfigError: ``open`` is stated for a source recorded as credentialed.
    """
    return resolve_use(stated, sources) or "credentialed"


def recorded_use(folder: Path) -> DataUse | None:
    """Data use from the records in a folder; the strictest if there are several."""
    use: DataUse | None = None
    for value in _records(folder):
        if value in ("open", "credentialed"):
            use = tighter_record(use, value)
    return use


def _records(folder: Path) -> Iterator[Any]:
    for name in ("run.json", "sweep.json", "identifiers.json", "settings.json", LINEAGE, "benchmark.yaml"):
        try:
            content = (yaml_content if name.endswith("yaml") else read_json)(folder / name)
        except InputError:
            continue
        if isinstance(content, dict):
            results = content.get("results")
            yield content.get("data_use")
            # Audits of 0.1.0 have it among their results.
            yield results.get("data_use") if isinstance(results, dict) else None


def use_of_file(path: Path, published_use: DataUse | None = None) -> DataUse | None:
    """Use of a file or folder: credentialed inside a folder recorded as such, else that of its publication."""
    places = {place for path in (path.absolute(), path.resolve()) for place in (path, *path.parents)}
    return "credentialed" if any(recorded_use(place) == "credentialed" for place in places) else published_use


def write_lineage(folder: Path, use: DataUse | None, made_from: Mapping[str, Any], template: Any = None) -> None:
    """Write the lineage record of a model's folder; it contains no path and no person.

    Args:
        template: prompt template of its training; templates from a user's file are omitted.
    """
    template_setting = {"template": template} if isinstance(template, str) else {}
    write_json(folder / LINEAGE, {"data_use": use or "unknown", "made_from": dict(made_from), **template_setting})
