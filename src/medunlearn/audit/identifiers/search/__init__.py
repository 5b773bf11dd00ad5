"""The part of a memorization audit that looks for patients: identifiers, sensitive content, a manual review."""

from medunlearn.audit.identifiers.search.find import find_identifiers, find_sensitive
from medunlearn.audit.identifiers.search.outputs import Frames, frames, outputs_of

__all__ = ["Frames", "find_identifiers", "find_sensitive", "frames", "outputs_of"]
