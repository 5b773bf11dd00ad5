"""Real reports: a tiny model that was trained on some of them repeats these, and none of those it never saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from medunlearn import audit
from medunlearn.seeds import generator
from medunlearn.sources.corpus import read_corpora

REPORTS = Path(__file__).parents[3] / "shared" / "data" / "openi" / "indiana_reports.csv"
EACH = 8


@pytest.mark.skipif(not REPORTS.exists(), reason="the Open-i reports (../shared/data/openi) are not here")
def test_members_are_repeated_and_others_are_not(tmp_path: Path, memorize: Callable[..., None]) -> None:
    from medunlearn.models.tiny import build_tiny

    (corpus,) = read_corpora([str(REPORTS)])
    long = [one for one in corpus.documents if 300 <= len(one.text) <= 500]
    drawn = [long[place] for place in generator("openi test").permutation(len(long))[: 2 * EACH].tolist()]
    members, others = ({one.record_id: one.text for one in some} for some in (drawn[:EACH], drawn[EACH:]))
    for name, texts in (("members", members), ("others", others)):
        (tmp_path / name).mkdir()
        for record_id, words in texts.items():
            (tmp_path / name / f"{record_id}.txt").write_text(words, encoding="utf-8")
    shown = [one.text for one in long[:200]]
    model = build_tiny(shown, vocabulary=800, width=64, layers=2, heads=4, max_length=512)
    memorize(model, members, 512, 6)
    model.save(tmp_path / "model")
    rows = (
        audit(
            tmp_path / "model",
            [str(tmp_path / "members"), str(tmp_path / "others")],
            out=tmp_path / "audit",
            prefixes=20,
            max_new_tokens=60,
            data_use="open",
            replicates=100,
            quiet=True,
        )
        .table()
        .set_index(["corpus", "measure"])
    )
    assert rows.loc[("members", "run_30"), "value"] >= 0.75
    # Reports share set phrases, so that what was never seen is not always 0; it is far from what was.
    assert rows.loc[("others", "run_30"), "value"] <= 0.25
    assert rows.loc[("members", "rouge_l"), "low"] > rows.loc[("others", "rouge_l"), "high"]
