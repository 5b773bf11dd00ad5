"""Tuning of every method's settings with an equal budget, selected on one half of the subjects (docs/scale.md)."""
