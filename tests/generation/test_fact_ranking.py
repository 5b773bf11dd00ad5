"""Ranks of facts: those that separate passes give, asked once, and none of a model that gives no numbers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from real_tokenizers import CLOCK, GEMMA, LLAMA2, QWEN3, byte_level, prepending
from tokenizers import Tokenizer

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.fact_ranks import NOT_A_NUMBER, VOCABULARY, FactRank, facts_with_alternatives, record_facts
from medunlearn.data.facts import facts_in, facts_of
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.generation import fact_ranking as module
from medunlearn.generation.fact_ranking import FactRanker, RankSequences
from medunlearn.generation.value_branches import _part, answer_sequences, record_branches
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, question_sequence, record_sequences
from medunlearn.models.tiny import build_tiny

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
CONTEXTS = [Rendering("plain", "closed_book"), Rendering("plain", "note"), Rendering("chat", "closed_book")]
CHAT = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}</{{ message.role }}>{% endfor %}<bot>"
)


def ranks_of(
    model: Any, questions: list[Question], store: ResponseStore, rendering: Rendering
) -> dict[str, list[FactRank]]:
    """Ranks of the facts in these questions' answers."""
    facts = {question.question_id: facts_with_alternatives(question, RECORDS, POOL) for question in questions}
    return ranker(model, RECORDS, store, rendering).of_questions(questions, facts)


def ranker(
    model: Any, records: dict[str, Record], store: ResponseStore, rendering: Rendering, length: int | None = None
) -> FactRanker:
    return FactRanker(model, RankSequences(model.tokenizer, records, rendering, length), store)


def of_letters(model: Any) -> Any:
    """The model with a tokenizer that writes each letter as a token, so that no text was made for it."""
    model.tokenizer = copy.deepcopy(model.tokenizer)
    content = json.loads(model.tokenizer.backend_tokenizer.to_str())
    content["model"]["merges"] = []
    model.tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    return model


def with_chat_template(model: Any) -> Any:
    model.tokenizer = copy.deepcopy(model.tokenizer)
    model.tokenizer.chat_template = CHAT
    return model


