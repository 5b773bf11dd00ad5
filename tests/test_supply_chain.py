"""The lock, the set-up by it, licences, and telemetry."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import ROOT

LOCK = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def script(name: str) -> ModuleType:
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


lock = script("lock")


def locked(*parts: str) -> dict[str, set[str]]:
    """Versions by name."""
    packages: dict[str, set[str]] = {}
    for part in parts:
        for name, version, _ in lock.parsed((LOCK / f"{part}.txt").read_text()):
            packages.setdefault(name, set()).add(version)
    return packages


@pytest.mark.parametrize("part", lock.PARTS)
def test_a_lock_holds_versions_and_hashes_and_nothing_else(part: str) -> None:
    text = (LOCK / f"{part}.txt").read_text()
    blocks = lock.parsed(text)  # refuses addresses, options and paths
    assert blocks
    assert all(blocks.values())
    assert text.partition("\n")[2] == lock.written(blocks)


def test_a_lock_with_an_address_is_refused() -> None:
    for line in ("--index-url https://example.org/simple", "-e .", "torch @ file:///tmp/torch.whl", "click==8.5.1"):
        with pytest.raises(SystemExit, match="no lock may hold"):
            lock.parsed(f"{line}\n")


EXTRAS = PROJECT["optional-dependencies"].keys() - lock.UNLOCKED - {"all"}


@pytest.mark.parametrize("extra", [None, *sorted(EXTRAS)])
def test_the_lock_has_what_the_project_asks_for(extra: str | None) -> None:
    """A dependency that was added without `scripts/lock` is missing here."""
    versions = locked("base") if extra is None else locked("base", "test")
    for line in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(line)
        assert any(
            requirement.specifier.contains(it) for it in versions.get(canonicalize_name(requirement.name), ())
        ), line


def test_all_is_every_extra_that_the_lock_holds() -> None:
    (line,) = PROJECT["optional-dependencies"]["all"]
    assert (Requirement(line).name, Requirement(line).extras) == (PROJECT["name"], EXTRAS - {"docs", "test"})


def test_the_licences_of_all_locked_packages_are_listed() -> None:
    rows = [line.strip("| ").split(" | ") for line in _page().partition("| package |")[2].splitlines()[2:]]
    assert {row[0]: set(row[1].split(", ")) for row in rows} == locked("base", "test", "cuda")
    assert all(row[2] for row in rows)
    own = locked("base")
    assert {row[0] for row in rows if row[3] == "medunlearn"} == set(own)


def test_nothing_is_vendored() -> None:
    """The package holds no minified code, archive or licence file of others."""
    package = ROOT / "src/medunlearn"
    patterns = ("*.min.*", "*.gz", "*.whl", "*.so", "*.LICENSE")
    assert [path for pattern in patterns for path in package.rglob(pattern)] == []


def _page() -> str:
    return (ROOT / "requirements/licences.md").read_text()


# The set-up, with a pip that only notes what it is asked.

PYTHON = """#!/usr/bin/env bash
if [ "$1 $2" != "-m pip" ]; then exec REAL "$@"; fi
echo "pip $*" >> LOG
for word in "$@"; do
  case "$word" in /dev/fd/*) grep -oE '^torch==[0-9.]+|^nvidia-cublas' "$word" >> LOG ;; esac
done
case "$*" in *FAIL*) exit 1 ;; esac
"""


def set_up(folder: Path, real: str, *words: str, fails: str = "requirements/cpu.txt", **environment: str):
    """Run scripts/environment; what pip was asked, and the finished process."""
    log = folder / "log"
    log.write_text("")
    python = folder / "venv/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(PYTHON.replace("REAL", real).replace("LOG", str(log)).replace("FAIL", fails))
    python.chmod(0o755)
    process = subprocess.run(
        [ROOT / "scripts/environment", *words],
        env={**os.environ, "VENV": str(folder / "venv"), "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
    )
    return log.read_text(), process


BARE = f"{sys.executable} -I -S"  # sees no installed package


def test_the_set_up_installs_by_hash_wheels_first(tmp_path: Path) -> None:
    log, process = set_up(tmp_path, BARE, "test")
    assert process.returncode == 0, process.stderr
    calls = [line for line in log.splitlines() if line.startswith("pip -m pip install")]
    cpu, base, test, own = calls
    assert "requirements/cpu.txt" in cpu
    assert "--only-binary :all:" in base
    assert all("--require-hashes" in call and "--no-deps" in call for call in (cpu, base, test))
    assert "--no-build-isolation -e ." in own
    assert "--no-deps" in own
    assert "torch==2." in log  # no CPU build was offered
    assert "nvidia" not in log


def test_a_pytorch_that_is_there_stays(tmp_path: Path) -> None:
    log, process = set_up(tmp_path, sys.executable)
    assert process.returncode == 0, process.stderr
    assert "cpu.txt" not in log
    assert "torch==" not in log


def test_a_file_without_its_hash_ends_the_set_up(tmp_path: Path) -> None:
    log, process = set_up(tmp_path, BARE, fails="requirements/cpu.txt*|*--only-binary")
    assert process.returncode == 1
    assert "-e ." not in log
    assert "HASHES=no" in process.stderr


def test_installing_without_hashes_is_asked_for_and_said(tmp_path: Path) -> None:
    log, process = set_up(tmp_path, BARE, "test", HASHES="no")
    assert process.returncode == 0
    assert "files are not checked" in process.stderr
    assert "--require-hashes" not in log
    assert "-e .[test] -c" in log


# The database of vulnerabilities.


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0),
        ([{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}], 1),
        ([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "version": "1", "skip_reason": "gone"}], 3),
        ([], 3),
    ],
)
def test_an_audit_without_an_answer_is_no_clean_audit(packages, code, capsys) -> None:
    assert script("audit-dependencies").told(packages) == code
    assert f"{len(packages)} packages" in capsys.readouterr().out


# Telemetry.


@pytest.mark.parametrize("order", [("medunlearn", "huggingface_hub"), ("huggingface_hub.constants", "medunlearn")])
def test_libraries_report_nothing_once_medunlearn_is_imported(order: tuple[str, str]) -> None:
    code = f"""
import {order[0]}, {order[1]}
import huggingface_hub.constants as hub
from huggingface_hub.utils import build_hf_headers, send_telemetry, _telemetry
send_telemetry("test")
print(hub.HF_HUB_DISABLE_TELEMETRY, _telemetry._TELEMETRY_QUEUE.qsize(), _telemetry._TELEMETRY_THREAD)
print(build_hf_headers()["user-agent"])
"""
    unwilling = {"HF_HUB_DISABLE_TELEMETRY": "0", "DO_NOT_TRACK": "0", "HF_HUB_OFFLINE": "0"}
    process = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **unwilling}, capture_output=True, text=True, check=True
    )
    state, agent = process.stdout.splitlines()
    assert state == "True 0 None"
    assert not re.search("torch|agent/", agent)


def test_the_variables_stand_in_the_page_on_security() -> None:
    import medunlearn

    text = Path(medunlearn.__file__).read_text()
    names = re.findall(r'^    ([A-Z_]+)="', text, re.MULTILINE)
    assert len(names) > 5
    assert all(os.environ[name] for name in names)
    assert {*re.findall(r"`([A-Z_]+)=", (ROOT / "SECURITY.md").read_text())} >= {*names}
