"""Measures that scored no item of a model: a command that was asked for them must not end well."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pandas as pd

from medunlearn.errors import MedunlearnError

RAISED = "the measure raised"
"""Beginning of the reason of an item on which a measure raised an error."""
_SHOWN = 3
"""Reasons that a message tells of each measure, the most frequent ones."""


REMEDY = "What was scored is stored. Correct the measure and score again (`medunlearn score`), or leave it out."


def refuse_unscored(
    tables: Mapping[str, pd.DataFrame],
    requested: Collection[str],
    foreseen: Collection[str] = (),
    broken: Collection[str] = (),
) -> None:
    """Refuse score tables in which a measure scored nothing (:func:`unscored_measures`); they stay on disk.

    Raises:
        MedunlearnError: names each measure, with its most frequent reasons.
    """
    if problems := unscored_measures(tables, requested, foreseen, broken):
        told = " ".join(text for _, text in problems)
        raise MedunlearnError(f"Nothing was measured by some measures. {told} {REMEDY}")


def unscored_measures(
    tables: Mapping[str, pd.DataFrame],
    requested: Collection[str],
    foreseen: Collection[str] = (),
    broken: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Label of a table and what is wrong with it, for each requested measure that has no value there.

    Measures of defaults may find nothing to score, unless all of them find nothing or one raised an error on every
    item that it was given.

    Args:
        tables: label of a model -> its score table.
        requested: names of the measures that the user named.
        foreseen: measures that the model cannot be scored by, as was said before it was asked.
        broken: labels of broken models, which may leave a measure nothing to score; an error that it raised counts.
    """
    return [
        (label, text)
        for label, table in tables.items()
        for text in _problems(label, table, requested, foreseen, label in broken)
    ]


def _problems(
    label: str, table: pd.DataFrame, requested: Collection[str], foreseen: Collection[str], broken: bool
) -> Iterator[str]:
    is_empty = table["value"].isna().groupby(table["measure"], sort=False).all()
    for measure in is_empty.index[is_empty]:
        reasons = table.loc[table["measure"] == measure, "reason"].astype("string").fillna("")
        raised = reasons.str.startswith(RAISED).any()
        if measure not in foreseen and (raised or (not broken and (measure in requested or is_empty.all()))):
            counts = reasons.value_counts()
            told = "; ".join(f"{reason} ({count:,})" for reason, count in counts.head(_SHOWN).items())
            more = f"; and {len(counts) - _SHOWN:,} other reasons" if len(counts) > _SHOWN else ""
            yield f"{measure} scored none of {len(reasons):,} items of {label}: {told}{more}."
