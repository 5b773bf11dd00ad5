"""Whose strings a vocabulary holds, against a search through every token and every text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.models.tiny import build_tiny, common_words
from medunlearn.models.vocabulary import LEAST, Vocabulary, by_subject, vocabulary_owners
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings


@pytest.fixture(scope="module")
def hospital() -> Benchmark:
    return build(AmnesiaSettings(synthetic=12))


def wards(*texts: str, questions: tuple[Question, ...] = ()) -> Benchmark:
    """A patient a text, p0, p1, ..., whose first word is an identifier."""
    records = tuple(
        Record(f"r{n}", text, {"patient": f"p{n}"}, (Identifier("name", text.split()[0]),))
        for n, text in enumerate(texts)
    )
    return Benchmark("wards", "amnesia", ("patient",), "patient", records, questions, {})


def tokens(*words: str, **parts: Any) -> Tokenizer:
    """A tokenizer that has these tokens."""
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=words[0]))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def test_every_token_against_every_text(hospital: Benchmark) -> None:
    texts = {
        record.groups["patient"]: [record.text, *(i.value for i in record.identifiers)]
        for record in hospital.records
    }
    for question in hospital.questions:
        texts[hospital.subject(question.record_id)] += [question.question, question.answer, *question.options]
    live = build_tiny([record.text for record in hospital.records], vocabulary=2000, width=16, layers=1, heads=2)
    strings = {live.tokenizer.decode([token]).strip() for token in range(3, len(live.tokenizer))}
    strings = {text for text in strings if len(re.findall(r"[^\W_]", text)) >= LEAST and "\ufffd" not in text}
    holders = {
        text: {name for name, owned in texts.items() if any(text in owned_text for owned_text in owned)}
        for text in strings
    }
    forgotten = sorted(texts)[:3]
    owners = vocabulary_owners(Vocabulary.of(live.tokenizer.backend_tokenizer), hospital, forgotten)
    assert owners.strings == len(strings) > 500
    assert {owned.text: set(owned.subjects) for owned in owners.private} == {
        text: names for text, names in holders.items() if len(names) == 1
    }
    alone = {text: names for text, names in holders.items() if names and names <= set(forgotten)}
    assert {owned.text: set(owned.subjects) for owned in owners.forgotten} == alone
    values = {i.value for record in hospital.records for i in record.identifiers}
    assert {owned.text for owned in owners.private if owned.identifier} == {
        text for text, names in holders.items() if len(names) == 1 and any(text in value for value in values)
    }
    assert any(owned.identifier for owned in owners.forgotten)
    assert by_subject(owners.private).keys() <= texts.keys()


def test_common_words_leave_no_string_to_one_patient(hospital: Benchmark) -> None:
    texts = {record.groups["patient"]: [record.text] for record in hospital.records}
    fitted = build_tiny(common_words(texts), vocabulary=2000, width=16, layers=1, heads=2)
    owners = vocabulary_owners(Vocabulary.of(fitted.tokenizer.backend_tokenizer), hospital, sorted(texts)[:1])
    assert owners.private == ()
    assert owners.forgotten == ()
    assert owners.strings > 50
    text = hospital.records[0].text
    assert fitted.tokenizer.decode(fitted.tokenizer(text)["input_ids"]) == text


def test_a_string_is_found_in_names_questions_and_parts_of_words() -> None:
    question = Question("q", "r1", "train", "factual", "patient", "Who fell?", "the Ambassador")
    benchmark = wards("Silvana fell by digestion", "Quade rose", questions=(question,))
    vocabulary = Vocabulary.of(tokens("none", "Silvana", "ilva", "mbass", "Quad", "fell", "ade", "silv", "estion"))
    owners = vocabulary_owners(vocabulary, benchmark)
    assert {owned.text: (owned.subjects, owned.identifier) for owned in owners.private} == {
        "Silvana": (("p0",), True),
        "ilva": (("p0",), True),
        "mbass": (("p1",), False),
        "Quad": (("p1",), True),
    }
    assert owners.strings == 8  # `ade` is too short
    assert owners.counts()["subjects_with_private_strings"] == 2


def test_spaces_pieces_and_lower_case_of_other_tokenizers() -> None:
    benchmark = wards("José Silva came", "Ana came")
    unigram = tokens("none", "\u2581Silva", "\u2581Silva\u2581came", "sé\u2581Si")
    assert {owned.text for owned in vocabulary_owners(Vocabulary.of(unigram), benchmark).private} == {
        "Silva",
        "Silva came",
        "sé Si",
    }
    bert = tokens("none", "jose", "##ilva", normalizer=normalizers.BertNormalizer(lowercase=True))
    assert {owned.text for owned in vocabulary_owners(Vocabulary.of(bert), benchmark).private} == {"jose", "ilva"}


def test_special_tokens_and_halves_of_characters_are_no_strings() -> None:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|patient|>"], show_progress=False)
    bpe.train_from_iterator(["Łódź Łódź"] * 3, trainer)
    assert Vocabulary.of(bpe).strings == {"Łódź"}


def test_the_words_published_hold_no_string_and_no_id(hospital: Benchmark) -> None:
    live = build_tiny([record.text for record in hospital.records], vocabulary=2000, width=16, layers=1, heads=2)
    forgotten = sorted({record.groups["patient"] for record in hospital.records})[:2]
    owners = vocabulary_owners(Vocabulary.of(live.tokenizer.backend_tokenizer), hospital, forgotten)
    lines_text = " ".join(owners.lines("patient"))
    assert f"**{len(owners.forgotten):,} strings" in lines_text
    assert "2 patients" in lines_text
    assert not [owned.text for owned in owners.private if owned.identifier and owned.text in lines_text]
    assert "patient-0" not in lines_text
