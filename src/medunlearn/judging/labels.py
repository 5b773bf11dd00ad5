"""Human labels, read from CSV sheets."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from medunlearn.data.escaping import unescape_formula
from medunlearn.errors import SourceError
from medunlearn.input_files import regular_file
from medunlearn.judging.tasks import JudgingTask

REQUIRED = ("case_id", "label")
_MOST_PROBLEMS = 5

People = Mapping[str, Mapping[str, str]]
"""Annotator -> case id -> verdict; blank labels are not there."""


def read_people(paths: Sequence[Path], task: JudgingTask, case_ids: Sequence[str]) -> People:
    """Labels from one or several files; an annotator may have several files for different cases.

    Columns: case_id and label; annotator (default: the file's name). Labels are those
    of ``task.human_labels``, in any case; blank ones are cases not yet labelled. Other columns are ignored.

    Raises:
        SourceError: a file that cannot be read, lacks a column, has a wrong label, an unknown id, or two labels of
            one annotator for one case (the first few with their lines); or no label at all.
    """
    original_ids = {case_id.strip(): case_id for case_id in case_ids}
    allowed = {label.casefold(): task.as_verdict(label) for label in task.human_labels}
    people: dict[str, dict[str, str]] = {}
    for path in paths:
        problems: list[str] = []
        for line, row in rows_of(path):
            if not (label := row["label"].strip()):
                continue
            case_id, verdict = original_ids.get(row["case_id"].strip()), allowed.get(label.casefold())
            own = people.setdefault((row.get("annotator") or "").strip() or path.stem, {})
            if case_id is None:
                problems.append(f"line {line}: case_id {row['case_id']!r} is not among the judged cases")
            elif verdict is None:
                problems.append(f"line {line}: label {label!r} is none of {', '.join(task.human_labels)}")
            elif own.setdefault(case_id, verdict) != verdict:
                problems.append(f"line {line}: case_id {case_id!r} has another label further up")
        if problems:
            more = f" ({len(problems)} such in all)" if len(problems) > _MOST_PROBLEMS else ""
            raise SourceError(f"{path}: " + "; ".join(problems[:_MOST_PROBLEMS]) + more + ".")
    if not any(people.values()):
        raise SourceError(f"{', '.join(map(str, paths))}: no case has a label. Fill in the column `label`.")
    return {name: labels for name, labels in people.items() if labels}


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
