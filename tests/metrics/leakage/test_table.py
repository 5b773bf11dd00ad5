"""Keywords on disk, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from medunlearn.errors import InputError
from medunlearn.metrics.leakage import table
from medunlearn.metrics.leakage.keyword_selection import Keyword

ORIGIN = table.Origin("f" * 64, "offline", "1")
KEYWORDS = {
    "q1": (Keyword("lung cancer", 1.05, "note+answer"), Keyword("stage", 0.95, "note")),
    "q2": (Keyword("sepsis", 1.1, "question"),),
}


def rows(**changes: object) -> pd.DataFrame:
    row = {"question_id": "q1", "keyword": "Lung-Cancer", "weight": 1.0, "field": "note"}
    return pd.DataFrame([{**row, **changes}])


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keywords.parquet"
    table.write(path, KEYWORDS, ORIGIN)
    assert table.read(path) == KEYWORDS
    assert table.origin_of(path) == ORIGIN
    before = path.read_bytes()
    table.write(path, KEYWORDS, ORIGIN)
    assert path.read_bytes() == before
    assert list(pd.read_parquet(path).columns) == ["question_id", "keyword", "weight", "field"]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """Phrases are brought to words; of a keyword that is there twice the larger weight counts."""
    path = tmp_path / "own.parquet"
    pd.concat([rows(), rows(keyword="lung cancer", weight=2.0), rows(question_id="q2")]).to_parquet(
        path, index=False
    )
    assert table.origin_of(path) is None
    assert table.read(path) == {
        "q1": (Keyword("lung cancer", 2.0, "note"),),
        "q2": (Keyword("lung cancer", 1.0, "note"),),
    }


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        (rows(weight=0.0), "weight in row 0 is 0.0"),
        (rows(weight=-1.0), "a number above 0"),
        (rows(weight=float("inf")), "weight in row 0 is inf"),
        (rows(keyword="--"), "no letter and no digit"),
        (rows(keyword=None).astype({"keyword": "str"}), "'keyword' has no value in row 0"),
        (rows().drop(columns="weight"), "lacks column 'weight'"),
        (rows(surplus=1), "unknown column 'surplus'"),
        (rows(weight="heavy"), "Weights are numbers"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, frame: pd.DataFrame, part: str) -> None:
    path = tmp_path / "wrong.parquet"
    frame.to_parquet(path, index=False)
    with pytest.raises(InputError, match=part):
        table.read(path)


def test_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        table.origin_of(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("keywords")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        table.origin_of(tmp_path / "text.parquet")
    table.write(tmp_path / "cut.parquet", KEYWORDS, ORIGIN)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "cut.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        table.origin_of(tmp_path / "cut.parquet")


def test_questions_of_another_benchmark_are_refused(tmp_path: Path) -> None:
    table.refuse_strangers(tmp_path, {"q1"}, {"q1", "q2"})
    with pytest.raises(InputError, match="2 questions that the benchmark lacks, such as 'x1'"):
        table.refuse_strangers(tmp_path, {"q1", "x1", "x2"}, {"q1", "q2"})
