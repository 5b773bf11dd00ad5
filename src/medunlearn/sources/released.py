"""Published benchmark files: JSON (a list, or an object per line), JSONL, Parquet or plain text.

A folder may come from a hub or from the authors' repository; the same table is named ``forget10.json`` in one and
``forget10-00000-of-00001.parquet`` in the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.errors import HubError, SourceError, first_line
from medunlearn.hub_offline import go_offline_if_unreachable
from medunlearn.input_files import regular_file, told_unreadable
from medunlearn.sources.table_files import BROKEN, read_rows

HUB = "hub"
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet", ".csv", ".tsv", ".txt")


@dataclass(frozen=True, slots=True)
class ReleasedRow:
    """One row with its place (``forget10.json:12``)."""

    place: str
    values: Mapping[str, Any]

    def is_blank(self, name: str) -> bool:
        """True if the row has this column without content: null, or only white space."""
        value = self.values.get(name, name)
        return value is None or (isinstance(value, str) and not value.strip())

    def text(self, *names: str) -> str:
        """The text in the first of these columns that exists.

        Raises:
            SourceError: there is none, or it is empty or broken.
        """
        value = next((self.values[name] for name in names if name in self.values), None)
        if not isinstance(value, str) or not value.strip():
            raise SourceError(f"{self.place} has no text in {' or '.join(map(repr, names))}.")
        if BROKEN.search(value):
            raise SourceError(f"{self.place} holds half a character or a zero byte in {names[0]!r}.")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts in a column.

        Raises:
            SourceError: it is not a list of texts, or empty.
        """
        value = self.values.get(name)
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise SourceError(f"{self.place} has no list of texts in {name!r}.")
        if not all(isinstance(text, str) and text.strip() for text in value):
            raise SourceError(f"{self.place} has a value in {name!r} that is not text.")
        return tuple(value)


def released_folder(where: str, repository: str, revision: str | None = None) -> Path:
    """The folder at a path, or for ``hub`` the published data set, downloaded or from the hub's cache.

    Raises:
        SourceError: no such folder.
        HubError: the hub cannot be reached, or refuses.
    """
    if where != HUB:
        folder = Path(where)
        if not folder.is_dir():
            raise SourceError(f"There is no folder {folder}. Give the folder of the released files, or `{HUB}`.")
        return folder
    # Imported here: nobody who has the files needs it.
    from huggingface_hub import snapshot_download

    go_offline_if_unreachable()
    try:
        return Path(snapshot_download(repository, repo_type="dataset", revision=revision))
    except Exception as error:
        raise HubError(
            f"{repository} could not be downloaded from the hub ({first_line(error)}). Download it elsewhere and "
            "give its folder."
        ) from error


def find_table(folder: Path, name: str) -> list[Path]:
    """The files of a table: a single one by its name, or the shards of a hub; empty if missing."""
    whole = [path for path in (folder / f"{name}{suffix}" for suffix in _SUFFIXES) if path.is_file()][:1]
    return whole or sorted(folder.glob(f"{name}-*-of-*.parquet"))


def read_table(folder: Path, name: str) -> list[ReleasedRow]:
    """The rows of a table.

    Raises:
        SourceError: it is missing, empty, or has unreadable rows.
    """
    paths = find_table(folder, name)
    if not paths:
        raise SourceError(f"{folder} holds no {name} (as {', '.join(_SUFFIXES)} or parts of Parquet).")
    rows = [row for path in paths for row in _rows(path)]
    if not rows:
        raise SourceError(f"{paths[0]} is empty. Download it again.")
    return rows


def _rows(path: Path) -> list[ReleasedRow]:
    if path.suffix == ".txt":
        return [ReleasedRow(path.name, {"text": _read(path)})]
    if path.suffix == ".json":
        return _json(path)
    rows = list(read_rows(path))
    bad = [f"{place} {row}" for place, row in rows if isinstance(row, str)]
    if bad:
        raise SourceError(f"{path}: {bad[0]} ({len(bad)} such rows). Download the file again.")
    return [ReleasedRow(place, row) for place, row in rows if not isinstance(row, str)]


def _json(path: Path) -> list[ReleasedRow]:
    """A list of objects or texts, or JSON lines with the ending of JSON, as on some hubs."""
    text = _read(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list):
        return [_row(path, number, entry) for number, entry in enumerate(value, start=1)]
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    try:
        return [_row(path, number, json.loads(line)) for number, line in lines]
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{path} is neither a JSON list nor an object per line ({error}); is it truncated?"
        ) from None


def _row(path: Path, number: int, value: Any) -> ReleasedRow:
    place = f"{path.name}:{number}"
    if isinstance(value, str):
        return ReleasedRow(place, {"text": value})
    if not isinstance(value, dict):
        raise SourceError(f"{place} is neither an object nor a text.")
    return ReleasedRow(place, value)


def _read(path: Path) -> str:
    with told_unreadable(path, SourceError):
        return regular_file(path, SourceError).read_text(encoding="utf-8-sig")
