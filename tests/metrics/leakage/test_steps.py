"""Each step of Algorithm 1 alone."""

from __future__ import annotations

import pytest

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.metrics.leakage import extractor_class
from medunlearn.metrics.leakage.extractors import Offline, ends_phrase, regular_forms
from medunlearn.metrics.leakage.phrases import candidates, cleaned, in_a_row, words_of
from medunlearn.metrics.leakage.score import leakage
from medunlearn.metrics.leakage.selection import (
    Keyword,
    Seeds,
    jaccard,
    merged,
    scored,
    seeds_of,
    select,
    top,
    weight,
    without_redundant,
)


def offline(text: str) -> list[str]:
    return Offline().phrases([text])[0]


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("", []),
        ("the of was", []),
        ("lung cancer", ["lung cancer"]),
        ("Lung cancer. Lung cancer", ["lung cancer", "lung cancer"]),
        ("lung cancer and heart failure", ["lung cancer", "heart failure"]),
        (
            "left lung, liver; bone (marrow) and brain/spine",
            ["left lung", "liver", "bone", "marrow", "brain", "spine"],
        ),
        ("lung\ncancer", ["lung", "cancer"]),
        ("lung\t cancer", ["lung cancer"]),
        ("a non-small-cell lung cancer", ["non-small-cell lung cancer"]),
        ("- sepsis\n- fever", ["sepsis", "fever"]),
        ("3 stents, 50 mg aspirin, 2.5 cm mass", ["stents", "mg aspirin", "cm mass"]),
        ("He rapidly developed sepsis", ["sepsis"]),
        ("an early anomaly of the elderly", ["early anomaly", "elderly"]),
        ("Crohn's disease in the patient's family", ["crohn's disease", "family"]),
        ("biopsy confirmed carcinoma", ["biopsy", "carcinoma"]),
    ],
)
def test_phrases_by_word_lists(text: str, phrases: list[str]) -> None:
    assert offline(text) == phrases


def test_forms_of_verbs() -> None:
    assert regular_forms("deny") == ("deny", "denies", "denied", "denying")
    assert regular_forms("achieve") == ("achieve", "achieves", "achieved", "achieving")
    assert regular_forms("reach") == ("reach", "reaches", "reached", "reaching")
    assert regular_forms("die") == ("die", "dies", "died", "dying")
    assert regular_forms("obey")[1:3] == ("obeys", "obeyed")
    assert ends_phrase("receiving")
    assert not ends_phrase("screening")
    assert not ends_phrase("imaging")


def test_no_term_of_the_paper_is_cut_by_the_word_lists() -> None:
    from medunlearn.metrics.leakage.phrases import terms

    for disease in terms().diseases:
        for seed in terms().seeds(disease):
            assert offline(f"with {seed}.") == [seed]


@pytest.mark.parametrize(
    ("phrase", "kept"),
    [
        ("Lung Cancer", "lung cancer"),
        ("the lung-cancer", "lung cancer"),
        ("all of his", "of his"),
        ("his", None),
        ("patient", None),
        ("The patient", None),
        ("Past Medical History", None),
        ("patient history", "patient history"),
        ("pe", None),
        ("the pe", None),
        ("dvt", "dvt"),
        ("a b", None),
        ("one more two more three more", "one more two more three more"),
        ("one more two more three more four", None),
        ("", None),
        ("...", None),
    ],
)
def test_what_is_left_of_a_phrase(phrase: str, kept: str | None) -> None:
    assert cleaned(phrase) == kept


def test_candidates_are_counted_in_order() -> None:
    assert list(candidates(["B cell", "patient", "the B-cell", "sepsis"]).items()) == [("b cell", 2), ("sepsis", 1)]


