"""The tables of AMNESIA's paper, of its own sizes and of small benchmarks whose numbers are counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.describe import TOTAL, Description, describe, words
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import request
from medunlearn.papers.amnesia.build import amnesia_splits, build
from medunlearn.papers.amnesia.settings import AmnesiaSettings

# AMNESIA, Table 1: patients, their share in percent, questions.
TABLE_1 = {
    "Cancer": (2669, 30.3, 21352), "Infectious/Immune": (1964, 22.3, 15712), "Cardiovascular": (1426, 16.2, 11408),
    "Digestive and Liver": (590, 6.7, 4720), "Dementia and Mental Health": (490, 5.6, 3920),
    "Arthritis and Bone": (441, 5.0, 3528), "Respiratory and Allergies": (435, 4.9, 3480),
    "Kidney Disease": (350, 4.0, 2800), "Diabetes": (208, 2.4, 1664), "Oral and Dental Health": (192, 2.2, 1536),
    "Anemia or Iron Deficiency": (55, 0.6, 440),
}  # fmt: skip
# AMNESIA, Table 5: percent, patients and questions of the forget set, of the retain set, available for.
ALL = ("random", "cancer", "infectious", "cardiovascular")
TABLE_5 = [
    ("5%", 441, 2646, 8379, 50274, ALL),
    ("10%", 882, 5292, 7938, 47628, ALL),
    ("15%", 1323, 7938, 7497, 44982, ALL),
    ("20%", 1764, 10584, 7056, 42336, ALL[:3]),
    ("25%", 2205, 13230, 6615, 39690, ALL[:2]),
]


@pytest.fixture(scope="module")
def paper() -> Description:
    """As many patients as the paper has of each disease, each with eight questions; one word a text."""
    diseases = [disease for disease, (count, *_) in TABLE_1.items() for _ in range(count)]
    records = tuple(
        Record(f"n{n}", "Text.", {"disease": disease, "patient": f"p{n}"}) for n, disease in enumerate(diseases)
    )
    questions = tuple(
        Question(
            f"{record.record_id}-{kind}-{number}",
            record.record_id,
            "holdout" if number == 4 else "train",
            kind,
            "patient",
            "Why?",
            "So.",
        )
        for record in records
        for kind in ("factual", "reasoning")
        for number in (1, 2, 3, 4)
    )
    levels = ("disease", "patient")
    splits = amnesia_splits(Hierarchy(levels, records), list(TABLE_1)[:3], seed=0)
    return describe(Benchmark("Paper", "amnesia", levels, "patient", records, questions, splits))


def test_table_1(paper: Description) -> None:
    *rows, total = paper.groups
    assert {row.group: (row.subjects, round(100 * row.share, 1), row.questions) for row in rows} == TABLE_1
    assert [row.group for row in rows] == list(TABLE_1)
    assert (total.group, total.subjects, total.questions, total.share) == (TOTAL, 8820, 70560, 1.0)


def test_table_5(paper: Description) -> None:
    forget, retain, holdout = paper.splits[:5], paper.splits[5:10], paper.splits[10:]
    assert [(row.side, row.size, row.subjects, row.questions, row.available) for row in forget] == [
        ("forget", size, patients, questions, scopes) for size, patients, questions, _, _, scopes in TABLE_5
    ]
    assert [(row.side, row.size, row.subjects, row.questions, row.available) for row in retain] == [
        ("retain", size, patients, questions, scopes) for size, _, _, patients, questions, scopes in TABLE_5
    ]
    assert [(row.side, row.subjects, row.questions, row.available) for row in holdout] == [
        ("holdout", 8820, 17640, ("all",))
    ]


@pytest.fixture
def small() -> Benchmark:
    """Two documents of one task and one of another, with a picture that has no text."""
    texts = {"d1": ("story", "One two three."), "d2": ("story", "Four."), "d3": ("bio", "Ana-Lee, 61, was ill.")}
    records = [Record(name, text, {"task": task, "document": name}) for name, (task, text) in texts.items()]
    rows: list[tuple[str, Any, str, str]] = [
        ("d1", "completion", "One two", "three."),
        ("d2", "knowledge", "What comes after three?", "Four"),
        ("d3", "knowledge", "Who?", "Ana Lee"),
    ]
    questions = [
        Question(f"q{place}", name, "train", kind, "document", question, answer)
        for place, (name, kind, question, answer) in enumerate(rows)
    ]
    hierarchy = Hierarchy(("task", "document"), records)
    splits = {"released": request(hierarchy, "released", "document", ["d2"])}
    return Benchmark("Small", "lume", ("task", "document"), "document", tuple(records), tuple(questions), splits)


def test_any_benchmark_is_grouped_by_its_coarsest_level(small: Benchmark) -> None:
    description = describe(small)
    assert (description.level, description.subject) == ("task", "document")
    story, bio, total = description.groups
    assert (story.group, story.subjects, story.questions, story.share) == ("story", 2, 2, pytest.approx(2 / 3))
    assert (story.shortest, story.mean, story.longest) == (1, 2.0, 3)
    # Ana, Lee, 61, was, ill: five words.
    assert (bio.shortest, bio.mean, bio.longest) == (5, 5.0, 5)
    assert (total.shortest, total.mean, total.longest) == (1, 3.0, 5)
    assert description.kinds() == ["completion", "knowledge"]
    lengths = {row.group: row for row in description.lengths}
    assert lengths["story"].question == {"completion": 2.0, "knowledge": 4.0}
    assert lengths["bio"].question == {"knowledge": 1.0}
    assert lengths[TOTAL].answer == {"completion": 1.0, "knowledge": 1.5}
    assert [(row.side, row.size, row.subjects, row.questions, row.available) for row in description.splits] == [
        ("forget", "released", 1, 1, ("document",)),
        ("retain", "released", 2, 2, ("document",)),
    ]


def test_lengths_are_in_whatever_is_counted(small: Benchmark) -> None:
    description = describe(small, count=lambda texts: [len(text) for text in texts], tokens="letters")
    assert description.tokens == "letters"
    assert description.groups[-1].longest == len("Ana-Lee, 61, was ill.")


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words(["", "Müdigkeit – 3 Tage.", "beta-blocker, 2.5 mg"]) == [0, 3, 5]


def test_tables_for_notebooks(small: Benchmark) -> None:
    tables = describe(small).tables()
    assert tables["groups"].set_index("group").loc["story", "mean"] == 2.0
    lengths = tables["lengths"].set_index("group")
    assert lengths.loc["bio", "question/knowledge"] == 1.0
    assert lengths["question/completion"].isna()["bio"]
    assert tables["splits"]["side"].tolist() == ["forget", "retain"]


def test_several_records_of_a_subject_count_it_once() -> None:
    benchmark = build(AmnesiaSettings(synthetic=6, studies=1))
    total = describe(benchmark).groups[-1]
    assert (total.subjects, total.questions) == (6, 48)
    assert len(benchmark.records) == 30
    # What one split counts as patients, its nodes do too.
    sizes = {row.size: row.subjects for row in describe(benchmark).splits if row.side == "forget"}
    assert sizes["25%"] == len(benchmark.splits["random_25"].forget)


def test_subjects_of_the_holdout_have_a_document(small: Benchmark) -> None:
    """A record that only carries a question is nobody's document."""
    piece = Record("piece", "A piece.", {"task": "story", "document": "piece"}, fold="rephrase")
    extra = [
        replace(small.questions[0], question_id=f"h-{name}", record_id=name, fold="holdout")
        for name in ("d1", "piece")
    ]
    records, questions = (*small.records, piece), (*small.questions, *extra)
    row = describe(replace(small, records=records, questions=questions, splits={})).splits[-1]
    assert (row.side, row.subjects, row.questions) == ("holdout", 1, 2)


def test_splits_of_one_share_but_other_counts_are_rows_of_their_own(small: Benchmark) -> None:
    hierarchy = small.hierarchy
    splits = {name: request(hierarchy, name, "document", [node]) for name, node in (("a_10", "d1"), ("b_10", "d3"))}
    extra = replace(small.questions[0], question_id="q9")
    description = describe(replace(small, splits=splits, questions=(*small.questions, extra)))
    forget = [(row.size, row.questions, row.available) for row in description.splits if row.side == "forget"]
    assert forget == [("10%", 2, ("a",)), ("10%", 1, ("b",))]
