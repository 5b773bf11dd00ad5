"""Ranks in every context: records without questions, whole notes, the note in the prompt, a chat template."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.config import EvaluateSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, ModelError
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.presets import train_settings
from medunlearn.study.report.gather import gather
from medunlearn.study.rescore import score
from medunlearn.study.train import train


def how(**values: Any) -> EvaluateSettings:
    small = {"split": "random_10", "ranked": 2, "facts": 2, "alternatives": 12, "limit": 3, "max_new_tokens": 3}
    return check(EvaluateSettings, {**small, "replicates": 20, "allow_broken": True, **values})


@pytest.fixture
def again(copy: Callable[..., Run]) -> Run:
    """The target without its evaluations."""
    return copy()


def by_context(one: Evaluated) -> dict[str, set[str]]:
    """Context -> kinds of its ranked facts."""
    ranked = one.facts.dropna(subset=["p"])
    return {context: set(own["fact"]) for context, own in ranked.groupby("context")}


def test_records_and_notes_stand_beside_answers(
    hospital: Benchmark, small: Mapping[str, Any], tmp_path: Path
) -> None:
    asked = how(metrics=["em", "ranked_first", "note_rank"], rank_in="both", alternatives=19)
    # A tokenizer fitted on a note gives it away among its versions.
    settings: TrainSettings = train_settings({**small, "epochs": 1, "tiny_tokenizer": "common"})
    again = train(hospital, settings, tmp_path / "target", quiet=True)
    one = evaluate_one(again, hospital, asked, quiet=True)
    contexts = by_context(one)
    assert set(contexts) == {"closed_book", "record"}
    assert "note" in contexts["record"]
    assert contexts["record"] & {"name", "identifier", "date", "number"}
    facts = one.facts
    assert facts[facts["fact"] != "note"].groupby("item")["p"].count().max() <= 4
    # Records have rows of their own, and change nothing about the questions.
    records = one.table[one.table["kind"] == "record"]
    assert set(records["measure"]) == {"ranked_first", "note_rank"}
    assert not set(records["item"]) & set(one.questions["question_id"])
    means = one.summary[one.summary["kind"] == "record"]
    assert set(means["measure"]) == {"ranked_first", "note_rank"}
    em = one.summary[(one.summary["measure"] == "em") & (one.summary["kind"] == "all")]
    assert (em["n_unscored"] == 0).all()
    # The same again from what is stored.
    rescored = score(again, measures="ranked_first,note_rank", benchmark=hospital, allow_broken=True)
    pd.testing.assert_frame_equal(
        rescored.table.sort_values(["item", "measure"], ignore_index=True),
        one.table.sort_values(["item", "measure"], ignore_index=True),
    )


def test_a_benchmark_without_questions_is_ranked_by_its_records(
    hospital: Benchmark, small: Mapping[str, Any], tmp_path: Path
) -> None:
    bare = replace(hospital, questions=())
    folder = bare.save(tmp_path / "bench")
    settings: TrainSettings = train_settings({**small, "epochs": 1, "train_on": "records"})
    run = train(bare, settings, tmp_path / "target", quiet=True)
    one = evaluate_one(run, Benchmark.load(folder), how(), quiet=True)
    assert set(by_context(one)) == {"record"}
    assert set(one.summary["measure"]) == {"ranked_first"}
    assert set(one.facts["subject"]) == set(one.table["subject"])
    rescored = score(run, allow_broken=True)
    pd.testing.assert_frame_equal(rescored.table, one.table)
    content = gather("Bare", [one], bare)
    report = write_report(content, tmp_path / "report")
    assert "Facts of records were ranked in place" in (report.parent / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="no question"):
        evaluate_one(run, bare, how(metrics=["rouge_l"]), quiet=True)


def test_a_patient_without_questions_is_ranked_beside_the_others(hospital: Benchmark, again: Run) -> None:
    forgotten = hospital.split("random_10").forget[0]
    fewer = replace(
        hospital, questions=tuple(q for q in hospital.questions if hospital.subject(q.record_id) != forgotten)
    )
    one = evaluate_one(again, fewer, how(metrics=["ranked_first"], other_texts=True), quiet=True)
    in_place = one.facts[one.facts["context"] == "record"]
    assert set(in_place["subject"]) == {forgotten}
    assert set(one.facts[one.facts["side"] == "forget"]["context"]) == {"closed_book", "record"}


@pytest.mark.parametrize(
    ("asked", "template", "words"),
    [
        ({"template": "chat"}, "used", ("template chat", "nothing of the note in the prompt")),
        ({}, "not used", ("template plain", "chat template that was not used")),
        ({"context": "note"}, "not used", ("the note is in the prompt", "without having seen it before")),
    ],
    ids=["chat", "plain", "note"],
)
def test_the_report_says_the_context_of_ranks(
    hospital: Benchmark, again: Run, tmp_path: Path, asked: dict[str, str], template: str, words: tuple[str, ...]
) -> None:
    one = evaluate_one(again, hospital, how(metrics=["em", "ranked_first"], **asked), quiet=True)
    assert set(by_context(one)) == {asked.get("context", "closed_book")}
    assert one.record.info.results["chat_template"] == template
    page = write_report(gather("Chat", [one], hospital), tmp_path / "report").with_suffix(".md")
    text = page.read_text(encoding="utf-8")
    assert all(text.count(word) == 1 for word in words)


def test_a_tokenizer_without_chat_template_is_refused_for_chat(hospital: Benchmark, again: Run) -> None:
    (again.model / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        evaluate_one(again, hospital, how(metrics=["ranked_first"], template="chat"), quiet=True)


def test_ranks_are_resumed(hospital: Benchmark, again: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.generation import fact_ranking

    asked = how(metrics=["ranked_first", "note_rank"], rank_in="both", alternatives=19, batch_size=1)
    scoring: Callable[..., Any] = fact_ranking.score_answers
    calls: list[int] = []

    def interrupted(model: Any, sequences: Any, **more: Any) -> Any:
        calls.append(len(sequences))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return scoring(model, sequences, **more)

    monkeypatch.setattr(fact_ranking, "score_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate_one(again, hospital, asked, quiet=True)
    first, calls[:] = calls[:2], [0, 0, 0]
    one = evaluate_one(again, hospital, asked, quiet=True)
    monkeypatch.undo()
    shutil.rmtree(again.folder / "responses")
    shutil.rmtree(again.folder / "evaluations")
    whole = evaluate_one(again, hospital, asked, quiet=True)
    pd.testing.assert_frame_equal(one.facts, whole.facts)
    assert first
