"""Real reports: a tiny model that was trained on some of them repeats these, and none of those it never saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn import audit
from medunlearn.seeds import generator
from medunlearn.sources.corpus import read_corpora

REPORTS = Path(__file__).parents[3] / "shared" / "data" / "openi" / "indiana_reports.csv"
EACH = 6


@pytest.mark.skipif(not REPORTS.exists(), reason="the Open-i reports (../shared/data/openi) are not here")
def test_members_are_repeated_and_others_are_not(
    tmp_path: Path, memorize: Callable[..., None], write_texts: Callable[..., Path]
) -> None:
    from medunlearn.models.tiny import build_tiny

    (corpus,) = read_corpora([str(REPORTS)])
    long = [report for report in corpus.documents if 300 <= len(report.text) <= 500]
    sample = [long[place] for place in generator("openi test").permutation(len(long))[: 2 * EACH].tolist()]
    for name, reports in (("members", sample[:EACH]), ("others", sample[EACH:])):
        write_texts(tmp_path / name, {report.note_id: report.text for report in reports})
    texts = [report.text for report in long[:200]]
    model = build_tiny(texts, vocabulary=800, width=64, layers=2, heads=4, max_length=512)
    memorize(model, {report.note_id: report.text for report in sample[:EACH]}, 512, EACH, 150)
    model.save(tmp_path / "model")
    how: dict[str, Any] = {"prefixes": 20, "max_new_tokens": 60, "data_use": "open", "replicates": 100}
    corpora = [str(tmp_path / name) for name in ("members", "others")]
    table = audit(tmp_path / "model", corpora, out=tmp_path / "audit", quiet=True, **how).table()
    rows = table.set_index(["corpus", "measure"])
    assert rows.loc[("members", "run_30"), "value"] >= 0.75
    # Reports share set phrases, so that what was never seen is not always 0; it is far from what was.
    assert rows.loc[("others", "run_30"), "value"] <= 0.25
    assert rows.loc[("members", "rouge_l"), "low"] > rows.loc[("others", "rouge_l"), "value"]
    assert rows.loc[("members", "rouge_l"), "value"] > rows.loc[("others", "rouge_l"), "high"]
