"""Papers: one folder each, which declares all of itself as a :class:`medunlearn.paper.Paper` (see README.md)."""

from __future__ import annotations

from collections.abc import Mapping

PAPERS: Mapping[str, str] = {
    "amnesia": "medunlearn.papers.amnesia:PAPER",
    "diagnosis": "medunlearn.papers.memorization.diagnosis:PAPER",
    "medforget": "medunlearn.papers.medforget:PAPER",
    "lume": "medunlearn.papers.lume:PAPER",
    "memorization": "medunlearn.papers.memorization:PAPER",
    "tofu": "medunlearn.papers.tofu:PAPER",
    "muse": "medunlearn.papers.muse:PAPER",
    "wmdp": "medunlearn.papers.wmdp:PAPER",
    "notes": "medunlearn.papers.notes:PAPER",
    "options": "medunlearn.papers.options:PAPER",
}
"""Name -> declaration, in the order of `build --help`. An installed package adds its own by an entry point in the
group ``medunlearn.papers``."""
