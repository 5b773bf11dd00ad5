"""The trained target of the small hospital, and a small experiment."""

from trained_target import copy, experiment_values, knowing, target

__all__ = ["copy", "experiment_values", "knowing", "target"]
