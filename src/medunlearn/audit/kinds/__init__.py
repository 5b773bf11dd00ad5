"""Kinds of memorized text: knowledge, set phrases, or content that belongs to a patient or data set.

- :mod:`kind_rules`: the catalogue of kinds, and sorting by words and evidence.
- :mod:`memorized_spans`: an audit's spans with their evidence. :mod:`sorting`: rules, a judge and people sort them
  into ``kinds.parquet``. :mod:`kind_summary`: counts, and agreement of the three.
"""

from medunlearn.audit.kinds.kind_rules import GROUPS, kinds

__all__ = ["GROUPS", "kinds"]
