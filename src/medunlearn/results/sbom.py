"""Software bill of materials of the running environment, as CycloneDX 1.6 (ECMA-424).

Every case holds one; ``python -m medunlearn.results.sbom`` prints it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from medunlearn.results.licence import licence_of
from medunlearn.results.machine import code

# What installers add beside a wheel's own files; it differs from one machine to the next.
_ADDED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
_EPOCH = datetime.fromtimestamp(0, UTC)


def sbom() -> str:
    """JSON document of every installed distribution and the interpreter.

    A component has its version, licence and package URL. Its hash is that of the installed archive (SHA-256), if
    the installer recorded it; ``medunlearn:record-sha256`` covers paths and hashes of its installed files. Two
    environments with the same components have the same ``serialNumber``.
    """
    installed: dict[str, tuple[Distribution, dict[str, Any]]] = {}
    for distribution in distributions():
        metadata = distribution.metadata.json  # parsed from the file at each use
        if "name" in metadata:
            installed.setdefault(_normalize(str(metadata["name"])), (distribution, metadata))
    components = {name: _component(name, *of) for name, of in installed.items()}
    dependencies = [
        Dependency(component.bom_ref, (Dependency(components[other].bom_ref) for other in needs & {*components}))
        for component, needs in ((components[name], {*_needs(*of)}) for name, of in installed.items())
    ]
    own = components.pop("medunlearn", Component(name="medunlearn", bom_ref="medunlearn"))
    own.type = ComponentType.APPLICATION
    if commit := code()["commit"]:
        changed = "changed since" if code()["dirty"] else "as committed"
        own.properties.add(Property(name="medunlearn:commit", value=f"{commit}, {changed}"))
    tool = Component(name="medunlearn", type=ComponentType.APPLICATION)
    bom = Bom(
        components=[*components.values(), _interpreter()],
        dependencies=dependencies,
        metadata=BomMetaData(component=own, tools=ToolRepository(components=[tool]), timestamp=_EPOCH),
        serial_number=UUID(int=0),
    )
    bom.serial_number = uuid5(NAMESPACE_URL, _to_json(bom))
    bom.metadata.timestamp = datetime.now(UTC).replace(microsecond=0)
    return _to_json(bom)


def _to_json(bom: Bom) -> str:
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _normalize(name: str) -> str:
    """A distribution's name in the normal form of package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _component(name: str, distribution: Distribution, metadata: dict[str, Any]) -> Component:
    url = PackageURL("pypi", name=name, version=metadata["version"])
    expression = metadata.get("license_expression")
    licence = licence_of(expression, metadata.get("classifier", []), metadata.get("license"))
    component = Component(
        name=metadata["name"],
        version=metadata["version"],
        bom_ref=str(url),
        purl=url,
        licenses=[LicenseExpression(licence) if expression else DisjunctiveLicense(name=licence)],
    )
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if archive := origin.get("archive_info", {}).get("hashes", {}).get("sha256"):
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=archive))
    # A folder's RECORD names a link to it, not its files.
    if "dir_info" not in origin and (record := _record_hash(distribution)):
        component.properties.add(Property(name="medunlearn:record-sha256", value=record))
    return component


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


def _needs(distribution: Distribution, metadata: dict[str, Any]) -> Iterator[str]:
    """Names of a distribution's requirements, without extras; a marker counts as met if the name is installed."""
    for line in metadata.get("requires_dist") or distribution.requires or ():
        if "extra ==" not in line and (name := re.match(r"[A-Za-z0-9._-]+", line)):
            yield _normalize(name[0])


def _interpreter() -> Component:
    name, version = platform.python_implementation(), platform.python_version()
    return Component(name=name, version=version, bom_ref="python", type=ComponentType.PLATFORM)


if __name__ == "__main__":
    print(sbom())
