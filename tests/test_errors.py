"""The exception tree, exit codes and messages."""

import inspect

import pytest

from medunlearn import errors
from medunlearn.errors import ConfigError, InputError, MedunlearnError, UnknownNameError, unknown_name

TREE = {
    "MedunlearnError": Exception,
    "InputError": MedunlearnError,
    "ConfigError": InputError,
    "UnknownNameError": InputError,
    "BenchmarkError": InputError,
    "SourceError": InputError,
    "ModelError": InputError,
    "NotApplicableError": InputError,
    "OutOfMemoryError": InputError,
    "NonFiniteLossError": MedunlearnError,
    "FrozenParametersError": MedunlearnError,
    "ProcessError": MedunlearnError,
    "HubError": MedunlearnError,
    "StorageError": MedunlearnError,
}


def test_the_tree_is_the_one_that_is_drawn() -> None:
    classes = {
        name: cls
        for name, cls in vars(errors).items()
        if inspect.isclass(cls) and cls.__module__ == errors.__name__
    }
    assert {name: cls.__base__ for name, cls in classes.items()} == TREE
    for name in TREE:
        assert name in (errors.__doc__ or "")


@pytest.mark.parametrize("name", TREE)
def test_wrong_input_exits_with_2_and_a_failed_run_with_1(name: str) -> None:
    cls = getattr(errors, name)
    assert cls.exit_code == (2 if issubclass(cls, InputError) else 1)


def test_one_mistake_is_said_plainly_and_several_are_listed() -> None:
    assert str(ConfigError(["lr is missing"])) == "lr is missing"
    several = ConfigError(["lr is missing", "epochs=-1: too small"])
    assert str(several) == "2 settings are wrong:\n  - lr is missing\n  - epochs=-1: too small"
    assert several.problems == ["lr is missing", "epochs=-1: too small"]


def test_the_nearest_name_comes_first() -> None:
    assert unknown_name("method", "npoo", ["rmu", "npo"]) == (
        "There is no method 'npoo'. Did you mean 'npo'? Known: npo, rmu."
    )
    assert unknown_name("method", "xyzzy", ["rmu", "npo"]) == "There is no method 'xyzzy'. Known: npo, rmu."
    assert unknown_name("method", "npo", []) == "There is no method 'npo'. Known: none."
    assert "Did you mean 'npo'" in unknown_name("method", "NPO", ["npo"])


def test_a_long_list_is_cut_and_counted() -> None:
    splits = [f"p{number:02d}" for number in range(30)]
    message = str(UnknownNameError("split", "p99", splits))
    assert message.endswith("p10, p11, ... (30 in all).")
    assert "p12" not in message
    assert unknown_name("split", "zzz", splits, most=2).endswith("Known: p00, p01, ... (30 in all).")


def test_another_patients_id_is_not_a_hint() -> None:
    assert str(UnknownNameError("patient", "p01", None)) == "There is no patient 'p01'."


@pytest.mark.parametrize(
    ("text", "line"),
    [("one\ntwo", "one"), ("", "ValueError"), ("one two three", "one two ..."), ("x" * 20, f"{'x' * 10} ...")],
)
def test_a_first_line_ends_behind_a_word(text: str, line: str) -> None:
    assert errors.first_line(ValueError(text), most=10) == line
