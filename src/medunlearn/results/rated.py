"""Rated measures of older runs: drawn ratings get the names of drawn measures when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from medunlearn.data.origins import drawn_name, is_rehearsal_model
from medunlearn.errors import InputError
from medunlearn.input_files import path_inside
from medunlearn.results.runs import FILE, Run, RunRecord

RATED = ("factuality", "gen_score", "gen_score.failed_zero")
"""Measures of ratings."""
JUDGED, FOLDER = "judged", "judgements"
"""Key of a record's results with the folder of its judging run; an older attack has them in this folder."""


def with_drawn_names(table: pd.DataFrame, run: Run, record: Run) -> pd.DataFrame:
    """A table of measures, with drawn ratings of older versions under names of their own.

    Args:
        run: the run whose model it is; ``record``: its evaluation or attack.
    """
    if not table["measure"].isin(RATED).any() or not any(map(_was_rehearsed, _judging_folders(run, record))):
        return table
    names = {name: drawn_name(name) for name in RATED}
    return table.assign(measure=table["measure"].replace(names))


def _judging_folders(run: Run, record: Run) -> Iterator[Path]:
    if isinstance(where := record.info.results.get(JUDGED), str):
        yield path_inside(run.folder, where, record.folder / FILE)
    else:
        yield from sorted(path.parent for path in (record.folder / FOLDER).glob(f"*/{FILE}"))


def _was_rehearsed(folder: Path) -> bool:
    """True for a judging run without recorded provenance whose models have a rehearsal's names."""
    try:
        judges = RunRecord.read(folder).results.get("judges") or {}
    except InputError:
        return False
    older = [facts.get("settings") or {} for facts in judges.values() if "provenance" not in facts]
    return any(is_rehearsal_model(str(settings.get("model", ""))) for settings in older)
