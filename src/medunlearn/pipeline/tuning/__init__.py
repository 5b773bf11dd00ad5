"""Tuning: every method's settings with an equal budget, chosen on one half of the subjects (docs/scale.md)."""