@pytest.mark.parametrize("rendering", CONTEXTS, ids=lambda rendering: f"{rendering.template}-{rendering.context}")
def test_ranks_are_those_of_separate_sequences(
    exact_tiny: Callable[[], Any], tmp_path: Path, rendering: Rendering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER", 1000)  # so that whole answers count, as in separate passes
    model = with_chat_template(exact_tiny())
    ranks = ranks_of(model, QUESTIONS, ResponseStore(tmp_path, {}), rendering)
    for question in QUESTIONS:
        facts = facts_of(question)
        assert len(ranks[question.question_id]) == len(facts)
        for fact, rank in zip(facts, ranks[question.question_id], strict=True):
            others = POOL.of(question, fact)
            if fact.kind == "statement":
                assert (rank.rank, rank.reason) == (None, others.reason)
                continue
            compared = RankSequences(model.tokenizer, RECORDS, rendering).comparable(question.answer, fact, others)
            alone = [
                score_answers(
                    model,
                    [
                        question_sequence(
                            replace(question, answer=text), RECORDS[question.record_id], model.tokenizer, rendering
                        )
                    ],
                )[0]
                for text in (question.answer, *compared.texts)
            ]
            true, *rest = (sum(score.log_probs) for score in alone)
            assert len({len(score.log_probs) for score in alone}) == 1
            assert (rank.rank, rank.of) == (1 + sum(other > true for other in rest), 13)


def test_a_branch_ends_soon_after_the_fact(tiny: Callable[[], Any]) -> None:
    question = QUESTIONS[1]
    texts = [question.answer, question.answer.replace("12.5", "13.5"), question.answer.replace("12.5", "8.5")]
    model = tiny()
    how = (question, texts, RECORDS["r1"], model.tokenizer, CONTEXTS[0])
    whole, cut = (answer_sequences(*how, after=after) for after in (1000, 2))
    for long, short in zip(whole, cut, strict=True):
        assert long.ids[: len(short.ids)] == short.ids
        assert long.scored_from == short.scored_from == long.shared
        assert short.scored < long.scored
    # What is left out is the same for all.
    assert len({long.ids[len(short.ids) :] for long, short in zip(whole, cut, strict=True)}) == 1


@pytest.mark.parametrize("template", ["plain", "chat"])
@pytest.mark.parametrize(
    ("kind", "chat"), [(prepending, LLAMA2), (byte_level, GEMMA), (byte_level, QWEN3), (byte_level, CLOCK)]
)
def test_branches_are_the_tokens_of_each_answer_as_a_whole(
    kind: Callable[..., Any], chat: str, template: Any
) -> None:
    """Also where a tokenizer joins the prompt's end with the answer, and a template ends a turn in its own way."""
    question = QUESTIONS[1]
    answers = [question.answer, *(question.answer.replace("12.5", value) for value in ("13.5", "8.5", "113.25"))]
    tokenizer = kind([RECORDS["r1"].text, question.question, *answers], chat=chat)
    for context in ("closed_book", "note"):
        how = (RECORDS["r1"], tokenizer, Rendering(template, context))
        whole = [question_sequence(replace(question, answer=answer), *how) for answer in answers]
        branches = answer_sequences(question, answers, *how, after=1000)
        assert [branch.ids for branch in branches] == [sequence.ids for sequence in whole]


@pytest.mark.parametrize(
    ("ends", "first", "expected"),
    [
        ([[1, 2, 8, 9], [1, 3, 8, 9]], 1, (1, 2)),
        ([[1, 2, 9], [1, 3, 9]], 2, (1, 1)),
        ([[1, 9], [2, 9]], 1, (0, 1)),
        ([[1, 9], [2, 9]], 2, (0, 0)),  # nothing predicts a text's first token, so the next one counts
        ([[1, 2, 3], [1, 2, 2, 3]], 1, (2, 0)),  # of the shorter one, 3 alone is left
    ],
)
def test_every_branch_has_a_token_that_counts(ends: list[list[int]], first: int, expected: tuple[int, int]) -> None:
    assert _part(ends, 0, first) == expected


def test_nothing_is_asked_twice(tiny: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    scoring = module.score_answers

    def counting(model: Any, sequences: Any, **how: Any) -> Any:
        counts.append(len(sequences))
        return scoring(model, sequences, **how)

    monkeypatch.setattr(module, "score_answers", counting)
    how = (ResponseStore(tmp_path, {}), CONTEXTS[0])
    model = tiny()
    some = ranks_of(model, QUESTIONS[:1], *how)
    every = ranks_of(model, QUESTIONS, *how)
    again = ranks_of(model, QUESTIONS, *how)
    # A value that is drawn again is not asked again.
    facts = {question.question_id: facts_with_alternatives(question, RECORDS, POOL) for question in QUESTIONS}
    sequences, answers = ranker(model, RECORDS, *how).sequences, {q.question_id: q.answer for q in QUESTIONS}
    texts = {
        key: sum(1 + len({*sequences.comparable(answers[key], f, own).texts}) for f, own in each if own.texts)
        for key, each in facts.items()
    }
    assert counts == [texts["q0"], sum(texts.values()) - texts["q0"]]
    assert counts < [2 * 13, 3 * 13]
    assert every == again
    assert every["q0"] == some["q0"]


def test_a_model_that_gives_no_number_has_no_rank(tiny: Callable[[], Any], tmp_path: Path) -> None:
    broken = tiny()
    with torch.no_grad():
        next(broken.model.parameters()).fill_(float("nan"))
    ranks = ranks_of(broken, QUESTIONS[:1], ResponseStore(tmp_path, {}), CONTEXTS[0])
    assert [(rank.rank, rank.reason) for rank in ranks["q0"]] == [(None, NOT_A_NUMBER)] * 2


NOTE = Record(
    "note",
    "Ana Silva, HX-445674, was admitted with chest pain on 2024-05-03. Sodium was 131.4 mmol/L on admission, "
    "potassium 4.7 mmol/L. Aspirin was given for 12 days, and she left on day 17 with a prescription.",
    {"patient": "p9"},
    (Identifier("name", "Ana Silva"), Identifier("record_number", "HX-445674")),
)
OTHERS = [
    Record(
        f"o{n}",
        f"{name}, HX-{n:06d}.",
        {"patient": f"o{n}"},
        (Identifier("name", name), Identifier("record_number", f"HX-{n:06d}")),
    )
    for n, name in enumerate(["Bo Larsen", "Cy Moreau", "Di Okafor", "Ed Novak", "Fay Quist"])
]
IN_NOTE = AlternativePool([NOTE, *OTHERS], [], "patient", count=12)


@pytest.mark.parametrize("length", [None, 512, 48])
def test_ranks_in_a_record_are_those_of_its_text_with_other_values(
    exact_tiny: Callable[[], Any], tmp_path: Path, length: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER", 3)
    model = of_letters(exact_tiny())
    facts = record_facts(NOTE, facts_in(NOTE), IN_NOTE, None)
    found_by = ranker(model, {"note": NOTE}, ResponseStore(tmp_path, {}), CONTEXTS[0], length)
    ranks = found_by.in_records({"note": facts})["note"]
    assert [rank.kind for rank in ranks] == ["name", "identifier", "date", *["number"] * 4]
    for (fact, drawn), rank in zip(facts, ranks, strict=True):
        alternatives = found_by.sequences.comparable(NOTE.text, fact, drawn)
        values = [
            fact.of(NOTE.text),
            *(text[fact.start : len(text) - len(NOTE.text) + fact.end] for text in alternatives.texts),
        ]
        true, *rest = _likelihoods(model, fact, values, length)
        assert (rank.rank, rank.of) == (
            1 + sum(other >= true for other in rest),
            1 + len(rest) + alternatives.equal,
        )
        assert rank.of <= 13


def _likelihoods(model: Any, fact: Any, values: list[str], length: int | None) -> list[float]:
    """Log-likelihood of the note with each value, up to three tokens behind the last in which they differ."""
    texts = [fact.replaced(NOTE.text, value) for value in values]
    whole = [model.tokenizer(text)["input_ids"] for text in texts]
    alike = next(n for n in range(1, 500) if len({tuple(ids[-n:]) for ids in whole}) > 1) - 1
    first = next(n for n in range(500) if len({tuple(ids[: n + 1]) for ids in whole}) > 1)
    sums = []
    for ids in whole:
        end = len(ids) - alike + 3
        start = 0
        if length is not None:
            longest = max(len(other) - alike + 3 for other in whole)
            start = max(0, (first - 1) // (length - 1) * (length - 1), longest - length)
        piece = torch.tensor([ids[start:end]])
        with torch.no_grad():
            log_probs = model.model(input_ids=piece).logits.log_softmax(-1)[0]
        places = range(max(first, 1), end)  # nothing predicts the first
        sums.append(sum(float(log_probs[place - start - 1, ids[place]]) for place in places))
    return sums


def test_a_branch_of_a_record_begins_as_the_record_does(tiny: Callable[[], Any]) -> None:
    model = tiny()
    (fact, alternatives) = record_facts(NOTE, facts_in(NOTE), IN_NOTE, None)[4]
    values = ["4.7", *(text[fact.start : len(text) - len(NOTE.text) + fact.end] for text in alternatives.texts)]
    (whole,) = record_sequences(NOTE, model.tokenizer, None)
    branches = record_branches(NOTE, values, (fact.start, fact.end), model.tokenizer, None, after=2)
    assert whole.ids[: len(branches[0].ids)] == branches[0].ids
    assert len({branch.ids[: branch.shared] for branch in branches}) == 1
    assert all(branch.scored >= 1 for branch in branches)


def test_whole_notes_are_ranked_among_versions_of_themselves(exact_tiny: Callable[[], Any], tmp_path: Path) -> None:
    model = of_letters(exact_tiny())
    (note, versions), *_ = record_facts(NOTE, facts_in(NOTE), IN_NOTE, 0, notes=19)
    assert note.kind == "note"
    assert len(versions.texts) == 12  # as many as its facts have alternatives
    for text in versions.texts:
        assert "was admitted with chest pain on" in text
        assert not any(value in text for value in ("Ana Silva", "445674", "2024-05-03", "131.4"))
        assert sum(value in text for value in (" 4.7 ", "12 days", "day 17")) < 3
    # The rest are no more often the note's own than they were drawn so.
    assert sum("12 days" in text for text in versions.texts) <= 0.2 * 12
    found_by = ranker(model, {"note": NOTE}, ResponseStore(tmp_path, {}), CONTEXTS[0])
    (rank,) = found_by.in_records({"note": [(note, versions)]})["note"]
    alone = [
        sum(score_answers(model, record_sequences(replace(NOTE, text=text), model.tokenizer, None))[0].log_probs)
        for text in (NOTE.text, *versions.texts)
    ]
    assert (rank.kind, rank.rank, rank.of) == ("note", 1 + sum(other >= alone[0] for other in alone[1:]), 13)


def test_a_value_that_stands_twice_is_replaced_alike_and_a_name_in_an_address_too() -> None:
    text = "Ana Silva (ana.silva@example.net) had 31 mg; ana.silva@example.net was told of 31 mg by Ana Silva."
    identifiers = (Identifier("name", "Ana Silva"), Identifier("email", "ana.silva@example.net"))
    others = [
        Record(
            f"m{n}", other.text, other.groups, (other.identifiers[0], Identifier("email", f"x.y{n}@example.net"))
        )
        for n, other in enumerate(OTHERS)
    ]
    record = Record("twice", text, {"patient": "p9"}, identifiers)
    pool = AlternativePool([record, *others], [], "patient", count=12)
    versions = record_facts(record, facts_in(record), pool, 0, notes=12)[0][1].texts
    assert versions
    for version in versions:
        name = " ".join(version.split()[:2])
        assert name != "Ana Silva"
        assert version.count(name) == 2
        first, second = re.findall(r"([\d.]+) mg", version)
        assert first == second
    # The true value only as often as it was drawn.
    assert sum("31 mg" in version for version in versions) <= 0.2 * len(versions)


def test_a_note_without_facts_has_no_versions() -> None:
    bare = Record("bare", "She is well.", {"patient": "p9"})
    ((_, versions),) = record_facts(bare, facts_in(bare), IN_NOTE, None, notes=19)
    assert versions.reason == "none of its facts can be replaced"


def people(count: int) -> list[Record]:
    """People with codes that a tokenizer can be made for."""
    rng = np.random.default_rng(0)
    codes = [f"{rng.integers(200, 999)}-{rng.integers(100, 999)}-{rng.integers(1000, 9999)}" for _ in range(count)]
    return [
        Record(
            f"r{n}",
            f"Her code is {code}. Call {code}, and give {code} again.",
            {"patient": f"p{n}"},
            (Identifier("code", code),),
        )
        for n, code in enumerate(codes)
    ]


def first_share(records: list[Record], folder: Path, *, fitted: list[str]) -> tuple[float, int, list[str | None]]:
    """Share of facts that a model with random weights ranks first, their number, and reasons of the others."""
    model = build_tiny(fitted, vocabulary=4096, width=32, layers=1)
    pool = AlternativePool(records, [], "patient", 59)
    facts = {record.record_id: record_facts(record, facts_in(record), pool, None) for record in records}
    by_id = {record.record_id: record for record in records}
    found = ranker(model, by_id, ResponseStore(folder, {}), CONTEXTS[0]).in_records(facts)
    ranks = [rank for own in found.values() for rank in own]
    ranked = [rank for rank in ranks if rank.rank is not None]
    first = sum(rank.rank == 1 for rank in ranked) / max(1, len(ranked))
    return first, len(ranked), [rank.reason for rank in ranks if rank.rank is None]


def test_random_weights_know_nothing_whatever_the_tokenizer_was_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = people(60)
    texts = [record.text for record in records]
    first, ranked, reasons = first_share(records, tmp_path / "made", fitted=texts)
    assert ranked + len(reasons) == 60
    # Nearly all are written in fewer tokens than others, and said to be.
    assert reasons.count(VOCABULARY) > 30
    assert first * ranked <= 3
    other = [record.text for record in people(200)[100:]]
    first, ranked, _ = first_share(records, tmp_path / "other", fitted=other)
    assert ranked > 50
    assert first < 0.1
    # Among values of any length, random weights would know most of them.
    monkeypatch.setattr(module, "ANY_LENGTH", (*module.ANY_LENGTH, "identifier"))
    assert first_share(records, tmp_path / "any", fitted=texts)[0] > 0.5


def test_a_whole_note_that_the_tokenizer_was_made_for_is_not_ranked(tmp_path: Path) -> None:
    records = people(30)
    pool = AlternativePool(records, [], "patient", 59)
    (facts,) = [record_facts(records[0], facts_in(records[0]), pool, 0, notes=19)]
    made = build_tiny([record.text for record in records], vocabulary=4096, width=32, layers=1)
    found = ranker(made, {"r0": records[0]}, ResponseStore(tmp_path, {}), CONTEXTS[0]).in_records({"r0": facts})
    assert [(rank.kind, rank.rank, rank.reason) for rank in found["r0"]] == [("note", None, VOCABULARY)]
