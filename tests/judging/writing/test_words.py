"""Words against words: numbers by value, forms of a word as one, phrases as whole words, sentences."""

from __future__ import annotations

import pytest
from nltk.stem.porter import PorterStemmer

from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.word_overlap import content, has_strange_number, holds, same, sentences, support
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.prompts import FACTUAL, REASONING
from medunlearn.papers.amnesia.settings import AmnesiaSettings


def test_content_is_stems_and_values() -> None:
    stem = PorterStemmer().stem
    assert content("The patient was treated with 1,200 mg and 3.0 tablets.") == {
        stem("treated"), "1200", "mg", "3", stem("tablets"),
    }  # fmt: skip
    assert content("three tablets") == content("3 tablets") == content("3.00 tablet")
    assert content("3,5 mmol") == content("3.5 mmol") != content("35 mmol")
    assert content("It was the same as his.") == frozenset()


def test_support_is_a_share() -> None:
    # severe, headache, fever: two of the three are there.
    assert support("Severe headaches and fever.", "A headache, with high fevers.") == pytest.approx(2 / 3)
    assert support("The patient was.", "anything") == 0.0


def test_numbers_that_the_note_does_not_have() -> None:
    note = "Sodium was 128 mmol/L for 3 days; 12000 cells."
    assert not any(has_strange_number(answer, note) for answer in ("Sodium 128", "three days", "12,000 cells"))
    assert all(has_strange_number(answer, note) for answer in ("Sodium 129", "ten days"))


def test_phrases_stand_as_whole_words() -> None:
    text = "Chest X-ray, PA and lateral."
    assert all(holds(text, phrase) for phrase in ("PA", "pa and\nLATERAL", "x-ray", "lateral!", "x–ray"))
    assert not any(holds(text, phrase) for phrase in ("later", "", "?"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0), ("No end", 1), ("One.", 1), ("One. Two.", 2), ("One. Two", 2),
        ("It was 3.5 mg. Dr. Lee vs. E. coli came.", 2),
        ("Fig. 3 shows it, e.g. The mass.", 1), ('He said "go." Then he went!', 2), ("Was it? It was. So.", 3),
        ("Sodium was 5 mmol/L. He had hepatitis B. Then he left.", 3),
    ],
)  # fmt: skip
def test_sentences(text: str, count: int) -> None:
    assert sentences(text) == count


def test_same_answers() -> None:
    assert same("The Sorrel Head.", "sorrel  head")
    assert not same("Sorrel Head", "Sorrel Head Light")


def test_a_patients_own_answers_pass_and_most_of_others_do_not() -> None:
    """On an invented hospital every right answer passes; the same answers on somebody else's note mostly do not."""
    benchmark = build(AmnesiaSettings(synthetic=60, note_length="medium", seed=7))
    texts = [record.text for record in benchmark.records]
    place = {record.record_id: number for number, record in enumerate(benchmark.records)}
    passed = {("factual", 0): 0, ("factual", 17): 0, ("reasoning", 0): 0, ("reasoning", 17): 0}
    for question in benchmark.questions:
        factual = question.kind == "factual"
        for shift in (0, 17):
            text = texts[(place[question.record_id] + shift) % len(texts)]
            least = FACTUAL if factual else REASONING
            passed[question.kind, shift] += not rules.answer(question.answer, text, least=least, numbers=factual)
    assert passed["factual", 0] == passed["reasoning", 0] == 240
    assert passed["factual", 17] < 0.05 * 240
    assert passed["reasoning", 17] < 0.3 * 240
