"""Lineage of a model: the data that may have influenced its weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from medunlearn.config import TINIES
from medunlearn.data.data_use import DataUse, recorded_use
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.models.folders import adapter_base, is_adapter, is_delta, read_manifest


def model_use(source: str | Path) -> DataUse | None:
    """``data_use`` of all data that a model was made from; None if not recorded.

    Credentialed if any model of the lineage is: the run, its ancestors, the base of a delta or an adapter. A folder
    without a record and a hub id are unknown; a tiny model made in memory is open.
    """
    own, *others = _uses(source, set())
    return "credentialed" if "credentialed" in (own, *others) else own


def _uses(source: str | Path, visited: set[Path]) -> Iterator[DataUse | None]:
    """Yield the recorded use of a run or model, then those of its ancestors."""
    folder = Path(source)
    if not folder.is_dir():
        yield "open" if str(source) in TINIES else None
        return
    folder = folder.resolve()
    if folder.name == "model" and (folder.parent / "run.json").exists():
        folder = folder.parent
    if folder in visited:
        return
    visited.add(folder)
    yield recorded_use(folder)
    yield recorded_use(folder / "model")
    for origin in origins(folder):
        if Path(origin).is_dir():
            yield from _uses(origin, visited)


def origins(folder: Path) -> Iterator[str | Path]:
    """Runs, folders and hub ids that a run or a model folder was made from; unreadable ones are skipped."""
    with suppress(InputError):
        if (folder / "run.json").exists():
            yield from (str(origin) for origin in read_json(folder / "run.json").get("lineage", ()))
            folder /= "model"
    with suppress(InputError):
        if is_delta(folder):
            yield folder / read_manifest(folder).base
        elif is_adapter(folder):
            yield adapter_base(folder)
