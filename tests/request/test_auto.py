"""`--method auto`: one try keeps its weights, nothing is trained twice, and what was dropped is trained again."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from forgetting_world import Hospital
from forking import killed_after

from medunlearn import api
from medunlearn.request import forget_request, trial_search
from medunlearn.request.case.ledger import read_ledger
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.trial_search import ForgetCandidate
from medunlearn.study import unlearn
from medunlearn.study.alternative_answers import NoAlternativesError
from medunlearn.training import loop

TRIES = (ForgetCandidate("npo", 4), ForgetCandidate("counterfactual", 8))
SEARCH: dict[str, Any] = {
    "method": "auto", "budget": 2, "utility_floor": 1.0, "margin": 0.01, "unlearn": {"precision": "fp32"},
    "facts": 3, "others": 3, "evaluate": {"max_new_tokens": 2, "alternatives": 9},
    "build": {"prefixes": "16,32", "clozes": 0}, "anyway": True,
}  # fmt: skip
"""Of a search in which no try is good enough."""
NAMELESS = (
    "Comes with a cough and a sore throat after a walk in the rain. The lungs are clear, the heart is regular, and "
    "the belly is soft. Tea, rest and a warm scarf were advised, and a return if fever sets in."
)
KILLS: tuple[tuple[Any, str, int], ...] = (
    (loop, "_step", 2),
    (unlearn, "unlearn", 2),
    (trial_search, "drop_weights", 1),
)
"""Module, function and the call of it after which the search is killed."""


@pytest.fixture(autouse=True)
def _short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_request, "AUTO", TRIES)


def histories(result: Forgotten) -> dict[str, int]:
    """Try -> when its training was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in result.work.glob("trials/*/history.parquet")}


def best_trial(result: Forgotten) -> str:
    """Folder's name of the best trial, which alone has a model."""
    assert result.best is not None
    names = [f"{place + 1:02d}-{candidate.method}" for place, candidate in enumerate(TRIES)]
    assert [path.parent.name for path in result.work.glob("trials/*/model")] == [names[result.best]]
    assert not [*result.work.glob("trials/.*.part")]
    assert result.case.evidence.method == TRIES[result.best].method
    return names[result.best]


def test_a_search_keeps_one_model_and_trains_nothing_twice(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, patient = tmp_path / "case", hospital.patients[0]
    for module, name, calls in KILLS:
        exit_code = killed_after(module, name, calls, lambda: hospital.forget(out, patient, **SEARCH))
        assert exit_code == -signal.SIGKILL, name
        assert not out.exists()
    first = hospital.forget(out, patient, **SEARCH)
    evidence, trained, best = first.case.evidence, histories(first), best_trial(first)
    assert (len(trained), len(first.trials)) == (2, 2)
    shutil.rmtree(out)
    again = hospital.forget(out, patient, **SEARCH)
    assert again.case.evidence == evidence.model_copy(update={"created": again.case.evidence.created})
    assert (histories(again), again.trials) == (trained, first.trials)
    (row,) = read_ledger(again.model).requests
    assert row.entry.case_sha256 == again.case.sha256
    assert api.verify([again.model, out], work=again.work, quiet=True).wrong == []
    # Something else is asked of the tries: the one that was dropped is trained again, the other is not.
    shutil.rmtree(out)
    shutil.rmtree(again.model)
    more = hospital.forget(out, patient, **{**SEARCH, "facts": 4})
    assert {name for name, time in histories(more).items() if trained[name] != time} == {*trained} - {best}
    best = best_trial(more)
    # Another one is nearest now, whose weights are gone.
    shutil.rmtree(out)
    shutil.rmtree(more.model)
    (other,) = {*trained} - {best}
    place = sorted(trained).index(other)
    monkeypatch.setattr(trial_search.TrialSearch, "best_place", lambda self, trials: min(place, len(trials) - 1))
    assert best_trial(hospital.forget(out, patient, **{**SEARCH, "facts": 4})) == other


def test_a_method_without_alternative_answers_is_passed_over(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counterfactual = [ForgetCandidate("counterfactual", steps) for steps in (2, 4)]
    monkeypatch.setattr(forget_request, "AUTO", (*counterfactual, ForgetCandidate("npo", 2)))
    table = pd.read_csv(hospital.notes, dtype=str)
    table.loc[table["patient_id"] == hospital.patients[0], "note"] = NAMELESS
    table.to_csv(tmp_path / "notes.csv", index=False)
    nameless, patient = replace(hospital, notes=tmp_path / "notes.csv"), hospital.patients[0]
    quick = {**SEARCH, "budget": 1, "facts": 2, "build": {"prefixes": "8,16", "clozes": 0}}
    result = nameless.forget(tmp_path / "case", patient, **quick)
    evidence = result.case.evidence
    assert (evidence.method, result.best, len(result.trials)) == ("npo", 0, 1)
    assert [other.method for other in evidence.passed_over] == ["counterfactual"]
    assert "The method counterfactual could not be used" in (result.case.folder / "case.html").read_text()
    with pytest.raises(NoAlternativesError, match="no alternative answers"):
        nameless.forget(tmp_path / "named", patient, **{**quick, "method": "counterfactual"})
