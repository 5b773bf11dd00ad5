"""What a method declares of itself is read from its source: without torch, and without running it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from medunlearn.methods import METHODS, family_of, method_class, retain_term_of
from medunlearn.methods.families import OTHER

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar

from medunlearn.methods.npo import NPO
from nowhere.at_all import Missing

print("imported")


class Own:
    family: ClassVar[str] = "preference"


@dataclass(frozen=True)
class Both(Own):
    retain_term = "loss"
    gamma: float = 1.0


class Inherited(NPO):
    pass


class Overridden(NPO):
    family = "distillation"


class Silent(Missing):
    family: ClassVar[str]


class Circle(Circle):
    pass
"""


@pytest.mark.parametrize("name", METHODS)
def test_each_declares_both_as_its_class_has_them(name: str) -> None:
    cls = getattr(method_class(name), "base", method_class(name))
    assert family_of(name) == cls.__dict__["family"] != OTHER
    assert retain_term_of(name) == cls.__dict__["retain_term"]


@pytest.mark.parametrize(
    ("name", "family", "retain_term"),
    [
        ("Own", "preference", ""),
        ("Both", "preference", "loss"),
        ("Inherited", "preference", "loss"),
        ("Overridden", "distillation", "loss"),
        ("Silent", OTHER, ""),
        ("Circle", OTHER, ""),
        ("Absent", OTHER, ""),
    ],
)
@pytest.mark.parametrize("module", ["a_method", "a_package.inside.a_method"])
def test_a_class_from_outside_is_read_and_not_run(
    name: str,
    family: str,
    retain_term: str,
    module: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    assert (family_of(f"{module}:{name}"), retain_term_of(f"{module}:{name}")) == (family, retain_term)
    assert capsys.readouterr().out == ""
    assert not {loaded for loaded in set(sys.modules) - before if loaded.startswith("a_")}


@pytest.mark.parametrize("name", ["", "nppo", "nowhere:Mine", "sys:Mine", "a/../b:Mine", "..:Mine", "broken:Mine"])
def test_what_cannot_be_read_is_of_no_family(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("class Mine(:")
    monkeypatch.chdir(tmp_path)
    assert (family_of(name), retain_term_of(name)) == (OTHER, "")


def test_they_are_read_without_torch() -> None:
    code = (
        "import sys; from medunlearn.methods import METHODS, family_of; list(map(family_of, METHODS)); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
