"""Subjects that ranks tell: never of a broken model, and beside unseen subjects where p-values are not uniform."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.data.fact_ranks import FactRank
from medunlearn.reports.rank_tables import nothing_to_forget
from medunlearn.results.fact_table import fact_table
from medunlearn.results.known_before import known_before
from medunlearn.study.report.gather_ranks import gather_ranks

OF = 100


def model(
    label: str,
    role: str,
    ranks: np.ndarray[Any, Any],
    problems: tuple[str, ...] = (),
    *,
    never: np.ndarray[Any, Any] | None = None,
    inexact: str | None = None,
    of: int = OF,
) -> Any:
    """A model with the ranks of each subject's facts, [subjects, facts].

    Args:
        never: those of subjects on whom no model was trained.
    """
    every = ranks if never is None else np.concatenate([ranks, never])
    facts = {
        f"q{n}": [FactRank("number", int(rank), of, inexact=inexact) for rank in own] for n, own in enumerate(every)
    }
    subjects = [f"s{n}" for n in range(len(every))]
    side = ["forget" if n < len(ranks) else "retain" for n in range(len(every))]
    labels = pd.DataFrame({"item": [*facts], "subject": subjects, "side": side})
    run, record = (
        SimpleNamespace(label=label, role=role),
        SimpleNamespace(info=SimpleNamespace(problems=problems, results={})),
    )
    table = fact_table(facts, labels, "closed_book", subjects[len(ranks) :])
    return SimpleNamespace(run=run, record=record, facts=table)


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
    # And beside subjects on whom no model was trained.
    assert known(model("target", "target", CHANCE, never=other))["verdict"] == "nothing"


def test_a_target_that_knows_has_something_to_forget() -> None:
    both = model("target", "target", KNOWN), model("retrained", "retrained", CHANCE)
    for models in (both, [model("target", "target", KNOWN, never=CHANCE)]):
        assert known(*models)["verdict"] == "known"
        assert not list(nothing_to_forget(gather_ranks(models)))


def test_what_is_only_usual_is_nothing_to_forget() -> None:
    same = np.random.default_rng(5).permutation(USUAL)
    assert known(model("target", "target", same), model("retrained", "retrained", USUAL))["verdict"] == "nothing"


def test_nothing_is_known_without_anything_to_compare_with() -> None:
    """A model that never saw the subjects ranks usual values as high."""
    for ranks in (KNOWN, USUAL, CHANCE):
        found = known(model("target", "target", ranks))
        assert (found["verdict"], found["p"], found["least_p"]) == ("unscored", None, None)
    assert not list(nothing_to_forget(gather_ranks([model("target", "target", USUAL)])))


def test_unseen_subjects_do_not_make_usual_values_known() -> None:
    """Of draws of which no subject was seen, about a twentieth is called known."""
    rng, known_of = np.random.default_rng(6), 0
    for _ in range(60):
        drawn = rng.integers(1, 21, (24, 4))
        facts = model("target", "target", drawn[:12], never=drawn[12:]).facts
        forget = facts[facts["side"] == "forget"]
        before = known_before(forget, unseen=facts[facts["unseen"]])
        known_of += before is not None and before.verdict == "known"
    assert known_of <= 7  # 3 are due, and 8 or more have a chance of 1%


def test_facts_of_other_kinds_are_no_comparison() -> None:
    facts = model("target", "target", KNOWN, never=CHANCE).facts
    facts.loc[facts["unseen"], "fact"] = "date"
    before = known_before(facts[facts["side"] == "forget"], unseen=facts[facts["unseen"]])
    assert before is not None
    assert before.verdict == "unscored"


def test_subjects_are_told_of_those_who_can_be() -> None:
    """Of six facts among twenty, the smallest p is above 0.05 although all rank first."""
    (row,) = gather_ranks([model("target", "target", np.ones((6, 3), dtype=int), of=20)]).table.to_dict("records")
    assert (row["subjects"], row["tellable"], row["exact_first"]) == (6, 0, 1.0)
    assert pd.isna(row["told"])
    some = model("target", "target", np.ones((6, 3), dtype=int))
    some.facts.loc[some.facts["subject"] == "s0", ["of", "p"]] = (20, 1 / 20)
    (row,) = gather_ranks([some]).table.to_dict("records")
    assert (row["subjects"], row["tellable"], row["told"]) == (6, 5, 5)


def test_inexact_facts_count_in_no_p() -> None:
    target = model("target", "target", KNOWN, inexact="few")
    table = gather_ranks([target]).table
    assert (table["exact"].tolist(), table["tellable"].tolist()) == ([0], [0])
    assert table["told"].isna().all()
    # Beside subjects whom the retrained model never saw they do.
    unseen = model("retrained", "retrained", CHANCE, inexact="few")
    (reading,) = gather_ranks([target, unseen]).readings
    assert reading.beside_unseen
    assert reading.inexact == {"few": KNOWN.size}
    assert told(target, unseen) == {"target": 40, "retrained": None}


def test_too_few_subjects_leave_it_open() -> None:
    two = model("target", "target", CHANCE[:2]), model("retrained", "retrained", CHANCE[2:4])
    found = known(*two)
    assert (found["verdict"], found["least_p"]) == ("open", 0.25)


def test_nothing_is_said_of_a_broken_target() -> None:
    assert known(model("target", "target", CHANCE, ("all answers are the same",))) == {}


def test_one_fact_a_patient_cannot_be_below_one_in_so_many() -> None:
    (reading,) = gather_ranks([model("target", "target", np.ones((30, 1), dtype=int))]).readings
    assert reading.single
    assert reading.least_p == pytest.approx(1 / OF)
    assert told(model("target", "target", np.ones((30, 1), dtype=int))) == {"target": 30}
