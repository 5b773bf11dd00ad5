"""Defaults by model, and keys that go to one method alone."""

from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import TrainSettings, UnlearnSettings
from medunlearn.errors import ConfigError
from medunlearn.methods import make_method
from medunlearn.results.runs import Run, RunRecord
from medunlearn.study.presets import is_tiny, presets, train_settings, unlearn_settings

# AMNESIA, Table 6 and Appendix D.
TABLE_6 = {
    "lr": 2e-5, "schedule": "cosine", "warmup_ratio": 0.03, "weight_decay": 0.0, "max_length": 2048,
    "batch_size": 64,
}  # fmt: skip


TINY = presets()["tiny"]


def train(model: str = "org/name", **values: Any) -> TrainSettings:
    return train_settings({"model": model, **values})


def unlearn(method: str = "npo", *, tiny: bool = False, **values: Any) -> UnlearnSettings:
    return unlearn_settings({"method": method, "split": "random_05", **values}, tiny=tiny)


def test_the_tiny_model_has_settings_of_its_own() -> None:
    tiny, real = train("tiny"), train()
    assert {key: getattr(tiny, key) for key in TINY.train} == TINY.train
    assert (tiny.lr, tiny.epochs, TINY.methods["rmu"]["arguments"]["coefficient"]) == (3e-3, 18, 20.0)
    assert (real.lr, real.epochs, real.template) == (2e-5, 3, "clinical")
    given = train("tiny", epochs=1, template="chat")
    assert (given.epochs, given.template, given.lr) == (1, "chat", TINY.train["lr"])
    own, npo = TINY.for_method("npo"), unlearn(tiny=True)
    assert {key: getattr(npo, key) for key in own} == own
    assert unlearn(tiny=True, lr=0.5, epochs=1).lr == 0.5
    assert train(preset="tiny").lr == TINY.train["lr"]
    assert unlearn("rmu", preset="tiny") == unlearn("rmu", tiny=True)
    assert is_tiny(Run(Path("x"), RunRecord(lineage=["tiny", "runs/target"])))
    assert not is_tiny(Run(Path("x"), RunRecord(lineage=["org/tiny"])))


@pytest.mark.parametrize("preset", [{}, {"preset": "amnesia-8b"}, {"preset": "tiny"}])
def test_zero_epochs_train_nothing(preset: dict[str, str]) -> None:
    assert train(epochs=0, **preset).pretrain_epochs == 0
    assert train(epochs=0, pretrain_epochs=2, **preset).pretrain_epochs == 2


def test_arguments_add_to_the_preset() -> None:
    preset = dict(TINY.methods["rmu"]["arguments"])
    assert preset["layer"] == 1
    assert unlearn("rmu").arguments == {}
    for given in ({}, {"alpha": 4.0}, {"layer": 2}):
        settings = unlearn("rmu", tiny=True, **{f"rmu.{key}": value for key, value in given.items()})
        assert (settings.lr, settings.arguments) == (TINY.methods["rmu"]["lr"], {**preset, **given})
    assert TINY.methods["rmu"]["arguments"] == preset


@pytest.mark.parametrize(
    ("method", "section", "arguments", "lr"),
    [
        ("npo", {"lr": 1e-4, "npo.beta": 0.2, "npo.lr": 3e-4}, {"beta": 0.2}, 3e-4),
        ("npo", {"lr": 1e-4, "npo.beta": 0.2, "simnpo.lr": 5e-4, "rmu.layer": 3}, {"beta": 0.2}, 1e-4),
        ("simnpo", {"lr": 1e-4, "npo.beta": 0.2, "simnpo.lr": 5e-4, "rmu.layer": 3}, {}, 5e-4),
        ("npo", {"lr": 1.0, "arguments": {"beta": 0.3}}, {"beta": 0.3}, 1.0),
        ("npo", {"lr": 1.0, "arguments.beta": 0.3}, {"beta": 0.3}, 1.0),
        (
            "my.package:Mine",
            {"my.package:Mine.beta": 0.2, "my.package:Mine.lr": 0.5, "npo.x": 1},
            {"beta": 0.2},
            0.5,
        ),
        ("rmu", {"lr": 1.0, "arguments.seed": 5, "rmu.seed": 6}, {"seed": 5}, 1.0),
    ],
)
def test_a_key_of_a_method_is_its_own_setting_or_the_runs(
    method: str, section: dict[str, Any], arguments: dict[str, Any], lr: float
) -> None:
    settings = unlearn(method, **section)
    assert (settings.arguments, settings.lr) == (arguments, lr)
    assert settings.seed == section.get("rmu.seed", 0)


