"""The part of a memorization audit that looks for patients: identifiers, sensitive content, a manual review."""

from medunlearn.experiments.audit_identifiers.find import find_identifiers, find_sensitive
from medunlearn.experiments.audit_identifiers.outputs import Frames, frames, outputs_of

__all__ = ["Frames", "find_identifiers", "find_sensitive", "frames", "outputs_of"]
