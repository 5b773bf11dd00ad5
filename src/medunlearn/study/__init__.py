"""Recorded runs that resume: train, unlearn, evaluate, and the pipeline of an experiment."""
