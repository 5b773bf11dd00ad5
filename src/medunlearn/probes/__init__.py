"""Probes: the questions that a model is asked, who answers them, and the scores of the answers."""
