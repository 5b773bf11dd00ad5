"""Runs that are recorded and resume: train, unlearn, evaluate, and the pipeline of an experiment."""
