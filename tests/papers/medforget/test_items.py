"""Gaps and choices: what the rules refuse, and that what is made passes them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from choices import one_is_right
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.data.answer_texts import BLANK, stands_in
from medunlearn.papers.medforget import items
from medunlearn.papers.medforget.items import SentencePool, choice, gap, says, sentences, wrong_cloze
from medunlearn.papers.medforget.selection import askable
from medunlearn.papers.paper_files import paper_yaml

TEXT = "The heart is enlarged. There is a left pleural effusion 23 mm deep."


@pytest.mark.parametrize(
    ("statement", "answer", "wrong"),
    [
        (f"There is a {BLANK} pleural effusion.", "left", ""),
        (f"There is a {BLANK} pleural effusion.", "Left", ""),
        (f"There is {BLANK}.", "a left pleural effusion 23 mm", "1 to 5 words"),
        (f"{BLANK} and {BLANK}", "left", "exactly one"),
        ("There is a left effusion.", "left", "exactly one"),
        (f"There is a {BLANK} pleural effusion.", "right", "not in the section"),
        (f"The left {BLANK} pleural effusion.", "left", "gives its own answer away"),
        (f"There is a {BLANK} effusion.", "", "1 to 5 words"),
    ],
)
def test_rules_of_a_gap(statement: str, answer: str, wrong: str) -> None:
    message = wrong_cloze(statement, answer, TEXT)
    assert (wrong in message) if wrong else not message


def test_a_gap_is_where_a_sentence_tells_most() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert gap(TEXT, rng).answer == "23 mm"
        assert gap("The heart is of usual size. Left effusion.", rng).answer in ("Left", "effusion")
        assert gap("Dyspnea", rng).statement == BLANK
        # A word that comes twice in its sentence cannot be the gap.
        assert gap("Left lung and left heart.", rng).answer in ("lung", "heart")
        # A gap that is the whole statement is the last choice.
        assert gap("Effusion. The lungs are clear.", rng).answer in ("lungs", "clear")


def test_wrong_lines_of_no_report_are_of_chest_films() -> None:
    """A toothache on a chest film gives itself away."""
    spare = paper_yaml("medforget", "wording")["spare"]
    assert all(len(lines) >= 4 for lines in spare.values())
    elsewhere = ("knee", "wrist", "tooth", "sinus", "gallbladder", "abdomen", "mammo", "thyroid", "ultrasound")
    lines = " ".join(line for of_section in spare.values() for line in of_section).lower()
    assert not [word for word in elsewhere if word in lines]


def test_a_text_in_which_every_word_comes_twice_is_not_asked_about() -> None:
    assert not askable("Left left.")
    with pytest.raises(ValueError, match="can be left out"):
        gap("Left left.", np.random.default_rng(0))


def test_removed_words_are_never_asked_for() -> None:
    for seed in range(20):
        item = gap("___ year old with ___ and fever, seen ___ at ___ p.m.", np.random.default_rng(seed))
        assert item.answer == "fever"
    assert not askable("___, ___.")
    assert not askable("___ 12")
    # Words of grammar alone say nothing, and no other sentence lacks them.
    assert not askable("The.")
    assert askable("None.")


def test_wrong_options_come_from_the_closest_relatives() -> None:
    near = ["Right effusion 5 mm deep.", "The lungs are clear now."]
    far = ["A pacemaker is on the left.", "Ribs are intact everywhere."]
    item = choice("findings", TEXT, [SentencePool(near), SentencePool(far)], 3, np.random.default_rng(0))
    assert item.writer == "template"
    assert {*item.options} - {*sentences(TEXT)} == {"Right effusion 5 mm deep.", "The lungs are clear now."}
    # A line on the same anatomy comes first, whoever's it is.
    others = [SentencePool(far), SentencePool(["Right effusion 5 mm deep."])]
    for seed in range(5):
        text = "There is a left pleural effusion 23 mm deep."
        two = choice("findings", text, others, 2, np.random.default_rng(seed))
        assert "Right effusion 5 mm deep." in two.options
    more = choice("findings", TEXT, [SentencePool(near), SentencePool(far)], 5, np.random.default_rng(0))
    assert {*more.options} >= {"A pacemaker is on the left.", "Ribs are intact everywhere."}


def test_spare_lines_fill_in_where_there_are_no_relatives_and_it_is_said() -> None:
    for section in ("examination", "findings", "notification"):
        item = choice(section, TEXT, [SentencePool([TEXT]), SentencePool([])], 4, np.random.default_rng(1))
        assert (item.writer, len(item.options)) == ("template-spare", 4)
        assert one_is_right(item.options, item.answer_index, TEXT)


def test_the_sentences_of_many_reports_are_split_once_for_all_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"The left effusion is {number} mm deep. Node {number} is clear." for number in range(60)]
    split = list[str]()
    monkeypatch.setattr(items, "sentences", lambda text: (split.append(text), sentences(text))[1])
    pool = SentencePool(texts)
    for seed in range(30):
        choice("findings", TEXT, [pool], 4, np.random.default_rng(seed))
    assert sorted(text for text in split if text != TEXT and len(text) > 40) == sorted(texts)


@pytest.mark.parametrize("longest", [0, 10_000])
def test_a_long_pool_is_drawn_from_evenly_and_without_repeats(
    longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "_LONG_POOL", longest)
    rng = np.random.default_rng(5)
    draws = [list(items._drawn_places(4, rng)) for _ in range(4800)]
    assert all(sorted(draw) == [0, 1, 2, 3] for draw in draws)
    counts = Counter(map(tuple, draws))
    assert len(counts) == 24
    # 200 of each order are expected, with a standard deviation of 14.
    assert max(abs(count - 200) for count in counts.values()) < 60


def test_numbers_of_a_list_are_no_sentences() -> None:
    assert sentences("1. Effusion. 2. Nodule of 3.5 mm.\n- Clear") == ("Effusion.", "Nodule of 3.5 mm.", "Clear")


VOCABULARY = (
    "left",
    "right",
    "effusion",
    "lung",
    "clear",
    "no",
    "heart",
    "12",
    "mm",
    "___",
    "acute",
    "of",
    "x-ray",
)
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9).map(" ".join)
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda parts: ". ".join(part.capitalize() for part in parts) + "."
)


@settings(max_examples=60, deadline=None)
@given(TEXTS.filter(askable), st.lists(TEXTS, max_size=5), st.integers(2, 5), st.integers(0, 9))
def test_whatever_the_reports_one_option_is_right_and_gaps_can_be_filled(
    text: str, others: list[str], count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    options = choice("findings", text, [SentencePool(others), SentencePool([text])], count, rng)
    assert one_is_right(options.options, options.answer_index, text)
    assert len(options.options) == count
    cloze = gap(text, rng)
    assert not wrong_cloze(cloze.statement, cloze.answer, text)
    assert stands_in(cloze.statement.replace(BLANK, cloze.answer), text)


def test_an_option_that_says_less_than_the_text_is_said_by_it() -> None:
    assert says(TEXT, "Effusion, left, 23 mm.")
    assert not says(TEXT, "Effusion, right, 23 mm.")
