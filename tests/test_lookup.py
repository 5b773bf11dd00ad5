"""From a name to an object: the table, a dotted path, a plug-in of an installed package."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medunlearn import registry as lookup
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.paper import find_paper
from medunlearn.papers import PAPERS
from medunlearn.registry import clashes, load, names, resolve

TABLE = {"dumps": "json:dumps", "loads": "json:loads", "broken": "json:nothing"}


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Put entry points here and they are installed."""
    points: list[EntryPoint] = []

    def installed(*, group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(lookup, "entry_points", installed)
    return points


def test_by_table() -> None:
    assert resolve("tools", "dumps", TABLE) is json.dumps


def test_by_dotted_path() -> None:
    assert resolve("tools", "json.decoder:JSONDecoder", TABLE) is json.decoder.JSONDecoder


def test_by_entry_point(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("decoder", "json:JSONDecoder", "medunlearn.tools"))
    plugins.append(EntryPoint("other", "json:dumps", "medunlearn.metrics"))
    assert resolve("tools", "decoder", TABLE) is json.JSONDecoder
    assert names("tools", TABLE) == {"decoder": "json:JSONDecoder", **TABLE}
    with pytest.raises(UnknownNameError, match="no tool 'other'"):
        resolve("tools", "other", TABLE)


def test_a_plug_in_cannot_replace_what_is_ours(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("dumps", "os:getcwd", "medunlearn.tools"))
    assert resolve("tools", "dumps", TABLE) is json.dumps


def test_the_real_entry_points_can_be_asked() -> None:
    """What the fixture stands in for takes a group and gives names with values."""
    assert lookup.entry_points is entry_points
    scripts = entry_points(group="console_scripts")
    assert "medunlearn" in {point.name for point in scripts}
    assert all(point.value for point in scripts)


@pytest.mark.parametrize(("name", "nearest"), [("dump", "dumps"), ("Loads", "loads")])
def test_a_wrong_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"There is no tool '{name}'. Did you mean '{nearest}'\?"):
        resolve("tools", name, TABLE)


def test_a_wrong_name_is_answered_with_a_plug_in(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("my_method", "json:dumps", "medunlearn.tools"))
    with pytest.raises(UnknownNameError, match=r"Did you mean 'my_method'\?"):
        resolve("tools", "my_metod", TABLE)


@pytest.mark.parametrize("name", ["broken", "json:nothing", "no_such_module:Thing", "json.nothing:Thing"])
def test_a_path_that_leads_nowhere(name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be imported: .* is the path module:attribute"):
        resolve("tools", name, TABLE)


def test_listing_names_imports_nothing() -> None:
    table: dict[str, Any] = {"ghost": "no_such_module:Thing"}
    assert names("tools", table) == table


@pytest.mark.parametrize("name", PAPERS)
def test_every_target_of_every_paper_can_be_had(name: str) -> None:
    """Declarations are text: what they name has to be there."""
    paper = find_paper(name)
    targets = [paper.runs_page, paper.sweep_page, paper.watch]
    for part in (paper.own_measures, paper.tasks, paper.views, paper.calls, paper.demos):
        targets += part.values()
    for way in paper.builds:
        targets += [way.settings, way.make, way.write, way.plan]
    assert paper.name == name
    for target in filter(None, targets):
        assert load(target) is not None
        # A module of the same name would take the attribute's place once it is imported.
        module, _, attribute = target.partition(":")
        is_package = hasattr(sys.modules[module], "__path__")
        assert not (is_package and find_spec(f"{module}.{attribute}")), target


def test_two_plug_ins_of_one_name_are_both_refused(plugins: list[EntryPoint]) -> None:
    plugins += [EntryPoint("mine", f"json:{what}", "medunlearn.tools") for what in ("dumps", "loads")]
    with pytest.raises(InputError, match=r"declared by 2 installed packages: json:dumps, json:loads"):
        resolve("tools", "mine", TABLE)
    assert clashes("tools", TABLE) == {"mine": ("json:dumps", "json:loads")}


def test_a_plug_in_that_raises_when_imported_is_told_in_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "raises.py").write_text("raise RuntimeError('no licence\\nsecond line')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"cannot be imported: RuntimeError: no licence\. Is its package"):
        resolve("tools", "raises:Thing", TABLE)


def test_a_module_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_mine.py").write_text("class Mine: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    assert resolve("tools", "plugin_of_mine:Mine", TABLE).__name__ == "Mine"


def test_the_package_lists_its_verbs_without_loading_them() -> None:
    code = (
        "import sys, medunlearn as mu\nlisted = dir(mu)\n"
        "assert {*mu.__all__, 'diagnose', '__doc__'} <= {*listed}, listed\n"
        "assert not {'os', 'sys', 'logging'} & {*listed}, listed\n"
        "print(sorted({'pandas', 'torch', 'medunlearn.api'} & {*sys.modules}))\n"
        "assert all(callable(getattr(mu, name)) for name in listed if name.islower() and name[0] != '_'"
        " and name != 'build')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
