"""No file outside ``attacks/`` knows an attack by name: whoever adds one writes one object in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import medunlearn
from medunlearn.attacks import ATTACKS, families

SOURCE = Path(medunlearn.__file__).parent
NAMES = {*ATTACKS, *families()}
WORDS = {
    "extraction_strength": "the measure that the attack of this name asks",
    "loss": "of training, in tables and figures of runs",
    "reference": "an answer that a response is compared with, and the retrained model",
}
"""Names that are everyday words elsewhere -> what they mean there."""
OTHERS = {
    ("audit/first_screen.py", "sampling"): "sampled responses of an audit",
    ("data/records.py", "membership"): "the group of texts that a benchmark's authors chose",
    ("papers/medforget/claims.py", "reconstruction"): "a claim of the paper",
    ("papers/medforget/report.py", "reconstruction"): "a section of the paper's page",
    ("papers/medforget/models.py", "reconstruction"): "the paper's own table is of this attack's scores",
    ("methods/perturbations.py", "relearning"): "the title of a perturbation of the weights",
    ("papers/muse/report.py", "min_k.muse"): "the paper's own measure is of this attack's scores",
    ("training/loop.py", "gradient_norm"): "a column of the training history",
}
"""File and name -> its other meaning there."""


def test_nobody_asks_which_attack_it_is() -> None:
    literals = {
        (path.relative_to(SOURCE).as_posix(), node.value)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES - {*WORDS}
    }
    assert {(file, name) for file, name in literals if not file.startswith("attacks/")} == set(OTHERS)


def test_nobody_imports_a_single_attack() -> None:
    modules = {target.partition(":")[0] for target in ATTACKS.values()}
    importers = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in modules
    }
    assert importers <= {"attacks"}
