"""What judging leaves on disk, and the people who check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from medunlearn.data.storage import write_atomically, write_text
from medunlearn.errors import InputError
from medunlearn.judging import get_task
from medunlearn.judging.cases import to_cases
from medunlearn.judging.human import confusions, with_people
from medunlearn.judging.labels import People, read_people
from medunlearn.judging.sampling import spread
from medunlearn.judging.sheet import write_sheet
from medunlearn.judging.tables import Panel
from medunlearn.judging.words import Section, panel_sections, people_sections, people_words
from medunlearn.results.runs import Run

CASES, JUDGEMENTS, PANEL_FILE = "cases.parquet", "judgements.parquet", "panel.parquet"
VERDICTS, RATINGS, AGREEMENT = "verdicts.parquet", "ratings.parquet", "agreement.parquet"
CRITERIA, WORDS = "criteria.parquet", "judged.md"
LABELS, PEOPLE, CONFUSION, PEOPLE_WORDS = "labels.parquet", "people.parquet", "confusion.parquet", "people.md"


@dataclass(frozen=True)
class Judged:
    """A panel's run: its tables by name, and its Markdown.

    Attributes:
        run: the run; ``run.folder`` holds the tables.
    """

    run: Run

    @staticmethod
    def open(folder: Path | str) -> Judged:
        """A complete run of `medunlearn judge`.

        Raises:
            InputError: it is another sort of run, or not complete.
        """
        run = Run.open(folder)
        if run.info.get("verb") != "judge":
            raise InputError(f"{folder} holds a run of `{run.info.get('verb')}`. Name one of `medunlearn judge`.")
        return Judged(run)

    @cached_property
    def panel(self) -> Panel:
        """Cases and judgements, ready to be counted."""
        inputs, config = self.run.info["inputs"], self.run.info["config"]
        task = get_task(inputs["task"])
        cases = to_cases(self.table(CASES), task)
        judges = list(inputs["judges"])
        return Panel(task, cases, judges, self.table(JUDGEMENTS), config["replicates"], config["seed"])

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables; empty where this run has none of that name."""
        path = self.run.folder / name
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()

    @property
    def words(self) -> str:
        """Its tables as Markdown."""
        return (self.run.folder / WORDS).read_text(encoding="utf-8")

    def sections(self) -> list[Section]:
        """Its tables for a report, with those about people where some have labelled its cases."""
        measured = self.table(PEOPLE)
        people = [] if measured.empty else people_sections(self.panel, self.table(CONFUSION), measured)
        return [*panel_sections(self.panel), *people]


def annotate(judged: Judged, out: Path, *, number: int | None = None, seed: int = 0) -> tuple[Path, Path]:
    """Write a CSV and a page for a person who checks a panel's cases, blind to what it said.

    Args:
        number: cases to draw, as evenly over groups as they allow; None for all.
        seed: of the draw and the order.

    Raises:
        InputError: there are fewer cases, or ``out`` holds a sheet already.
    """
    cases = judged.panel.cases
    drawn = spread(cases, len(cases) if number is None else number, seed)
    return write_sheet(out, judged.panel.task, drawn)


def judged_among(runs: Sequence[Run]) -> tuple[list[Run], list[Judged]]:
    """Runs with models, and those of `medunlearn judge`."""
    judged = [Judged.open(run.folder) for run in runs if run.info.get("verb") == "judge"]
    return [run for run in runs if run.info.get("verb") != "judge"], judged


@dataclass(frozen=True)
class Agreed:
    """Judges against people.

    Attributes:
        people: annotator -> case -> verdict.
        agreement: as :func:`medunlearn.judging.human.with_people`.
        confusion: as :func:`medunlearn.judging.human.confusions`.
        words: both as Markdown.
    """

    people: People
    agreement: pd.DataFrame
    confusion: pd.DataFrame
    words: str


def agree(judged: Judged, labels: Sequence[Path]) -> Agreed:
    """Compare a panel with people's labels; the tables are written beside the panel's.

    Raises:
        SourceError: labels that cannot be read or do not fit.
    """
    panel = judged.panel
    people = read_people(labels, panel.task, [case.case_id for case in panel.cases])
    measured, confusion = with_people(panel, people), confusions(panel, people)
    found = Agreed(people, measured, confusion, people_words(panel, confusion, measured))
    rows = [(person, case, verdict) for person, own in people.items() for case, verdict in own.items()]
    given = pd.DataFrame(rows, columns=["annotator", "case_id", "verdict"])
    for name, table in {LABELS: given, PEOPLE: measured, CONFUSION: confusion}.items():
        write_atomically(judged.run.folder / name, table.to_parquet)
    write_text(judged.run.folder / PEOPLE_WORDS, found.words)
    return found
