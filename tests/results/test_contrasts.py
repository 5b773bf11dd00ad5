"""Contrasts: weighted sums of cells under draws of subjects that their terms share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.errors import InputError
from medunlearn.results.contrasts import Draws, Stratum, Term, complete_items
from medunlearn.results.summary import compare
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import Observations, pool_seeds, resample_means, resample_together
from medunlearn.statistics.intervals import from_draws

CELLS = ("split", "model", "side", "kind")
FORGET = Stratum.of(11, side="forget", split="small")


def rows(model: str, split: str, subjects: int, *, seed: int = 0, shift: float = 0.0) -> pd.DataFrame:
    """Two questions a subject of two kinds, measures em and te on forget."""
    draw = generator("contrasts", model, split, seed)
    names = [(f"{split}-{s}-{kind}", f"p{s}", kind) for s in range(subjects) for kind in ("cloze", "factual")]
    tables = [
        pd.DataFrame(names, columns=["item", "subject", "kind"]).assign(
            measure=measure, value=np.clip(draw.normal(0.5 + shift, 0.1, len(names)), 0, 1)
        )
        for measure in ("em", "te", "rouge_l")
    ]
    return pd.concat(tables).assign(reason=None, model=model, split=split, side="forget", seed=seed)


SCORES = pd.concat(
    [
        *(
            rows(model, "small", 8, seed=seed, shift=shift)
            for model, shift in (("t", 0.3), ("m", 0.0))
            for seed in (0, 1)
        ),
        *(rows(model, "large", 12, shift=shift) for model, shift in (("t", 0.3), ("m", -0.1))),
    ],
    ignore_index=True,
)


def draws(scores: pd.DataFrame = SCORES, **changes: Any) -> Draws:
    how: dict[str, Any] = {"rollup": "kind", "composites": ("MU", "AFE", "DS"), "replicates": 80, "seed": 3}
    return Draws(scores, CELLS, **{**how, **changes})


def part_of(**labels: object) -> pd.DataFrame:
    part = SCORES
    for name, value in labels.items():
        part = part[part[name] == value]
    return part


def values_of(model: str, split: str, seed: int, measure: str) -> Observations:
    part = part_of(model=model, split=split, seed=seed, measure=measure)
    return Observations(part[["value"]].to_numpy(float), part["subject"].tolist())


def test_a_difference_of_two_models_over_two_seeds_is_that_of_the_joint_draws() -> None:
    cell = {"split": "small", "model": "m", "kind": "all"}
    contrast = draws().contrast([Term(1, cell, "em", FORGET), Term(-0.8, {**cell, "model": "t"}, "em", FORGET)])
    tables = [values_of(model, "small", seed, "em") for model in "mt" for seed in (0, 1)]
    m0, m1, t0, t1 = resample_together(tables, replicates=80, seed=11)
    points = np.array([m.point[0] - 0.8 * t.point[0] for m, t in ((m0, t0), (m1, t1))])
    replicates = np.column_stack([m.draws[:, 0] - 0.8 * t.draws[:, 0] for m, t in ((m0, t0), (m1, t1))])
    pooled = pool_seeds(points, replicates, 8, bounds=(-0.8, 1.0), seed=3)
    assert (contrast.value, contrast.low, contrast.high) == pytest.approx(
        (pooled.value, pooled.low, pooled.high), rel=1e-12
    )
    assert (contrast.n_subjects, contrast.by_seed, contrast.measure) == (8, pytest.approx(tuple(points)), "em")


def test_a_growth_over_two_splits_draws_a_shared_subject_once() -> None:
    both = Stratum.of(5, side="forget", split=("small", "large"))
    of_seed = SCORES[SCORES["seed"] == 0]
    cell = {"model": "m", "kind": "all"}
    terms = [Term(1, {**cell, "split": "large"}, "em", both), Term(-1, {**cell, "split": "small"}, "em", both)]
    contrast = draws(of_seed).contrast(terms)
    large, small = resample_together(
        [values_of("m", "large", 0, "em"), values_of("m", "small", 0, "em")], replicates=80, seed=5
    )
    gaps = (large.draws - small.draws)[:, 0]
    gap = from_draws(float((large.point - small.point)[0]), gaps, int(small.n_clusters[0]), (-1.0, 1.0))
    assert (contrast.low, contrast.high) == pytest.approx(gap.limits(0.05))


def test_composites_are_made_of_the_parts_that_every_term_has() -> None:
    cell = {"split": "small", "model": "m", "kind": "all"}
    lacking = SCORES[~((SCORES["model"] == "t") & (SCORES["measure"] == "em"))]
    terms = [Term(1, cell, "AFE", FORGET), Term(-1, {**cell, "model": "t"}, "AFE", FORGET)]
    assert draws().contrast(terms).measure == "H(1-rouge_l, 1-em)"
    assert draws(lacking).contrast(terms).measure == "H(1-rouge_l)"
    collapsed = SCORES.assign(value=SCORES["value"].where(SCORES["measure"] != "te", 0.0))
    assert draws(collapsed).contrast([Term(1, cell, "DS", FORGET)]).value == 1.0


def test_a_stratum_of_some_subjects() -> None:
    some = Stratum.of(1, subjects=[f"p{n}" for n in range(6)], split="small")
    cell = {"split": "small", "model": "m", "kind": "cloze"}
    contrast = draws(SCORES[SCORES["seed"] == 0]).contrast([Term(1, cell, "em", some)])
    part = part_of(model="m", split="small", seed=0, measure="em", kind="cloze")
    assert contrast.value == pytest.approx(part["value"].iloc[:6].mean())
    assert contrast.n_subjects == 6


def test_epochs_are_compared_on_the_items_that_all_have() -> None:
    epochs = pd.concat([rows("m", "small", 8).assign(epoch=n) for n in (0, 1)], ignore_index=True)
    lost = (epochs["epoch"] == 1) & (epochs["item"] == "small-0-cloze") & (epochs["measure"] == "em")
    epochs.loc[lost, "value"] = None
    epochs.loc[epochs["epoch"] == 1, "value"] /= 2
    complete = complete_items(epochs[epochs["measure"] == "em"], ("epoch",))
    assert len(complete) == 30
    contrast = Draws(complete, ("epoch", "side"), seeds=None, replicates=60).contrast(
        [Term(1, {"epoch": 1}, "em", Stratum.of(0)), Term(-0.1, {"epoch": 0}, "em", Stratum.of(0))]
    )
    wide = complete.pivot(index=["item", "subject"], columns="epoch", values="value").reindex(
        complete["item"].unique(), level=0
    )
    replicates = resample_means(wide.to_numpy(float), wide.index.get_level_values(1).tolist(), replicates=60)
    gaps = replicates.draws[:, 1] - 0.1 * replicates.draws[:, 0]
    assert contrast.value is not None
    # Seven subjects with two items and one with a single one.
    gap = from_draws(contrast.value, gaps, 8, (-0.1, 1.0), effective=15**2 / (7 * 4 + 1))
    assert (contrast.low, contrast.high) == pytest.approx(gap.limits(0.05))


def test_no_value_says_why() -> None:
    cell = {"split": "small", "model": "m", "kind": "all"}
    joint = draws()
    assert joint.contrast([]).reason == "there is nothing to compare"
    assert "model x" in joint.contrast([Term(1, {**cell, "model": "x"}, "em", FORGET)]).reason
    assert joint.contrast([Term(1, cell, "ls", FORGET)]).reason == "ls was not measured"
    four = Stratum.of(1, subjects=[f"p{n}" for n in range(4)], split="small")
    few = joint.contrast([Term(1, cell, "em", four)])
    assert (few.low, few.n_subjects, few.reason) == (None, 4, "fewer than 5 subjects: no interval")
    apart = SCORES[~((SCORES["model"] == "t") & (SCORES["seed"] == 0))]
    alone = apart[~((apart["model"] == "m") & (apart["seed"] == 1))]
    pair = [Term(1, cell, "em", FORGET), Term(-1, {**cell, "model": "t"}, "em", FORGET)]
    assert draws(alone).contrast(pair).reason == "no seed has all the models"
    with pytest.raises(InputError, match="one measure"):
        joint.contrast([Term(1, cell, "em", FORGET), Term(-1, cell, "rouge_l", FORGET)])
    with pytest.raises(InputError, match="several cells"):
        joint.contrast([Term(1, {"model": "m"}, "em", FORGET)])
    with pytest.raises(InputError, match="not 'epoch'"):
        joint.contrast([Term(1, cell, "em", Stratum.of(0, epoch=1))])


def test_unlike_labels_of_two_models_are_refused() -> None:
    ours = SCORES[(SCORES["model"] == "m") & (SCORES["seed"] == 0)]
    with pytest.raises(InputError, match="only one model"):
        compare(ours, ours.assign(side="retain"), ("side", "split"))
