"""The grammar's texts: lengths, names, what can be asked, and how varied they are."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from medunlearn.data.duplicates import DuplicateIndex, shingles
from medunlearn.seeds import generator
from medunlearn.synthetic.biographies import ask_person, invent_lives, tell_person
from medunlearn.synthetic.grammar import Teller, word_lists
from medunlearn.synthetic.people import Person, invent_people
from medunlearn.synthetic.places import cities, fantasy_towns
from medunlearn.synthetic.stories import GENRES, InventedText, Plot, character_names, invent_plots, tell

COUNT = 300
Stories = list[tuple[Plot, InventedText]]


@pytest.fixture(scope="module")
def stories() -> Stories:
    rng = generator("stories test")
    return [(plot, tell(plot, rng)) for plot in invent_plots(COUNT, rng)]


@pytest.fixture(scope="module")
def biographies() -> list[tuple[Person, str]]:
    rng = generator("biographies test")
    return [(person, tell_person(person, rng)) for person in invent_people(COUNT, rng)]


@pytest.fixture(scope="module")
def lives() -> list[InventedText]:
    return invent_lives(COUNT, generator("lives test"))


def words(text: str) -> int:
    return len(text.split())


def test_plots_follow_the_paper(stories: Stories) -> None:
    plots = [plot for plot, _ in stories]
    assert {plot.genre for plot in plots} == set(GENRES)
    assert Counter(len(plot.names) for plot in plots).keys() == {1, 2, 3, 4}
    names = [name for plot in plots for name in plot.names]
    assert len(set(names)) == len(names), "no character is in two stories"
    for plot in plots:
        assert plot.place in (fantasy_towns() if plot.genre == "Fantasy" else cities())


def test_a_story_has_its_length_place_and_names(stories: Stories) -> None:
    for plot, story in stories:
        assert 150 <= words(story.text) <= 200
        assert plot.place in story.text
        assert all(name in story.text for name in plot.names)


def test_questions_have_one_answer(stories: Stories, lives: list[InventedText]) -> None:
    for story in [*(story for _, story in stories), *lives]:
        assert len({question for question, _ in story.questions}) == len(story.questions) >= 4
        for question, answer in story.questions:
            assert re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", story.text)
            assert answer not in question
    for plot, story in stories:
        finds = next(answer for question, answer in story.questions if question.startswith("What did"))
        assert story.text.count(finds) == 1
        assert plot.names[0] in story.questions[0][0]


def test_nothing_is_left_open(
    stories: Stories, biographies: list[tuple[Person, str]], lives: list[InventedText]
) -> None:
    texts = (
        [story.text for _, story in stories] + [text for _, text in biographies] + [story.text for story in lives]
    )
    for text in texts:
        assert not re.search(r"[{}]|\ba (?!one)[aeio]|\ban [bcdfgjklmnpqrstvwxz]|\.\.|\s\.|  ", text), text
        assert all(part[:1].isupper() or part[:1].isdigit() for part in re.split(r"(?<=[.!?]) ", text))


def test_a_biography_holds_every_field_once(biographies: list[tuple[Person, str]]) -> None:
    for person, text in biographies:
        assert 60 <= words(text) <= 150
        for value in (person.name, person.birth_day, person.ssn, person.phone, person.email, person.address):
            assert text.count(value) == 1


def test_templated_questions_are_the_released_ones(biographies: list[tuple[Person, str]]) -> None:
    person = biographies[0][0]
    questions = ask_person(person)
    assert list(questions) == ["birth_date", "ssn", "phone", "email", "address"]
    assert questions["birth_date"] == (f"What is the birth date of {person.name}?", person.birth_date.isoformat())
    assert re.fullmatch(r"900\d{6}", questions["ssn"][1])
    assert re.fullmatch(r"\d{10}", questions["phone"][1])


def test_lives_have_the_length_of_the_papers(lives: list[InventedText]) -> None:
    assert all(100 <= words(story.text) <= 200 for story in lives)
    names = [story.text.partition("\n\n")[0] for story in lives]
    assert len(set(names)) == COUNT


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("stories", 0.30, 0.25), ("people", 0.40, 0.30), ("lives", 0.30, 0.30)]
)
def test_texts_are_varied(
    kind: str,
    least: float,
    most: float,
    stories: Stories,
    biographies: list[tuple[Person, str]],
    lives: list[InventedText],
) -> None:
    """Different word triples over all; and no two texts near what counts as a near-duplicate (0.5)."""
    texts = {
        "stories": [story.text for _, story in stories],
        "people": [text for _, text in biographies],
        "lives": [story.text for story in lives],
    }[kind]
    triples = Counter(triple for text in texts for triple in shingles(text))
    assert len(triples) / triples.total() > least
    index = DuplicateIndex(most)
    assert [duplicate for place, text in enumerate(texts) if (duplicate := index.add(str(place), text))] == []


def test_more_characters_than_single_names_have_a_family_name() -> None:
    assert not any(" " in name for name in character_names(10_000, generator("names")))
    names = character_names(30_000, generator("names"))
    assert len(set(names)) == 30_000
    assert {len(name.split()) for name in names} == {2}
    plots = invent_plots(12_000, generator("plots"))
    cast = [name for plot in plots for name in plot.names]
    assert len(set(cast)) == len(cast) > 20_000


def test_a_list_is_used_up_before_an_entry_comes_again() -> None:
    teller = Teller({"x": ("a", "b", "c")}, {}, generator("teller"))
    entries = [teller.draw("x") for _ in range(6)]
    assert sorted(entries[:3]) == sorted(entries[3:]) == ["a", "b", "c"]


def test_facts_hold_for_one_sentence() -> None:
    teller = Teller({"s": ("{who} saw {a thing}",)}, {"thing": "owl"}, generator("teller"))
    assert teller.sentence("s", who="she") == "She saw an owl"
    with pytest.raises(KeyError):
        teller.sentence("s")


def test_every_brace_of_every_list_is_known() -> None:
    """A slip of the pen in a list would otherwise come up once in a thousand texts."""
    slots = {"place", "lead", "role", "object", "site", "tool", "helper", "other"}
    lists = word_lists("lume/stories")
    for genre in GENRES:
        names = slots | set(lists["common"]) | set(lists["genres"][genre])
        lines = [
            line for part in (lists["common"], lists["genres"][genre]) for entry in part.values() for line in entry
        ]
        assert {name for line in lines for name in re.findall(r"\{(?:a )?(\w+)\}", line)} <= names
