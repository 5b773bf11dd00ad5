"""Tables of membership scores: candidates, reasons, readings of an area against chance and the retrained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.attacks import attack_class, make_attack
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.attacks.brought_back import BroughtBack, Failure
from medunlearn.attacks.membership.membership_attack import MEMBERSHIP
from medunlearn.attacks.membership.membership_results import (
    compare,
    curves,
    privacy_leaks,
    reading,
    recovered_rows,
    score_candidates,
    summarize,
)
from medunlearn.attacks.membership.passage import Passage
from medunlearn.attacks.membership.sample import Candidate, candidates
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split
from medunlearn.errors import InputError
from medunlearn.metrics.measure import Score
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.results.runs import Run, RunRecord
from medunlearn.results.scores import write_scores

DRAWS = {"replicates": 200, "seed": 0}


def table_of(values: list[float], members: list[bool]) -> pd.DataFrame:
    table = pd.DataFrame({"item": [f"r{n}" for n in range(len(values))], "value": values, "member": members})
    reason = table["value"].isna().map({True: "the model gives no number (NaN) for this document", False: None})
    return table.assign(
        subject="s" + table["item"], measure="membership", node="all", attack="loss", reason=reason.astype("string")
    )


def drawn(shift: float, n: int = 120) -> pd.DataFrame:
    members = [True] * n + [False] * n
    return table_of((np.random.default_rng(1).normal(size=2 * n) + shift * np.array(members)).tolist(), members)


def summary_of(scores: pd.DataFrame) -> dict[str, Any]:
    return {row["measure"]: row for row in summarize(scores, **DRAWS).to_dict("records")}


@pytest.mark.parametrize(("shift", "side"), [(1.0, "above"), (0.0, "not told apart"), (-1.0, "below")])
def test_an_area_is_read_against_chance(shift: float, side: str) -> None:
    rows = summary_of(drawn(shift))
    assert rows["auc"]["against_chance"] == side
    assert (rows["auc"]["n_members"], rows["auc"]["n_nonmembers"]) == (120, 120)
    assert rows["tpr_at_1pct_fpr"]["value"] is not pd.NA
    assert "takes 1,000 non-members, not 120" in rows["tpr_at_0.1pct_fpr"]["reason"]
    assert pd.isna(rows["tpr_at_1pct_fpr"]["against_chance"])


def test_unscored_documents_are_counted_and_have_reasons() -> None:
    scores = drawn(1.0)
    scores.loc[:9, "value"] = np.nan
    area = summary_of(scores)["auc"]
    assert (area["n_members"], area["n_unscored"]) == (110, 10)
    nothing = table_of([float("nan")] * 4, [True, True, False, False])
    assert all(pd.isna(row["value"]) and "NaN" in row["reason"] for row in summary_of(nothing).values())
    assert len(curves(nothing)) == 0


def test_scores_come_with_their_documents() -> None:
    class Broken:
        needs = ()

        def score(self, passage: Passage) -> Score:
            return Score(float("nan"))

    who = [Candidate(Record(f"d{n}", "text", {"document": f"d{n}"}), f"p{n}", n == 0, "all") for n in range(3)]
    passages = [Passage("text", np.array(values)) for values in ([-0.0, -1.0], [-1.0, -1.0], [np.nan])]
    attacks: dict[str, Any] = {name: make_attack(name, {}) for name in ("loss", "min_k_pp")} | {"broken": Broken()}
    table = score_candidates(who, passages, attacks).set_index(["attack", "item"])
    assert table.loc["loss"]["value"].tolist() == [-0.5, -1.0, pd.NA]
    assert "NaN" in str(table.loc[("loss", "d2"), "reason"])
    assert table.loc["loss"]["member"].tolist() == [True, False, False]
    assert table.loc["min_k_pp"]["value"].isna().all()
    assert table.loc[("broken", "d0"), "reason"] == "the score is no number (NaN)"


def test_curves_keep_their_corners() -> None:
    curve = curves(table_of([3, 2, 1, 0, -1], [True, True, True, False, False]))
    assert list(zip(curve["fpr"], curve["tpr"], strict=True)) == [(0, 0), (0, 1), (1, 1)]
    long = curves(drawn(0.5, n=3000))
    assert len(long) <= 500
    assert (long["fpr"].iloc[0], long["tpr"].iloc[-1]) == (0.0, 1.0)


def attacked(folder: Path, label: str, scores: pd.DataFrame, verb: str = "unlearn", **config: Any) -> Attacked:
    folder = folder / label
    folder.mkdir()
    write_scores(folder, scores)
    summarize(scores, **DRAWS).to_parquet(folder / "membership_summary.parquet")
    run = Run(folder, RunRecord(verb, label, config=config))
    return Attacked(run, run, MEMBERSHIP)


def readings(*models: Attacked) -> dict[str, Any]:
    table = Attacks(models, 200, 0, MEMBERSHIP).table()
    said = table[table["measure"] == "auc"].set_index("model")["reading"]
    return said[said.notna()].to_dict()


def test_over_forgetting_is_read_against_the_retrained_model(tmp_path: Path) -> None:
    """Three models at areas of about 0.76, 0.5 and 0.24, and a retrained one at about 0.5.

    Below half is not over-forgotten where the retrained model is there too: the two sides differ by themselves.
    """
    at = {"leaky": 1.0, "even": 0.02, "crushed": -1.0}
    models = [attacked(tmp_path, name, drawn(shift)) for name, shift in at.items()]
    expected = {"leaky": "still leaks", "even": "not told apart", "crushed": "over-forgotten"}
    assert readings(*models) == expected
    retrained = attacked(tmp_path, "retrained", drawn(0.0), "train", without="x")
    target = attacked(tmp_path, "target", drawn(3.0), "train", without=None)
    said = readings(*models, retrained, target)
    assert (said["leaky"], said["crushed"]) == ("still leaks", "over-forgotten")
    assert set(said) == set(at)
    # Nothing is read of a benchmark that a rehearsal wrote.
    for model in models:
        model.record.info.results["benchmark"] = {"provenance": [{"what": "stories", "drawn": True}]}
    assert readings(*models, retrained, target) == {}
    assert "stories" in Attacks((models[0],), 200, 0, MEMBERSHIP).caveats[0].lower()
    for model in models:
        del model.record.info.results["benchmark"]
    low = attacked(tmp_path, "low", drawn(-1.0), "train", without="x")
    assert readings(models[2], low) == {"crushed": "not told apart"}


def test_the_page_has_areas_beside_the_retrained_models(tmp_path: Path) -> None:
    """An area far below the retrained model's is an alarm as one above it is."""
    at = {"leaky": 1.0, "crushed": -1.0}
    models = [attacked(tmp_path, name, drawn(shift)) for name, shift in at.items()]
    retrained = attacked(tmp_path, "retrained", drawn(0.0), "train", without="x")
    attacks = Attacks((*models, retrained), 200, 0, MEMBERSHIP)
    rows = {row["model"]: row for row in recovered_rows(attacks, {"loss": "Loss"}).to_dict("records")}
    areas = {name: row["value"] for name, row in rows.items()}
    for name, side, reading_there in (("leaky", 1, "still leaks"), ("crushed", -1, "over-forgotten")):
        assert rows[name]["difference"] == pytest.approx(areas[name] - areas["retrained"])
        assert side * rows[name]["difference_low"] > 0
        assert side * rows[name]["difference_high"] > 0
        assert rows[name]["reading"] == reading_there
    assert pd.isna(rows["retrained"]["difference"])
    assert {row["title"] for row in rows.values()} == {"Membership, Loss"}
    # A model without a result is named in the rows of the others; alone, by what all these attacks are.
    failure = Failure(MEMBERSHIP.name, retrained.run, "no non-members")
    record = Run(tmp_path, replace(retrained.record.info, inputs={"attacks": ["loss", "zlib"]}))
    alone = BroughtBack.gather([], [record], [failure]).table.to_dict("records")
    assert [(row["title"], row["reason"]) for row in alone] == [(MEMBERSHIP.title, "no non-members")]
    (beside,) = failure.rows({MEMBERSHIP.name: attack_class("loss")}, {"loss": "Membership, Loss"})
    assert (beside["attack"], beside["title"]) == ("loss", "Membership, Loss")
    assert recovered_rows(Attacks((), 200, 0, MEMBERSHIP), {}).empty


