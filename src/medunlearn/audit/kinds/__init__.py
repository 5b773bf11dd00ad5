"""Kinds of memorized text: knowledge, set phrases, or content that belongs to a patient or data set.

- :mod:`rules`: the catalogue of kinds, and sorting by words and evidence. :mod:`sheet`: sorting by a person.
- :mod:`sorting`: ``kinds.parquet`` of an audit. :mod:`summary`: sort, review and correct an audit's folder.
"""

from medunlearn.audit.kinds.rules import GROUPS, KindLabel, KindRules, MemorizedSpan, TextKind, group_of, kinds

__all__ = ["GROUPS", "KindLabel", "KindRules", "MemorizedSpan", "TextKind", "group_of", "kinds"]
