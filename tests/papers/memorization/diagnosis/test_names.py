"""Lists read from responses, names compared, and the place of the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.errors import InputError
from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.papers.memorization.diagnosis.top_k import (
    Names,
    Prediction,
    name_key,
    names_with,
    own_names,
    parse_diagnoses,
    predict,
    reference_diagnoses,
)
from medunlearn.papers.paper_files import paper_yaml


@pytest.mark.parametrize(
    ("response", "names"),
    [
        ("1. Sepsis\n2. Gout", ("Sepsis", "Gout")),
        ("1) Sepsis 2) Gout 3) Asthma", ("Sepsis", "Gout", "Asthma")),
        ("- Sepsis\n* Gout", ("Sepsis", "Gout")),
        ("Sepsis\nGout", ("Sepsis", "Gout")),
        ("Sepsis, gout, asthma.", ("Sepsis", "gout", "asthma")),
        ("Sepsis; gout, acute", ("Sepsis", "gout, acute")),
        ("Diagnoses: sepsis, gout", ("sepsis", "gout")),
        ("The likely diagnoses are:\n1. Sepsis\n2. Gout\nI hope this helps", ("Sepsis", "Gout")),
        ("1. Sepsis (from the lung)\n2. Gout: the big toe\n3. Asthma - mild", ("Sepsis", "Gout", "Asthma")),
        ("1. Sepsis\n2. sepsis\n3. Gout", ("Sepsis", "Gout")),
        ("1. Type 2 diabetes", ("Type 2 diabetes",)),
        ("1. Stage 3 chronic kidney disease, hypertensive", ("Stage 3 chronic kidney disease, hypertensive",)),
        ("", ()),
        ("12\n...", ()),
        ("One cannot say from what stands above which of all these diseases this patient may have had", ()),
    ],
)
def test_lists_are_read(response: str, names: tuple[str, ...]) -> None:
    assert parse_diagnoses(response) == names


def test_a_reference_is_taken_as_it_stands() -> None:
    long = "a name of many words that no reader of responses would take for one of a diagnosis at all"
    assert reference_diagnoses(f"1. Gout: acute\n2. {long}\n") == ("Gout: acute", long)


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("Sepsis", "sepsis.", True),
        ("carcinoma of the colon", "Colon carcinoma", True),
        ("Alzheimer's disease", "Alzheimer disease", True),
        ("Ménière disease", "meniere disease", True),
        ("MI", "heart attack", True),
        ("COPD exacerbation", "chronic obstructive pulmonary disease exacerbation", True),
        ("COPD", "chronic obstructive pulmonary disease exacerbation", False),
        ("type 1 diabetes", "type 2 diabetes", False),
        ("gout", "", False),
        ("", "", False),
    ],
)
def test_names_are_compared(name: str, other: str, *, same: bool) -> None:
    assert own_names().same(name, other) is same
    assert own_names().same(other, name) is same


def test_synonyms_hold_through_chains_whatever_their_order() -> None:
    forward, backward = Names({"a1": ["b1"], "b1": ["c1"]}), Names({"b1": ["c1"], "a1": ["b1"]})
    assert forward.same("a1", "c1")
    assert backward.same("a1", "c1")
    assert Names({"a1": ["b1"], "b1": ["a1"]}).same("a1", "b1")
    assert not forward.same("a1", "d1")


def test_a_name_of_our_own_list_stands_for_one_diagnosis_alone() -> None:
    """Otherwise two diagnoses would be one by accident of an abbreviation."""
    diagnosis: dict[tuple[str, ...], str] = {}
    for name, others in paper_yaml("memorization", "synonyms").items():
        for key in map(name_key, (name, *others)):
            assert diagnosis.setdefault(key, name) == name, f"{key} stands for {diagnosis[key]} and {name}"


def test_a_file_of_synonyms_adds_to_our_own(tmp_path: Path) -> None:
    path = tmp_path / "more.yaml"
    path.write_text("gout: [podagra]\nheart attack: [coronary]\n")
    names = names_with(path)
    assert names.same("podagra", "gout")
    assert names.same("coronary", "MI")
    for content in ("gout: podagra\n", "- gout\n", "gout: [1]\n", "a: [\n"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"more\.yaml"):
            names_with(path)
    with pytest.raises(InputError, match="There is no file"):
        names_with(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("response", "gold", "prediction"),
    [
        ("1. gout\n2. heart attack", "principal", Prediction(2, 2)),
        ("1. hypertension\n2. gout", "principal", Prediction(2, None)),
        ("1. hypertension\n2. gout", "any", Prediction(2, 1)),
        ("", "any", Prediction(0, None)),
    ],
)
def test_the_rank_of_the_first_right_diagnosis(response: str, gold: str, prediction: Prediction) -> None:
    reference = "1. myocardial infarction\n2. hypertension"
    assert predict(response, reference, gold=gold) == prediction  # type: ignore[arg-type]
    assert [prediction.right_at(k) for k in (1, 2)] == [prediction.rank == 1, prediction.rank in (1, 2)]


def test_the_metrics_are_top_k() -> None:
    talk = "nothing that is a list of names or could be taken for one by us"
    pairs = (("1. gout", "1. sepsis\n2. gout"), ("1. gout", "gout"), ("1. gout", talk), ("  ", "gout"))
    items = [Item(f"q{n}", "retain", "", reference, response=text) for n, (reference, text) in enumerate(pairs)]
    values = {k: [score.value for score in get_metric(f"top_{k}").score(items, Tools())] for k in (1, 2, 3)}
    assert values == {1: [0, 1, 0, None], 2: [1, 1, 0, None], 3: [1, 1, 0, None]}