def test_reading_of_sides() -> None:
    assert reading(["above"]) == "still leaks"
    assert reading(["below", "above"]) == "over-forgotten"
    assert reading(["not told apart"]) == "not told apart"
    assert reading([None]) is None


def test_a_comparison_is_of_the_same_documents() -> None:
    """Rows in another order are joined by document, and a document that one lacks is left out."""
    scores, others = drawn(1.0), drawn(0.0)
    gap = compare(scores, others.iloc[::-1], replicates=100, seed=0).iloc[0]
    expected = summary_of(scores)["auc"]["value"] - summary_of(others)["auc"]["value"]
    assert gap["difference"] == pytest.approx(expected)
    assert gap["reading"] == "above"
    assert compare(scores, others.iloc[5:], replicates=100, seed=0).iloc[0]["n_pairs"] == 235
    rates = compare(scores, others, replicates=100, seed=0).set_index("measure")
    expected = summary_of(scores)["tpr_at_1pct_fpr"]["value"] - summary_of(others)["tpr_at_1pct_fpr"]["value"]
    assert rates.loc["tpr_at_1pct_fpr", "difference"] == pytest.approx(expected)
    assert "tpr_at_0.1pct_fpr" not in rates.index  # takes 1,000 non-members


def test_privacy_leakage_is_the_difference_over_the_retrained_models_area() -> None:
    ours, reference = drawn(1.5), drawn(0.2)
    own, other = (summary_of(scores)["auc"]["value"] for scores in (ours, reference))
    leak = privacy_leaks(ours, reference, **DRAWS).iloc[0]
    assert leak["value"] == pytest.approx((own - other) / other)
    assert leak["low"] < leak["value"] < leak["high"]
    assert leak["muse_value"] == pytest.approx(100 * (other - own) / (1 - other))
    assert leak["muse_low"] < leak["muse_value"] < leak["muse_high"] < 0
    same = privacy_leaks(reference, reference, **DRAWS).iloc[0]
    assert (same["value"], same["muse_value"]) == (0.0, 0.0)
    assert pd.isna(same["high"])
    # Every member of the retrained model's ranks last: nothing can be said relative to an area of 0.
    last, first = (table_of(values, [True, True, False, False]) for values in ([0, 0, 1, 1], [1, 1, 0, 0]))
    assert pd.isna(privacy_leaks(first, last, **DRAWS).iloc[0]["value"])
    assert privacy_leaks(first, last, **DRAWS).iloc[0]["muse_value"] == -100.0
    assert pd.isna(privacy_leaks(last, first, **DRAWS).iloc[0]["muse_value"])


