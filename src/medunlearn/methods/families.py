"""Families of unlearning methods, as their classes declare them.

A method says of itself how it forgets and what preserves the retain set, as two strings of its class::

    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "loss"

Findings about a family count every method that declares it. Both are read from the class's source, because a report
must not run code that a run's record names, and needs no torch. So they are literals; those of a base class count.

Further families here: ``representation``, ``alternative answers``, ``distillation``, ``weight editing``. A
further retain term: ``hidden states``.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

GRADIENT_ASCENT = "gradient ascent"
"""Raises the loss of the forget set, without a bound."""
NORMALIZED_ASCENT = "normalized gradient ascent"
"""Raises it by steps whose length does not depend on the loss."""
PREFERENCE = "preference"
"""Makes the true answers dispreferred; saturates once they are unlikely."""
OTHER = "other"
"""The family of a method that declares none."""
NO_TERM, LOSS, DIVERGENCE = "none", "loss", "divergence"
"""Retain terms: none, the loss on the retain set, or outputs held at the reference's."""


def declaration(target: str, attribute: str, default: str) -> str:
    """The string that the class behind ``module:Class``, or else one of its bases, assigns to an attribute."""
    module, _, name = target.partition(":")
    return next(_literals(module, name, attribute, set()), default)


def _literals(module: str, name: str, attribute: str, visited: set[tuple[str, str]]) -> Iterator[str]:
    """Literals that a class and its bases assign to an attribute, the class's own first."""
    path = None if (module, name) in visited else _source(module)
    if path is None:
        return
    visited.add((module, name))
    body = _statements(path)
    imports = _imports(body)
    if name in imports:
        yield from _literals(*imports[name], attribute, visited)
    for cls in (node for node in body if isinstance(node, ast.ClassDef) and node.name == name):
        for node in cls.body:
            if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
                    yield str(node.value.value)
        for base in (base.id for base in cls.bases if isinstance(base, ast.Name)):
            yield from _literals(*imports.get(base, (module, base)), attribute, visited)


def _imports(body: Sequence[ast.stmt]) -> dict[str, tuple[str, str]]:
    """Name -> the module and name that it is imported from."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


def _source(module: str) -> Path | None:
    """The file of a module that is installed or in the working folder, found without importing its package."""
    top, *below = parts = module.split(".")
    if not all(map(str.isidentifier, parts)):
        return None
    loaded = sys.modules.get(top)
    spec = loaded.__spec__ if loaded is not None else find_spec(top) or PathFinder.find_spec(top, [os.getcwd()])
    if spec is None or not below:
        return None if spec is None or not spec.has_location else Path(str(spec.origin))
    folders = [Path(folder, *below) for folder in spec.submodule_search_locations or ()]
    paths = [path for folder in folders for path in (folder.with_suffix(".py"), folder / "__init__.py")]
    return next((path for path in paths if path.is_file()), None)


def _statements(path: Path) -> Sequence[ast.stmt]:
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()


@lru_cache(maxsize=64)
def _parse(source: str) -> Sequence[ast.stmt]:
    return ast.parse(source).body
