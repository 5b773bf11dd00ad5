"""Subjects that ranks tell: never of a broken model, and beside unseen subjects where p-values are not uniform."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.fact_ranks import FactRank
from medunlearn.reports.rank_tables import nothing_to_forget
from medunlearn.results.fact_table import fact_table
from medunlearn.study.report.gather_ranks import gather_ranks

OF = 100


def model(label: str, role: str, ranks: np.ndarray[Any, Any], problems: tuple[str, ...] = ()) -> Any:
    """A model with the ranks of each subject's facts, [subjects, facts]."""
    facts = {f"q{n}": [FactRank("number", int(rank), OF) for rank in own] for n, own in enumerate(ranks)}
    labels = pd.DataFrame({"item": [*facts], "subject": [f"s{n}" for n in range(len(ranks))], "side": "forget"})
    run, record = (
        SimpleNamespace(label=label, role=role),
        SimpleNamespace(info=SimpleNamespace(problems=problems, results={})),
    )
    return SimpleNamespace(run=run, record=record, facts=fact_table(facts, labels, "closed_book"))


def told(*models: Any) -> dict[str, Any]:
    table = gather_ranks(models).table
    return {row["model"]: None if pd.isna(row["told"]) else int(row["told"]) for row in table.to_dict("records")}


KNOWN = np.ones((40, 6), dtype=int)
CHANCE = np.random.default_rng(0).integers(1, OF + 1, (40, 6))
USUAL = np.random.default_rng(1).integers(1, 21, (40, 6))  # unseen, and yet likelier than most alternatives


def test_a_model_that_knows_is_told_and_one_that_never_saw_is_not() -> None:
    assert told(model("target", "target", KNOWN), model("retrained", "retrained", CHANCE)) == {
        "target": 40,
        "retrained": 0,
    }


def test_where_values_are_usual_nobody_is_told_by_that() -> None:
    same = np.random.default_rng(2).permutation(USUAL)
    found = gather_ranks([model("NPO", "unlearned", same), model("retrained", "retrained", USUAL)])
    (reading,) = found.readings
    assert reading.beside_unseen
    assert reading.least_p == 1 / 41
    # As many as chance gives: 5% of 40, and the retrained model is not read beside itself.
    assert told(model("NPO", "unlearned", same), model("retrained", "retrained", USUAL)) == {
        "NPO": 1,
        "retrained": None,
    }
    assert told(model("NPO", "unlearned", KNOWN), model("retrained", "retrained", USUAL))["NPO"] == 40


def test_a_broken_model_tells_nothing_and_is_no_reference() -> None:
    broken = ("all of its 40 answers are empty",)
    assert told(model("GA", "unlearned", CHANCE, broken)) == {"GA": None}
    models = model("NPO", "unlearned", KNOWN), model("retrained", "retrained", USUAL, broken)
    assert gather_ranks(models).readings[0].calibration is None
    assert told(*models) == {"NPO": 40, "retrained": None}


def test_too_few_alternatives_tell_nobody() -> None:
    few = model("target", "target", np.ones((6, 4), dtype=int))
    few.facts["of"], few.facts["p"] = 50, 1 / 50
    assert told(few) == {"target": None}


def known(*models: Any) -> dict[str, Any]:
    (reading,) = gather_ranks(models).readings
    return dict(reading.known or {})


def test_a_target_that_never_knew_has_nothing_to_forget() -> None:
    other = np.random.default_rng(4).integers(1, OF + 1, (40, 6))
    never = model("target", "target", CHANCE), model("retrained", "retrained", other)
    assert known(*never)["verdict"] == "nothing"
    (caveat,) = nothing_to_forget(gather_ranks(never))
    assert "40 subjects" in caveat
    # Without a retrained model, too.
    assert known(never[0])["verdict"] == "nothing"


def test_a_target_that_knows_has_something_to_forget() -> None:
    both = model("target", "target", KNOWN), model("retrained", "retrained", CHANCE)
    for models in (both, both[:1]):
        assert known(*models)["verdict"] == "known"
        assert not list(nothing_to_forget(gather_ranks(models)))


def test_what_is_only_usual_is_nothing_to_forget() -> None:
    same = np.random.default_rng(5).permutation(USUAL)
    assert known(model("target", "target", same), model("retrained", "retrained", USUAL))["verdict"] == "nothing"


def test_too_few_subjects_leave_it_open() -> None:
    two = model("target", "target", CHANCE[:2]), model("retrained", "retrained", CHANCE[2:4])
    found = known(*two)
    assert (found["verdict"], found["least_p"]) == ("open", 0.25)


def test_nothing_is_said_of_a_broken_target() -> None:
    assert known(model("target", "target", CHANCE, ("all answers are the same",))) == {}


def test_one_fact_a_patient_cannot_be_below_one_in_so_many() -> None:
    (reading,) = gather_ranks([model("target", "target", np.ones((30, 1), dtype=int))]).readings
    assert reading.single
    assert reading.least_p == 1 / OF
    assert told(model("target", "target", np.ones((30, 1), dtype=int))) == {"target": 30}