def test_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        unlearn(**{"pno.beta": 0.2, "rnu.layer": 1, "epoch": 3})
    assert [problem.split("Known")[0] for problem in caught.value.problems] == [
        "There is no method 'pno'. Did you mean 'npo'? ",
        "There is no method 'rnu'. Did you mean 'rmu'? ",
        "There is no setting 'epoch'. Did you mean 'epochs'? ",
    ]
    with pytest.raises(ConfigError, match="There is no method 'pno'"):
        unlearn(**{"pno.beta": 0.2})
    method = "medunlearn.methods.npo:NPO"
    with pytest.raises(ConfigError, match=rf"--{method}\.KEY"):
        unlearn(method, **{"mine.beta": 0.2})
    with pytest.raises(ConfigError, match=r"'epoch'. Did you mean 'epochs'"):
        train("tiny", epoch=3)
    for make in (train, unlearn):
        with pytest.raises(ConfigError) as caught:
            make(preset="amnesia8b", epoch=1)
        assert "There is no preset 'amnesia8b'. Did you mean 'amnesia-8b'?" in str(caught.value)
        assert "Did you mean 'epochs'?" in str(caught.value)


@pytest.mark.parametrize("value", [5, "beta", [1]])
def test_arguments_that_are_no_table(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"arguments=.*: must be the method's settings"):
        unlearn(arguments=value)


@pytest.mark.parametrize(("key", "value"), [("layer", True), ("layer", 1.5), ("alpha", True), ("alpha", "1")])
def test_a_method_refuses_values_of_another_type(key: str, value: Any) -> None:
    kind = "int" if key == "layer" else "float"
    with pytest.raises(ConfigError, match=f"rmu.{key} must be {kind}, not {value!r}"):
        make_method("rmu", unlearn("rmu", **{f"rmu.{key}": value}).arguments)


def test_nothing_is_held_where_no_value_is_capped_as_a_whole() -> None:
    assert make_method("counterfactual", {"hold": 0.25}).hold == 0.25
    with pytest.raises(ConfigError, match="hold needs whole-value caps"):
        make_method("counterfactual", {"whole_values": False, "hold": 0.25})


@pytest.mark.parametrize("name", ["amnesia-8b", "amnesia-1b", "amnesia-100m"])
def test_the_presets_of_amnesia_differ_in_nothing_that_changes_a_number(name: str) -> None:
    for settings in (train(preset=name), unlearn("graddiff", preset=name)):
        assert {key: getattr(settings, key) for key in TABLE_6} == TABLE_6
        assert (settings.epochs, settings.train_on) == (3, "questions")
        assert (settings.template, settings.context, settings.long_notes) == ("clinical", "note", "cut")
    ours, paper = train(preset=name).model_dump(), train(preset="amnesia-8b").model_dump()
    assert (ours["pretrain_epochs"], ours["pack_records"]) == (1, True)
    changed = {key for key, value in ours.items() if value != paper[key]}
    assert changed <= {"micro_batch_size", "gradient_checkpointing", "sharding"}


def test_the_preset_of_the_paper() -> None:
    """AMNESIA, Section 4.2: layer 7 is all that three methods train; RMU is OpenUnlearning's."""
    settings, devices = train(preset="amnesia-8b"), presets()["amnesia-8b"].processes
    assert settings.batch_size == devices * settings.micro_batch_size * 4 == 8 * 2 * 4
    assert (settings.gradient_checkpointing, settings.sharding) == (True, "fsdp2")
    for method in ("graddiff", "kl_min", "simnpo"):
        assert unlearn(method, preset="amnesia-8b").trainable == "layers:7"
    rmu = unlearn("rmu", preset="amnesia-8b")
    method = make_method("rmu", rmu.arguments)
    assert rmu.trainable == "default"
    assert (method.layer, method.coefficient, method.alpha, method.trainable()) == (7, 2.0, 1.0, "through:7")
    for name in ("kl_min", "simnpo", "rmu"):
        assert unlearn(name, preset="amnesia-8b").arguments["variant"] == "openunlearning"


@pytest.mark.parametrize("name", ["lume-7b", "lume-1b", "lume-tiny"])
def test_npo_of_lume_has_no_retain_term(name: str) -> None:
    assert unlearn("npo", preset=name).arguments == {"alpha": 0.0}


def test_what_is_given_wins_over_a_named_preset() -> None:
    settings = train("tiny", preset="amnesia-8b", lr=1e-3, sharding="none")
    assert (settings.lr, settings.sharding, settings.epochs) == (1e-3, "none", 3)
    own = {"rmu.layer": 1, "graddiff.trainable": "layers:1"}
    forget = unlearn("rmu", tiny=True, preset="amnesia-8b", epochs=1, **own)
    assert (forget.epochs, forget.arguments, forget.lr) == (1, {"variant": "openunlearning", "layer": 1}, 2e-5)
    assert unlearn("graddiff", preset="amnesia-8b", **own).trainable == "layers:1"


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_complete(name: str) -> None:
    assert presets()[name].about.endswith(".")
    train(preset=name)
    for method in presets()[name].methods:
        unlearn(method, preset=name)
