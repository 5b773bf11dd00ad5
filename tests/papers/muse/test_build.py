"""MUSE from files of its form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medunlearn.config import MuseSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import SourceError
from medunlearn.papers.muse.build import build


def built(folder: Path) -> Benchmark:
    return build(MuseSettings(released=str(folder)))


def test_sets_sides_and_folds(muse_files: Path, tmp_path: Path) -> None:
    benchmark = built(muse_files)
    sides = benchmark.sides(benchmark.splits["forget"])
    counts = Counter((r.groups["set"], r.fold, sides[r.record_id]) for r in benchmark.records)
    assert counts == {
        ("forget", "train", "forget"): 5,
        ("retain", "train", "retain"): 5,
        ("holdout", "holdout", "retain"): 5,
        # A question of each side, and the one prompt that is in no document.
        ("forget", "rephrase", "forget"): 6,
        ("retain", "rephrase", "retain"): 5,
    }
    assert all("retain2" in record.text for record in benchmark.records if record.record_id.startswith("retain-0"))
    assert benchmark.notes["verbatim prompts outside every document"] == 1
    assert Benchmark.load(benchmark.save(tmp_path / "b")) == benchmark


def test_prompts_belong_to_their_documents(muse_files: Path) -> None:
    benchmark = built(muse_files)
    completions = [question for question in benchmark.questions if question.kind == "completion"]
    assert [question.record_id for question in completions] == [f"forget-000{n}" for n in range(1, 6)] + [
        "verbatim-0006"
    ]
    assert {question.fold for question in completions} == {"train"}
    knowledge = [question for question in benchmark.questions if question.kind == "knowledge"]
    assert Counter(question.fold for question in knowledge) == {"holdout": 10}
    assert benchmark.record["retain-qa-0003"].text == "What did the mayor of retain2 open?\nA bridge"


def test_nothing_but_documents_is_trained_on(muse_files: Path) -> None:
    trained = {record.record_id for record in built(muse_files).records if record.fold == "train"}
    assert trained == {f"{of}-000{n}" for of in ("forget", "retain") for n in range(1, 6)}


def test_other_forms_of_the_files(muse_files: Path) -> None:
    """As the authors' repository has some of them: plain text, texts in a list, retain1 alone, no holdout."""
    raw = muse_files / "raw"
    for name in ("retain2", "holdout", "forget"):
        (raw / f"{name}.json").unlink()
    (raw / "forget.txt").write_text("One long novel.")
    (raw / "retain1.json").write_text('["first text", "second text"]')
    (muse_files / "privleak").mkdir()
    (muse_files / "privleak" / "holdout.json").write_text('[{"text": "never seen"}]')
    benchmark = built(muse_files)
    texts = {record.record_id: record.text for record in benchmark.records}
    assert texts["forget-0001"] == "One long novel."
    assert texts["retain-0002"] == "second text"
    assert texts["holdout-0001"] == "never seen"


def test_refusals(muse_files: Path) -> None:
    for name in ("retain1", "retain2"):
        (muse_files / "raw" / f"{name}.json").unlink()
    with pytest.raises(SourceError, match=r"holds no retain2 \(nor retain1\)"):
        built(muse_files)
    (muse_files / "raw" / "retain2.json").write_text('[{"text": "x"}]')
    (muse_files / "verbmem" / "forget.json").unlink()
    with pytest.raises(SourceError, match="holds no forget"):
        built(muse_files)