def test_privacy_leakage_of_muses_published_areas() -> None:
    """A target at an area of 0.998 against 0.475: +110.1% as the areas stand, and -99.6% in MUSE's orientation.

    20 members and 50 non-members are 1,000 pairs: 19 members above all and one above 48 win 998 of them; 9 above
    all, one above 25 and ten below all win 475.
    """
    members = [True] * 20 + [False] * 50
    scores = table_of([1.0] * 19 + [0.5] + [0.0] * 48 + [0.75] * 2, members)
    others = table_of([1.0] * 9 + [0.5] + [-1.0] * 10 + [0.0] * 25 + [0.75] * 25, members)
    assert summary_of(scores)["auc"]["value"] == pytest.approx(0.998)
    assert summary_of(others)["auc"]["value"] == pytest.approx(0.475)
    leak = privacy_leaks(scores, others, **DRAWS).iloc[0]
    assert 100 * leak["value"] == pytest.approx(110.1, abs=0.05)
    assert leak["muse_value"] == pytest.approx(-99.6, abs=0.05)


def test_patients_are_told_from_patients() -> None:
    benchmark = build(AmnesiaSettings(synthetic=20, nonmember_patients=5))
    split = benchmark.split("random_10")
    who = candidates(benchmark, split)
    assert {one.subject for one in who if one.member} == set(split.forget)
    assert len({one.subject for one in who if not one.member}) == 5
    assert {one.group for one in who} == {"all"}


def lume(members: dict[str, str], outside: dict[str, str]) -> Benchmark:
    """Documents by name and task; all members but ``kept`` are forgotten."""
    records = tuple(
        Record(name, name, {"task": task, "document": name}, fold="holdout" if name in outside else "train")
        for name, task in {**members, **outside, "kept": "story"}.items()
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
    only, nobody = lume({"a": "story"}, {"c": "public_biography"}), lume({"a": "story"}, {})
    with pytest.raises(InputError, match=r"forgets documents of story, .* are public biography"):
        candidates(only, only.split("released"))
    with pytest.raises(InputError, match="--nonmember-documents 100"):
        candidates(nobody, nobody.split("released"))
