"""Probe sets: what was asked, recorded in ``probes.json`` so that another model or command is asked the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.config.probe_settings import PROBES_FILE, ProbeSettings, read_probes
from medunlearn.data.storage import sha256_of_json, write_json
from medunlearn.errors import InputError


@dataclass(frozen=True)
class ProbeManifest:
    """Manifest of the probes of an evaluation or an audit; holds no text.

    Attributes:
        of: what they are made from: questions, or texts.
        material: name of a benchmark or corpus -> its fingerprint.
        count: number of probes.
        ids: SHA-256 of their ids, in any order.
    """

    of: str
    settings: Mapping[str, Any]
    material: Mapping[str, str]
    count: int
    ids: str

    @staticmethod
    def make(settings: ProbeSettings, material: Mapping[str, str], ids: Iterable[str]) -> ProbeManifest:
        names, sorted_ids = settings.of_probes(), sorted(ids)
        values = settings.model_dump(mode="json", include=set(names))
        return ProbeManifest(
            settings.PROBES_OF, values, dict(material), len(sorted_ids), sha256_of_json(sorted_ids)
        )

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints: the same probes of the same material, asked in the same way."""
        return sha256_of_json([self.of, self.settings, self.material, self.ids])

    def facts(self) -> dict[str, Any]:
        """For ``run.json``."""
        return {"fingerprint": self.fingerprint, "count": self.count}

    def write(self, folder: Path) -> None:
        """Write ``probes.json``."""
        facts = {name: getattr(self, name) for name in ("of", "settings", "material", "count", "ids")}
        write_json(folder / PROBES_FILE, {**facts, "fingerprint": self.fingerprint})


def refuse_other_material(file: Path | None, material: Mapping[str, str]) -> None:
    """Refuse a probe set that was made from another benchmark or corpus, or from one that has changed.

    Raises:
        InputError: names what differs.
    """
    if file is None:
        return
    recorded = read_probes(file).get("material")
    recorded = recorded if isinstance(recorded, dict) else {}
    if recorded != dict(material):
        names = [name for name in {**recorded, **material} if recorded.get(name) != material.get(name)]
        raise InputError(
            f"The probes in {file} were made from something else, or it has changed since: {', '.join(names)}. "
            "Name what they were made from, or leave --probes out."
        )


def refuse_other_probes(file: Path | None, probes: ProbeManifest) -> None:
    """Refuse probes that differ from those of the file, though settings and material are the same.

    Raises:
        InputError: another version of medunlearn draws others.
    """
    if file is not None and read_probes(file).get("ids") != probes.ids:
        raise InputError(
            f"The probes in {file} are not those that its settings give here: it was changed, or another version "
            "of medunlearn wrote it."
        )
