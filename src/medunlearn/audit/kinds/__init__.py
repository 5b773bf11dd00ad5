"""What kind of text a memorized span is: knowledge, set phrases, or what belongs to a patient or data set.

- :mod:`catalogue` names the kinds; :mod:`rules` sorts by words and evidence; :mod:`frequency` counts set phrases.
- :mod:`asking` has a language model sort; :mod:`sheet` has a person sort; :mod:`agreement` compares the ways.
"""

from medunlearn.audit.kinds.catalogue import GROUPS, Group, Kind, group_of, kinds
from medunlearn.audit.kinds.rules import Rules, Sorted, Span

__all__ = ["GROUPS", "Group", "Kind", "Rules", "Sorted", "Span", "group_of", "kinds"]
