"""Keywords of a benchmark: found once, kept where they can be, read from a file, and handed to LS."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, MedunlearnError, UnknownNameError
from medunlearn.metrics.leakage import EXTRACTORS
from medunlearn.metrics.leakage import keywords as module
from medunlearn.metrics.leakage.extractors import Offline
from medunlearn.metrics.leakage.keywords import keywords
from medunlearn.metrics.leakage.phrases import candidates
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.runs import Run
from medunlearn.study.report.gather import caveats_of, metric_meanings

QUICK = {"split": "random_10", "replicates": 20, "limit": 2, "max_new_tokens": 4}


class Counting(Offline):
    """The extractor offline, and how many texts it was given; it stops when told to."""

    version: ClassVar[str] = "counting"
    texts: ClassVar[int] = 0
    stops_after: ClassVar[int | None] = None

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        if Counting.stops_after is not None and Counting.texts >= Counting.stops_after:
            raise KeyboardInterrupt
        Counting.texts += len(texts)
        return super().phrases(texts)


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setitem(EXTRACTORS, "counting", f"{__name__}:Counting")
    monkeypatch.setattr(Counting, "texts", 0)
    monkeypatch.setattr(Counting, "stops_after", None)
    return Counting


@pytest.fixture
def saved(hospital: Benchmark, tmp_path: Path) -> Benchmark:
    return Benchmark.load(hospital.save(tmp_path / "bench"))


@pytest.fixture
def run(copy: Callable[..., Run]) -> Run:
    return copy()


def settings(**values: Any) -> EvaluateSettings:
    return check(EvaluateSettings, {**QUICK, **values})


def ls(run: Run, benchmark: Benchmark, **values: Any) -> pd.DataFrame:
    scores = evaluate_one(run, benchmark, settings(**values), quiet=True).scores
    return scores[scores["measure"] == "ls"].set_index("question_id")


def test_found_once_and_kept_beside_the_tables(saved: Benchmark, counting: type[Counting]) -> None:
    first = keywords(saved, extractor="counting", quiet=True)
    assert saved.folder is not None
    assert first.path == saved.folder / "keywords" / "counting.parquet"
    texts = counting.texts
    # Every note with a list, its questions and answers, each different text once.
    listed = {"Cancer", "Cardiovascular", "Infectious/Immune"}
    records = {r.record_id: r for r in saved.records if r.groups["disease"] in listed}
    asked = [q for q in saved.questions if q.record_id in records]
    assert texts == len({r.text for r in records.values()} | {t for q in asked for t in (q.question, q.answer)})
    again = keywords(Benchmark.load(saved.folder), extractor="counting", quiet=True)
    assert counting.texts == texts
    assert again.by_question == first.by_question
    assert not list(first.path.parent.glob("*.parts"))
    # The folder is still the benchmark that its manifest describes.
    assert Benchmark.load(saved.folder) == saved


def test_facts_and_table(saved: Benchmark) -> None:
    found = keywords(saved, quiet=True)
    facts, table = found.facts, found.table()
    assert facts["questions"] == len(saved.questions)
    assert facts["with_keywords"] == table["question_id"].nunique() > 0
    assert facts["with_keywords"] + sum(facts["without"].values()) == facts["questions"]
    assert facts["keywords"] == len(table)
    assert not [text for text in (r.text for r in saved.records) if text in json.dumps(facts)]
    assert table["weight"].between(0.55, 1.25).all()
    of = {q.question_id: q for q in saved.questions}
    for row in table.head(50).to_dict("records"):
        question = of[row["question_id"]]
        record = saved.record[question.record_id]
        fields = {"note": record.text, "question": question.question, "answer": question.answer}
        for field in row["field"].split("+"):
            assert row["keyword"] in candidates(Offline().phrases([fields[field]])[0])


def test_another_benchmark_or_extractor_or_a_broken_table_is_found_anew(
    saved: Benchmark, counting: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    keywords(saved, extractor="counting", quiet=True)
    texts = counting.texts
    other = replace(saved, name="another")
    keywords(other, extractor="counting", quiet=True)
    assert counting.texts == 2 * texts
    first = keywords(saved, quiet=True)
    assert counting.texts == 2 * texts
    first.path.write_bytes(first.path.read_bytes()[:50])
    assert keywords(saved, quiet=True).by_question == first.by_question
    monkeypatch.setattr(counting, "phrases", lambda self, texts: [[]])
    with pytest.raises(MedunlearnError, match="one per text"):
        keywords(replace(saved, name="third"), extractor="counting", quiet=True)


def test_cut_off_it_goes_on(
    saved: Benchmark, counting: type[Counting], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = keywords(saved, quiet=True).by_question
    keywords(saved, extractor="counting", out=tmp_path / "whole.parquet", quiet=True)
    everything, counting.texts = counting.texts, 0
    monkeypatch.setattr(module, "AT_ONCE", 3)
    counting.stops_after = 30
    with pytest.raises(KeyboardInterrupt):
        keywords(saved, extractor="counting", quiet=True)
    before, counting.stops_after = counting.texts, None
    assert 0 < before < everything
    found = keywords(saved, extractor="counting", quiet=True)
    assert found.by_question == whole
    assert counting.texts <= everything + 3  # texts that two records share may be read in two parts
    assert not list(found.path.parent.glob("*.parts"))


def test_what_cannot_be_found(saved: Benchmark, hospital: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="offline"):
        keywords(saved, extractor="offlin", quiet=True)
    with pytest.raises(InputError, match="has no folder yet"):
        keywords(hospital, quiet=True)
    with pytest.raises(InputError, match="is a folder"):
        keywords(saved, out=tmp_path, quiet=True)
    assert saved.folder is not None
    records = saved.folder / "records.parquet"
    before = records.read_bytes()
    with pytest.raises(InputError, match="Choose another --out"):
        keywords(saved, out=records, quiet=True)
    assert records.read_bytes() == before
    assert keywords(hospital, out=tmp_path / "k.parquet", quiet=True).path.exists()
    without = [replace(r, groups={"patient": r.groups["patient"]}) for r in saved.records]
    split = {"random_10": saved.splits["random_10"]}
    undiagnosed = replace(saved, records=tuple(without), levels=("patient",), splits=split)
    with pytest.raises(InputError, match="have no 'disease'"):
        keywords(undiagnosed, quiet=True)
    given = module.for_evaluation(undiagnosed, settings(), ["ls"], tmp_path)
    assert {one.reason for one in given.values()} == {"its record has no disease"}
    assert not (saved.folder / "keywords").exists()


def test_evaluate_scores_ls_and_finds_keywords_once(saved: Benchmark, run: Run, counting: type[Counting]) -> None:
    scores = ls(run, saved, extractor="counting")
    texts = counting.texts
    assert texts > 0
    assert len(scores) == 32
    assert scores["value"].dropna().between(0, 1).all()
    record = {question.question_id: saved.record[question.record_id] for question in saved.questions}
    for name, value, reason in zip(scores.index, scores["value"], scores["reason"], strict=True):
        disease = record[name].groups["disease"]
        if disease in ("Cancer", "Cardiovascular", "Infectious/Immune"):
            assert not pd.isna(value)
        else:
            assert reason == f"there is no term list for {disease}"
    ls(run, saved, extractor="counting", replicates=30)
    assert counting.texts == texts
    inputs = [
        evaluate_one(run, saved, settings(**values), quiet=True).record.info.inputs.get("keywords")
        for values in ({}, {"extractor": "counting"}, {"metrics": ("em",)})
    ]
    assert inputs[0].startswith("offline 1-")
    assert inputs[1].startswith("counting counting/")
    assert inputs[2] is None


def test_without_a_folder_that_can_be_written_the_runs_is_taken(
    saved: Benchmark, hospital: Benchmark, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ls(run, hospital)
    assert (run.folder / "keywords" / "offline.parquet").exists()
    shutil.rmtree(run.folder / "keywords")
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)
    ls(run, saved, replicates=30)
    assert (run.folder / "keywords" / "offline.parquet").exists()
    assert saved.folder is not None
    assert not (saved.folder / "keywords").exists()


def test_keywords_from_a_file(saved: Benchmark, run: Run, tmp_path: Path, counting: type[Counting]) -> None:
    path = keywords(saved, out=tmp_path / "k.parquet", quiet=True).path
    by_itself = ls(run, saved)
    from_file = ls(run, saved, keywords=str(path), extractor="counting")
    pd.testing.assert_frame_equal(by_itself, from_file)
    assert counting.texts == 0
    own = pd.DataFrame({"question_id": [by_itself.index[0]], "keyword": ["Of"], "weight": [1], "field": ["mine"]})
    own.to_parquet(tmp_path / "own.parquet", index=False)
    scored = ls(run, saved, keywords=str(tmp_path / "own.parquet"))["value"]
    assert scored.notna().sum() == 1


def test_a_file_that_does_not_fit_is_refused_before_anything_is_asked(
    saved: Benchmark, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keywords(replace(saved, name="another"), out=tmp_path / "other.parquet", quiet=True)
    strangers = pd.DataFrame({"question_id": ["x"], "keyword": ["sepsis"], "weight": [1.0], "field": ["note"]})
    strangers.to_parquet(tmp_path / "strangers.parquet", index=False)
    (tmp_path / "text.parquet").write_text("no Parquet")
    for name, part in (
        ("other", "another benchmark"),
        ("strangers", "that the benchmark lacks"),
        ("text", "cannot be read as Parquet"),
        ("missing", "There is no file"),
    ):
        with pytest.raises(InputError, match=part):
            ls(run, saved, keywords=str(tmp_path / f"{name}.parquet"))
    monkeypatch.setitem(sys.modules, "spacy", None)  # as where it is not installed
    with pytest.raises(InputError, match="are not installed"):
        ls(run, saved, extractor="scispacy")
    with pytest.raises(UnknownNameError, match="Did you mean 'offline'"):
        ls(run, saved, extractor="ofline")
    assert not (run.folder / "responses").exists()


def test_an_experiment_refuses_a_wrong_extractor_before_it_trains(
    experiment_values: dict[str, Any], tmp_path: Path
) -> None:
    from medunlearn.study.experiment import plan, run_experiment
    from medunlearn.study.plans.run_forecast import forecast

    out = tmp_path / "out"
    experiment = plan({**experiment_values, "out": out, "evaluate": {"extractor": "ofline"}})
    for refuse in (forecast, run_experiment):
        with pytest.raises(UnknownNameError, match="Did you mean 'offline'"):
            refuse(experiment)
    assert not list(out.glob("target*"))


def test_a_report_shows_the_leakage_score_and_what_it_means(saved: Benchmark, run: Run, tmp_path: Path) -> None:
    import medunlearn as mu

    evaluate_one(run, saved, settings(limit=None), quiet=True)
    page = mu.report([run], out=tmp_path / "report").parent / "report.md"
    text = page.read_text(encoding="utf-8")
    assert "Leakage score" in text
    assert "higher = more disease terms" in text


@pytest.mark.parametrize("given", ["offline", "file", "another program's"])
def test_an_evaluation_records_the_extractor_of_its_keywords(
    saved: Benchmark, run: Run, tmp_path: Path, given: str
) -> None:
    values: dict[str, Any] = {**QUICK, "metrics": ("ls",)}
    expected = "offline"
    if given != "offline":
        made = keywords(saved, extractor="counting", out=tmp_path / "own.parquet")
        expected = "counting"
        if given != "file":
            made.table().to_parquet(made.path)
            expected = "another program"
        values["keywords"] = str(made.path)
    evaluated = evaluate_one(run, saved, check(EvaluateSettings, values), quiet=True)
    assert evaluated.extractor == expected
    title, _ = metric_meanings([evaluated])["ls"]
    assert title == f"Leakage score, keywords by {expected}"
    assert any("not with its Table 2" in line for line in caveats_of(saved.facts(), [evaluated]))
    without = evaluate_one(run, saved, check(EvaluateSettings, {**QUICK, "metrics": ("em",)}), quiet=True)
    assert without.extractor == ""
    assert metric_meanings([without])["ls"][0] == "Leakage score"