def test_relevance() -> None:
    seeds = Seeds(["cancer", "lung cancer", "squamous cell", "one two three four five"])
    for phrase, wanted in {
        "cancer": 1.0,
        "lung cancer": 1.0,
        "small tumor lung cancer": 0.9,
        "cancer cancer": 0.9,
        "cell squamous": 0.6,
        "cell squamous cell": 0.9,
        "cell large squamous": 0.6 * 2 / 3,
        "precancerous": 0.0,
        "lung": 0.6 * 1 / 2,
        # 5 of 6 words: just enough.
        "five four three two one zero": 0.6 * 5 / 6,
        "heart": 0.0,
        "": 0.0,
    }.items():
        assert seeds.relevance(phrase) == pytest.approx(wanted), phrase
    assert Seeds([]).relevance("cancer") == 0.0
    assert scored({"five four three two one zero": 1, "lung": 9}, seeds) == {"five four three two one zero": 0.55}


def test_jaccard() -> None:
    assert jaccard({1, 2, 3}, {2, 3, 4}) == 0.5
    assert jaccard(set(), set()) == 0.0
    assert jaccard({1}, set()) == 0.0


def test_with_the_papers_terms_only_another_order_is_a_partial_overlap() -> None:
    """So says the docstring: no phrase of up to six words has 5/6 <= Jaccard < 1 with a term of up to three."""
    from medunlearn.metrics.leakage.phrases import terms

    assert max(len(seed.split()) for disease in terms().diseases for seed in terms().seeds(disease)) == 2
    cancer = seeds_of("Cancer")
    assert cancer.relevance("cell squamous") == 0.6
    assert cancer.relevance("cell large squamous") < 0.5


def test_weight_by_hand() -> None:
    assert [weight(1.0, times) for times in (1, 2, 5, 6, 100)] == [1.05, 1.1, 1.25, 1.25, 1.25]
    assert weight(0.9, 1) == 0.95


def test_the_heaviest_come_first_and_of_equals_the_earliest() -> None:
    seeds = Seeds(["a1", "b1", "c1"])
    found = scored({"c1": 1, "x a1": 9, "b1": 1, "nothing": 3}, seeds)
    assert list(found.items()) == [("x a1", 1.15), ("c1", 1.05), ("b1", 1.05)]
    assert list(top(found, 2)) == ["x a1", "c1"]
    assert list(top(found)) == list(found)


def test_merging_takes_the_largest_weight_and_names_the_fields() -> None:
    assert merged({"note": {"a": 1.1, "b": 1.0}, "question": {"c": 0.95}, "answer": {"a": 1.05, "c": 1.2}}) == [
        Keyword("a", 1.1, "note+answer"),
        Keyword("b", 1.0, "note"),
        Keyword("c", 1.2, "question+answer"),
    ]


def test_the_shorter_phrase_is_kept_as_whole_words() -> None:
    phrases = ["small tumor lung cancer", "lung cancer", "lung cancers", "cancer cell", "lung"]
    kept = [one.phrase for one in without_redundant([Keyword(phrase, 1.0, "note") for phrase in phrases])]
    assert kept == ["cancer cell", "lung"]
    assert without_redundant([]) == []


def test_select_takes_five_of_the_note_and_all_others() -> None:
    many = {f"n{number}": 1.0 for number in range(9)}
    others = {f"q{number}": 1.0 for number in range(9)}
    assert [one.phrase for one in select(many, others, {})] == [*list(many)[:5], *others]


def test_score_by_hand() -> None:
    keywords = [("lung cancer", 1.05), ("stent", 0.95)]
    assert leakage("Lung cancer.", keywords) == pytest.approx(1.05 / 2.0)
    assert leakage("A stent: LUNG-CANCER!", keywords) == 1.0
    assert leakage("lung and cancer, stents, lungcancer", keywords) == 0.0
    assert leakage("", keywords) == 0.0
    assert leakage("anything", []) is None


def test_words() -> None:
    assert words_of("NT-proBNP_3.5µg, Ménière") == ["nt", "probnp", "3", "5\u03bcg", "ménière"]
    assert in_a_row("A-b") == " a b "
    assert in_a_row("") == "  "


def test_names_of_extractors() -> None:
    assert extractor_class("offline") is Offline
    with pytest.raises(UnknownNameError, match="Did you mean 'scispacy'"):
        extractor_class("scispaccy")
    with pytest.raises(InputError, match="`phrases"):
        extractor_class("medunlearn.metrics.leakage.selection:Keyword")
