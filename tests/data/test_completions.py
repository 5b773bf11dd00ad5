"""Completion questions: where texts are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medunlearn.data.completions import completion, completion_questions, continuations
from medunlearn.data.records import Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.seeds import generator

TEXT = "First one here. Second one there. Third comes now. Fourth is last."


def test_the_cut_is_a_sentence_of_the_second_half() -> None:
    cuts = {completion(TEXT, generator("cut", seed)) for seed in range(40)}
    assert cuts == {
        ("First one here. Second one there.", "Third comes now. Fourth is last."),
        ("First one here. Second one there. Third comes now.", "Fourth is last."),
    }


def test_or_any_word() -> None:
    cuts = {completion(TEXT, generator("cut", seed), "word") for seed in range(200)}
    given_words = {len(cut[0].split()) for cut in cuts if cut}
    # Character 33 of 66 is the space after "there.": the seven words that begin after it.
    assert given_words == set(range(6, 12))


def test_without_a_sentence_in_the_second_half_a_word_will_do() -> None:
    assert completion("One. two three four", generator("cut")) is not None
    assert completion("single", generator("cut")) is None
    assert completion("", generator("cut")) is None


@given(st.text(alphabet="ab. C\n", max_size=80), st.integers(0, 50), st.sampled_from(["sentence", "word"]))
def test_the_parts_are_the_text(text: str, seed: int, at: str) -> None:
    cut = completion(text, generator("cut", seed), at)
    if cut is None:
        return
    assert all(part and part == part.strip() for part in (cut[0].lstrip(), cut[1]))
    assert "".join((cut[0] + cut[1]).split()) == "".join(text.split())
    place = len(text.rstrip()) - len(cut[1])
    assert place >= len(text.rstrip()) / 2
    assert text[place - 1].isspace()


def test_questions_follow_their_records() -> None:
    records = [
        Record(f"r{n}", f"{TEXT} Number {n}.", {"d": f"r{n}"}, fold="holdout" if n else "train") for n in range(9)
    ]
    questions = completion_questions([*records, Record("w", "word", {"d": "w"})], "d", seed=3)
    assert [question.record_id for question in questions] == [record.record_id for record in records]
    assert {question.kind for question in questions} == {"completion"}
    assert [question.fold for question in questions] == ["train"] + ["holdout"] * 8
    assert completion_questions(records[4:5], "d", seed=3) == questions[4:5], "other records change nothing"
    assert completion_questions(records, "d", seed=4) != questions
    assert all(len(sentence_starts(question.question)) >= 2 for question in questions)


WORDS = " ".join(f"w{place}" for place in range(40))


def test_cuts_behind_so_many_words() -> None:
    cuts = continuations(WORDS, ["25%", "10", "30", "36", "50%"], shortest=5, longest=100)
    assert [(cut.words, cut.whole) for cut in cuts] == [(10, True), (20, True), (30, True)], "25% of 40 words is 10"
    assert all(f"{cut.prompt} {cut.answer}" == WORDS for cut in cuts)
    assert continuations("a b c", ["1"], shortest=2, longest=9) == []
    assert continuations("", ["25%"], shortest=1, longest=9) == []


def test_a_long_text_is_shown_around_the_cut() -> None:
    (cut,) = continuations(WORDS, ["50%"], shortest=5, longest=8)
    assert (cut.prompt.split(), cut.answer.split()) == (
        [f"w{n}" for n in range(12, 20)],
        [f"w{n}" for n in range(20, 28)],
    )
    assert not cut.whole
    (cut,) = continuations(WORDS, ["8"], shortest=5, longest=8)
    assert not cut.whole, "the rest is cut"


def test_a_line_break_at_the_cut_is_a_part_of_the_rest() -> None:
    (cut,) = continuations("a b\nc d", ["50%"], shortest=1, longest=9)
    assert (cut.prompt, cut.answer) == ("a b", "\nc d")
