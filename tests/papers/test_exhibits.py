"""Where each table and figure of the papers stands: the table of `medunlearn list exhibits`."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

from medunlearn.cli.listing import TABLES
from medunlearn.paper import find_paper

# Figures, then tables, that the papers number.
NUMBERED = {"amnesia": (4, 13), "medforget": (8, 6), "lume": (4, 1), "memorization": (8, 10)}
SOURCE = ROOT / "src" / "medunlearn"


@pytest.mark.parametrize("name", NUMBERED)
def test_every_number_of_a_paper_has_its_place(name: str) -> None:
    exhibits = find_paper(name).exhibits()
    figures, tables = NUMBERED[name]
    numbers = [*(f"Figure {n + 1}" for n in range(figures)), *(f"Table {n + 1}" for n in range(tables))]
    assert [exhibit.number for exhibit in exhibits] == numbers
    assert not [exhibit.number for exhibit in exhibits if bool(exhibit.page and exhibit.at) == bool(exhibit.lacks)]


@pytest.mark.parametrize("name", NUMBERED)
def test_headings_are_those_of_the_reports(name: str) -> None:
    """A heading that is renamed must be renamed here, too."""
    folders = (SOURCE / "papers" / name, SOURCE / "judging")
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".py", ".yaml") and path.name != "exhibits.yaml"
    )
    pages = [exhibit for exhibit in find_paper(name).exhibits() if exhibit.page in ("runs", "sweep", "audits")]
    assert not [exhibit.at for exhibit in pages if exhibit.at not in re.sub(r"\\s+", " ", text)]


def test_the_list_names_each_of_them() -> None:
    rows = TABLES["exhibits"]()
    assert len(rows) == sum(map(sum, NUMBERED.values()))
    assert len({row["name"] for row in rows}) == len(rows)
