"""The trained target of the small hospital, and a small experiment."""

from trained_target import copy, experiment_values, target

__all__ = ["copy", "experiment_values", "target"]
