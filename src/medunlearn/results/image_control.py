"""Image control: scores with the true image, another patient's, and a blank one, to see whether answers need the
image.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from medunlearn.results.summary import EVALUATION, compare, summarize

FILE = "image_control.parquet"
"""In an evaluation's folder: a score table with the label ``image``."""
TRUE = "true"


def control_table(scores: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Concatenate score tables under each image, with the column ``image``: ``true``, ``swapped``, ``blank``.

    Only questions also asked with other images are included.
    """
    controlled = set().union(*(set(zip(t["item"], t["measure"], strict=True)) for t in others.values()))
    pairs = pd.Series(list(zip(scores["item"], scores["measure"], strict=True)), index=scores.index)
    tables = {TRUE: scores[pairs.isin(controlled)], **others}
    return pd.concat([table.assign(image=name) for name, table in tables.items()], ignore_index=True)


def summarize_control(table: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Loss with another image: a row per side, fold, kind, measure and other image.

    Args:
        table: from :func:`control_table`.

    Returns:
        side, fold, kind, measure, image; ``value`` with that image, ``true`` with the right one; ``difference``
        (true minus value) with ``low`` and ``high``, its 95% interval over subjects; ``n_pairs``, ``n_subjects``.
        An answer that needs its image has a difference above 0.
    """
    true = table[table["image"] == TRUE].drop(columns="image")
    rows = []
    for image in sorted(set(table["image"]) - {TRUE}, reverse=True):
        other = table[table["image"] == image].drop(columns="image")
        gaps = compare(true, other, EVALUATION, replicates=replicates, seed=seed)
        keys = [*EVALUATION, "measure"]
        for name, scores in (("true", true), ("value", other)):
            means = summarize(scores, EVALUATION, replicates=2, seed=seed)[[*keys, "value"]]
            gaps = gaps.merge(means.rename(columns={"value": name}), on=keys, how="left", validate="one_to_one")
        rows.append(gaps.assign(image=image))
    columns = [
        *EVALUATION,
        "measure",
        "image",
        "true",
        "value",
        "difference",
        "low",
        "high",
        "n_pairs",
        "n_subjects",
    ]
    return pd.concat(rows, ignore_index=True)[columns]
