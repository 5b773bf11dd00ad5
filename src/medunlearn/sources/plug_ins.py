"""File formats from outside: readers that an installed package adds, by the endings of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.errors import InputError, SourceError, first_line
from medunlearn.registry import names, resolve


@dataclass(frozen=True)
class RowSource:
    """A file format: an object of this class, as an entry point of the group ``medunlearn.sources``.

    Attributes:
        title: one line for ``medunlearn list sources``.
        endings: of its files, in lower case with the dot (``.hl7``); medunlearn's own formats stay its own.
        read: file -> its rows, one per note or text, each a mapping from column to value. Columns are recognised by
            name or named by the user, as those of a CSV file.
    """

    title: str
    endings: tuple[str, ...]
    read: Callable[[Path], Iterable[Mapping[str, Any]]]


def sources() -> dict[str, RowSource]:
    """The installed sources by name.

    Raises:
        InputError: one cannot be imported, or lacks a part.
    """
    return {name: _checked(name, resolve("sources", name, {})) for name in names("sources", {})}


def source_for(ending: str) -> Callable[[Path], Iterator[tuple[str, Any]]] | None:
    """The reader of an ending, as :data:`~medunlearn.sources.table_files.READERS` has them; None without one."""
    for name, source in sources().items():
        if ending in source.endings:
            return lambda path: _rows(name, source, path)
    return None


def _checked(name: str, source: object) -> RowSource:
    if not isinstance(source, RowSource):
        raise InputError(
            f"source {name!r} leads to a {type(source).__name__}; it must be a medunlearn.sources.plug_ins."
            "RowSource: RowSource(title='HL7 messages', endings=('.hl7',), read=function)."
        )
    endings = source.endings if isinstance(source.endings, tuple) else ()
    problems = [] if callable(source.read) else ["read must be a function from a Path to rows"]
    if not endings or any(not isinstance(end, str) or not end.startswith(".") for end in endings):
        problems.append("endings must be a tuple of endings with their dot, such as ('.hl7',)")
    if problems:
        raise InputError(f"source {name!r}: {'; '.join(problems)}.")
    return source


def _rows(name: str, source: RowSource, path: Path) -> Iterator[tuple[str, Any]]:
    """Place and content of each row; what a plug-in raises names it and the file."""
    try:
        for number, row in enumerate(source.read(path), start=1):
            is_row = isinstance(row, Mapping)
            yield f"{path.name} row {number}", row if is_row else f"is a {type(row).__name__}, not a mapping"
    except (SourceError, OSError):
        raise
    except Exception as error:
        raise SourceError(
            f"{path} cannot be read by the source {name!r}: {type(error).__name__}: {first_line(error)}."
        ) from error
