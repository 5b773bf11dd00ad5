"""The whole of Algorithm 1 on notes whose keywords and scores were worked out by hand (notes.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from medunlearn.data.records import Question, Record
from medunlearn.metrics import Item, Keywords, Tools, get_metric
from medunlearn.metrics.leakage.extractors import Offline
from medunlearn.metrics.leakage.keywords import of_records

NOTES = yaml.safe_load((Path(__file__).parent / "notes.yaml").read_text(encoding="utf-8"))


def test_there_are_twenty() -> None:
    assert len(NOTES) >= 20
    assert len({case["name"] for case in NOTES}) == len(NOTES)


@pytest.mark.parametrize("case", NOTES, ids=[case["name"] for case in NOTES])
def test_keywords_and_score_of_a_note(case: dict[str, Any]) -> None:
    record = Record("r", case["note"], {"disease": case["disease"], "patient": "p"})
    question = Question("q", "r", "train", "factual", "patient", case["question"], case["answer"])
    keyword_list = of_records([(record, [question])], Offline()).get("q", ())
    assert {keyword.phrase: keyword.weight for keyword in keyword_list} == case["keywords"]
    keywords = Keywords(tuple((keyword.phrase, keyword.weight) for keyword in keyword_list))
    item = Item("q", "forget", question.question, question.answer, response=case["response"], keywords=keywords)
    (score,) = get_metric("ls").score([item], Tools())
    if case["score"] is None:
        assert score.value is None
        assert score.reason
    else:
        came_up, everything = case["score"]
        assert score.value == pytest.approx(came_up / everything, abs=1e-12)
