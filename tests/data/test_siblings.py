"""Whom each unit to forget is told apart from, on a hierarchy of 2 institutions x 2 patients x 2 studies."""

from __future__ import annotations

from medunlearn.data.siblings import sibling_contrasts

LEVELS = ("institution", "patient", "study")


def study(name: str) -> dict[str, str]:
    """``B2y``: study y of patient 2 of institution B."""
    return {"institution": name[0], "patient": name[:2], "study": name}


ALL = ["A1x", "A1y", "A2x", "A2y", "B1x", "B1y", "B2x", "B2y"]


def pools_by_unit(level: str, forget: list[str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Units to forget -> the pool of each, both by the names of their studies."""
    retain = [name for name in ALL if name not in forget]
    contrasts = sibling_contrasts(LEVELS, level, [study(name) for name in forget], [study(name) for name in retain])
    return {
        tuple(forget[number] for number in unit): tuple(retain[number] for number in contrasts.pools[pool])
        for unit, pool in zip(contrasts.units, contrasts.pool, strict=True)
    }


def test_a_patients_studies_beside_those_of_the_institutions_retained_patients() -> None:
    near = ("A2x", "A2y")
    assert pools_by_unit("patient", ["A1x", "A1y"]) == {("A1x",): near, ("A1y",): near}


def test_the_finest_level_beside_its_own_retained_siblings() -> None:
    assert pools_by_unit("study", ["A1x", "B2y"]) == {("A1x",): ("A1y",), ("B2y",): ("B2x",)}


def test_without_siblings_the_whole_level() -> None:
    # Both studies of A1 are gone, and so are both patients of A.
    rest = ("A2x", "A2y", "B1x", "B1y", "B2x", "B2y")
    assert pools_by_unit("study", ["A1x", "A1y"]) == {("A1x",): rest, ("A1y",): rest}
    other = ("B1x", "B1y", "B2x", "B2y")
    assert set(pools_by_unit("patient", ["A1x", "A1y", "A2x", "A2y"]).values()) == {other}


def test_the_topmost_level_has_children_and_no_siblings_but_the_whole_level() -> None:
    contrasts = sibling_contrasts(LEVELS, "institution", [study(n) for n in ALL[:4]], [study(n) for n in ALL[4:]])
    assert contrasts.level == "patient"
    assert contrasts.units == ((0, 1), (2, 3))
    assert contrasts.pools == ((0, 1, 2, 3),)
    assert contrasts.fallbacks == 2


def test_disease_over_patient() -> None:
    def note(disease: str, patient: str) -> dict[str, str]:
        return {"disease": disease, "patient": patient}

    forget = [note("Cancer", "p1")]
    retain = [note("Cancer", "p2"), note("Other", "p3")]
    of_patient = sibling_contrasts(("disease", "patient"), "patient", forget, retain)
    assert (of_patient.units, of_patient.pools, of_patient.fallbacks) == (((0,),), ((0,),), 0)
    of_disease = sibling_contrasts(("disease", "patient"), "disease", forget, retain[1:])
    assert (of_disease.units, of_disease.pools, of_disease.level) == (((0,),), ((0,),), "patient")


def test_a_group_that_is_no_level_and_samples_without_a_child() -> None:
    flat = sibling_contrasts(LEVELS, "item", [{"item": "a"}, {"item": "b"}], [{"item": "c"}, {"patient": "A1"}])
    assert (flat.units, flat.pools) == (((0,), (1,)), ((0,),))
    # What tells only who the patient is counts for nothing where studies of theirs are there.
    forget = [study("A1x"), {"institution": "A", "patient": "A1"}]
    contrasts = sibling_contrasts(LEVELS, "patient", forget, [study("A2x"), {"institution": "A", "patient": "A2"}])
    assert (contrasts.units, contrasts.pools) == (((0,),), ((0,),))
    alone = sibling_contrasts(LEVELS, "patient", forget[1:], [study("A2x"), {"institution": "A", "patient": "A2"}])
    assert (alone.units, alone.pools) == (((0,),), ((0, 1),))
