"""The bill of materials: valid by the CycloneDX 1.6 schema, and the environment's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name
from pages import Page

from medunlearn.results import sbom as module
from medunlearn.results.licence import licence_of
from medunlearn.results.sbom import sbom


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return json.loads(sbom())


def problem(bill: dict[str, Any]) -> object:
    """The first deviation from the schema."""
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))


def test_it_is_valid(bill: dict[str, Any]) -> None:
    assert problem(bill) is None
    references = [it["bom-ref"] for it in (bill["metadata"]["component"], *bill["components"])]
    assert len({*references}) == len(references)
    assert all(it["version"] for it in bill["components"])
    assert {it["ref"] for it in bill["dependencies"]} == {*references}
    assert {ref for it in bill["dependencies"] for ref in it.get("dependsOn", ())} < {*references}


@pytest.mark.parametrize(
    "damage",
    [{"serialNumber": "urn:uuid:7"}, {"bomFormat": "SPDX"}, {"components": [{"type": "library"}]}],
    ids=str,
)
def test_the_check_sees_what_is_wrong(bill: dict[str, Any], damage: dict[str, Any]) -> None:
    assert problem(bill | damage)


def test_it_lists_everything_that_is_installed(bill: dict[str, Any]) -> None:
    installed = {canonicalize_name(it.name) for it in distributions()} - {"medunlearn"}
    listed = {
        it["purl"].split("/")[1].split("@")[0]: it for it in bill["components"] if "pkg:pypi" in it.get("purl", "")
    }
    assert {*listed} == installed
    assert listed["numpy"]["version"] == version("numpy")
    assert len(listed["numpy"]["properties"][0]["value"]) == 64
    assert "BSD-3-Clause" in listed["numpy"]["licenses"][0]["expression"]
    assert bill["metadata"]["component"]["name"] == "medunlearn"
    own = next(it for it in bill["dependencies"] if "/medunlearn@" in it["ref"])
    assert listed["torch"]["bom-ref"] in own["dependsOn"]
    assert not any("pytest" in it for it in own["dependsOn"])  # of an extra


def test_the_same_environment_has_the_same_number(bill: dict[str, Any]) -> None:
    again = json.loads(sbom())
    assert again["serialNumber"] == bill["serialNumber"]
    assert {**again, "metadata": 0} == {**bill, "metadata": 0}


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        (("MIT OR Apache-2.0", ["License :: OSI Approved :: BSD License"], "x"), "MIT OR Apache-2.0"),
        ((None, ["License :: OSI Approved :: BSD License"], "BSD-3-Clause"), "BSD-3-Clause"),
        ((None, ["License :: OSI Approved :: BSD License"], "Copyright (c)\nall that follows"), "BSD License"),
        ((None, ["License :: OSI Approved :: BSD License", "License :: OSI Approved"], "Dual License"),
         "BSD License, OSI Approved"),
        ((None, [], "UNKNOWN"), "UNKNOWN"),
        ((None, [], None), "not stated"),
    ],
)  # fmt: skip
def test_a_licence_is_named(metadata: tuple[Any, Any, Any], name: str) -> None:
    assert licence_of(*metadata) == name


def test_hashes_are_the_archives_and_the_installed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(name: str, origin: dict[str, Any], record: str) -> None:
        folder = tmp_path / f"{name}-1.0+cpu.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0+cpu\nLicense: Own\nRequires-Dist: B.b>=1\n")
        (folder / "direct_url.json").write_text(json.dumps(origin))
        (folder / "RECORD").write_text(record)

    files = "b.py,sha256=2,9\na.py,sha256=1,9\n"
    added = "a.pyc,sha256=3,9\n../bin/a,sha256=4,9\na.dist-info/INSTALLER,sha256=5,9\na.dist-info/RECORD,,\n"
    install("a", {"url": "file:///a.whl", "archive_info": {"hashes": {"sha256": "f" * 64}}}, files + added)
    install("b-b", {"url": "file:///b", "dir_info": {}}, files)
    monkeypatch.setattr(module, "distributions", lambda: distributions(path=[str(tmp_path)]))
    with pytest.warns(UserWarning, match="no defined dependencies"):  # medunlearn itself is not among them
        bill = json.loads(sbom())
    components = {it["name"]: it for it in bill["components"]}
    a, b = components["a"], components["b-b"]
    assert (a["purl"], b["purl"]) == ("pkg:pypi/a@1.0%2Bcpu", "pkg:pypi/b-b@1.0%2Bcpu")
    assert a["hashes"] == [{"alg": "SHA-256", "content": "f" * 64}]
    record = sha256(b"a.py,sha256=1\nb.py,sha256=2").hexdigest()
    assert a["properties"] == [{"name": "medunlearn:record-sha256", "value": record}]
    assert not b.keys() & {"hashes", "properties"}
    assert a["licenses"] == [{"license": {"name": "Own"}}]
    assert {it["ref"]: it.get("dependsOn") for it in bill["dependencies"]}[a["bom-ref"]] == [b["bom-ref"]]
    assert "CPython" in components


def test_the_page_on_security_runs(tmp_path: Path) -> None:
    (line,) = Page.read("SECURITY.md", "Dependencies").commands
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(
        ["bash", "-c", line.replace("python", sys.executable, 1)], cwd=tmp_path, env=environment, check=True
    )
    assert problem(json.loads((tmp_path / "sbom.cdx.json").read_text())) is None


def test_a_licence_is_named_by_the_standard_library_alone() -> None:
    """As ``scripts/lock`` does it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])}
    subprocess.run([sys.executable, "-S", "-c", "import medunlearn.results.licence"], env=environment, check=True)
