"""Software bill of materials of the running environment, as CycloneDX 1.6.

Source: CycloneDX 1.6 JSON reference (ECMA-424). Imports only the standard library, for ``scripts/lock``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

FILE = "sbom.cdx.json"
VENDORED = (
    {
        "name": "plotly.js-basic-dist-min",
        "version": "4.1.1",
        "licence": "MIT",
        "file": "reports/assets/plotly-basic.min.js.gz",
    },
)
"""Works of others in this package; ``file`` is within the package."""

# What installers add beside a wheel's own files; it differs from one machine to the next.
_ADDED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


def sbom() -> dict[str, Any]:
    """Every installed distribution, the interpreter and vendored code, as a CycloneDX 1.6 document.

    A component has its version, licence and package URL. Its hash is that of the installed archive (SHA-256), if
    the installer recorded it; ``medunlearn:record-sha256`` covers paths and hashes of its installed files. Two
    environments with the same components have the same ``serialNumber``.
    """
    from medunlearn.results.machine import code

    # Each use of a distribution's `metadata` parses its file again.
    found: dict[str, tuple[Distribution, PackageMetadata]] = {}
    for distribution in distributions():
        metadata = distribution.metadata
        if name := _field(metadata, "Name"):
            found.setdefault(normalized(name), (distribution, metadata))
    installed = dict(sorted(found.items()))
    components = {name: _component(name, *of) for name, of in installed.items()}
    references = {name: component["bom-ref"] for name, component in components.items()}
    own = components.pop("medunlearn", {"name": "medunlearn", "bom-ref": "medunlearn"})
    if commit := code()["commit"]:
        changed = "changed since" if code()["dirty"] else "as committed"
        own["properties"] = [{"name": "medunlearn:commit", "value": f"{commit}, {changed}"}]
    every = [*components.values(), *map(_vendored_component, VENDORED), _interpreter()]
    requirements = {name: {*_needs(*of)} & {*installed} for name, of in installed.items()}
    dependencies = [
        {"ref": references[name], "dependsOn": sorted(references[other] for other in others)}
        for name, others in requirements.items()
    ]
    content = json.dumps([own, every, dependencies], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "tools": {"components": [{"type": "application", "name": "medunlearn"}]},
            "component": own | {"type": "application"},
        },
        "components": every,
        "dependencies": dependencies,
    }


def normalized(name: str) -> str:
    """A distribution's name in the normal form of package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(expression: str | None, classifiers: Sequence[str], text: str | None) -> str:
    """A licence's name from a distribution's metadata: SPDX expression, else short text, else classifiers."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if expression:
        return expression
    if len(lines) == 1 and len(lines[0]) <= 60 and lines[0].lower() not in ("unknown", "dual license"):
        return lines[0]
    licenses = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    return ", ".join(licenses) or (lines[0] if lines else "not stated")


def _component(name: str, distribution: Distribution, metadata: PackageMetadata) -> dict[str, Any]:
    url = f"pkg:pypi/{name}@{quote(metadata['Version'], safe='.-')}"
    expression = _field(metadata, "License-Expression")
    licence = licence_of(expression, metadata.get_all("Classifier") or [], _field(metadata, "License"))
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": url,
        "name": metadata["Name"],
        "version": metadata["Version"],
        "licenses": [{"expression": licence} if expression else {"license": {"name": licence}}],
        "purl": url,
    }
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if archive := origin.get("archive_info", {}).get("hashes", {}).get("sha256"):
        component["hashes"] = [{"alg": "SHA-256", "content": archive}]
    # A folder's RECORD names a link to it, not its files.
    if "dir_info" not in origin and (record := _record_hash(distribution)):
        component["properties"] = [{"name": "medunlearn:record-sha256", "value": record}]
    return component


def _field(metadata: PackageMetadata, name: str) -> str | None:
    return next(iter(metadata.get_all(name) or []), None)


def _record_hash(distribution: Distribution) -> str:
    """SHA-256 over paths and hashes of a distribution's files; empty without a RECORD."""
    lines = (line.rsplit(",", 2)[:2] for line in (distribution.read_text("RECORD") or "").splitlines())
    entries = sorted(
        f"{path},{digest}"
        for path, digest in lines
        if digest
        and not path.startswith("..")
        and not path.endswith(".pyc")
        and path.rpartition("/")[2] not in _ADDED
    )
    return hashlib.sha256("\n".join(entries).encode()).hexdigest() if entries else ""


def _needs(distribution: Distribution, metadata: PackageMetadata) -> Iterator[str]:
    """Names of a distribution's requirements, without extras; a marker counts as met if the name is installed."""
    for line in metadata.get_all("Requires-Dist") or distribution.requires or ():
        if "extra ==" not in line and (name := re.match(r"[A-Za-z0-9._-]+", line)):
            yield normalized(name[0])


def _vendored_component(part: dict[str, str]) -> dict[str, Any]:
    url = f"pkg:npm/{part['name']}@{part['version']}"
    content = (Path(__file__).parents[1] / part["file"]).read_bytes()
    return {
        "type": "library",
        "bom-ref": url,
        "name": part["name"],
        "version": part["version"],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        "licenses": [{"expression": part["licence"]}],
        "purl": url,
        "properties": [{"name": "medunlearn:file", "value": f"medunlearn/{part['file']}"}],
    }


def _interpreter() -> dict[str, Any]:
    return {
        "type": "platform",
        "bom-ref": "python",
        "name": platform.python_implementation(),
        "version": platform.python_version(),
    }
