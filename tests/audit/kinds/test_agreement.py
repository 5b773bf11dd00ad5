"""Agreement of ways of sorting, against scikit-learn's kappa."""

from __future__ import annotations

import pytest
from sklearn.metrics import cohen_kappa_score

from medunlearn.audit.kinds import group_of
from medunlearn.audit.kinds.sorting import agreement

RULES = ["drug", "drug", "editorial", "guidance", "research", "patient_information", None, "drug"]
PERSON = ["drug", "guidance", "editorial", "guidance", "editorial", "patient_information", "drug", "drug"]


def test_kinds_and_groups():
    found = agreement({"rules": RULES, "person": PERSON}, [f"s{n}" for n in range(8)], replicates=50)
    value = found.set_index(["of", "measure"])["value"]
    both = [(one, other) for one, other in zip(RULES, PERSON, strict=True) if one is not None]
    assert value["kind", "agreement"] == pytest.approx(5 / 7)
    assert value["kind", "cohen_kappa"] == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)))
    assert value["group", "agreement"] == pytest.approx(6 / 7)
    groups = [[group_of(one) for one in side] for side in zip(*both, strict=True)]
    assert value["group", "cohen_kappa"] == pytest.approx(cohen_kappa_score(*groups))
    assert (found["n"] == 7).all()


def test_nothing_in_both_is_unscored_with_a_reason():
    found = agreement({"rules": ["drug", None], "judge": [None, "drug"]}, ["a", "b"], replicates=5)
    assert found["value"].isna().all()
    assert set(found["reason"]) == {"no span has a kind from both"}
