"""Table 7 as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.metrics.leakage.phrases import terms, words_of
from medunlearn.synthetic import DISEASES

PAPER = Path(__file__).parents[4] / "shared" / "papers" / "amnesia.txt"


def test_three_diseases_and_their_sizes() -> None:
    """Counted in the printed table, row by row."""
    sizes = {disease: [len(found) for found in parts.values()] for disease, parts in terms().diseases.items()}
    assert sizes == {
        "Cancer": [14, 12, 10, 14],
        "Cardiovascular": [12, 16, 7, 16],
        "Infectious/Immune": [8, 13, 5, 12, 8, 7],
    }
    assert len(terms().common) == 52


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text (../shared/papers/amnesia.txt) is not here")
def test_the_lists_are_those_of_the_paper() -> None:
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    start = lines.index("Category Subcategory Terms")
    table = lines[start + 1 : start + 17]
    printed = {
        part: line.split(part, 1)[1].strip()
        for line in table
        for parts in terms().diseases.values()
        for part in parts
        if f"{part} {parts[part][0]}, " in line
    }
    ours = {part: ", ".join(found) for parts in terms().diseases.values() for part, found in parts.items()}
    assert printed == ours
    common = next(line for line in table if line.startswith("Common Terms "))
    assert frozenset(common.removeprefix("Common Terms ").split(", ")) == terms().common


def test_every_term_is_text_in_lower_case_and_in_one_place() -> None:
    for disease in terms().diseases:
        seeds = terms().seeds(disease)
        assert len(set(seeds)) == len(seeds)
        assert all(" ".join(words_of(seed)) == seed for seed in seeds)
        assert not terms().common & set(seeds)
    assert {"no", "yes", "true", "none"} <= terms().common


def test_names_of_categories() -> None:
    assert set(terms().diseases) <= set(DISEASES)
    for name, category in (
        ("Cancer", "Cancer"),
        (" cardiovascular ", "Cardiovascular"),
        ("INFECTIOUS/IMMUNE", "Infectious/Immune"),
        ("Infectious or  immune diseases", "Infectious/Immune"),
        ("Diabetes", None),
        ("", None),
    ):
        assert terms().category(name) == category
