"""Defaults by model, and keys that go to one method alone."""

from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import TINY, TINY_METHODS, TINY_UNLEARN, UnlearnSettings
from medunlearn.errors import ConfigError
from medunlearn.methods import make_method
from medunlearn.pipeline.presets import is_tiny, presets, train_settings, unlearn_settings
from medunlearn.results.runs import Run, RunRecord


def unlearn(method: str = "npo", *, tiny: bool = False, **values: Any) -> UnlearnSettings:
    return unlearn_settings({"method": method, "split": "random_05", **values}, tiny=tiny)


def test_the_tiny_model_has_settings_of_its_own() -> None:
    tiny, real = train_settings({"model": "tiny"}), train_settings({"model": "org/name"})
    assert {key: getattr(tiny, key) for key in TINY} == dict(TINY)
    assert (real.lr, real.epochs, real.template) == (2e-5, 3, "clinical")


def test_what_is_given_wins_over_the_preset() -> None:
    settings = train_settings({"model": "tiny", "epochs": 1, "template": "chat"})
    assert (settings.epochs, settings.template, settings.lr) == (1, "chat", TINY["lr"])


@pytest.mark.parametrize("preset", [None, "amnesia-8b", "tiny"])
def test_zero_epochs_train_nothing(preset: str | None) -> None:
    values = {"model": "org/name", "epochs": 0, **({"preset": preset} if preset else {})}
    assert train_settings(values).pretrain_epochs == 0
    assert train_settings({**values, "pretrain_epochs": 2}).pretrain_epochs == 2


def test_mistakes_are_told_for_tiny_too() -> None:
    with pytest.raises(ConfigError, match=r"'epoch'. Did you mean 'epochs'"):
        train_settings({"model": "tiny", "epoch": 3})


def test_a_tiny_target_is_unlearned_with_settings_of_its_own() -> None:
    settings = unlearn(tiny=True)
    own = {**TINY_UNLEARN, **TINY_METHODS.get("npo", {})}
    assert {key: getattr(settings, key) for key in own} == own
    assert unlearn(tiny=True, lr=0.5, epochs=1).lr == 0.5
    rmu = unlearn("rmu", tiny=True)
    assert (rmu.lr, rmu.arguments) == (TINY_METHODS["rmu"]["lr"], TINY_METHODS["rmu"]["arguments"])
    assert unlearn("rmu").arguments == {}


def test_arguments_add_to_the_preset() -> None:
    preset = dict(TINY_METHODS["rmu"]["arguments"])
    assert preset["layer"] == 1
    assert unlearn("rmu", tiny=True, **{"rmu.alpha": 4.0}).arguments == {**preset, "alpha": 4.0}
    assert unlearn("rmu", tiny=True, **{"rmu.layer": 2}).arguments == {**preset, "layer": 2}
    assert TINY_METHODS["rmu"]["arguments"] == preset


def test_a_key_of_a_method_is_its_own_setting_or_the_runs() -> None:
    settings = unlearn(lr=1e-4, **{"npo.beta": 0.2, "npo.lr": 3e-4, "npo.epochs": 7})
    assert settings.arguments == {"beta": 0.2}
    assert (settings.lr, settings.epochs) == (3e-4, 7)
    assert make_method("npo", settings.arguments).beta == 0.2


def test_keys_of_other_methods_are_left_to_them() -> None:
    section = {"lr": 1e-4, "npo.beta": 0.2, "simnpo.lr": 5e-4, "rmu.layer": 3}
    assert unlearn("npo", **section).arguments == {"beta": 0.2}
    assert unlearn("npo", **section).lr == 1e-4
    assert unlearn("simnpo", **section).lr == 5e-4
    assert unlearn("simnpo", **section).arguments == {}


def test_a_misspelt_method_in_a_key_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        unlearn(**{"pno.beta": 0.2, "rnu.layer": 1, "epoch": 3})
    assert [problem.split("Known")[0] for problem in caught.value.problems] == [
        "There is no method 'pno'. Did you mean 'npo'? ",
        "There is no method 'rnu'. Did you mean 'rmu'? ",
        "There is no setting 'epoch'. Did you mean 'epochs'? ",
    ]


def test_a_misspelt_method_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="There is no method 'pno'"):
        unlearn(**{"pno.beta": 0.2})


@pytest.mark.parametrize("values", [{"arguments": {"beta": 0.3}}, {"arguments.beta": 0.3}, {"npo.beta": 0.3}])
def test_three_ways_to_give_an_argument(values: dict[str, Any]) -> None:
    assert unlearn(**values).arguments == {"beta": 0.3}


def test_an_argument_may_have_the_name_of_a_setting() -> None:
    settings = unlearn("rmu", **{"arguments.seed": 5, "rmu.seed": 6})
    assert (settings.arguments, settings.seed) == ({"seed": 5}, 6)


@pytest.mark.parametrize("value", [5, "beta", [1]])
def test_arguments_that_are_no_table(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"arguments=.*: must be the method's settings"):
        unlearn(arguments=value)


