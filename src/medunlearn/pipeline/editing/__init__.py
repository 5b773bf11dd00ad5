"""Runs of methods that change weights without training."""
