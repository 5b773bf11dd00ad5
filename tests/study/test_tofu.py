"""What forget quality is read against, and what it says of questions that it leaves out."""

from __future__ import annotations

from math import log10
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from medunlearn.papers.tofu.measures import COLUMNS, _forget_quality, _forget_ratio, _is_reference, tofu_measures
from medunlearn.results.runs import Run, RunRecord
from medunlearn.seeds import generator


def evaluated(ratios: list[float | None], split: str = "forget01", without: str | None = None) -> Any:
    """A model whose questions on forget have these truth ratios; None is unscored."""
    names = [f"q{place}" for place in range(len(ratios))]
    return SimpleNamespace(
        run=Run(Path("x"), RunRecord("train", "a model", config={"without": without})),
        record=SimpleNamespace(info={"config": {"split": split}}),
        scores=pd.DataFrame({"question_id": names, "measure": "truth_ratio", "value": ratios}),
        questions=pd.DataFrame({"question_id": names, "side": "forget", "fold": "train"}),
    )


@pytest.mark.parametrize(("without", "is_one"), [("forget01", True), ("forget05", False), (None, False)])
def test_only_a_model_retrained_without_this_split_is_the_reference(without: str | None, is_one: bool) -> None:
    assert _is_reference(evaluated([0.5], without=without)) is is_one


def test_what_is_left_out_is_said() -> None:
    own, reference = [0.1, 0.4, 0.9, None], [0.2, None, None, 1.5]
    row, logarithm = _forget_quality(evaluated(own), evaluated(reference, without="forget01"), "")
    exact = stats.ks_2samp([0.1, 0.4, 0.9], [0.2, 1.5], method="exact").pvalue
    assert row["value"] == pytest.approx(exact)
    assert (logarithm["measure"], logarithm["value"]) == ("log10 of forget quality", pytest.approx(log10(exact)))
    assert row["n"] == 3
    assert row["note"] == "without truth ratio, left out: 1 here, 2 of the retrained model's"
    assert _forget_quality(evaluated([0.1]), evaluated([0.2], without="forget01"), "")[0]["note"] == ""
    (row,) = _forget_quality(evaluated([0.5, 0.7]), None, "")
    assert (row["value"], row["n"]) == (None, 0)
    assert row["note"].startswith("no retrained model of this split")


def test_forget_quality_is_open_where_the_reference_has_another_tokenizer() -> None:
    own, reference = evaluated([0.1, 0.4]), evaluated([0.2, 1.5], without="forget01")
    for model, vocabulary in ((own, "a"), (reference, "b")):
        vars(model.run)["vocabulary"] = vocabulary
    (row,) = _forget_quality(own, reference, "")
    assert (row["value"], row["n"]) == (None, 0)
    assert "another tokenizer" in row["note"]


def test_forget_truth_ratio_by_hand() -> None:
    # (0.5 + 1/4 + 1 + 0) / 4
    row = _forget_ratio(evaluated([0.5, 4.0, 1.0, 0.0, None]), "")
    assert row == dict(zip(COLUMNS, ("a model", "forget truth ratio", 0.4375, 4, row["note"]), strict=True))
    assert row["note"] == "without truth ratio, left out: 1"
    assert _forget_ratio(evaluated([None]), "")["value"] is None


SETS = {"fictitious": 0.9, "real_authors": 0.6, "world_facts": 0.3}


def utility_model(ratios: dict[str, float]) -> Any:
    """One question a set: its probability is the set's number, ROUGE-L 0.5, and these truth ratios."""
    rows = []
    for of, probability in SETS.items():
        numbers = {"rouge_l": 0.5, "answer_probability": probability, "choice_probability": probability}
        for suffix, ratio in ratios.items():
            numbers |= {f"truth_ratio{suffix}": ratio, f"truth_ratio_utility{suffix}": max(0.0, 1 - ratio)}
        rows += [{"question_id": of, "measure": name, "value": value} for name, value in numbers.items()]
    fold = ["train", "utility", "utility"]
    questions = pd.DataFrame({"question_id": list(SETS), "subject": list(SETS), "side": "retain", "fold": fold})
    return SimpleNamespace(
        run=Run(Path("x"), RunRecord("train", "a model", config={"without": None})),
        record=SimpleNamespace(info={"config": {"split": "forget01"}}),
        scores=pd.DataFrame(rows),
        questions=questions,
    )


def utilities(ratios: dict[str, float]) -> dict[str, float]:
    benchmark: Any = SimpleNamespace(record={of: SimpleNamespace(groups={"set": of}) for of in SETS})
    evaluation: Any = SimpleNamespace(models=(utility_model(ratios),))
    table = tofu_measures(evaluation, benchmark)
    assert not table["measure"].duplicated().any()
    return {row["measure"]: row["value"] for row in table.to_dict("records") if "utility" in row["measure"]}


def test_model_utility_in_both_variants_by_hand() -> None:
    found = utilities({"": 0.5, ".geometric": 0.2})
    # Nine parts: 0.9, 0.6, 0.3, three of 0.5, and three of 1 - 0.5 = 0.5 or 1 - 0.2 = 0.8.
    others = 1 / 0.9 + 1 / 0.6 + 1 / 0.3 + 3 / 0.5
    assert found["model utility"] == pytest.approx(9 / (others + 3 / 0.5))
    assert found["model utility, TOFU's released code"] == pytest.approx(9 / (others + 3 / 0.8))
    assert found["fictitious: truth_ratio_utility.geometric"] == pytest.approx(0.8)
    # A variant that was not scored has no rows.
    assert "model utility, TOFU's released code" not in utilities({"": 0.5})


def test_forget_quality_of_control_models() -> None:
    """The retrained model over again has 1; one that did nothing and a destroyed one have next to nothing."""
    draw = generator("tofu controls")
    knows_not, knows = (draw.lognormal(mean, 0.4, size=400).tolist() for mean in (0.0, -1.0))
    retrained = evaluated(knows_not, without="forget01")
    quality = {
        name: [row["value"] for row in _forget_quality(evaluated(ratios), retrained, "")]
        for name, ratios in {"everything right": knows_not, "nothing": knows, "destroyed": [1.0] * 400}.items()
    }
    assert quality["everything right"] == [1.0, 0.0]
    for name in ("nothing", "destroyed"):
        p, logarithm = quality[name]
        assert p < 1e-40
        assert logarithm == pytest.approx(log10(p))
