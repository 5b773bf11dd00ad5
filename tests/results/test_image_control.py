"""What is lost with another image: nothing by a model that never looks, much by one that does."""

from __future__ import annotations

from typing import Any

import pandas as pd

from medunlearn.results.image_control import control_table, summarize_control


def scores(values: dict[str, list[float]]) -> pd.DataFrame:
    """Six subjects with an item of each kind; values are each kind's by subject."""
    rows = [
        (f"{kind}-{place}", f"p{place}", "exact_match", value, None, "forget", "train", kind)
        for kind, each in values.items()
        for place, value in enumerate(each)
    ]
    names = ["item", "subject", "measure", "value", "reason", "side", "fold", "kind"]
    return pd.DataFrame(rows, columns=names).astype({"reason": "string", "value": "Float64"})


RIGHT = [1.0] * 6


def test_answers_from_text_lose_nothing_and_answers_from_images_do() -> None:
    true = scores({"cloze": RIGHT, "identity": RIGHT, "text": RIGHT})
    others = {
        "swapped": scores({"cloze": RIGHT, "identity": [0, 0, 0, 0, 1, 0]}),
        "blank": scores({"cloze": [1, 1, 1, 1, 1, 0], "identity": [0.0] * 6}),
    }
    table = control_table(true, others)
    # What was asked with no other image is in no control.
    assert set(table["kind"]) == {"cloze", "identity"}
    rows = summarize_control(table, replicates=200, seed=0).to_dict("records")
    rows_by_key: dict[tuple[str, str], dict[str, Any]] = {(row["image"], row["kind"]): row for row in rows}
    assert rows_by_key["swapped", "cloze"]["difference"] == 0
    assert [rows_by_key["swapped", "identity"][name] for name in ("true", "value")] == [1, 1 / 6]
    assert rows_by_key["swapped", "identity"]["difference"] == 5 / 6
    assert rows_by_key["swapped", "identity"]["low"] > 0
    assert rows_by_key["blank", "identity"]["difference"] == 1
    # One of six is within chance.
    assert rows_by_key["blank", "cloze"]["low"] <= 0
    assert {row["n_subjects"] for row in rows} == {6}
