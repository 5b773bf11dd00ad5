"""Memorization in Large Language Models in Medicine (Li et al.): audits."""

from __future__ import annotations

from medunlearn.paper import Paper

_HERE = __name__
PAPER = Paper(
    name="memorization",
    title="Audits: texts that a model repeats, identifiers and kinds in them, and their report.",
    source="Memorization in Large Language Models in Medicine (Li et al.).",
    package=_HERE,
    experiment=f"{_HERE}.adaptation:plan",
    demos={"audit": f"{_HERE}.demo:run_demo"},
)
