"""The rules against questions that others wrote: LUME's released ones, and MedQA's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medunlearn.judging.writing import Source, task_class
from medunlearn.judging.writing import answer_rules as rules
from medunlearn.papers.lume.released import read_lume

DATA = Path(__file__).parents[3].parent / "shared" / "data"


@pytest.mark.skipif(not (DATA / "lume").exists(), reason="the real LUME files (../shared/data/lume) are not here")
def test_lumes_own_questions_mostly_obey_the_rules() -> None:
    """The others have answers longer than a phrase, or in other words than the text's."""
    task = task_class("lume_question")()
    obeys: dict[str, list[bool]] = {"story": [], "public_biography": []}
    for document in read_lume(DATA / "lume", skip_bad_rows=True).documents:
        for row in document.rows:
            if row.form != "qa":
                continue
            if document.task == "personal_biography":
                assert rules.asks_identity(row.input)
                continue
            # Which proper nouns its writer had in mind is not known; its first words name none, or all do.
            value = {"proper_nouns": row.input.rstrip("?").split(), "outcome": "question"}
            value |= {"question": row.input, "answer": row.output}
            problem = task.wrong(Source("s", {"document": f"{document.text} {row.input}"}, ()), value)
            obeys[document.task].append(problem == "")
    shares = {name: sum(right) / len(right) for name, right in obeys.items()}
    assert len(obeys["public_biography"]) > 700
    assert shares["public_biography"] > 0.95
    assert shares["story"] > 0.7


@pytest.mark.skipif(not (DATA / "medqa").exists(), reason="MedQA (../shared/data/medqa) is not here")
def test_questions_on_findings_ask_for_no_identity() -> None:
    lines = (DATA / "medqa" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"].rpartition(". ")[2] for line in lines]
    assert len(questions) > 100
    assert not [question for question in questions if rules.asks_identity(question)]
