"""MUSE's ROUGE-L by hand and against rouge-score without stemming."""

from __future__ import annotations

import pytest
from rouge_score.rouge_scorer import RougeScorer

from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.papers.muse.measures import muse_rouge_l


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The mayors opened bridges", "the mayor opened a bridge"),
        ("A café, 2nd of May", "a cafe; 2nd May"),
        ("", "a bridge"),
        ("same words here", "same words here"),
    ],
)
def test_equals_rouge_score_without_stemming(response: str, reference: str) -> None:
    expected = RougeScorer(["rougeL"], use_stemmer=False).score(reference, response)["rougeL"].fmeasure
    assert muse_rouge_l(response, reference, cut=False) == pytest.approx(expected, abs=1e-12)


def test_words_are_not_stemmed() -> None:
    # Shared in order: "the", "opened"; of four words and five. Stemmed, "mayor" and "bridge" would be shared too.
    assert muse_rouge_l("The mayors opened bridges", "the mayor opened a bridge", cut=False) == pytest.approx(4 / 9)
    assert muse_rouge_l("x", " . ", cut=False) == 0.0


@pytest.mark.parametrize("end", ["\n\nQuestion: Who?\nAnswer: me", "\nQuestion 2", " Question: Who?", "\n\nmore"])
def test_knowmem_ends_where_the_next_question_begins(end: str) -> None:
    item = Item("q", "forget", "?", "A bridge", response=f"a bridge{end}")
    metrics = (get_metric(f"rouge_l_f.{name}") for name in ("knowmem", "verbmem"))
    knowmem, verbmem = (metric.score([item], Tools())[0].value for metric in metrics)
    assert knowmem == 1.0
    assert verbmem is not None
    assert verbmem < 1.0
