"""Ancestry of a model: the data that may have influenced its weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from medunlearn.config import TINIES
from medunlearn.data.data_use import DataUse
from medunlearn.data.lineage import Lineage, read_lineage
from medunlearn.models.folders import record_folder


def model_use(source: str | Path) -> DataUse | None:
    """``data_use`` of all data that a model was made from; None if not recorded.

    Credentialed if any model of the lineage is: the run, its ancestors, the base of a delta or an adapter. A folder
    without a record, or with a broken one, and a hub id are unknown; a tiny model made in memory is open.
    """
    own, *others = (lineage.data_use for lineage in _lineages(source))
    return "credentialed" if "credentialed" in (own, *others) else own


def _lineages(source: str | Path) -> Iterator[Lineage]:
    """The lineage of a run or model, then those of its ancestors on this machine, each folder once."""
    if not os.path.isdir(source):
        yield Lineage(data_use="open" if str(source) in TINIES else None)
    pending, visited = [str(source)], set[Path]()
    while pending:
        place = pending.pop()
        if not os.path.isdir(place) or (folder := record_folder(Path(place).resolve())) in visited:
            continue
        visited.add(folder)
        lineage = read_lineage(folder, strict=False)
        yield lineage
        pending += lineage.ancestors
