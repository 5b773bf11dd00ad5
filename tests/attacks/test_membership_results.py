"""From scores to tables: who is compared, what is unscored and why, and when a model is called over-forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.attacks import make_attack
from medunlearn.attacks.attacked import Attacked, Attacks, reading
from medunlearn.attacks.membership.results import compare, curves, privacy_leaks, score_candidates, summarize
from medunlearn.attacks.membership.sample import Candidate, candidates
from medunlearn.attacks.protocol import Passage
from medunlearn.config import AmnesiaSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split
from medunlearn.errors import InputError
from medunlearn.metrics.base import Score
from medunlearn.metrics.privacy_leak import privacy_leak
from medunlearn.papers.amnesia.build import build
from medunlearn.results.runs import Run, RunRecord
from medunlearn.results.scores import write_scores


def table_of(values: list[float], members: list[bool], attack: str = "loss", group: str = "all") -> pd.DataFrame:
    rows = [
        {"item": f"r{n}", "subject": f"s{n}", "measure": "membership", "node": group, "member": member,
         "attack": attack, "value": value,
         "reason": None if value == value else "the model gives no number (NaN) for this document"}
        for n, (value, member) in enumerate(zip(values, members, strict=True))
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"value": "float64", "reason": "string"})


def drawn(shift: float, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    members = [True] * n + [False] * n
    return table_of((rng.normal(size=2 * n) + shift * np.array(members)).tolist(), members)


def summary_of(scores: pd.DataFrame) -> dict[str, Any]:
    rows = summarize(scores, replicates=200, seed=0).to_dict("records")
    return {row["measure"]: row for row in rows}


@pytest.mark.parametrize(("shift", "side"), [(1.0, "above"), (0.0, "not told apart"), (-1.0, "below")])
def test_an_area_is_read_against_chance(shift: float, side: str) -> None:
    found = summary_of(drawn(shift))
    assert found["auc"]["against_chance"] == side
    assert (found["auc"]["n_members"], found["auc"]["n_nonmembers"]) == (120, 120)
    assert found["tpr_at_1pct_fpr"]["value"] is not pd.NA
    assert "takes 1,000 non-members, not 120" in found["tpr_at_0.1pct_fpr"]["reason"]
    assert pd.isna(found["tpr_at_1pct_fpr"]["against_chance"])


def test_what_has_no_number_is_counted_and_has_its_reason() -> None:
    scores = drawn(1.0)
    scores.loc[:9, "value"] = np.nan
    found = summary_of(scores)
    assert (found["auc"]["n_members"], found["auc"]["n_unscored"]) == (110, 10)
    nothing = table_of([float("nan")] * 4, [True, True, False, False])
    rows = summary_of(nothing)
    assert all(pd.isna(row["value"]) and "NaN" in row["reason"] for row in rows.values())
    assert len(curves(nothing)) == 0


def test_scores_come_with_their_documents() -> None:
    who = [Candidate(Record(f"d{n}", "text", {"document": f"d{n}"}), f"p{n}", n == 0, "all") for n in range(3)]
    passages = [Passage("text", np.array([-1.0 * n, -1.0])) for n in range(2)]
    passages.append(Passage("text", np.array([np.nan])))
    table = score_candidates(
        who, passages, {"loss": make_attack("loss", {}), "min_k_pp": make_attack("min_k_pp", {})}
    )
    loss = table[table["attack"] == "loss"].set_index("item")
    assert loss.loc["d0", "value"] == -0.5
    assert loss.loc["d1", "value"] == -1.0
    assert "NaN" in str(loss.loc["d2", "reason"])
    assert table[table["attack"] == "min_k_pp"]["value"].isna().all()


def test_a_score_that_is_no_number_is_unscored() -> None:
    class Broken:
        needs = ()

        def score(self, passage: Passage) -> Score:
            return Score(float("nan"))

    who = [Candidate(Record("d", "text", {"document": "d"}), "p", True, "all")]
    table = score_candidates(who, [Passage("text", np.array([-1.0]))], {"broken": Broken()})  # type: ignore[dict-item]
    assert table["value"].isna().all()
    assert "NaN" in table["reason"].iloc[0]


def test_curves_keep_their_corners() -> None:
    """Members 3, 2, 1 and non-members 0, -1: straight up, then straight right; the points between draw nothing."""
    found = curves(table_of([3, 2, 1, 0, -1], [True, True, True, False, False]))
    assert list(zip(found["fpr"], found["tpr"], strict=True)) == [(0, 0), (0, 1), (1, 1)]
    long = curves(drawn(0.5, n=3000))
    assert len(long) <= 500
    assert (long["fpr"].iloc[0], long["tpr"].iloc[-1]) == (0.0, 1.0)


def attacked(folder: Path, label: str, verb: str, config: dict[str, Any], scores: pd.DataFrame) -> Attacked:
    folder = folder / label
    folder.mkdir()
    write_scores(folder, scores)
    summarize(scores, replicates=200, seed=0).to_parquet(folder / "membership_summary.parquet")
    run = Run(folder, RunRecord(verb, label, config=config))
    return Attacked(run, run)


def test_over_forgetting_is_read_against_the_retrained_model(tmp_path: Path) -> None:
    """Three models at areas of about 0.76, 0.5 and 0.24, and a retrained one at about 0.5."""
    at = {"leaky": 1.0, "even": 0.02, "crushed": -1.0}
    models = [attacked(tmp_path, name, "unlearn", {}, drawn(shift)) for name, shift in at.items()]
    retrained = attacked(tmp_path, "retrained", "train", {"without": "x"}, drawn(0.0))
    target = attacked(tmp_path, "target", "train", {"without": None}, drawn(3.0))
    table = Attacks((*models, retrained, target), 200, 0).table()
    said = table[table["measure"] == "auc"].set_index("model")["reading"]
    assert said["leaky"] == "still leaks"
    assert said["crushed"] == "over-forgotten"
    assert said[["target", "retrained"]].isna().all()
    alone = Attacks(tuple(models), 200, 0).table()
    said = alone[alone["measure"] == "auc"].set_index("model")["reading"]
    assert said.to_dict() == {"leaky": "still leaks", "even": "not told apart", "crushed": "over-forgotten"}


def test_below_half_is_not_over_forgotten_where_the_retrained_model_is_there_too(tmp_path: Path) -> None:
    """The two sides differ by themselves: what no training did is not called forgetting."""
    same = drawn(-1.0)
    model = attacked(tmp_path, "npo", "unlearn", {}, same)
    retrained = attacked(tmp_path, "retrained", "train", {"without": "x"}, same)
    table = Attacks((model, retrained), 200, 0).table()
    row = table[(table["model"] == "npo") & (table["measure"] == "auc")].iloc[0]
    assert row["against_chance"] == "below"
    assert row["reading"] == "not told apart"


def test_reading_of_sides() -> None:
    assert reading(["above"]) == "still leaks"
    assert reading(["below", "above"]) == "over-forgotten"
    assert reading(["not told apart"]) == "not told apart"
    assert reading([None]) is None


def test_a_comparison_is_of_the_same_documents() -> None:
    """Rows in another order are joined by document, and a document that one lacks is left out."""
    scores, others = drawn(1.0), drawn(0.0)
    found = compare(scores, others.iloc[::-1], replicates=100, seed=0).iloc[0]
    assert found["difference"] == pytest.approx(
        summary_of(scores)["auc"]["value"] - summary_of(others)["auc"]["value"]
    )
    assert found["reading"] == "above"
    assert compare(scores, others.iloc[5:], replicates=100, seed=0).iloc[0]["n_pairs"] == 235


def test_privacy_leakage_is_the_difference_over_the_retrained_models_area() -> None:
    ours, reference = drawn(1.5), drawn(0.2)
    areas = [summarize(one, replicates=200, seed=0).iloc[0]["value"] for one in (ours, reference)]
    found = privacy_leaks(ours, reference, replicates=200, seed=0).iloc[0]
    assert found["value"] == pytest.approx(privacy_leak(*areas))
    assert found["low"] < found["value"] < found["high"]
    assert privacy_leaks(reference, reference, replicates=200, seed=0).iloc[0]["high"] == 0.0
    # Every member of the retrained model's ranks last: nothing can be said relative to an area of 0.
    last = table_of([0.0, 0.0, 1.0, 1.0], [True, True, False, False])
    first = table_of([1.0, 1.0, 0.0, 0.0], [True, True, False, False])
    assert pd.isna(privacy_leaks(first, last, replicates=20, seed=0).iloc[0]["value"])


def test_patients_are_told_from_patients() -> None:
    benchmark = build(AmnesiaSettings(synthetic=20, nonmember_patients=5))
    split = benchmark.split("random_10")
    who = candidates(benchmark, split)
    assert {one.subject for one in who if one.member} == set(split.forget)
    assert len({one.subject for one in who if not one.member}) == 5
    assert {one.group for one in who} == {"all"}


def lume(members: dict[str, str], outside: dict[str, str]) -> Benchmark:
    """Documents by name and task; all members but ``kept`` are forgotten."""
    names = {**members, **outside, "kept": "story"}
    records = tuple(
        Record(
            name,
            f"text of {name}",
            {"task": task, "document": name},
            fold="holdout" if name in outside else "train",
        )
        for name, task in names.items()
    )
    split = Split("released", "document", tuple(members), (*outside, "kept"))
    question = Question("q", "kept", "train", "knowledge", "document", "who?", "nobody")
    return Benchmark("LUME", "lume", ("task", "document"), "document", records, (question,), {"released": split})


def test_a_story_is_not_told_from_a_biography() -> None:
    benchmark = lume({"a": "story", "b": "public_biography"}, {"c": "public_biography"})
    who = candidates(benchmark, benchmark.split("released"))
    assert {(one.record.record_id, one.member, one.group) for one in who} == {
        ("b", True, "public_biography"),
        ("c", False, "public_biography"),
    }
    only = lume({"a": "story"}, {"c": "public_biography"})
    with pytest.raises(InputError, match=r"forgets documents of story; .* are of public biography"):
        candidates(only, only.split("released"))
    nobody = lume({"a": "story"}, {})
    with pytest.raises(InputError, match="--nonmember-documents 100"):
        candidates(nobody, nobody.split("released"))
