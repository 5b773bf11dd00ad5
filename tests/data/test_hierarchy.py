"""Closures: a node takes what lies below it along."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Record
from medunlearn.errors import BenchmarkError, UnknownNameError

LEVELS = ("institution", "patient", "study", "section")


def test_a_request_takes_everything_below_it(hierarchy: Hierarchy) -> None:
    assert hierarchy.closure("institution", ["north"]) == {"n1", "s1a", "s1b", "n2"}
    assert hierarchy.closure("patient", ["p1"]) == {"n1", "s1a", "s1b"}
    assert hierarchy.closure("study", ["s1"]) == {"s1a", "s1b"}
    assert hierarchy.closure("section", ["s1a"]) == {"s1a"}


def test_several_nodes_and_none(hierarchy: Hierarchy) -> None:
    assert hierarchy.closure("patient", ["p2", "p3"]) == {"n2", "n3", "s2a"}
    assert hierarchy.closure("patient", []) == frozenset()


def test_a_group_outside_the_chain_can_be_named(hierarchy: Hierarchy) -> None:
    assert hierarchy.closure("disease", ["Cancer"]) == {"n1", "s1a", "s1b", "n3", "s2a"}
    assert hierarchy.groups() == ("institution", "patient", "study", "section", "disease")


def test_nodes_come_in_the_order_of_the_records(hierarchy: Hierarchy) -> None:
    assert hierarchy.nodes("institution") == ("north", "south")
    assert hierarchy.nodes("patient") == ("p1", "p2", "p3", "p4")
    assert hierarchy.nodes("study") == ("s1", "s2")


def test_a_level_that_no_record_has_is_no_level() -> None:
    hierarchy = Hierarchy(LEVELS, [Record("a", "text", {"patient": "p1"})])
    assert hierarchy.groups() == ("patient",)
    with pytest.raises(UnknownNameError):
        hierarchy.nodes("institution")


def test_unknown_names_are_answered_with_the_nearest(hierarchy: Hierarchy) -> None:
    with pytest.raises(UnknownNameError, match=r"no level 'patients'. Did you mean 'patient'\?"):
        hierarchy.nodes("patients")
    with pytest.raises(UnknownNameError, match=r"no level 'Patient'. Did you mean 'patient'\?"):
        hierarchy.closure("Patient", ["p1"])
    with pytest.raises(UnknownNameError, match=r"no institution 'nort'. Did you mean 'north'\?"):
        hierarchy.closure("institution", ["south", "nort"])


def test_a_node_has_one_parent() -> None:
    records = [
        Record("a", "text", {"institution": "north", "patient": "p1"}),
        Record("b", "text", {"institution": "south", "patient": "p1"}),
    ]
    with pytest.raises(BenchmarkError, match="patient 'p1' lies in institution 'north' and in institution 'south'"):
        Hierarchy(LEVELS, records)
    # Outside the chain a node may lie in several: a disease has patients in many institutions.
    assert Hierarchy(("patient",), records).closure("patient", ["p1"]) == {"a", "b"}


def test_a_study_that_one_record_gives_to_no_patient_is_refused() -> None:
    """Otherwise forgetting the patient would leave that record behind."""
    records = [
        Record("a", "text", {"institution": "north", "patient": "p1", "study": "s1"}),
        Record("b", "text", {"institution": "north", "study": "s1"}),
    ]
    with pytest.raises(BenchmarkError, match="study 's1' lies in patient 'p1' and in institution 'north'"):
        Hierarchy(LEVELS, records)


@st.composite
def trees(draw: st.DrawFn) -> list[Record]:
    """Records of a random tree; each stops at a random level, so that a patient has notes of no study."""
    paths = draw(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=len(LEVELS)), min_size=1, max_size=40))
    return [
        Record(
            f"r{row}",
            "text",
            {level: ".".join(map(str, path[: depth + 1])) for depth, level in enumerate(LEVELS[: len(path)])},
        )
        for row, path in enumerate(paths)
    ]


@given(trees())
def test_a_parent_closes_over_its_children_and_what_is_its_own(records: list[Record]) -> None:
    hierarchy = Hierarchy(LEVELS, records)
    for above, below in pairwise(LEVELS):
        for node in {record.groups[above] for record in records if above in record.groups}:
            inside = [record for record in records if record.groups.get(above) == node]
            children = {record.groups[below] for record in inside if below in record.groups}
            own = {record.record_id for record in inside if below not in record.groups}
            below_it = hierarchy.closure(below, children) if children else frozenset()
            assert hierarchy.closure(above, [node]) == below_it | own
