"""The steps of Algorithm 1, each alone, and what holds for any text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.metrics import Item, Keywords, Tools, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.leakage import extractor_class
from medunlearn.metrics.leakage.extractors import Offline, ends_phrase, regular_forms
from medunlearn.metrics.leakage.keyword_selection import TOP, Keyword, Seeds, scored, seeds_of, select, weight
from medunlearn.metrics.leakage.leakage_score import leakage
from medunlearn.metrics.leakage.phrases import LONGEST, SHORTEST, candidates, cleaned, in_a_row, terms, words_of
from medunlearn.synthetic import DISEASES

PAPER = Path(__file__).parents[4] / "shared" / "papers" / "amnesia.txt"
SEEDS = [seed for disease in terms().diseases for seed in terms().seeds(disease)]
word = st.sampled_from(
    [*SEEDS, "the", "of", "left", "note", "patient's", "12", "ß", "-", ".", "\n", "漢字", "e\u0301"]
)
texts = st.lists(word, max_size=30).map(" ".join) | st.text(max_size=60)


def offline(text: str) -> list[str]:
    return Offline().phrases([text])[0]


def keywords_of(category: str, *fields: str) -> list[tuple[str, float]]:
    seeds = seeds_of(category)
    weights = [scored(candidates(phrases), seeds) for phrases in Offline().phrases(fields)]
    return [(keyword.phrase, keyword.weight) for keyword in select(*weights)]


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("", []),
        ("the of was", []),
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
        *((f"with {seed}.", [seed]) for seed in SEEDS),
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
    assert [ends_phrase(form) for form in ("receiving", "screening", "imaging")] == [True, False, False]


@pytest.mark.parametrize(
    ("phrase", "row"),
    [
        ("the lung-cancer", "lung cancer"),
        ("all of his", "of his"),
        ("his", None),
        ("The patient", None),
        ("Past Medical History", None),
        ("patient history", "patient history"),
        ("the pe", None),
        ("dvt", "dvt"),
        ("one more two more three more", "one more two more three more"),
        ("one more two more three more four", None),
        ("...", None),
    ],
)
def test_cleaned_phrase(phrase: str, row: str | None) -> None:
    assert cleaned(phrase) == row


def test_candidates_are_counted_in_order_and_words_are_of_any_script() -> None:
    assert list(candidates(["B cell", "patient", "the B-cell", "sepsis"]).items()) == [("b cell", 2), ("sepsis", 1)]
    assert words_of("NT-proBNP_3.5µg, Ménière") == ["nt", "probnp", "3", "5\u03bcg", "ménière"]
    assert in_a_row("A-b") == " a b "


def test_relevance_and_weight_by_hand() -> None:
    seeds = Seeds(["cancer", "lung cancer", "squamous cell", "one two three four five"])
    for phrase, relevance in {
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
        "": 0.0,
    }.items():
        assert seeds.relevance(phrase) == pytest.approx(relevance), phrase
    assert Seeds([]).relevance("cancer") == 0.0
    assert scored({"five four three two one zero": 1, "lung": 9}, seeds) == {"five four three two one zero": 0.55}
    assert [weight(1.0, times) for times in (1, 2, 5, 6, 100)] == [1.05, 1.1, 1.25, 1.25, 1.25]


def test_the_heaviest_come_first_and_of_equals_the_earliest() -> None:
    weights = scored({"c1": 1, "x a1": 9, "b1": 1, "nothing": 3}, Seeds(["a1", "b1", "c1"]))
    assert list(weights.items()) == [("x a1", 1.15), ("c1", 1.05), ("b1", 1.05)]


def test_selection_takes_the_largest_weight_names_the_fields_and_keeps_the_shorter_phrase() -> None:
    assert select({"aa": 1.1, "bb": 1.0}, {"cc": 0.95}, {"aa": 1.05, "cc": 1.2}) == [
        Keyword("aa", 1.1, "note+answer"),
        Keyword("bb", 1.0, "note"),
        Keyword("cc", 1.2, "question+answer"),
    ]
    phrases = ["small tumor lung cancer", "lung cancer", "lung cancers", "cancer cell", "lung"]
    assert [keyword.phrase for keyword in select(dict.fromkeys(phrases, 1.0), {}, {})] == ["cancer cell", "lung"]
    many, others = ({f"{letter}{number}": 1.0 for number in range(9)} for letter in "nq")
    assert [keyword.phrase for keyword in select(many, others, {})] == [*list(many)[:5], *others]


def test_score_by_hand() -> None:
    keywords = [("lung cancer", 1.05), ("stent", 0.95)]
    assert leakage("Lung cancer.", keywords) == pytest.approx(1.05 / 2.0)
    assert leakage("A stent: LUNG-CANCER!", keywords) == 1.0
    assert leakage("lung and cancer, stents, lungcancer", keywords) == 0.0
    assert leakage("stent, stent", keywords[::-1]) == pytest.approx(0.95 / 2.0)
    assert leakage("anything", []) is None


@given(st.sampled_from(sorted(terms().diseases)), texts, texts, texts, texts)
def test_keywords_and_scores_obey_the_rules(
    category: str, note: str, question: str, answer: str, response: str
) -> None:
    keywords = dict(keywords_of(category, note, question, answer))
    rows = {field: in_a_row(text) for field, text in (("note", note), ("both", f"{question}\n{answer}"))}
    for phrase, heavy in keywords.items():
        assert len(phrase) >= SHORTEST
        assert len(words_of(phrase)) <= LONGEST
        assert phrase not in terms().common
        assert 0.55 <= heavy <= 1.25
        assert any(f" {phrase} " in row for row in rows.values())
        assert not any(f" {other} " in f" {phrase} " for other in keywords if other != phrase)
    assert sum(f" {phrase} " not in rows["both"] for phrase in keywords) <= TOP
    weighted = list(keywords.items())
    share = leakage(response, weighted)
    assert 0.0 <= share <= 1.0 if share is not None else not keywords
    if keywords:
        assert leakage(" / ".join(map(str.upper, keywords)), weighted) == 1.0
        assert leakage(f"{note}\n{question}\n{answer}", weighted) == 1.0
        assert leakage("", weighted) == 0.0


def test_huge_and_strange_texts() -> None:
    started = time.perf_counter()
    huge = "lung cancer " * 200_000
    assert keywords_of("Cancer", huge, "", "") == []  # one phrase without an end is longer than six words
    many = "lung cancer. " * 200_000
    assert keywords_of("Cancer", many, "", "") == [("lung cancer", 1.25)]
    assert leakage(many, [("lung cancer", 1.25)]) == 1.0
    assert leakage("x" * 5_000_000, [("lung cancer", 1.25)]) == 0.0
    for text in ("\0", "\ud800", "'" * 1000, "-" * 1000, "\u202e lung cancer", "İ" * 100, "ﬁ" * 100):
        keywords_of("Cancer", text, text, text)
        leakage(text, [("lung cancer", 1.0)])
    assert time.perf_counter() - started < 60


def test_items_without_keywords_or_response_are_unscored_with_their_reason() -> None:
    sepsis = Keywords((("sepsis", 1.05),))
    items = [
        Item("none", "forget", "?", "!", response="sepsis"),
        Item("why", "forget", "?", "!", response="sepsis", keywords=Keywords((), "there is no list")),
        Item("no-why", "forget", "?", "!", response="sepsis", keywords=Keywords(())),
        Item("silent", "forget", "?", "!", keywords=sepsis),
        Item("empty", "forget", "?", "!", response="", keywords=sepsis),
        Item("said", "retain", "?", "!", response="sepsis", keywords=sepsis),
    ]
    table = score(items, [get_metric("ls")]).set_index("question_id")
    assert table["reason"]["none"] == "no keywords were extracted for the question"
    assert table["reason"]["why"] == "there is no list"
    assert table["reason"]["no-why"]
    assert table["reason"]["silent"] == "there is no response"
    assert table["value"].dropna().to_dict() == {"empty": 0.0, "said": 1.0}
    assert get_metric("ls").score([], Tools()) == []


def test_names_of_extractors() -> None:
    assert extractor_class("offline") is Offline
    with pytest.raises(UnknownNameError, match="Did you mean 'scispacy'"):
        extractor_class("scispaccy")
    with pytest.raises(InputError, match="`phrases"):
        extractor_class("medunlearn.metrics.leakage.keyword_selection:Keyword")


def test_sizes_of_table_7() -> None:
    """Counted in the printed table, row by row."""
    sizes = {disease: [len(own) for own in parts.values()] for disease, parts in terms().diseases.items()}
    assert sizes == {
        "Cancer": [14, 12, 10, 14],
        "Cardiovascular": [12, 16, 7, 16],
        "Infectious/Immune": [8, 13, 5, 12, 8, 7],
    }
    assert set(sizes) <= set(DISEASES)
    assert len(terms().common) == 52
    assert {"no", "yes", "true", "none"} <= terms().common
    for disease in sizes:
        seeds = terms().seeds(disease)
        assert len(set(seeds)) == len(seeds)
        assert all(" ".join(words_of(seed)) == seed for seed in seeds)
        assert not terms().common & set(seeds)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text (../shared/papers/amnesia.txt) is not here")
def test_the_lists_are_those_of_the_paper() -> None:
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    start = lines.index("Category Subcategory Terms")
    table = lines[start + 1 : start + 17]
    ours = {part: ", ".join(own) for parts in terms().diseases.values() for part, own in parts.items()}
    printed = {
        part: line.split(part, 1)[1].strip()
        for line in table
        for part, own in ours.items()
        if f"{part} {own.partition(',')[0]}, " in line
    }
    assert printed == ours
    common = next(line for line in table if line.startswith("Common Terms "))
    assert frozenset(common.removeprefix("Common Terms ").split(", ")) == terms().common


@pytest.mark.parametrize(
    ("name", "category"),
    [
        (" cardiovascular ", "Cardiovascular"),
        ("INFECTIOUS/IMMUNE", "Infectious/Immune"),
        ("Infectious or  immune diseases", "Infectious/Immune"),
        ("Diabetes", None),
        ("", None),
    ],
)
def test_names_of_categories(name: str, category: str | None) -> None:
    assert terms().category(name) == category
