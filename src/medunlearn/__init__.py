"""Measure what a medical language model memorized, make it forget, and show what was forgotten."""

__version__ = "0.1.0"
