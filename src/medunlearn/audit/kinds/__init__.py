"""Kinds of memorized text: knowledge, set phrases, or content that belongs to a patient or data set.

- :mod:`rules`: the catalogue of kinds, and sorting by words and evidence.
- :mod:`sorting`: ``kinds.parquet`` of an audit, by rules, a judge and people. :mod:`summary`: an audit's folder.
"""

from medunlearn.audit.kinds.kind_rules import GROUPS, kinds

__all__ = ["GROUPS", "kinds"]
