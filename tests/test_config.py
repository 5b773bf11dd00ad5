"""Settings: unknown keys, all mistakes at once, overrides and files."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from medunlearn.config import (
    AttackSettings,
    EvaluateSettings,
    ExperimentSettings,
    Settings,
    TrainSettings,
    UnlearnSettings,
    as_value,
    check,
    merge,
    read_yaml,
)
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.config.fields import flags_of, options_model
from medunlearn.config.reading import with_server
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.papers.lume.settings import LumeSettings

ALL = (AmnesiaSettings, LumeSettings, TrainSettings, UnlearnSettings, EvaluateSettings, ExperimentSettings)


def problems(model: type[Settings], values: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check(model, values)
    return caught.value.problems


def test_defaults_are_those_of_the_paper() -> None:
    """AMNESIA, Table 6 and Appendix D."""
    settings = check(TrainSettings, {"model": "org/name"})
    assert (settings.lr, settings.schedule, settings.warmup_ratio, settings.weight_decay) == (
        2e-5,
        "cosine",
        0.03,
        0,
    )
    assert (settings.epochs, settings.pretrain_epochs, settings.batch_size, settings.max_length) == (3, 1, 64, 2048)
    assert check(UnlearnSettings, {"method": "npo", "split": "s"}).epochs == 3


def test_all_mistakes_come_at_once() -> None:
    messages = problems(TrainSettings, {"epochs": -1, "lr": "fast", "schedule": "stairs", "batchsize": 4})
    assert len(messages) == 5
    assert "model is missing: folder, hub id (org/name), tiny, or tiny-vision for images and text" in messages
    assert "epochs=-1: input should be greater than or equal to 0" in messages
    assert any(problem.startswith("lr='fast': ") for problem in messages)
    assert any(
        problem.startswith("schedule='stairs': input should be 'cosine', 'linear' or") for problem in messages
    )
    assert any("'batchsize'. Did you mean 'batch_size'?" in problem for problem in messages)


@pytest.mark.parametrize(
    ("model", "values", "problem"),
    [
        (AmnesiaSettings, {"synthetic": 1}, "synthetic=1: input should be greater than or equal to 2"),
        (AmnesiaSettings, {"synthetic": 2.5}, "synthetic=2.5: "),
        (EvaluateSettings, {"split": "s", "folds": ["train", "test"]}, "folds.1='test': "),
        (LumeSettings, {"released": "x", "documents_per_task": 1}, "documents_per_task=1: "),
        (TrainSettings, {"model": "tiny", "lr": 0}, "lr=0: input should be greater than 0"),
        (TrainSettings, {"model": "tiny", "lr": "nan"}, "lr="),
        (TrainSettings, {"model": "tiny", "lr": float("inf")}, "lr=inf: input should be a finite number"),
        (TrainSettings, {"model": "tiny", "lr": "1e-4"}, "lr='1e-4': input should be a valid number"),
        (TrainSettings, {"model": "tiny", "lr": True}, "lr=True: input should be a valid number"),
        (TrainSettings, {"model": "tiny", "epochs": True}, "epochs=True: must be a whole number"),
        (TrainSettings, {"model": "tiny", "epochs": "3"}, "epochs='3': must be a whole number, without quotes"),
        (TrainSettings, {"model": "tiny", "epochs": 1.5}, "epochs=1.5: "),
        (TrainSettings, {"model": "tiny", "keep_epochs": 1}, "keep_epochs=1: input should be a valid boolean"),
        (TrainSettings, {"model": " "}, "model is empty: folder, hub id"),
        (TrainSettings, {"model": "a\0b"}, r"model='a\x00b': there is a zero byte"),
        (TrainSettings, {"model": "a\udcff"}, r"model='a\udcff': there is a zero byte or half a character"),
        (EvaluateSettings, {"split": "s", "folds": []}, "folds=[]: value should have at least 1 item"),
        (EvaluateSettings, {"split": "s", "replicates": 10**9}, "replicates=1000000000: input should be less than"),
        (AttackSettings, {"split": "s", "attacks": []}, "attacks=[]: tuple should have at least 1 item"),
        (AuditSettings, {"prefixes": [50, True]}, "prefixes.1=True: must be a whole number"),
        (TrainSettings, {"model": "tiny", 5: 1}, "5=5: keys should be strings"),
    ],
)
def test_values_out_of_their_range(model: type[Settings], values: dict[str, Any], problem: str) -> None:
    (messages,) = problems(model, values)
    assert messages.startswith(problem)


def test_checked_settings_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        check(AmnesiaSettings, {"synthetic": 4}).synthetic = 5  # type: ignore[misc]


@pytest.mark.parametrize("model", ALL)
def test_every_setting_is_a_flag_with_its_help(model: type[Settings]) -> None:
    flags = flags_of(model)
    assert set(flags) == set(model.model_fields) - {"builder"}
    assert all(flag.help for flag in flags.values())
    required = {key for key, flag in flags.items() if flag.default == "required"}
    assert required == {name for name, field in model.model_fields.items() if field.is_required()}


def test_what_a_flag_takes_follows_from_its_type() -> None:
    flags = flags_of(TrainSettings)
    assert {key for key, flag in flags.items() if flag.section} == {"evaluate", "attack", "utility", "watch"}
    assert (flags["lr"].name, flags["lr"].kind, flags["lr"].metavar, flags["lr"].default) == (
        *("--lr", "yaml", "X"),
        "2e-05",
    )
    assert (flags["batch_size"].name, flags["batch_size"].metavar) == ("--batch-size", "N")
    assert (flags["keep_epochs"].kind, flags["without"].kind, flags["schedule"].kind) == ("switch", "text", "text")
    assert flags["schedule"].metavar == "cosine|linear|constant"
    folds = flags_of(EvaluateSettings)["folds"]
    assert (folds.many, folds.default) == (True, "train,holdout")
    parts = flags_of(AuditParts)
    assert (parts["identifiers"].kind, parts["identifiers"].section) == ("switch", True)


def test_a_functions_parameters_are_flags_too() -> None:
    def attack(
        run: Path | str, *, against: Sequence[Path | str] = (), epoch: int | None = None, **settings: Any
    ) -> None:
        """Attack.

        Args:
            run: the run
            against: run to compare with;
                repeatable
            epoch: after so many epochs
        """

    model = options_model(attack)
    flags = flags_of(model, "Options")
    assert [(key, flag.many, flag.kind) for key, flag in flags.items()] == [
        ("run", False, "text"),
        ("against", True, "yaml"),
        ("epoch", False, "yaml"),
    ]
    assert [flag.metavar for flag in flags.values()] == ["PATH", "PATH,...", "N"]
    assert flags["against"].help == "run to compare with; repeatable"
    assert problems(model, {"run": "x", "epoch": "two"})[0].startswith("epoch='two'")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 0.0001), ("-2E+3", -2000.0), ("1.5e-4", 0.00015), (".5", 0.5), ("3", 3), ("true", True),
        ("[rouge_l,em]", ["rouge_l", "em"]), ("[1e-4, 2]", [0.0001, 2]), ("null", None), ("", ""),
        ("patient=p1,p2", "patient=p1,p2"), ("pattern:a=b", "pattern:a=b"), ("runs/a b", "runs/a b"),
        ("nan", "nan"), ("inf", "inf"), ("a: b: c", "a: b: c"), ("'12'", "12"), ("{beta: 1e-1}", {"beta": 0.1}),
    ],
)  # fmt: skip
def test_values_are_read_as_yaml(text: str, value: Any) -> None:
    assert as_value(text) == value
    assert type(as_value(text)) is type(value)


def test_settings_of_a_server() -> None:
    assert with_server({"seed": 1}) == {"seed": 1}
    assert with_server({"llm": "http://x/v1", "llm.model": "m"}) == {
        "llm": {"base_url": "http://x/v1", "model": "m"}
    }
    assert with_server({"llm": {"model": "m"}, "llm.price": "1,2"})["llm"]["prices"] == {"m": (1.0, 2.0)}
    with pytest.raises(ConfigError, match=r"llm\.price='cheap'"):
        with_server({"llm.price": "cheap"})


@pytest.mark.parametrize("value", ["a,b", ["a", "b"], ["a,b"], ("a", "b")])
def test_lists_are_taken_with_commas_or_flag_by_flag(value: Any) -> None:
    assert check(EvaluateSettings, {"split": "s", "metrics": value}).metrics == ("a", "b")


def test_overrides_go_into_their_sections() -> None:
    values = {"name": "x", "seed": 1, "train": {"lr": 1, "epochs": 2}, "unlearn": {"methods": ["npo"]}}
    before = copy.deepcopy(values)
    merged = merge(values, {"train.lr": 5, "unlearn.npo.beta": 0.2, "seed": 3, "seed.x": 2, "evaluate.limit": 4})
    assert merged == {
        "name": "x",
        "seed": 3,
        "seed.x": 2,
        "train": {"lr": 5, "epochs": 2},
        "unlearn": {"methods": ["npo"], "npo.beta": 0.2},
        "evaluate": {"limit": 4},
    }
    assert values == before
    assert merge({"evaluate": None}, {"evaluate.limit": 4}) == {"evaluate": {"limit": 4}}
    experiment = {"name": "x", "out": "o", "benchmark": {}, "split": "s", "train": {}, "unlearn": {}}
    (problem,) = problems(ExperimentSettings, merge(experiment, {"evalaute.limit": 4}))
    assert problem.startswith("There is no setting 'evalaute'. Did you mean 'evaluate'?")


def test_files_are_read_like_overrides(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("train: {lr: 1e-4}\nunlearn:\n  methods: [npo]\n  npo.beta: 5e-1\npatient: 007\n")
    methods = {"methods": ["npo"], "npo.beta": 0.5}
    assert read_yaml(file) == {"train": {"lr": 0.0001}, "unlearn": methods, "patient": "007"}
    with pytest.raises(InputError, match=r"There is no file .*y\.yaml"):
        read_yaml(tmp_path / "y.yaml")


BOMB = b"a: &a [x]\n" + b"".join(b"%c: &%c [%s]\n" % (n, n, b"*%c," % (n - 1) * 9) for n in range(98, 110))
"""Twelve lists of nine times the one before: 9^12 values once they are written out."""
NO_YAML, NO_KEYS = r"x\.yaml cannot be read as YAML", "must contain keys and values"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((content, NO_YAML) for content in (b"a: [1", b"[" * 50_000, b"!!python/object/apply:os.x []")),
        (b"\xff\xfe", r"x\.yaml is not UTF-8 text \(invalid start byte at byte 0\). Save it as UTF-8"),
        (b"a: 1\0", r"x\.yaml is not text: it contains a zero byte"),
        (b"a: 1\nb: {c: 1, c: 2}", r"the key 'c' occurs twice \(line 2\)"),
        (b"a: 1\na: 2", r"the key 'a' occurs twice \(line 2\)"),
        (b"a: " + b"[" * 60 + b"]" * 60, "nested deeper than 50 levels"),
        (b"a: &a [*a]", "nested deeper than 50 levels"),
        (BOMB, "contains more than 1,000,000 values"),
        (b"train: {5: 1}", "the key 5 is not text. Quote it if it is a name"),
        (b"no: 1", "the key False is not text"),
    ],
)
def test_files_without_keys(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_yaml(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("given", "splits"),
    [
        ("random_10", ("random_10",)),
        ("random_10,cancer_05", ("random_10", "cancer_05")),
        (["random_10", "patient=a,b"], ("random_10", "patient=a,b")),
        ("patient=a,b", ("patient=a,b",)),
    ],
)
def test_splits_of_a_sweep_take_commas_but_a_request_keeps_its_own(given: object, splits: tuple[str, ...]) -> None:
    from medunlearn.config import SweepSettings

    values = {"name": "x", "out": "x", "benchmark": {}, "train": {}, "unlearn": {}, "splits": given, "seeds": "0,1"}
    settings = SweepSettings.model_validate({**values, "retrain": given})
    assert settings.splits == settings.retrain == splits
    assert settings.seeds == (0, 1)
