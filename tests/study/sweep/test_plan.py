"""A sweep before it runs: what its cells are, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import read_yaml
from medunlearn.errors import ConfigError
from medunlearn.study.experiment import plan as experiment
from medunlearn.study.sweep.survey import foresee
from medunlearn.study.sweep.sweep_graph import shown, sweep_graph
from medunlearn.study.sweep.sweep_plan import plan

Values = dict[str, Any]


def cells_of(values: Values) -> list[Any]:
    return [*sweep_graph(plan(values)).cells]


def names(cells: Iterable[Any]) -> tuple[str, ...]:
    return tuple(cell.name for cell in cells)


def test_the_cells_of_two_seeds(sweep_values: Values) -> None:
    search = {"split": "random_05", "lr": [0.1, 0.2]}
    unlearn = {**sweep_values["unlearn"], "methods": ["npo", "rmu"], "search": search}
    cells = cells_of({**sweep_values, "unlearn": unlearn})
    assert Counter(cell.kind for cell in cells) == {
        "target": 2,
        "retrained": 2,
        "search": 4,
        "choose": 2,
        "unlearn": 8,
        "evaluate": 2 * (2 + 1 + 4),
    }
    by_name = {cell.name: cell for cell in cells}
    assert len(by_name) == len(cells)
    assert names(by_name["npo random_25, seed 1"].needs) == ("target, seed 1", "choose npo")
    assert names(by_name["choose npo"].after) == ("search npo 0.1", "search npo 0.2")
    assert {cell.seed for cell in cells if cell.kind in ("search", "choose")} == {0}
    assert names(by_name["evaluate retrained random_25, seed 0"].needs) == ("retrained random_25, seed 0",)
    # Every cell stands behind those that it waits for.
    seen: set[str] = set()
    for cell in cells:
        assert {*names(cell.needs), *names(cell.after)} <= seen
        seen.add(cell.name)


def test_contexts_ask_each_model_again_and_evaluations_of_one_model_never_meet(sweep_values: Values) -> None:
    small = {**sweep_values, "seeds": [0], "retrain": False, "unlearn": {"methods": ["npo"]}}
    cells = cells_of({**small, "splits": ["random_10"], "contexts": ["note", "closed_book"]})
    assert [(cell.name, cell.context) for cell in cells if cell.kind == "evaluate"] == [
        ("evaluate target on random_10 in note", "note"),
        ("evaluate target on random_10 in closed_book", "closed_book"),
        ("evaluate npo random_10 in note", "note"),
        ("evaluate npo random_10 in closed_book", "closed_book"),
    ]
    cells = [cell for cell in cells_of(small) if cell.kind == "evaluate"]
    assert len({cell.alone for cell in cells if names(cell.needs) == ("target",)}) == 1
    assert len({cell.alone for cell in cells}) == 3


def test_a_request_names_no_patient() -> None:
    assert "0007" not in shown("patient=patient-0007")
    assert shown("patient=a") != shown("patient=b")
    assert shown("random_05") == "random_05"


def test_it_agrees_with_run(sweep_values: Values) -> None:
    unlearn = {**sweep_values["unlearn"], "npo.beta": 0.3, "methods": ["npo"]}
    del unlearn["search"]
    sweep = plan({**sweep_values, "seeds": [3], "splits": ["random_25"], "unlearn": unlearn})
    same = {key: value for key, value in sweep_values.items() if key not in ("seeds", "splits", "retrain")}
    one = experiment({**same, "seed": 3, "split": "random_25", "unlearn": unlearn})
    cells = {cell.kind: cell for cell in sweep_graph(sweep).cells}
    assert sweep.training(3) == one.target
    assert sweep.training(3, "random_25") == one.retrained
    assert (cells["unlearn"].unlearning(),) == one.methods
    assert cells["evaluate"].settings == one.evaluate


def test_a_search_is_asked_on_the_train_fold_in_the_first_context(sweep_values: Values) -> None:
    sweep = plan({**sweep_values, "contexts": ["note", "closed_book"]})
    cell = next(cell for cell in sweep_graph(sweep).cells if cell.kind == "search")
    asked = cell.measure
    assert (asked.split, asked.folds, asked.context) == ("random_05", ("train",), "note")
    assert cell.unlearning().lr == 1e-4


def test_a_search_on_a_reported_split_is_noted(sweep_values: Values) -> None:
    unlearn = {**sweep_values["unlearn"], "search": {"split": "random_10", "lr": [1e-3]}}
    assert "also reported" in plan({**sweep_values, "unlearn": unlearn}).notes[0]
    assert not plan(sweep_values).notes


def test_one_is_as_good_as_a_list(sweep_values: Values) -> None:
    values = {key: value for key, value in sweep_values.items() if key != "seeds"}
    sweep = plan({**values, "seed": 4, "splits": "random_25", "contexts": "note", "retrain": "random_25"})
    assert (sweep.seeds, sweep.settings.splits, sweep.settings.contexts) == ((4,), ("random_25",), ("note",))
    assert sum(cell.kind == "retrained" for cell in sweep_graph(sweep).cells) == 1
    assert plan(values).seeds == (0,)
    assert sum(cell.kind == "retrained" for cell in cells_of({**values, "retrain": True})) == 2
    assert sum(cell.kind == "retrained" for cell in cells_of({**values, "retrain": False})) == 0


def test_every_mistake_at_once(sweep_values: Values) -> None:
    search = {"split": "randm_05", "lr": [1e-3, -1.0, 1e-3]}
    lists = {"splits": ["randm_10", "random_25", "random_25"], "retrain": ["random_15"]}
    wrong = {
        **sweep_values,
        **lists,
        "train": {"model": "tiny", "epoch": 1, "seed": 3},
        "unlearn": {"methods": ["npo", "rmuu", "npo"], "npo.btea": 1, "ga.lr": 1e-3, "search": search},
        "evaluate": {"limit": 0, "split": "x"},
    }
    with pytest.raises(ConfigError) as caught:
        plan(wrong)
    problems = "\n".join(caught.value.problems)
    for part in (
        "Did you mean 'epochs'?",
        "train.seed: in a sweep it is set by seeds",
        "unlearn.methods names 'npo' twice",
        "Did you mean 'rmu'?",
        "Did you mean 'beta'?",
        "limit=0",
        "evaluate.split",
        "splits names 'random_25' twice",
        "splits: There is no split 'randm_10'. Did you mean 'random_10'?",
        "retrain: There is no split of this sweep 'random_15'",
        "unlearn.ga.lr: unlearn.search chooses the rates",
        "lr=-1.0: a rate is above 0",
        "unlearn.search.lr names 0.001 twice",
        "unlearn.search.split: There is no split 'randm_05'. Did you mean 'random_05'?",
    ):
        assert part in problems, problems


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"nmae": "x"}, "Did you mean 'name'?"),
        ({"unlearn": {"methods": ["ga"], "search": {"split": "random_05", "lr": [1], "budget": 3}}}, "'budget'"),
        ({"seed": 1}, "seed and seeds are both given"),
        ({"retrain": 3}, "give true, false, or a list of splits"),
        ({"contexts": ["not"]}, "contexts.0='not'"),
        ({"splits": []}, "splits=[]"),
        ({"benchmark": {"builder": "amnesa", "synthetic": 20}}, "Did you mean 'amnesia'?"),
        ({"benchmark": {"folder": "nowhere"}}, "There is no benchmark folder nowhere"),
        ({"evaluate": {"metrics": ["exact_match"]}}, "holds no part of MU"),
        ({"evaluate": {"metrics": ["rouge"]}}, "Did you mean 'rouge_l'?"),
        ({"contexts": ["note"], "evaluate": {"context": "note"}}, "evaluate.context: contexts sets it"),
        (
            {"train": {"model": "tiny", "sharding": "fsdp2"}},
            "train: sharding=fsdp2 divides a model among processes: use for example --on torchrun",
        ),
        ({"unlearn": {"methods": ["ga"], "search": [1e-3]}}, "give it a split and rates"),
        ({"unlearn": {"methods": "gaa, npo"}}, "no method 'gaa'"),
    ],
)
def test_refusals(sweep_values: Values, changes: Values, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan({**sweep_values, **changes})
    assert part in str(caught.value)


def test_torchrun_is_refused(sweep_values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="start it without torchrun"):
        plan(sweep_values)


def test_a_plan_writes_nothing(sweep_values: Values, tmp_path: Path) -> None:
    found = foresee(plan({**sweep_values, "out": tmp_path / "out"}))
    assert found.left == len(found.rows())
    assert dict.fromkeys(name for name, _, _ in found.counts()) == dict.fromkeys(
        ["target", "retrained", "search", "choose", "unlearn", "evaluate"]
    )
    assert found.seconds_left()[1] == sum(row["kind"] != "choose" for row in found.rows())
    assert len(found.table()) == found.left
    assert not (tmp_path / "out").exists()


def test_the_example_of_400_patients_is_what_the_paper_compares() -> None:
    """AMNESIA, Section 4.2: four methods on random and on disease-level patients, with the retrained models."""
    values = read_yaml(Path(__file__).parents[3] / "examples" / "sweep-amnesia-400.yaml")
    sweep = plan(values)
    assert values["benchmark"]["synthetic"] == 400
    cells = sweep_graph(sweep).cells
    assert Counter(cell.kind for cell in cells) == {
        "target": 1,
        "retrained": 3,
        "search": 20,
        "choose": 4,
        "unlearn": 24,
        "evaluate": 2 * (6 + 3 + 24),  # in both context modes
    }
    unlearned = [cell.unlearning() for cell in cells if cell.kind == "unlearn"]
    assert {one.method: one.trainable for one in unlearned} == {
        "rmu": "default",
        "graddiff": "layers:1",
        "kl_min": "layers:1",
        "simnpo": "layers:1",
    }
    assert {one.epochs for one in unlearned} == {3}
