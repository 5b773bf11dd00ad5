"""Measure what a medical language model memorized, make it forget, and show what was forgotten."""
