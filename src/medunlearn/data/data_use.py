"""``data_use``: whether data may leave this machine. It is passed on to everything derived from the data.

One rule: the stricter of the known uses wins, and unknown (None) counts as credentialed wherever data could leave
the machine. A setting may make a recorded use stricter, never looser. It is part of a thing's lineage
(:mod:`medunlearn.data.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from medunlearn.data.lineage import DataUse as DataUse
from medunlearn.data.lineage import read_lineage
from medunlearn.data.lineage import tighter_record as tighter_record
from medunlearn.errors import ConfigError

UNKNOWN = "unknown, so it counts as credentialed"


def tightest(uses: Iterable[DataUse | None]) -> DataUse | None:
    """Use of data derived from several sources: credentialed if one is, else unknown if one is or there are
    none.
    """
    every = set(uses)
    return "credentialed" if "credentialed" in every else "open" if every == {"open"} else None


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
    """Data use from the records in a folder, the strictest if there are several; None if one is broken and none is
    credentialed.
    """
    return read_lineage(folder, strict=False).data_use


def use_of_file(path: Path, published_use: DataUse | None = None) -> DataUse | None:
    """Use of a file or folder: credentialed inside a folder recorded as such, else that of its publication."""
    places = {place for path in (path.absolute(), path.resolve()) for place in (path, *path.parents)}
    return "credentialed" if any(recorded_use(place) == "credentialed" for place in places) else published_use
