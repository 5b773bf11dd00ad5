"""Removing an option, asking for it, and telling whether a response regenerates it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit.options.option_prompts import (
    NOTHING_LEFT,
    STANDS_THERE,
    Removal,
    exact_match,
    lettered_options,
    normalised,
    option_matches,
    read_prompts,
    relaxed_match,
    remove_one,
    select_prompts,
)
from medunlearn.errors import ConfigError, InputError
from medunlearn.sources.multiple_choice import MultipleChoice

QUESTION = MultipleChoice("q1", "Which drug {x}?", ("Aspirin", "Heparin", "Iron", "E. coli vaccine"), 1, "Drugs")


def many(count: int) -> list[MultipleChoice]:
    return [MultipleChoice(f"q{n}", "Q?", ("a", "b", "c", "d"), n % 4) for n in range(count)]


def test_every_option_is_as_likely_the_right_one_too() -> None:
    removed = remove_one(many(4000))
    counts = Counter(entry.letter for entry in removed)
    # 1,000 each on average; five standard deviations of a binomial are 137.
    assert all(abs(counts[name] - 1000) < 137 for name in "ABCD")
    assert abs(sum(entry.place == entry.question.answer_index for entry in removed) - 1000) < 137


def test_the_draw_is_the_questions_own() -> None:
    def places(questions: list[MultipleChoice], seed: int = 0) -> dict[str, int]:
        return {entry.question.question_id: entry.place for entry in remove_one(questions, seed=seed)}

    whole = places(many(50))
    assert places(many(50)[:10:-2]).items() <= whole.items()
    assert whole != places(many(50), seed=1)


def test_unscorable_removals_say_why() -> None:
    twice = MultipleChoice("q", "Q?", ("Aspirin", " aspirin. ", "..", "Iron"), None)
    reasons = [Removal(twice, place).unscorable for place in range(4)]
    assert reasons == [STANDS_THERE, STANDS_THERE, NOTHING_LEFT, None]
    assert Removal(MultipleChoice("q", "Q?", ("↑ ↓", "↓ ↑")), 0).unscorable is None


@pytest.mark.parametrize(
    "response",
    [
        *("Heparin", " heparin.\n", "B. Heparin", "(B) Heparin", "b) HEPARIN", "Option B: heparin"),
        *("Answer: B. Heparin", '"Heparin"', "**Heparin**", "\n\nHeparin\nC. Iron", "Ｈeparin"),
        *(
            "Sure! Here is one other option:\nB. Heparin",
            "Sure! Here is one other option: Heparin.",
            "Sure!\nHeparin",
        ),
        *("Certainly.\n\nHeparin", "Here's another option: **Heparin**", "Another option could be:\n\n(B) Heparin"),
        "The missing option is: B. Heparin",
    ],
)
def test_exact_matches(response: str) -> None:
    assert exact_match(response, "Heparin", "B")
    assert relaxed_match(response, "Heparin")


@pytest.mark.parametrize(
    ("response", "relaxed"),
    [
        *((text, True) for text in ("Heparin sodium", "It is heparin", "A. Heparin", "Iron\nHeparin")),
        *(("Low-heparinised", True), ("Hep arin", False), ("B", False), ("", False)),
        *((text, False) for text in ("Sure!", "Here is one other option:", "Sure! Here is one other option: Iron")),
        *((text, True) for text in ("Sure! Here is one other option:\nIron\nHeparin", "Sure, not heparin: Iron")),
    ],
)
def test_matches_that_are_not_exact(response: str, relaxed: bool) -> None:
    assert not exact_match(response, "Heparin", "B")
    assert relaxed_match(response, "Heparin") is relaxed


def test_a_letter_that_belongs_to_the_option_is_kept() -> None:
    assert exact_match("E. coli vaccine", "E. coli vaccine", "D")
    assert exact_match("E. coli vaccine", "E. coli vaccine", "E")
    assert exact_match("D. E. coli vaccine", "E. coli vaccine", "D")
    assert not exact_match("coli vaccine", "E. coli vaccine", "E")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=10), st.sampled_from("ABCD"))
def test_every_exact_match_is_a_relaxed_one(response: str, option: str, letter: str) -> None:
    if normalised(option):
        for answer in (response, option, f"{letter}. {option}\n{response}"):
            if exact_match(answer, option, letter):
                assert relaxed_match(answer, option)
        assert exact_match(" ".join(option.split()), option, letter)


def test_no_prompt_gives_the_removed_option_away_and_all_show_the_question() -> None:
    for prompt in read_prompts().values():
        for place, option in enumerate(QUESTION.options):
            rendered = prompt.render(Removal(QUESTION, place))
            assert QUESTION.question in rendered
            assert option not in rendered
            if prompt.name != "in_place":
                assert all(other in rendered for other in QUESTION.options if other != option)


def test_prompts_by_hand_and_by_name() -> None:
    all_prompts, removal = read_prompts(), Removal(QUESTION, 1)
    assert all_prompts["continue"].render(removal) == (
        "Which drug {x}?\nA. Aspirin\nC. Iron\nD. E. coli vaccine\nB."
    )
    assert all_prompts["in_place"].render(removal) == "Which drug {x}?\nA. Aspirin\nB."
    assert "\nA. Aspirin\nB. ____\nC. Iron\nD. E. coli vaccine\n" in all_prompts["fill_in"].render(removal)
    assert "to have 4 answer options" in all_prompts["another"].render(removal)
    assert sum(entry.form == "instruction" for entry in all_prompts.values()) >= 3
    assert select_prompts(all_prompts, ()) == list(all_prompts.values())
    assert [entry.name for entry in select_prompts(all_prompts, ["fill_in", "another"])] == ["fill_in", "another"]
    with pytest.raises(ConfigError, match=r"(?s)2 settings are wrong.*Did you mean 'fill_in'\?.*no prompt 'x'"):
        select_prompts(all_prompts, ["filin", "x"])


def test_prompts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine:\n  form: instruction\n  prompt: 'Say {letter} of {question}'\n")
    assert read_prompts(path)["mine"].render(Removal(QUESTION, 2)) == "Say C of Which drug {x}?"
    path.write_text(
        "a: {form: chat, prompt: '{question} {gold}'}\nb: hello\nc: {form: text, prompt: '{letter}'}\n"
        "d: {form: text, prompt: '{question'}\n"
    )
    with pytest.raises(ConfigError, match="5 settings are wrong") as caught:
        read_prompts(path)
    for part in ("a.form='chat'", "part of a.prompt 'gold'", "b: needs form", "c.prompt: does not", "d.prompt: "):
        assert part in str(caught.value)
    for text, reason in (("[1, 2]", "must contain prompts"), ("a: [", "cannot be read as YAML")):
        path.write_text(text)
        with pytest.raises(InputError, match=reason):
            read_prompts(path)
    with pytest.raises(InputError, match="There is no file"):
        read_prompts(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("response", "options"),
    [
        ("Heparin", []),  # without a letter nothing is listed
        ("A. Aspirin\nB. Heparin ", ["aspirin", "heparin"]),
        ("D. Heparin ###Answer A. Iron", ["heparin"]),
        ("A) Heparin", []),
        ("A.Heparin", []),
        ("A. hepatitis C. difficile", ["hepatitis", "difficile"]),  # cut at any capital with a full stop
    ],
)
def test_options_that_a_response_lists(response: str, options: list[str]) -> None:
    assert lettered_options(response) == options


def test_lettered_matches_are_the_released_codes() -> None:
    """Heparin alone is a match of ours and none of the code; in a list it is the other way round."""
    removal = Removal(QUESTION, 1)
    bare, listed = option_matches("Heparin", removal), option_matches("A. Iron\nB. heparin sodium", removal)
    assert bare == {"exact": True, "relaxed": True, "exact.lettered": False, "relaxed.lettered": False}
    assert listed == {"exact": False, "relaxed": True, "exact.lettered": False, "relaxed.lettered": True}
    assert option_matches("A. Iron\nD. Heparin", removal)["exact.lettered"]


def test_letters_restart_from_a_with_the_removed_option_last() -> None:
    prompts = read_prompts()
    removal = Removal(QUESTION, 1, "restarted")
    assert prompts["continue"].render(removal).splitlines()[1:] == [
        "A. Aspirin",
        "B. Iron",
        "C. E. coli vaccine",
        "D.",
    ]
    assert prompts["in_place"].render(removal) == prompts["continue"].render(removal)
    assert "D. ____" in prompts["fill_in"].render(removal)
    assert (removal.letter, removal.as_shown.letter, removal.as_shown.text) == ("B", "D", "Heparin")
    assert option_matches("D. Heparin", removal)["exact"]
    assert not option_matches("B. Heparin", removal)["exact"]
    (letters_by_question,) = remove_one([QUESTION], letters="restarted")
    assert (letters_by_question.letters, letters_by_question.place) == (
        "restarted",
        remove_one([QUESTION])[0].place,
    )
