"""The papers' experiments at the scale ``tiny``: the same but for sizes; and one of them to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import ROOT

import medunlearn as mu
from medunlearn.cli.main import app
from medunlearn.config import read_yaml
from medunlearn.config.reading import merged, scaled
from medunlearn.errors import ConfigError
from medunlearn.results.runs import Run
from medunlearn.study.experiment import plan as plan_experiment
from medunlearn.study.plans.capacity import Capacity
from medunlearn.study.plans.run_forecast import forecast
from medunlearn.study.sweep.sweep_cost import sweep_cost
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan as plan_sweep

EXPERIMENTS = ("lume-olmo",)
SWEEPS = ("amnesia-llama3-8b", "medforget-lingshu")

# A size: how much there is of models, data, steps and answers, and what a model of another size has of its own (its
# learning rate, the type and place of its weights); not what is done with them.
MODEL = {"model", "tiny_width", "tiny_layers"}
STEPS = {"lr", "epochs", "batch_size", "micro_batch_size", "max_length"}
MACHINE = {"precision", "weights", "sharding", "gradient_checkpointing"}
SIZES = {
    "benchmark": {"synthetic", "institutions", "patients", "studies", "sections", "image_size", "max_pixels"},
    "train": MODEL | STEPS | MACHINE,
    "unlearn": STEPS | MACHINE,
    "evaluate": {"limit", "max_new_tokens", "replicates", "weights", "seed"},
    "attack": {"replicates", "weights"},
    "judge": {"per_group", "limit", "replicates", "allow_broken"},
    "": {"out", "scale", "scales", "seeds", "on", "processes"},
}
# What a small twin cannot have: data that must be asked for, models that are downloads.
STAND_INS = {
    "benchmark": {
        *("notes", "llm", "temperature", "mimic_cxr", "images", "general"),
        *("documents_per_task", "nonmember_documents"),
    },
    "unlearn": {"utility", "attack"},
    "evaluate": {"encoder", "nli", "extractor"},
    "": {"adopt", "utility", "extractor_python", "judges", "expected"},
}


def differences(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def settings_of(name: str, scale: str | None) -> dict[str, dict[str, Any]]:
    """Every resolved setting of an experiment or a sweep by section; of methods by ``unlearn METHOD``."""
    values = merged(ROOT / "examples" / f"{name}.yaml", {"scale": scale} if scale else {})
    sections: dict[str, dict[str, Any]] = {"benchmark": values["benchmark"]}
    if name in EXPERIMENTS:
        experiment = plan_experiment(values)
        methods = {settings.method: settings for settings in experiment.methods}
        sections |= {"train": experiment.target.model_dump(), "evaluate": experiment.evaluate.model_dump()}
        sections[""] = {**experiment.settings.model_dump(), "adopt": experiment.adopt}
    else:
        sweep = plan_sweep(values)
        stages = sweep_graph(sweep)
        cells: dict[Any, Any] = {cell.method: cell for cell in reversed(stages.cells) if cell.kind == "unlearn"}
        methods = {str(method): cell.unlearning() for method, cell in cells.items()}
        sections |= {"train": sweep.training(0).model_dump(), "evaluate": sweep.evaluation.model_dump()}
        sections[""] = sweep.settings.model_dump()
        if sweep.settings.attack:
            sections["attack"] = stages.attacks[0].settings.model_dump()
        assert sweep.judges is not None
        sections |= {f"judge {task}": own.model_dump() for task, own in sweep.judges.tasks.items()}
        sections[""]["judges"] = len(sweep.judges.judges)
    for section in ("benchmark", "train", "unlearn", "evaluate", "attack", "judge"):
        sections[""].pop(section, None)
    sections |= {f"unlearn {name}": settings.model_dump() for name, settings in methods.items()}
    # After each epoch: settings of their own.
    of_epochs = {key: settings.pop("evaluate") for key, settings in sections.items() if key.startswith("unlearn ")}
    return sections | {f"evaluate {key}": settings for key, settings in of_epochs.items()}


@pytest.mark.parametrize("name", [*EXPERIMENTS, *SWEEPS])
def test_the_twin_differs_in_nothing_but_sizes(name: str) -> None:
    paper, twin = settings_of(name, None), settings_of(name, "tiny")
    assert paper.keys() == twin.keys()
    assert paper["train"]["model"] != twin["train"]["model"]
    for section, settings in paper.items():
        kind = section.partition(" ")[0]
        others = differences(settings, twin[section]) - SIZES.get(kind, set()) - STAND_INS.get(kind, set())
        assert not others, (section, others)
    if name in SWEEPS:
        assert paper[""]["judges"] == twin[""]["judges"]


def test_sizes_are_told_from_all_else() -> None:
    paper, twin = (settings_of("medforget-lingshu", scale) for scale in (None, "tiny"))
    assert "lr" in differences(paper["train"], twin["train"])
    assert "trainable" in differences(paper["train"], {**twin["train"], "trainable": "all"}) - SIZES["train"]


def test_the_papers_experiments_are_whole() -> None:
    amnesia = read_yaml(ROOT / "examples" / "amnesia-llama3-8b.yaml")
    assert len(amnesia["splits"]) == 17
    assert set(mu.build.amnesia(synthetic=30, seed=0).splits) == set(amnesia["splits"])
    assert len(amnesia["unlearn"]["methods"]) == 4
    assert len(amnesia["judge"]["llm"]) == 3
    assert amnesia["evaluate"]["extractor"] == "scispacy"
    lingshu = read_yaml(ROOT / "examples" / "medforget-lingshu.yaml")
    # A picture token is 28 x 28 pixels; with the question it is to fit into the preset's 2,048.
    assert lingshu["benchmark"]["max_pixels"] // 28**2 + 256 < 2048
    assert "factuality" in lingshu["judge"]
    # All four sets are there in small, too.
    assert (ROOT / scaled(lingshu, "tiny")["benchmark"]["general"]).exists()


def test_scales(tmp_path: Path) -> None:
    values = {"out": "runs/x", "train": {"lr": 1.0, "model": "big"}, "scales": {"tiny": {"train.model": "tiny"}}}
    small = scaled(values, "tiny")
    assert (small["out"], small["train"]) == ("runs/x-tiny", {"lr": 1.0, "model": "tiny"})
    assert merged(values, {"scale": "tiny", "train.model": "mine", "out": "y"})["train"]["model"] == "mine"
    assert merged(values, {"scale": "tiny", "out": "y"})["out"] == "y"
    assert merged({**values, "scale": "tiny"}, {})["train"]["model"] == "tiny"
    assert scaled(values, None) == values
    with pytest.raises(ConfigError, match=r"scale of this file 'tinny'. Did you mean 'tiny'"):
        merged(values, {"scale": "tinny"})
    with pytest.raises(ConfigError, match="Known: none"):
        merged({"out": "x"}, {"scale": "tiny"})


def test_quick_selects_the_scale_of_that_name() -> None:
    values = {"out": "runs/x", "seeds": [0, 1], "scales": {"quick": {"seeds": [0]}, "tiny": {}}}
    small = merged(values, {"quick": True})
    assert (small["out"], small["seeds"], small["scale"]) == ("runs/x-quick", [0], "quick")
    assert small == {**merged(values, {"scale": "quick"}), "quick": True} == merged({**values, "quick": True}, {})
    assert merged(values, {"quick": False}) == {**values, "quick": False}
    for content, overrides in (({"out": "x"}, {}), (values, {"scale": "tiny"})):
        with pytest.raises(ConfigError, match="quick"):
            merged(content, {"quick": True, **overrides})


def test_lume_s_twin_runs_to_its_report_from_an_adopted_model(tmp_path: Path) -> None:
    """With a judge; the model and its tokenizer lie in two places, as the released ones do."""
    values = read_yaml(ROOT / "examples" / "lume-olmo.yaml")
    new = {"builder": "lume", "new": True, "stories": 2, "personal_biographies": 2, "public_biographies": 2}
    small = {"scale": "tiny", "benchmark": new, "split": "half", "train.epochs": 1, "unlearn.epochs": 1}
    small |= {"train.tiny_width": 32, "unlearn.methods": ["npo"], "evaluate.max_new_tokens": 4}
    small |= {"evaluate.ranked": 1, "evaluate.allow_broken": True, "unlearn.evaluate": {"allow_broken": True}}
    base = mu.train(
        mu.build.lume(**{k: v for k, v in new.items() if k != "builder"}, out=tmp_path / "bench"),
        model="tiny", epochs=1, tiny_width=32, tiny_layers=2, out=tmp_path / "base", quiet=True,
    )  # fmt: skip
    released = mu.export(base, tmp_path / "released")
    words = tmp_path / "words"
    words.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (released / name).rename(words / name)
    adopt = {**values["adopt"], "model": str(released), "tokenizer": str(words), "weights": "fp32"}
    judge = {"llm": "rehearsal", "document": {}, "factuality": {"allow_broken": True, "replicates": 20}}
    done = mu.run(values, **small, adopt=adopt, attack={}, judge=judge, out=tmp_path / "out", quiet=True)
    assert done.failed == ()
    page = done.report.with_suffix(".md").read_text()
    assert "NPO" in page
    assert "Judged by panels" in page
    (target,) = (tmp_path / "out").glob("adopted-*")
    assert not list((tmp_path / "out").glob("target-*"))
    assert Run.open(target).info.verb == "adopt"


@pytest.mark.parametrize("name", [*EXPERIMENTS, *SWEEPS])
def test_a_large_example_fits_the_device_that_it_states(name: str) -> None:
    """The plan that a file's own header gives: memory of the largest stage on an H100, whatever this disk is."""
    values = merged(ROOT / "examples" / f"{name}.yaml", {"device_name": "H100"})
    capacity: Capacity | None
    if name in EXPERIMENTS:
        if not (ROOT / values["benchmark"]["released"]).is_dir():
            pytest.skip("LUME's released files are not there")
        planned = forecast(plan_experiment(values))
        capacity, total = planned.capacity, planned.total
    else:
        sweep = plan_sweep(values)
        cost = sweep_cost(sweep, sweep_graph(sweep))
        capacity, total = cost.capacity, cost.total
    assert capacity is not None
    assert 10e9 < capacity.needed(total.memory) < 80e9


@pytest.mark.parametrize(
    ("name", "verb", "plan"), [("lume-olmo", "run", plan_sweep), ("medforget-lingshu", "sweep", plan_experiment)]
)
def test_a_file_of_another_verb_is_told_by_it(name: str, verb: str, plan: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(merged(ROOT / "examples" / f"{name}.yaml", {}))
    (problem,) = refused.value.problems
    assert f"`medunlearn {verb}`" in problem
    wrong = {"run": "sweep", "sweep": "run"}[verb]
    said = CliRunner().invoke(app, [wrong, str(ROOT / "examples" / f"{name}.yaml"), "--plan"])
    assert said.exit_code == 2
    assert f"`medunlearn {verb}`" in " ".join(said.output.split())
    assert len(said.output) < 400
