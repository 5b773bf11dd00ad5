"""Find folders and files that a record names by a path, after record and folder were moved or copied together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import path as os_path
from pathlib import Path

_LEVELS = 6
"""Folders above a record below which its neighbours are looked for."""


def find_moved(recorded: str | Path, near: Path, matches: Callable[[Path], bool] = Path.exists) -> Path | None:
    """The first place that matches: at the recorded path, or beside a moved record; None without one.

    A path counts from the record's folder, then from the working folder. A record in ``copy/runs/npo`` that names
    ``/old/bench`` finds ``copy/bench``: below each folder above the record, nearest first, the last parts of the
    recorded path are looked for, most parts first.

    Args:
        recorded: path in the record, absolute or relative.
        near: folder of the record.
        matches: whether an existing folder or file is the one that was recorded, by its hash.
    """
    return next((place for place in candidates(recorded, near) if place.exists() and matches(place)), None)


def candidates(recorded: str | Path, near: Path) -> Iterator[Path]:
    """Places where a recorded folder or file may lie, the likeliest first."""
    path = Path(recorded)
    if not path.is_absolute():
        yield near / path
    yield path
    parts = [part for part in path.parts if part not in (path.anchor, ".", "..")]
    for above in Path(os_path.abspath(near)).parents[:_LEVELS]:
        yield from (above.joinpath(*parts[place:]) for place in range(len(parts)))


def recorded_path(folder: Path, near: Path) -> str:
    """Path of a folder for a record: relative if both are in one tree, which can be moved; else absolute."""
    folder, near = folder.resolve(), near.resolve()
    try:
        common = os_path.commonpath([folder, near])
    except ValueError:  # two drives
        return str(folder)
    return str(folder) if common == os_path.dirname(common) else os_path.relpath(folder, near)