def test_a_plug_in_has_keys_too() -> None:
    name = "my.package.methods:Mine"
    section = {f"{name}.beta": 0.2, f"{name}.lr": 0.5, "npo.beta": 0.9}
    settings = unlearn(name, **section)
    assert (settings.method, settings.arguments, settings.lr) == (name, {"beta": 0.2}, 0.5)
    assert unlearn("npo", **section).arguments == {"beta": 0.9}


@pytest.mark.parametrize(("key", "value"), [("layer", True), ("layer", 1.5), ("alpha", True), ("alpha", "1")])
def test_a_method_refuses_values_of_another_type(key: str, value: Any) -> None:
    kind = "int" if key == "layer" else "float"
    with pytest.raises(ConfigError, match=f"rmu.{key} must be {kind}, not {value!r}"):
        make_method("rmu", unlearn("rmu", **{f"rmu.{key}": value}).arguments)


def test_a_run_descends_from_tiny_by_its_lineage() -> None:
    assert is_tiny(Run(Path("x"), RunRecord(lineage=["tiny", "runs/target"])))
    assert not is_tiny(Run(Path("x"), RunRecord(lineage=["org/tiny"])))


# AMNESIA, Table 6 and Appendix D.
TABLE_6 = {
    "lr": 2e-5, "schedule": "cosine", "warmup_ratio": 0.03, "weight_decay": 0.0, "max_length": 2048,
    "batch_size": 64,
}  # fmt: skip


@pytest.mark.parametrize("name", ["amnesia-8b", "amnesia-1b", "amnesia-100m"])
def test_the_presets_of_amnesia_differ_in_nothing_that_changes_a_number(name: str) -> None:
    train = train_settings({"model": "org/name", "preset": name})
    forget = unlearn("graddiff", preset=name)
    for settings in (train, forget):
        assert {key: getattr(settings, key) for key in TABLE_6} == TABLE_6
        assert (settings.epochs, settings.train_on) == (3, "both")
        assert (settings.template, settings.context, settings.long_notes) == ("clinical", "note", "cut")
    assert (train.pretrain_epochs, train.pack_records) == (1, True)
    changes_no_number = {"micro_batch_size", "gradient_checkpointing", "sharding"}
    paper = train_settings({"model": "org/name", "preset": "amnesia-8b"}).model_dump()
    assert {key for key, value in train.model_dump().items() if value != paper[key]} <= changes_no_number


def test_eight_devices_take_two_sequences_four_times() -> None:
    settings = train_settings({"model": "org/name", "preset": "amnesia-8b"})
    devices = presets()["amnesia-8b"].processes
    assert (devices, settings.micro_batch_size) == (8, 2)
    assert settings.batch_size == devices * settings.micro_batch_size * 4
    assert (settings.gradient_checkpointing, settings.sharding) == (True, "fsdp2")


def test_layer_7_is_all_that_three_methods_train() -> None:
    """AMNESIA, Section 4.2; RMU is steered there and trains what its own paper says."""
    for method in ("graddiff", "kl_min", "simnpo"):
        assert unlearn(method, preset="amnesia-8b").trainable == "layers:7"
    rmu = unlearn("rmu", preset="amnesia-8b")
    assert rmu.trainable == "default"
    made = make_method("rmu", rmu.arguments)
    assert (made.layer, made.trainable()) == (7, r"pattern:\.(5|6|7)\.mlp\.down_proj\.weight$")


def test_what_is_given_wins_over_a_named_preset() -> None:
    settings = train_settings({"model": "tiny", "preset": "amnesia-8b", "lr": 1e-3, "sharding": "none"})
    assert (settings.lr, settings.sharding, settings.epochs) == (1e-3, "none", 3)
    forget = unlearn(
        "rmu", tiny=True, preset="amnesia-8b", epochs=1, **{"rmu.layer": 1, "graddiff.trainable": "all"}
    )
    assert (forget.epochs, forget.arguments, forget.lr) == (1, {"layer": 1}, 2e-5)
    both = unlearn("graddiff", preset="amnesia-8b", **{"graddiff.trainable": "layers:1"})
    assert both.trainable == "layers:1"


def test_tiny_is_a_preset_too() -> None:
    assert train_settings({"model": "org/name", "preset": "tiny"}).lr == TINY["lr"]
    assert unlearn("rmu", preset="tiny") == unlearn("rmu", tiny=True)


def test_an_unknown_preset_stands_among_the_other_mistakes() -> None:
    for settings in (
        lambda: train_settings({"model": "org/name", "preset": "amnesia8b", "epoch": 1}),
        lambda: unlearn(preset="amnesia8b", epoch=1),
    ):
        with pytest.raises(ConfigError) as caught:
            settings()
        assert "There is no preset 'amnesia8b'. Did you mean 'amnesia-8b'?" in str(caught.value)
        assert "Did you mean 'epochs'?" in str(caught.value)


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_complete(name: str) -> None:
    assert presets()[name].about.endswith(".")
    train_settings({"model": "org/name", "preset": name})
    for method in presets()[name].methods:
        unlearn(method, preset=name)
