"""Ranks of facts: those that separate passes give, asked once, and none of a model that gives no numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.fact_ranks import NOT_A_NUMBER
from medunlearn.data.facts import facts_of
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.generation import fact_ranking as module
from medunlearn.generation.fact_ranking import rank_facts
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, answer_sequences, question_sequence

RECORDS = {
    f"r{n}": Record(
        f"r{n}", f"Ana Silva {n} was given aspirin.", {"patient": f"p{n}"}, (Identifier("name", f"Ana {n}"),)
    )
    for n in range(3)
}
QUESTIONS = [
    Question(f"q{n}", f"r{n % 3}", "train", "factual", "patient", f"Drug {n}?", answer)
    for n, answer in enumerate(
        ["Aspirin 75 mg for 5 days.", "Heparin 12.5 units, from day 3 on.", "None.", "40 mg of aspirin."]
    )
]
POOL = AlternativePool(list(RECORDS.values()), QUESTIONS, "patient", count=12)
CONTEXTS = [Rendering("plain", "closed_book"), Rendering("plain", "note")]


@pytest.mark.parametrize("rendering", CONTEXTS, ids=lambda rendering: rendering.context)
def test_ranks_are_those_of_separate_sequences(
    exact_tiny: Callable[[], Any], tmp_path: Path, rendering: Rendering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER", 1000)  # so that whole answers count, as in separate passes
    model = exact_tiny()
    ranks = rank_facts(model, QUESTIONS, RECORDS, POOL, ResponseStore(tmp_path, {}), rendering)
    for question in QUESTIONS:
        facts = facts_of(question)
        assert len(ranks[question.question_id]) == len(facts)
        for fact, rank in zip(facts, ranks[question.question_id], strict=True):
            others = POOL.of(question, fact)
            if fact.kind == "statement":
                assert (rank.rank, rank.reason) == (None, others.reason)
                continue
            alone = [
                score_answers(
                    model,
                    [
                        question_sequence(
                            replace(question, answer=text), RECORDS[question.record_id], model.tokenizer, rendering
                        )
                    ],
                )[0]
                for text in (question.answer, *others.texts)
            ]
            true, *rest = (sum(score.log_probs) for score in alone)
            assert (rank.rank, rank.of) == (1 + sum(other > true for other in rest), 13)


def test_a_branch_ends_soon_after_the_fact(tiny: Callable[[], Any]) -> None:
    question = QUESTIONS[1]
    texts = [question.answer, question.answer.replace("12.5", "13.5"), question.answer.replace("12.5", "8.5")]
    model = tiny()
    how = (question, texts, RECORDS["r1"], model.tokenizer, CONTEXTS[0])
    whole, cut = answer_sequences(*how), answer_sequences(*how, after=2)
    for long, short in zip(whole, cut, strict=True):
        assert long.ids[: len(short.ids)] == short.ids
        assert long.scored_from == short.scored_from == long.shared
        assert short.scored < long.scored
    # What is left out is the same for all.
    assert len({long.ids[len(short.ids) :] for long, short in zip(whole, cut, strict=True)}) == 1


def test_nothing_is_asked_twice(tiny: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    scoring = module.score_answers

    def counting(model: Any, sequences: Any, **how: Any) -> Any:
        asked.append(len(sequences))
        return scoring(model, sequences, **how)

    monkeypatch.setattr(module, "score_answers", counting)
    how = (RECORDS, POOL, ResponseStore(tmp_path, {}), CONTEXTS[0])
    model = tiny()
    some = rank_facts(model, QUESTIONS[:1], *how)
    every = rank_facts(model, QUESTIONS, *how)
    again = rank_facts(model, QUESTIONS, *how)
    assert asked == [2 * 13, 3 * 13, 0][: len(asked)]
    assert every == again
    assert every["q0"] == some["q0"]


def test_a_model_that_gives_no_number_has_no_rank(tiny: Callable[[], Any], tmp_path: Path) -> None:
    broken = tiny()
    with torch.no_grad():
        next(broken.model.parameters()).fill_(float("nan"))
    ranks = rank_facts(broken, QUESTIONS[:1], RECORDS, POOL, ResponseStore(tmp_path, {}), CONTEXTS[0])
    assert [(rank.rank, rank.reason) for rank in ranks["q0"]] == [(None, NOT_A_NUMBER)] * 2
