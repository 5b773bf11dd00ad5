"""What panels of judges said, as tables of a report."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.judging.words import Section
from medunlearn.reports.content import JudgedContent
from medunlearn.reports.tables import Cell, Table


@dataclass(frozen=True)
class JudgedTable:
    """A table under its heading; None where there is nothing to count."""

    title: str
    table: Table | None
    aside: str


def judged_tables(judged: JudgedContent) -> list[JudgedTable]:
    """The tables of a panel; an interval stands below its number."""
    return [JudgedTable(one.title, _table(one) if one.rows else None, one.aside) for one in judged.sections]


def _table(section: Section) -> Table:
    columns = tuple(Cell(name) for name in section.head)
    return Table(columns, tuple(tuple(_cell(text) for text in row) for row in section.rows))


def _cell(text: str) -> Cell:
    """``95.6% [94.1%, 96.9%]`` and ``284 (94.7% [91.9%, 97.0%])`` have an interval to set apart."""
    number, bracket, rest = text.partition(" [")
    if not bracket or not rest.rstrip(")").endswith("]"):
        return Cell(text)
    return Cell(number + (")" if rest.endswith(")") else ""), f"[{rest.rstrip(')')}")
