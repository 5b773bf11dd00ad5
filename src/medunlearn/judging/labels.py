"""CSV sheets for annotators: written blank, read back with labels.

A sheet shows the cases and nothing that rules or judges say of them: annotators are blinded.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medunlearn.data.escaping import csv_text, unescape_formula
from medunlearn.data.storage import refuse_existing, write_text
from medunlearn.errors import SourceError, unknown_name
from medunlearn.input_files import regular_file

REQUIRED = ("case_id", "label")

People = Mapping[str, Mapping[str, str]]
"""Annotator -> case id -> verdict; blank labels are not there."""


@dataclass(frozen=True)
class LabelSheet:
    """Columns and labels of a sheet with a row per case.

    Attributes:
        labels: label, in any case -> the verdict that it stands for.
        shows: columns with the material to label.
        blanks: columns to fill in.
        noun: the cases, in messages.
    """

    labels: Mapping[str, str]
    shows: Sequence[str]
    blanks: Sequence[str] = ("annotator", "label", "comment")
    case_column: str = "case_id"
    label_column: str = "label"
    noun: str = "the judged cases"

    def text(self, rows: Iterable[Sequence[str]]) -> str:
        """The blank sheet as CSV; a row is the id of a case and its material."""
        blank = [""] * len(self.blanks)
        header = (self.case_column, *self.blanks, *self.shows)
        return csv_text([header, *((case_id, *blank, *material) for case_id, *material in rows)])

    def write(self, path: Path, rows: Iterable[Sequence[str]]) -> None:
        """Write the blank sheet, private to its owner.

        Raises:
            InputError: the file exists.
        """
        refuse_existing(path, why="it may contain labels")
        write_text(path, self.text(rows))

    def read(self, paths: Sequence[Path], case_ids: Iterable[str]) -> dict[str, str]:
        """Verdict by case id, from all sheets together; two labels of one case must agree.

        Raises:
            SourceError: as for :meth:`read_people`, except that there may be no label.
        """
        return self._read(paths, case_ids, lambda path, row: "").get("", {})

    def read_people(self, paths: Sequence[Path], case_ids: Iterable[str]) -> People:
        """Verdicts by annotator (column ``annotator``, else the file's name), who may have several sheets.

        Blank labels are cases not yet labelled. Other columns are ignored.

        Raises:
            SourceError: a file that cannot be read, lacks a column, has a wrong label, an unknown id, or two labels
                of one annotator for one case (the first few with their lines); or no label at all.
        """
        people = self._read(paths, case_ids, lambda path, row: (row.get("annotator") or "").strip() or path.stem)
        if not any(people.values()):
            raise SourceError(
                f"{', '.join(map(str, paths))}: no case has a label. Fill in the column `{self.label_column}`."
            )
        return {name: verdicts for name, verdicts in people.items() if verdicts}

    def _read(
        self, paths: Sequence[Path], case_ids: Iterable[str], annotator: Callable[[Path, Mapping[str, str]], str]
    ) -> dict[str, dict[str, str]]:
        original_ids = {case_id.strip(): case_id for case_id in case_ids}
        allowed = {label.casefold(): verdict for label, verdict in self.labels.items()}
        people: dict[str, dict[str, str]] = {}
        for path in paths:
            problems = []
            for line, row in rows_of(path, (self.case_column, self.label_column)):
                if not (label := row[self.label_column].strip()):
                    continue
                case = f"line {line}: {self.case_column} {row[self.case_column]!r}"
                case_id, verdict = original_ids.get(row[self.case_column].strip()), allowed.get(label.casefold())
                verdicts = people.setdefault(annotator(path, row), {})
                if case_id is None:
                    problems.append(f"{case} is not among {self.noun}")
                elif verdict is None:
                    problems.append(
                        f"line {line}: {unknown_name(self.label_column, label, self.labels).rstrip('.')}"
                    )
                elif verdicts.setdefault(case_id, verdict) != verdict:
                    problems.append(f"{case} has another {self.label_column} already")
            refuse_problems(path, problems)
        return people


def refuse_problems(path: Path, problems: Sequence[str], most: int = 5) -> None:
    """Refuse a filled-in sheet, naming its first problems.

    Raises:
        SourceError: there is a problem.
    """
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > most else ""
        raise SourceError(f"{path}: {'; '.join(problems[:most])}{more}.")


def rows_of(path: Path, required: Sequence[str] = REQUIRED) -> list[tuple[int, dict[str, str]]]:
    """Line numbers and rows of a filled-in CSV sheet, separated by commas or semicolons.

    Undoes the escaping of :func:`escape_formula`.

    Raises:
        SourceError: no such file, not CSV in UTF-8, or a required column is missing.
    """
    try:
        with regular_file(path, SourceError).open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=";" if head.count(";") > head.count(",") else ",", restval="")
            names = [(name or "").strip() for name in reader.fieldnames or []]
            missing = [name for name in required if name not in names]
            if missing:
                raise SourceError(
                    f"{path} lacks the column {', '.join(missing)}; it has {', '.join(names) or 'none'}. "
                    f"Labels need {' and '.join(required)}."
                )
            if twice := [name for name in required if names.count(name) > 1]:
                raise SourceError(f"{path} has the column {twice[0]} twice. Leave one of them out.")
            reader.fieldnames = names
            # What stands in no column has no name (None) and is a list.
            return [
                (reader.line_num, {name: unescape_formula(cell) for name, cell in row.items() if name is not None})
                for row in reader
            ]
    except FileNotFoundError:
        raise SourceError(f"There is no file {path}.") from None
    except (OSError, ValueError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read as CSV in UTF-8: {error}.") from error
