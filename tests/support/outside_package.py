"""A package outside of the tree with plug-ins of every kind, made of the code that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

from noise_attack import NOISE

import medunlearn

PAPERS = Path(medunlearn.__file__).parent / "papers" / "README.md"
CONTRIBUTING = Path(medunlearn.__file__).parents[2] / "CONTRIBUTING.md"
ENTRY_POINTS = {
    "papers": {"haiku": "haiku:PAPER"},
    "methods": {"mine": "haiku.method:Mine"},
    "measures": {"length": "haiku.measure:METRIC"},
    "attacks": {"noise": "haiku.noise:Noise"},
    "sources": {"cards": "haiku.cards:CARDS"},
}


def code_blocks(page: Path) -> list[str]:
    """The Python code that a page shows."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def write_package(site: Path) -> Path:
    """Write the package ``haiku`` as pip would leave it in a folder of packages, with its entry points."""
    method, measure, cards = code_blocks(CONTRIBUTING)
    declaration, build, report = code_blocks(PAPERS)
    files = {
        "__init__": declaration, "build": build, "report": report, "method": method, "measure": measure,
        "cards": cards, "noise": NOISE,
    }  # fmt: skip
    for name, code in files.items():
        path = site / "haiku" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    install(site, "haiku", ENTRY_POINTS)
    return site


def install(site: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    """The metadata of an installed package with these entry points."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = (
        f"[medunlearn.{group}]\n" + "".join(f"{key} = {target}\n" for key, target in points.items())
        for group, points in groups.items()
    )
    (info / "entry_points.txt").write_text("\n".join(sections))
