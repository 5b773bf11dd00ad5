"""Measures of either verb asked of an audit; its stored responses scored again, without a model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from outside_package import install

import medunlearn as mu
from medunlearn import registry
from medunlearn.audit.measures import default_measures
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.metrics import get_metric
from medunlearn.results.runs import Run

NOTE = " ".join(f"On day {day} her count was {day + 40} and she slept." for day in range(9))
SMALL: dict[str, Any] = {"replicates": 20, "quiet": True}
OWN = """
from medunlearn.audit.continuation_measure import ContinuationMeasure
from medunlearn.metrics import Measure, Score

METRIC = Measure(
    name="shouting", title="Capitals", needs=("response",), meaning="0 or 1, higher = louder", source="ours",
    score=lambda items, tools: [Score(float(item.response.isupper())) for item in items],
)
EARLIER = ContinuationMeasure(
    "tokens_said", "Tokens", "exact", ("tokens",), "0 and up, higher = says more", "ours",
    lambda pairs: [Score(float(len(pair.response_ids) - len(pair.suffix_ids))) for pair in pairs],
)
"""


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """Three patients' notes: the model repeats the first, shouts over the second, and says nothing to the third."""
    responses = (NOTE[8:], NOTE[8:200].upper(), None)
    rows = [
        {"record_id": f"r{n}", "prefix": NOTE[:8], "suffix": NOTE[8:], "response": text, "corpus": "notes"}
        for n, text in enumerate(responses)
    ]
    file = tmp_path / "said.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of measures in no package; its name."""
    (tmp_path / "loud_audit.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "loud_audit"


def values(table: pd.DataFrame, measure: str) -> list[float | None]:
    rows = table[table["measure"] == measure].sort_values("item")
    return [None if pd.isna(value) else float(value) for value in rows["value"]]


def test_an_audit_scored_again_is_the_same(said: Path, tmp_path: Path) -> None:
    before = mu.audit(responses=said, baseline=said, out=tmp_path / "a", **SMALL).scores()
    again = mu.score(tmp_path / "a")
    pd.testing.assert_frame_equal(again.scores(), before)
    assert {*before["measure"]} == {*default_measures()}
    (baseline,) = again.baselines
    mu.score(tmp_path / "a", measures="token_f1")
    assert "token_f1" in {*mu.Audit.open(baseline.run.folder).scores()["measure"]}


def test_measures_of_evaluations_are_asked_of_an_audit(said: Path, tmp_path: Path, own: str) -> None:
    """With the audit, or later; by path and by name one measure; a missing response is unscored everywhere."""
    names = ("run_30", "rouge_l_unicode", f"{own}:METRIC")
    table = mu.audit(responses=said, out=tmp_path / "a", measures=names, **SMALL).scores()
    assert values(table, "shouting") == [0.0, 1.0, None]
    assert values(table, "rouge_l_unicode")[0] == 1.0
    for requested in (f"{own}:METRIC", "shouting", f"shouting,{own}:METRIC"):
        again = mu.score(tmp_path / "a", measures=requested)
        assert len(again.scores()) == len(table)
    added = mu.score(tmp_path / "a", measures=["token_f1", f"{own}:EARLIER"]).scores()
    assert values(added, "token_f1")[0] == 1.0
    assert values(added, "tokens_said")[0] == 0.0
    assert {*added.loc[added["item"].str.startswith("r2"), "reason"]} == {"the file holds no response"}
    assert Run.open(tmp_path / "a").info.own_measures["tokens_said"]["path"] == f"{own}:EARLIER"


def test_texts_are_compared_as_far_as_their_first_tokens(said: Path, tmp_path: Path) -> None:
    long = " ".join(f"word{n}" for n in range(150))
    rows = [{"prefix": "a", "suffix": long, "response": long.replace("word149", "else"), "record_id": "r"}]
    said.write_text(json.dumps(rows[0]) + "\n")
    names = ("exact_match", "rouge_l", "token_f1", "longest_run")
    table = mu.audit(responses=said, out=tmp_path / "a", measures=names, **SMALL).scores()
    assert [values(table, name) for name in names] == [[1.0], [1.0], [1.0], [149.0]]


def test_what_an_audit_cannot_give_is_refused_by_name(said: Path, tmp_path: Path) -> None:
    for measures, words in (
        ("run_30,rank", "rank needs ranks of facts, which an audit does not give"),
        ("run_30,bert_score", "bert_score needs an encoder of BERTScore: --encoder"),
        ("bart_score.released_code", "bart_score.released_code needs a sequence-to-sequence model: --bart"),
        ("extraction_strength,em", "em needs choices under teacher forcing"),
    ):
        with pytest.raises(ConfigError, match=words):
            mu.audit(responses=said, out=tmp_path / "a", measures=measures, **SMALL)
    assert not (tmp_path / "a").exists()
    # Beside another measure it is unscored with the reason.
    table = mu.audit(responses=said, out=tmp_path / "a", measures="extraction_strength,run_30", **SMALL).scores()
    reasons = table[table["measure"] == "extraction_strength"]["reason"]
    assert reasons.str.contains("arg-max hits were not computed").sum() == 2
    with pytest.raises(ConfigError, match="cs needs a sentence encoder, which scoring an audit again"):
        mu.score(tmp_path / "a", measures="cs")
    with pytest.raises(ConfigError, match="split: an audit has none"):
        mu.score(tmp_path / "a", split="random_10")
    with pytest.raises(UnknownNameError, match="run_30"):
        mu.score(tmp_path / "a", measures="run_31")


def test_the_path_of_a_stored_audit_alone_is_not_imported(
    said: Path, tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mu.audit(responses=said, out=tmp_path / "a", measures=f"run_30,{own}:METRIC", **SMALL)
    monkeypatch.delitem(sys.modules, own)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    before = mu.Audit.open(tmp_path / "a").scores()
    again = mu.score(tmp_path / "a").scores()
    assert values(again, "shouting") == values(before, "shouting")
    with pytest.raises(InputError, match="MEDUNLEARN_PLUGINS"):
        mu.score(tmp_path / "a", measures="shouting")


def test_both_groups_of_entry_points_are_read(
    said: Path, tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of ``medunlearn.measures`` stand in an audit's defaults, those of ``medunlearn.metrics`` do not."""
    groups = {"measures": {"tokens_said": f"{own}:EARLIER"}, "metrics": {"shouting": f"{own}:METRIC"}}
    install(tmp_path, own, groups)
    registry._installed.cache_clear()
    try:
        assert default_measures()[-1] == "tokens_said"
        assert get_metric("shouting").title == "Capitals"
        table = mu.audit(responses=said, out=tmp_path / "a", **SMALL).scores()
        assert {*table["measure"]} == {*default_measures()}
        assert values(mu.score(tmp_path / "a", measures="shouting").scores(), "shouting")[1] == 1.0
    finally:
        monkeypatch.undo()
        registry._installed.cache_clear()


def test_an_audit_is_scored_again_without_torch(said: Path, tmp_path: Path) -> None:
    mu.audit(responses=said, out=tmp_path / "a", **SMALL)
    code = (
        f"import sys, medunlearn as mu\nmu.score({str(tmp_path / 'a')!r}, measures='token_f1,bleu')\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
