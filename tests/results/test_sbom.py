"""The bill of materials: what the CycloneDX 1.6 schema asks for, and that it is the environment's."""

from __future__ import annotations

import json
import re
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import Page

from medunlearn.cli.main import app
from medunlearn.results.machine import packages
from medunlearn.results.record import RunRecord
from medunlearn.results.sbom import FILE, licence_of, normalized, sbom

TYPES = {"application", "library", "platform"}
FIELDS = {"type", "bom-ref", "name", "version", "licenses", "purl", "hashes", "properties"}


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return json.loads(json.dumps(sbom()))


def problems(bill: dict[str, Any]) -> list[str]:
    """What the schema's rules for the parts that we write say against it; its source is the 1.6 JSON reference."""
    problems = [key for key in ("metadata", "components", "dependencies") if key not in bill]
    problems += [] if (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6") else ["format"]
    uuid = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    problems += [] if re.fullmatch(uuid, bill["serialNumber"]) else ["serialNumber"]
    problems += (
        [] if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", bill["metadata"]["timestamp"]) else ["time"]
    )
    components = [bill["metadata"]["component"], *bill["components"]]
    references = [component.get("bom-ref") for component in components]
    problems += [f"{it} twice" for it in {*references} if references.count(it) > 1]
    for component in components:
        name = component["name"]
        problems += [f"{name}: {key}" for key in component.keys() - FIELDS]
        problems += [] if component["type"] in TYPES and component["version"] else [f"{name}: type or version"]
        licences = component.get("licenses", [])
        named = all("license" in it and it["license"].keys() == {"name"} for it in licences)
        problems += (
            [] if named or (len(licences) == 1 and licences[0].keys() == {"expression"}) else [f"{name}: licence"]
        )
        hashes = component.get("hashes", [])
        problems += [
            name for it in hashes if it["alg"] != "SHA-256" or not re.fullmatch("[0-9a-f]{64}", it["content"])
        ]
        if "purl" in component and not re.fullmatch(r"pkg:(pypi|npm)/[a-z0-9.-]+@[\w.%-]+", component["purl"]):
            problems.append(component["purl"])
    for entry in bill["dependencies"]:
        problems += [it for it in (entry["ref"], *entry["dependsOn"]) if it not in references]
        problems += ["repeated"] if len({*entry["dependsOn"]}) < len(entry["dependsOn"]) else []
    return problems


def test_it_is_valid(bill: dict[str, Any]) -> None:
    assert problems(bill) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"serialNumber": "urn:uuid:7"},
        {"specVersion": "1.5"},
        {"components": []},
        {"dependencies": [{"ref": "pkg:pypi/nothing@1", "dependsOn": []}]},
    ],
    ids=str,
)
def test_the_check_sees_what_is_wrong(bill: dict[str, Any], damage: dict[str, Any]) -> None:
    assert problems(bill | damage)


def test_it_lists_everything_that_is_installed(bill: dict[str, Any]) -> None:
    installed = {normalized(it.name) for it in distributions()} - {"medunlearn"}
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
    again = sbom()
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


def test_it_is_written_beside_a_run_of_this_environment_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    RunRecord(verb="train", status="complete", packages=packages()).write(run)
    result = CliRunner().invoke(app, ["sbom", str(run), "--out", str(tmp_path / "bill.json")])
    assert result.exit_code == 0, result.output
    assert problems(json.loads((run / FILE).read_text())) == []
    assert (tmp_path / "bill.json").read_text() == (run / FILE).read_text()

    (run / FILE).unlink()
    RunRecord(verb="train", status="complete", packages=packages() | {"torch": "1.0"}).write(run)
    result = CliRunner().invoke(app, ["sbom", str(run)])
    assert result.exit_code == 2
    assert "torch 1.0, now 2." in result.stderr
    assert not (run / FILE).exists()


def test_the_page_on_security_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in Page.read("SECURITY.md", "Dependencies").commands:
        assert CliRunner().invoke(app, line.split()[1:]).exit_code == 0
    assert problems(json.loads((tmp_path / FILE).read_text())) == []


def test_without_a_place_it_is_printed() -> None:
    result = CliRunner().invoke(app, ["sbom"])
    assert problems(json.loads(result.stdout)) == []
